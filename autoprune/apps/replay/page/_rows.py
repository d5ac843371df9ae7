"""The strategies as the page numbers them, by their standing."""

from collections.abc import Iterable
from dataclasses import dataclass

from autoprune.apps.replay.figures import Figures
from autoprune.apps.replay.summary import Row
from autoprune.apps.replay.verdict import Standing, called, standings

CHOICE, REFERENCE, CLAIRVOYANT = "choice", "reference", "clairvoyant"


@dataclass(frozen=True)
class Ranked:
    """A strategy with its number on the page, which stands at its point and in its row."""

    number: int
    standing: Standing

    @property
    def row(self) -> Row:
        """Its figures over all episodes."""
        return self.standing.row

    @property
    def name(self) -> str:
        """What it is called."""
        return called(self.row)

    @property
    def label(self) -> str:
        """Its number and name, as charts have it."""
        return f"{self.number} {self.name}"

    @property
    def kind(self) -> str:
        """What it is: a choice, a reference to compare with, or one that knows what comes later."""
        if self.standing.is_clairvoyant:
            return CLAIRVOYANT
        return REFERENCE if self.standing.is_reference else CHOICE


def ranked(figures: Iterable[Figures], prices: str) -> list[Ranked]:
    """Return the strategies by their standing, numbered from 1."""
    return [Ranked(number, each) for number, each in enumerate(standings(figures, prices), 1)]
