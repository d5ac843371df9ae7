"""OpenAI Responses: the items of a request's `input`, those of `response.output` among them. One in, one entry out."""

from collections.abc import Iterator, Mapping, Sequence

import autoprune.formats.texts as texts
from autoprune.conversation.messages import fields, fields_of, listed, nested, with_items
from autoprune.conversation.transcript import Entry, Location, Speaker, ToolCall, ToolResult
from autoprune.formats._media import OPENAI, Medium
from autoprune.formats._parts import Payload, encrypted_tokens, payload, seen_block, tokens
from autoprune.formats.parsing import Parser, native_call, native_result
from autoprune.tokens import MESSAGE_TOKENS, Count

NAME = "openai_responses"
media = OPENAI
SPEAKERS: Mapping[object, Speaker] = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.MODEL,
}
# Who an item comes from where its type does not end in "_call" (the model) or "_output" (a tool). What comes in a
# response and is no output is the model's; so is a compaction, which stands for all that the model has seen before.
# Source: `ResponseInputItemParam` and `ResponseOutputItem` of the openai package.
ITEMS: Mapping[str, Speaker] = {
    "reasoning": Speaker.MODEL,
    "compaction": Speaker.MODEL,
    "program": Speaker.MODEL,
    "mcp_list_tools": Speaker.MODEL,
    "mcp_approval_request": Speaker.MODEL,
    "mcp_approval_response": Speaker.USER,
    "additional_tools": Speaker.SYSTEM,
    "configuration_update": Speaker.OTHER,
    "compaction_trigger": Speaker.OTHER,
    "item_reference": Speaker.OTHER,
}
BLOCKS = frozenset(("input_text", "input_image", "input_file", "output_text"))
# Calls that name their tool, and where their arguments stand.
NAMED = {"function_call": "arguments", "custom_tool_call": "input"}
# Calls whose tool is known by their type, and where they say what to do: in an object that the API checks.
ACTED = ("local_shell_call", "shell_call", "computer_call")
TYPED = {**dict.fromkeys(ACTED, "action"), "apply_patch_call": "operation"}
OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", *(f"{kind}_output" for kind in TYPED)))
# The fields of an item that the model does not read.
BESIDE = frozenset(
    (
        *("id", "call_id", "type", "role", "status", "caller", "created_by", "fingerprint", "phase", "execution"),
        *("async", "async_", "container_id", "environment", "server_label", "approval_request_id", "parsed_arguments"),
        *("pending_safety_checks", "output_format", "quality", "size", "background", "svg_usage"),
    )
)


def seen(message: Mapping[str, object]) -> str | None:
    """Return the mark that shows that an item is of this format, in words; None where there is none."""
    kind = _kind(message)
    if kind == "message" and not isinstance(message.get("content"), str):
        return seen_block(message, BLOCKS | {"refusal"})
    if kind is not None:
        is_item = kind == "message" or kind in ITEMS or kind.endswith(("_call", "_output"))
        return f"an item of type {kind!r}" if is_item else None
    if [name for name, value in message.items() if value is not None] == ["id"]:
        return "an 'id' alone"  # a reference to an item, whose type may be left out
    return seen_block(message, BLOCKS) if _has_role(message) else None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return who an item comes from."""
    kind = _kind(message) or "message"
    if kind == "message":
        return SPEAKERS[message["role"]] if _has_role(message) else Speaker.OTHER
    if kind.endswith("_call"):
        return Speaker.MODEL
    return Speaker.TOOL if kind.endswith("_output") else ITEMS.get(kind, Speaker.OTHER)


def message(role: str, text: str) -> dict[str, object]:
    """Return a message that says a text."""
    return {"role": role, "content": text}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Return the entry of an item. The model's items of one request have one frame together."""
    kind = _kind(message)
    if kind is None or kind == "message":
        return _words(message, at, parser)
    if kind in OUTPUTS:
        return _output(message, kind, at, parser)
    weight = _frame(message, parser) + _weight(message, parser.count)
    if kind == "mcp_call":
        return _mcp_call(message, weight, at, parser)
    return Entry(speaker(message), weight, (), tuple(_calls(message, kind, at, parser)))


def _kind(message: Mapping[str, object]) -> str | None:
    kind = message.get("type")
    return kind if isinstance(kind, str) else None


def _has_role(message: Mapping[str, object]) -> bool:
    role = message.get("role")
    return isinstance(role, str) and role in SPEAKERS


def _frame(message: Mapping[str, object], parser: Parser) -> int:
    return 0 if speaker(message) is Speaker.MODEL and not parser.begins_request else MESSAGE_TOKENS


