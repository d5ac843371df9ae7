"""A session as the page opens it: its charts, and its results in a row, each with what became of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoprune.apps.replay.detail import Cleared, Held, Outcome, SessionDetail
from autoprune.apps.replay.page._rows import Ranked
from autoprune.apps.replay.page._session_charts import Bar, by_part, by_size, by_tool, life

SMALL = 300  # tokens


@dataclass(frozen=True)
class Fate:
    """What a strategy did to a result, and the requests that missed it under that strategy."""

    strategy: str
    cleared: Cleared | None
    missed: Sequence[int]

    @property
    def is_anything(self) -> bool:
        """Whether it did anything."""
        return bool(self.cleared or self.missed)


@dataclass(frozen=True)
class ResultRow:
    """A result, and what strategies did to it; `whole` names those that left it as it was."""

    number: int
    held: Held
    fates: Sequence[Fate]
    whole: Sequence[str]

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
    own = [each for each in numbers.values() if each.row.strategy in outcomes]
    labelled = [(each.label, outcomes[each.row.strategy]) for each in sorted(own, key=lambda each: each.number)]
    return Opened(
        detail,
        [life(detail, outcome, f"{name}-{at}", label) for at, (label, outcome) in enumerate(labelled)],
        by_part(detail, f"{name}-p"),
        by_size(detail, f"{name}-z"),
        by_tool(detail.results),
        list(_rows(detail, labelled)),
    )


def _rows(detail: SessionDetail, outcomes: Sequence[tuple[str, Outcome]]) -> Iterator[ResultRow]:
    cleared = [{each.result: each for each in outcome.cleared} for _, outcome in outcomes]
    missed = [_missed(outcome) for _, outcome in outcomes]
    labels = [label for label, _ in outcomes]
    for number, held in enumerate(detail.results):
        known = zip(labels, cleared, missed, strict=True)
        fates = [Fate(label, cut.get(number), gone.get(number, ())) for label, cut, gone in known]
        whole = [fate.strategy for fate in fates if not fate.is_anything]
        yield ResultRow(number, held, [fate for fate in fates if fate.is_anything], whole)


def _missed(outcome: Outcome) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for result, request in outcome.missed:
        found.setdefault(result, []).append(request)
    return found
