"""Prune requests of LangChain's agents: `create_agent(model, tools, middleware=[PruningMiddleware("50k")])`.

Only the sent messages are pruned; the agent's state keeps the full history.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from autoprune.errors import type_of
from autoprune.integrations import langchain_messages
from autoprune.integrations._hooks import FrameworkPruner, Pruning, cannot_send, thinking_settings
from autoprune.planning.view import Strategy
from autoprune.pruners.result import Result
from autoprune.wire import json_text

MODEL_NAMES = ("model_name", "model", "model_id")  # the field with the model's name differs between classes


class PruningMiddleware(AgentMiddleware):
    """Middleware that prunes the messages of each request, in synchronous and asynchronous runs and streams.

    `pruning` is a safe zone such as `"50k"`, settings (`PruneArgs`), or a pruner with an archive, callbacks or folding.
    The safe zone limits everything that is sent: messages, system prompt, tools and the schema of a structured answer.
    The default strategy is `cache_aware`. Prices, and the context window for a safe zone such as `0.6`, are those of
    the request's model.
    """

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Store the arguments. Settings are checked when the first request is pruned."""
        super().__init__()
        self._pruner = FrameworkPruner(langchain_messages, pruning, strategy)

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse | AIMessage:
        """Prune the request and pass it on. If the pruner raises an error, nothing is sent."""
        return handler(
            _with_result(request, self._pruner.prune(request.messages, _model_name(request), _texts_beside(request)))
        )

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse | AIMessage:
        """Prune the request and pass it on, like `wrap_model_call`."""
        result = await self._pruner.aprune(request.messages, _model_name(request), _texts_beside(request))
        return await handler(_with_result(request, result))


def _model_name(request: ModelRequest) -> str | None:
    """Return the name of a request's model; None if its class has no such field."""
    said = (getattr(request.model, name, None) for name in MODEL_NAMES)
    return next((name for name in said if isinstance(name, str) and name), None)


def _texts_beside(request: ModelRequest) -> Sequence[str]:
    """Return the texts that a request sends beside its messages: the system prompt, and schemas of tools and answer."""
    schemas = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
    return [request.system_prompt or "", *map(json_text, [*schemas, *_answer_schemas(request.response_format)])]


def _answer_schemas(wanted: Any) -> list[dict[str, Any]]:
    """Return the schemas of a structured answer as tools, since LangChain sends them as tools or in their place."""
    if wanted is None:
        return []
    # Middleware may give a bare schema.
    schema = wanted.schema if isinstance(wanted, ToolStrategy | ProviderStrategy | AutoStrategy) else wanted
    # LangChain makes up a new name for a schema without a title, so names are not counted.
    specs = ToolStrategy(schema).schema_specs
    return [{"type": "function", "description": spec.description, "parameters": spec.json_schema} for spec in specs]


def _with_result(request: ModelRequest, result: Result) -> ModelRequest:
    """Put the pruned messages into a request. Returns the same object if nothing was pruned."""
    if result.conversation is request.messages:
        return request
    pruned = request.override(messages=result.conversation)
    return pruned.override(model=_model_with_thinking(request, result)) if result.request_parameters else pruned


def _model_with_thinking(request: ModelRequest, result: Result) -> Any:
    """Copy the model, so that its requests drop thinking bound to messages before the prune. Raises SettingsError."""
    model = request.model
    if not (hasattr(model, "betas") and hasattr(model, "thinking")):
        raise cannot_send(type_of(model), result.request_parameters)
    own = request.model_settings.get("thinking") or model.thinking
    thinking, betas = thinking_settings(result.request_parameters, own, model.betas)
    return model.model_copy(update={"betas": betas, "thinking": thinking})
