"""What strategies are compared with: nothing at all, and the rules of well-known systems."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.conversation.edits import Replace
from autoprune.planning.view import View


@dataclass(frozen=True)
class NoPruning:
    """Send everything."""

    name = "none"

    def step(self, view: View) -> list[Replace]:
        """Return nothing."""
        return []


@dataclass(frozen=True)
class Masking:
    """Clear all but the newest results, at every request; with `polling`, only when so many more have come."""

    keep: int = 20
    polling: int = 1
    every_request = True

    @property
    def name(self) -> str:
        """The name with its figures."""
        return f"window {self.keep}" if self.polling == 1 else f"polling {self.keep} + {self.polling}"

    def step(self, view: View) -> Iterator[Replace]:
        """Return an edit for each candidate that is older than the newest ones."""
        count = len(view.results) - self.keep
        masked = count - count % self.polling
        old = set(map(id, view.results[: max(0, masked)]))
        for candidate in view.candidates():
            if id(candidate.result) in old:
                yield candidate.cleared("older than the window")


@dataclass(frozen=True)
class KeepNewest:
    """Over the safe zone, clear all but the newest results."""

    keep: int = 3

    @property
    def name(self) -> str:
        """The name with its figure."""
        return f"keep {self.keep}"

    def step(self, view: View) -> Iterator[Replace]:
        """Return an edit for each candidate but those of the newest results."""
        kept = set(map(id, view.results[-self.keep :]))
        for candidate in view.candidates():
            if id(candidate.result) not in kept:
                yield candidate.cleared("older than the newest results")
