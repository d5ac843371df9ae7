"""autoprune keeps the conversation of a coding agent inside its token budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import autoprune.interrupts  # noqa: F401 - first, since Ctrl-C may come while the rest is imported
from autoprune.errors import (
    ArchiveError,
    AutopruneError,
    ConversationError,
    RuleError,
    SessionError,
    SettingsError,
)
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import Protections
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.pruners.pruner import AgenticConversationPruner, prune
from autoprune.pruners.report import Report
from autoprune.pruners.result import PruneEvent, Result
from autoprune.settings.values import PruneArgs, effective_settings
from autoprune.tokens import calibration
from autoprune.wire import problems, repair

if TYPE_CHECKING:
    from autoprune.planning.protections import Retention
    from autoprune.pruners.conversation import ConversationPruner
    from autoprune.pruners.decorator import prune_history
    from autoprune.summarizers import Chunked, Digest, OpenAISummarizer, asummarize_text, summarize_text

__version__ = "0.1.0"
__all__ = [
    "AgenticConversationPruner",
    "ArchiveError",
    "AutopruneError",
    "Chunked",
    "Clamp",
    "ConversationError",
    "ConversationPruner",
    "Digest",
    "OpenAISummarizer",
    "Protections",
    "PruneArgs",
    "PruneEvent",
    "Report",
    "Result",
    "Retention",
    "RuleError",
    "SessionError",
    "SettingsError",
    "ToolInputs",
    "asummarize_text",
    "calibration",
    "effective_settings",
    "problems",
    "prune",
    "prune_history",
    "repair",
    "summarize_text",
]
# Lazy imports: most callers never fold, and importing that half of the package is slow.
LAZY = {
    "Chunked": "summarizers",
    "ConversationPruner": "pruners.conversation",
    "Digest": "summarizers",
    "OpenAISummarizer": "summarizers",
    "Retention": "planning.protections",
    "asummarize_text": "summarizers",
    "prune_history": "pruners.decorator",
    "summarize_text": "summarizers",
}

# Loguru asks libraries to be silent; a program turns the log on with logger.enable("autoprune").
import_module("loguru").logger.disable("autoprune")


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module 'autoprune' has no attribute {name!r}")
    return getattr(import_module(f"autoprune.{LAZY[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
