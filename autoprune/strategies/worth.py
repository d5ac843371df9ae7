"""Estimate the worth of results to the agent, and which results it has used or is likely to use again. Decides nothing.

*Worth.* An agent acts by names: it searches for them, writes them, and opens files that it has read. A result is worth
more, the more of its names no call has used yet, the smaller and newer it is, and the more recently any call touched
its file:

    1000 · (1 + fresh names + long words / 10) / (tokens^1.2 · √age) · (1 + 6 · 2^(-requests since the touch / 40))

Long words stand for prose, which holds few names. The constants were fitted by replaying recorded sessions.

*Use.* A result counts as used once the agent has written about it, or written enough for all that it had read, and then
turned to something else. Before that its worth is unknown: one report may follow another, and the user may ask for a
second one. A picture with few words also counts as used once three newer ones of the same screen have come: few agents
write about each, and the loops of computer use that vendors show keep three.

An agent reads until it knows enough, and then it writes. What it writes uses up the results before it in proportion to
its length, 40 tokens of results for each character. Plans use up nothing, because they come before the work.

*What was written about.* A long text first uses up the results that share the most distinctive words, names and numbers
with it. Code uses up only the results of work, such as source files, searches and the output of commands. Prose, such
as a report or an answer to the user, also uses up documents and data. So an agent that reads papers, writes scripts and
then writes a report has the papers in view until the report.

*The rest.* Results that nothing was written about are used up together, as soon as the texts are long enough for all of
them: the agent has turned to something else. Single short texts, such as a note, therefore use up nothing.

*Cleared results.* A walk over pruned output that is passed back does not have the text of a cleared result. So no text
is compared with it, not even one that was written before it was cleared: that one is taken to be about the results that
were cleared since. When results are cleared, everything is worked out again in this way.
"""

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import NamedTuple

from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
from autoprune.facts.actions import CHANGING, Action
from autoprune.facts.calls import argument_texts, arguments, command, identifiers, is_plan, paths, tool_words

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
        return self.result.tokens

    @cached_property
    def size(self) -> float:
        """The divisor of the worth for the payload's tokens."""
        return float(self.tokens**1.2)

    @cached_property
    def prose(self) -> float:
        """The value of the long words in the text, in names."""
        text = self.result.text
        words = {word for word in text.split() if len(word) >= LONG_WORD and word.isalpha()}
        return LONG_WORDS * len(words.union(LONG_RUN.findall(text)))

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


class InUse:
    """Track in one walk which results the agent is likely to look back at, regardless of their content."""

    def __init__(self) -> None:
        self.failure: ToolResult | None = None  # the newest failure, without calls that did not run
        self._only_read = True  # whether that call only read
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
                # A search without a match or a missing file is no news beside a failed test.
                is_news = not (action.is_refused or action.is_cancelled)
                if is_news and (not action.is_read_only or self._only_read):
                    self.failure, self._only_read = result, action.is_read_only
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


# What the agent has used, from what it has written

TOKENS_PER_CHARACTER = 40  # of results that a written character uses up
QUERY_TOKENS = 3  # the same for short scripts, which are queries, for code and for a text about other documents
FREE_PROSE = 300  # characters of prose that use up nothing: a note, a question
LONG_CODE, LONG_PROSE = 1_500, 800  # characters; shorter texts share words with results by chance
LEAST_SHARED = 2  # distinctive words that a text shares with a result that it is about
BY_CHANCE = 0.25  # of the most words that a result shares: with fewer, the text is not about the result
COMMON = 4  # results; a word in so many is not distinctive
MOST_COMPARED = 4  # texts that each result is compared with, so that the cost stays linear
LEAST_WRITING = 1_000  # characters of arguments: fewer are a query, more are the agent's text, such as a report
WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"  # Thai to Khmer, kana, Han
LONG_RUN = re.compile(rf"[{WITHOUT_SPACES}]{{{LONG_WORD}}}")  # as many in a text as long words in its translation
GRAM = 4  # characters of a script without spaces that count as a word
NUMBER = r"\d{1,3}(?:[,'_\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
WORD = re.compile(
    rf"(?P<number>{NUMBER})|(?P<run>[{WITHOUT_SPACES}]{{{GRAM},}})|[^\W\d{WITHOUT_SPACES}][^\W{WITHOUT_SPACES}]{{3,}}"
)
LEAST_DIGITS = 4  # of a number; shorter ones are in a text by chance
SEPARATORS = str.maketrans("", "", ",'_\u00a0\u202f")  # in numbers
NO_WORDS: Set[str] = frozenset()
PROSE_TYPES = "md mdx markdown rst txt tex adoc org html htm docx rtf"  # extensions
CODE_TYPES = (  # of source code and of what configures it; any other file is a document or data
    "py pyi js jsx mjs cjs ts tsx go rs java kt scala rb php swift c h cc cpp hpp cs m mm sh bash zsh ps1 lua pl r jl "
    "ex exs erl hs ml clj dart zig sql css scss vue svelte tf proto gradle toml yaml yml lock mod sum cfg mk cmake"
)
PROSE, CODE = frozenset(PROSE_TYPES.split()), frozenset(CODE_TYPES.split())
# Commands that print what a task is about: a diff under review, an issue.
MATERIAL = re.compile(r"\bgit\b[^|;&\n]*? (?:diff|show)\b|\bgh (?:issue|pr) (?:view|diff)\b")
SEARCHES = frozenset(("grep", "glob", "ls", "list", "search", "find"))  # words in the names of tools
WEB = frozenset(("web", "fetch", "browser", "page"))


