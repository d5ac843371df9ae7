"""The figures of one episode under one strategy: its bill at some prices, and the evidence that stayed visible."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from autoprune.apps.replay.atoms import GROUPS, PATHS, AtomGroup
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.evidence import Need
from autoprune.apps.replay.play import Run
from autoprune.economics import CALL_TOKENS, Prices

ROUNDED = 1  # tokens by which two estimates of the same prompt may differ
CARRIED = 10  # requests during which a re-fetched result stays in the prompt
# A placeholder: each request is billed at the prices of its own model and cache, as far as the log names them.
OWN = Prices(name="own")


@dataclass(frozen=True, slots=True)
class Bill:
    """A run's cost in input tokens, with and without re-reads, and how often its cache broke.

    `worst` is the highest ratio, at any request, of the cost so far to that without pruning. `saved` is the saving
    against no pruning, and `saved_cold` the part of it from clearing at requests that found a
    cold cache. `input_price` is the price of an input token in dollars; None if it is not known.
    """

    total: float
    with_rereads: float
    cache_breaks: int
    worst: float = 1.0
    saved: float = 0.0
    saved_cold: float = 0.0
    input_price: float | None = None


def bill(run: Run, prices: Prices) -> Bill:
    """Compute the bill of a run at the given prices, or at its own.

    If requests went to models with different prices, the unit is an input token at the most frequent prices.
    """
    episode = run.episode
    life = None if prices == OWN else prices.life
    at = tuple(_request_prices(episode, prices))
    total, unpruned, worst = 0.0, 0.0, 0.0
    grown = [(whole, min(whole, before)) for before, whole in pairwise((0, *episode.unpruned))]
    for cost, whole in zip(request_costs(run, prices), prompt_costs(episode, grown, prices), strict=True):
        total += cost
        unpruned += whole
        worst = max(worst, total / unpruned if unpruned else 1.0)
    again = sum(_fetch_cost(run, request, result, *at[request]) for request, result in run.rereads)
    price = episode.prices.input_price if life is None else prices.input_price
    return Bill(
        total=total,
        with_rereads=total + again,
        cache_breaks=sum(_breaks(run)),
        worst=worst,
        saved=unpruned - total,
        saved_cold=_cold_savings(run, at, life),
        input_price=price,
    )


def request_costs(run: Run, prices: Prices) -> Iterator[float]:
    """Yield the cost of each request in input tokens, at the given prices or at its own, as in `bill`."""
    return prompt_costs(run.episode, [(prompt.tokens, prompt.held) for prompt in run.prompts], prices)


def cost_from(run: Run, first: int) -> float:
    """Compute what the requests from number `first` on cost, with re-reads, in input tokens at the run's own prices."""
    at = tuple(_request_prices(run.episode, OWN))
    again = (_fetch_cost(run, request, result, *at[request]) for request, result in run.rereads if request >= first)
    return sum([*request_costs(run, OWN)][first:]) + sum(again)


def _breaks(run: Run) -> Iterator[bool]:
    """Yield for each request but the first whether pruning changed what the cache held, not the agent itself."""
    whole = pairwise(run.episode.unpruned)
    for (before, now), (earlier, later) in zip(pairwise(run.prompts), whole, strict=True):
        yield now.held < before.tokens and later >= earlier


def prompt_costs(episode: Episode, prompts: Iterable[tuple[int, int]], prices: Prices) -> Iterator[float]:
    """Yield the costs of prompts, given as their tokens and those shared with the previous prompt."""
    life = None if prices == OWN else prices.life
    at = zip(prompts, _request_prices(episode, prices), strict=True)
    for request, ((tokens, shared), (known, weight)) in enumerate(at):
        held = episode.cached_tokens(request, tokens, shared, life)
        yield weight * known.request(tokens, held, episode.billings[request].answer)


def _request_prices(episode: Episode, prices: Prices) -> Iterator[tuple[Prices, float]]:
    """Yield the prices of each request, and the value of its input tokens in tokens of the most frequent prices."""
    if prices != OWN:
        yield from ((prices, 1.0) for _ in episode.requests)
        return
    usual = episode.prices.input_price
    for each in episode.billings:
        own = each.prices.input_price
        yield each.prices, own / usual if own and usual else 1.0


def _cold_savings(run: Run, at: tuple[tuple[Prices, float], ...], life: float | None) -> float:
    """Compute the saving from cuts at cold requests: the removed tokens are not sent with any later request."""
    episode = run.episode
    left = [whole - prompt.tokens for whole, prompt in zip(episode.unpruned, run.prompts, strict=True)]
    cold = [episode.is_cold(request, life) for request in range(len(left))]
    costs = [
        weight * known.tier(prompt.tokens).prompt * (known.write if is_cold else known.read)
        for (known, weight), is_cold, prompt in zip(at, cold, run.prompts, strict=True)
    ]
    carried = [*costs]
    for request in range(len(costs) - 2, -1, -1):
        carried[request] += carried[request + 1]
    cuts = [now - before for before, now in pairwise([0, *left])]
    return sum(cut * carried[request] for request, cut in enumerate(cuts) if cold[request] and cut > 0)


