"""OpenAI's Responses API: how its items are read, its rules with the texts of its errors, and their repair.

The items are those of a request's `input`, also those of `response.output`.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import autoprune.wire.texts as texts
from autoprune.conversation.messages import fields, fields_of, items_of, listed, nested, with_item, with_items
from autoprune.conversation.transcript import Entry, Location, Speaker, Thought, ToolCall, ToolResult
from autoprune.tokens import MESSAGE_TOKENS, Count
from autoprune.wire._media import OPENAI, Medium
from autoprune.wire._parts import Payload, encrypted_tokens, payload, tokens
from autoprune.wire._rules import (
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
from autoprune.wire.parsing import Parser, native_call, native_result, seen_block

NAME = "openai_responses"
media = OPENAI
SPEAKERS: Mapping[object, Speaker] = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.MODEL,
}
# The types of a compaction, which only the provider can read: the API's, and those of some versions of Codex.
COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
# Who an item comes from, if not its type says so: "_call" the model, "_output" a tool. Items of a response are the
# model's, and so is a compaction. It sums up what the model has seen before, but the API still reads all items before
# it (github.com/pydantic/pydantic-ai, issue 7224, tried with the live API), so they are counted.
# Source: `ResponseInputItemParam` and `ResponseOutputItem` of the openai package.
ITEMS: Mapping[str, Speaker] = {
    "reasoning": Speaker.MODEL,
    **dict.fromkeys(COMPACTIONS, Speaker.MODEL),
    "program": Speaker.MODEL,
    "program_output": Speaker.MODEL,
    "mcp_list_tools": Speaker.MODEL,
    "mcp_approval_request": Speaker.MODEL,
    "mcp_approval_response": Speaker.TOOL,
    "additional_tools": Speaker.SYSTEM,
    "configuration_update": Speaker.OTHER,
    "agent_message": Speaker.OTHER,  # from one of Codex's agents to another
    "compaction_trigger": Speaker.OTHER,
    "item_reference": Speaker.OTHER,
}
LOADING = frozenset(("tool_search_output", "mcp_list_tools", "additional_tools"))
TRIGGER = "compaction_trigger"  # the last item of a request for a compaction
DIRECTIVE = "configuration_update"
KEPT = LOADING | {*COMPACTIONS, TRIGGER, DIRECTIVE}
BLOCKS = frozenset(("input_text", "input_image", "input_file", "output_text"))
# Calls that name their tool, and the field of their arguments.
NAMED = {"function_call": "arguments", "custom_tool_call": "input"}
# Calls whose type is their tool, and the field of their arguments: an object that the API validates.
ACTED = ("local_shell_call", "shell_call", "computer_call")
TYPED = {**dict.fromkeys(ACTED, "action"), "apply_patch_call": "operation"}
OUTPUTS = {f"{call}_output": call for call in (*NAMED, *TYPED)}  # the type of each call, by that of its output
# The fields of an item that the model does not read.
BESIDE = frozenset(
    (
        *("id", "call_id", "type", "role", "status", "caller", "created_by", "fingerprint", "phase", "execution"),
        *("async", "async_", "container_id", "environment", "server_label", "approval_request_id", "parsed_arguments"),
        *("pending_safety_checks", "output_format", "quality", "size", "background", "svg_usage"),
    )
)


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the mark of this format in a message; None if there is none."""
    kind = _item_type(message)
    if kind == "message" and not isinstance(message.get("content"), str):
        return seen_block(message, BLOCKS | {"refusal"})
    if kind is not None:
        is_item = kind == "message" or kind in ITEMS or kind.endswith(("_call", "_output"))
        return f"an item of type {kind!r}" if is_item else None
    if [name for name, value in message.items() if value is not None] == ["id"]:
        return "an 'id' alone"  # a reference to an item, whose type is optional
    return seen_block(message, BLOCKS) if _has_role(message) else None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of an item."""
    kind = _item_type(message) or "message"
    if kind == "message":
        return SPEAKERS[message["role"]] if _has_role(message) else Speaker.OTHER
    if kind in ITEMS or message.get("execution") == "server":  # the provider's own searches are part of a response
        return ITEMS.get(kind, Speaker.MODEL)
    if kind.endswith("_call"):
        return Speaker.MODEL
    return Speaker.TOOL if kind.endswith("_output") else Speaker.OTHER


def message(role: str, text: str) -> dict[str, object]:
    """Make a message with a text."""
    return {"role": role, "content": text}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read an item. The model's items of one request count as one message."""
    kind = _item_type(message)
    if kind is None or kind == "message":
        return _read_message(message, at, parser)
    entry, pairs = _read_item(message, kind, at, parser), _pairs(message, kind)
    if not pairs and kind not in KEPT:
        return entry
    return replace(
        entry,
        compaction="" if kind in COMPACTIONS else None,
        loads_tools=kind in LOADING,
        pairs=pairs,
        asks_to_compact=kind == TRIGGER,
        is_directive=kind == DIRECTIVE,
    )


