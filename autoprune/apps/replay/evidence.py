"""The evidence that each recorded action needed, the results that showed it, and content that should stay visible.

The evidence is computed once for each episode, before any pruning. The sources of an atom are the earlier results, and
the earlier messages of the model, that show it: words, and arguments of calls. An atom that the user or the system
said is *free*, since their words stay; an atom without a source is *unsupported*. A statement of the agent counts only
if it is *scarce*: if more than three earlier sources show it, it is *common*, and points to none of them.

Protected at each request are

    words      the user's texts in each message, without results and without text that the agent's program added,
               and each result that holds the user's words
    failure    the newest result that reports that its call failed; a call that the user rejected did not fail
    files      for each file that calls edited or wrote in the last 20 requests, the newest result that read it
    material   at a request that writes a long text, the results since the user's last request that share distinctive
               words with it
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from autoprune.apps.replay.atoms import GROUPS, STATED, Atom, AtomGroup, Kind, atoms, hunks, is_patch, stated_atoms
from autoprune.apps.replay.visible import Texts, numbers, strings
from autoprune.conversation.transcript import Speaker, ToolResult, Transcript
from autoprune.facts.calls import argument_texts, arguments, is_plan
from autoprune.facts.outcomes import answer_text, is_answer
from autoprune.facts.utterances import is_continuation, user_words
from autoprune.strategies.worth import BY_CHANCE, LEAST_SHARED, InUse, distinctive_words

LONG_TEXT = 1_000  # characters of a text whose material is protected when it is written
MOST_SOURCES = 3  # a statement that more earlier results show is common


@dataclass(frozen=True, slots=True)
class Need:
    """An atom of the action at a request, and its sources: results by number, and the model's messages by index.

    Both are oldest first. `lag` is the number of requests since the newest source.
    """

    request: int
    atom: Atom
    sources: tuple[int, ...]
    lag: int
    written: tuple[int, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The needs of an episode, and how many other atoms of each kind were free, unsupported or common."""

    needs: tuple[Need, ...]
    free: Mapping[Kind, int] = field(default_factory=dict)
    unsupported: Mapping[Kind, int] = field(default_factory=dict)
    common: Mapping[Kind, int] = field(default_factory=dict)

    def needed(self, group: AtomGroup) -> int:
        """Count the atoms of a group that were needed."""
        return sum(need.atom.kind in GROUPS[group] for need in self.needs)


def evidence(transcript: Transcript, requests: Sequence[int]) -> Evidence:
    """Find the atoms that the actions in a conversation needed; requests are sent before the messages at `requests`."""
    results, said, written = Texts(), Texts(), Texts()
    messages: list[int] = []  # of the texts in `written`
    needs: list[Need] = []
    free, unsupported, common = Counter[Kind](), Counter[Kind](), Counter[Kind]()
    at = 0
    stops = (*requests, len(transcript.entries))
    for request, start in enumerate(requests):
        for message in range(at, start):
            for result in transcript.entries[message].results:
                results.add_text(result.text)
            is_model = transcript.entries[message].speaker is Speaker.MODEL
            for text in _words_outside_results(transcript, message):
                (written if is_model else said).add_text(text)
                messages += [message] if is_model else []
        end = answer_end(transcript, start, stops[request + 1])
        for atom in _atoms(transcript, start, end, results):
            sources, own = results.find(atom), tuple(dict.fromkeys(messages[text] for text in written.find(atom)))
            if said.find(atom):
                free[atom.kind] += 1
            elif not sources and not own:
                unsupported[atom.kind] += 1
            elif atom.kind in STATED and len(sources) + len(own) > MOST_SOURCES:
                common[atom.kind] += 1
            else:
                newest = max((transcript.results[each].location.message for each in sources[-1:]), default=0)
                newest = bisect_right(requests, max((newest, *own[-1:])))
                needs.append(Need(request, atom, sources, request - newest + 1, own))
        at = start
    return Evidence(tuple(needs), free, unsupported, common)


def answer_end(transcript: Transcript, start: int, stop: int | None = None) -> int:
    """Find the end of the answer that begins at an index: the next message that is not the model's, or `stop`."""
    end, stop = start, len(transcript.entries) if stop is None else stop
    while end < stop and transcript.entries[end].speaker is Speaker.MODEL:
        end += 1
    return end


