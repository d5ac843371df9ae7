"""The figures of many episodes as rows, one for each strategy, with bootstrap confidence intervals over projects.

Each session gives two numbers, and a figure is the sum of the first over the sum of the second: a bill and the unpruned
bill, or the atoms kept and those needed. Sessions of one project are alike, so a sample draws projects, and then
sessions of each drawn project; a session whose project is not known is a project of its own. The seed is fixed, so
every run draws the same samples, and all figures over the same sessions share their draws: differences between two
strategies are compared on the same sessions. More than 1,000 sessions are split at random into about 1,000 groups
within their projects, each drawn as one. The interval stays as wide, and the work is bounded.
"""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from autoprune.apps.replay.atoms import PATHS, AtomGroup
from autoprune.apps.replay.choices import NO_PRUNING
from autoprune.apps.replay.episode_figures import FAR, Figures, Kept
from autoprune.apps.replay.evidence import ProtectedKind

SAMPLES = 1_000  # bootstrap samples; the interval is from the 25th lowest to the 25th highest figure
GROUPS = 1_000  # the most sessions that are drawn one by one
SEED = 11  # any fixed number: the same sessions give the same intervals
Pair = tuple[float, float]
Projects = Sequence[Sequence[Pair]]  # the pairs of the sessions of each project


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % bootstrap confidence interval over projects."""

    value: float
    low: float
    high: float

    def text(self, form: str, factor: float = 1.0, unit: str = "") -> str:
        """Format the figure, with its bounds in brackets if they differ: "0.861 (0.826–0.900)"."""
        value, bounds = rounded(self, form, factor)
        return f"{value}{unit} ({bounds})" if bounds else f"{value}{unit}"


def rounded(known: Interval, form: str, factor: float = 1.0) -> tuple[str, str]:
    """Format a figure and its bounds with the same precision; the bounds are "" if they do not differ."""
    value, low, high = (f"{factor * each:{form}}" for each in (known.value, known.low, known.high))
    return value, "" if low == high else f"{low}–{high}"


def interval(projects: Projects, nothing: float = 1.0) -> Interval:
    """Compute the ratio of two sums over all sessions, with its interval; `nothing` is the ratio if the second is 0."""
    return _interval(tuple(map(tuple, projects)) or (((0.0, 0.0),),), nothing)


@lru_cache(maxsize=1_024)  # evidence is the same at all prices
def _interval(projects: tuple[tuple[Pair, ...], ...], nothing: float) -> Interval:
    drawn = _grouped(projects)
    parts, wholes = zip(*(pair for sessions in drawn for pair in sessions), strict=True)
    ratios = sorted(
        _ratio(sum(map(parts.__getitem__, draw)), sum(map(wholes.__getitem__, draw)), nothing)
        for draw in samples(tuple(map(len, drawn)))
    )
    low, high = ratios[round(0.025 * SAMPLES)], ratios[round(0.975 * SAMPLES) - 1]
    return Interval(_ratio(sum(parts), sum(wholes), nothing), low, high)


def _ratio(part: float, whole: float, nothing: float) -> float:
    return part / whole if whole else nothing


def _grouped(projects: Projects) -> Projects:
    """Split many sessions into groups within their projects, and many projects into groups of projects."""
    count = sum(map(len, projects))
    if count <= GROUPS:
        return projects
    if len(projects) > GROUPS:
        return [[each] for each in _dealt([_total(sessions) for sessions in projects], GROUPS)]
    return [_dealt(sessions, max(1, GROUPS * len(sessions) // count)) for sessions in projects]


def _dealt(pairs: Sequence[Pair], groups: int) -> Sequence[Pair]:
    dealt = [pairs[place] for place in shuffle(len(pairs))]
    return [_total(dealt[group::groups]) for group in range(groups)]


def _total(pairs: Sequence[Pair]) -> Pair:
    return sum(part for part, _ in pairs), sum(whole for _, whole in pairs)


@lru_cache(maxsize=2)
def shuffle(count: int) -> list[int]:
    """Return the numbers of the sessions in random order."""
    return random.Random(SEED).sample(range(count), count)


@lru_cache(maxsize=2)
def samples(sizes: tuple[int, ...]) -> list[list[int]]:
    """Draw the numbers of the sessions in each bootstrap sample; `sizes` are the numbers of sessions by project."""
    draw = random.Random(SEED)
    firsts = [0, *accumulate(sizes)]
    return [
        [
            firsts[project] + (draw.randrange(sizes[project]) if sizes[project] > 1 else 0)
            for project in draw.choices(range(len(sizes)), k=len(sizes))
            for _ in range(sizes[project])
        ]
        for _ in range(SAMPLES)
    ]


MAIN = (AtomGroup.CODE, AtomGroup.EDITS, AtomGroup.FACTS)  # groups that tables show beside the bill
FEW_ATOMS = 20  # a smaller group is too small to judge a strategy by
DEARER = 1.0 + 1e-9  # a bill above the unpruned one; the margin is for rounding errors


@dataclass(frozen=True)
class Row:
    """A strategy over all episodes: bills as shares of the unpruned bill, evidence as shares of the needed atoms.

    Bills are weighted in dollars, and episodes without a price count in none, unless no price is known; in `worst` and
    `dearer` all count. `bill` and `worst` are without re-reads. Evidence is by group: `code` (with `edits`),
    `shell_edits` and `facts`; `needed` counts the atoms of each group. `spare` are the extra requests of the agent for
    each 100 that the saving would pay for, negative for a loss. `changed` is the share of sessions in which anything
    was done. `in_results` and `far` are shares of code. `cold` is the part of the saving from cuts at requests that
    found no cache. `protected` are the shares of protected content that stayed whole, by kind, without kinds that never
    occurred. `thinking` are the tokens of thinking that the edits make invalid, if the model binds it. `paths` is the
    share of paths, by which no strategy is judged.
    """

    strategy: str
    style: str
    episodes: int
    bill: Interval
    with_rereads: Interval
    worst: float
    dearer: float
    code: Interval
    edits: Interval
    shell_edits: Interval
    facts: Interval
    in_results: float
    far: float
    cache_breaks: int
    rereads: int
    violations: int
    slowest: float
    thinking: int = 0
    cold: float = 0.0
    spare: float = 0.0
    changed: float = 0.0
    protected: Mapping[str, Interval] = field(default_factory=dict)
    needed: Mapping[AtomGroup, int] = field(default_factory=dict)
    paths: float = 1.0

    @property
    def evidence(self) -> dict[AtomGroup, Interval]:
        """The shares of evidence by group."""
        return dict(zip(AtomGroup, (self.code, self.edits, self.shell_edits, self.facts), strict=True))

    @property
    def judged(self) -> dict[AtomGroup, Interval]:
        """The shares that decide: that of code, and each other one if at least 20 of its atoms were needed."""
        return {
            group: share
            for group, share in self.evidence.items()
            if group is AtomGroup.CODE or self.needed.get(group, 0) >= FEW_ATOMS
        }

    @property
    def least(self) -> float:
        """The lowest of the shares in `judged`, rounded as it is shown."""
        return round(min(share.value for share in self.judged.values()), 3)

    @property
    def lowest(self) -> float:
        """The lowest share of code, edits and facts, however few were needed, and of 20 shell edits or more.

        No heading or floor above it may be claimed for the row.
        """
        shown = [share.value for group, share in self.evidence.items() if group in MAIN and self.needed.get(group, 1)]
        return round(min((self.least, *shown)), 3)


def summarize(figures: Iterable[Figures], prices: str) -> list[Row]:
    """Create a row for each strategy and style at the prices named `prices`, the cheapest bill first.

    Episodes that were not also replayed without pruning are skipped.
    """
    measured = list(figures)
    worth = worth_of(measured, prices)
    unpruned = {
        each.episode: worth[each.episode] * each.bills[prices].total for each in measured if each.strategy == NO_PRUNING
    }
    rows = (_row(each, unpruned, worth, prices) for each in grouped(measured, unpruned).values())
    return sorted(rows, key=lambda row: row.bill.value)


def grouped(figures: Iterable[Figures], unpruned: Collection[str]) -> Mapping[tuple[str, str], list[Figures]]:
    """Group the figures of episodes that were also replayed without pruning, by strategy and style."""
    groups: dict[tuple[str, str], list[Figures]] = {}
    for each in figures:
        if each.episode in unpruned:
            groups.setdefault((each.strategy, each.style), []).append(each)
    return groups


def worth_of(found: Iterable[Figures], prices: str) -> Mapping[str, float]:
    """Find the weight of each episode's input tokens in bills: their price in dollars, or 1 if no price is known.

    If only some prices are known, the other episodes count in no bill: their tokens cannot be compared.
    """
    input_prices = {each.episode: each.bills[prices].input_price or 0.0 for each in found}
    return input_prices if any(input_prices.values()) else dict.fromkeys(input_prices, 1.0)


def _row(found: Sequence[Figures], unpruned: Mapping[str, float], worth: Mapping[str, float], prices: str) -> Row:
    """Sum up the figures of one strategy and style; `worth` is the weight of each episode's tokens."""
    bills = [each.bills[prices] for each in found]
    weighed = [(worth[each.episode], bill) for each, bill in zip(found, bills, strict=True)]
    wholes = [unpruned[each.episode] for each in found]
    totals = [weight * bill.total for weight, bill in weighed]
    again = [weight * bill.with_rereads for weight, bill in weighed]
    saved = sum(weight * bill.saved for weight, bill in weighed)
    cold = sum(weight * bill.saved_cold for weight, bill in weighed)
    code = _total_kept(found, AtomGroup.CODE)
    with_rereads = bill_interval(found, zip(again, wholes, strict=True))
    return Row(
        strategy=found[0].strategy,
        style=found[0].style,
        episodes=len(found),
        bill=bill_interval(found, zip(totals, wholes, strict=True)),
        with_rereads=with_rereads,
        worst=max(bill.worst for bill in bills),
        dearer=sum(bill.worst > DEARER for bill in bills) / len(bills),
        code=_evidence_interval(found, AtomGroup.CODE),
        edits=_evidence_interval(found, AtomGroup.EDITS),
        shell_edits=_evidence_interval(found, AtomGroup.SHELL_EDITS),
        facts=_evidence_interval(found, AtomGroup.FACTS),
        in_results=code.in_results / code.needed if code.needed else 1.0,
        far=_total_kept(found, FAR).share,
        cache_breaks=sum(bill.cache_breaks for bill in bills),
        rereads=sum(each.rereads for each in found),
        violations=sum(len(each.violations) for each in found),
        slowest=max(each.slowest for each in found),
        thinking=sum(each.thinking for each in found),
        cold=min(1.0, cold / saved) if saved > 0 else 0.0,
        changed=len({each.session for each in found if each.is_changed}) / len({each.session for each in found}),
        spare=100 * (1 / with_rereads.value - 1) if with_rereads.value else 0.0,
        protected=dict(_protected_intervals(found)),
        needed={group: _total_kept(found, group).needed for group in AtomGroup},
        paths=_total_kept(found, PATHS).share,
    )


