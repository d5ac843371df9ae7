"""Estimate the worth of results to the agent, and which results it is likely to use again. Decides nothing.

*Worth.* An agent acts by names: it searches for them, writes them, and opens files that it has read. A result is worth
more, the more of its names no call has used yet, the smaller and newer it is, and the more recently any call touched
its file:

    1000 · (1 + fresh names + long words / 10) / (tokens^1.2 · √age) · (1 + 6 · 2^(-requests since the touch / 40))

Long words stand for prose, which holds few names. The constants were fitted by replaying recorded sessions.

*In use.* A result counts as used once the agent has written about it, or written enough for all that it had read
(`usage` says what counts), and then turned to something else. Before that its worth is unknown: one report may follow
another, and the user may ask for a second one. A picture with few words also counts as used once three newer
ones of the same screen have come: few agents write about each, and the loops of computer use that vendors show keep
three.
"""

import re
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
from autoprune.facts.actions import Action
from autoprune.facts.calls import argument_texts, arguments, command, identifiers, paths, tool_words
from autoprune.strategies.usage import CHANGING, AgentText, UseTracker, prose, written_text

LEAST_TOKENS = 60  # smaller results always stay: their placeholder would save next to nothing
TOUCHED_FACTOR, TOUCHED_HALF = 6.0, 40  # the factor of a touched file, and its half-life in requests
NEVER = -(10**6)  # a request number long before the first
LONG_WORD, LONG_WORDS = 9, 0.1  # letters, and the value of such a word relative to a name
FILE = re.compile(r"(?<![\w.@$/+-])[\w./@+-]*[\w@+-]\.[A-Za-z]\w{0,5}(?![\w/])")
LATELY = 20  # requests for which a file counts as being edited
SCREENS = frozenset(("computer", "browser", "screen", "desktop"))  # words in the names of tools that show one screen
OBJECTS = frozenset(("tab", "page", "window", "display", "url", "id", "image", "file", "path"))  # in arguments
LONGEST_CAPTION = 500  # characters
NEWER_PICTURES = 3  # of the same screen, by which a picture is out of date
NOTHING_CLEARED: Mapping[ToolResult, int] = {}
EDITED, NEWEST_FAILURE = "file being edited", "newest failure"  # why a result is in use