def _words(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Return the entry of a message. One without a type is framed as in Chat Completions, for which it may be taken."""
    who, content = speaker(message), listed(message.get("content"))
    weight = MESSAGE_TOKENS if _kind(message) is None else _frame(message, parser)
    if who is Speaker.USER:
        results, spent = texts.user_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, results)
    calls = texts.model_content(content, (at, "content"), parser) if who is Speaker.MODEL else ()
    return Entry(who, weight + _tokens(content, parser.count), (), tuple(calls))


def _calls(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Iterator[ToolCall]:
    """Yield the call in an item, if a tool of the caller's answers it."""
    call_id = message.get("call_id") or message.get("id")
    if name := NAMED.get(kind):
        yield native_call(parser, (at,), call_id, message.get("name"), message.get(name), (name,))
    elif name := TYPED.get(kind):
        yield _call(call_id, kind.removesuffix("_call"), message.get(name), at, parser)


def _call(call_id: object, tool: object, arguments: object, at: int, parser: Parser) -> ToolCall:
    """Return a call whose arguments cannot be replaced by a text."""
    known = arguments if isinstance(arguments, str) else fields(arguments)
    return ToolCall(Location((at,)), parser.request, str(call_id or tool), str(tool), known)


def _mcp_call(message: Mapping[str, object], weight: int, at: int, parser: Parser) -> Entry:
    """Return the entry of a call that the provider ran itself: its item, which is the model's, holds the result too."""
    call = _call(message.get("id"), message.get("name"), message.get("arguments"), at, parser)
    if message.get("output") is None and message.get("error") is None:
        return Entry(Speaker.MODEL, weight, (), (call,))
    result = _result(message, payload(message.get("output"), parser.count, _input_text), call, at, parser)
    return Entry(Speaker.MODEL, weight + MESSAGE_TOKENS + result.piece_tokens, (result,), (call,))


def _output(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Entry:
    """Return the entry of a tool's output. A local shell's output has the call's id as its own."""
    call = parser.answered(message.get("call_id") or message.get("id"))
    result = _result(message, _payload(message.get("output"), kind, parser.count), call, at, parser)
    return Entry(Speaker.TOOL, MESSAGE_TOKENS + result.piece_tokens, (result,))


def _result(message: Mapping[str, object], held: Payload, call: ToolCall | None, at: int, parser: Parser) -> ToolResult:
    kind = str(_kind(message)).removesuffix("_output")
    tool = kind.removesuffix("_call") if kind in TYPED else message.get("name")
    path = (at, "output") if "output" in message else (at,)
    return native_result(parser, path, held, call, kind=NAME, tool=tool, is_error=_is_error(message))


def _payload(output: object, kind: str, count: Count) -> Payload:
    if kind == "computer_call_output":  # a screenshot
        return Payload("", tokens(output, count), is_fixed=True)
    if kind == "shell_call_output" and isinstance(output, list | tuple):
        return _shell_payload(output, count)
    return payload(output, count, _input_text)


def _shell_payload(chunks: Sequence[object], count: Count) -> Payload:
    """Return the payload of a shell's chunks; how the commands ended is not counted."""
    held = [fields_of(chunk) for chunk in chunks]
    printed = [chunk.get(name) for chunk in held for name in ("stdout", "stderr")]
    said = [text for text in printed if isinstance(text, str) and text]
    if not all(isinstance(text, str) for text in printed):
        return Payload("", tokens(chunks, count), is_fixed=True)
    return Payload("\n".join(said), sum(map(count, said)), _shell_chunk)


def _shell_chunk(chunks: object, text: str) -> list[object]:
    """Return one chunk in place of all: the last that failed, so that a failure stays one, or else the last."""
    held = chunks if isinstance(chunks, list | tuple) else ()
    kept = [chunk for chunk in held if _has_failed(chunk)] or [*held]
    return [with_items(kept[-1] if kept else {}, {"stdout": text, "stderr": ""})]


def _input_text(blocks: object, text: str) -> list[object]:
    """Return one block of text in place of all; the last breakpoint of the prompt cache stays."""
    held = blocks if isinstance(blocks, list | tuple) else ()
    marks = [mark for block in held if (mark := fields_of(block).get("prompt_cache_breakpoint"))]
    changes = {"text": text, **({"prompt_cache_breakpoint": marks[-1]} if marks else {})}
    # An SDK's block stays one: in its place a dict would be sent too, but with a warning.
    objects = [block for block in held if hasattr(block, "model_copy") and hasattr(block, "text")]
    return [with_items(objects[-1] if objects else {"type": "input_text"}, changes)]


def _is_error(message: Mapping[str, object]) -> bool | None:
    """Return whether an item says that the call failed; None where it does not say."""
    match message:
        case {"type": "mcp_call", "error": error} if error is not None:
            return True
        case {"type": "mcp_call" | "apply_patch_call_output", "status": "completed" | "failed" as status}:
            return status == "failed"
        case {"type": "shell_call_output", "output": [_, *_] as chunks}:
            ends = [_has_failed(chunk) for chunk in chunks]
            return True if True in ends else None if None in ends else False
    return None


def _has_failed(chunk: object) -> bool | None:
    """Return whether a shell's command failed or was cut off."""
    outcome = fields_of(fields_of(chunk).get("outcome"))
    code = outcome.get("exit_code")
    return True if outcome.get("type") == "timeout" else code != 0 if isinstance(code, int) else None


def _weight(message: Mapping[str, object], count: Count) -> int:
    """Return the tokens of an item that is no message: all that the model reads but the output of a call."""
    total = 0
    for name, value in message.items():
        if name == "encrypted_content":
            total += encrypted_tokens(value)
        elif name == "result" and isinstance(value, str) and _kind(message) == "image_generation_call":
            # A picture of a few pixels has fewer bytes than tokens; a message's bytes bound its tokens.
            total += min(media.tokens(Medium("image", value), count), len(value))
        elif name not in BESIDE and (name != "output" or _kind(message) != "mcp_call"):
            total += _tokens(value, count)
    return total


def _tokens(value: object, count: Count) -> int:
    """Return the tokens of a value. Unlike in `tokens`, what is None counts nothing, and a text block only its text."""
    total = 0
    open_values = [value]
    for held in nested(open_values):
        block = fields(held)
        if isinstance(held, list | tuple):
            open_values.extend(held)
        elif block is None:
            total += tokens(held, count)
        elif (spent := media(block, count)) is not None:
            total += spent
        elif (text := _text_of(block)) is not None:
            total += count(text)
        else:
            open_values += (item for pair in block.items() if pair[1] is not None for item in pair)
    return total


def _text_of(block: Mapping[str, object]) -> str | None:
    match block:
        case {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind), "text": str(text)} if kind.endswith("text"):
            return text
    return None
