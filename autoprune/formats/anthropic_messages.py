"""Anthropic Messages: blocks with a `type`, results in the user's messages. One message in, one entry out.

Source of the shapes: the anthropic SDK's `MessageParam`, `Message`, and their beta variants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import autoprune.formats.texts as texts
from autoprune.conversation.messages import compaction_text, fields, fields_of, listed, nested
from autoprune.conversation.transcript import Entry, Location, Path, Speaker, Thought, ToolCall, ToolResult
from autoprune.formats._media import ANTHROPIC, is_media
from autoprune.formats._parts import Payload, encrypted_tokens, json_text, payload, text_block, tokens
from autoprune.formats.parsing import Parser, native_call, native_result
from autoprune.tokens import MESSAGE_TOKENS, Count

NAME = "anthropic"
media = ANTHROPIC
SPEAKERS: Mapping[str, Speaker] = {"system": Speaker.SYSTEM, "user": Speaker.USER, "assistant": Speaker.MODEL}
CALL, RESULT, REFERENCE, COMPACTION = "tool_use", "tool_result", "tool_reference", "compaction"
CALLS = frozenset((CALL, "server_tool_use", "mcp_tool_use"))
THINKING = frozenset(("thinking", "redacted_thinking"))
ATTACHED = frozenset(("image", "document"))
# Blocks of which only the fields that the model reads are counted.
READ = ATTACHED | {RESULT, REFERENCE, "search_result", "browser_state", "container_upload", COMPACTION}
CHANGES = frozenset(("tool_addition", "tool_removal", "mcp_tool_listing", "fallback"))
SERVER_RESULT = "_tool_result"  # the end of the types of all results of server tools
# Blocks that load tools, besides a result that holds references to tools.
LOADING = frozenset(("tool_addition", "tool_removal", "mcp_tool_listing"))
PROGRAM = "code_execution"  # the beginning of the types of callers that are programs
MARKS = CALLS | READ | CHANGES | THINKING
# Fields of these blocks that the model does not read, or that only the provider can decrypt.
IDS = frozenset(("type", "tool_use_id", "file_id", "caller", "media_type", "retrieved_at"))
ENCRYPTED = frozenset(("encrypted_content", "encrypted_stdout"))
UNREAD_PAYLOAD = Payload("", 0, is_fixed=True)
UNREAD = IDS | ENCRYPTED | {"cache_control", "citations", "signature"}


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the mark of this format in a message; None if there is none."""
    if str(message.get("role")) not in SPEAKERS:
        return None
    if message.get("type") == "message" and "stop_reason" in message:
        return "'stop_reason'"
    content = message.get("content")
    for item in content if isinstance(content, list | tuple) else ():
        block = fields_of(item)
        if _is_mark(block):
            return f"a block of type {block['type']!r}"
    return None


def _is_mark(block: Mapping[str, object]) -> bool:
    kind = _block_type(block)
    if kind in ATTACHED:
        return fields(block.get("source")) is not None
    if kind == "thinking":  # in Mistral's API, the same block holds a list
        return isinstance(block.get("thinking"), str)
    return kind in MARKS or kind.endswith(SERVER_RESULT)


def _block_type(block: Mapping[str, object]) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a message; a user's message that holds only results comes from the tools."""
    who = SPEAKERS.get(str(message.get("role")), Speaker.OTHER)
    content = message.get("content")
    if who is not Speaker.USER or not content or not isinstance(content, list | tuple):
        return who
    return Speaker.TOOL if all(_block_type(fields_of(item)) == RESULT for item in content) else who


def message(role: str, text: str) -> dict[str, object]:
    """Make a message with a text."""
    return {"role": role, "content": text}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. For an SDK's `Message`, only the content is counted, since only the content is sent."""
    who = speaker(message)
    content = listed(message.get("content"))
    path = (at, "content")
    if isinstance(content, list) and any(_loads_tools(fields_of(item)) for item in content):
        return replace(_read(who, content, path, parser), loads_tools=True)
    return _read(who, content, path, parser)


def _loads_tools(block: Mapping[str, object]) -> bool:
    """Return whether a block loads tools, which the model could not call without it."""
    kind = _block_type(block)
    content = block.get("content")
    if kind == RESULT:
        return isinstance(content, list | tuple) and _has_references(content)
    found = kind == "tool_search_tool_result" and fields_of(content).get("tool_references")
    return kind in LOADING or bool(found)


def _has_references(content: Sequence[object]) -> bool:
    return any(_block_type(fields_of(item)) == REFERENCE for item in content)


def _read(who: Speaker, content: object, path: Path, parser: Parser) -> Entry:
    if who is Speaker.MODEL and isinstance(content, list):
        return _read_answer(content, path, parser)
    if who in (Speaker.USER, Speaker.TOOL):
        results, spent = texts.user_content(content, path, parser, _read_user_block)
        # A message that holds only results adds no frame, since each result adds one.
        return Entry(who, spent + (0 if who is Speaker.TOOL else MESSAGE_TOKENS), results)
    calls = texts.calls(content, path, parser) if who is Speaker.MODEL else ()
    return Entry(who, MESSAGE_TOKENS + _all_tokens(content, parser.count), calls=tuple(calls))


