"""Bedrock Converse: blocks named by their one field, results in the user's messages. One message in, one entry out.

Source of the shapes: the service model of `bedrock-runtime` in botocore.
"""

from collections.abc import Mapping

import autoprune.formats.texts as texts
from autoprune.conversation.messages import fields, fields_of, listed, nested
from autoprune.conversation.transcript import Entry, Location, Path, Speaker, Thought, ToolCall, ToolResult
from autoprune.formats._media import BEDROCK, is_media
from autoprune.formats._parts import ENCRYPTED_CHARACTERS, Payload, encrypted_tokens, json_text, payload, tokens
from autoprune.formats.parsing import Parser, native_call, native_result
from autoprune.tokens import MESSAGE_TOKENS, Count

NAME = "bedrock"
media = BEDROCK
SPEAKERS: Mapping[str, Speaker] = {"system": Speaker.SYSTEM, "user": Speaker.USER, "assistant": Speaker.MODEL}
CALL, RESULT, THINKING, CACHE_POINT = "toolUse", "toolResult", "reasoningContent", "cachePoint"
MEDIA = frozenset(("image", "audio", "video"))
TEXTS = frozenset(("document", "guardContent", "citationsContent", "searchResult"))
BLOCKS = TEXTS | {CALL, RESULT, THINKING, CACHE_POINT, "toolAddition", "toolRemoval"}
AS_JSON = frozenset(("input", "json"))
ENCRYPTED = "redactedContent"
# Fields of these blocks that the model does not read, or that are counted separately.
IDS = frozenset(("toolUseId", "type", "status", "format", "signature", "citations", "qualifiers"))
UNREAD = IDS | AS_JSON | {ENCRYPTED, CACHE_POINT}
FAILED: Mapping[object, bool] = {"error": True, "success": False}


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the mark of this format in a message; None if there is none.

    A text block is a mark too: it has no `type`, which every other format requires.
    """
    content = message.get("content")
    if str(message.get("role")) not in SPEAKERS or not isinstance(content, list | tuple):
        return None
    for item in content:
        if _is_mark(*_only_field(item)):
            return f"a block with the one field {_only_field(item)[0]!r}"
    return None


def _is_mark(kind: str, value: object) -> bool:
    if kind == "text":
        return isinstance(value, str)
    return is_media({kind: value}) if kind in MEDIA else kind in BLOCKS and bool(fields(value))


def _only_field(item: object) -> tuple[str, object]:
    """Return the name and the value of a block's only field; ("", None) for anything else."""
    block = fields(item)
    if not block or len(block) != 1:
        return "", None
    ((kind, value),) = block.items()
    return (kind, value) if isinstance(kind, str) else ("", None)


def _is_result(item: object) -> bool:
    kind, value = _only_field(item)
    return kind == RESULT and fields(value) is not None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a message; a user's message that holds only results comes from the tools."""
    who = SPEAKERS.get(str(message.get("role")), Speaker.OTHER)
    content = message.get("content")
    if who is not Speaker.USER or not isinstance(content, list | tuple):
        return who
    # A cache point is no content: callers put it after the results.
    are_results = [_is_result(item) for item in content if _only_field(item)[0] != CACHE_POINT]
    return Speaker.TOOL if are_results and all(are_results) else who


