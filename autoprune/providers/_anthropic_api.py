"""Anthropic's Messages API: its rules with the texts of its errors, and the `Shape` of its messages for repairs."""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial

from autoprune.conversation.messages import MARK, MOST_MARKS, compaction_text, fields_of, with_item
from autoprune.providers._block_repair import Shape, repair_blocks
from autoprune.providers._repairs import (
    EMPTY,
    Path,
    Problem,
    Provider,
    Turn,
    id_keys,
    is_bare,
    is_blank,
    is_empty_text,
    items_of,
    neighbors,
    read_turn,
    string_of,
)

NAME = "anthropic"
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")  # the pattern in the API's error message
NOBODY = read_turn(None)  # the neighbor of the first and the last message
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
    calls: list[str] = []
    for at, one in enumerate(turns):
        following = turns[at + 1] if at + 1 < len(turns) else NOBODY
        yield from _check_contents(at, one, is_last=at + 1 == len(turns))
        yield from _check_results(at, one, calls)
        calls = call_ids(one)
        yield from _check_calls(at, one, ids)
        yield from _check_answers(at, calls, following)
    yield from _check_roles(turns)
    yield from _check_marks(turns)


def call_ids(one: Turn) -> list[str]:
    """Return the ids of the calls that the next message must answer."""
    blocks = one.blocks if one.role == "assistant" else ()
    return [call_id for block in blocks if block.get("type") == "tool_use" and (call_id := string_of(block.get("id")))]


def is_directive(one: Turn) -> bool:
    """Return whether a message is a system message with settings but without text."""
    return one.role == "system" and is_bare(one.content) and one.fields.get("output_config") is not None


def places_system(messages: Sequence[object]) -> bool:
    """Return whether a conversation has system messages, and each of them where Anthropic's API takes it."""
    roles = [fields_of(message).get("role") for message in messages]
    if "system" not in roles or not all(role in ("system", "user", "assistant") for role in roles):
        return False
    return not any(problem.rule == "misplaced_system" for problem in _check_roles([*map(read_turn, messages)]))


def _check_roles(turns: Sequence[Turn]) -> Iterator[Problem]:
    spoken = NOBODY  # the last message other than the system's
    waiting: list[int] = []  # the system's messages since
    for at, one in enumerate(turns):
        if one.role in ("user", "assistant"):
            yield from _check_system_run(waiting, spoken, one) if waiting else ()
            spoken, waiting = one, []
        elif one.role == "system" and not is_directive(one):
            waiting.append(at)
        elif one.role is None and one.fields:
            yield Problem(NAME, "unknown_role", (at, "role"), f"messages.{at}.role: Field required")
        elif one.role not in (None, "system"):
            said = f'messages: Unexpected role "{one.role}". Allowed roles are "user" or "assistant"'
            yield Problem(NAME, "unknown_role", (at, "role"), said)
    yield from _check_system_run(waiting, spoken, NOBODY)
    if turns and turns[0].role == "assistant" and not compaction_text(turns[0].fields):
        yield Problem(NAME, "first_message", (0,), FIRST_ROLE)


def _check_system_run(places: Sequence[int], before: Turn, after: Turn) -> Iterator[Problem]:
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


def _ends_in_server_result(one: Turn) -> bool:
    kind = string_of(one.blocks[-1].get("type")) if one.blocks else None
    return kind is not None and kind.endswith("_tool_result")


def _check_contents(at: int, one: Turn, *, is_last: bool) -> Iterator[Problem]:
    if is_bare(one.content):
        may_be_empty = is_last and one.role == "assistant"
        if one.role not in NO_CONTENT or is_directive(one):
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


def _check_ending(at: int, one: Turn) -> Iterator[Problem]:
    path: Path = (at, "content")
    words = one.content
    if one.blocks and one.blocks[-1].get("type") == "text":
        path, words = (*path, len(one.blocks) - 1), one.blocks[-1].get("text")
    if isinstance(words, str) and words.strip() and words != words.rstrip():
        yield Problem(NAME, "trailing_whitespace", path, TRAILING)


def _check_marks(turns: Sequence[Turn]) -> Iterator[Problem]:
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


def _check_calls(at: int, one: Turn, ids: set[str]) -> Iterator[Problem]:
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


def _check_answers(at: int, calls: Sequence[str], following: Turn) -> Iterator[Problem]:
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


def _check_results(at: int, one: Turn, calls: Sequence[str]) -> Iterator[Problem]:
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
    yield from neighbors(NAME, [string_of(fields_of(message).get("role")) for message in messages])


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
