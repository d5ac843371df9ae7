"""Bedrock Converse: blocks named by their one field, results in the user's messages. One message in, one entry out.

Shapes are those of the service model of `bedrock-runtime` that botocore ships.
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
# What the model does not read of these blocks, or what is counted in another way.
IDS = frozenset(("toolUseId", "type", "status", "format", "signature", "citations", "qualifiers"))
UNREAD = IDS | AS_JSON | {ENCRYPTED, CACHE_POINT}
FAILED: Mapping[object, bool] = {"error": True, "success": False}


def seen(message: Mapping[str, object]) -> str | None:
    """Return the mark that shows that a message is of this format, in words; None where there is none.

    A text shows it too: its block has no `type`, which every other format demands.
    """
    content = message.get("content")
    if str(message.get("role")) not in SPEAKERS or not isinstance(content, list | tuple):
        return None
    for item in content:
        if _is_mark(*_member(item)):
            return f"a block with the one field {_member(item)[0]!r}"
    return None


def _is_mark(kind: str, value: object) -> bool:
    if kind == "text":
        return isinstance(value, str)
    return is_media({kind: value}) if kind in MEDIA else kind in BLOCKS and bool(fields(value))


def _member(item: object) -> tuple[str, object]:
    """Return the name and the value of the one field that a block has; ("", None) for anything else."""
    block = fields(item)
    if not block or len(block) != 1:
        return "", None
    ((kind, value),) = block.items()
    return (kind, value) if isinstance(kind, str) else ("", None)


def _is_result(item: object) -> bool:
    kind, value = _member(item)
    return kind == RESULT and fields(value) is not None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return who a message comes from; a user's message that holds only results comes from the tools."""
    who = SPEAKERS.get(str(message.get("role")), Speaker.OTHER)
    content = message.get("content")
    if who is not Speaker.USER or not isinstance(content, list | tuple):
        return who
    held = [_is_result(item) for item in content if _member(item)[0] != CACHE_POINT]
    return Speaker.TOOL if held and all(held) else who


def message(role: str, text: str) -> dict[str, object]:
    """Return a message that says a text."""
    return {"role": role, "content": [{"text": text}]}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Return the entry of a message. Anything unknown in it is counted and otherwise left alone."""
    who = speaker(message)
    content = listed(message.get("content"))
    path = (at, "content")
    if isinstance(content, list) and who is Speaker.MODEL:
        return _answer(content, path, parser)
    if isinstance(content, list) and who in (Speaker.USER, Speaker.TOOL):
        return _prompt(who, content, path, parser)
    return Entry(who, MESSAGE_TOKENS + _all_tokens(content, parser.count))


def _answer(content: list[object], path: Path, parser: Parser) -> Entry:
    """Return the entry of the model's message; what the server's own tools did is only counted."""
    weight = MESSAGE_TOKENS
    calls: list[ToolCall] = []
    thinking: list[Thought] = []
    is_alone = all(_member(item)[0] in (THINKING, CACHE_POINT) for item in content)
    for index, item in enumerate(content):
        kind, value = _member(item)
        held, place = fields_of(value), (*path, index, kind)
        spent = _tokens(item, parser.count)
        weight += spent
        if kind == CALL and not held.get("type"):
            call_id, tool, arguments = (held.get(name) for name in ("toolUseId", "name", "input"))
            calls.append(native_call(parser, place, call_id, tool, arguments, ("input",)))
        elif kind == "text":
            calls += texts.calls(value, place, parser)
        elif kind == THINKING:
            thinking.append(Thought(Location((*path, index)), spent, is_alone, NAME))
    return Entry(Speaker.MODEL, weight, (), tuple(calls), tuple(thinking))


def _prompt(who: Speaker, content: list[object], path: Path, parser: Parser) -> Entry:
    """Return the entry of the user's message. Each result is framed as a message, and all else as one together."""
    weight = 0 if who is Speaker.TOOL else MESSAGE_TOKENS
    results: list[ToolResult] = []
    for index, item in enumerate(content):
        kind, value = _member(item)
        place = (*path, index, kind)
        if _is_result(item):
            results.append(_result(fields_of(value), place, parser))
            weight += MESSAGE_TOKENS + results[-1].piece_tokens
        elif kind == "text" and isinstance(value, str):
            found, spent = texts.user_text(value, place, parser)
            results += found
            weight += spent
        else:
            weight += _tokens(item, parser.count)
    return Entry(who, weight, tuple(results))


def _result(held: Mapping[str, object], path: Path, parser: Parser) -> ToolResult:
    """Return the result in a block."""
    status = held.get("status")
    return native_result(
        parser,
        (*path, "content") if "content" in held else path,
        _payload(held.get("content"), parser.count),
        parser.answered(held.get("toolUseId")),
        kind=NAME,
        is_error=FAILED.get(status) if isinstance(status, str) else None,
    )


def _payload(content: object, count: Count) -> Payload:
    """Return the payload of a result, whose text is that of its blocks of text and of JSON."""
    if not isinstance(content, list | tuple):
        return payload(content, count, _text_block)
    found = [_text(item) for item in content]
    text = "\n".join(each for each in found if each is not None)
    return Payload(text, _all_tokens(content, count), _text_block, is_plain=None not in found)


def _text(item: object) -> str | None:
    kind, value = _member(item)
    if kind == "json":
        return json_text(value)
    return value if kind == "text" and isinstance(value, str) else None


def _text_block(blocks: object, text: str) -> list[object]:
    return [{"text": text}]


def _all_tokens(content: object, count: Count) -> int:
    blocks = content if isinstance(content, list | tuple) else None
    return tokens(content, count, media) if blocks is None else sum(_tokens(item, count) for item in blocks)


def _tokens(item: object, count: Count) -> int:
    """Return the tokens of a block: what the model reads of a known kind, all of any other."""
    kind, value = _member(item)
    if kind in ("text", "json") or (kind in BLOCKS and fields(value)):
        return _read_tokens(item, count)
    return tokens(item, count, media)


def _read_tokens(item: object, count: Count) -> int:
    """Return the tokens of the texts in a block and in the blocks inside it."""
    total = 0
    open_values = [item]
    for value in nested(open_values):
        held = fields(value)
        if isinstance(value, list | tuple):
            open_values.extend(value)
        elif held is None or is_media(held):
            total += tokens(value, count, media)
        else:
            total += _encrypted_tokens(held.get(ENCRYPTED))
            total += sum(count(json_text(held[name])) for name in AS_JSON & held.keys())
            open_values.extend(held[name] for name in held if name not in UNREAD)
    return total


def _encrypted_tokens(data: object) -> int:
    """Return the tokens of encrypted data by rule; botocore has decoded its base64."""
    if isinstance(data, bytes):
        return len(data) * 4 // (3 * ENCRYPTED_CHARACTERS)
    return encrypted_tokens(data)
