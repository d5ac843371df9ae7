"""The strategies of `AgenticConversationPruner`: clear the oldest results, as few as can be or down to a mark."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.conversation.edits import Reason, Replace
from autoprune.errors import SettingsError, is_share
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, View

SHARE = "a share of the safe zone"


@dataclass(frozen=True)
class ToolOutputCleanup:
    """Clear tool results oldest first, one by one, until the conversation is within the safe zone."""

    protect: Protections = NOTHING
    clamp: Clamp | None = None
    clear_tool_inputs: ToolInputs | None = None
    name = "tool_output_cleanup"

    def step(self, view: View) -> list[Replace]:
        """Return no more edits than needed, or all that can be made if even that is not enough."""
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
class LowWater:
    """Over the safe zone, clear tool results oldest first down to `target`, a share of the safe zone.

    So the prompt cache breaks rarely. Each prune saves at least `minimum_reclaim`, a share of the safe zone, if that
    much can be cleared. If the safe zone can be reached it is, whatever the minimum. If not, the strategy waits until
    it can save the minimum, and then clears all that can go.
    """

    target: float = 0.75
    minimum_reclaim: float = 0.1
    protect: Protections = NOTHING
    clamp: Clamp | None = None
    clear_tool_inputs: ToolInputs | None = None
    name = "low_water"

    def step(self, view: View) -> Iterator[Replace]:
        """Return nothing, or one batch of edits."""
        self._check()
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

    def _check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        if not is_share(self.target) or not self.target:
            raise SettingsError(f"low_water: target is {self.target!r}: give {SHARE}, above 0 and at most 1")
        if not is_share(self.minimum_reclaim):
            raise SettingsError(f"low_water: minimum_reclaim is {self.minimum_reclaim!r}: give {SHARE}, 0 to 1")
