"""Bedrock's Converse API: how its messages are read, its rules with the texts of its errors, and their repair."""

import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial

import autoprune.wire.anthropic as anthropic
import autoprune.wire.texts as texts
from autoprune.conversation.messages import fields, fields_of, items_of, listed, with_item
from autoprune.conversation.transcript import Entry, Location, Path, Speaker, Thought, ToolCall, ToolResult
from autoprune.tokens import MESSAGE_TOKENS, Count
from autoprune.wire._block_repair import Shape, repair_blocks
from autoprune.wire._media import BEDROCK, is_media
from autoprune.wire._parts import Payload, encrypted_tokens, json_text, payload, read_tokens, tokens
from autoprune.wire._rules import (
    EMPTY,
    BlockMessage,
    Problem,
    Provider,
    id_keys,
    is_bare,
    is_blank,
    read_turn,
    string_of,
    with_neighbors,
)
from autoprune.wire.anthropic import NOT_MODEL, PLACE, SPEAKERS
from autoprune.wire.parsing import Parser, native_call, native_result

NAME = "bedrock"
media = BEDROCK
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
    # A cache point is no content: callers put it after the results.
    blocks = [item for item in items_of(message.get("content")) if _only_field(item)[0] != CACHE_POINT]
    return Speaker.TOOL if who is Speaker.USER and blocks and all(map(_is_result, blocks)) else who


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
        return read_tokens(item, count, media, UNREAD, partial(_other_tokens, count))
    return tokens(item, count, media)


def _other_tokens(count: Count, block: Mapping[str, object]) -> int:
    as_json = sum(count(json_text(block[name])) for name in AS_JSON & block.keys())
    return as_json + encrypted_tokens(block.get(ENCRYPTED))


# Its rules

ROLES = ("user", "assistant", "system")  # botocore's service model of bedrock-runtime
CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")  # from the same service model
BEFORE_RESULTS = {"toolResult", "cachePoint"}  # blocks that may precede a result in its message
ALTERNATE = (
    "A conversation must alternate between user and assistant roles. "
    "Make sure the conversation alternates between user and assistant roles and try again."
)
FIRST_ROLE = (
    "A conversation must start with a user message. Try again with a conversation that starts with a user message."
)
UNANSWERED = "Expected toolResult blocks at messages.{}.content for the following Ids: {}"
ORPHAN = "The number of toolResult blocks at messages.{}.content exceeds the number of toolUse blocks of previous turn."
DUPLICATE = "The {} blocks at messages.{}.content contain duplicate Ids: {}"
NO_CONTENT = (
    "The content field in the Message object at messages.{} is empty. "
    "Add a ContentBlock object to the content field and try again."
)
BLANK = "The text field in the ContentBlock object at {} is blank. Add text to the text field, and try again."
EMPTY_ERROR = "The content field at {}.toolResult cannot be empty when status value is error."
NOT_FIRST = anthropic.UNANSWERED  # Claude's own error, which Bedrock passes on
INVALID = "1 validation error detected: Value '{}' at '{}' failed to satisfy constraint: Member must satisfy {}"


