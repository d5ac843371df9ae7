"""A prompt as it was given and as it was sent, and what one differs from the one before it. Reads no conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Weighed: TypeAlias = Sequence[tuple[str, int]]  # messages: a digest of each, and its tokens
OTHER = 0.25  # of a prompt's tokens: if so many differ from those of the prompt before, it is another conversation


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
