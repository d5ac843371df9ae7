"""Check the promises on real data: each request whose prompt changed is checked.

    1  the recorded messages are unchanged, and messages that were not edited are the same objects
    2  in an edited message, only the payloads of results and the arguments of calls differ
    3  the provider accepts the output if it accepts the recorded messages
    4  no edit makes a message larger
    5  pruning the output again changes nothing
    6  what was cleared stays cleared

The promises are those of docs/loop.md. If whole messages are folded or dropped, promises 2, 4 and 6 are checked for the
rest. Promises 3 and 5 re-read the whole prompt, so they are checked only at the first eight changes, at every
sixteenth change after that, and at the last request.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from autoprune.apps.replay.episode import Episode
from autoprune.facts.utterances import texts
from autoprune.formats import new_parser
from autoprune.providers import problems

Violation = tuple[int, str]  # the promise, and how it was broken
Messages = Sequence[Any]
FIRST, EVERY = 8, 16  # changes


class Laws:
    """Checks one replay. `violations` are sentences that name the promise and the request."""

    def __init__(self, episode: Episode, tokens: Callable[[object], int]) -> None:
        """Fingerprint the recorded messages; `tokens` counts a message."""
        self.violations: list[str] = []
        self._messages = episode.messages
        self._last = len(episode.requests) - 1
        self._tokens = tokens
        self._before = fingerprint(episode.messages)
        self._edited: dict[int, Any] = {}  # the last version of each edited message
        self._changes = 0
        self._parser = new_parser(len)

    def check(
        self, request: int, given: Messages, sent: Messages, again: Callable[[], Any], *, is_new: bool = False
    ) -> None:
        """Check the output `sent` for the input `given`; `is_new` means that it does not extend the previous prompt.

        `again` prunes `sent` with a new pruner.
        """
        broken: list[Violation] = []
        for at, old, new, before in list(self._edits(given, sent)):
            broken += self._edit(at, old, new, before)
            is_new = True
        self._changes += is_new
        is_due = is_new and (self._changes <= FIRST or self._changes % EVERY == 0)
        if is_due or (request == self._last and self._changes):
            broken += self._prompt(given, sent, again().conversation)
        self.violations += (f"promise {promise}, request {request}: {what}" for promise, what in broken)

    def finish(self) -> None:
        """Check that the recorded messages are unchanged."""
        if fingerprint(self._messages) != self._before:
            self.violations.append("promise 1: the recorded messages were changed")

    def _edits(self, given: Messages, sent: Messages) -> Iterator[tuple[int, Any, Any, Any]]:
        """Yield each newly edited message: its place, its input, its output, and its previous output.

        The previous output is None for a message that was not edited before.
        """
        if len(given) != len(sent):
            self._edited.clear()  # messages were removed, so places do not correspond
            return
        for at, (old, new) in enumerate(zip(given, sent, strict=True)):
            before = self._edited.get(at)
            if new is (old if before is None else before) or (before is not None and new == before):
                continue
            self._edited[at] = new
            yield at, old, new, before

    def _edit(self, at: int, old: Any, new: Any, before: Any) -> Iterator[Violation]:
        """Check an edited message."""
        tokens = self._tokens(new)
        if before is None and new == old:
            yield 1, f"message {at} was not edited, but is not the same object"
        if before is not None and tokens > self._tokens(before):
            yield 6, f"message {at} is larger than in the previous prompt"
        elif tokens > self._tokens(old):
            yield 4, f"message {at} is larger than it was"
        if self._outside(new) != self._outside(old):
            yield 2, f"message {at} differs outside its results and calls"

    def _outside(self, message: Any) -> object:
        """Everything but the payloads of results and the arguments of calls."""
        entry = self._parser.read(message, 0)
        results = [(each.kind, each.is_error, each.tool) for each in entry.results]
        return texts(message, entry), results, [(call.id, call.name) for call in entry.calls]

    def _prompt(self, given: Messages, sent: Messages, again: Messages) -> Iterator[Violation]:
        """Check a whole prompt. If messages were removed, problems are compared by rule alone, not by place."""
        has_all = len(given) == len(sent)
        known = {(found.rule, found.path if has_all else ()) for found in problems(given)}
        for found in problems(sent):
            if (found.rule, found.path if has_all else ()) not in known:
                yield 3, str(found)
        if list(again) != list(sent):
            yield 5, "pruning the output again changes it"


def fingerprint(messages: Messages) -> bytes:
    """A digest of messages."""
    return sha256(repr(messages).encode("utf-8", "surrogatepass")).digest()
