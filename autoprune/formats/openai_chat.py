"""OpenAI Chat Completions, with the dialects inside its texts: parses one message to one entry."""

from collections.abc import Mapping

import autoprune.formats.texts as texts
from autoprune.conversation.messages import fields, fields_of, listed
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall
from autoprune.formats._media import OPENAI
from autoprune.formats._parts import Payload, payload, seen_block, text_block, tokens
from autoprune.formats.parsing import Parser, native_call, native_result
from autoprune.tokens import MESSAGE_TOKENS, NAME_TOKENS, Count

SPEAKERS: Mapping[object, Speaker] = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.MODEL,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
}
NAME = "openai_chat"
media = OPENAI
# Text that providers receive besides the content. DeepSeek, Qwen and others accept `reasoning_content` back.
TEXT_FIELDS = ("refusal", "reasoning_content")
BLOCKS = frozenset(("image_url", "input_audio", "audio_url", "video_url", "file", "refusal"))


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the mark of this format in a message; None if there is none."""
    if message.get("role") in ("tool", "function") and "parts" not in message:
        return f"role {message['role']!r}"
    for name in ("tool_calls", "function_call"):
        if message.get(name):
            return f"{name!r}"
    # A message of the Responses API can hold a refusal too.
    return None if message.get("type") == "message" else seen_block(message, BLOCKS)


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a message."""
    role = message.get("role")
    return SPEAKERS.get(role, Speaker.OTHER) if isinstance(role, str) else Speaker.OTHER


def message(role: str, text: str) -> dict[str, object]:
    """Make a message with a text."""
    return {"role": role, "content": text}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. Anything unknown in it is counted and never changed."""
    who = speaker(message)
    content = message.get("content")
    content = listed(content) if isinstance(content, tuple) else content
    weight = MESSAGE_TOKENS + (_name_tokens(message, parser.count) if "name" in message else 0)
    if who is Speaker.TOOL:
        if isinstance(content, str):
            content_payload = Payload(content, parser.count(content))
        else:
            content_payload = payload(content, parser.count, text_block)
        name = message.get("name")
        call = parser.answered(message.get("tool_call_id") if message["role"] == "tool" else name)
        # Only a text or a list of blocks can be cleared.
        result = native_result(parser, (at, "content"), content_payload, call, kind=NAME, tool=name)
        return Entry(who, weight + content_payload.tokens, (result,))
    if who is Speaker.USER:
        results, spent = texts.user_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, results)
    if content is not None:
        weight += tokens(content, parser.count)
    if who is Speaker.MODEL:
        calls, spent = _calls(message, at, parser) if len(message) > 2 or content is None else ([], 0)
        if content:
            calls += texts.model_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, (), tuple(calls))
    return Entry(who, weight)


def _name_tokens(message: Mapping[str, object], count: Count) -> int:
    name = message["name"]
    return NAME_TOKENS + count(name) if isinstance(name, str) else 0


def _calls(message: Mapping[str, object], at: int, parser: Parser) -> tuple[list[ToolCall], int]:
    """Return the native calls of a message, and the tokens of all its fields except the name and content."""
    count = parser.count
    calls: list[ToolCall] = []
    spent = 0
    for name in TEXT_FIELDS:
        if name in message:
            spent += tokens(message[name], count)
    listed = message.get("tool_calls")
    for index, item in enumerate(listed if isinstance(listed, list | tuple) else ()):
        call = item if type(item) is dict else fields_of(item)
        tool, arguments, inside = _function(call)
        # Both are almost always texts, so count these without the general function.
        spent += count(tool) if type(tool) is str else tokens(tool, count)
        spent += count(arguments) if type(arguments) is str else tokens(arguments, count)
        calls.append(native_call(parser, (at, "tool_calls", index), call.get("id"), tool, arguments, inside))
    if message.get("function_call") and (legacy := fields(message["function_call"])):
        tool, arguments = legacy.get("name"), legacy.get("arguments")
        spent += tokens(tool, count) + tokens(arguments, count)
        # The legacy API has no call ids: a function's name pairs its call with its result.
        calls.append(native_call(parser, (at, "function_call"), tool, tool, arguments, ("arguments",)))
    return calls, spent


def _function(call: Mapping[str, object]) -> tuple[object, object, Path]:
    """Return the name and arguments of a call, and the path to the arguments in it."""
    function = call.get("function")
    if function and (type(function) is dict or (function := fields(function))):
        return function.get("name"), function.get("arguments"), ("function", "arguments")
    custom = fields_of(call.get("custom"))
    return custom.get("name"), custom.get("input"), ("custom", "input")
