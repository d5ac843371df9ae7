"""Anthropic's Messages API: how its messages are read, its rules with the texts of its errors, and their repair.

Messages hold blocks with a `type`; results are in the user's messages. Source of the shapes: the anthropic SDK's
`MessageParam`, `Message`, and their beta variants.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import autoprune.wire.texts as texts
from autoprune.conversation.messages import (
    MARK,
    MOST_MARKS,
    compaction_text,
    fields,
    fields_of,
    items_of,
    listed,
    with_item,
)
from autoprune.conversation.transcript import Entry, Location, Path, Speaker, Thought, ToolCall, ToolResult
from autoprune.tokens import MESSAGE_TOKENS, Count
from autoprune.wire._block_repair import Shape, repair_blocks
from autoprune.wire._media import ANTHROPIC
from autoprune.wire._parts import Payload, encrypted_tokens, json_text, payload, read_tokens, text_block, tokens
from autoprune.wire._rules import (
    EMPTY,
    NOBODY,
    BlockMessage,
    Problem,
    Provider,
    check_neighbors,
    id_keys,
    is_bare,
    is_blank,
    is_empty_text,
    read_turn,
    string_of,
    with_neighbors,
)
from autoprune.wire.parsing import Parser, native_call, native_result

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
    if is_directive(message):
        return "'output_config'"
    for item in items_of(message.get("content")):
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
    kinds = [_block_type(fields_of(item)) for item in items_of(message.get("content"))]
    return Speaker.TOOL if who is Speaker.USER and {*kinds} == {RESULT} else who


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
    entry = _read(who, content, path, parser)
    return replace(entry, is_directive=True) if is_directive(message) else entry


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
    if kind in READ or kind.endswith(SERVER_RESULT):
        return read_tokens(block, count, media, UNREAD, _encrypted_tokens)
    return tokens(item, count, media)


def _encrypted_tokens(block: Mapping[str, object]) -> int:
    return sum(encrypted_tokens(block.get(name)) for name in ENCRYPTED)


# Its rules

CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")  # the pattern in the API's error message
FIRST_ROLE = 'messages: first message must use the "user" role'
UNANSWERED = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
ORPHAN = (
    "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
SECOND_RESULT = (
    "messages.{}.content.{}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {}"
)
PLACE = "messages.{}: `{}` blocks can only be in `{}` messages"
NOT_MODEL = ("user", "system")  # the roles whose messages may not hold the model's blocks
ANYWHERE = "; the directive-only form (content: [] with output_config) is accepted at any position"
SYSTEM_FIRST = "messages.{}: use the top-level 'system' parameter for the initial system prompt" + ANYWHERE
SYSTEM_AFTER = (
    "messages.{}: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
    + ANYWHERE
)
SYSTEM_BEFORE = "messages.{}: role 'system' must precede an 'assistant' message or end the array" + ANYWHERE
NO_CONTENT = {
    "user": "messages.{}: user messages must have non-empty content",
    "assistant": (
        "messages.{}: all messages must have non-empty content except for the optional final assistant message"
    ),
    "system": "messages.{}: system content must contain at least one block",
}
REQUIRED = "messages.{}: Field required"
NO_TEXT = "messages: text content blocks must be non-empty"
BLANK_TEXT = "messages: text content blocks must contain non-whitespace text"
TOO_MANY_MARKS = f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {{}}."
TRAILING = "messages: final assistant content cannot end with trailing whitespace"


def find_problems(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the rules that the API would find broken, message by message."""
    turns = [read_turn(message) for message in messages]
    ids: set[str] = set()
    for at, before, one, following in with_neighbors(turns):
        yield from _check_contents(at, one, is_last=following is NOBODY)
        yield from _check_results(at, one, call_ids(before))
        yield from _check_calls(at, one, ids)
        yield from _check_answers(at, call_ids(one), following)
    yield from _check_roles(turns)
    yield from _check_marks(turns)


def call_ids(one: BlockMessage) -> list[str]:
    """Return the ids of the calls that the next message must answer."""
    blocks = one.blocks if one.role == "assistant" else ()
    return [call_id for block in blocks if block.get("type") == "tool_use" and (call_id := string_of(block.get("id")))]


def is_directive(message: Mapping[str, object]) -> bool:
    """Return whether a message is a system message with settings but without text."""
    is_systems = message.get("role") == "system" and message.get("output_config") is not None
    return is_systems and is_bare(message.get("content"))


def places_system(messages: Sequence[object]) -> bool:
    """Return whether a conversation has system messages, and each of them where Anthropic's API takes it."""
    roles = [fields_of(message).get("role") for message in messages]
    if "system" not in roles or not all(role in ("system", "user", "assistant") for role in roles):
        return False
    return not any(problem.rule == "misplaced_system" for problem in _check_roles([*map(read_turn, messages)]))


