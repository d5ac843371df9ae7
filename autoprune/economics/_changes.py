"""The requests of a ledger: the prompt of each, its changes from the previous one, and the pauses between them.

Reads no conversation: a prompt is a list of digests with their tokens.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any, Protocol, TypeAlias

from autoprune.errors import SettingsError, is_number, require_keys

Weighed: TypeAlias = Sequence[tuple[str, int]]  # a digest and the tokens of each message
Clock: TypeAlias = Callable[[], float]
# If the messages in the place of the previous ones differ from them by more than this share of their tokens, it is
# another conversation. An assumption, not a measurement: callers' own edits are taken to be smaller.
MOST_CHANGED = 0.25


@dataclass(frozen=True, slots=True)
class Sent:
    """The input and output of a pruner for one prompt, in counted tokens, for a ledger.

    `beside` are the tokens sent in addition to the messages, and `answers` those of the model's messages; None if not
    known. `placeholders` are the tokens of the texts that replace removed messages and results at this request,
    including a summary. `cleared` are digests of the results that this request cleared, each computed with its call;
    `fetched` are digests of the new results, with their tokens. `thinking` are the tokens of thinking that the edits so
    far have made invalid, and `lost` the digests of the messages that hold it. `thought` is the digest of the first
    message with thinking in the newest answer, and the tokens of that answer; None if it has no thinking. The `model_`
    fields are the usage of summarizing models; `model_cost` is in dollars.

    `marks` has a pair for each cache mark in the prompt: it finds stored prefixes that have at least and at most so
    many messages.
    """

    given: Weighed
    sent: Weighed
    beside: int = 0
    answers: int | None = None
    placeholders: int = 0
    cleared: Sequence[str] = ()
    fetched: Sequence[tuple[str, int]] = ()
    thinking: int = 0
    lost: Sequence[str] = ()
    thought: tuple[str, int] | None = None
    model_input: int = 0
    model_output: int = 0
    model_cost: float | None = None
    marks: Sequence[tuple[int, int]] = ()

    @property
    def tokens(self) -> int:
        """The tokens of the prompt that was sent."""
        return self.beside + tokens_of(self.sent)


class Pruned(Protocol):
    """The type of any result of `prune`: an object with the prompt before and after."""

    @property
    def sent(self) -> Sent:
        """The prompt before and after the prune."""


@dataclass(frozen=True, slots=True)
class Previous:
    """The previous prompt, and the history without any prune.

    `whole` is that history, which is larger than the prompt by the tokens `saved`. `tokens` is the size of the prompt
    that was sent, and `held` is how many of these tokens are expected to be in the cache. `answers` are those of the
    model's messages. `stored` are its prefixes, by their number of messages, that a provider with cache marks has
    stored: the ends of requests, and other marks.
    """

    whole: Weighed
    sent: Weighed
    tokens: int
    saved: int
    held: int
    stored: Sequence[int] = ()
    answers: int | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "whole": [*map(list, self.whole)],
            "sent": [*map(list, self.sent)],
            **{name: getattr(self, name) for name in PROMPT_FIELDS},
            "stored": [*self.stored],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Previous":
        whole, sent = ([(str(digest), int(tokens)) for digest, tokens in record[name]] for name in ("whole", "sent"))
        later = {"stored": (), "answers": None}  # missing in earlier versions
        return cls(whole, sent, **{name: {**later, **record}[name] for name in PROMPT_FIELDS})


PROMPT_FIELDS = ("tokens", "saved", "held", "stored", "answers")


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a prompt from one request to the next, in counted tokens.

    `removed` are the tokens that the prompt lost beyond what earlier requests had removed. `unsent` is the part of
    `removed` that had never been sent. `rewritten` are tokens, including placeholders, that would be cached if nothing
    had been pruned now. If the cache is cold, `unsent` and `rewritten` are 0.
    """

    now: Previous
    removed: int
    unsent: int = 0
    rewritten: int = 0
    is_warm: bool = False
    is_other: bool = False


def find_change(before: Previous | None, now: Sent, *, is_cold: bool) -> Change:
    """Compare a request with the previous prompt. Nothing is cached at the first request of a conversation.

    The comparison shows whether callers pass the full history, or the previous prompt's messages and new ones.
    """
    base = _find_base(before, now) if before else None
    if before is None or base is None:
        removed = tokens_of(now.given) - tokens_of(now.sent)
        first = Previous(
            now.given, now.sent, now.tokens, saved=removed, held=0, stored=_stored(now), answers=now.answers
        )
        return Change(first, removed, is_other=True)
    new = now.given[len(base) :]
    removed = tokens_of(now.given) - tokens_of(base) - (tokens_of(now.sent) - tokens_of(before.sent))
    same = _shared_length(before.sent, now.sent)
    lost = tokens_of(before.sent[_cached_length(before, now, same) :])
    after = Previous(
        whole=now.given if base is before.whole else (*before.whole, *new),
        sent=now.sent,
        tokens=now.tokens,
        saved=before.saved + removed,
        held=0 if is_cold else before.tokens - lost,
        stored=_stored(now, () if is_cold else (each for each in before.stored if each <= same)),
        answers=now.answers,
    )
    if is_cold:
        return Change(after, removed)
    unsent = max(0, tokens_of(new) - tokens_of(now.sent[max(0, len(now.sent) - len(new)) :])) if new else 0
    rewritten = lost - _tokens_lost_anyway(before, base, now) - removed + unsent
    return Change(after, removed, unsent, rewritten, is_warm=True)


