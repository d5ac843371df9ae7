"""Prompt caches as the providers keep them: by exact prefix, piece by piece. They forget nothing and know no time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from strict_provider.counting import PIECE_TOKENS, tokens
from strict_provider.seals import digest, plain

USUAL_TTL, HOUR_TTL = "5m", "1h"
LOOK_BACK = (
    20  # blocks in which an entry is looked for, counted from the mark. Source: Anthropic's prompt caching guide
)


@dataclass(frozen=True)
class Piece:
    """A message or block of a prompt. A cache entry may end behind one; a mark asks for that, and for how long."""

    mark: str
    tokens: int
    is_marked: bool = False
    ttl: str = USUAL_TTL


@dataclass(frozen=True)
class Share:
    """Tokens of one prompt: read from the cache, written to it, and neither. `hourly` of those written live for 1h."""

    read: int
    written: int
    fresh: int
    hourly: int = 0


def piece(value: Any, context: str = "") -> Piece:
    """The piece that a JSON value is; `context` tells equal values in different places (roles) apart."""
    content = plain(value)
    asked = lives(value)
    return Piece(
        digest(context, content), PIECE_TOKENS + tokens(content), bool(asked), asked[-1] if asked else USUAL_TTL
    )


def marks(value: Any) -> int:
    """How many `cache_control` marks a JSON value has in it."""
    return len(lives(value))


def lives(value: Any) -> list[str]:
    """The lives that the `cache_control` marks in a JSON value ask for, in order."""
    match value:
        case dict():
            inner = [ttl for key, item in value.items() if key != "cache_control" for ttl in lives(item)]
            own = value.get("cache_control")
            return inner if own is None else [*inner, own.get("ttl") or USUAL_TTL]
        case list():
            return [ttl for item in value for ttl in lives(item)]
        case _:
            return []


class PromptCache:
    """What one provider remembers of the prompts it was sent."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._known: set[str] = set()

    def automatic(self, model: str, pieces: Sequence[Piece], minimum: int, step: int = 1) -> int:
        """Tokens of the longest prefix sent before, in whole steps; 0 below `minimum`. Remembers the whole prompt."""
        prefixes = _prefixes(model, pieces)
        ends = [0, *accumulate(each.tokens for each in pieces)]
        length = max((n for n, prefix in enumerate(prefixes, 1) if prefix in self._known), default=0)
        self._known.update(prefixes)
        return ends[length] - ends[length] % step if ends[length] >= minimum else 0

    def marked(self, model: str, pieces: Sequence[Piece], minimum: int) -> Share:
        """What is read and written at the marks. A prefix of fewer than `minimum` tokens is neither."""
        prefixes = _prefixes(model, pieces)
        ends = [0, *accumulate(each.tokens for each in pieces)]
        asked = [n for n, each in enumerate(pieces, 1) if each.is_marked and ends[n] >= minimum]
        near = (n for mark in asked for n in range(max(1, mark - LOOK_BACK + 1), mark + 1))
        hit = max((n for n in near if prefixes[n - 1] in self._known), default=0)
        self._known.update(prefixes[n - 1] for n in asked)
        last = max(asked, default=0)
        hour = max((n for n in asked if pieces[n - 1].ttl == HOUR_TTL), default=0)
        hourly = max(0, ends[hour] - ends[hit])
        return Share(read=ends[hit], written=ends[last] - ends[hit], fresh=ends[-1] - ends[last], hourly=hourly)


def _prefixes(model: str, pieces: Sequence[Piece]) -> list[str]:
    """The fingerprint of the prompt up to and with each piece."""
    return list(accumulate((each.mark for each in pieces), digest, initial=model))[1:]
