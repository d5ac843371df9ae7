"""What the adapters of frameworks and clients share. Imports no framework.

Where a framework hands over a whole request, `prune_body` prunes it like a request to an API. Where it hands over only
messages of its own classes, `FrameworkPruner` prunes them through a format that reads these.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from loguru import logger

from autoprune.errors import SettingsError
from autoprune.formats import Format
from autoprune.planning.view import Strategy
from autoprune.providers import merged
from autoprune.providers.thinking import BETA
from autoprune.pruners import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.requests import PrunedRequest, prune_request
from autoprune.pruners.result import Result
from autoprune.settings import PruneArgs

AnyPruner: TypeAlias = AgenticConversationPruner | ConversationPruner
Pruning: TypeAlias = AnyPruner | PruneArgs | int | float | str
DEFAULT_STRATEGY = "cache_aware"  # the literal rule breaks the provider's prompt cache at almost every request


def pruner_of(pruning: Pruning) -> AnyPruner:
    """The caller's pruner, or a new one for the settings or the safe zone that the caller gave."""
    return pruning if isinstance(pruning, AnyPruner) else AgenticConversationPruner(pruning)


def prune_body(
    pruner: AnyPruner,
    strategy: str | Strategy | None,
    body: Mapping[str, Any],
    path: str,
    headers: Mapping[str, str] | None = None,
) -> PrunedRequest:
    """Prune a request that holds a conversation. If it cannot be read, log a warning and return it unchanged.

    If a framework sends no body of an API, `body` is what its hook receives, under the field names of the API that
    `path` names. The default strategy is `cache_aware` if the pruner has it. Raises SettingsError.
    """
    if strategy is None and DEFAULT_STRATEGY in pruner.strategies:
        strategy = DEFAULT_STRATEGY
    request = prune_request(pruner, body, path, headers, strategy=strategy)
    if request.note:
        logger.warning("{}", request.note)
    return request


def thinking_settings(
    parameters: Mapping[str, object], thinking: object, betas: Sequence[str] | None
) -> tuple[object, list[str]]:
    """Merge the parameters of a prune into a request's `thinking` and betas for Anthropic's API."""
    both = merged(parameters, into={"thinking": thinking} if thinking else {})
    return both["thinking"], [*dict.fromkeys((*(betas or ()), BETA))]


def cannot_send(what: str, parameters: Mapping[str, object], instead: str = "") -> SettingsError:
    """Make the error for a request that cannot carry the parameters that its pruned messages need."""
    return SettingsError(
        f"{what} cannot send {dict(parameters)!r}: use {instead}a pruner with PruneArgs(thinking_policy='refuse')"
    )


class FrameworkFormat(Format, Protocol):
    """The format of a framework whose messages may hold data that is not sent, such as a tool's artifact.

    That data may be of any size, and may even refer to itself. So a pruner gets messages without it.
    """

    def strip_unsent(self, message: Any, at: int, /) -> Any:
        """Replace data of message number `at` that is not sent by the number; unchanged without such data."""

    def restore_unsent(self, message: Any, messages: Sequence[Any], /) -> Any:
        """Restore the data of a stripped message by the number that it holds; unchanged without a number."""


class FrameworkPruner:
    """Prunes the messages of a framework, which `written_in` reads, with a copy of the caller's pruner or a new one.

    `pruning` is a safe zone such as `"50k"`, settings, or a pruner, which keeps its settings, archive and callbacks and
    is never changed. `strategy` is a strategy or the name of one of the pruner's; the default is `cache_aware` if the
    pruner has it.
    """

    def __init__(self, written_in: FrameworkFormat, pruning: Pruning, strategy: str | Strategy | None) -> None:
        """Store the arguments; settings are checked at the first prune."""
        # A copy, since the caller may use the pruner elsewhere, without this format.
        pruner = copy(pruner_of(pruning))
        pruner.formats = (written_in, *pruner.formats)
        pruner.default = pruner.strategies.get(DEFAULT_STRATEGY, pruner.default)
        self._pruner = pruner
        self._strategy = strategy
        self._written_in = written_in

    def prune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune messages that are sent to a `model`; the texts `beside` them are the system prompt and the tools."""
        stripped = self._strip(messages)
        return self._restore(self._pruner_for(model, beside).prune(stripped, self._strategy), stripped, messages)

    async def aprune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune as `prune` does, and await a summarizer."""
        stripped = self._strip(messages)
        result = await self._pruner_for(model, beside).aprune(stripped, self._strategy)
        return self._restore(result, stripped, messages)

    def _strip(self, messages: list[Any]) -> list[Any]:
        return [self._written_in.strip_unsent(message, at) for at, message in enumerate(messages)]

    def _restore(self, result: Result, stripped: list[Any], messages: list[Any]) -> Result:
        """Restore the unsent data in a result. Messages that were not pruned are the caller's objects."""
        if result.conversation is stripped:
            return replace(result, conversation=messages)
        # By identity: messages that pruning did not change are the stripped objects themselves.
        own = {id(one): message for one, message in zip(stripped, messages, strict=True)}
        pruned = (own.get(id(one)) or self._written_in.restore_unsent(one, messages) for one in result.conversation)
        return replace(result, conversation=[*pruned])

    def _pruner_for(self, model: str | None, beside: Sequence[str]) -> AnyPruner:
        """The pruner for a request: with its model, and with the tokens that it sends beside the messages."""
        pruner = self._pruner.fill_in(model=model)
        return pruner.fill_in(overhead_tokens=sum(map(pruner.count_text, beside)))
