"""LangChain's and Anthropic's clearing of tool uses: above a prompt size, keep only the newest results."""

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from types import MappingProxyType

from autoprune.apps.policies import NOTHING, Changes, RequestView
from autoprune.conversation.transcript import Part, ToolCall, ToolResult

from prunebench.policies._chat import Chat, ChatMessage, call_arguments
from prunebench.policies._published import Published

TRIGGER, KEEP = 100_000, 3  # tokens, results
PLACEHOLDER = "[cleared]"  # LangChain's; Anthropic's is not documented
NO_ARGUMENTS = "{}"
CHARACTERS_PER_TOKEN = 4
MESSAGE_TOKENS = 3  # LangChain adds them to each message
NO_TEXTS: Mapping[Part, str] = MappingProxyType({})


class LangChainClearing:
    """Above `trigger` estimated tokens, replace every result but the newest `keep`. Each request is decided afresh."""

    def __init__(
        self,
        trigger: int = TRIGGER,
        clear_at_least: int = 0,
        keep: int = KEEP,
        clear_tool_inputs: bool = False,
        exclude_tools: Collection[str] = (),
    ) -> None:
        """Set the options of `ClearToolUsesEdit`."""
        self._trigger, self._clear_at_least, self._keep = trigger, clear_at_least, keep
        self._clear_tool_inputs = clear_tool_inputs
        self._exclude_tools = exclude_tools
        self._chat = Chat()
        self._tokens: list[int] = []

    def changes(self, request: RequestView) -> Changes:
        """Clear the oldest results: all but `keep`, or only `clear_at_least` tokens of them if that is not 0."""
        chat = _without_system_prompt(self._chat.before(request))
        if self._count(chat) <= self._trigger:
            return NOTHING
        owners = {call.location: message for message in chat for call in message.calls}
        results = [message for message in chat if message.result]
        texts: dict[Part, str] = {}
        saved = 0
        for message in results[: max(len(results) - self._keep, 0)]:
            result = message.result
            if not result or result.tool in self._exclude_tools or not _follows_its_call(result):
                continue
            owner = owners.get(result.call.location) if result.call else None
            touched = [message, *([owner] if owner else ())]
            before = _count_all(touched, texts)
            texts |= self._cleared(result)
            saved += before - _count_all(touched, texts)
            if 0 < self._clear_at_least <= saved:
                break
        return Changes(texts)

    def _cleared(self, result: ToolResult) -> dict[Part, str]:
        inputs = _json_inputs(result.call) if self._clear_tool_inputs else {}
        return {result: PLACEHOLDER, **inputs}

    def _count(self, chat: Sequence[ChatMessage]) -> int:
        known = max(len(self._tokens) - 1, 0)  # the last known message may have grown since
        self._tokens[known:] = [approximate_tokens(message) for message in chat[known:]]
        return sum(self._tokens)


class AnthropicClearing:
    """Above `trigger` tokens of the whole prompt, replace every result but the newest `keep`.

    Nothing is cleared if that would remove fewer than `clear_at_least` tokens. `trigger_tool_uses` is a trigger by
    the number of results instead. `clear_tool_inputs` may name the tools whose inputs are cleared.
    """

    def __init__(
        self,
        trigger: int = TRIGGER,
        keep: int = KEEP,
        clear_at_least: int = 0,
        exclude_tools: Collection[str] = (),
        clear_tool_inputs: bool | Collection[str] = False,
        trigger_tool_uses: int = 0,
    ) -> None:
        """Set the options of `clear_tool_uses_20250919`."""
        self._trigger, self._trigger_tool_uses = trigger, trigger_tool_uses
        self._keep, self._clear_at_least = keep, clear_at_least
        self._exclude_tools = exclude_tools
        self._clear_tool_inputs = clear_tool_inputs

    def changes(self, request: RequestView) -> Changes:
        """Clear all results but `keep`."""
        if not self._is_triggered(request):
            return NOTHING
        texts: dict[Part, str] = {}
        for result in request.results[: max(len(request.results) - self._keep, 0)]:
            if result.tool not in self._exclude_tools:
                texts |= {result: PLACEHOLDER, **(_json_inputs(result.call) if self._clears_input(result) else {})}
        saved = sum(part.tokens - part.count(text) for part, text in texts.items())
        return Changes(texts) if saved >= self._clear_at_least else NOTHING

    def _is_triggered(self, request: RequestView) -> bool:
        if self._trigger_tool_uses:
            return len(request.results) > self._trigger_tool_uses
        return request.head + sum(entry.tokens for entry in request.entries) > self._trigger

    def _clears_input(self, result: ToolResult) -> bool:
        known = self._clear_tool_inputs
        return known if isinstance(known, bool) else result.tool in known


