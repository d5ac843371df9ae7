"""Strategies, and everything needed to write one. A strategy decides what goes and edits nothing itself.

    from autoprune.strategies import BaseStrategy, Replace, View  # for a strategy that clears results
    from autoprune.strategies import BaseFoldingStrategy, Fold, FoldView  # for one that folds or drops messages

`clearing` has strategies that clear results by age, `cache_aware` a strategy that weighs the prompt cache (`worth`
values results for it), `per_result` a strategy that shortens results, and `folding` a strategy that takes out whole
messages; `presets` are named settings of the last two. `catalog` finds the strategy that a text names, and `files` runs
the file of a user's strategy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autoprune.conversation.edits import CustomReason, Fold, Reason, Replace
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import Protections, Retention
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import (
    BaseFoldingStrategy,
    BaseStrategy,
    Candidate,
    FoldingStrategy,
    FoldView,
    Group,
    Rationale,
    Strategy,
    View,
)
from autoprune.strategies.clearing import LowWater, ObservationMasking, ToolOutputCleanup

if TYPE_CHECKING:
    from autoprune.strategies.cache_aware import CacheAware
    from autoprune.strategies.folding import Folding
    from autoprune.strategies.per_result import PerResult

__all__ = [
    "BaseFoldingStrategy",
    "BaseStrategy",
    "CacheAware",
    "Candidate",
    "Clamp",
    "CustomReason",
    "Fold",
    "FoldView",
    "Folding",
    "FoldingStrategy",
    "Group",
    "LowWater",
    "ObservationMasking",
    "PerResult",
    "Protections",
    "Rationale",
    "Reason",
    "Replace",
    "Retention",
    "Strategy",
    "ToolInputs",
    "ToolOutputCleanup",
    "View",
]
# Lazy imports: most callers use one strategy, and never fold.
LAZY = {"CacheAware": "cache_aware", "Folding": "folding", "PerResult": "per_result"}


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'autoprune.strategies' has no attribute {name!r}")
    return getattr(import_module(f"autoprune.strategies.{LAZY[name]}"), name)