class AgentText(NamedTuple):
    """A text of the agent in one call or answer, and the tokens of work that it uses up."""

    text: str
    is_prose: bool
    tokens: float


class _Read(NamedTuple):
    """A result that the agent read, and the tokens that it has or had."""

    result: ToolResult
    tokens: int
    is_document: bool


@dataclass(eq=False)
class _Pool:
    """Unused results of one kind, oldest first, with the tokens that no text has used up yet."""

    left: dict[ToolResult, float] = field(default_factory=dict)
    total: float = 0.0
    room: float = 0.0  # tokens that texts may still use up

    def hold(self, result: ToolResult, tokens: int) -> None:
        """Add a result, of which nothing is used up."""
        self.left[result] = tokens
        self.total += tokens

    def take(self, result: ToolResult, most: float) -> float:
        """Use up tokens of a result, and return their number. A result without tokens is no longer unused."""
        taken = min(most, self.left[result])
        self.left[result] -= taken
        self.total -= taken
        if self.left[result] <= 0:
            del self.left[result]
        return taken

    def take_rest(self, tokens: float) -> list[ToolResult]:
        """Return all results if the texts so far are long enough for them together, else none."""
        self.room += tokens
        if self.total > self.room:
            return []
        rest = list(self.left)
        self.left.clear()
        self.total = self.room = 0.0
        return rest


@dataclass(frozen=True, eq=False)
class _Texts:
    """The agent's texts since it last turned to something else, as one text of prose or code."""

    request: int
    is_prose: bool
    characters: int
    tokens: float
    words: Set[str]  # distinctive ones; none if the text is short

    @classmethod
    def of(cls, texts: Iterable[AgentText], request: int, *, is_prose: bool) -> "_Texts":
        """Join the texts of one kind."""
        given = [each for each in texts if each.is_prose is is_prose]
        text = "\n".join(each.text for each in given)
        is_long = len(text) >= (LONG_PROSE if is_prose else LONG_CODE)
        words = distinctive_words(text) if is_long else NO_WORDS
        return cls(request, is_prose, len(text), sum(each.tokens for each in given), words)


