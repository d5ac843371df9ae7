"""Strategies that know what the agent did later: not to be used, but to say how much there is to be won.

`Clairvoyant` clears whole results that are never needed again, and clears them when that pays. Over passages it need
not wait for that: it leaves the passages that are needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.apps.replay.atoms import Atom
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.passages import shortened
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Part, Path, ToolResult
from autoprune.economics import Prices
from autoprune.planning.view import Candidate, View

LEAST_SAVED = 300  # tokens, for which a result is shortened to passages
Place = tuple[Path, int | None]
Needs = Sequence[tuple[int, Atom]]  # of a result, with the requests as a walk numbers them


@dataclass(frozen=True)
class Clairvoyant:
    """Clear what no later action needs as soon as the account of what it costs to carry reaches the cost of the cut.

    `needed` is what later actions need of a result, by its place; what is not in it is never needed. With `passages` a
    result that is needed later is cut to the passages that are, where that saves 300 tokens or more.
    """

    needed: Mapping[Place, Needs] = field(repr=False)
    prices: Prices
    threshold: float = 1.0
    passages: bool = False
    every_request = True

    @property
    def name(self) -> str:
        """The name, which says whether passages are left."""
        return "clairvoyant_passages" if self.passages else "clairvoyant"

    def begin(self) -> "_Account":
        """Return the account of one walk."""
        return _Account(self)

    def step(self, view: View) -> Iterator[Replace]:
        """Return what an empty account clears."""
        return self.begin().step(view)


@dataclass(frozen=True)
class _Cut:
    """A candidate, the text to put in its place (None for the placeholder), and what that saves."""

    candidate: Candidate
    text: str | None
    saves: int

    @property
    def edit(self) -> Replace:
        if self.text is None:
            return self.candidate.cleared("never needed again")
        return self.candidate.replaced(self.text, "the rest is never needed again")


class _Account:
    def __init__(self, strategy: Clairvoyant) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._owed = 0.0
        self._known: dict[tuple[Part, tuple[Atom, ...]], tuple[str | None, int]] = {}

    def step(self, view: View) -> Iterator[Replace]:
        known = self._strategy
        cuts = [cut for each in view.candidates() if (cut := self._cut(each, view.request))]
        if not cuts:
            return
        self._owed += known.prices.read * sum(cut.saves for cut in cuts)
        lost = (known.prices.write - known.prices.read) * behind(view, cuts)
        if view.pause > known.prices.life or self._owed >= known.threshold * lost:
            self._owed = 0.0
            yield from (cut.edit for cut in cuts)

    def _cut(self, candidate: Candidate, request: int) -> _Cut | None:
        """Return what may be cut of a candidate; None if all of it is needed from this request on, or nearly all."""
        needs = self._strategy.needed.get(place(candidate.result), ())
        atoms = tuple(dict.fromkeys(atom for at, atom in needs if at >= request))
        if not atoms:
            return _Cut(candidate, None, candidate.saves)
        if not self._strategy.passages or candidate.saves < LEAST_SAVED:
            return None
        text, more = self._shortened(candidate, atoms)
        return _Cut(candidate, text, candidate.saves - more) if text and candidate.saves - more >= LEAST_SAVED else None

    def _shortened(self, candidate: Candidate, atoms: tuple[Atom, ...]) -> tuple[str | None, int]:
        """Return a candidate's passages that show some atoms, and the tokens that they take beyond the placeholder."""
        part = candidate.part
        known = self._known.get((part, atoms))
        if known is None:
            text = shortened(part.text, atoms)
            more = part.count(part.with_text(text)) - part.count(part.with_text(candidate.text)) if text else 0
            known = self._known[part, atoms] = text, more
        return known


def behind(view: View, cuts: Sequence[_Cut]) -> int:
    """Return the cached tokens that would be written anew if some cuts were made: those behind the first."""
    places = [(cut.candidate.part.location.message, cut.saves) for cut in cuts]
    first = min(at for at, _ in places)
    cached = sum(view.weight(at) for at in range(first + 1, view.sent))
    return max(0, cached - sum(saves for at, saves in places if first < at < view.sent))


def clairvoyant(episode: Episode, prices: Prices, threshold: float = 1.0, *, passages: bool = False) -> Clairvoyant:
    """Return the strategy that knows an episode's later needs: of each atom it keeps the newest source."""
    needed: dict[Place, list[tuple[int, Atom]]] = {}
    results = episode.transcript.results
    for need in episode.evidence.needs:
        needed.setdefault(place(results[need.sources[-1]]), []).append((episode.walked[need.request], need.atom))
    return Clairvoyant(needed, prices, threshold, passages=passages)


def place(result: ToolResult) -> Place:
    """Return where a result stands, however often it is read."""
    return result.location.path, result.location.start
