"""The cost of recorded sessions, by the usage that providers reported for each request, and what pruning would save.

Each request is priced by the model that it names and the cache that it wrote. A request that several files record, such
as a session and its continuation under another name, counts once.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from autoprune.apps.replay.choices import NO_PRUNING
from autoprune.apps.replay.corpus import Engine, FailedTask, Task, one_by_one
from autoprune.apps.replay.episode import GIVEN, longest, recorded_prices, usage_dollars
from autoprune.apps.replay.episode_figures import OWN, Figures
from autoprune.apps.replay.rows import Interval, interval, sums_by_project
from autoprune.apps.replay.session import ReplayArgs, SessionFigures, open_recordings
from autoprune.apps.replay.titles import UNTITLED, Title, place_of, title_of
from autoprune.apps.sessions import Recording, Request, Usage, compact
from autoprune.economics import Prices
from autoprune.strategies.catalog import RUN_STRATEGY

Identity = str | tuple[float, str, Usage]
MOST_CHARACTERS = 12  # of a token in an answer, as JSON: text has about four, and no answer has so many on average


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of one recorded request in dollars; None if its usage or the price of its model is not known.

    `output` counts tokens. `unlisted` is the `model` if only its price is not known. `identity` is equal in all records
    of the same request; None if the log has neither id nor time of its answer. `is_low` means that the log lacks most
    of the answer's tokens, so that the request cost more. `extra` are the dollars that the request cost more because
    its prompt was in a higher tier of the model's prices. `is_replayed` tells whether the request is in a stretch that
    a replay uses.
    """

    dollars: float | None
    prompt: int
    cached: int
    output: int
    time: float | None
    identity: Identity | None
    is_low: bool = False
    extra: float = 0.0
    is_replayed: bool = False
    model: str = ""
    unlisted: str = ""


@dataclass(frozen=True)
class Spending:
    """The charges of one session file. `error` is the reason why the file could not be read.

    `place` is the last two parts of the project's folder, which tell apart projects with the same name.
    """

    path: str
    title: Title = UNTITLED
    place: str = ""
    charges: tuple[Charge, ...] = field(default=(), repr=False)
    error: str = ""


def read_spending(files: Iterable[str], args: ReplayArgs, *, engine: Engine = one_by_one) -> list[Spending]:
    """Read the recorded usage of session files, the newest session first.

    Of the arguments only `model`, `cache_life` and `readers` are used.
    """
    read = [
        Spending(task.path, error=spent.why) if isinstance(spent, FailedTask) else spent
        for task, spent in engine(spending_of, (Task(file, args) for file in files))
    ]
    return sorted(_told_apart(read), key=lambda each: (-each.title.time, each.path))


def _told_apart(found: Sequence[Spending]) -> Iterable[Spending]:
    """Name projects in several folders by the last two parts of their folders."""
    places: dict[str, set[str]] = {}
    for each in found:
        places.setdefault(each.title.project, set()).add(each.place)
    for each in found:
        is_ambiguous = len(places[each.title.project]) > 1
        yield replace(each, title=replace(each.title, project=each.place)) if is_ambiguous else each


def spending_of(task: Task) -> Spending:
    """Compute the charges of one file. Raises SessionError if the file cannot be read."""
    conversations = open_recordings(task.path, task.read_file(), task.args)
    charges = [
        each
        for stretches in conversations
        for recording in stretches
        for each in _charges(recording, task.args, is_replayed=recording is longest(stretches))
    ]
    first = conversations[0] if conversations else []
    return Spending(task.path, title_of(task.path, first), place_of(task.path, first), tuple(charges))


def _charges(recording: Recording, args: ReplayArgs, *, is_replayed: bool) -> Iterable[Charge]:
    named = next((each.model for each in recording.requests if each.model), "")  # for those that name no model
    billed_at = partial(recorded_prices, named=named, model=args.model, life=args.cache_life)
    for request, at in zip(recording.requests, billed_at(recording.requests), strict=True):
        answer = recording.messages[request.message] if request.message < len(recording.messages) else {}
        is_low = _lacks_output(request.usage, len(compact(answer)))
        yield replace(_charge(request, at, named, args.model), is_low=is_low, is_replayed=is_replayed)
    for request, at in zip(recording.besides, billed_at(recording.besides), strict=True):
        is_low = _lacks_output(request.usage, request.characters or 0)
        yield replace(_charge(request, at, named, args.model), is_low=is_low)


def _charge(request: Request, at: Prices, named: str, given: str | None) -> Charge:
    """Compute the charge of a request; `named` is the model of one that names none, else the `given` one counts."""
    usage = request.usage
    if usage is None:
        return Charge(None, 0, 0, 0, request.time, None)
    identity = request.id or ((request.time, request.model, usage) if request.time else None)
    dollars = usage_dollars(usage, at, usage.output)
    flat = usage_dollars(usage, replace(at, tiers=()), usage.output)
    extra = (dollars or 0.0) - (flat or 0.0)
    is_unlisted = dollars is None and at.input_price is None and usage.prompt > 0
    model = request.model or named
    unlisted = (given or model) if is_unlisted else ""
    counts = usage.prompt, usage.cached, usage.output
    return Charge(dollars, *counts, request.time, identity, extra=extra, model=model, unlisted=unlisted)


