"""Prune inside LangChain's agents: `create_agent(model, tools, middleware=[PruningMiddleware("50k")])`.

Only what is sent is pruned; the agent's state keeps the full history.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from autoprune.errors import SettingsError
from autoprune.formats import json_text
from autoprune.integrations import langchain_messages
from autoprune.integrations._attached import Attached
from autoprune.integrations._hooks import Pruning
from autoprune.planning.view import Strategy
from autoprune.providers import merged
from autoprune.providers.thinking import BETA
from autoprune.pruners.result import Result

MODEL_NAMES = ("model_name", "model", "model_id")  # what the classes of models call it


class PruningMiddleware(AgentMiddleware):
    """Middleware that prunes the messages of each request, in agents that run, stream, or do so asynchronously.

    `pruning` is a safe zone such as `"50k"`, settings (`PruneArgs`), or a pruner where there is more to say: an
    archive, callbacks, folding. The safe zone is compared with all that is sent: messages, system prompt and tools.
    `strategy` is `cache_aware` where none is named. The request's model gives prices, and the window of which a safe
    zone such as `0.6` is a share.
    """

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None) -> None:
        """Keep what is given; settings are checked when the first request is pruned."""
        super().__init__()
        self._attached = Attached(langchain_messages, pruning, strategy)

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse | AIMessage:
        """Hand the pruned request on. Raises what the pruner raises; then nothing is sent."""
        return handler(_sent(request, self._attached.prune(request.messages, _model(request), _beside(request))))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse | AIMessage:
        """Hand the pruned request on, as `wrap_model_call` does."""
        result = await self._attached.aprune(request.messages, _model(request), _beside(request))
        return await handler(_sent(request, result))


def _model(request: ModelRequest) -> str | None:
    """Return the name of a request's model; None where its class does not say."""
    said = (getattr(request.model, name, None) for name in MODEL_NAMES)
    return next((name for name in said if isinstance(name, str) and name), None)


def _beside(request: ModelRequest) -> Sequence[str]:
    """Return what a request sends beside its messages, as texts: the system prompt, and the schemas of its tools."""
    schemas = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
    return [request.system_prompt or "", *map(json_text, schemas)]


def _sent(request: ModelRequest, result: Result) -> ModelRequest:
    """Return the request with pruned messages; itself where nothing was pruned."""
    if result.conversation is request.messages:
        return request
    pruned = request.override(messages=result.conversation)
    return pruned.override(model=_saying(request, result)) if result.request_parameters else pruned


def _saying(request: ModelRequest, result: Result) -> Any:
    """Return a copy of the request's model that says what the pruned messages need: to drop thinking bound to others.

    Raises SettingsError for a model that cannot say so.
    """
    model = request.model
    if not (hasattr(model, "betas") and hasattr(model, "thinking")):
        raise SettingsError(
            f"requests of {type(model).__name__} cannot say {dict(result.request_parameters)!r}: give a pruner with "
            "PruneArgs(thinking_policy='refuse')"
        )
    own = request.model_settings.get("thinking") or model.thinking
    said = merged(result.request_parameters, into={"thinking": own} if own else {})
    betas = [*dict.fromkeys((*(model.betas or ()), BETA))]
    return model.model_copy(update={"betas": betas, "thinking": said["thinking"]})
