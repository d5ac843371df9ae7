"""autoprune keeps the conversation of a coding agent inside its token budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loguru import logger

from autoprune.base import Result
from autoprune.clamping import Clamp
from autoprune.errors import AutopruneError, ConversationError, CopyError, RuleError, SessionError, SettingsError
from autoprune.events import PruneEvent
from autoprune.protections import Protections
from autoprune.providers import problems, repair
from autoprune.pruner import AgenticConversationPruner
from autoprune.report import Report
from autoprune.settings import PruneArgs, effective_settings
from autoprune.tokens import calibration
from autoprune.tool_inputs import ToolInputs

if TYPE_CHECKING:
    from autoprune.attaching import prune_history
    from autoprune.conversation_pruner import ConversationPruner
    from autoprune.one_text import asummarize_text, summarize_text
    from autoprune.retention import Retention
    from autoprune.summarizers.chunked import Chunked
    from autoprune.summarizers.digest import Digest
    from autoprune.summarizers.openai import OpenAISummarizer

__version__ = "0.1.0"
__all__ = [
    "AgenticConversationPruner",
    "AutopruneError",
    "Chunked",
    "Clamp",
    "ConversationError",
    "ConversationPruner",
    "CopyError",
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
    "prune_history",
    "repair",
    "summarize_text",
]
# Half of the package is for those who fold; who does not use it does not wait for it.
LATE = {
    "Chunked": "summarizers.chunked",
    "ConversationPruner": "conversation_pruner",
    "Digest": "summarizers.digest",
    "OpenAISummarizer": "summarizers.openai",
    "Retention": "retention",
    "asummarize_text": "one_text",
    "prune_history": "attaching",
    "summarize_text": "one_text",
}

logger.disable("autoprune")  # what loguru asks of libraries; a program turns it on with logger.enable("autoprune")


def __getattr__(name: str) -> Any:
    """A public name whose module is loaded when it is first asked for."""
    if name not in LATE:
        raise AttributeError(f"module 'autoprune' has no attribute {name!r}")
    return getattr(import_module(f"autoprune.{LATE[name]}"), name)
