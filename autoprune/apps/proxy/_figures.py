"""Sums over requests, for metrics: of one conversation, or of all of a client with a model. Decides nothing."""

import re
from bisect import bisect_left
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds of pruning, for a histogram
NO_TIMES = (0,) * (len(BUCKETS) + 1)
PRODUCT = re.compile(r"[^/\s(]+")  # what a User-Agent begins with, without its version
UNKNOWN, OTHERS = "unknown", "others"
MOST_LABELS, MOST_LETTERS = 100, 100  # letters of a name: clients write what they like

Label: TypeAlias = tuple[str, str]  # a client's name, and a model's


@dataclass(frozen=True)
class Figures:
    """Conversations, their requests, the tokens of their prompts without pruning and with it, results cleared.

    `saved` is the net of their ledgers in input tokens, and `saved_cold` that of the prunes at `cold` requests, before
    which the cache had died. `seconds` were spent on pruning, and `times` counts requests by
    theirs: those up to the first of `BUCKETS`, from there up to the second, and so on, and those above the last.
    """

    sessions: int = 0
    requests: int = 0
    before: int = 0
    after: int = 0
    cleared: int = 0
    saved: float = 0.0
    cold: int = 0
    saved_cold: float = 0.0
    seconds: float = 0.0
    times: tuple[int, ...] = NO_TIMES

    def __add__(self, other: "Figures") -> "Figures":
        """Return the sums of both."""
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in SUMMED}
        return Figures(**sums, times=tuple(map(sum, zip(self.times, other.times, strict=True))))


SUMMED = tuple(each.name for each in fields(Figures) if each.name != "times")


def timed(seconds: float) -> tuple[int, ...]:
    """Return the `times` of one request."""
    bucket = bisect_left(BUCKETS, seconds)
    return tuple(int(at == bucket) for at in range(len(NO_TIMES)))


def product(agent: str) -> str:
    """Return the name of a client from its User-Agent, without version and platform."""
    found = PRODUCT.match(agent)
    return found[0] if found else UNKNOWN


def room_for(label: Label, known: dict[Label, Figures]) -> Label:
    """Return a label to sum under: another one for what is new where there are too many already."""
    label = label[0][:MOST_LETTERS], label[1][:MOST_LETTERS]
    return label if label in known or len(known) < MOST_LABELS else (OTHERS, OTHERS)