def _atoms(transcript: Transcript, start: int, end: int, results: Texts) -> tuple[Atom, ...]:
    calls = [call for entry in transcript.entries[start:end] for call in entry.calls]
    words = "\n".join(text for at in range(start, end) for text in transcript.entries[at].texts)
    return *atoms(calls, words), *stated_atoms(calls, words, lambda atom: bool(results.find(atom)))


def _words_outside_results(transcript: Transcript, message: int) -> Iterator[str]:
    """Yield the texts of a message outside its results: its text blocks, and the arguments of calls."""
    entry = transcript.entries[message]
    yield from entry.texts
    for call in entry.calls:
        call_arguments = arguments(call)
        said = "\n".join(strings(call_arguments)) if call_arguments else str(call.arguments)
        yield said
        if counted := "\n".join(numbers(call_arguments)):
            yield counted
        if is_patch(said):
            yield "\n".join(after for _, after in hunks(said))


class ProtectedKind(StrEnum):
    """Kinds of protected content."""

    WORDS = "words"
    FAILURE = "failure"
    FILES = "files"
    MATERIAL = "material"


PROTECTED_NAMES: Mapping[str, str] = {
    ProtectedKind.WORDS: "user's words",
    ProtectedKind.FAILURE: "last failure",
    ProtectedKind.FILES: "files being edited",
    ProtectedKind.MATERIAL: "read for a text",
}


@dataclass(frozen=True, slots=True, eq=False)
class Protected:
    """Content of a message. The content is whole in other messages if all texts of one of its `forms` occur there."""

    kind: ProtectedKind
    message: int
    forms: tuple[tuple[str, ...], ...]


def protected_content(
    transcript: Transcript, requests: Sequence[int], walk_numbers: Sequence[int]
) -> tuple[tuple[Protected, ...], ...]:
    """Collect the protected content at each request of a conversation, the user's words first.

    `requests` are the indexes of the messages before which the requests are sent. `walk_numbers` are the numbers of
    these requests in a walk, which calls refer to.
    """
    reader = _Reader(transcript)
    at_requests: list[tuple[Protected, ...]] = []
    at = 0
    for start, number in zip(requests, walk_numbers, strict=True):
        for message in range(at, start):
            reader.read(message)
        end = answer_end(transcript, start)
        at_requests.append((*reader.current(number), *reader.material(start, end)))
        at = start
    return tuple(at_requests)


def _whole(kind: ProtectedKind, result: ToolResult) -> Protected:
    return Protected(kind, result.location.message, ((result.text,),))


class _Reader:
    """Reads messages in order, and tracks the protected content so far."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._words: list[Protected] = []
        self._used = InUse()
        self._lately: list[ToolResult] = []  # since the user's last request
        self._distinctive_words = cache(distinctive_words)  # each result is compared with several texts

    def read(self, at: int) -> None:
        entry = self._transcript.entries[at]
        if entry.speaker is Speaker.USER and (said := list(self._words_outside_results(at))):
            self._words += said
            self._lately.clear()
        self._lately += entry.results
        self._used.observe(entry)
        for result in entry.results:
            if is_answer(result):
                self._words.append(Protected(ProtectedKind.WORDS, at, ((result.text,), (answer_text(result),))))

    def current(self, request: int) -> Iterator[Protected]:
        """Yield the protected content at a request."""
        yield from self._words
        if failure := self._used.failure:
            yield _whole(ProtectedKind.FAILURE, failure)
        for result in self._used.edited_files(request):
            yield _whole(ProtectedKind.FILES, result)

    def material(self, start: int, end: int) -> Iterator[Protected]:
        """Yield what was read for the long text that an answer writes, by the distinctive words that it uses."""
        entries = self._transcript.entries[start:end]
        calls = [call for entry in entries for call in entry.calls]
        texts = (
            [argument_texts(call) for call in calls if not is_plan(call)]
            if calls
            else [text for entry in entries for text in entry.texts]
        )
        written = {word for text in texts if len(text) > LONG_TEXT for word in distinctive_words(text)}
        lately = self._lately if written else ()
        shared = {result: len(written & self._distinctive_words(result.text)) for result in lately}
        least = max(LEAST_SHARED, BY_CHANCE * max(shared.values(), default=0))
        for result in (each for each, number in shared.items() if number >= least):
            yield _whole(ProtectedKind.MATERIAL, result)

    def _words_outside_results(self, at: int) -> Iterator[Protected]:
        whole = self._transcript.entries[at].texts
        said = tuple(filter(None, map(user_words, whole)))
        if said and not is_continuation(said[0]):
            yield Protected(ProtectedKind.WORDS, at, (whole, said))
