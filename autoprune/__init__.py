"""autoprune keeps the conversation of a coding agent inside its token budget."""

from loguru import logger

from autoprune.base import Result
from autoprune.clamping import Clamp
from autoprune.errors import AutopruneError, ConversationError, RuleError, SessionError, SettingsError
from autoprune.protections import Protections
from autoprune.pruner import AgenticConversationPruner
from autoprune.repair import repair
from autoprune.report import Report
from autoprune.settings import PruneArgs
from autoprune.tokens import calibration
from autoprune.tool_inputs import ToolInputs
from autoprune.validation import problems

__version__ = "0.1.0"
__all__ = [
    "AgenticConversationPruner",
    "AutopruneError",
    "Clamp",
    "ConversationError",
    "Protections",
    "PruneArgs",
    "Report",
    "Result",
    "RuleError",
    "SessionError",
    "SettingsError",
    "ToolInputs",
    "calibration",
    "problems",
    "repair",
]

logger.disable("autoprune")  # what loguru asks of libraries; a program turns it on with logger.enable("autoprune")
