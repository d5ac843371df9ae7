"""Whether a replay kept the promises on real data: what was sent is checked at each request that changed it.

    1  the recorded messages are what they were, and what was not edited is the same object
    2  in a message that was edited nothing but the payloads of results and the arguments of calls differs
    3  the provider takes what was sent if it takes the recorded messages
    4  no edit makes a message larger
    5  to prune what was sent once more changes nothing
    6  what was cleared stays cleared

The promises are those of docs/loop.md. Where whole messages are folded or dropped, the second, the fourth and the sixth
speak of what is left. The third and the fifth read the whole prompt anew: they are looked at when something changes for
the first eight times, at every sixteenth change after that, and at the last request.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from autoprune.apps.replay.episode import Episode
from autoprune.facts.words import texts
from autoprune.formats import new_parser
from autoprune.providers import problems

Violation = tuple[int, str]  # the promise, and what was done
Messages = Sequence[Any]
FIRST, EVERY = 8, 16  # changes


class Laws:
    """The checks of one replay. `violations` are sentences, each with its promise and its request."""

    def __init__(self, episode: Episode, tokens: Callable[[object], int]) -> None:
        """Fingerprint the recorded messages; `tokens` counts a message."""
        self.violations: list[str] = []
        self._messages = episode.messages
        self._last = len(episode.requests) - 1
        self._tokens = tokens
        self._before = fingerprint(episode.messages)
        self._edited: dict[int, Any] = {}  # what was sent last in place of a message
        self._changes = 0
        self._parser = new_parser(len)

    def check(
        self, request: int, given: Messages, sent: Messages, again: Callable[[], Any], *, is_new: bool = False
    ) -> None:
        """Check what was sent in place of what was given; `is_new` where it does not begin as the prompt before.

        `again` returns the outcome of a new pruner that is given what was sent.
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

    def close(self) -> None:
        """Check that the recorded messages are what they were."""
        if fingerprint(self._messages) != self._before:
            self.violations.append("promise 1: the recorded messages were changed")

    def _edits(self, given: Messages, sent: Messages) -> Iterator[tuple[int, Any, Any, Any]]:
        """Yield each message that is sent otherwise than before: its place, what was given and sent, and sent before.

        What was sent before is None for one that was not edited yet.
        """
        if len(given) != len(sent):
            self._edited.clear()  # messages have gone, so places tell nothing any more
            return
        for at, (old, new) in enumerate(zip(given, sent, strict=True)):
            before = self._edited.get(at)
            if new is (old if before is None else before) or (before is not None and new == before):
                continue
            self._edited[at] = new
            yield at, old, new, before

    def _edit(self, at: int, old: Any, new: Any, before: Any) -> Iterator[Violation]:
        """Check a message that was edited."""
        tokens = self._tokens(new)
        if before is None and new == old:
            yield 1, f"message {at} was not edited and is another object"
        if before is not None and tokens > self._tokens(before):
            yield 6, f"message {at} is larger than it was sent before"
        elif tokens > self._tokens(old):
            yield 4, f"message {at} is larger than it was"
        if self._outside(new) != self._outside(old):
            yield 2, f"message {at} differs outside its results and calls"

    def _outside(self, message: Any) -> object:
        """Return what is neither the payload of a result nor the arguments of a call."""
        entry = self._parser.read(message, 0)
        results = [(each.kind, each.is_error, each.tool) for each in entry.results]
        return texts(message, entry), results, [(call.id, call.name) for call in entry.calls]

    def _prompt(self, given: Messages, sent: Messages, again: Messages) -> Iterator[Violation]:
        """Check a whole prompt. Where messages have gone, places tell nothing: a rule that was broken before counts."""
        has_all = len(given) == len(sent)
        known = {(found.rule, found.path if has_all else ()) for found in problems(given)}
        for found in problems(sent):
            if (found.rule, found.path if has_all else ()) not in known:
                yield 3, str(found)
        if list(again) != list(sent):
            yield 5, "another prune changes what was sent"


def fingerprint(messages: Messages) -> bytes:
    """Return what tells messages from any others."""
    return sha256(repr(messages).encode("utf-8", "surrogatepass")).digest()
