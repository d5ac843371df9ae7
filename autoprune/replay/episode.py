"""What is replayed: a recorded conversation with what went before it, its pauses, and what its actions rested on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autoprune.conversation.transcript import Speaker, Transcript
from autoprune.economics import CACHE_LIFE
from autoprune.replay.evidence import Evidence, evidence


@dataclass(frozen=True)
class Episode:
    """A conversation without a compaction, as it was sent: request by request.

    `head` are the tokens of what stood before the messages at each request: the system prompt and the tools' schemas.
    `pauses` are seconds by the index of the message before which they lie. `safe_zone` counts the messages alone.
    """

    name: str
    messages: list[Any] = field(repr=False)
    transcript: Transcript = field(repr=False)
    head: int = 0
    pauses: Mapping[int, float] = field(default_factory=dict, repr=False)
    safe_zone: int = 40_000

    @cached_property
    def requests(self) -> tuple[int, ...]:
        """The index of the message before which each request stands: the first one of its answer."""
        return self.transcript.requests[:-1]

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
        return evidence(self.transcript)

    def is_cold(self, start: int, life: float = CACHE_LIFE) -> bool:
        """Return whether the pause before the message at `start` was longer than the cache lives."""
        return self.pauses.get(start, 0.0) > life
