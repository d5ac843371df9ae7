"""Bedrock's Converse API: its rules with the texts of its errors, and the `Shape` of its messages for repairs."""

import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial

from autoprune.conversation.messages import fields_of, with_item
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
    items_of,
    read_turn,
    string_of,
)

NAME = "bedrock"
ROLES = ("user", "assistant", "system")  # botocore's service model of bedrock-runtime
CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")  # from the same service model
NOBODY = read_turn(None)  # the neighbor of the first and the last message
NOT_MODEL = ("user", "system")  # the roles whose messages may not hold the model's blocks
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
# The text of Claude's API, which Bedrock passes on.
NOT_FIRST = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
PLACE = "messages.{}: `{}` blocks can only be in `{}` messages"
INVALID = "1 validation error detected: Value '{}' at '{}' failed to satisfy constraint: Member must satisfy {}"


def find_problems(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the rules that the API would find broken, message by message."""
    turns = [read_turn(message) for message in messages]
    before = NOBODY
    served = set[str]()
    for at, one in enumerate(turns):
        yield from _check_role(at, one, before)
        yield from _check_contents(at, one)
        yield from _check_places(at, one, served)
        yield from _check_calls(at, one)
        yield from _check_results(at, one, set(call_ids(before)))
        yield from _check_answers(at, call_ids(one), turns[at + 1] if at + 1 < len(turns) else NOBODY)
        before = one


def own_calls(one: Turn) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the calls that the next message must answer. Bedrock answers the calls of its server tools itself."""
    for index, block in enumerate(one.blocks if one.role == "assistant" else ()):
        call = fields_of(block.get("toolUse"))
        if call and string_of(call.get("type")) != "server_tool_use":
            yield index, call


def call_ids(one: Turn) -> list[str]:
    """Return the ids of the calls that the next message must answer."""
    return [call_id for _, call in own_calls(one) if (call_id := string_of(call.get("toolUseId"))) is not None]


def own_results(one: Turn) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the results of the caller's tools. Results of server tools are in the model's messages."""
    for index, block in enumerate(one.blocks if one.role != "assistant" else ()):
        if result := fields_of(block.get("toolResult")):
            yield index, result


def _check_role(at: int, one: Turn, before: Turn) -> Iterator[Problem]:
    if one.fields and one.role not in ROLES:
        said = INVALID.format(one.role, f"messages.{at + 1}.member.role", f"enum value set: [{', '.join(ROLES)}]")
        yield Problem(NAME, "unknown_role", (at, "role"), said)
    if at == 0 and one.role == "assistant":
        yield Problem(NAME, "first_message", (at,), FIRST_ROLE)
    elif one.role in ("user", "assistant") and one.role == before.role:
        yield Problem(NAME, "alternation", (at,), ALTERNATE)


def _check_contents(at: int, one: Turn) -> Iterator[Problem]:
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


def _check_places(at: int, one: Turn, served: set[str]) -> Iterator[Problem]:
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


def _check_calls(at: int, one: Turn) -> Iterator[Problem]:
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


def _check_answers(at: int, wanted: Sequence[str], following: Turn) -> Iterator[Problem]:
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


def _check_results(at: int, one: Turn, wanted: set[str]) -> Iterator[Problem]:
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
