"""What a run costs: at the session's own prices, with the cache as its log says, or at a list of prices."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import Run
from autoprune.economics import CALL_TOKENS, Prices

CARRIED = 10  # requests for which a result that was fetched again stays in the prompt
# Each request at the prices of its own model and cache, as far as the session's log tells them.
OWN = Prices(name="own")


@dataclass(frozen=True, slots=True)
class Bill:
    """A run's cost in input tokens, with and without what is fetched again, and how often its cache broke.

    `saved` is what it costs less than no pruning, and `saved_cold` the part of that which was cut at requests that
    found no cache. `input_price` is the price of an input token in dollars; None where a model's is not known.
    """

    total: float
    with_rereads: float
    cache_breaks: int
    saved: float = 0.0
    saved_cold: float = 0.0
    input_price: float | None = None


def bill(run: Run, prices: Prices) -> Bill:
    """Return the bill of a run at some prices, or at its own.

    The bill of requests to models with different prices is in input tokens of the one that most of them went to.
    """
    episode = run.episode
    life = None if prices is OWN or prices == OWN else prices.life
    at = tuple(_at(episode, prices))
    total, unpruned, breaks, before = 0.0, 0.0, 0, 0
    for request, (prompt, whole, (known, weight)) in enumerate(zip(run.prompts, episode.unpruned, at, strict=True)):
        answer = episode.billings[request].answer
        held = episode.cached(request, prompt.tokens, prompt.held, life)
        whole_held = episode.cached(request, whole, episode.unpruned[request - 1] if request else 0, life)
        total += weight * known.request(episode.ratio * prompt.tokens, episode.ratio * held, answer)
        unpruned += weight * known.request(episode.ratio * whole, episode.ratio * whole_held, answer)
        breaks += prompt.held < before
        before = prompt.tokens
    again = sum(_fetching(run, request, result, *at[request]) for request, result in run.rereads)
    price = episode.prices.input_price if life is None else prices.input_price
    return Bill(total, total + again, breaks, unpruned - total, _saved_cold(run, at, life), price)


def _at(episode: Episode, prices: Prices) -> Iterator[tuple[Prices, float]]:
    """Yield the prices of each request, and what its input tokens are worth in those of most requests."""
    if prices != OWN:
        yield from ((prices, 1.0) for _ in episode.requests)
        return
    usual = episode.prices.input_price
    for each in episode.billings:
        own = each.prices.input_price
        yield each.prices, own / usual if own and usual else 1.0


def _saved_cold(run: Run, at: tuple[tuple[Prices, float], ...], life: float | None) -> float:
    """Return what was saved by cuts at cold requests: what they took out need not be sent at any later one."""
    episode = run.episode
    left = [whole - prompt.tokens for whole, prompt in zip(episode.unpruned, run.prompts, strict=True)]
    cold = [episode.is_cold(request, life) for request in range(len(left))]
    costs = [
        weight * (known.write if is_cold else known.read) * episode.ratio
        for (known, weight), is_cold in zip(at, cold, strict=True)
    ]
    carried = [*costs]
    for request in range(len(costs) - 2, -1, -1):
        carried[request] += carried[request + 1]
    cuts = [now - before for before, now in pairwise([0, *left])]
    return sum(cut * carried[request] for request, cut in enumerate(cuts) if cold[request] and cut > 0)


def _fetching(run: Run, request: int, result: int, prices: Prices, weight: float) -> float:
    """Return the cost of one more request that fetches a result, written once and carried on."""
    ratio = run.episode.ratio
    tokens = ratio * run.episode.transcript.results[result].tokens
    prompt = ratio * run.prompts[request].tokens
    return weight * (
        prices.request(prompt, prompt, CALL_TOKENS) + prices.write * tokens + CARRIED * prices.read * tokens
    )
