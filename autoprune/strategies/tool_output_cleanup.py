"""The literal contract: clear the oldest result, and the next, and stop as soon as the safe zone is reached."""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.edits import Reason, Replace
from autoprune.planning import View


@dataclass(frozen=True)
class ToolOutputCleanup:
    """Clear tool results oldest first, one by one, until the conversation is within the safe zone."""

    name = "tool_output_cleanup"

    def step(self, view: View) -> Iterator[Replace]:
        """No more than needed; all that can be cleared where even that is not enough."""
        excess = view.tokens - view.limit
        for candidate in view.candidates():
            if excess <= 0:
                return
            excess -= candidate.saves
            yield candidate.cleared(Reason.OVER_SAFE_ZONE)