def _pairs(message: Mapping[str, object], kind: str) -> tuple[str, ...]:
    """Return the ids that an item shares with others without which the API refuses it, besides its call or output.

    An approval belongs to its request and to the call that was approved, an output to its call, and a call that a
    program makes to the program.
    """
    ids = [message.get("approval_request_id"), fields_of(message.get("caller")).get("caller_id")]
    if kind == "mcp_approval_request":
        ids.append(message.get("id"))
    if kind not in OUTPUTS and kind not in NAMED and kind not in TYPED:
        ids.append(message.get("call_id"))
    return tuple(each for each in ids if isinstance(each, str) and each)


def _read_item(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Entry:
    if kind in OUTPUTS:
        return _read_output(message, kind, at, parser)
    weight = _frame(message, parser) + _item_tokens(message, parser.count)
    if kind == "mcp_call":
        return _mcp_call(message, weight, at, parser)
    # An item cannot lose its thinking and remain, so it is alone.
    thinking = (Thought(Location((at, "content", 0)), weight, True, NAME),) if _is_claudes(message) else ()
    return Entry(speaker(message), weight, (), tuple(_read_calls(message, kind, at, parser)), thinking)


def _is_claudes(message: Mapping[str, object]) -> bool:
    """Return whether an item is Claude's thinking. The OpenAI Agents SDK writes that of other APIs as reasoning.

    OpenAI's own reasoning may stay behind an edit.
    """
    model = fields_of(message.get("provider_data")).get("model")
    is_claudes = isinstance(model, str) and "claude" in model.lower()
    return is_claudes and _item_type(message) == "reasoning" and isinstance(message.get("content"), list)


def _item_type(message: Mapping[str, object]) -> str | None:
    kind = message.get("type")
    return kind if isinstance(kind, str) else None


def _has_role(message: Mapping[str, object]) -> bool:
    role = message.get("role")
    return isinstance(role, str) and role in SPEAKERS


def _frame(message: Mapping[str, object], parser: Parser) -> int:
    return 0 if speaker(message) is Speaker.MODEL and not parser.begins_request else MESSAGE_TOKENS


def _read_message(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. A message without a type is counted as in Chat Completions, since both look the same."""
    who, content = speaker(message), listed(message.get("content"))
    weight = MESSAGE_TOKENS if _item_type(message) is None else _frame(message, parser)
    if who is Speaker.USER:
        results, spent = texts.user_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, results)
    calls = texts.model_content(content, (at, "content"), parser) if who is Speaker.MODEL else ()
    return Entry(who, weight + _value_tokens(content, parser.count), (), tuple(calls))


def _read_calls(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Iterator[ToolCall]:
    """Yield the call in an item if one of the caller's tools answers it."""
    call_id = message.get("call_id") or message.get("id")
    if name := NAMED.get(kind):
        yield native_call(parser, (at,), call_id, message.get("name"), message.get(name), (name,))
    elif name := TYPED.get(kind):
        yield _make_call(call_id, kind.removesuffix("_call"), message.get(name), at, parser)


def _make_call(call_id: object, tool: object, arguments: object, at: int, parser: Parser) -> ToolCall:
    """Make a call whose arguments cannot be replaced by a text."""
    plain = arguments if isinstance(arguments, str) else fields(arguments)
    return ToolCall(Location((at,)), parser.request, str(call_id or tool), str(tool), plain)


def _mcp_call(message: Mapping[str, object], weight: int, at: int, parser: Parser) -> Entry:
    """Read a call that the provider ran itself. The item comes from the model and holds the result too."""
    call = _make_call(message.get("id"), message.get("name"), message.get("arguments"), at, parser)
    if message.get("output") is None and message.get("error") is None:
        return Entry(Speaker.MODEL, weight, (), (call,))
    result = _make_result(message, payload(message.get("output"), parser.count, _input_text), call, at, parser)
    return Entry(Speaker.MODEL, weight + MESSAGE_TOKENS + result.piece_tokens, (result,), (call,))


def _read_output(message: Mapping[str, object], kind: str, at: int, parser: Parser) -> Entry:
    """Read a tool's output. The `id` of a local shell's output is the id of its call."""
    call = parser.answered(message.get("call_id") or message.get("id"))
    result = _make_result(message, _output_payload(message.get("output"), kind, parser.count), call, at, parser)
    return Entry(Speaker.TOOL, MESSAGE_TOKENS + result.piece_tokens, (result,))


def _make_result(
    message: Mapping[str, object], held: Payload, call: ToolCall | None, at: int, parser: Parser
) -> ToolResult:
    kind = str(_item_type(message)).removesuffix("_output")
    tool = kind.removesuffix("_call") if kind in TYPED else message.get("name")
    path = (at, "output") if "output" in message else (at,)
    return native_result(parser, path, held, call, kind=NAME, tool=tool, is_error=_is_error(message))


def _output_payload(output: object, kind: str, count: Count) -> Payload:
    if kind == "computer_call_output":  # a screenshot
        return Payload("", tokens(output, count), is_fixed=True)
    if kind == "shell_call_output" and isinstance(output, list | tuple):
        return _shell_payload(output, count)
    return payload(output, count, _input_text)


def _shell_payload(chunks: Sequence[object], count: Count) -> Payload:
    """Return the payload of a shell's output chunks. The outcomes of the commands are not counted."""
    outputs = [fields_of(chunk) for chunk in chunks]
    printed = [chunk.get(name) for chunk in outputs for name in ("stdout", "stderr")]
    said = [text for text in printed if isinstance(text, str) and text]
    if not all(isinstance(text, str) for text in printed):
        return Payload("", tokens(chunks, count), is_fixed=True)
    return Payload("\n".join(said), sum(map(count, said)), _shell_chunk)


def _shell_chunk(chunks: object, text: str) -> list[object]:
    """Replace all chunks with the last failed chunk, so that the failure stays visible, or else the last chunk."""
    candidates = [chunk for chunk in items_of(chunks) if _has_failed(chunk)] or [*items_of(chunks)]
    return [with_items(candidates[-1] if candidates else {}, {"stdout": text, "stderr": ""})]


def _input_text(blocks: object, text: str) -> list[object]:
    """Replace all blocks with one text block that keeps the last breakpoint of the prompt cache."""
    items = items_of(blocks)
    marks = [mark for block in items if (mark := fields_of(block).get("prompt_cache_breakpoint"))]
    changes = {"text": text, **({"prompt_cache_breakpoint": marks[-1]} if marks else {})}
    # Keep the SDK's class: the SDK sends a dict too, but with a warning.
    objects = [block for block in items if hasattr(block, "model_copy") and hasattr(block, "text")]
    return [with_items(objects[-1] if objects else {"type": "input_text"}, changes)]


def _is_error(message: Mapping[str, object]) -> bool | None:
    """Return whether the call failed; None if the item does not say."""
    match message:
        case {"type": "mcp_call", "error": error} if error is not None:
            return True
        case {"type": "mcp_call" | "apply_patch_call_output", "status": "completed" | "failed" as status}:
            return status == "failed"
        case {"type": "shell_call_output", "output": [_, *_] as chunks}:
            ends = [_has_failed(chunk) for chunk in chunks]
            return True if True in ends else None if None in ends else False
    return None


def _has_failed(chunk: object) -> bool | None:
    """Return whether a shell command failed or timed out; None if the chunk does not say."""
    outcome = fields_of(fields_of(chunk).get("outcome"))
    code = outcome.get("exit_code")
    return True if outcome.get("type") == "timeout" else code != 0 if isinstance(code, int) else None


def _item_tokens(message: Mapping[str, object], count: Count) -> int:
    """Count the tokens of an item that is no message: everything that the model reads except a call's output."""
    total = 0
    for name, value in message.items():
        if name == "encrypted_content":
            total += encrypted_tokens(value)
        elif name == "result" and isinstance(value, str) and _item_type(message) == "image_generation_call":
            # A tiny picture has fewer bytes than tokens, but tokens must never exceed a message's bytes.
            total += min(media.tokens(Medium("image", value), count), len(value))
        elif name not in BESIDE and (name != "output" or _item_type(message) != "mcp_call"):
            total += _value_tokens(value, count)
    return total


def _value_tokens(value: object, count: Count) -> int:
    """Count the tokens of a value. Unlike in `tokens`, None counts nothing, and a text block counts only its text."""
    total = 0
    open_values = [value]
    for inner in nested(open_values):
        block = fields(inner)
        if isinstance(inner, list | tuple):
            open_values.extend(inner)
        elif block is None:
            total += tokens(inner, count)
        elif (spent := media(block, count)) is not None:
            total += spent
        elif block.get("type") == "encrypted_content":
            total += encrypted_tokens(block.get("encrypted_content"))
        elif (text := _text_of(block)) is not None:
            total += count(text)
        else:
            open_values += (item for pair in block.items() if pair[1] is not None for item in pair)
    return total


def _text_of(block: Mapping[str, object]) -> str | None:
    match block:
        case {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind), "text": str(text)} if kind.endswith("text"):
            return text
    return None


# Its rules

# The same for all pairs. Two kinds need not be complete: a request for approval may stay without an answer, and a
# program has no output while its calls wait for results.
CALL_OF = {
    **OUTPUTS,
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


def may_be_from_model(item: Mapping[str, object]) -> bool:
    """Return whether an item may be part of a response: it is neither another role's message nor a tool's output."""
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
            is_followed = may_be_from_model(found[at])
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
            if field in FILLED:
                item = with_item(item, field, FILLED[field])
                log.add(problem, f"wrote {FILLED[field]!r} as its {field}")
            elif field != "call_id":
                item = None
                log.add(problem, f"removed the item, whose {field} is not known")
                break
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
        if is_message(fields_of(item)) and not may_be_from_model(fields_of(item)):
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
