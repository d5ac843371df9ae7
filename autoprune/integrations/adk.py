"""Pruning for Google's Agent Development Kit: each request to the model is pruned.

    agent = LlmAgent(model="gemini-2.5-pro", tools=[...], before_model_callback=before_model_callback("50k"))
    app = App(name="logs", root_agent=agent, plugins=[PruningPlugin("50k")])  # or this, for all agents of an app

The events of the session are not changed.
"""

from collections.abc import Callable
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin

from autoprune.integrations._hooks import Pruning, RequestPruner
from autoprune.planning.view import Strategy


def before_model_callback(
    pruning: Pruning, *, strategy: str | Strategy | None = None
) -> Callable[[CallbackContext, LlmRequest], None]:
    """Create a callback for an `LlmAgent` that prunes the contents of each of its requests.

    `pruning` is a safe zone, settings, or a pruner. Contents that are not pruned stay the same objects. The tokens of
    the system instruction and the tools are counted.
    """
    pruner = RequestPruner(pruning, strategy)

    def callback(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        _prune_contents(pruner, llm_request)

    return callback


class PruningPlugin(BasePlugin):
    """Prunes the contents of each request of all agents in an app, like `before_model_callback` for one agent."""

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None, name: str = "autoprune") -> None:
        """Store a safe zone, settings, or a pruner. `name` identifies the plugin in the app."""
        super().__init__(name)
        self._pruner = RequestPruner(pruning, strategy)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Prune the contents of a request. Return None, so that the model answers it."""
        _prune_contents(self._pruner, llm_request)
        return None


def _prune_contents(pruner: RequestPruner, request: LlmRequest) -> None:
    # The field names of the REST API, so that the request is read like one at the proxy.
    body = {
        "contents": request.contents,
        "systemInstruction": request.config.system_instruction,
        "tools": [_schema(tool) for tool in request.config.tools or ()],
        "cachedContent": request.config.cached_content,
    }
    path = f"/v1beta/models/{request.model}:generateContent"
    request.contents = pruner.prune(body, path).body["contents"]


def _schema(tool: Any) -> object:
    """Convert a tool to JSON-like data, without the fields that are not set."""
    return tool.model_dump(mode="json", exclude_none=True) if hasattr(tool, "model_dump") else tool