def _read_answer(content: list[object], path: Path, parser: Parser) -> Entry:
    """Read the model's message. Calls and results of server tools are only counted.

    The API ignores everything before a compaction, also in its message. One without a text has failed and does nothing.
    """
    weight = MESSAGE_TOKENS
    calls: list[ToolCall] = []
    thinking: list[Thought] = []
    blocks = [fields_of(item) for item in content]
    compaction = compaction_text({"content": content}) or None
    places = [at for at, block in enumerate(blocks) if _block_type(block) == COMPACTION and block.get("content")]
    start = places[-1] if compaction else 0
    # Thinking that is alone in its message cannot be removed: the API refuses an empty message.
    is_alone = all(_block_type(block) in THINKING for block in blocks)
    for index, block in enumerate(blocks[start:], start):
        place, kind = (*path, index), _block_type(block)
        spent = _block_tokens(content[index], parser.count)
        weight += spent
        if kind == CALL:
            calls.append(_read_call(block, place, parser))
        elif kind == "text":
            calls += texts.calls(block.get("text"), (*place, "text"), parser)
        elif kind in THINKING:
            thinking.append(Thought(Location(place), spent, is_alone, NAME))
    return Entry(Speaker.MODEL, weight, (), tuple(calls), tuple(thinking), compaction=compaction)


def _read_call(block: Mapping[str, object], path: Path, parser: Parser) -> ToolCall:
    """Read a call. One that a program makes is not the model's, and neither is its input."""
    call = native_call(parser, path, block.get("id"), block.get("name"), _input(block), ("input",))
    caller = fields_of(block.get("caller")).get("type")
    is_programmatic = isinstance(caller, str) and caller.startswith(PROGRAM)
    return replace(call, inputs=(), is_programmatic=True) if is_programmatic else call


def _read_user_block(item: object, path: Path, parser: Parser) -> texts.Reading:
    """Read a block of the user's message. A result counts as a message."""
    block = fields_of(item)
    kind = _block_type(block)
    if kind == RESULT:
        result = _read_result(block, path, parser)
        is_read = not (result.call and result.call.is_programmatic)
        return (result,), MESSAGE_TOKENS + result.piece_tokens if is_read else 0
    return texts.user_block(item, path, parser) if kind == "text" else ((), _block_tokens(item, parser.count))


def _read_result(block: Mapping[str, object], path: Path, parser: Parser) -> ToolResult:
    """Read the result in a block. The model does not see the result of a call that a program made."""
    failed = block.get("is_error")
    call = parser.answered(block.get("tool_use_id"))
    is_read = not (call and call.is_programmatic)
    return native_result(
        parser,
        (*path, "content") if "content" in block else path,
        _content_payload(block.get("content"), parser.count) if is_read else UNREAD_PAYLOAD,
        call,
        kind=NAME,
        is_error=failed if isinstance(failed, bool) else None,
    )


def _content_payload(content: object, count: Count) -> Payload:
    """Return the payload of a result. If it loads a tool, it is fixed: the model may call that tool later."""
    whole = payload(content, count, text_block)
    if not isinstance(content, list | tuple):
        return whole
    return whole._replace(tokens=_all_tokens(content, count), is_fixed=_has_references(content))


def _input(block: Mapping[str, object]) -> object:
    """Return a call's arguments; an SDK's object becomes a mapping."""
    value = block.get("input")
    return value if (mapping := fields(value)) is None else mapping


def _all_tokens(content: object, count: Count) -> int:
    blocks = content if isinstance(content, list | tuple) else None
    return tokens(content, count, media) if blocks is None else sum(_block_tokens(item, count) for item in blocks)


def _block_tokens(item: object, count: Count) -> int:
    """Count the tokens of a block: for a known kind only what the model reads, for any other kind all fields."""
    block = fields_of(item)
    kind = _block_type(block)
    if kind in CALLS:
        value = _input(block)
        arguments = json_text(value) if isinstance(value, Mapping) else value
        return tokens(block.get("name"), count) + tokens(arguments, count)
    if kind in THINKING:
        return tokens(block.get("thinking"), count) + encrypted_tokens(block.get("data"))
    return _read_tokens(block, count) if kind in READ or kind.endswith(SERVER_RESULT) else tokens(item, count, media)


def _read_tokens(block: Mapping[str, object], count: Count) -> int:
    """Count the tokens of the texts in a block and in the blocks inside it."""
    total = 0
    open_values: list[object] = [block]
    for value in nested(open_values):
        inner = fields(value)
        if isinstance(value, list | tuple):
            open_values.extend(value)
        elif inner is None or is_media(inner):
            total += tokens(value, count, media)
        else:
            total += sum(encrypted_tokens(inner.get(name)) for name in ENCRYPTED)
            open_values.extend(item for name, item in inner.items() if name not in UNREAD)
    return total
