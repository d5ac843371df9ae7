"""The rules of OpenAI's Responses API, and the words in which it refuses what breaks them."""

from collections.abc import Iterator, Mapping, Sequence

from autoprune.rules.problem import Problem
from autoprune.rules.reading import known, text

PROVIDER = "openai_responses"
# Each kind of call that the caller's own code answers, by the kind of its output.
CALLS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "local_shell_call_output": "local_shell_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "computer_call_output": "computer_call",
}
OUTPUTS = {call: output for output, call in CALLS.items()}
# What an item must hold, by its type, of what is looked at here. The id of an image or of a file is not.
REQUIRED = {
    **dict.fromkeys((*OUTPUTS, *CALLS), ("call_id",)),
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), ("call_id", "output")),
    "reasoning": ("summary",),
    "message": ("content",),
}
MISSING = "Missing required parameter: 'input[{}].{}'."
EMPTY_ID = (
    "Invalid 'input[{}].call_id': empty string. "
    "Expected a string with minimum length 1, but got an empty string instead."
)
ROLES = ("assistant", "system", "developer", "user")
ROLE = "Invalid value: '{}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
UNANSWERED = "No tool output found for {} {}."
ORPHAN = "No tool call found for {} with call_id {}."
SECOND_OUTPUT = "Duplicate {} for call_id {}."
ALONE = "Item '{}' of type 'reasoning' was provided without its required following item."
SECOND_ITEM = "Duplicate item found with id {}. Remove duplicate items from your input and try again."


def problems(items: Sequence[object]) -> Iterator[Problem]:
    """What the API would refuse of a whole `input`, one that no `previous_response_id` goes before."""
    found = [known(item) for item in items]
    for at, item in enumerate(found):
        yield from _missing(at, item)
    yield from _pairs(found)
    yield from _alone(found)
    ids: set[str] = set()
    for at, item in enumerate(found):
        item_id = text(item.get("id"))
        if item_id is not None and item_id in ids:
            yield Problem(PROVIDER, "duplicate_item", (at,), SECOND_ITEM.format(item_id))
        ids |= {item_id} if item_id else set()
        role = text(item.get("role"))
        if is_message(item) and role not in ROLES:
            yield Problem(PROVIDER, "unknown_role", (at, "role"), ROLE.format(role or ""))


def kind(item: Mapping[str, object]) -> str:
    """The type of an item; a message may leave it out."""
    return text(item.get("type")) or "message"


def is_message(item: Mapping[str, object]) -> bool:
    """True for words of the user, the model, the system or the developer."""
    return kind(item) == "message" and bool(item)


def pair_key(item: Mapping[str, object]) -> tuple[str, str] | None:
    """What a call and its output have in common; None for what is neither, or has no id."""
    name = kind(item)
    if name not in CALLS and name not in OUTPUTS:
        return None
    # The output of a local shell is typed with `id` and expected with `call_id`.
    call_id = text(item.get("call_id")) or (text(item.get("id")) if name == "local_shell_call_output" else None)
    return (CALLS.get(name, name), call_id) if call_id else None


def is_from_model(item: Mapping[str, object]) -> bool:
    """False for what is certainly not the model's: words of others, and outputs of the caller's tools."""
    name = kind(item)
    if name == "message":
        return text(item.get("role")) not in ("user", "system", "developer")
    return name not in CALLS and name != "mcp_approval_response"


def _missing(at: int, item: Mapping[str, object]) -> Iterator[Problem]:
    for name in REQUIRED.get(kind(item), ()) if item else ():
        if name == "call_id" and pair_key(item) is None:
            said = MISSING.format(at, name) if item.get(name) is None else EMPTY_ID.format(at)
            yield Problem(PROVIDER, "missing_field", (at, name), said)
        elif name != "call_id" and item.get(name) is None:
            yield Problem(PROVIDER, "missing_field", (at, name), MISSING.format(at, name))


def _pairs(found: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    """A call has one output behind it, and an output a call before it. An id that is used again begins anew."""
    is_open: dict[tuple[str, str], list[int]] = {}
    for at, item in enumerate(found):
        if (key := pair_key(item)) is None:
            continue
        name = kind(item)
        if name == "function_call_output" and key not in is_open:
            key = ("local_shell_call", key[1])  # Codex answers a local shell's call like a function's
        if name in OUTPUTS:
            is_open.setdefault(key, []).append(at)
        elif waiting := is_open.get(key):
            waiting.pop(0)
        elif key in is_open:
            yield Problem(PROVIDER, "duplicate_result", (at,), SECOND_OUTPUT.format(name, key[1]))
        else:
            yield Problem(PROVIDER, "orphan_result", (at,), ORPHAN.format(name.replace("_", " "), key[1]))
    for (name, call_id), waiting in is_open.items():
        for at in waiting:
            # A call that is marked as asynchronous may be answered in a later request.
            if found[at].get("async") is not True:
                said = UNANSWERED.format(name.replace("_", " "), call_id)
                yield Problem(PROVIDER, "unanswered_call", (at,), said)


def _alone(found: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    """Reasoning is followed by what came of it. Only an item with an id is missed by the API."""
    is_followed = False
    for at in range(len(found) - 1, -1, -1):
        if kind(found[at]) != "reasoning":
            is_followed = is_from_model(found[at])
        elif not is_followed and (item_id := text(found[at].get("id"))):
            yield Problem(PROVIDER, "reasoning_alone", (at,), ALONE.format(item_id))
