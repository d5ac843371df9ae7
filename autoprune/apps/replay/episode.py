"""What is replayed: a recorded conversation with what went before it, its pauses, and what its actions rested on."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from autoprune.apps.replay.evidence import Evidence, evidence
from autoprune.apps.replay.protected import Protected, protected
from autoprune.apps.replay.recorded import WARM, Billing, Size, billings, size
from autoprune.apps.sessions import Recording, Request
from autoprune.conversation.transcript import Speaker, Transcript
from autoprune.economics import DEFAULT, Prices
from autoprune.formats import new_parser, parse
from autoprune.settings import usual_zone
from autoprune.tokens import Count

LEAST_REQUESTS = 20


@dataclass(frozen=True)
class Episode:
    """A conversation without a compaction, as it was sent: request by request.

    `session` is the name of its file, `number` which conversation in there it is; 0 where there is no other.
    `requests` are the indexes of the messages before which the recorded requests stand: the first ones of their
    answers. What a compaction kept of the model's, or what its agent wrote in its name, was no request here.
    `head` are the counted tokens of what stood before the messages at each request: the system prompt and the tools'
    schemas. `ratio` is how many tokens the provider counts for each counted one. `pauses` are seconds by the index of
    the message before which they lie. `safe_zone` is that of a whole prompt, in the provider's tokens. `billings` say
    what each request is billed by.
    """

    session: str
    messages: list[Any] = field(repr=False)
    transcript: Transcript = field(repr=False)
    requests: tuple[int, ...] = field(repr=False)
    head: int = 0
    pauses: Mapping[int, float] = field(default_factory=dict, repr=False)
    safe_zone: int = 100_000
    number: int = 0
    ratio: float = 1.0
    billings: tuple[Billing, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of the session's file, with the conversation's number where it holds several."""
        return f"{self.session}#{self.number}" if self.number else self.session

    @cached_property
    def walked(self) -> tuple[int, ...]:
        """The number of each request in a walk over the messages, which takes all that is the model's for an answer."""
        return tuple(bisect_right(self.transcript.requests, start) - 1 for start in self.requests)

    def since(self, walked: int) -> int:
        """Return the first request that does not stand before the one of that number in a walk."""
        return bisect_left(self.walked, walked)

    @cached_property
    def unpruned(self) -> tuple[int, ...]:
        """The counted tokens of each prompt as it was recorded."""
        before = list(accumulate((entry.tokens for entry in self.transcript.entries), initial=self.head))
        return tuple(before[start] for start in self.requests)

    @property
    def answers(self) -> tuple[int, ...]:
        """The provider's tokens of the answer to each request."""
        return tuple(each.answer for each in self.billings)

    @cached_property
    def prices(self) -> Prices:
        """The prices of most of its requests."""
        known = Counter(each.prices for each in self.billings)
        return known.most_common(1)[0][0] if known else DEFAULT

    @cached_property
    def evidence(self) -> Evidence:
        """What the recorded actions rested on."""
        return evidence(self.transcript, self.requests, self.walked)

    @cached_property
    def protected(self) -> tuple[tuple[Protected, ...], ...]:
        """What is protected at each request."""
        return protected(self.transcript, self.requests, self.walked)

    def is_cold(self, request: int, life: float | None = None) -> bool:
        """Return whether a request finds nothing of its prompt cached.

        With a `life` in seconds, after a pause longer than that; without one, as the log says it, or after a pause
        longer than the life of the request's own cache.
        """
        billing = self.billings[request] if life is None else None
        if billing and billing.hit is not None:
            return billing.hit < WARM
        life = billing.prices.life if billing else life
        return request == 0 or self.pauses.get(self.requests[request], 0.0) > (life or 0.0)

    def cached(self, request: int, prompt: int, shared: int, life: float | None = None) -> float:
        """Return how many of the counted tokens of a prompt are read from the cache.

        `shared` are those that it has in common with the beginning of the prompt before; `life` is as in `is_cold`.
        """
        billing = self.billings[request] if life is None else None
        if billing is None or billing.hit is None:
            return 0 if self.is_cold(request, life) else shared
        known = billing.read / self.ratio
        if request == 0:
            return min(known, prompt)
        return min(known, shared) if billing.hit < WARM else billing.hit * shared


def longest(recordings: Sequence[Recording]) -> Recording | None:
    """Return the stretch with the most requests; None where none has enough of them to say anything."""
    found = max(recordings, key=lambda each: len(each.requests), default=None)
    return found if found and len(found.requests) >= LEAST_REQUESTS else None


def episode(
    recording: Recording,
    session: str,
    count: Count,
    *,
    safe_zone: int | None = None,
    number: int = 0,
    model: str | None = None,
    life: float | None = None,
) -> Episode:
    """Return a recording as it is replayed; `number` is which conversation of the session's file it is, of several.

    `model` is taken where the log names none, and `life`, in seconds, for that of the cache whatever the log says. The
    safe zone, where none is given, is the one that `run` uses for the session's model.
    """
    messages: list[Any] = list(recording.messages)
    transcript = parse(messages, new_parser(count), 0)
    pauses = {now.message: seconds for before, now in pairwise(recording.requests) if (seconds := _pause(before, now))}
    requests = tuple(each.message for each in recording.requests)
    known = size_of(recording, transcript)
    billed = billings(recording, tuple(answers_of(transcript, requests, known.ratio)), model=model, life=life)
    named = next((each.model for each in recording.requests if each.model), model)
    return Episode(
        session,
        messages,
        transcript,
        requests,
        round(known.head / known.ratio),
        pauses,
        safe_zone or usual_zone(named),
        number,
        known.ratio,
        billed,
    )


def size_of(recording: Recording, transcript: Transcript) -> Size:
    """Return how the provider counts the prompts of a recording."""
    return size(recording, [*accumulate((entry.tokens for entry in transcript.entries), initial=0)])


def answers_of(transcript: Transcript, requests: Sequence[int], ratio: float) -> Iterator[int]:
    """Yield the provider's tokens of the answer to each request."""
    for start in requests:
        tokens, at = 0, start
        while at < len(transcript.entries) and transcript.entries[at].speaker is Speaker.MODEL:
            tokens += transcript.entries[at].tokens
            at += 1
        yield round(ratio * tokens)


def _pause(before: Request, now: Request) -> float:
    """Return the seconds from one answer to the next; where their times are not known, those without the model."""
    if before.time is None or now.time is None:
        return now.pause or 0.0
    return max(0.0, now.time - before.time)
