"""How far a figure of some sessions can be trusted: drawn again from the sessions, many times, the same at every run.

Each session gives two numbers, and the figure is the sum of the first ones over that of the second ones: a bill and the
unpruned one, the atoms kept and those needed. The draws are the same for all figures of as many sessions, so a
difference of two strategies is judged on the same sessions. More than 1,000 sessions are dealt by chance into 1,000
groups, which are drawn as one: the interval stays as wide, and the work as small.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

SAMPLES = 1_000
GROUPS = 1_000
SEED = 11
Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and what 95 of 100 draws of as many sessions, with repetition, lie between."""

    value: float
    low: float
    high: float


def interval(sessions: Iterable[Pair], nothing: float = 1.0) -> Interval:
    """Return the share of some sessions with its interval; `nothing` is the share where there is nothing to share."""
    pairs = list(sessions)
    parts, wholes = [part for part, _ in pairs], [whole for _, whole in pairs]
    drawn_parts, drawn_wholes = _groups(parts), _groups(wholes)
    found = sorted(
        _share(sum(map(drawn_parts.__getitem__, draw)), sum(map(drawn_wholes.__getitem__, draw)), nothing)
        for draw in _draws(len(drawn_parts))
    )
    low, high = found[round(0.025 * SAMPLES)], found[round(0.975 * SAMPLES) - 1]
    return Interval(_share(sum(parts), sum(wholes), nothing), low, high)


def _share(part: float, whole: float, nothing: float) -> float:
    return part / whole if whole else nothing


def _groups(values: Sequence[float]) -> Sequence[float]:
    if len(values) <= GROUPS:
        return values
    dealt = [values[place] for place in _shuffled(len(values))]
    return [sum(dealt[group::GROUPS]) for group in range(GROUPS)]


@lru_cache(maxsize=2)
def _shuffled(count: int) -> list[int]:
    """Return the numbers of sessions in an order that has nothing to do with theirs."""
    return random.Random(SEED).sample(range(count), count)


@lru_cache(maxsize=2)
def _draws(count: int) -> list[list[int]]:
    """Return the numbers of the sessions in each draw."""
    draw = random.Random(SEED)
    return [draw.choices(range(count), k=count) for _ in range(SAMPLES)]
