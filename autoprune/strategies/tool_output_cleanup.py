"""The literal contract: clear the oldest result, and the next, and stop as soon as the safe zone is reached."""

from dataclasses import dataclass

from autoprune.edits import Reason, Replace
from autoprune.planning import Candidate, View


@dataclass(frozen=True)
class ToolOutputCleanup:
    """Clear tool results oldest first, one by one, until the conversation is within the safe zone."""

    name = "tool_output_cleanup"

    def step(self, view: View) -> list[Replace]:
        """No more than needed; all that can be cleared where even that is not enough."""
        excess = view.tokens - view.limit
        chosen: list[Candidate] = []
        for candidate in view.candidates():
            if excess <= 0:
                break
            excess -= candidate.saves
            chosen.append(candidate)
        reason = Reason.OVER_SAFE_ZONE if excess <= 0 else Reason.OUT_OF_REACH
        return [candidate.cleared(reason) for candidate in chosen]