def _fetch_cost(run: Run, request: int, result: int, prices: Prices, weight: float) -> float:
    """Compute the cost of one more request that fetches a result, and of carrying the result in later prompts."""
    tokens = run.episode.sizes.text * run.episode.transcript.results[result].tokens
    prompt = run.prompts[request].tokens
    carrying = prices.tier(prompt).prompt * (prices.write + CARRIED * prices.read) * tokens
    return weight * (prices.request(prompt, prompt, CALL_TOKENS) + carrying)


NEAR = 20  # requests since the newest source was sent
FAR = f"lag > {NEAR}"  # the group of evidence with an older source


@dataclass(frozen=True)
class Kept:
    """The numbers of needed atoms, of atoms that stayed visible, and of those visible outside placeholders."""

    needed: int = 0
    kept: int = 0
    in_results: int = 0

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.needed + other.needed, self.kept + other.kept, self.in_results + other.in_results)

    @property
    def share(self) -> float:
        """The share that stayed visible; 1.0 if nothing was needed."""
        return self.kept / self.needed if self.needed else 1.0


@dataclass(frozen=True)
class Figures:
    """The figures of an episode under a strategy. Bills are in input tokens, by the name of their prices.

    `session` is the name of the session's file, which may hold several episodes, and `project` that of the folder in
    which the agent worked, "" if unknown. `evidence` is by group: code, edits, shell edits, facts, paths; and `FAR`,
    the code whose source is old. `protected` counts protected content by kind, once for each request. `prompts` are the
    provider's tokens of each prompt, `held` those that were read from its cache, and `costs` what each request costs at
    the first of the prices. `missed` are pairs of a result and a request that needed it after it was cleared.
    `thinking` are the tokens of thinking that the edits make invalid, if the model binds it. `is_changed` tells whether
    any prompt is not as recorded. `seconds` is the median time of a prune, and `slowest` the longest.
    """

    session: str
    episode: str
    strategy: str
    style: str
    requests: int
    safe_zone: int
    bills: Mapping[str, Bill]
    evidence: Mapping[str, Kept]
    rereads: int
    violations: tuple[str, ...] = ()
    thinking: int = 0
    prompts: tuple[int, ...] = field(default=(), repr=False)
    held: tuple[int, ...] = field(default=(), repr=False)
    costs: tuple[float, ...] = field(default=(), repr=False)
    seconds: float = 0.0
    slowest: float = 0.0
    protected: Mapping[str, Kept] = field(default_factory=dict)
    missed: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    project: str = ""
    is_changed: bool = False


def figures(run: Run, strategy: str, prices: Sequence[Prices], *, style: str) -> Figures:
    """Measure a run at each of the given prices, under the name `strategy`."""
    episode = run.episode
    seconds = [prompt.seconds for prompt in run.prompts]
    life = prices[0].life if prices and prices[0] != OWN else None
    cached = (episode.cached_tokens(at, prompt.tokens, prompt.held, life) for at, prompt in enumerate(run.prompts))
    return Figures(
        session=episode.session,
        episode=episode.name,
        strategy=strategy,
        style=style,
        requests=len(run.prompts),
        safe_zone=episode.safe_zone,
        bills={str(each): bill(run, each) for each in prices},
        evidence=_evidence(run),
        rereads=len(run.rereads),
        violations=run.violations,
        thinking=round(run.thinking),
        prompts=tuple(prompt.tokens for prompt in run.prompts),
        held=tuple(map(round, cached)),
        costs=tuple(request_costs(run, prices[0])) if prices else (),
        seconds=median(seconds) if seconds else 0.0,
        slowest=max(seconds, default=0.0),
        protected={str(kind): Kept(whole + lost, whole, whole) for kind, (whole, lost) in run.protected.items()},
        missed=tuple(_missed(run)),
        project=episode.project,
        is_changed=any(
            abs(whole - prompt.tokens) > ROUNDED for whole, prompt in zip(episode.unpruned, run.prompts, strict=True)
        ),
    )


def _missed(run: Run) -> Iterator[tuple[int, int]]:
    """Yield pairs of a result and a request that needed it after it was cleared."""
    needs = zip(run.episode.evidence.needs, run.retained, strict=True)
    missed = (need for need, is_kept in needs if need.sources and not is_kept)
    yield from dict.fromkeys((need.sources[-1], need.request) for need in missed)


def _evidence(run: Run) -> dict[str, Kept]:
    counts = {name: Kept() for name in (*map(str, GROUPS), FAR, PATHS)}
    for need, kept, in_results in zip(run.episode.evidence.needs, run.retained, run.in_results, strict=True):
        for name in _group_names(need):
            counts[name] += Kept(1, int(kept), int(in_results))
    return counts


def _group_names(need: Need) -> Iterator[str]:
    kind = need.atom.kind
    yield from [str(name) for name, kinds in GROUPS.items() if kind in kinds] or [PATHS]
    if kind in GROUPS[AtomGroup.CODE] and need.lag > NEAR:
        yield FAR