def message(role: str, text: str) -> dict[str, object]:
    """Make a message with a text."""
    return {"role": role, "content": [{"text": text}]}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. Anything unknown in it is counted and never changed."""
    who = speaker(message)
    content = listed(message.get("content"))
    path = (at, "content")
    if isinstance(content, list) and who is Speaker.MODEL:
        return _read_answer(content, path, parser)
    if isinstance(content, list) and who in (Speaker.USER, Speaker.TOOL):
        results, spent = texts.user_content(content, path, parser, _read_user_block)
        # A message that holds only results adds no frame, since each result adds one.
        return Entry(who, spent + (0 if who is Speaker.TOOL else MESSAGE_TOKENS), results)
    return Entry(who, MESSAGE_TOKENS + _all_tokens(content, parser.count))


def _read_answer(content: list[object], path: Path, parser: Parser) -> Entry:
    """Read the model's message. Calls and results of server tools are only counted."""
    weight = MESSAGE_TOKENS
    calls: list[ToolCall] = []
    thinking: list[Thought] = []
    is_alone = all(_only_field(item)[0] in (THINKING, CACHE_POINT) for item in content)
    for index, item in enumerate(content):
        kind, value = _only_field(item)
        call, place = fields_of(value), (*path, index, kind)
        spent = _block_tokens(item, parser.count)
        weight += spent
        # The provider itself answers a call with a type, such as "server_tool_use".
        if kind == CALL and not call.get("type"):
            call_id, tool, arguments = (call.get(name) for name in ("toolUseId", "name", "input"))
            calls.append(native_call(parser, place, call_id, tool, arguments, ("input",)))
        elif kind == "text":
            calls += texts.calls(value, place, parser)
        elif kind == THINKING:
            thinking.append(Thought(Location((*path, index)), spent, is_alone, NAME))
    return Entry(Speaker.MODEL, weight, (), tuple(calls), tuple(thinking))


def _read_user_block(item: object, path: Path, parser: Parser) -> texts.Reading:
    """Read a block of the user's message. A result counts as a message."""
    kind, value = _only_field(item)
    if _is_result(item):
        result = _read_result(fields_of(value), (*path, kind), parser)
        return (result,), MESSAGE_TOKENS + result.piece_tokens
    if kind == "text" and isinstance(value, str):
        return texts.user_text(value, (*path, kind), parser)
    return (), _block_tokens(item, parser.count)


def _read_result(held: Mapping[str, object], path: Path, parser: Parser) -> ToolResult:
    """Read the result in a block."""
    status = held.get("status")
    return native_result(
        parser,
        (*path, "content") if "content" in held else path,
        _content_payload(held.get("content"), parser.count),
        parser.answered(held.get("toolUseId")),
        kind=NAME,
        is_error=FAILED.get(status) if isinstance(status, str) else None,
    )


def _content_payload(content: object, count: Count) -> Payload:
    """Return the payload of a result, whose text joins the text and JSON blocks."""
    if not isinstance(content, list | tuple):
        return payload(content, count, _text_block)
    texts_of_blocks = [_text_of_block(item) for item in content]
    text = "\n".join(each for each in texts_of_blocks if each is not None)
    return Payload(text, _all_tokens(content, count), _text_block, is_plain=None not in texts_of_blocks)


def _text_of_block(item: object) -> str | None:
    kind, value = _only_field(item)
    if kind == "json":
        return json_text(value)
    return value if kind == "text" and isinstance(value, str) else None


def _text_block(blocks: object, text: str) -> list[object]:
    return [{"text": text}]


def _all_tokens(content: object, count: Count) -> int:
    blocks = content if isinstance(content, list | tuple) else None
    return tokens(content, count, media) if blocks is None else sum(_block_tokens(item, count) for item in blocks)


def _block_tokens(item: object, count: Count) -> int:
    """Count the tokens of a block: for a known kind only what the model reads, for any other kind all fields."""
    kind, value = _only_field(item)
    if kind in ("text", "json") or (kind in BLOCKS and fields(value)):
        return _read_tokens(item, count)
    return tokens(item, count, media)


def _read_tokens(item: object, count: Count) -> int:
    """Count the tokens of the texts in a block and in the blocks inside it."""
    total = 0
    open_values = [item]
    for value in nested(open_values):
        inner = fields(value)
        if isinstance(value, list | tuple):
            open_values.extend(value)
        elif inner is None or is_media(inner):
            total += tokens(value, count, media)
        else:
            total += _redacted_tokens(inner.get(ENCRYPTED))
            total += sum(count(json_text(inner[name])) for name in AS_JSON & inner.keys())
            open_values.extend(inner[name] for name in inner if name not in UNREAD)
    return total


def _redacted_tokens(data: object) -> int:
    """Estimate the tokens of encrypted data from its size. botocore has already decoded the base64."""
    if isinstance(data, bytes):
        return len(data) * 4 // (3 * ENCRYPTED_CHARACTERS)
    return encrypted_tokens(data)
