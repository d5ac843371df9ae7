"""Anthropic's Messages: the rules of shape, text, order and pairing. `anthropic_thinking` has those of thinking.

The sentences are Anthropic's, as public issue threads and a recorded refusal quote them.
"""

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from strict_provider.caching import HOUR_TTL, USUAL_TTL, lives, marks
from strict_provider.exchange import Json, RefusalError

TOP_FIELDS = {
    *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "cache_control", "metadata"),
    *("stop_sequences", "stream", "temperature", "top_k", "top_p", "service_tier", "speed", "container"),
    *("context_management", "diagnostics", "fallbacks", "inference_geo", "mcp_servers", "output_config"),
    *("output_format", "user_profile_id", "workspace_id"),
}
MOST_MARKS = 4
LIVES_IN_ORDER = (
    "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that "
    "blocks are processed in the following order: `tools`, `system`, `messages`."
)
# How betas begin that Claude Code asks for, and pi.
SYSTEM_TURNS, OWN_EFFORT = "mid-conversation-", ("per-turn-control-", "mid-conversation-output-config-")
ID_PATTERN = "^[a-zA-Z0-9_-]+$"


class Fields(NamedTuple):
    """The fields of a block beside its type."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ("cache_control",)


BLOCKS = {
    "text": Fields(("text",), ("cache_control", "citations")),
    "image": Fields(("source",), ("cache_control", "transformations")),
    "document": Fields(("source",), ("cache_control", "citations", "context", "title")),
    "search_result": Fields(("content", "source", "title"), ("cache_control", "citations")),
    "thinking": Fields(("signature", "thinking"), ()),
    "redacted_thinking": Fields(("data",), ()),
    "tool_use": Fields(("id", "name", "input"), ("cache_control", "caller", "toolset_name")),
    "tool_result": Fields(("tool_use_id",), ("cache_control", "content", "is_error", "toolset_name")),
    "server_tool_use": Fields(("id", "name", "input"), ("cache_control", "caller")),
    "tool_reference": Fields(("tool_name",)),
}
SERVER_BLOCKS = (  # whose fields are not looked at
    *("bash_code_execution_tool_result", "code_execution_tool_result", "compaction", "container_upload"),
    *("mcp_tool_result", "mcp_tool_use", "text_editor_code_execution_tool_result", "tool_search_tool_result"),
    *("web_fetch_tool_result", "web_search_tool_result"),
)
MESSAGE_BLOCKS = (*sorted({*BLOCKS, *SERVER_BLOCKS} - {"tool_reference"}),)
ROLE_OF = {
    **dict.fromkeys(("tool_use", "thinking", "redacted_thinking"), "assistant"),
    "tool_result": "user",
}
RESULT_BLOCKS = ("document", "image", "search_result", "text", "tool_reference")


def blocks(message: Json) -> list[Json]:
    """A message's content as blocks: a string is short for one text block."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def check(body: Json, required: Sequence[str], alternate: bool, betas: str = "") -> None:
    """Raise RefusalError for the first rule that a request breaks; `required` are fields that it must have.

    `betas` is the header that lets the system speak between the others, and a message have an effort of its own.
    """
    for name in required:
        if name not in body:
            raise RefusalError(f"{name}: Field required")
    _check_top(body)
    for index, message in enumerate(body["messages"]):
        _check_shape(message, f"messages.{index}", betas)
    _check_ends(body["messages"])
    for index, message in enumerate(body["messages"]):
        _check_texts(message, index, index == len(body["messages"]) - 1)
    _check_places(body["messages"])
    _check_calls(body["messages"])
    _check_results(body["messages"])
    if alternate:
        _check_alternation(body["messages"])


# Shape


