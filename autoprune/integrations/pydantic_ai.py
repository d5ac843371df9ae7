"""Prune inside Pydantic AI's agents: `Agent(model, capabilities=[Pruning("50k")])`.

Only what is sent is pruned; `result.all_messages()` is the full history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from autoprune.errors import SettingsError
from autoprune.formats import json_text
from autoprune.integrations import _hooks, pydantic_ai_messages
from autoprune.integrations._attached import Attached
from autoprune.planning.view import Strategy
from autoprune.providers import merged
from autoprune.providers.thinking import BETA


class Pruning(AbstractCapability[Any]):
    """A capability that prunes the messages of each request, in runs of every kind.

    `pruning` is a safe zone such as `"50k"`, settings (`PruneArgs`), or a pruner where there is more to say: an
    archive, callbacks, folding. The safe zone is compared with all that is sent: messages, instructions and tools.
    `strategy` is `cache_aware` where none is named. The request's model gives prices, and the window of which a safe
    zone such as `0.6` is a share.
    """

    def __init__(self, pruning: _hooks.Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Keep what is given; settings are checked when the first request is pruned."""
        self._attached = Attached(pydantic_ai_messages, pruning, strategy)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: a pruner cannot be written into an agent's specification."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with pruned messages; itself where nothing was pruned. Raises what the pruner raises."""
        messages = list(request_context.messages)
        model = request_context.model
        result = await self._attached.aprune(messages, model.model_name, _beside(request_context))
        if result.conversation is messages:
            return request_context
        settings = request_context.model_settings
        if said := result.request_parameters:
            settings = _saying(said, settings or {}, model.system)
        return replace(request_context, messages=result.conversation, model_settings=settings)


def _beside(request: ModelRequestContext) -> Sequence[str]:
    """Return what a request sends beside its messages, as texts: the instructions, and the schemas of its tools."""
    parameters = request.model_request_parameters
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    return [*(part.content for part in parameters.instruction_parts or ()), *map(json_text, tools)]


def _saying(parameters: Mapping[str, object], settings: Any, system: str) -> Any:
    """Return a request's settings with what the pruned messages need: to drop thinking that is bound to others.

    Raises SettingsError for a provider whose requests cannot say so.
    """
    if system != "anthropic":
        raise SettingsError(
            f"requests to {system!r} cannot say {dict(parameters)!r}: give a pruner with "
            "PruneArgs(thinking_policy='refuse')"
        )
    own = settings.get("anthropic_thinking")
    said = merged(parameters, into={"thinking": own} if own else {})
    betas = [*dict.fromkeys((*(settings.get("anthropic_betas") or ()), BETA))]
    return {**settings, "anthropic_thinking": said["thinking"], "anthropic_betas": betas}
