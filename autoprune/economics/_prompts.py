"""What a ledger knows of requests: the prompt of each, how it differs from the one before, and the pauses between them.

Reads no conversation: a prompt is a list of digests with their tokens.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any, Protocol, TypeAlias

from autoprune.errors import SettingsError, whole

Weighed: TypeAlias = Sequence[tuple[str, int]]  # messages: a digest of each, and its tokens
OTHER = 0.25  # of a prompt's tokens: if so many differ from those of the prompt before, it is another conversation
Clock: TypeAlias = Callable[[], float]
NUMBERS = (int, float)


@dataclass(frozen=True, slots=True)
class Sent:
    """A prompt as a pruner was given it and as it returned it, in counted tokens: what a ledger needs of a prune.

    `beside` are the tokens that are sent beside the messages. `placeholders` are those of the texts that this request
    puts in place of what was sent before, a summary among them. `cleared` are digests of the results that this request
    cleared, each with its call, and `fetched` those of the results that are new, with their tokens. The rest is what
    was asked of a model to write summaries; `model_cost` is in dollars.
    """

    given: Weighed
    sent: Weighed
    beside: int = 0
    placeholders: int = 0
    cleared: Sequence[str] = ()
    fetched: Sequence[tuple[str, int]] = ()
    model_input: int = 0
    model_output: int = 0
    model_cost: float | None = None

    @property
    def tokens(self) -> int:
        """The tokens of the prompt that was sent."""
        return self.beside + weight(self.sent)


class Pruned(Protocol):
    """The result of a prune."""

    @property
    def sent(self) -> Sent:
        """The prompt as it was given and sent."""


@dataclass(frozen=True, slots=True)
class Before:
    """The prompt before. `whole` is the history without any prune, and `saved` the tokens by which it is larger.

    `tokens` are those of the prompt that was sent, and `held` those of them that the cache held, as is expected.
    """

    whole: Weighed
    sent: Weighed
    tokens: int
    saved: int
    held: int

    def as_json(self) -> dict[str, object]:
        """Return it as JSON takes it."""
        figures = {"tokens": self.tokens, "saved": self.saved, "held": self.held}
        return {"whole": [*map(list, self.whole)], "sent": [*map(list, self.sent)], **figures}

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> "Before":
        """Return what `as_json` wrote."""
        whole, sent = ([(str(mark), int(tokens)) for mark, tokens in record[name]] for name in ("whole", "sent"))
        return cls(whole, sent, record["tokens"], record["saved"], record["held"])


@dataclass(frozen=True, slots=True)
class Step:
    """What a request changed in the prompt, in counted tokens.

    `removed` are those by which it became smaller than what was given, beyond what earlier requests had removed.
    `unsent` is the part of that which had never been sent; `rewritten` are tokens that are written anew though the
    cache would hold them had nothing been pruned now, and placeholders. Where nothing is cached there are none.
    """

    now: Before
    removed: int
    unsent: int = 0
    rewritten: int = 0
    is_warm: bool = False
    is_other: bool = False


def step(before: Before | None, now: Sent, *, is_cold: bool) -> Step:
    """Return what a request changed. Where nothing was sent before, or another conversation, nothing is cached.

    A caller passes the full history or what was sent before, with what is new: the prompt before shows which.
    """
    base = _base(before, now) if before else None
    if before is None or base is None:
        removed = weight(now.given) - weight(now.sent)
        return Step(Before(now.given, now.sent, now.tokens, removed, 0), removed, is_other=True)
    new = now.given[len(base) :]
    whole = now.given if base is before.whole else (*before.whole, *new)
    removed = weight(now.given) - weight(base) - (weight(now.sent) - weight(before.sent))
    lost = weight(before.sent[_same(before.sent, now.sent) :])
    after = Before(whole, now.sent, now.tokens, before.saved + removed, 0 if is_cold else before.tokens - lost)
    if is_cold:
        return Step(after, removed)
    unsent = max(0, weight(new) - weight(now.sent[max(0, len(now.sent) - len(new)) :])) if new else 0
    rewritten = lost - _lost_anyway(before.whole, base, now.given) - removed + unsent
    return Step(after, removed, unsent, rewritten, is_warm=True)


def _base(before: Before, now: Sent) -> Weighed | None:
    """Return what the caller goes on from, the whole history or what was sent; None for another conversation.

    Where the caller has changed something, it is the one of which the tokens differ less.
    """

    def off(base: Weighed) -> int:
        return abs(weight(now.given[: len(base)]) - weight(base))

    known = [base for base in (before.whole, before.sent) if len(base) <= len(now.given)]
    found = min(known, key=lambda base: (_same(base, now.given) < len(base), off(base)), default=None)
    return None if found is None or off(found) > OTHER * weight(found) else found


def _lost_anyway(whole: Weighed, base: Weighed, given: Weighed) -> int:
    """Return the tokens of the whole history that no cache would have held, since the caller changed something.

    `base` is what the caller went on from, the history or what was sent of it.
    """
    same = _same(base, given)
    if same == len(base):
        return 0
    # Behind what was folded or dropped the same message stands further back in the history.
    moved = len(whole) - len(base) if same > _same(whole, base) else 0
    return weight(whole[same + moved :])


def _same(before: Weighed, now: Weighed) -> int:
    """Return how many messages two prompts have at their heads in common."""
    pairs = zip(before, now, strict=False)
    return next((at for at, ((old, _), (new, _)) in enumerate(pairs) if old != new), min(len(before), len(now)))


def weight(messages: Weighed) -> int:
    """Return the tokens of messages."""
    return sum(tokens for _, tokens in messages)


# Pauses


def checked_pauses(pauses: Mapping[int, float] | None) -> Mapping[int, float]:
    """Return pauses in seconds, by the index of the message before which they lie. Raises SettingsError for others."""
    if pauses is not None and not isinstance(pauses, Mapping):
        raise SettingsError(f"pauses is {pauses!r}: give seconds by the index of a message, as Pauses does")
    for at, seconds in (pauses or {}).items():
        is_pause = isinstance(seconds, NUMBERS) and type(seconds) is not bool and 0 <= seconds < math.inf
        if type(at) is not int or at < 0 or not is_pause:
            raise SettingsError(
                f"a pause of {seconds!r} before message {at!r}: give seconds, 0 or more, by the index of a message"
            )
    return pauses or {}


class Pauses:
    """Records the pauses of a live loop: the seconds between a request and the one before it.

    `pauses.before(messages)` in each call of `prune` notes that a request is about to be sent, and returns what is
    known so far. `as_json` and `of_json` keep the record with a conversation that is stored and taken up again.
    """

    def __init__(
        self, known: Mapping[int, float] | None = None, last: float | None = None, clock: Clock = time
    ) -> None:
        """Begin with pauses that are known, and with the time of the last request; `clock` gives seconds."""
        self._known = dict(checked_pauses(known))
        self._last = last
        self._clock = clock

    def before(self, messages: Sequence[object]) -> Mapping[int, float]:
        """Note a request that is sent now, with these messages, and return the pauses before it and earlier ones."""
        now = self._clock()
        if self._last is not None:
            # The same request sent again: what was cleared because of the pause before it stays cleared.
            self._known[len(messages)] = max(self._known.get(len(messages), 0.0), now - self._last)
        self._last = now
        return dict(self._known)

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON takes it."""
        return {"pauses": {str(at): seconds for at, seconds in self._known.items()}, "last": self._last}

    @classmethod
    def of_json(cls, record: Mapping[str, Any], clock: Clock = time) -> "Pauses":
        """Return the record that `as_json` wrote. Raises SettingsError where a key is missing."""
        with whole("the record of pauses"):
            return cls({int(at): seconds for at, seconds in record["pauses"].items()}, record["last"], clock)
