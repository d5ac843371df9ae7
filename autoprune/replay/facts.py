"""Protected facts: what should stay whole in view at each request, whatever the next action rests on. Decides nothing.

At each request these are facts:

    words      what the user said: each message's texts without results and without what an agent's program put there,
               and each result that holds the user's words
    failure    the newest result that says that its call failed; one that the user refused did not
    files      of each file that calls edited or wrote in the last 20 requests, the newest result of a call that read it
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoprune.conversation.answers import is_answer, words
from autoprune.conversation.transcript import Speaker, ToolResult, Transcript
from autoprune.formats import harness
from autoprune.formats.words import texts
from autoprune.summarizers.actions import Action

LATELY = 20  # requests in which a file was edited
CHANGING = frozenset(("created", "written", "edited"))  # as `Action.files` says it


class FactKind(StrEnum):
    """What a fact is."""

    WORDS = "words"
    FAILURE = "failure"
    FILES = "files"


FACT_NAMES: Mapping[str, str] = {
    FactKind.WORDS: "user's words",
    FactKind.FAILURE: "last failure",
    FactKind.FILES: "files being edited",
}


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """What stands in a message. Elsewhere it is whole where all texts of one of its `forms` are."""

    kind: FactKind
    message: int
    forms: tuple[tuple[str, ...], ...]


def facts(transcript: Transcript, requests: Sequence[int], walked: Sequence[int]) -> tuple[tuple[Fact, ...], ...]:
    """Return the facts at each request of a conversation, the user's words first.

    `requests` are the messages before which the requests stand, `walked` the numbers that calls know these by.
    """
    reader = _Reader(transcript)
    found: list[tuple[Fact, ...]] = []
    at = 0
    for start, number in zip(requests, walked, strict=True):
        for message in range(at, start):
            reader.read(message)
        found.append(tuple(reader.needed(number)))
        at = start
    return tuple(found)


class _Reader:
    """Reads messages, and knows the facts in what it has read."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._words: list[Fact] = []
        self._failure: list[Fact] = []
        self._edited: dict[str, int] = {}  # paths, with the newest request that changed each
        self._reads: dict[str, dict[str, Fact]] = {}  # by base name and path, the newest last

    def read(self, at: int) -> None:
        """Read the next message."""
        entry = self._transcript.entries[at]
        if entry.speaker is Speaker.USER:
            self._words += self._said(at)
        for result in entry.results:
            if is_answer(result):
                self._words.append(Fact(FactKind.WORDS, at, ((result.text,), (words(result),))))
            self._act(at, result)

    def needed(self, request: int) -> Iterator[Fact]:
        """Yield the facts at a request."""
        yield from self._words
        yield from self._failure
        self._edited = {path: when for path, when in self._edited.items() if when >= request - LATELY}
        newest = (self._newest(path) for path in self._edited)
        yield from dict.fromkeys(fact for fact in newest if fact)

    def _said(self, at: int) -> Iterator[Fact]:
        whole = texts(self._transcript.messages[at], self._transcript.entries[at])
        said = tuple(filter(None, map(harness.said, whole)))
        if said and not harness.continues(said[0]):
            yield Fact(FactKind.WORDS, at, (whole, said))

    def _act(self, at: int, result: ToolResult) -> None:
        """Take what a result says of its call: that it failed, and which files were read or changed."""
        action = Action(result.call, result)
        if action.failed and not action.is_refused:
            self._failure = [Fact(FactKind.FAILURE, at, ((result.text,),))]
        for does, path in action.files():
            if does in CHANGING:
                self._edited[_plain(path)] = result.request
            elif does == "read" and not action.failed:
                reads = self._reads.setdefault(_base(path), {})
                reads.pop(_plain(path), None)
                reads[_plain(path)] = Fact(FactKind.FILES, at, ((result.text,),))

    def _newest(self, path: str) -> Fact | None:
        """Return the newest read of a file, by the same path or one that ends as it does."""
        reads = self._reads.get(_base(path), {})
        return next((reads[each] for each in reversed(reads) if _may_be_one(each, path)), None)


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _base(path: str) -> str:
    return _plain(path).rpartition("/")[2]


def _may_be_one(one: str, other: str) -> bool:
    """Return whether two paths may be those of one file: one of them may be relative to a folder."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
