"""Strategies, and everything that one is written with: each decides what goes, and edits nothing itself.

    from autoprune.strategies import Candidate, Reason, Replace, View  # for a strategy that clears results
    from autoprune.strategies import Fold, FoldView, Group, Retention  # for one that folds or drops messages

`clearing` holds those that clear results above the safe zone, `cache_aware` the one that weighs the prompt cache (with
`_worth` and `at_work`), `masking` the one that keeps the newest, with settings as well-known systems have them,
`per_result` the one that shortens them, `folding` the one that takes out whole messages; `presets` are named
settings of the last two. `by_name` lists all that ship, and finds the one that a
text names; `scaffold` writes a new one, and loads one from a user's file.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autoprune.conversation.edits import Fold, Reason, Replace
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import Protections
from autoprune.planning.retention import Retention
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, FoldingStrategy, FoldView, Group, Strategy, Told, View
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

if TYPE_CHECKING:
    from autoprune.strategies.cache_aware import CacheAware
    from autoprune.strategies.folding import Folding
    from autoprune.strategies.masking import ObservationMasking
    from autoprune.strategies.per_result import PerResult

__all__ = [
    "CacheAware",
    "Candidate",
    "Clamp",
    "Fold",
    "FoldView",
    "Folding",
    "FoldingStrategy",
    "Group",
    "LowWater",
    "ObservationMasking",
    "PerResult",
    "Protections",
    "Reason",
    "Replace",
    "Retention",
    "Strategy",
    "Told",
    "ToolInputs",
    "ToolOutputCleanup",
    "View",
]
# Loaded when they are first asked for: who does not fold does not wait for them.
LATE = {"CacheAware": "cache_aware", "Folding": "folding", "ObservationMasking": "masking", "PerResult": "per_result"}


def __getattr__(name: str) -> Any:
    """Return a name whose module is loaded late."""
    if name not in LATE:
        raise AttributeError(f"module 'autoprune.strategies' has no attribute {name!r}")
    return getattr(import_module(f"autoprune.strategies.{LATE[name]}"), name)