def approximate_tokens(message: ChatMessage, texts: Mapping[Part, str] = NO_TEXTS) -> int:
    """Estimate the tokens of a message as LangChain does, with some of its parts replaced."""
    characters = len(message.role) + len(message.text)
    if result := message.result:
        characters += len(texts.get(result, result.text)) + len(result.tool)
        characters += len((result.call and result.call.id) or "")
    calls = [
        {"name": call.name, "args": arguments, "id": call.id, "type": "tool_call"}
        for call in message.calls
        if (arguments := {} if any(part in texts for part in call.inputs) else call_arguments(call)) is not None
    ]
    return ceil((characters + (len(repr(calls)) if calls else 0)) / CHARACTERS_PER_TOKEN) + MESSAGE_TOKENS


def _count_all(messages: Sequence[ChatMessage], texts: Mapping[Part, str]) -> int:
    return sum(approximate_tokens(message, texts) for message in messages)


def _without_system_prompt(chat: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    start = next((at for at, message in enumerate(chat) if message.role != "system"), len(chat))
    return chat[start:]


def _follows_its_call(result: ToolResult) -> bool:
    """Return whether the result answers a valid call of the last answer before it. LangChain leaves others alone."""
    is_valid = result.call is None or call_arguments(result.call) is not None
    return is_valid and result.sent <= result.request + 1


def _json_inputs(call: ToolCall | None) -> dict[Part, str]:
    return {part: NO_ARGUMENTS for part in (call.inputs if call else ()) if part.is_json}


PUBLISHED = (
    Published(
        name="langchain_clear_tool_uses",
        new=LangChainClearing,
        tool="LangChain",
        source=(
            "github.com/langchain-ai/langchain, libs/langchain_v1/langchain/agents/middleware/context_editing.py, "
            "langchain 1.4.7 (2026-10-21): ContextEditingMiddleware with ClearToolUsesEdit"
        ),
        decides=(
            "Above 100,000 tokens, estimated as characters / 4, all tool results but the newest 3 become [cleared]. "
            "Each request is decided afresh from the whole history, so above the trigger each new result clears one."
        ),
        defaults=(
            "trigger 100,000 tokens, keep 3, clear_at_least 0 (above 0: oldest first, and stop after that many "
            "tokens), clear_tool_inputs false, exclude_tools none"
        ),
        left_out="Tokens of images, and of model messages in blocks, which LangChain estimates in another way.",
        idle="Up to 100,000 estimated tokens (the system prompt is not counted), or with 3 results or fewer.",
        checked="langchain 1.4.7",
    ),
    Published(
        name="anthropic_clear_tool_uses",
        new=AnthropicClearing,
        tool="Anthropic API",
        source=(
            "platform.claude.com/docs/en/build-with-claude/context-editing, strategy clear_tool_uses_20250919, beta "
            "context-management-2025-06-27 (read 2026-11)"
        ),
        decides=(
            "Above 100,000 input tokens, with system prompt and tools, all tool results but the newest 3 become a "
            "placeholder. With clear_at_least, nothing is cleared unless that many tokens can be."
        ),
        defaults=(
            "trigger 100,000 input tokens, keep 3 tool uses, clear_at_least none, exclude_tools none, "
            "clear_tool_inputs false"
        ),
        left_out=(
            "The placeholder's text is not documented: LangChain's is used. Each request is decided afresh from the "
            "whole history, as the client sends it. Clearing of thinking is another strategy."
        ),
        idle="Up to 100,000 input tokens, with 3 results or fewer, or if less than clear_at_least would be cleared.",
        unchecked="It runs on Anthropic's servers. A test compares it with the checked policy of LangChain.",
    ),
)
