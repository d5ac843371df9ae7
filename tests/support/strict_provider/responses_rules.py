"""OpenAI's Responses: the rules of its input items. The sentences are OpenAI's, as public issue threads quote them."""

import re
from collections import Counter
from typing import TypeAlias

from strict_provider.exchange import Json, RefusalError
from strict_provider.openai_chat import missing, unknown, wrong_type, wrong_value
from strict_provider.seals import opened

Item: TypeAlias = Json

# The fields of the items that are looked into, and how their ids begin; of the others only the type is looked at.
FIELDS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": {
        *("type", "id", "call_id", "name", "arguments", "status"),
        *("async", "caller", "namespace", "created_by"),
    },
    "function_call_output": {"type", "id", "call_id", "output", "status", "caller", "created_by"},
    "custom_tool_call": {"type", "id", "call_id", "name", "input", "status", "caller", "namespace"},
    "custom_tool_call_output": {"type", "id", "call_id", "output", "status", "caller"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "additional_tools": {"type", "id", "role", "tools"},
    "configuration_update": {"type", "id", "reasoning"},
}
EVERYWHERE = {"internal_chat_message_metadata_passthrough"}  # which Codex sends with every item
PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
REQUIRED = {
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "reasoning": ("summary",),
    "additional_tools": ("role", "tools"),
    "configuration_update": ("reasoning",),
}
CALLS = {
    "function_call": "function call",
    "custom_tool_call": "custom tool call",
    "local_shell_call": "local shell call",
    "shell_call": "shell call",
    "apply_patch_call": "apply patch call",
    "computer_call": "computer call",
}
OUTPUTS = {f"{kind}_output": kind for kind in CALLS}
OTHERS = (
    *("item_reference", "compaction", "file_search_call", "web_search_call", "code_interpreter_call"),
    *("image_generation_call", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"),
    *("tool_search_call", "tool_search_output", "program", "program_output", "context_compaction"),
    "compaction_trigger",
)
TYPES = tuple(dict.fromkeys((*FIELDS, *CALLS, *OUTPUTS, *OTHERS)))
INPUT_PARTS = ("input_text", "input_image", "input_file")
OUTPUT_PARTS = ("output_text", "refusal")
ROLES = ("assistant", "system", "developer", "user")


def kind(item: Item) -> str:
    """The type of an item; a message may leave it out."""
    return item.get("type") or "message"


def is_output(item: Item) -> bool:
    """Whether the model produced an item."""
    return kind(item) in (*CALLS, "reasoning") or item.get("role") == "assistant"


class Shelf:
    """The items that the API handed out: which it stored, and which reasoning belongs to which."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.stored: dict[str, Item] = {}
        self.reasoning: dict[str, str] = {}  # the reasoning item's id, by the id of an item made with it
        self.follower: dict[str, str] = {}  # the id of the item right after it, by a reasoning item's id

    def add(self, output: list[Item], is_stored: bool) -> None:
        """Remember the output of a response."""
        if is_stored:
            self.stored.update((item["id"], item) for item in output)
        if output and output[0]["type"] == "reasoning":
            thought, *others = (item["id"] for item in output)
            self.reasoning.update(dict.fromkeys(others, thought))
            self.follower[thought] = others[0]

    def resolved(self, item: Item) -> Item:
        """An item, or the stored one that it refers to. Raises RefusalError (404) where there is none."""
        if kind(item) != "item_reference":
            return item
        if item["id"] not in self.stored:
            raise lost(item["id"])
        return self.stored[item["id"]]


def lost(id: str) -> RefusalError:
    """The API's words for an item that it does not have."""
    words = (
        f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input."
    )
    return RefusalError(words, status=404, param="input")


def check(items: list[Item], shelf: Shelf, *, is_stored: bool) -> None:
    """Raise RefusalError for the first rule that an input breaks."""
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]")
    _check_ids(items)
    _check_pairs(items)
    for index, item in enumerate(items):
        if kind(item) == "reasoning":
            _check_reasoning(items, index, shelf, is_stored)
    _check_reasoned(items, shelf)


def _check_item(item: Item, path: str) -> None:
    if kind(item) not in TYPES:
        raise wrong_value(path, kind(item), TYPES)
    if kind(item) in FIELDS and (strange := item.keys() - FIELDS[kind(item)] - EVERYWHERE):
        raise unknown(f"{path}.{min(strange)}")
    for name in REQUIRED.get(kind(item), ()):
        if name not in item:
            raise missing(f"{path}.{name}")
    if kind(item) == "message":
        _check_message(item, path)
    _check_strings(item, path)