def find_problems(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the rules that the API would find broken, message by message."""
    served = set[str]()
    for at, before, one, following in with_neighbors([read_turn(message) for message in messages]):
        yield from _check_role(at, one, before)
        yield from _check_contents(at, one)
        yield from _check_places(at, one, served)
        yield from _check_calls(at, one)
        yield from _check_results(at, one, set(call_ids(before)))
        yield from _check_answers(at, call_ids(one), following)


def own_calls(one: BlockMessage) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the calls that the next message must answer. Bedrock answers the calls of its server tools itself."""
    for index, block in enumerate(one.blocks if one.role == "assistant" else ()):
        call = fields_of(block.get("toolUse"))
        if call and string_of(call.get("type")) != "server_tool_use":
            yield index, call


def call_ids(one: BlockMessage) -> list[str]:
    """Return the ids of the calls that the next message must answer."""
    return [call_id for _, call in own_calls(one) if (call_id := string_of(call.get("toolUseId"))) is not None]


def own_results(one: BlockMessage) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the results of the caller's tools. Results of server tools are in the model's messages."""
    for index, block in enumerate(one.blocks if one.role != "assistant" else ()):
        if result := fields_of(block.get("toolResult")):
            yield index, result


def _check_role(at: int, one: BlockMessage, before: BlockMessage) -> Iterator[Problem]:
    if one.fields and one.role not in ROLES:
        said = INVALID.format(one.role, f"messages.{at + 1}.member.role", f"enum value set: [{', '.join(ROLES)}]")
        yield Problem(NAME, "unknown_role", (at, "role"), said)
    if at == 0 and one.role == "assistant":
        yield Problem(NAME, "first_message", (at,), FIRST_ROLE)
    elif one.role in ("user", "assistant") and one.role == before.role:
        yield Problem(NAME, "alternation", (at,), ALTERNATE)


def _check_contents(at: int, one: BlockMessage) -> Iterator[Problem]:
    if one.fields and is_bare(one.content):
        yield Problem(NAME, "empty_content", (at, "content"), NO_CONTENT.format(at))
    for index, block in enumerate(one.blocks):
        path: Path = (at, "content", index)
        if is_blank(block.get("text")):
            yield _blank_text(path)
        result = fields_of(block.get("toolResult"))
        inside: Path = (*path, "toolResult", "content")
        if string_of(result.get("status")) == "error" and is_bare(result.get("content")):
            yield Problem(NAME, "empty_result", inside, EMPTY_ERROR.format(_dotted_path(path)))
        for part, item in enumerate(items_of(result.get("content"))):
            if is_blank(fields_of(item).get("text")):
                yield _blank_text((*inside, part))


def _check_places(at: int, one: BlockMessage, served: set[str]) -> Iterator[Problem]:
    """Yield the blocks that are in a message of the wrong role. `served` collects the ids of server tool calls."""
    for index, block in enumerate(one.blocks):
        path: Path = (at, "content", index)
        call, result = fields_of(block.get("toolUse")), fields_of(block.get("toolResult"))
        if call and string_of(call.get("type")) == "server_tool_use":
            served.add(string_of(call.get("toolUseId")) or "")
        elif call and one.role in NOT_MODEL:
            yield Problem(NAME, "misplaced_call", path, PLACE.format(at, "tool_use", "assistant"))
        elif block.get("reasoningContent") is not None and one.role in NOT_MODEL:
            yield Problem(NAME, "misplaced_thinking", path, PLACE.format(at, "thinking", "assistant"))
        elif is_misplaced(one.role, result, served):
            yield Problem(NAME, "misplaced_result", path, PLACE.format(at, "tool_result", "user"))


def is_misplaced(role: str | None, result: Mapping[str, object], served: Collection[str]) -> bool:
    """Return whether a result of the caller's tools is in a message of the model."""
    is_served = bool(string_of(result.get("type"))) or string_of(result.get("toolUseId")) in served
    return role == "assistant" and bool(result) and not is_served


def _check_calls(at: int, one: BlockMessage) -> Iterator[Problem]:
    """Check that each call of a message has a unique id of allowed characters."""
    seen = set[str]()
    for index, call in own_calls(one):
        path, call_id = (at, "content", index), string_of(call.get("toolUseId"))
        if call_id is None:
            continue
        if not CALL_ID.fullmatch(call_id):
            place = f"messages.{at + 1}.member.content.{index + 1}.member.toolUse.toolUseId"
            said = INVALID.format(call_id, place, "regular expression pattern: [a-zA-Z0-9_.:-]+, and length 1 to 64")
            yield Problem(NAME, "call_id_pattern", path, said)
        elif call_id in seen:
            yield Problem(NAME, "duplicate_call_id", path, DUPLICATE.format("toolUse", at, call_id))
        seen.add(call_id)


def _blank_text(path: Path) -> Problem:
    return Problem(NAME, "empty_text", path, BLANK.format(_dotted_path(path)))


def _dotted_path(path: Path) -> str:
    return ".".join(("messages", *map(str, path)))


def _check_answers(at: int, wanted: Sequence[str], following: BlockMessage) -> Iterator[Problem]:
    """Check that the next message begins with a result for each call."""
    results = list(own_results(following)) if following.role == "user" else []
    ids = {string_of(result.get("toolUseId")) for _, result in results}
    if missing := [call for call in dict.fromkeys(wanted) if call not in ids]:
        yield Problem(NAME, "unanswered_call", (at,), UNANSWERED.format(at + 1, ", ".join(missing)))
    others = (index for index, block in enumerate(following.blocks) if not BEFORE_RESULTS & block.keys())
    first = next(others, len(following.blocks))
    if late := [
        (index, call) for index, one in results if index > first and (call := string_of(one.get("toolUseId"))) in wanted
    ]:
        said = NOT_FIRST.format(at, ", ".join(str(call) for _, call in late))
        yield Problem(NAME, "results_not_first", (at + 1, "content", late[0][0]), said)


def _check_results(at: int, one: BlockMessage, wanted: set[str]) -> Iterator[Problem]:
    seen = set[str]()
    for index, result in own_results(one):
        path, answered = (at, "content", index), string_of(result.get("toolUseId"))
        if answered is None or answered not in wanted:
            yield Problem(NAME, "orphan_result", path, ORPHAN.format(at))
        elif answered in seen:
            yield Problem(NAME, "duplicate_result", path, DUPLICATE.format("toolResult", at, answered))
        else:
            seen.add(answered)


class _BedrockShape(Shape):
    """Messages with a list of blocks, each under the name of its kind."""

    def call_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return the id of a call; None for any other block, and for a call of a server tool."""
        call = fields_of(fields_of(found).get("toolUse"))
        if role != self.model or not call or string_of(call.get("type")) == "server_tool_use":
            return None
        return id_keys(call.get("toolUseId"))

    def result_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        result = fields_of(fields_of(found).get("toolResult"))
        return id_keys(result.get("toolUseId")) if result and role != self.model else None

    def no_result(self, call: object, reason: str) -> object:
        call_id = fields_of(fields_of(call).get("toolUse")).get("toolUseId")
        return {"toolResult": {"toolUseId": call_id, "status": "error", "content": [self.text_block(reason)]}}

    def with_id(self, found: object, call_id: str) -> object:
        name = "toolUse" if fields_of(found).get("toolUse") is not None else "toolResult"
        return with_item(found, name, with_item(fields_of(found)[name], "toolUseId", call_id))

    def repair_result(self, found: object) -> object:
        """Copy a result without its blank texts."""
        result = fields_of(found)["toolResult"]
        parts = [
            part for part in items_of(fields_of(result).get(self.field)) if not is_blank(fields_of(part).get("text"))
        ]
        return with_item(found, "toolResult", with_item(result, self.field, parts or [self.text_block(EMPTY)]))


PROVIDER = Provider(
    NAME,
    find_problems,
    partial(repair_blocks, _BedrockShape()),
    other_names=("aws", "amazon", "amazon_bedrock", "aws_bedrock", "converse", "bedrock_converse"),
    alternates=True,
    begins_with_user=True,
)
