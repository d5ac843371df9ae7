"""What is replayed: a recorded conversation with what went before it, its pauses, and what its actions rested on."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

from autoprune.conversation.transcript import Speaker, Transcript
from autoprune.economics import CACHE_LIFE
from autoprune.formats import new_parser, parse
from autoprune.replay.evidence import Evidence, evidence
from autoprune.replay.protected import Protected, protected
from autoprune.sessions import Recording, Request
from autoprune.tokens import Count

LEAST_REQUESTS = 20
LARGE, LARGE_ZONE, SMALL_ZONE = 100_000, 80_000, 40_000  # tokens of messages, and the safe zones for them
UNKNOWN_HEAD, LEAST_HEAD = 15_000, 1_000
LEAST_RATIO, MOST_RATIO = 1.0, 2.0  # of a provider's tokens to counted ones


@dataclass(frozen=True)
class Episode:
    """A conversation without a compaction, as it was sent: request by request.

    `session` is the name of its file, `number` which conversation in there it is; 0 where there is no other.
    `requests` are the indexes of the messages before which the recorded requests stand: the first ones of their
    answers. What a compaction kept of the model's, or what its agent wrote in its name, was no request here.
    `head` are the tokens of what stood before the messages at each request: the system prompt and the tools' schemas.
    `pauses` are seconds by the index of the message before which they lie. `safe_zone` counts the messages alone.
    """

    session: str
    messages: list[Any] = field(repr=False)
    transcript: Transcript = field(repr=False)
    requests: tuple[int, ...] = field(repr=False)
    head: int = 0
    pauses: Mapping[int, float] = field(default_factory=dict, repr=False)
    safe_zone: int = 40_000
    number: int = 0

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
    def answers(self) -> tuple[int, ...]:
        """The tokens of the answer to each request."""
        found = []
        for start in self.requests:
            tokens, at = 0, start
            while at < len(self.transcript.entries) and self.transcript.entries[at].speaker is Speaker.MODEL:
                tokens += self.transcript.entries[at].tokens
                at += 1
            found.append(tokens)
        return tuple(found)

    @cached_property
    def evidence(self) -> Evidence:
        """What the recorded actions rested on."""
        return evidence(self.transcript, self.requests, self.walked)

    @cached_property
    def protected(self) -> tuple[tuple[Protected, ...], ...]:
        """What is protected at each request."""
        return protected(self.transcript, self.requests, self.walked)

    def is_cold(self, start: int, life: float = CACHE_LIFE) -> bool:
        """Return whether the pause before the message at `start` was longer than the cache lives."""
        return self.pauses.get(start, 0.0) > life


def longest(recordings: Sequence[Recording]) -> Recording | None:
    """Return the stretch with the most requests; None where none has enough of them to say anything."""
    found = max(recordings, key=lambda each: len(each.requests), default=None)
    return found if found and len(found.requests) >= LEAST_REQUESTS else None


def episode(
    recording: Recording, session: str, count: Count, *, safe_zone: int | None = None, number: int = 0
) -> Episode:
    """Return a recording as it is replayed; `number` is which conversation of the session's file it is, of several.

    The safe zone, where none is given, is 80,000 tokens for messages of more than 100,000, else 40,000.
    """
    messages: list[Any] = list(recording.messages)
    transcript = parse(messages, new_parser(count), 0)
    zone = safe_zone or (LARGE_ZONE if transcript.tokens > LARGE else SMALL_ZONE)
    pauses = {now.message: seconds for before, now in pairwise(recording.requests) if (seconds := _pause(before, now))}
    requests = tuple(each.message for each in recording.requests)
    return Episode(session, messages, transcript, requests, head(recording, transcript), pauses, zone, number)


def _pause(before: Request, now: Request) -> float:
    """Return the seconds from one answer to the next; where their times are not known, those without the model."""
    if before.time is None or now.time is None:
        return now.pause or 0.0
    return max(0.0, now.time - before.time)


def head(recording: Recording, transcript: Transcript) -> int:
    """Return the tokens before the messages: of the first recorded prompt those that are not the messages'.

    They are counted tokens, as all others here: the provider's are divided by how many of its own it reports for each
    counted one as the prompt grows. 15,000 where no prompt's size is recorded, and nothing where the log holds it all.
    """
    if recording.holds_prompt and not any(each.usage for each in recording.requests):
        return 0
    sizes = [(each.message, each.usage.prompt) for each in recording.requests if each.usage and each.usage.prompt]
    if not sizes:
        return UNKNOWN_HEAD
    message, size = sizes[0]
    before = sum(entry.tokens for entry in transcript.entries[:message])
    return max(LEAST_HEAD, round(size / ratio(recording, transcript)) - before)


def ratio(recording: Recording, transcript: Transcript) -> float:
    """Return how many tokens the provider reports for each counted one: the median as the prompt grows, 1 to 2."""
    before = [0, *accumulate(entry.tokens for entry in transcript.entries)]
    sizes = [(before[each.message], each.usage.prompt) for each in recording.requests if each.usage]
    steps = [(now - then) / (counted - was) for (was, then), (counted, now) in pairwise(sizes) if counted > was]
    return min(max(LEAST_RATIO, median(steps)), MOST_RATIO) if steps else LEAST_RATIO
