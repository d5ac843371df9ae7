"""Pruning for Google's Agent Development Kit: each request to the model is pruned.

    agent = LlmAgent(model="gemini-2.5-pro", tools=[...], before_model_callback=before_model_callback("50k"))
    app = App(name="logs", root_agent=agent, plugins=[PruningPlugin("50k")])  # or this, for all agents of an app

The events of the session are not changed.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, get_origin

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from pydantic import TypeAdapter

from autoprune.integrations._hooks import Pruning, RequestPruner, cannot_send
from autoprune.planning.plan import ThinkingPolicy
from autoprune.planning.thinking import policy
from autoprune.planning.view import Strategy
from autoprune.pruners import AgenticConversationPruner
from autoprune.pruners.naming import AnyPruner
from autoprune.wire import Entry, Location, Parser, Thought, fields_of, gemini

IN_MODEL = "the model's own settings for them with PruneArgs(thinking_policy='report'), or "


def before_model_callback(
    pruning: Pruning, *, strategy: str | Strategy | None = None
) -> Callable[[CallbackContext, LlmRequest], None]:
    """Create a callback for an `LlmAgent` that prunes the contents of each of its requests.

    `pruning` is a safe zone, settings, or a pruner. Contents that are not pruned stay the same objects. The tokens of
    the system instruction, the tools and the answer's schema are counted.

    The callback raises SettingsError if the request needs parameters, which it cannot add (`docs/thinking.md`).
    """
    pruner = _ContentsPruner(pruning, strategy)

    def callback(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        pruner.prune(llm_request)

    return callback


class PruningPlugin(BasePlugin):
    """Prunes the contents of each request of all agents in an app, like `before_model_callback` for one agent."""

    def __init__(self, pruning: Pruning, *, strategy: str | Strategy | None = None, name: str = "autoprune") -> None:
        """Store a safe zone, settings, or a pruner. `name` identifies the plugin in the app."""
        super().__init__(name)
        self._pruner = _ContentsPruner(pruning, strategy)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Prune the contents of a request. Return None, so that the model answers it."""
        self._pruner.prune(llm_request)
        return None


class _ContentsPruner:
    """Prunes the contents of requests. ADK writes messages as contents for all models, also for Claude."""

    def __init__(self, pruning: Pruning, strategy: str | Strategy | None) -> None:
        pruner = copy(pruning) if isinstance(pruning, AnyPruner) else AgenticConversationPruner(pruning)
        pruner.formats = (_BoundContents(), *pruner.formats)
        self._model = getattr(pruner.args, "model", None)
        self._binding = RequestPruner(pruner, strategy)  # for models that bind thinking
        self._others = RequestPruner(pruning, strategy)

    def prune(self, request: LlmRequest) -> None:
        """Replace the contents of a request. Raises SettingsError if it needs parameters."""
        # The field names of the REST API, so that the request is read like one at the proxy.
        answer = request.config.response_schema or request.config.response_json_schema
        body = {
            "contents": request.contents,
            "systemInstruction": request.config.system_instruction,
            "tools": [_schema(tool) for tool in request.config.tools or ()],
            "generationConfig": {"responseSchema": _schema(answer)},
            "cachedContent": request.config.cached_content,
        }
        is_binding = policy(None, self._model or request.model) is ThinkingPolicy.DROP_BLOCK
        pruner = self._binding if is_binding else self._others
        # The names of LiteLLM's models have a provider before a slash, and may have a version behind a colon.
        name = (request.model or "").rpartition("/")[2].partition(":")[0]
        sent = pruner.prune(body, f"/v1beta/models/{name}:generateContent")
        if sent.result and sent.result.request_parameters:
            raise cannot_send("an LlmRequest", sent.result.request_parameters, IN_MODEL)
        request.contents = sent.body["contents"]


class _BoundContents:
    """The format of contents for a model that binds thinking. For Gemini's models, an edit invalidates no thought."""

    NAME, media = gemini.NAME, gemini.media
    seen, speaker, message = staticmethod(gemini.seen), staticmethod(gemini.speaker), staticmethod(gemini.message)

    def parse(self, message: Mapping[str, object], at: int, parser: Parser) -> Entry:
        """Read a content, with its thoughts."""
        parts: Any = message.get("parts") or ()
        texts = {index: part.get("text") for index, part in enumerate(map(fields_of, parts)) if part.get("thought")}
        is_alone = len(texts) == len(parts)
        thinking = [
            Thought(Location((at, "parts", index)), parser.tokens(text), is_alone, self.NAME)
            for index, text in texts.items()
        ]
        return replace(gemini.parse(message, at, parser), thinking=tuple(thinking))


def _schema(given: Any) -> object:
    """Convert a tool or the type of an answer to JSON-like data, without the fields that are not set."""
    if isinstance(given, type) or get_origin(given):
        return TypeAdapter(given).json_schema()
    return given.model_dump(mode="json", exclude_none=True) if hasattr(given, "model_dump") else given
