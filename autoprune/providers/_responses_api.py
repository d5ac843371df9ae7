"""OpenAI's Responses API: its rules with the texts of its errors, and their repair."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from autoprune.conversation.messages import fields_of, with_item
from autoprune.providers._repairs import (
    EMPTY,
    Event,
    Log,
    OpenCalls,
    Problem,
    Provider,
    Round,
    pair_results,
    string_of,
    without_field,
)

NAME = "openai_responses"
# The type of each call, by the type of its output. A request for approval may stay without an answer, and a program has
# no output while its calls wait for results.
CALL_OF = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "local_shell_call_output": "local_shell_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "computer_call_output": "computer_call",
    "tool_search_output": "tool_search_call",
    "mcp_approval_response": "mcp_approval_request",
    "program_output": "program",
}
MAY_WAIT = ("mcp_approval_request", "program")
OUTPUT_OF = {call: output for output, call in CALL_OF.items()}
# The required fields of an item, by its type, if they are checked. The id of an image or a file is not.
REQUIRED = {
    **dict.fromkeys((*OUTPUT_OF, *CALL_OF), ("call_id",)),
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), ("call_id", "output")),
    # Searches that the server runs have no id.
    **dict.fromkeys(("tool_search_call", "tool_search_output"), ()),
    "mcp_approval_request": ("id",),
    "mcp_approval_response": ("approval_request_id",),
    "reasoning": ("summary",),
    "message": ("content",),
}
# Fields of the id that both items of a pair have, if they are not the `call_id`.
ID_OF = {
    "local_shell_call_output": "id",
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
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
NO_REQUEST = "The following MCP approval requests have approval responses but weren't passed as input: {}"
SECOND_OUTPUT = "Duplicate {} for call_id {}."
ALONE = "Item '{}' of type 'reasoning' was provided without its required following item."
SECOND_ITEM = "Duplicate item found with id {}. Remove duplicate items from your input and try again."


def find_problems(items: Sequence[object]) -> Iterator[Problem]:
    """Yield the rules that the API would find broken in an `input` without a `previous_response_id`."""
    mappings = [fields_of(item) for item in items]
    for at, item in enumerate(mappings):
        yield from _check_fields(at, item)
    yield from _check_pairs(mappings)
    yield from _check_reasoning(mappings)
    ids: set[str] = set()
    for at, item in enumerate(mappings):
        item_id = string_of(item.get("id"))
        if item_id is not None and item_id in ids:
            yield Problem(NAME, "duplicate_item", (at,), SECOND_ITEM.format(item_id))
        ids |= {item_id} if item_id else set()
        role = string_of(item.get("role"))
        if is_message(item) and role not in ROLES:
            yield Problem(NAME, "unknown_role", (at, "role"), ROLE.format(role or ""))


def kind(item: Mapping[str, object]) -> str:
    """Return the type of an item; a message may leave it out."""
    return string_of(item.get("type")) or "message"


def is_message(item: Mapping[str, object]) -> bool:
    """Return whether an item is a message."""
    return kind(item) == "message" and bool(item)


def pair_key(item: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the key that a call and its output share; None for other items and for a call without an id."""
    name = kind(item)
    if (name not in CALL_OF and name not in OUTPUT_OF) or item.get("execution") == "server":
        return None
    # In the SDK's types, the output of a local shell has `id`; the API expects `call_id`.
    field = ID_OF.get(name, "call_id")
    call_id = string_of(item.get("call_id")) or string_of(item.get(field))
    return (CALL_OF.get(name, name), call_id) if call_id else None


def is_from_model(item: Mapping[str, object]) -> bool:
    """Return whether an item may come from the model: it is neither another role's message nor a tool's output."""
    name = kind(item)
    if name == "message":
        return string_of(item.get("role")) not in ("user", "system", "developer")
    return name not in CALL_OF or name == "program_output"