def _check_message(item: Item, path: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise wrong_value(path, role, ROLES)
    if not isinstance(content, str | list):
        raise wrong_type(f"{path}.content", "one of an array of objects or string", content)
    known = OUTPUT_PARTS if role == "assistant" else INPUT_PARTS
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if part.get("type") not in known:
            raise wrong_value(f"{path}.content[{number}]", part.get("type"), known)


def _check_strings(item: Item, path: str) -> None:
    arguments, output = item.get("arguments", ""), item.get("output", "")
    if kind(item) == "function_call" and not isinstance(arguments, str):
        raise wrong_type(f"{path}.arguments", "a string", arguments)
    if kind(item) in ("function_call_output", "custom_tool_call_output") and not isinstance(output, str | list):
        raise wrong_type(f"{path}.output", "one of an array of objects or string", output)
    for number, part in enumerate(output if isinstance(output, list) else ()):
        if kind(item) == "function_call_output" and part.get("type") not in INPUT_PARTS:
            raise wrong_value(f"{path}.output[{number}]", part.get("type"), INPUT_PARTS)


def _check_ids(items: list[Item]) -> None:
    """Ids are well formed, begin as their type wants it, and are there once."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        id = item.get("id")
        if id is None:
            continue
        start = PREFIXES.get(kind(item)) or ("msg" if item.get("role") == "assistant" else "")
        if not re.fullmatch("[A-Za-z0-9_-]+", id):
            words = "an ID that contains letters, numbers, underscores, or dashes, "
            raise _bad_id(index, id, f"{words}but this value contained additional characters.")
        if not id.startswith(start):
            raise _bad_id(index, id, f"an ID that begins with '{start}'.")
        if id in seen:
            words = f"Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            raise RefusalError(words, param="input")
        seen.add(id)


def _bad_id(index: int, id: str, expected: str) -> RefusalError:
    param = f"input[{index}].id"
    return RefusalError(f"Invalid '{param}': '{id}'. Expected {expected}", param=param, code="invalid_value")


def _check_pairs(items: list[Item]) -> None:
    """Every output has its call before it, and every call has an output."""
    waiting: Counter[tuple[str, str]] = Counter()
    for item in items:
        id = item.get("call_id") or ""
        if kind(item) in CALLS:
            waiting[kind(item), id] += 1
        elif kind(item) in OUTPUTS:
            pair = (OUTPUTS[kind(item)], id)
            if not waiting[pair]:
                words = f"No tool call found for {CALLS[pair[0]]} output with call_id {id}."
                raise RefusalError(words, param="input")
            waiting[pair] -= 1
    asked = {item.get("id") for item in items if kind(item) == "mcp_approval_request"}
    answered = [item["approval_request_id"] for item in items if kind(item) == "mcp_approval_response"]
    if lost_requests := [id for id in answered if id not in asked]:
        words = "The following MCP approval requests have approval responses but weren't passed as input"
        raise RefusalError(f"{words}: {', '.join(lost_requests)}", param="input")
    for name, id in +waiting:
        raise RefusalError(f"No tool output found for {CALLS[name]} {id}.", param="input")


def _check_reasoning(items: list[Item], index: int, shelf: Shelf, is_stored: bool) -> None:
    """Reasoning is the API's own, and what it was made for follows it."""
    item = items[index]
    id, sealed = item.get("id"), item.get("encrypted_content")
    if sealed is None and id not in shelf.stored:
        raise lost(str(id))
    if sealed is not None and not _is_own(sealed, id):
        raise _unverified(id)
    following = next((each for each in items[index + 1 :] if kind(each) != "reasoning"), None)
    if following is None or not is_output(following) or (is_stored and _is_stranger(id, following, shelf)):
        words = f"Item '{id}' of type 'reasoning' was provided without its required following item."
        raise RefusalError(words, param="input")


def _is_own(sealed: str, id: str | None) -> bool:
    parts = opened(sealed)
    return parts is not None and id in (None, parts[0])


def _unverified(id: str | None) -> RefusalError:
    reason = "Reason: Encrypted content could not be decrypted or parsed."
    words = f"The encrypted content for item {id} could not be verified. {reason}"
    return RefusalError(words, code="invalid_encrypted_content")


def _is_stranger(id: str | None, following: Item, shelf: Shelf) -> bool:
    """Whether stored reasoning is followed by something else than what the API put after it."""
    return id in shelf.stored and following.get("id") != shelf.follower[id]


def _check_reasoned(items: list[Item], shelf: Shelf) -> None:
    """An item that names itself by the id that it was handed out with has its reasoning before it."""
    before: set[str] = set()
    for item in items:
        id = item.get("id") or ""
        thought = shelf.reasoning.get(id)
        if thought is not None and thought not in before:
            words = f"Item '{id}' of type '{kind(item)}' was provided without its required 'reasoning' item: "
            raise RefusalError(f"{words}'{thought}'.", param="input")
        before.add(id)
