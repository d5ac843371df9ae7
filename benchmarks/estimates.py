"""Areas under the curve and ratios of rates, with bootstrap intervals over sessions or tasks.

The area under the curve (AUC) is the share of pairs of a case with an outcome and one without it in which the first
has the higher score; ties count one half. 0.5 is chance. Only cases of the same stratum are paired, so a figure that is
the same throughout a stratum cannot explain the AUC. The rate ratio is that of Mantel and Haenszel, which compares
rates within strata.
"""

import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

SAMPLES = 1_000  # bootstrap samples
SEED = 11
CHANCE = 0.5
Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Case:
    """A case of a session or task: its score, whether it had the outcome, and its stratum."""

    score: float
    happened: bool
    session: Hashable = None
    stratum: Hashable = None


@dataclass(frozen=True)
class Exposure:
    """Requests of a session in a stratum, and how many of them had the event; `is_exposed` is what is compared."""

    is_exposed: bool
    events: int
    requests: int
    session: Hashable = None
    stratum: Hashable = None


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% interval; None if too few cases define it."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_chance(self) -> bool:
        """Whether the interval of an AUC covers 0.5, or there is none."""
        return self.low is None or self.high is None or self.low <= CHANCE <= self.high

    def __str__(self) -> str:
        """The figure and its interval, in 17 columns."""
        if self.value is None:
            return f"{'–':17}"
        if self.low is None or self.high is None:
            return f"{self.value:<17.2f}"
        return f"{f'{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]':17}"


def auc(cases: Iterable[Case]) -> float | None:
    """The AUC over pairs of the same stratum; None if there are none."""
    with_outcome: dict[Hashable, list[float]] = defaultdict(list)
    without: dict[Hashable, list[float]] = defaultdict(list)
    for case in cases:
        (with_outcome if case.happened else without)[case.stratum].append(case.score)
    won = pairs = 0.0
    for stratum, scores in with_outcome.items():
        others = sorted(without.get(stratum, ()))
        pairs += len(scores) * len(others)
        won += sum(bisect_left(others, score) + bisect_right(others, score) for score in scores) / 2
    return won / pairs if pairs else None


def rate_ratio(exposures: Iterable[Exposure]) -> float | None:
    """The rate of events with exposure over that without, weighted over strata; None if the latter is zero."""
    counts: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for each in exposures:
        counts[each.stratum][f"events {each.is_exposed}"] += each.events
        counts[each.stratum][f"requests {each.is_exposed}"] += each.requests
    above = below = 0.0
    for known in counts.values():
        total = known["requests True"] + known["requests False"]
        above += known["events True"] * known["requests False"] / total if total else 0
        below += known["events False"] * known["requests True"] / total if total else 0
    return above / below if below else None


def estimate(values: Sequence[Value], figure: Callable[[Sequence[Value]], float | None]) -> Estimate:
    """A figure of cases or exposures with its interval: whole sessions are drawn with replacement, with a fixed seed.

    Samples that do not define the figure are left out; without half of the samples there is no interval.
    """
    by_session: dict[Hashable, list[Value]] = defaultdict(list)
    for value in values:
        by_session[getattr(value, "session", None)].append(value)
    groups, draw = list(by_session.values()), random.Random(SEED)
    samples = (draw.choices(groups, k=len(groups)) for _ in range(SAMPLES)) if len(groups) > 1 else ()
    drawn = (figure([value for group in sample for value in group]) for sample in samples)
    figures = sorted(each for each in drawn if each is not None)
    if len(figures) < SAMPLES / 2:
        return Estimate(figure(values))
    return Estimate(figure(values), *(figures[round(share * (len(figures) - 1))] for share in (0.025, 0.975)))


def quantile_strata(values: Mapping[Key, float], count: int) -> dict[Key, int]:
    """Divide cases into strata of equal size, by a value such as the size of the prompt; equal values stay together."""
    ordered = sorted(values.values())
    return {case: count * bisect_left(ordered, value) // len(ordered) for case, value in values.items()}