def _check_roles(turns: Sequence[BlockMessage]) -> Iterator[Problem]:
    spoken = NOBODY  # the last message other than the system's
    waiting: list[int] = []  # the system's messages since
    for at, one in enumerate(turns):
        if one.role in ("user", "assistant"):
            yield from _check_system_run(waiting, spoken, one) if waiting else ()
            spoken, waiting = one, []
        elif one.role == "system" and not is_directive(one.fields):
            waiting.append(at)
        elif one.role is None and one.fields:
            yield Problem(NAME, "unknown_role", (at, "role"), f"messages.{at}.role: Field required")
        elif one.role not in (None, "system"):
            said = f'messages: Unexpected role "{one.role}". Allowed roles are "user" or "assistant"'
            yield Problem(NAME, "unknown_role", (at, "role"), said)
    yield from _check_system_run(waiting, spoken, NOBODY)
    if turns and turns[0].role == "assistant" and not compaction_text(turns[0].fields):
        yield Problem(NAME, "first_message", (0,), FIRST_ROLE)


def _check_system_run(places: Sequence[int], before: BlockMessage, after: BlockMessage) -> Iterator[Problem]:
    """Check that a run of system messages is between a user's message and the model's, or at the end."""
    if before is NOBODY:
        said = SYSTEM_FIRST
    elif before.role == "assistant" and not _ends_in_server_result(before):
        said = SYSTEM_AFTER
    elif after.role == "user":
        said = SYSTEM_BEFORE
    else:
        return
    for at in places:
        yield Problem(NAME, "misplaced_system", (at,), said.format(at))


def _ends_in_server_result(one: BlockMessage) -> bool:
    kind = string_of(one.blocks[-1].get("type")) if one.blocks else None
    return kind is not None and kind.endswith("_tool_result")


def _check_contents(at: int, one: BlockMessage, *, is_last: bool) -> Iterator[Problem]:
    if is_bare(one.content):
        may_be_empty = is_last and one.role == "assistant"
        if one.role not in NO_CONTENT or is_directive(one.fields):
            pass
        elif one.content is None and (may_be_empty or "content" not in one.fields):
            yield Problem(NAME, "empty_content", (at, "content"), REQUIRED.format(f"{at}.content"))
        elif not may_be_empty:
            yield Problem(NAME, "empty_content", (at, "content"), NO_CONTENT[one.role].format(at))
    elif is_blank(one.content):
        yield Problem(NAME, "empty_text", (at, "content"), BLANK_TEXT)
    for index, block in enumerate(one.blocks):
        yield from _check_block((at, "content", index), one.role, block)
    if is_last and one.role == "assistant":
        yield from _check_ending(at, one)


def _check_block(path: Path, role: str | None, block: Mapping[str, object]) -> Iterator[Problem]:
    match block.get("type"):
        case "text":
            yield from _check_text(path, block)
        case "thinking" | "redacted_thinking" as kind if role in NOT_MODEL:
            said = PLACE.format(path[0], kind, "assistant")
            yield Problem(NAME, "misplaced_thinking", path, said)
        case "thinking" if block.get("signature") is None:
            place = ".".join(map(str, path))
            said = f"messages.{place}.thinking.signature: Field required"
            yield Problem(NAME, "thinking_signature", path, said)
        case "tool_use" if role in NOT_MODEL:
            yield Problem(NAME, "misplaced_call", path, PLACE.format(path[0], "tool_use", "assistant"))
        case "tool_result":
            for index, part in enumerate(items_of(block.get("content"))):
                inner = fields_of(part)
                if inner.get("type") == "text" and is_empty_text(inner.get("text")):
                    yield Problem(NAME, "empty_text", (*path, "content", index), NO_TEXT)


def _check_text(path: Path, block: Mapping[str, object]) -> Iterator[Problem]:
    place = ".".join(map(str, path))
    if block.get("text") is None:
        yield Problem(NAME, "empty_text", path, REQUIRED.format(f"{place}.text.text"))
    if not is_blank(block.get("text")):
        return
    said = BLANK_TEXT if block.get("text") else NO_TEXT
    if block.get("cache_control") is not None and not block.get("text"):
        said = f"messages.{place}.text: cache_control cannot be set for empty text blocks"
    yield Problem(NAME, "empty_text", path, said)


def _check_ending(at: int, one: BlockMessage) -> Iterator[Problem]:
    path: Path = (at, "content")
    words = one.content
    if one.blocks and one.blocks[-1].get("type") == "text":
        path, words = (*path, len(one.blocks) - 1), one.blocks[-1].get("text")
    if isinstance(words, str) and words.strip() and words != words.rstrip():
        yield Problem(NAME, "trailing_whitespace", path, TRAILING)


def _check_marks(turns: Sequence[BlockMessage]) -> Iterator[Problem]:
    """Yield the first marks of a request with too many. The last ones stay, since they cover more of the prompt."""
    marked = [path for at, one in enumerate(turns) for path in _marked_paths((at, "content"), one.blocks)]
    for path in marked[:-MOST_MARKS]:
        yield Problem(NAME, "too_many_marks", path, TOO_MANY_MARKS.format(len(marked)))


