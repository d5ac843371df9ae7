"""OpenAI Responses: the items of a request's `input`, also those of `response.output`. One item in, one entry out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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
# The types of a compaction, which only the provider can read: the API's, and those of some versions of Codex.
COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
# Who an item comes from, if not its type says so: "_call" the model, "_output" a tool. Items of a response are the
# model's, and so is a compaction. It sums up what the model has seen before, but the API still reads all items before
# it (github.com/pydantic/pydantic-ai, issue 7224, tried with the live API), so they are counted.
# Source: `ResponseInputItemParam` and `ResponseOutputItem` of the openai package.
ITEMS: Mapping[str, Speaker] = {
    "reasoning": Speaker.MODEL,
    **dict.fromkeys(COMPACTIONS, Speaker.MODEL),
    "program": Speaker.MODEL,
    "program_output": Speaker.MODEL,
    "mcp_list_tools": Speaker.MODEL,
    "mcp_approval_request": Speaker.MODEL,
    "mcp_approval_response": Speaker.TOOL,
    "additional_tools": Speaker.SYSTEM,
    "configuration_update": Speaker.OTHER,
    "compaction_trigger": Speaker.OTHER,
    "item_reference": Speaker.OTHER,
}
LOADING = frozenset(("tool_search_output", "mcp_list_tools", "additional_tools"))
TRIGGER = "compaction_trigger"  # the last item of a request for a compaction
KEPT = LOADING | {*COMPACTIONS, TRIGGER}
BLOCKS = frozenset(("input_text", "input_image", "input_file", "output_text"))
# Calls that name their tool, and the field of their arguments.
NAMED = {"function_call": "arguments", "custom_tool_call": "input"}
# Calls whose type is their tool, and the field of their arguments: an object that the API validates.
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
    """Describe the mark of this format in a message; None if there is none."""
    kind = _item_type(message)
    if kind == "message" and not isinstance(message.get("content"), str):
        return seen_block(message, BLOCKS | {"refusal"})
    if kind is not None:
        is_item = kind == "message" or kind in ITEMS or kind.endswith(("_call", "_output"))
        return f"an item of type {kind!r}" if is_item else None
    if [name for name, value in message.items() if value is not None] == ["id"]:
        return "an 'id' alone"  # a reference to an item, whose type is optional
    return seen_block(message, BLOCKS) if _has_role(message) else None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of an item."""
    kind = _item_type(message) or "message"
    if kind == "message":
        return SPEAKERS[message["role"]] if _has_role(message) else Speaker.OTHER
    if kind in ITEMS or message.get("execution") == "server":  # the provider's own searches are part of a response
        return ITEMS.get(kind, Speaker.MODEL)
    if kind.endswith("_call"):
        return Speaker.MODEL
    return Speaker.TOOL if kind.endswith("_output") else Speaker.OTHER


def message(role: str, text: str) -> dict[str, object]:
    """Make a message with a text."""
    return {"role": role, "content": text}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read an item. The model's items of one request count as one message."""
    kind = _item_type(message)
    if kind is None or kind == "message":
        return _read_message(message, at, parser)
    entry, pairs = _read_item(message, kind, at, parser), _pairs(message, kind)
    if not pairs and kind not in KEPT:
        return entry
    return replace(
        entry,
        compaction="" if kind in COMPACTIONS else None,
        loads_tools=kind in LOADING,
        pairs=pairs,
        asks_to_compact=kind == TRIGGER,
    )


def _pairs(message: Mapping[str, object], kind: str) -> tuple[str, ...]:
    """Return the ids that an item shares with others without which the API refuses it, besides its call or output.

    An approval belongs to its request and to the call that was approved, an output to its call, and a call that a
    program makes to the program.
    """
    ids = [message.get("approval_request_id"), fields_of(message.get("caller")).get("caller_id")]
    if kind == "mcp_approval_request":
        ids.append(message.get("id"))
    if kind not in OUTPUTS and kind not in NAMED and kind not in TYPED:
        ids.append(message.get("call_id"))
    return tuple(each for each in ids if isinstance(each, str) and each)


