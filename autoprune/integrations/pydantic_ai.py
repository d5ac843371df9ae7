"""Prune requests of Pydantic AI's agents: `Agent(model, capabilities=[Pruning("50k")])`.

Only the sent messages are pruned; `result.all_messages()` is the full history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from autoprune.integrations import _hooks, pydantic_ai_messages
from autoprune.planning.view import Strategy
from autoprune.wire import json_text


class Pruning(AbstractCapability[Any]):
    """A capability that prunes the messages of each request, in all kinds of runs.

    `pruning` is a safe zone such as `"50k"`, settings (`PruneArgs`), or a pruner with an archive, callbacks or folding.
    The safe zone limits everything that is sent: messages, instructions, and the schemas of tools and output. The
    default strategy is `cache_aware`. Prices, and the context window for a safe zone such as `0.6`, are those of the
    request's model.
    """

    def __init__(self, pruning: _hooks.Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Store the arguments. Settings are checked when the first request is pruned."""
        self._pruner = _hooks.FrameworkPruner(pydantic_ai_messages, pruning, strategy)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None, because a pruner cannot be written into an agent's specification."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Prune the messages of the request; unchanged if nothing was pruned. Raises the pruner's errors."""
        messages = list(request_context.messages)
        model = request_context.model
        result = await self._pruner.aprune(messages, model.model_name, _texts_beside(request_context))
        if result.conversation is messages:
            return request_context
        settings = request_context.model_settings
        if parameters := result.request_parameters:
            settings = _with_thinking(parameters, settings or {}, model.system)
        return replace(request_context, messages=result.conversation, model_settings=settings)


def _texts_beside(request: ModelRequestContext) -> Sequence[str]:
    """Return the texts that a request sends beside its messages: instructions, and schemas of tools and output."""
    parameters = request.model_request_parameters
    tools = (*parameters.function_tools, *parameters.output_tools)
    schemas = [(tool.name, tool.description, tool.parameters_json_schema) for tool in tools]
    output = parameters.output_object
    if output and not parameters.output_tools:  # the schema is sent either as a tool or beside the tools
        schemas.append((output.name, output.description, output.json_schema))
    written = (json_text(dict(zip(("name", "description", "parameters"), each, strict=True))) for each in schemas)
    return [*(part.content for part in parameters.instruction_parts or ()), *written]


def _with_thinking(parameters: Mapping[str, object], settings: Any, system: str) -> Any:
    """Add parameters to a request's settings that drop thinking bound to messages before the prune.

    Raises SettingsError for a provider whose requests have no such parameters.
    """
    if system != "anthropic":
        raise _hooks.cannot_send(f"a request to {system!r}", parameters)
    own, betas = settings.get("anthropic_thinking"), settings.get("anthropic_betas")
    thinking, betas = _hooks.thinking_settings(parameters, own, betas)
    return {**settings, "anthropic_thinking": thinking, "anthropic_betas": betas}
