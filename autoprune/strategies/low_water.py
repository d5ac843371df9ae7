"""Oldest first, but down to a mark below the safe zone: the prompt cache breaks rarely, and for something."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.conversation.edits import Replace
from autoprune.conversation.reasons import Reason
from autoprune.errors import SettingsError
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.walk import View


@dataclass(frozen=True)
class LowWater:
    """Over the safe zone, clear tool results oldest first down to `target`, a share of the safe zone.

    Each prune reclaims at least `minimum_reclaim`, a share of the safe zone, where that much can be cleared. The
    minimum never keeps the conversation above a safe zone that can be reached; where it cannot be reached, the
    strategy waits until the minimum is there, and then clears all that can go.
    """

    target: float = 0.75
    minimum_reclaim: float = 0.1
    protect: Protections = NOTHING
    clamp: Clamp | None = None
    clear_tool_inputs: ToolInputs | None = None
    name = "low_water"

    def step(self, view: View) -> Iterator[Replace]:
        """Nothing, or one batch."""
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
        shares = (self.target, self.minimum_reclaim)
        is_number = all(isinstance(share, int | float) and not isinstance(share, bool) for share in shares)
        if not is_number or not 0 < self.target <= 1 or not 0 <= self.minimum_reclaim <= 1:
            raise SettingsError(f"{self}: target must be above 0 and at most 1, minimum_reclaim between 0 and 1")
