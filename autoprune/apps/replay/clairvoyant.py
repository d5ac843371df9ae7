"""A strategy that knows the agent's later actions: an upper bound for savings, since no live loop can use it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.apps.replay.atoms import Atom
from autoprune.apps.replay.episode import Episode
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Path, ToolResult
from autoprune.economics import Prices
from autoprune.planning.view import Candidate, View
from autoprune.strategies.bills import cached_after

Place = tuple[Path, int | None]
Needs = Sequence[tuple[int, Atom]]  # of a result, with the requests as a walk numbers them


@dataclass(frozen=True)
class Clairvoyant:
    """Clear results that no later action needs, as soon as carrying them costs as much as clearing them.

    `needed` holds the atoms that later actions need of each result, by its place; all other results are never needed.
    """

    needed: Mapping[Place, Needs] = field(repr=False)
    prices: Prices
    name = "clairvoyant"
    every_request = True

    def begin(self) -> "CarryingCost":
        """Start a walk with a new account."""
        return CarryingCost(self)

    def step(self, view: View) -> Iterator[Replace]:
        """Clear what a walk without history would clear."""
        return self.begin().step(view)


class CarryingCost:
    """The cost so far of carrying results that could be cleared. A subclass may also shorten results."""

    def __init__(self, strategy: Clairvoyant) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._owed = 0.0

    def step(self, view: View) -> Iterator[Replace]:
        """Make all possible edits if the cache is cold anyway, or as soon as not making them has cost as much."""
        strategy = self._strategy
        edits = [edit for each in view.candidates() if (edit := self._edit(each, view.request))]
        if not edits:
            return
        self._owed += strategy.prices.read * sum(edit.saved for edit in edits)
        lost = (strategy.prices.write - strategy.prices.read) * cached_after(view, edits)
        if view.pause > strategy.prices.life or self._owed >= lost:
            self._owed = 0.0
            self.make(edits)
            yield from edits

    def make(self, edits: Sequence[Replace]) -> None:
        """Note the edits that are made."""

    def edit(self, candidate: Candidate, atoms: tuple[Atom, ...]) -> Replace | None:
        """Return the possible edit of a candidate of which these atoms are still needed; None if there is none."""
        return None if atoms else candidate.cleared("never needed again")

    def _edit(self, candidate: Candidate, request: int) -> Replace | None:
        needs = self._strategy.needed.get(place(candidate.result), ())
        return self.edit(candidate, tuple(dict.fromkeys(atom for at, atom in needs if at >= request)))


def needs_of(episode: Episode) -> dict[Place, list[tuple[int, Atom]]]:
    """Find what the actions of an episode need of each result; of each atom, the newest source is kept."""
    needed: dict[Place, list[tuple[int, Atom]]] = {}
    for need in (each for each in episode.evidence.needs if not each.written):
        source = place(episode.transcript.results[need.sources[-1]])
        needed.setdefault(source, []).append((episode.walk_numbers[need.request], need.atom))
    return needed


def clairvoyant(episode: Episode, prices: Prices) -> Clairvoyant:
    """Create a strategy that knows an episode's later needs."""
    return Clairvoyant(needs_of(episode), prices)


def place(result: ToolResult) -> Place:
    """Return the place of a result, which is the same each time the message is read."""
    return result.location.path, result.location.start