def _read_item(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Entry:
    """Read an item that is no message."""
    if kind in OUTPUTS:
        return _read_output(message, kind, at, parser)
    weight = _frame(message, parser) + _item_tokens(message, parser.count)
    if kind == "mcp_call":
        return _mcp_call(message, weight, at, parser)
    return Entry(speaker(message), weight, (), tuple(_read_calls(message, kind, at, parser)))


def _item_type(message: Mapping[str, object]) -> str | None:
    kind = message.get("type")
    return kind if isinstance(kind, str) else None


def _has_role(message: Mapping[str, object]) -> bool:
    role = message.get("role")
    return isinstance(role, str) and role in SPEAKERS


def _frame(message: Mapping[str, object], parser: Parser) -> int:
    return 0 if speaker(message) is Speaker.MODEL and not parser.begins_request else MESSAGE_TOKENS


def _read_message(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. A message without a type is counted as in Chat Completions, since both look the same."""
    who, content = speaker(message), listed(message.get("content"))
    weight = MESSAGE_TOKENS if _item_type(message) is None else _frame(message, parser)
    if who is Speaker.USER:
        results, spent = texts.user_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, results)
    calls = texts.model_content(content, (at, "content"), parser) if who is Speaker.MODEL else ()
    return Entry(who, weight + _value_tokens(content, parser.count), (), tuple(calls))


def _read_calls(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Iterator[ToolCall]:
    """Yield the call in an item if one of the caller's tools answers it."""
    call_id = message.get("call_id") or message.get("id")
    if name := NAMED.get(kind):
        yield native_call(parser, (at,), call_id, message.get("name"), message.get(name), (name,))
    elif name := TYPED.get(kind):
        yield _make_call(call_id, kind.removesuffix("_call"), message.get(name), at, parser)


def _make_call(call_id: object, tool: object, arguments: object, at: int, parser: Parser) -> ToolCall:
    """Make a call whose arguments cannot be replaced by a text."""
    plain = arguments if isinstance(arguments, str) else fields(arguments)
    return ToolCall(Location((at,)), parser.request, str(call_id or tool), str(tool), plain)


def _mcp_call(message: Mapping[str, object], weight: int, at: int, parser: Parser) -> Entry:
    """Read a call that the provider ran itself. The item comes from the model and holds the result too."""
    call = _make_call(message.get("id"), message.get("name"), message.get("arguments"), at, parser)
    if message.get("output") is None and message.get("error") is None:
        return Entry(Speaker.MODEL, weight, (), (call,))
    result = _make_result(message, payload(message.get("output"), parser.count, _input_text), call, at, parser)
    return Entry(Speaker.MODEL, weight + MESSAGE_TOKENS + result.piece_tokens, (result,), (call,))


def _read_output(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Entry:
    """Read a tool's output. The `id` of a local shell's output is the id of its call."""
    call = parser.answered(message.get("call_id") or message.get("id"))
    result = _make_result(message, _output_payload(message.get("output"), kind, parser.count), call, at, parser)
    return Entry(Speaker.TOOL, MESSAGE_TOKENS + result.piece_tokens, (result,))


def _make_result(
    message: Mapping[str, object], held: Payload, call: ToolCall | None, at: int, parser: Parser
) -> ToolResult:
    kind = str(_item_type(message)).removesuffix("_output")
    tool = kind.removesuffix("_call") if kind in TYPED else message.get("name")
    path = (at, "output") if "output" in message else (at,)
    return native_result(parser, path, held, call, kind=NAME, tool=tool, is_error=_is_error(message))


def _output_payload(output: object, kind: str, count: Count) -> Payload:
    if kind == "computer_call_output":  # a screenshot
        return Payload("", tokens(output, count), is_fixed=True)
    if kind == "shell_call_output" and isinstance(output, list | tuple):
        return _shell_payload(output, count)
    return payload(output, count, _input_text)


def _shell_payload(chunks: Sequence[object], count: Count) -> Payload:
    """Return the payload of a shell's output chunks. The outcomes of the commands are not counted."""
    outputs = [fields_of(chunk) for chunk in chunks]
    printed = [chunk.get(name) for chunk in outputs for name in ("stdout", "stderr")]
    said = [text for text in printed if isinstance(text, str) and text]
    if not all(isinstance(text, str) for text in printed):
        return Payload("", tokens(chunks, count), is_fixed=True)
    return Payload("\n".join(said), sum(map(count, said)), _shell_chunk)


def _shell_chunk(chunks: object, text: str) -> list[object]:
    """Replace all chunks with the last failed chunk, so that the failure stays visible, or else the last chunk."""
    every = chunks if isinstance(chunks, list | tuple) else ()
    candidates = [chunk for chunk in every if _has_failed(chunk)] or [*every]
    return [with_items(candidates[-1] if candidates else {}, {"stdout": text, "stderr": ""})]


def _input_text(blocks: object, text: str) -> list[object]:
    """Replace all blocks with one text block that keeps the last breakpoint of the prompt cache."""
    items = blocks if isinstance(blocks, list | tuple) else ()
    marks = [mark for block in items if (mark := fields_of(block).get("prompt_cache_breakpoint"))]
    changes = {"text": text, **({"prompt_cache_breakpoint": marks[-1]} if marks else {})}
    # Keep the SDK's class: the SDK sends a dict too, but with a warning.
    objects = [block for block in items if hasattr(block, "model_copy") and hasattr(block, "text")]
    return [with_items(objects[-1] if objects else {"type": "input_text"}, changes)]


def _is_error(message: Mapping[str, object]) -> bool | None:
    """Return whether the call failed; None if the item does not say."""
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
    """Return whether a shell command failed or timed out; None if the chunk does not say."""
    outcome = fields_of(fields_of(chunk).get("outcome"))
    code = outcome.get("exit_code")
    return True if outcome.get("type") == "timeout" else code != 0 if isinstance(code, int) else None


def _item_tokens(message: Mapping[str, object], count: Count) -> int:
    """Count the tokens of an item that is no message: everything that the model reads except a call's output."""
    total = 0
    for name, value in message.items():
        if name == "encrypted_content":
            total += encrypted_tokens(value)
        elif name == "result" and isinstance(value, str) and _item_type(message) == "image_generation_call":
            # A tiny picture has fewer bytes than tokens, but tokens must never exceed a message's bytes.
            total += min(media.tokens(Medium("image", value), count), len(value))
        elif name not in BESIDE and (name != "output" or _item_type(message) != "mcp_call"):
            total += _value_tokens(value, count)
    return total


def _value_tokens(value: object, count: Count) -> int:
    """Count the tokens of a value. Unlike in `tokens`, None counts nothing, and a text block counts only its text."""
    total = 0
    open_values = [value]
    for inner in nested(open_values):
        block = fields(inner)
        if isinstance(inner, list | tuple):
            open_values.extend(inner)
        elif block is None:
            total += tokens(inner, count)
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
