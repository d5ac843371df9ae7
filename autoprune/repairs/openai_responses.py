"""The repair of OpenAI Responses items, where calls and outputs are items among others."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from autoprune.repairs.copies import without
from autoprune.repairs.log import Log
from autoprune.repairs.repaired import EMPTY, OpenCalls, Round
from autoprune.rewriting import with_item
from autoprune.rules.openai_responses import CALLS, OUTPUTS, is_from_model, is_message, kind, pair_key
from autoprune.rules.problem import Problem
from autoprune.rules.reading import known, text

# What stands for a field that an item must have and does not.
FILLED: dict[str, object] = {
    "name": "unknown",
    "arguments": "{}",
    "input": "",
    "output": EMPTY,
    "summary": [],
    "content": EMPTY,
}
REMOVED = {
    "orphan_result": "removed the output",
    "duplicate_result": "removed the output",
    "reasoning_alone": "removed the reasoning",
}


def mended(items: Sequence[object], problems: Sequence[Problem], open_calls: OpenCalls) -> Round:
    """One round of repairs."""
    # What stands behind reasoning is seen when everything else is mended.
    others = [problem for problem in problems if problem.rule not in ("reasoning_alone", "unknown_role")]
    missing = [problem for problem in problems if problem.rule == "missing_field"]
    log = Log(missing or others or problems)
    if missing:
        return Round(_filled(items, log), log.repairs)
    if strays := _strays(items):
        return _moved(items, strays, log)
    kept: list[Any] = []
    waiting: list[object] = []  # placeholders for the outputs of the run of calls that is being read
    for at, item in enumerate(items):
        found = known(item)
        if kind(found) not in OUTPUTS:
            kept += waiting
            waiting = []
        one = _single(at, item, log)
        if one is not None and not _is_removed(at, log):
            answered, output = _answered(at, found, log, open_calls)
            waiting += [output] if output else []
            kept += [one] if answered else []
    return Round([*kept, *waiting], log.repairs)


def _filled(items: Sequence[object], log: Log) -> list[Any]:
    """The items with the fields that they must have. Without an id, an output answers the oldest call that is open."""
    found = [known(item) for item in items]
    used = {text(item.get("call_id")) for item in found}
    answered = {key for item in found if kind(item) in CALLS and (key := pair_key(item))}
    waiting: dict[str, deque[object]] = {}
    fresh = (unused for number in count(1) if (unused := f"call_{number}") not in used)
    kept: list[Any] = []
    for at, item in enumerate(items):
        name, call_id = kind(found[at]), found[at].get("call_id")
        for problem in log.at(at):
            field = str(problem.path[1])
            if field != "call_id":
                item = with_item(item, field, FILLED[field])
                log.add(problem, f"wrote {FILLED[field]!r} as its {field}")
            elif name in OUTPUTS or waiting.get(CALLS[name]):
                call_id = next(fresh) if name in OUTPUTS else waiting[CALLS[name]].popleft()
                item = with_item(item, field, call_id)
                log.add(problem, f"gave it the call_id {call_id!r}")
            else:
                item = None
                log.add(problem, "removed the output, which answers no call")
                break
        if name in OUTPUTS and pair_key(found[at]) not in answered:
            waiting.setdefault(name, deque()).append(call_id)
        kept += [] if item is None else [item]
    return kept


def _strays(items: Sequence[object]) -> dict[int, int]:
    """Where an output stands before its call, and where the call does: nothing else has their id."""
    places: dict[object, list[int]] = {}
    for at, item in enumerate(items):
        if (key := pair_key(known(item))) is not None:
            places.setdefault(key, []).append(at)
    pairs = [tuple(found) for found in places.values() if len(found) == 2]
    return {
        first: second
        for first, second in pairs
        if kind(known(items[first])) not in OUTPUTS and kind(known(items[second])) in OUTPUTS
    }


def _moved(items: Sequence[object], strays: Mapping[int, int], log: Log) -> Round:
    """The items with those outputs behind their calls."""
    outputs = {call: items[output] for output, call in strays.items()}
    kept: list[Any] = []
    for at, item in enumerate(items):
        kept += [] if at in strays else [item, outputs[at]] if at in outputs else [item]
        for problem in log.at(at, "orphan_result", "unanswered_call") if at in strays or at in outputs else ():
            log.add(problem, "moved the output behind its call")
    return Round(kept, log.repairs)


def _single(at: int, item: object, log: Log) -> object | None:
    """An item that no other has the id of: words of others lose the id, the model's second copy is left out."""
    for problem in log.at(at, "duplicate_item"):
        if is_message(known(item)) and not is_from_model(known(item)):
            log.add(problem, "removed the id")
            return without(item, "id")
        log.add(problem, "removed the second item")
        return None
    return item


def _is_removed(at: int, log: Log) -> bool:
    problems = log.at(at, *REMOVED)
    for problem in problems:
        log.add(problem, REMOVED[problem.rule])
    return bool(problems)


def _answered(at: int, item: Mapping[str, object], log: Log, open_calls: OpenCalls) -> tuple[bool, object]:
    """Whether an item stays, and the stated placeholder for its output, if it is a call without one."""
    for problem in log.at(at, "unanswered_call") if open_calls.become != "keep" else ():
        output = _no_output(item, open_calls.reason) if open_calls.become == "answer" else None
        log.add(problem, "answered the call with a placeholder" if output else "removed the call")
        return output is not None, output
    return True, None


def _no_output(call: Mapping[str, object], reason: str) -> dict[str, object] | None:
    """An output that says that there is none; None where words cannot say it."""
    output: dict[str, object] = {"type": OUTPUTS[kind(call)], "call_id": call.get("call_id")}
    match kind(call):
        case "function_call" | "custom_tool_call" | "local_shell_call":
            return {**output, "output": reason}
        case "shell_call":
            outcome = {"type": "exit", "exit_code": 1}
            return {**output, "output": [{"stdout": "", "stderr": reason, "outcome": outcome}]}
        case "apply_patch_call":
            return {**output, "status": "failed", "output": reason}
    # The output of a computer's call is a screenshot.
    return None
