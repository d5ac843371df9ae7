"""Clear the oldest result, then the next, and stop as soon as the safe zone is reached."""

from dataclasses import dataclass

from autoprune.conversation.edits import Replace
from autoprune.conversation.reasons import Reason
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, View


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