@dataclass(eq=False)
class _Known:
    """A result with its `fresh` names, which no call has used, each once, in order."""

    result: ToolResult
    fresh: dict[str, None]

    @cached_property
    def tokens(self) -> int:
        """The tokens of the payload."""
        return self.result.tokens

    @cached_property
    def size(self) -> float:
        """The divisor of the worth for the payload's tokens."""
        return float(self.tokens**1.2)

    @cached_property
    def prose(self) -> float:
        """The value of the long words in the text, in names."""
        return LONG_WORDS * len(
            {word for word in self.result.text.split() if len(word) >= LONG_WORD and word.isalpha()}
        )

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The names of the files that the call touches."""
        return touched_files(self.result.call) if self.result.call else ()


@dataclass
class Worth:
    """The worth of results in one walk, given the names that calls have used and the files that calls touched."""

    _known: dict[int, _Known] = field(default_factory=dict)  # by the identity of results
    _used: set[str] = field(default_factory=set)
    _touched: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # requests in order, by file

    def observe(self, entry: Entry) -> None:
        """Read one more message."""
        for call in entry.calls:
            for file in touched_files(call):
                insort(self._touched[file], call.request)
            self._use(set(identifiers(argument_texts(call))) - self._used)
        for folded in entry.folded:
            self._read_lines(folded.lines, folded.last)
        for result in entry.results:
            self._known[id(result)] = _Known(result, self._fresh(result))

    def forget(self, result: ToolResult) -> None:
        """Drop a result that was cleared."""
        self._known.pop(id(result), None)

    def fold(self, calls: Iterable[ToolCall], block: str, last: int) -> None:
        """Forget which files calls up to step `last` touched, apart from what the `block` says that replaces them.

        A walk over the output knows no more.
        """
        for call in calls:
            for file in touched_files(call):
                if call.request in self._touched[file]:
                    self._touched[file].remove(call.request)
        self._read_lines(block.split("\n")[1:], last)

    def _read_lines(self, lines: Iterable[str], last: int) -> None:
        for file in _base_names(word for line in lines for word in FILE.findall(line)):
            insort(self._touched[file], last)

    def fresh_names(self, result: ToolResult) -> Iterable[str]:
        """Return the names in a result that no call has used so far, each once, in order."""
        return self._known[id(result)].fresh

    def _fresh(self, result: ToolResult) -> dict[str, None]:
        return dict.fromkeys(name for name in identifiers(result.text) if name not in self._used)

    def _use(self, names: set[str]) -> None:
        """Record names that a call has used for the first time."""
        self._used |= names
        for known in self._known.values():
            for name in names:
                known.fresh.pop(name, None)

    def worth_of(self, result: ToolResult, request: int) -> float:
        """Return the worth of a result at a request; infinite for a small result, which always stays."""
        entry = self._known[id(result)]
        if entry.tokens < LEAST_TOKENS:
            return inf
        age = max(1, request - result.request)
        newest = (requests[-1] for file in entry.files if (requests := self._touched.get(file)))
        since = request - max(newest, default=NEVER)
        touched = 1 + TOUCHED_FACTOR * float(0.5 ** (since / TOUCHED_HALF))
        return 1_000 * (1 + len(entry.fresh) + entry.prose) / float(entry.size * age**0.5) * touched


def touched_files(call: ToolCall) -> tuple[str, ...]:
    """Return the base names of the files that a call touches: in arguments, in a patch, in a shell command."""
    return _base_names((*paths(call), *FILE.findall(command(call))))


def _base_names(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for word in words if (name := word.rstrip("/").rpartition("/")[2])))


class AtWork:
    """Track in one walk which results the agent is likely to look back at, regardless of their content."""

    def __init__(self) -> None:
        """Start before the first message."""
        self.failure: ToolResult | None = None  # the newest failure, without calls that the user refused
        self._failed: set[int] = set()  # results by identity
        self._edited: dict[str, int] = {}  # paths, with the newest request that changed each
        self._reads: dict[str, dict[str, ToolResult]] = {}  # by base name and path, the newest last
        self._usage = UseTracker()
        self._pictures: dict[str, list[ToolResult]] = {}  # the newest of each screen
        self._outdated: dict[ToolResult, int] = {}  # older ones, with the request by which they are out of date
        self._answer: tuple[str, ...] = ()  # the newest message, if it is the model's without calls
        self._newest_sent = 0  # the request that sent the newest result
        self._texts: list[AgentText] = []  # what the agent wrote, until it does something else
        self._written = 0  # the request of the newest such text

    def observe(self, entry: Entry, cleared: Mapping[ToolResult, int] = NOTHING_CLEARED) -> None:
        """Read one more message.

        `cleared` are results that are placeholders, each with the tokens of the result that it replaced.
        """
        if entry.is_users and self._answer:
            self._texts.append(prose("\n".join(self._answer)))  # an answer is writing too
            self._written = self._newest_sent
        is_answer = entry.speaker is Speaker.MODEL and not entry.calls
        self._answer = entry.texts if is_answer else ()
        for result in entry.results:
            action = Action(result.call, result)
            if text := written_text(action):
                self._texts.append(text)
                self._written = result.request
            elif self._texts and self._written < result.request:
                self._usage.write(self._texts, self._written)
                self._texts.clear()
            self._usage.observe_result(action, result, cleared.get(result))
            self._observe_picture(result)
            self._newest_sent = result.sent
            if action.failed:
                self._failed.add(id(result))
                self.failure = self.failure if action.is_refused else result
            for does, path in action.files():
                if does in CHANGING:
                    self._edited[_normal_path(path)] = result.request
                elif does == "read" and not action.failed:
                    reads = self._reads.setdefault(_base_name(path), {})
                    reads.pop(_normal_path(path), None)
                    reads[_normal_path(path)] = result

    def _observe_picture(self, result: ToolResult) -> None:
        """Note which picture of a screen a new one makes out of date. One with a long text is a document."""
        if result.is_plain or result.call is None or len(result.text) > LONGEST_CAPTION:
            return
        given = arguments(result.call)
        if not SCREENS.isdisjoint(tool_words(result.tool)):
            given = {name: value for name, value in given.items() if not OBJECTS.isdisjoint(tool_words(name))}
        shown = f"{result.tool} {given}"
        newest = self._pictures.setdefault(shown, [])
        newest.append(result)
        if len(newest) > NEWER_PICTURES:
            self._outdated[newest.pop(0)] = result.request

    def used_at(self, result: ToolResult) -> int | None:
        """Return the request by which the agent had used a result; None if the result is unused.

        The agent uses results by writing after it saw them, and then turning to something else.
        """
        used_at = self._usage.used_at(result)
        return self._outdated.get(result) if used_at is None else used_at

    def has_failed(self, result: ToolResult) -> bool:
        """Return whether the call of a result has certainly failed."""
        return id(result) in self._failed

    def in_use(self, request: int) -> Mapping[ToolResult, str]:
        """Return the results that the agent is likely to look back at, each with the reason in a few words."""
        edited = dict.fromkeys(self.edited_files(request), EDITED)
        return {self.failure: NEWEST_FAILURE, **edited} if self.failure else edited

    def edited_files(self, request: int) -> Iterator[ToolResult]:
        """Yield the newest read of each file that was edited in the last 20 requests, each once."""
        self._edited = {path: when for path, when in self._edited.items() if when >= request - LATELY}
        newest = (self._newest(path) for path in self._edited)
        yield from dict.fromkeys(result for result in newest if result)

    def patterns(self, request: int) -> Set[ToolResult]:
        """Return the newest read of each file that may be a pattern for one that was edited in the last 20 requests.

        Such files have the same folder and the same type.
        """
        edited = {_kind(path) for path, when in self._edited.items() if when >= request - LATELY}
        known = (each for reads in self._reads.values() for each in reads.items())
        return {result for path, result in known if _kind(path) in edited}

    def clear(self, results: Iterable[ToolResult]) -> None:
        """Record that results were cleared at this request: no text uses them up any more."""
        self._usage.clear(results)

    def _newest(self, path: str) -> ToolResult | None:
        """Return the newest read of a file, by the same path or by a path relative to another folder."""
        reads = self._reads.get(_base_name(path), {})
        return next((reads[each] for each in reversed(reads) if _may_be_same_file(each, path)), None)


def _normal_path(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _kind(path: str) -> tuple[str, str]:
    """Return the folder and the type of a file."""
    folder, _, name = path.rpartition("/")
    return folder, name.rpartition(".")[2]


def _base_name(path: str) -> str:
    return _normal_path(path).rpartition("/")[2]


def _may_be_same_file(one: str, other: str) -> bool:
    """Return whether two paths may name the same file, one of them relative to a folder."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
