"""Figures of many episodes together: a row for each strategy, with intervals over sessions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.replay.bootstrap import Interval, Pair, interval
from autoprune.replay.facts import FactKind
from autoprune.replay.figures import Figures, Kept

DEARER = 1.0 + 1e-9  # a bill above the unpruned one


@dataclass(frozen=True)
class Row:
    """A strategy over all episodes: bills are shares of the unpruned one, evidence is shares of the atoms needed.

    `facts` are shares of the protected facts by their kind, of those kinds that were needed at all.
    """

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
    facts: Mapping[str, Interval] = field(default_factory=dict)


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
        interval(by_session(found, bills)),
        again / sum(whole for _, whole in bills),
        max(shares),
        sum(share > DEARER for share in shares) / len(shares),
        _kept(found, [each.evidence["all"] for each in found]),
        _kept(found, [each.evidence["edits"] for each in found]),
        everything.in_results / everything.needed if everything.needed else 1.0,
        _sum(found, "lag > 20").share,
        sum(each.bills[prices].cache_breaks for each in found),
        sum(each.rereads for each in found),
        sum(len(each.violations) for each in found),
        max(each.slowest for each in found),
        dict(_facts(found)),
    )


def _facts(found: Sequence[Figures]) -> Iterator[tuple[str, Interval]]:
    for kind in FactKind:
        kept = [each.facts.get(kind, Kept()) for each in found]
        if any(each.needed for each in kept):
            yield str(kind), _kept(found, kept)


def _sum(found: Sequence[Figures], group: str) -> Kept:
    return sum((each.evidence[group] for each in found), Kept())


def _kept(found: Sequence[Figures], kept: Iterable[Kept]) -> Interval:
    return interval(by_session(found, [(each.kept, each.needed) for each in kept]))


def by_session(found: Iterable[Figures], values: Iterable[Pair]) -> list[Pair]:
    """Return the values of episodes, summed over each session: what one agent does is no second opinion."""
    sums: dict[str, Pair] = {}
    for each, (part, whole) in zip(found, values, strict=True):
        parts, wholes = sums.get(each.session, (0.0, 0.0))
        sums[each.session] = parts + part, wholes + whole
    return list(sums.values())
