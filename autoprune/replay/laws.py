"""Whether a replay kept the promises on real data: what was sent is checked at each request that changed it.

    1  the recorded messages are what they were, and what was not edited is the same object
    2  in a message that was edited nothing but the payloads of results and the arguments of calls differs
    3  the provider takes what was sent if it takes the recorded messages
    4  no edit makes a message larger
    5  to prune what was sent once more changes nothing
    6  what was cleared stays cleared

The promises are those of docs/loop.md. Where whole messages are folded or dropped, the second, the fourth and the sixth
speak of what is left.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from autoprune.formats import new_parser
from autoprune.formats.words import texts
from autoprune.providers import problems
from autoprune.replay.episode import Episode
from autoprune.replay.scale import Scale

Violation = tuple[int, str]  # the promise, and what was done


class Laws:
    """The checks of one replay. `violations` are sentences, each with its promise and its request."""

    def __init__(self, episode: Episode, scale: Scale) -> None:
        """Remember what the recorded messages are."""
        self.violations: list[str] = []
        self._messages = episode.messages
        self._scale = scale
        self._before = fingerprint(episode.messages)
        self._own = {id(message) for message in episode.messages}
        self._edited: dict[int, Any] = {}
        self._checked: dict[int, object] = {}
        self._parser = new_parser(len)

    def check(self, request: int, given: Sequence[Any], sent: Sequence[Any], again: Sequence[Any] | None) -> None:
        """Check what was sent in place of what was given; `again` is what a new pruner makes of what was sent."""
        for promise, what in self._broken(request, given, sent, again):
            self.violations.append(f"promise {promise}, request {request}: {what}")

    def close(self) -> None:
        """Check that the recorded messages are what they were."""
        if fingerprint(self._messages) != self._before:
            self.violations.append("promise 1: the recorded messages were changed")

    def _broken(
        self, request: int, given: Sequence[Any], sent: Sequence[Any], again: Sequence[Any] | None
    ) -> Iterator[Violation]:
        if len(given) == len(sent):
            for at, (old, new) in enumerate(zip(given, sent, strict=True)):
                if old is not new:
                    yield from self._edit(at, old, new)
                elif at in self._edited and id(new) in self._own:
                    yield 6, f"message {at} is whole again"
        known = {(found.rule, found.path) for found in problems(given)}
        for found in problems(sent):
            if (found.rule, found.path) not in known and len(given) == len(sent):
                yield 3, str(found)
        if again is not None and list(again) != list(sent):
            yield 5, "another prune changes what was sent"

    def _edit(self, at: int, old: Any, new: Any) -> Iterator[Violation]:
        """Check a message that was edited; each edit once."""
        if id(new) in self._checked:
            return
        self._checked[id(new)] = new
        self._edited[at] = new
        if new == old:
            yield 1, f"message {at} was not edited and is another object"
        if self._scale.tokens(new) > self._scale.tokens(old):
            yield 4, f"message {at} is larger than it was"
        if self._outside(new) != self._outside(old):
            yield 2, f"message {at} differs outside its results and calls"

    def _outside(self, message: Any) -> object:
        """Return what is neither the payload of a result nor the arguments of a call."""
        entry = self._parser.read(message, 0)
        results = [(each.kind, each.is_error, each.tool) for each in entry.results]
        return texts(message, entry), results, [(call.id, call.name) for call in entry.calls]


def fingerprint(messages: Sequence[Any]) -> bytes:
    """Return what tells messages from any others."""
    return sha256(repr(messages).encode("utf-8", "surrogatepass")).digest()