def _check_fields(at: int, item: Mapping[str, object]) -> Iterator[Problem]:
    for name in REQUIRED.get(kind(item), ()) if item else ():
        if name == "call_id" and pair_key(item) is None:
            said = MISSING.format(at, name) if item.get(name) is None else EMPTY_ID.format(at)
            yield Problem(NAME, "missing_field", (at, name), said)
        elif name != "call_id" and item.get(name) is None:
            yield Problem(NAME, "missing_field", (at, name), MISSING.format(at, name))


def _check_pairs(found: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    """Check that one output follows each call. A reused id starts a new pair."""
    is_open: dict[tuple[str, str], list[int]] = {}
    for at, item in enumerate(found):
        if (key := pair_key(item)) is None:
            continue
        name = kind(item)
        if name == "function_call_output" and key not in is_open:
            key = ("local_shell_call", key[1])  # Codex answers a local shell's call like a function's
        if name in OUTPUT_OF:
            is_open.setdefault(key, []).append(at)
        elif waiting := is_open.get(key):
            waiting.pop(0)
        elif key in is_open:
            yield Problem(NAME, "duplicate_result", (at,), SECOND_OUTPUT.format(name, key[1]))
        else:
            is_approval = name == "mcp_approval_response"
            said = NO_REQUEST.format(key[1]) if is_approval else ORPHAN.format(name.replace("_", " "), key[1])
            yield Problem(NAME, "orphan_result", (at,), said)
    for (name, call_id), waiting in is_open.items():
        for at in waiting:
            # A call that is marked as asynchronous may be answered in a later request.
            if found[at].get("async") is not True and name not in MAY_WAIT:
                said = UNANSWERED.format(name.replace("_", " "), call_id)
                yield Problem(NAME, "unanswered_call", (at,), said)


def _check_reasoning(found: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    """Check that an item of the model follows reasoning. The API checks only items with an id."""
    is_followed = False
    for at in range(len(found) - 1, -1, -1):
        if kind(found[at]) != "reasoning":
            is_followed = is_from_model(found[at])
        elif not is_followed and (item_id := string_of(found[at].get("id"))):
            yield Problem(NAME, "reasoning_alone", (at,), ALONE.format(item_id))


# Values for missing required fields.
FILLED: dict[str, object] = {
    "name": "unknown",
    "arguments": "{}",
    "input": "",
    "output": EMPTY,
    "summary": [],
    "content": EMPTY,
}
# Rules whose items are removed, with the description of the repair.
REMOVED = {
    "orphan_result": "removed the output",
    "duplicate_result": "removed the output",
    "reasoning_alone": "removed the reasoning",
}


def repair_round(
    items: Sequence[object], problems: Sequence[Problem], open_calls: OpenCalls, alternates: bool
) -> Round:
    """Make one round of repairs."""
    # It is unknown which item follows reasoning until all other repairs are done.
    others = [problem for problem in problems if problem.rule not in ("reasoning_alone", "unknown_role")]
    missing = [problem for problem in problems if problem.rule == "missing_field"]
    log = Log(missing or others or problems)
    if missing:
        return Round(_fill_fields(items, log), log.repairs)
    if early := _early_outputs(items):
        return _move_outputs(items, early, log)
    kept: list[Any] = []
    waiting: list[object] = []  # placeholders for outputs of the current run of calls
    for at, item in enumerate(items):
        own = fields_of(item)
        if kind(own) not in OUTPUT_OF:
            kept += waiting
            waiting = []
        one = _with_unique_id(at, item, log)
        if one is not None and not _is_removed(at, log):
            answered, output = _answer_call(at, own, log, open_calls)
            waiting += [output] if output else []
            kept += [one] if answered else []
    return Round([*kept, *waiting], log.repairs)


def _fill_fields(items: Sequence[object], log: Log) -> list[Any]:
    """Add the missing required fields."""
    mappings = [fields_of(item) for item in items]
    used = {string_of(item.get("call_id")) for item in mappings}
    answered = {key for item in mappings if kind(item) in CALL_OF and (key := pair_key(item))}
    waiting: dict[str, deque[object]] = {}
    fresh = (unused for number in count(1) if (unused := f"call_{number}") not in used)
    kept: list[Any] = []
    for at, item in enumerate(items):
        name, call_id = kind(mappings[at]), mappings[at].get("call_id")
        for problem in log.problems_at(at):
            field = str(problem.path[1])
            if field != "call_id":
                item = with_item(item, field, FILLED[field])
                log.add(problem, f"wrote {FILLED[field]!r} as its {field}")
            elif name in OUTPUT_OF or waiting.get(CALL_OF[name]):
                call_id = next(fresh) if name in OUTPUT_OF else waiting[CALL_OF[name]].popleft()
                item = with_item(item, field, call_id)
                log.add(problem, f"gave it the call_id {call_id!r}")
            else:
                item = None
                log.add(problem, "removed the output, which answers no call")
                break
        if name in OUTPUT_OF and pair_key(mappings[at]) not in answered:
            waiting.setdefault(name, deque()).append(call_id)
        kept += [] if item is None else [item]
    return kept


def _early_outputs(items: Sequence[object]) -> dict[int, int]:
    """Find the outputs that precede their calls: map the index of each output to the index of its call."""
    keys = ((at, fields_of(item), pair_key(fields_of(item))) for at, item in enumerate(items))
    events = [Event((at, 0), kind(item) in OUTPUT_OF, (key,)) for at, item, key in keys if key is not None]
    return {output: call for (output, _), (call, _) in pair_results(events).items() if output < call}


def _move_outputs(items: Sequence[object], early: Mapping[int, int], log: Log) -> Round:
    """Move outputs that precede their calls behind these calls."""
    outputs = {call: items[output] for output, call in early.items()}
    kept: list[Any] = []
    for at, item in enumerate(items):
        kept += [] if at in early else [item, outputs[at]] if at in outputs else [item]
        for problem in log.problems_at(at, "orphan_result", "unanswered_call") if at in early or at in outputs else ():
            log.add(problem, "moved the output behind its call")
    return Round(kept, log.repairs)


def _with_unique_id(at: int, item: object, log: Log) -> object | None:
    """Remove a duplicate id from an input message. Return None for any other duplicate item, which is removed."""
    for problem in log.problems_at(at, "duplicate_item"):
        if is_message(fields_of(item)) and not is_from_model(fields_of(item)):
            log.add(problem, "removed the id")
            return without_field(item, "id")
        log.add(problem, "removed the second item")
        return None
    return item


def _is_removed(at: int, log: Log) -> bool:
    problems = log.problems_at(at, *REMOVED)
    for problem in problems:
        log.add(problem, REMOVED[problem.rule])
    return bool(problems)


def _answer_call(at: int, item: Mapping[str, object], log: Log, open_calls: OpenCalls) -> tuple[bool, object]:
    """Decide whether an item stays, and create a placeholder for the missing output of a call."""
    for problem in log.problems_at(at, "unanswered_call") if open_calls.become != "keep" else ():
        output = _placeholder_output(item, open_calls.reason) if open_calls.become == "answer" else None
        log.add(problem, "answered the call with a placeholder" if output else "removed the call")
        return output is not None, output
    return True, None


def _placeholder_output(call: Mapping[str, object], reason: str) -> dict[str, object] | None:
    """Create an output that states why the real output is missing; None for a call whose output cannot be text."""
    output: dict[str, object] = {"type": OUTPUT_OF[kind(call)], "call_id": call.get("call_id")}
    match kind(call):
        case "function_call" | "custom_tool_call" | "local_shell_call":
            return {**output, "output": reason}
        case "shell_call":
            outcome = {"type": "exit", "exit_code": 1}
            return {**output, "output": [{"stdout": "", "stderr": reason, "outcome": outcome}]}
        case "apply_patch_call":
            return {**output, "status": "failed", "output": reason}
        case "tool_search_call":
            return {**output, "status": "completed", "execution": "client", "tools": []}
    # The output of a computer call must be a screenshot.
    return None


PROVIDER = Provider(NAME, find_problems, repair_round, other_names=("responses",))