def _check_top(body: Json) -> None:
    if strange := body.keys() - TOP_FIELDS:
        raise RefusalError(f"{min(strange)}: Extra inputs are not permitted")
    if not body["messages"]:
        raise RefusalError("messages: at least one message is required")
    found = marks([body.get("tools"), body.get("system"), body["messages"]]) + bool(body.get("cache_control"))
    if found > MOST_MARKS:
        raise RefusalError(f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}.")
    asked = lives(
        [body.get("tools"), body.get("system"), body["messages"], {"cache_control": body.get("cache_control")}]
    )
    if strange := {*asked} - {USUAL_TTL, HOUR_TTL}:
        raise RefusalError(f"cache_control.ephemeral.ttl: Input should be '5m' or '1h', not {min(strange)!r}")
    if asked != sorted(asked, key=[HOUR_TTL, USUAL_TTL].index):
        raise RefusalError(LIVES_IN_ORDER)


def _check_shape(message: Json, path: str, betas: str) -> None:
    role = message.get("role")
    if role == "system" and SYSTEM_TURNS not in betas:
        raise RefusalError("role 'system' is not supported on this model")
    if role not in ("user", "assistant", "system"):
        raise RefusalError(f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant".')
    own_effort = {"output_config"} if any(each in betas for each in OWN_EFFORT) else set()
    if strange := message.keys() - {"role", "content"} - own_effort:
        raise RefusalError(f"{path}.{min(strange)}: Extra inputs are not permitted")
    if "content" not in message:
        raise RefusalError(f"{path}.content: Field required")
    if not isinstance(message["content"], str | list):
        raise RefusalError(f"{path}.content: Input should be a valid list")
    for number, block in enumerate(blocks(message)):
        _check_block(block, f"{path}.content.{number}", MESSAGE_BLOCKS)


def _check_block(block: Json, path: str, known: Sequence[str]) -> None:
    kind = block.get("type")
    if kind not in known:
        tags = ", ".join(f"'{tag}'" for tag in known)
        words = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        raise RefusalError(f"{path}: {words}")
    if kind in BLOCKS:
        _check_fields(block, f"{path}.{kind}", BLOCKS[kind])
    if kind == "tool_use":
        _check_call(block, f"{path}.{kind}")
    if kind == "tool_result":
        _check_result(block, f"{path}.{kind}")


def _check_fields(block: Json, path: str, fields: Fields) -> None:
    for name in fields.required:
        if name not in block:
            raise RefusalError(f"{path}.{name}: Field required")
    if strange := block.keys() - {"type", *fields.required, *fields.optional}:
        raise RefusalError(f"{path}.{min(strange)}: Extra inputs are not permitted")
    if "text" in fields.required and not isinstance(block["text"], str):
        raise RefusalError(f"{path}.text: Input should be a valid string")


def _check_call(block: Json, path: str) -> None:
    if not isinstance(block["input"], dict):
        raise RefusalError(f"{path}.input: Input should be a valid dictionary")
    if not re.fullmatch(ID_PATTERN, block["id"]):
        raise RefusalError(f"{path}.id: String should match pattern '{ID_PATTERN}'")


def _check_result(block: Json, path: str) -> None:
    content = block.get("content", "")
    if not isinstance(content, str | list):
        raise RefusalError(f"{path}.content: Input should be a valid list")
    nested = content if isinstance(content, list) else []
    for number, inner in enumerate(nested):
        _check_block(inner, f"{path}.content.{number}", RESULT_BLOCKS)
    if block.get("is_error") and any(inner["type"] != "text" for inner in nested):
        raise RefusalError(
            f"{path.removesuffix('.tool_result')}: all content must be type 'text' if 'is_error' is true"
        )


# Texts


def _check_texts(message: Json, index: int, is_last: bool) -> None:
    """Nothing is empty, and no text is blank."""
    content, role = message["content"], message["role"]
    if role == "user" and (not content or (isinstance(content, str) and not content.strip())):
        raise RefusalError(f"messages.{index}: user messages must have non-empty content")
    if role == "assistant" and not content:
        if is_last:
            return
        words = "all messages must have non-empty content except for the optional final assistant message"
        raise RefusalError(f"messages.{index}: {words}")
    for block in blocks(message):
        _check_text(block)
    if role == "assistant" and is_last and _text(blocks(message)[-1]).endswith((" ", "\n", "\t")):
        raise RefusalError("messages: final assistant content cannot end with trailing whitespace")


def _text(block: Json) -> str:
    return block["text"] if block["type"] == "text" else ""


def _check_text(block: Json) -> None:
    if block["type"] == "text" and not block["text"]:
        raise RefusalError("messages: text content blocks must be non-empty")
    if block["type"] == "text" and not block["text"].strip():
        raise RefusalError("messages: text content blocks must contain non-whitespace text")
    if block["type"] == "tool_result" and isinstance(block.get("content"), list):
        for inner in block["content"]:
            if inner["type"] == "text" and not inner["text"]:
                raise RefusalError("messages: text content blocks must be non-empty")


# Order


def _check_ends(messages: list[Json]) -> None:
    is_compaction = any(block["type"] == "compaction" for block in blocks(messages[0]))
    if messages[0]["role"] != "user" and not is_compaction:
        raise RefusalError('messages: first message must use the "user" role')


def _check_alternation(messages: list[Json]) -> None:
    """User and assistant take turns: gateways want it, and Anthropic itself did."""
    for one, other in pairwise(messages):
        if one["role"] == other["role"]:
            words = f'but found multiple "{one["role"]}" roles in a row'
            raise RefusalError(f'messages: roles must alternate between "user" and "assistant", {words}')


def _check_places(messages: list[Json]) -> None:
    """Each kind of block stands in messages of one role."""
    for index, message in enumerate(messages):
        for block in blocks(message):
            wanted = ROLE_OF.get(block["type"], message["role"])
            if wanted != message["role"]:
                raise RefusalError(f"messages.{index}: `{block['type']}` blocks can only be in `{wanted}` messages")


def _check_calls(messages: list[Json]) -> None:
    """Each call has an id of its own, ends its message, and is answered at the start of the next one."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        asked = [block["id"] for block in blocks(message) if block["type"] == "tool_use"]
        _check_unique(blocks(message), index, seen)
        answered = _answered(messages[index + 1 : index + 2]) if _ends_with_calls(message) else []
        if missing := [id for id in asked if id not in answered]:
            words = "`tool_use` ids were found without `tool_result` blocks immediately after"
            rule = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
            raise RefusalError(f"messages.{index}: {words}: {', '.join(missing)}. {rule}")


def _check_unique(content: list[Json], index: int, seen: set[str]) -> None:
    for number, block in enumerate(content):
        if block["type"] == "tool_use":
            if block["id"] in seen:
                raise RefusalError(f"messages.{index}.content.{number}: `tool_use` ids must be unique")
            seen.add(block["id"])


def _ends_with_calls(message: Json) -> bool:
    """Whether nothing but calls follows a message's first call. (A text after one is refused: a recorded answer.)"""
    kinds = [block["type"] for block in blocks(message)]
    return "tool_use" in kinds and set(kinds[kinds.index("tool_use") :]) == {"tool_use"}


def _answered(following: list[Json]) -> list[str]:
    """The ids of the results that the next message begins with."""
    results = (takewhile(_is_result, blocks(message)) for message in following if message["role"] == "user")
    return [block["tool_use_id"] for each in results for block in each]


def _is_result(block: Json) -> bool:
    return bool(block["type"] == "tool_result")


def _check_results(messages: list[Json]) -> None:
    """Each result answers a call of the message before it, once."""
    asked: set[Any] = set()
    for index, message in enumerate(messages):
        answered: set[str] = set()
        for number, block in enumerate(blocks(message)):
            if _is_result(block):
                _check_answer(block["tool_use_id"], f"messages.{index}.content.{number}", asked, answered)
        asked = {block["id"] for block in blocks(message) if block["type"] == "tool_use"}


def _check_answer(id: str, path: str, asked: set[str], answered: set[str]) -> None:
    if id not in asked:
        words = f"unexpected `tool_use_id` found in `tool_result` blocks: {id}"
        rule = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
        raise RefusalError(f"{path}: {words}. {rule}")
    if id in answered:
        words = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
        raise RefusalError(f"{path}: {words}: {id}")
    answered.add(id)