def _marked_paths(path: Path, blocks: Sequence[Mapping[str, object]]) -> Iterator[Path]:
    for index, block in enumerate(blocks):
        inner = [fields_of(part) for part in items_of(block.get("content"))]
        yield from _marked_paths((*path, index, "content"), inner)
        if block.get(MARK) is not None:
            yield (*path, index)


def _check_calls(at: int, one: BlockMessage, ids: set[str]) -> Iterator[Problem]:
    """Check that each call has a unique id and a mapping as input."""
    for index, block in enumerate(one.blocks if one.role == "assistant" else ()):
        if block.get("type") != "tool_use":
            continue
        path, place = (at, "content", index), f"messages.{at}.content.{index}"
        call_id = string_of(block.get("id"))
        if call_id is not None and not CALL_ID.fullmatch(call_id):
            said = f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            yield Problem(NAME, "call_id_pattern", path, said)
        elif call_id in ids:
            yield Problem(NAME, "duplicate_call_id", path, f"{place}: `tool_use` ids must be unique")
        ids |= {call_id} if call_id else set()
        arguments = block.get("input")
        if arguments is None or isinstance(arguments, str | int | float | list | tuple):
            said = f"{place}.tool_use.input: Input should be a valid dictionary"
            yield Problem(NAME, "call_input", (*path, "input"), said)


def _check_answers(at: int, calls: Sequence[str], following: BlockMessage) -> Iterator[Problem]:
    """Check that the next message begins with a result for each call."""
    places: dict[str, int] = {}
    is_leading, wanted = True, set(calls)
    misplaced: list[tuple[int, str]] = []
    for index, block in enumerate(following.blocks if following.role == "user" else ()):
        if block.get("type") != "tool_result":
            is_leading = False
        elif (answered := string_of(block.get("tool_use_id"))) is not None and answered not in places:
            places[answered] = index
            misplaced += [] if is_leading or answered not in wanted else [(index, answered)]
    if missing := [call for call in dict.fromkeys(calls) if call not in places]:
        yield Problem(NAME, "unanswered_call", (at,), UNANSWERED.format(at, ", ".join(missing)))
    if misplaced:
        said = UNANSWERED.format(at, ", ".join(call for _, call in misplaced))
        yield Problem(NAME, "results_not_first", (at + 1, "content", misplaced[0][0]), said)


def _check_results(at: int, one: BlockMessage, calls: Sequence[str]) -> Iterator[Problem]:
    """Check that a message holds one result for each call of the previous message, and no other results."""
    open_calls, seen = set(calls), set[str]()
    for index, block in enumerate(one.blocks):
        if block.get("type") != "tool_result":
            continue
        path, answered = (at, "content", index), string_of(block.get("tool_use_id"))
        if one.role in ("assistant", "system"):
            yield Problem(NAME, "misplaced_result", path, PLACE.format(at, "tool_result", "user"))
        elif answered is None:
            said = f"messages.{at}.content.{index}.tool_result.tool_use_id: Field required"
            yield Problem(NAME, "orphan_result", path, said)
        elif answered not in open_calls:
            yield Problem(NAME, "orphan_result", path, ORPHAN.format(at, index, answered))
        elif answered in seen:
            yield Problem(NAME, "duplicate_result", path, SECOND_RESULT.format(at, index, answered))
        seen |= {answered} if answered else set()


def check_alternation(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the places at which user and assistant do not alternate, which gateways and local chat templates reject."""
    yield from check_neighbors(NAME, [string_of(fields_of(message).get("role")) for message in messages])


class _AnthropicShape(Shape):
    """Messages with a list of typed blocks, or a text."""

    def text_block(self, words: str) -> object:
        return {"type": "text", "text": words}

    def new_message(self, role: str, blocks: Sequence[object], like: object) -> object:
        """Create a message from blocks; a single text block becomes a string."""
        one = fields_of(blocks[0]) if len(blocks) == 1 else {}
        return {"role": role, self.field: one["text"] if one.keys() == {"type", "text"} else list(blocks)}

    def call_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        one = fields_of(found)
        if role != self.model or one.get("type") != "tool_use":
            return None
        return id_keys(one.get("id"))

    def result_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        one = fields_of(found)
        return id_keys(one.get("tool_use_id")) if one.get("type") == "tool_result" else None

    def no_result(self, call: object, reason: str) -> object:
        call_id = fields_of(call).get("id")
        return {"type": "tool_result", "tool_use_id": call_id, "content": reason, "is_error": True}

    def with_id(self, found: object, call_id: str) -> object:
        return with_item(found, "id" if fields_of(found).get("type") == "tool_use" else "tool_use_id", call_id)

    def repair_result(self, found: object) -> object:
        """Copy a result without its empty texts."""
        parts = [
            part for part in items_of(fields_of(found).get("content")) if not is_empty_text(fields_of(part).get("text"))
        ]
        return with_item(found, "content", parts or EMPTY)


PROVIDER = Provider(
    NAME,
    find_problems,
    partial(repair_blocks, _AnthropicShape()),
    other_names=("claude", "anthropic_messages"),
    alternation=check_alternation,
    begins_with_user=True,
)