def _lacks_output(usage: Usage | None, characters: int) -> bool:
    """Return whether the log counts fewer tokens than such an answer can have: some count only its first event."""
    return usage is not None and usage.cost is None and usage.output * MOST_CHARACTERS < characters


@dataclass(frozen=True)
class ProjectSpending:
    """The sum of some sessions: of an agent in a project, or of all sessions.

    `unpriced` counts requests without a cost, and `unlisted` those of models whose prices are not known, by model.
    `low` counts those whose log lacks most of the answer's tokens. `tiered` counts requests with prompts in a higher
    tier of their prices, which cost `extra` dollars more. `replayed` are the requests in the longest stretches between
    compactions, if these have 20 requests or more; they cost `replayed_dollars`. `models` are those that have a price.
    """

    agent: str
    project: str
    sessions: int
    requests: int
    unpriced: int
    prompt: int
    cached: int
    dollars: float
    newest: float
    low: int = 0
    tiered: int = 0
    extra: float = 0.0
    replayed: int = 0
    replayed_dollars: float = 0.0
    unlisted: Mapping[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()


def sum_spending(found: Iterable[Spending]) -> list[ProjectSpending]:
    """Sum up sessions by agent and project, the most recently used first. Sessions without requests are left out."""
    groups: dict[tuple[str, str], list[Spending]] = {}
    for each in distinct(found):
        groups.setdefault((each.title.agent, each.title.project), []).append(each)
    sums = [_sum(agent, project, known) for (agent, project), known in groups.items()]
    return sorted(sums, key=lambda each: -each.newest)


def distinct(found: Iterable[Spending]) -> Iterable[Spending]:
    """Yield each session with its charges that are in no other session; none that has no such charge.

    Of several records of a request, the one with the most output counts, since others may have been written while its
    answer was still streaming; of equal ones, the first. A request whose stream broke was paid twice, under one id.
    """
    sessions = list(found)
    best: dict[Identity, tuple[int, int, int]] = {}  # the most charges, the most output, and the session, negative
    for at, each in enumerate(sessions):
        own: dict[Identity, list[int]] = {}
        for charge in each.charges:
            if charge.identity:
                own.setdefault(charge.identity, []).append(charge.output)
        for identity, outputs in own.items():
            best[identity] = max(best.get(identity, (0, 0, 0)), (len(outputs), sum(outputs), -at))
    for at, each in enumerate(sessions):
        charges = tuple(charge for charge in each.charges if not charge.identity or best[charge.identity][2] == -at)
        if charges:
            yield replace(each, charges=charges)


def total(sums: Iterable[ProjectSpending]) -> tuple[float, float]:
    """Return the dollars of all requests, and of those in stretches that a replay uses."""
    known = list(sums)
    return sum(each.dollars for each in known), sum(each.replayed_dollars for each in known)


def copies(found: Sequence[Spending]) -> set[str]:
    """Return the paths of sessions whose every request is also in another one, such as earlier states of it."""
    own = {each.path for each in distinct(found)}
    return {each.path for each in found if each.charges and each.path not in own}


def _sum(agent: str, project: str, known: Sequence[Spending]) -> ProjectSpending:
    charges = [charge for each in known for charge in each.charges]
    return ProjectSpending(
        agent=agent,
        project=project,
        sessions=len(known),
        requests=len(charges),
        unpriced=sum(charge.dollars is None for charge in charges),
        prompt=sum(charge.prompt for charge in charges),
        cached=sum(charge.cached for charge in charges),
        dollars=sum(charge.dollars or 0.0 for charge in charges),
        newest=max(each.title.time for each in known),
        low=sum(charge.is_low for charge in charges),
        tiered=sum(charge.extra > 0 for charge in charges),
        extra=sum(charge.extra for charge in charges),
        replayed=sum(charge.is_replayed for charge in charges),
        replayed_dollars=sum(charge.dollars or 0.0 for charge in charges if charge.is_replayed),
        unlisted=dict(Counter(charge.unlisted for charge in charges if charge.unlisted)),
        models=tuple(dict.fromkeys(charge.model for charge in charges if charge.model and charge.dollars is not None)),
    )


@dataclass(frozen=True)
class BillChange:
    """The bill of an episode without pruning and with a strategy, fetching results again included, in input tokens.

    `paid` is the recorded cost of the episode in dollars; None if it is not known, or if the bills are of other prices.
    """

    figures: Figures
    unpruned: float
    pruned: float
    paid: float | None

    @property
    def saved(self) -> float:
        """The saving of the strategy: in dollars if the cost is known, otherwise in input tokens."""
        return (self.unpruned - self.pruned) * (self.paid / self.unpruned if self.paid else 1.0)


def changes(session: SessionFigures, strategy: str, prices_name: str) -> list[BillChange]:
    """Compare the bills of a session's episodes. An episode that was replayed in several styles has its first one."""
    known = {(each.episode, each.strategy): each for each in reversed(session.figures)}
    is_as_billed = _is_as_billed(session, prices_name)
    return [
        BillChange(
            figures,
            before.bills[prices_name].total,
            figures.bills[prices_name].with_rereads,
            shape.dollars if is_as_billed else None,
        )
        for name, shape in session.shapes.items()
        if (figures := known.get((name, strategy))) and (before := known.get((name, NO_PRUNING)))
        if before.bills[prices_name].total
    ]


def _is_as_billed(session: SessionFigures, prices_name: str) -> bool:
    """Return whether a session was replayed at the prices and with the cache of its record.

    What was paid says nothing about other prices, or about a cache that lives longer or shorter.
    """
    return prices_name == str(OWN) and all(shape.life_from != GIVEN for shape in session.shapes.values())


@dataclass(frozen=True)
class Outlook:
    """The effect that a strategy would have had on the cost in dollars, including results fetched again.

    `paid` is the recorded cost of all sessions. `replayed` is the part of this cost that was replayed: the longest
    stretch without a compaction of each conversation, if the stretch has at least 20 requests. The rest is assumed to
    cost the same, but for the requests around `prevented` compactions.
    """

    paid: float
    replayed: float
    share: Interval  # of the replayed cost
    prevented: int = 0

    @property
    def would_pay(self) -> Interval:
        """The cost of all sessions with the strategy, with its 95 % confidence interval."""
        rest, share = self.paid - self.replayed, self.share
        return Interval(*(rest + self.replayed * each for each in (share.value, share.low, share.high)))

    @property
    def is_noise(self) -> bool:
        """Whether the confidence interval of the share covers 1: no saving is shown."""
        return self.share.low <= 1.0 <= self.share.high

    def sentence(self, strategy: str) -> str:
        """Say in dollars what the strategy, such as "`autoprune run`", would have changed."""
        paid, likely = f"${self.paid:,.2f}", self.would_pay
        if self.share.low == self.share.high == 1.0:
            return f"At API list prices {paid} would have been the same with {strategy}."
        if self.is_noise:
            cost = f"{dollars_text(likely)} with {strategy}"
            return f"At API list prices {paid} would have been {cost}; the difference is not significant."
        change = change_text(likely.value / self.paid - 1)
        return f"At API list prices {paid} would have been {dollars_text(likely)} with {strategy}: {change}."

    @property
    def basis(self) -> str:
        """The part of the cost that was replayed, as text."""
        around = ", and the requests around prevented compactions" * bool(self.prevented)
        return (
            f"${self.replayed:,.2f} of the ${self.paid:,.2f} were replayed: of each conversation the longest stretch "
            f"between compactions, if it has 20 requests or more{around}. The rest is counted as unchanged, and so are "
            "skipped sessions."
        )


def change_text(change: float) -> str:
    """Return a change by a share as text, such as "12% less"."""
    return f"{abs(change):.0%} {'less' if change < 0 else 'more'}" if round(change, 2) else "about the same"


def dollars_text(known: Interval) -> str:
    """Return a cost with its confidence interval, if there is one, such as "$79.10 (75.20–82.30)"."""
    return f"${known.text(',.0f' if known.value >= 100 else ',.2f')}"


def outlook(
    sessions: Iterable[SessionFigures], strategy: str, prices_name: str, paid: float, replayed: float = math.inf
) -> Outlook:
    """Estimate what sessions that cost `paid` dollars would have cost with a replayed strategy.

    The share of each conversation's unpruned bill is applied to its recorded cost. `autoprune run` also prevents
    compactions, so the costs of all requests around these replace that of a stretch beside one. Sessions may share
    requests, such as forks: these are replayed in each, but paid once, so at most `replayed` dollars were replayed.
    """
    found = [each for each in sessions if _is_as_billed(each, prices_name)]
    prevented = [
        (session.figures[0], each, each.later.costs)
        for session in found
        for each in session.compactions
        if strategy == RUN_STRATEGY and session.figures and each.later and each.later.replayed
    ]
    around = {each.identity: (figures, each.episode, costs) for figures, each, costs in prevented}
    beside = {each.episode for _, each, _ in prevented}
    counted = {episode for _, episode, _ in around.values()}
    known = [each for session in found for each in changes(session, strategy, prices_name) if each.paid]
    alone = [each for each in known if each.figures.episode not in beside]
    costs = [
        *((each.figures, (each.pruned / each.unpruned * (each.paid or 0.0), each.paid or 0.0)) for each in alone),
        *((figures, pair) for figures, _, pair in around.values()),
    ]
    share = interval(sums_by_project([each for each, _ in costs], [pair for _, pair in costs]))
    rest = replayed - sum(each.paid or 0.0 for each in known if each.figures.episode in counted)
    recorded = min(rest, sum(each.paid or 0.0 for each in alone)) + sum(pair[1] for _, _, pair in around.values())
    return Outlook(paid, max(0.0, min(paid, recorded)), share, len(around))