def bill_interval(found: Iterable[Figures], bills: Iterable[Pair]) -> Interval:
    """Compute a share of the unpruned bills, the second of each pair, over the episodes that count in them."""
    counted = [(each, pair) for each, pair in zip(found, bills, strict=True) if pair[1]]
    return interval(sums_by_project([each for each, _ in counted], [pair for _, pair in counted]))


def _protected_intervals(found: Sequence[Figures]) -> Iterator[tuple[str, Interval]]:
    for kind in ProtectedKind:
        kept = [each.protected.get(kind, Kept()) for each in found]
        if any(each.needed for each in kept):
            yield str(kind), _interval_of(found, kept)


def _total_kept(found: Sequence[Figures], group: str) -> Kept:
    return sum((each.evidence.get(group, Kept()) for each in found), Kept())


def _evidence_interval(found: Sequence[Figures], group: str) -> Interval:
    return _interval_of(found, [each.evidence.get(group, Kept()) for each in found])


def _interval_of(found: Sequence[Figures], kept: Iterable[Kept]) -> Interval:
    return interval(sums_by_project(found, [(each.kept, each.needed) for each in kept]))


def sums_by_project(found: Iterable[Figures], values: Iterable[Pair]) -> Projects:
    """Sum the values of episodes over each session, by project: sessions of one are not independent of each other.

    A session without a known project is a project of its own.
    """
    sums: dict[tuple[str, str], dict[str, Pair]] = {}
    for each, (part, whole) in zip(found, values, strict=True):
        project = (each.project, "" if each.project else each.session)
        sessions = sums.setdefault(project, {})
        parts, wholes = sessions.get(each.session, (0.0, 0.0))
        sessions[each.session] = parts + part, wholes + whole
    return [tuple(sessions.values()) for sessions in sums.values()]
