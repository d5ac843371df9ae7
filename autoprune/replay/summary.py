"""Figures of many episodes together: a row for each strategy, with intervals over sessions."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from autoprune.replay.figures import Figures, Kept

Each = TypeVar("Each")
SAMPLES = 1_000
SEED = 11
DEARER = 1.0 + 1e-9  # a bill above the unpruned one


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and what 95 of 100 draws of as many sessions, with repetition, lie between."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """A strategy over all episodes: bills are shares of the unpruned one, evidence is shares of the atoms needed."""

    strategy: str
    style: str
    episodes: int
    bill: Interval
    with_rereads: float
    worst: float
    dearer: float
    evidence: Interval
    edits: Interval
    in_results: float
    far: float
    cache_breaks: int
    rereads: int
    violations: int
    slowest: float


def summarize(figures: Iterable[Figures], prices: str) -> list[Row]:
    """Return a row for each strategy and style at the prices of that name, the cheapest bill first.

    Of each episode that was replayed without pruning; others are passed over.
    """
    found = list(figures)
    unpruned = {each.episode: each.bills[prices].total for each in found if each.strategy == "none"}
    groups: dict[tuple[str, str], list[Figures]] = {}
    for each in found:
        if each.episode in unpruned:
            groups.setdefault((each.strategy, each.style), []).append(each)
    rows = [_row(name, style, each, unpruned, prices) for (name, style), each in groups.items()]
    return sorted(rows, key=lambda row: row.bill.value)


def _row(strategy: str, style: str, found: Sequence[Figures], unpruned: dict[str, float], prices: str) -> Row:
    bills = [(each.bills[prices].total, unpruned[each.episode]) for each in found]
    shares = [bill / whole for bill, whole in bills]
    again = sum(each.bills[prices].with_rereads for each in found)
    everything = _sum(found, "all")
    return Row(
        strategy,
        style,
        len(found),
        interval(_by_session(found, bills), _ratio),
        again / sum(whole for _, whole in bills),
        max(shares),
        sum(share > DEARER for share in shares) / len(shares),
        interval(_by_session(found, [each.evidence["all"] for each in found]), _share),
        interval(_by_session(found, [each.evidence["edits"] for each in found]), _share),
        everything.in_results / everything.needed if everything.needed else 1.0,
        _sum(found, "lag > 20").share,
        sum(each.bills[prices].cache_breaks for each in found),
        sum(each.rereads for each in found),
        sum(len(each.violations) for each in found),
        max(each.slowest for each in found),
    )


def _sum(found: Sequence[Figures], group: str) -> Kept:
    return sum((each.evidence[group] for each in found), Kept())


def _ratio(bills: Sequence[tuple[float, float]]) -> float:
    return sum(bill for bill, _ in bills) / sum(whole for _, whole in bills)


def _share(kept: Sequence[Kept]) -> float:
    return sum(kept, Kept()).share


def _by_session(found: Sequence[Figures], values: Sequence[Each]) -> list[list[Each]]:
    """Return the values of episodes, those of one session together: what one agent does is no second opinion."""
    groups: dict[str, list[Each]] = {}
    for each, value in zip(found, values, strict=True):
        groups.setdefault(each.session, []).append(value)
    return list(groups.values())


def interval(sessions: Sequence[Sequence[Each]], figure: Callable[[Sequence[Each]], float]) -> Interval:
    """Return a figure of some sessions' values with its bootstrap interval; the same at every run."""
    draw = random.Random(SEED)
    drawn = (draw.choices(sessions, k=len(sessions)) for _ in range(SAMPLES))
    found = sorted(figure([value for session in each for value in session]) for each in drawn)
    value = figure([value for session in sessions for value in session])
    return Interval(value, found[round(0.025 * SAMPLES)], found[round(0.975 * SAMPLES) - 1])
