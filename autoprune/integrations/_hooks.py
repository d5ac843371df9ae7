"""What the hook of every framework does with a request. Knows no framework."""

from collections.abc import Mapping
from typing import Any

from loguru import logger

from autoprune.planning.view import Strategy
from autoprune.pruners import AgenticConversationPruner
from autoprune.requests import PrunedRequest, prune_request

DEFAULT_STRATEGY = "cache_aware"  # the literal rule breaks the provider's prompt cache at almost every request


def pruned(
    pruner: AgenticConversationPruner,
    strategy: str | Strategy,
    body: Mapping[str, Any],
    path: str,
    headers: Mapping[str, str] | None = None,
) -> PrunedRequest:
    """Prune a request that has a conversation, and log as a warning why one goes on as it is.

    Where a framework sends no body of an API, `body` is what it hands to its hook, under the names of the API that
    `path` stands for. Raises SettingsError.
    """
    request = prune_request(pruner, body, path, headers, strategy=strategy)
    if request.note:
        logger.warning("{}", request.note)
    return request
