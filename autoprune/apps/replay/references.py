"""What strategies are compared with: nothing at all. The windows are settings of `observation_masking`."""

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
