"""Strategies that know what the agent did later: not to be used, but to say how much there is to be won.

`Clairvoyant` clears whole results that are never needed again, and clears them when that pays. With `passages` it
clears all of a result but the passages that are needed again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Path, ToolResult
from autoprune.economics import CACHE_LIFE, Prices
from autoprune.planning.view import Candidate, View
from autoprune.replay.episode import Episode

LEAST_LINES = 12  # of a passage
Place = tuple[Path, int | None]


@dataclass(frozen=True)
class Clairvoyant:
    """Clear what no later action needs as soon as the account of what it costs to carry reaches the cost of the cut.

    `needed` is the last request that needs a result, by its place; what is not in it is never needed.
    """

    needed: Mapping[Place, int] = field(repr=False)
    prices: Prices
    threshold: float = 1.0
    cache_life: float = CACHE_LIFE
    name = "clairvoyant"
    every_request = True

    def begin(self) -> "_Account":
        """Return the account of one walk."""
        return _Account(self)

    def step(self, view: View) -> Iterator[Replace]:
        """Return what an empty account clears."""
        return self.begin().step(view)

    def is_over(self, result: ToolResult, request: int) -> bool:
        """Return whether no action from this request on needs a result."""
        return self.needed.get(place(result), -1) < request


class _Account:
    def __init__(self, strategy: Clairvoyant) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._owed = 0.0

    def step(self, view: View) -> Iterator[Replace]:
        known = self._strategy
        useless = [each for each in view.candidates() if known.is_over(each.result, view.request)]
        if not useless:
            return
        saved = sum(each.saves for each in useless)
        self._owed += known.prices.read * saved
        lost = (known.prices.write - known.prices.read) * behind(view, useless)
        if view.pause > known.cache_life or self._owed >= known.threshold * lost:
            self._owed = 0.0
            yield from (each.cleared("never needed again") for each in useless)


def behind(view: View, cut: list[Candidate]) -> int:
    """Return the cached tokens that would be written anew if some candidates were cleared: those behind the first."""
    first = min(each.part.location.message for each in cut)
    cached = sum(view.weight(at) for at in range(first + 1, view.sent))
    return max(0, cached - sum(each.saves for each in cut if first < each.part.location.message < view.sent))


def clairvoyant(episode: Episode, prices: Prices, threshold: float = 1.0, *, passages: bool = False) -> Clairvoyant:
    """Return the strategy that knows an episode's later needs: of each atom it keeps the newest source."""
    needed: dict[Place, int] = {}
    results = episode.transcript.results
    for need in episode.evidence.needs:
        source = place(results[need.sources[-1]])
        needed[source] = max(needed.get(source, -1), need.request)
    return Clairvoyant(needed, prices, threshold)


def place(result: ToolResult) -> Place:
    """Return where a result stands, however often it is read."""
    return result.location.path, result.location.start
