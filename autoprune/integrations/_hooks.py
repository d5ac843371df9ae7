"""What the hook of every framework does with a request. Knows no framework."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from loguru import logger

from autoprune.planning.view import Strategy
from autoprune.pruners import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.requests import PrunedRequest, prune_request
from autoprune.settings import PruneArgs

AnyPruner: TypeAlias = AgenticConversationPruner | ConversationPruner
Pruning: TypeAlias = AnyPruner | PruneArgs | int | float | str
DEFAULT_STRATEGY = "cache_aware"  # the literal rule breaks the provider's prompt cache at almost every request


def pruner_of(pruning: Pruning) -> AnyPruner:
    """Return the pruner that a caller gave, or one with the settings or the safe zone that it gave."""
    return pruning if isinstance(pruning, AnyPruner) else AgenticConversationPruner(pruning)


def pruned(
    pruner: AnyPruner,
    strategy: str | Strategy | None,
    body: Mapping[str, Any],
    path: str,
    headers: Mapping[str, str] | None = None,
) -> PrunedRequest:
    """Prune a request that has a conversation, and log as a warning why one goes on as it is.

    Where a framework sends no body of an API, `body` is what it hands to its hook, under the names of the API that
    `path` stands for. Without a strategy it is `cache_aware` where the pruner has that. Raises SettingsError.
    """
    if strategy is None and DEFAULT_STRATEGY in pruner.strategies:
        strategy = DEFAULT_STRATEGY
    request = prune_request(pruner, body, path, headers, strategy=strategy)
    if request.note:
        logger.warning("{}", request.note)
    return request
