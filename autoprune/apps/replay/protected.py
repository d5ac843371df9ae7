"""Protected content: what should stay whole in view whatever the next action rests on. Decides nothing.

At each request this is

    words      what the user said: each message's texts without results and without what an agent's program put there,
               and each result that holds the user's words
    failure    the newest result that says that its call failed; one that the user refused did not
    files      of each file that calls edited or wrote in the last 20 requests, the newest result of a call that read it
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from autoprune.conversation.transcript import Speaker, ToolResult, Transcript
from autoprune.facts import harness
from autoprune.facts.answers import answer_text, is_answer
from autoprune.facts.words import texts
from autoprune.strategies.worth import AtWork


class ProtectedKind(StrEnum):
    """What is protected."""

    WORDS = "words"
    FAILURE = "failure"
    FILES = "files"


PROTECTED_NAMES: Mapping[str, str] = {
    ProtectedKind.WORDS: "user's words",
    ProtectedKind.FAILURE: "last failure",
    ProtectedKind.FILES: "files being edited",
}


@dataclass(frozen=True, slots=True, eq=False)
class Protected:
    """What stands in a message. Elsewhere it is whole where all texts of one of its `forms` are."""

    kind: ProtectedKind
    message: int
    forms: tuple[tuple[str, ...], ...]


def protected(
    transcript: Transcript, requests: Sequence[int], walked: Sequence[int]
) -> tuple[tuple[Protected, ...], ...]:
    """Return what is protected at each request of a conversation, the user's words first.

    `requests` are the messages before which the requests stand, `walked` the numbers that calls know these by.
    """
    reader = _Reader(transcript)
    found: list[tuple[Protected, ...]] = []
    at = 0
    for start, number in zip(requests, walked, strict=True):
        for message in range(at, start):
            reader.read(message)
        found.append(tuple(reader.needed(number)))
        at = start
    return tuple(found)


class _Reader:
    """Reads messages, and knows what is protected of what it has read."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._words: list[Protected] = []
        self._at_work = AtWork()
        self._made: dict[tuple[ProtectedKind, ToolResult], Protected] = {}

    def read(self, at: int) -> None:
        """Read the next message."""
        entry = self._transcript.entries[at]
        if entry.speaker is Speaker.USER:
            self._words += self._said(at)
        self._at_work.observe(entry)
        for result in entry.results:
            if is_answer(result):
                self._words.append(Protected(ProtectedKind.WORDS, at, ((result.text,), (answer_text(result),))))

    def needed(self, request: int) -> Iterator[Protected]:
        """Yield what is protected at a request."""
        yield from self._words
        if failure := self._at_work.failure:
            yield self._result(ProtectedKind.FAILURE, failure)
        for result in self._at_work.edited_files(request):
            yield self._result(ProtectedKind.FILES, result)

    def _result(self, kind: ProtectedKind, result: ToolResult) -> Protected:
        """Return a result that is protected as some kind, the same value each time."""
        known = self._made.get((kind, result))
        if known is None:
            known = self._made[kind, result] = Protected(kind, result.location.message, ((result.text,),))
        return known

    def _said(self, at: int) -> Iterator[Protected]:
        whole = texts(self._transcript.messages[at], self._transcript.entries[at])
        said = tuple(filter(None, map(harness.said, whole)))
        if said and not harness.continues(said[0]):
            yield Protected(ProtectedKind.WORDS, at, (whole, said))