def _find_base(before: Previous, now: Sent) -> Weighed | None:
    """Find the previous messages that the caller continues: the whole history, or the pruned one that was sent.

    If the caller has changed messages, choose the history with the smaller difference in tokens. The whole history may
    be longer than the given one, since users go back. Return None if this is another conversation.
    """

    def difference(base: Weighed) -> int:
        return abs(tokens_of(now.given[: len(base)]) - tokens_of(base[: len(now.given)]))

    is_whole = _shared_length(before.whole, now.given) > _shared_length(before.sent, now.given)
    bases = (
        [before.whole] if is_whole else [each for each in (before.whole, before.sent) if len(each) <= len(now.given)]
    )
    closest = min(bases, key=lambda base: (_shared_length(base, now.given) < len(base), difference(base)), default=None)
    if closest is None or difference(closest) > MOST_CHANGED * tokens_of(closest[: len(now.given)]):
        return None
    return closest


def shared_prefix(before: Previous, now: Sent) -> tuple[int, bool]:
    """Return how many messages a request shares with an earlier one, and whether it continues all of these."""
    lengths = [(_shared_length(each, now.given), len(each)) for each in (before.whole, before.sent)]
    return max(shared for shared, _ in lengths), any(shared == length for shared, length in lengths)


def _stored(now: Sent, known: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the prefixes that are stored after a request if the provider stores them at marks: `known` and its own."""
    return tuple(sorted({*known, *(most for _, most in now.marks), len(now.sent)}))


def _cached_length(before: Previous, now: Sent, same: int) -> int:
    """Count the messages of the cached prefix, if the first `same` ones are those of the previous prompt.

    Without marks it is all of these. With marks, a prompt that does not continue the previous one is cached up to the
    longest prefix that was stored and that one of its marks finds.
    """
    if same == len(before.sent) or not now.marks:
        return same
    valid = (each for each in before.stored if each <= same)
    return max((each for each in valid if any(least <= each <= most for least, most in now.marks)), default=0)


def _tokens_lost_anyway(before: Previous, base: Weighed, now: Sent) -> int:
    """Count the tokens of the whole history that left the cache because of the caller's changes.

    `base` is the history that the caller continues: the whole or the pruned one.
    """
    same = _shared_length(base, now.given)
    if same == len(base):
        return 0
    # Behind messages that were folded or dropped, a message has a higher index in the history than in the prompt.
    edited, moved = _shared_length(before.whole, before.sent), len(before.whole) - len(before.sent)
    known = same
    if base is before.whole and same > edited:
        same = max(edited, same - moved)
    cached = _cached_length(before, now, same)
    if base is before.whole and cached == same:
        return tokens_of(before.whole[known:])
    return tokens_of(before.whole[cached + (moved if cached > edited else 0) if cached else 0 :])


def _shared_length(before: Weighed, now: Weighed) -> int:
    """Count the messages in the shared prefix of two prompts."""
    pairs = zip(before, now, strict=False)
    return next((at for at, ((old, _), (new, _)) in enumerate(pairs) if old != new), min(len(before), len(now)))


def tokens_of(messages: Weighed) -> int:
    return sum(tokens for _, tokens in messages)


# The time between requests


def check_pauses(pauses: Mapping[int, float] | None) -> Mapping[int, float]:
    """Validate pauses: seconds by the index of the message that follows. Raises SettingsError."""
    if pauses is not None and not isinstance(pauses, Mapping):
        raise SettingsError(f"pauses is {pauses!r}: give seconds by the index of a message, as Pauses does")
    for at, seconds in (pauses or {}).items():
        if not is_number(at) or not is_number(seconds, 0, int | float) or seconds == math.inf:
            raise SettingsError(
                f"a pause of {seconds!r} before message {at!r}: give seconds, 0 or more, by the index of a message"
            )
    return pauses or {}


class Pauses:
    """Records the pauses of a live loop: the seconds between each request and the previous one.

    Call `pauses.before(messages)` for each `prune`: it records that a request is about to be sent, and returns all
    pauses so far. If messages were removed since the request before, as from pruned output that is passed back, the
    earlier pauses no longer have their places and are forgotten. `to_dict` and `from_dict` store the record with a
    conversation that is continued later.
    """

    def __init__(
        self, known: Mapping[int, float] | None = None, last: float | None = None, clock: Clock = time
    ) -> None:
        """Start with known pauses and the time of the last request; `clock` returns seconds."""
        self._known = dict(check_pauses(known))
        self._last = last
        self._clock = clock

    def before(self, messages: Sequence[object]) -> Mapping[int, float]:
        """Record that a request with this list of messages is sent now, and return all pauses including the latest."""
        if not isinstance(messages, Sequence):
            raise SettingsError(f"messages is {messages!r}: give the list of the request's messages")
        now = self._clock()
        if len(messages) < max(self._known, default=0):
            self._known.clear()
        if self._last is not None:
            # On a retry, results that were cleared because of the pause before the first attempt stay cleared.
            self._known[len(messages)] = max(self._known.get(len(messages), 0.0), now - self._last)
        self._last = now
        return dict(self._known)

    def to_dict(self) -> dict[str, object]:
        """Convert the record to JSON-compatible values."""
        return {"pauses": {str(at): seconds for at, seconds in self._known.items()}, "last": self._last}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], clock: Clock = time) -> "Pauses":
        """Create pauses from the output of `to_dict`. Raises SettingsError for anything else, or without a key."""
        if not isinstance(record, Mapping):
            raise SettingsError(f"the record of pauses is {record!r}: give what to_dict() returned")
        with require_keys("the record of pauses"):
            return cls({int(at): seconds for at, seconds in record["pauses"].items()}, record["last"], clock)
