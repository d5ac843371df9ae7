"""autoprune keeps the conversation of a coding agent inside its token budget."""

from loguru import logger

from autoprune.errors import AutopruneError, ConversationError, SessionError, SettingsError
from autoprune.pruner import AgenticConversationPruner, Result
from autoprune.report import Report
from autoprune.settings import PruneArgs
from autoprune.tokens import calibration

__version__ = "0.1.0"
__all__ = [
    "AgenticConversationPruner",
    "AutopruneError",
    "ConversationError",
    "PruneArgs",
    "Report",
    "Result",
    "SessionError",
    "SettingsError",
    "calibration",
]

logger.disable("autoprune")  # what loguru asks of libraries; a program turns it on with logger.enable("autoprune")
