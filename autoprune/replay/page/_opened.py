"""A session as the page opens it: its charts, and its results in a row, each with what became of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoprune.replay.detail import Cleared, Held, Outcome, SessionDetail
from autoprune.replay.page._rows import Ranked
from autoprune.replay.page._session_charts import Bar, by_part, by_size, by_tool, life

SMALL = 300  # tokens


@dataclass(frozen=True)
class Fate:
    """What a strategy did to a result, and the requests that missed it under that strategy."""

    strategy: str
    cleared: Cleared | None
    missed: Sequence[int]


@dataclass(frozen=True)
class ResultRow:
    """A result, and what strategies did to it. `others` counts those that left it whole to the end."""

    number: int
    held: Held
    fates: Sequence[Fate]
    others: int

    @property
    def is_small(self) -> bool:
        """Whether it is too small to matter."""
        return self.held.tokens < SMALL and not self.missed

    @property
    def cleared(self) -> Sequence[int]:
        """The requests at which strategies cleared it, the first one first."""
        return sorted(fate.cleared.request for fate in self.fates if fate.cleared)

    @property
    def missed(self) -> int:
        """How many strategies had cleared it when it was needed."""
        return sum(bool(fate.missed) for fate in self.fates)


@dataclass(frozen=True)
class Opened:
    """A session that the page opens."""

    detail: SessionDetail
    lives: Sequence[str]
    by_part: str
    by_size: str
    tools: Sequence[Bar]
    rows: Sequence[ResultRow]

    @property
    def small(self) -> int:
        """How many results are too small to matter."""
        return sum(row.is_small for row in self.rows)


def opened(detail: SessionDetail, known: Sequence[Ranked], name: str) -> Opened:
    """Return a session as the page opens it; `name` begins the ids of its charts."""
    outcomes = {each.strategy: each for each in detail.outcomes}
    numbers = {each.row.strategy: each for each in reversed(known)}  # a strategy in two styles has the first's number
    labelled = [
        (each.label, outcomes[each.row.strategy])
        for each in sorted(numbers.values(), key=_number)
        if each.row.strategy in outcomes
    ]
    return Opened(
        detail,
        [life(detail, outcome, f"{name}-{at}", label) for at, (label, outcome) in enumerate(labelled)],
        by_part(detail, f"{name}-p"),
        by_size(detail, f"{name}-z"),
        by_tool(detail.results),
        list(_rows(detail, labelled)),
    )


def _number(known: Ranked) -> int:
    return known.number


def _rows(detail: SessionDetail, outcomes: Sequence[tuple[str, Outcome]]) -> Iterator[ResultRow]:
    cleared = [{each.result: each for each in outcome.cleared} for _, outcome in outcomes]
    missed = [_missed(outcome) for _, outcome in outcomes]
    for number, held in enumerate(detail.results):
        fates = [
            Fate(label, cut.get(number), gone.get(number, ()))
            for (label, _), cut, gone in zip(outcomes, cleared, missed, strict=True)
            if number in cut or number in gone
        ]
        yield ResultRow(number, held, fates, len(outcomes) - len(fates))


def _missed(outcome: Outcome) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for result, request in outcome.missed:
        found.setdefault(result, []).append(request)
    return found
