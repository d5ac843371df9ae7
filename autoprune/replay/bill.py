"""What a run costs at given prices."""

from dataclasses import dataclass

from autoprune.economics import CACHE_LIFE, CALL_TOKENS, Prices
from autoprune.replay.play import Run

CARRIED = 10  # requests for which a result that was fetched again stays in the prompt


@dataclass(frozen=True, slots=True)
class Bill:
    """A run's cost in input tokens, with and without what is fetched again, and how often its cache broke."""

    total: float
    with_rereads: float
    cache_breaks: int


def bill(run: Run, prices: Prices, life: float = CACHE_LIFE) -> Bill:
    """Return the bill of a run. The first prompt finds no cache, nor does one after a pause longer than its life."""
    episode = run.episode
    total, breaks, before = 0.0, 0, 0
    for prompt, start, answer in zip(run.prompts, episode.requests, episode.answers, strict=True):
        held = 0 if episode.is_cold(start, life) else prompt.held
        breaks += prompt.held < before
        total += prices.request(prompt.tokens, held, answer)
        before = prompt.tokens
    again = sum(_fetching(run, request, result, prices) for request, result in run.rereads)
    return Bill(total, total + again, breaks)


def _fetching(run: Run, request: int, result: int, prices: Prices) -> float:
    """Return the cost of one more request that fetches a result, written once and carried on."""
    tokens = run.episode.transcript.results[result].tokens
    prompt = run.prompts[request].tokens
    return prices.request(prompt, prompt, CALL_TOKENS) + prices.write * tokens + CARRIED * prices.read * tokens