class UseTracker:
    """Track in one walk which results the agent has used, and by which request."""

    def __init__(self) -> None:
        self._events: list[_Read | _Texts | ToolResult] = []  # what was read, written and cleared
        self._cleared: set[ToolResult] = set()
        self._words: dict[ToolResult, Set[str]] = {}  # of the results that a text was compared with
        self._start()

    def _start(self) -> None:
        self._new: list[_Read] = []  # not sent yet when the agent last wrote
        self._work, self._documents = _Pool(), _Pool()
        self._compared: Counter[ToolResult] = Counter()
        self._used_at: dict[ToolResult, int] = {}

    def used_at(self, result: ToolResult) -> int | None:
        """Return the request by which the agent had used a result; None if the result is unused."""
        return self._used_at.get(result)

    def observe_result(self, action: Action, result: ToolResult, tokens: int | None = None) -> None:
        """Record the result of an action. If it is a placeholder, `tokens` are those of the cleared result."""
        if tokens is not None:
            self._cleared.add(result)
        self._take(_Read(result, result.tokens if tokens is None else tokens, is_document(action)))

    def write(self, texts: Sequence[AgentText], request: int) -> None:
        """Record what the agent wrote until a request: it uses up results."""
        for is_prose in (False, True):
            self._take(_Texts.of(texts, request, is_prose=is_prose))

    def clear(self, results: Iterable[ToolResult]) -> None:
        """Record that results were cleared at this point."""
        cleared = [*results]
        mattered = any(self._compared[result] and result not in self._cleared for result in cleared)
        self._events += cleared
        self._cleared.update(cleared)
        if mattered:
            self._start()
        for event in self._events if mattered else cleared:
            self._apply(event)

    def _take(self, event: _Read | _Texts) -> None:
        self._events.append(event)
        self._apply(event)

    def _apply(self, event: _Read | _Texts | ToolResult) -> None:
        if isinstance(event, _Read):
            self._new.append(event)
        elif isinstance(event, _Texts):
            self._used_at.update((result, event.request) for result in self._used_up(event))
        else:
            self._forget(event)

    def _forget(self, result: ToolResult) -> None:
        """Drop a cleared result: no text uses it up any more."""
        self._words.pop(result, None)
        self._new = [each for each in self._new if each.result is not result]
        for pool in (self._work, self._documents):
            if result in pool.left:
                pool.take(result, inf)

    def _used_up(self, texts: _Texts) -> Iterator[ToolResult]:
        """Yield the results that texts use up."""
        for each in self._new:
            if each.result.sent <= texts.request:
                (self._documents if each.is_document else self._work).hold(each.result, each.tokens)
        self._new = [each for each in self._new if each.result.sent > texts.request]
        pools = (self._work, self._documents) if texts.is_prose else (self._work,)
        about = self._written_about(texts.words, pools) if texts.words else []
        tokens = texts.tokens
        for result in about:
            pool = next(each for each in pools if result in each.left)
            tokens -= pool.take(result, tokens)
            if result not in pool.left:
                yield result
        yield from self._work.take_rest(tokens)
        is_about_all = texts.is_prose and not about
        yield from self._documents.take_rest(tokens if is_about_all else QUERY_TOKENS * texts.characters)

    def _written_about(self, written: Set[str], pools: Sequence[_Pool]) -> list[ToolResult]:
        """Return cleared results, then those that share distinctive words with a text, the most shared first."""
        shared: dict[ToolResult, Set[str]] = {}
        unused = [result for pool in pools for result in pool.left]
        for result in (each for each in unused if each not in self._cleared):
            self._compared[result] += 1
            if self._compared[result] <= MOST_COMPARED:
                if result not in self._words:
                    self._words[result] = distinctive_words(result.text)
                shared[result] = written & self._words[result]
        holders = Counter(word for words in shared.values() for word in words)
        counts = {result: sum(holders[word] < COMMON for word in words) for result, words in shared.items()}
        least = max(LEAST_SHARED, BY_CHANCE * max(counts.values(), default=0))
        about = sorted((each for each in counts if counts[each] >= least), key=counts.__getitem__, reverse=True)
        return [*(each for each in unused if each in self._cleared), *about]


def distinctive_words(text: str) -> set[str]:
    """Return the words of 4 letters and numbers of 4 digits or more, and the pieces of scripts without spaces."""
    found: set[str] = set()
    for match in WORD.finditer(text):
        word = match[0]
        if match["number"]:
            if sum(map(str.isdigit, word)) >= LEAST_DIGITS:
                found.add(word.translate(SEPARATORS))
        elif match["run"]:
            found.update(word[at : at + GRAM] for at in range(len(word) - GRAM + 1))
        else:
            found.add(word.lower())
    return found


def written_text(action: Action) -> AgentText | None:
    """Return what the agent wrote in a call; None for a query, a command or a plan."""
    if action.call is None or is_plan(action.call):
        return None
    text = argument_texts(action.call)
    changed = [(does, path) for does, path in action.files() if does in CHANGING]
    if not changed and len(text) < LEAST_WRITING:
        return None
    if any(_has_type(path, PROSE) for _, path in changed) if changed else not action.command:
        return prose(text)
    is_work = len(text) >= LONG_CODE or any(does == "edited" for does, _ in changed)
    return AgentText(text, False, len(text) * (TOKENS_PER_CHARACTER if is_work else QUERY_TOKENS))


def prose(text: str) -> AgentText:
    """Return a text that the agent wrote for a person."""
    return AgentText(text, True, TOKENS_PER_CHARACTER * max(0, len(text) - FREE_PROSE))


def is_document(action: Action) -> bool:
    """Return whether a result is a document or data, and not source code or the output of work."""
    if MATERIAL.search(action.command):
        return True
    files = list(action.files())
    read = [path for does, path in files if does == "read"]
    if files:
        return any(not _has_type(path, CODE) for path in read)
    words = set(tool_words(action.tool))
    return not action.command and (SEARCHES.isdisjoint(words) or not WEB.isdisjoint(words))


def _has_type(path: str, types: frozenset[str]) -> bool:
    return _base_name(path).rpartition(".")[2].lower() in types
