"""Strategies that clear tool results by age.

`ToolOutputCleanup` clears as few of the oldest results as needed, `LowWater` clears down to a mark, and
`ObservationMasking` keeps a window of the newest results.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.conversation.edits import Reason, Replace
from autoprune.errors import SettingsError, check_number, is_share
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import DEFAULT_PROTECTIONS, Protections
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import BaseStrategy, Candidate, View

SHARE = "a share of the safe zone"


@dataclass(frozen=True)
class ToolOutputCleanup(BaseStrategy):
    """Clear tool results oldest first, one by one, until the conversation is within the safe zone."""

    protect: Protections = DEFAULT_PROTECTIONS
    clamp: Clamp | None = None
    clear_tool_inputs: ToolInputs | None = None
    name = "tool_output_cleanup"

    def step(self, view: View) -> list[Replace]:
        """Return the edits needed to reach the safe zone, or all possible edits if they are not enough."""
        excess = view.tokens - view.limit
        chosen: list[Candidate] = []
        for candidate in view.candidates():
            if excess <= 0:
                break
            excess -= candidate.saves
            chosen.append(candidate)
        reason = Reason.OVER_SAFE_ZONE if excess <= 0 else Reason.OUT_OF_REACH
        return [candidate.cleared(reason) for candidate in chosen]


@dataclass(frozen=True)
class LowWater(BaseStrategy):
    """Over the safe zone, clear tool results oldest first down to `target`, a share of the safe zone.

    This breaks the prompt cache rarely. Each prune saves at least `minimum_reclaim`, a share of the safe zone, if that
    much can be cleared. If the safe zone is in reach, the prune reaches it whatever the minimum. If not, the strategy
    waits until it can save the minimum, and then clears everything it can.
    """

    target: float = 0.75
    minimum_reclaim: float = 0.1
    protect: Protections = DEFAULT_PROTECTIONS
    clamp: Clamp | None = None
    clear_tool_inputs: ToolInputs | None = None
    name = "low_water"

    def step(self, view: View) -> Iterator[Replace]:
        """Yield one batch of edits, or no edits."""
        candidates = list(view.candidates())
        available = sum(candidate.saves for candidate in candidates)
        in_reach = view.tokens - available <= view.limit
        minimum = self.minimum_reclaim * view.limit
        if not in_reach and available < minimum:
            return
        wanted = max(view.tokens - self.target * view.limit, minimum)
        for candidate in candidates:
            if wanted <= 0:
                return
            wanted -= candidate.saves
            yield candidate.cleared(Reason.TO_TARGET if in_reach else Reason.OUT_OF_REACH)

    def check_parameters(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        if not is_share(self.target) or not self.target:
            raise SettingsError(f"low_water: target is {self.target!r}: give {SHARE}, above 0 and at most 1")
        if not is_share(self.minimum_reclaim):
            raise SettingsError(f"low_water: minimum_reclaim is {self.minimum_reclaim!r}: give {SHARE}, 0 to 1")


@dataclass(frozen=True)
class ObservationMasking(BaseStrategy):
    """Clear all but the newest results, at every request; with `polling`, only after that many new ones."""

    keep: int = 10
    polling: int = 1
    protect: Protections = DEFAULT_PROTECTIONS
    every_request: bool = True
    name = "observation_masking"

    def check_parameters(self) -> None:
        """Raise SettingsError for a number that is out of range."""
        for name, least in (("keep", 0), ("polling", 1)):
            check_number(f"{self.name}: {name}", getattr(self, name), least)

    def step(self, view: View) -> Iterator[Replace]:
        """Yield an edit for each candidate outside the window, or no edits."""
        count = len(view.results) - self.keep
        old = set(map(id, view.results[: max(0, count - count % self.polling)]))
        chosen = [candidate for candidate in view.candidates() if id(candidate.result) in old]
        yield from (candidate.cleared("older than the newest results") for candidate in chosen)


def observation_masking(keep: int = 10, polling: int = 1) -> ObservationMasking:
    """Create the strategy from the parameters that users set."""
    return ObservationMasking(keep, polling)
