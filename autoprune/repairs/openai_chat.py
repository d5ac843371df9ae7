"""The repair of OpenAI Chat messages, where a result is a message of its own."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from autoprune.repairs.copies import without
from autoprune.repairs.log import Log
from autoprune.repairs.pairing import ASTRAY, Event, answers, note, pairs, unanswered
from autoprune.repairs.repaired import BEGINNING, EMPTY, NO_WORDS, OpenCalls, Round
from autoprune.rewriting import with_item
from autoprune.rules.openai_chat import has_calls
from autoprune.rules.problem import Problem
from autoprune.rules.reading import is_bare, known, listed, text

MISPLACED = ("misplaced_call", "misplaced_result")
Kept = list[tuple[int, object]]  # messages with the index that each had, -1 for new ones


def mended(messages: Sequence[object], problems: Sequence[Problem], open_calls: OpenCalls) -> Round:
    """One round of repairs."""
    log = Log(problems)
    if any(problem.rule in MISPLACED for problem in problems):
        return Round(_separated(messages, log), log.repairs)
    kept = _answered(messages, [known(message) for message in messages], log, open_calls)
    kept = [(at, _filled(at, message, log)) for at, message in kept]
    return Round(_in_turn(kept, log), log.repairs)


def _separated(messages: Sequence[object], log: Log) -> list[Any]:
    """The messages, with calls that are not the assistant's in a message of the assistant's own behind theirs."""
    is_open: set[str | None] = set()
    kept: list[Any] = []
    for at, message in enumerate(messages):
        answered = text(known(message).get("tool_call_id"))
        for problem in log.at(at, "misplaced_result"):
            # What answers no call is somebody's words.
            is_result = answered in is_open
            message = with_item(message, "role", "tool") if is_result else without(message, "tool_call_id")
            log.add(problem, "gave it the role 'tool'" if is_result else "removed the id, which no open call has")
        is_open = (is_open - {answered}) | {*_ids(known(message))}
        calls: list[Any] = []
        for problem in log.at(at, "misplaced_call"):
            calls = [{"role": "assistant", "content": None, "tool_calls": known(message)["tool_calls"]}]
            message = without(message, "tool_calls")
            log.add(problem, "put the calls in a message of the assistant's")
        kept += calls if calls and is_bare(known(message).get("content")) else [message, *calls]
    return kept


def _ids(message: Mapping[str, object]) -> list[str | None]:
    return [text(known(call).get("id")) for call in listed(message.get("tool_calls"))]


def _answered(
    messages: Sequence[object], found: Sequence[Mapping[str, object]], log: Log, open_calls: OpenCalls
) -> Kept:
    """The messages, with results behind the calls that they answer. Runs that break no rule stay as they stand."""
    caller: list[int] = []  # of each message, the one that its run of results stands behind; itself for others
    for at, one in enumerate(found):
        caller.append(caller[-1] if at and text(one.get("role")) == "tool" else at)
    astray = {at for at in range(len(found)) if log.at(at, *ASTRAY)}
    is_open = {at for at in range(len(found)) if log.at(at, "unanswered_call")} | {caller[at] for at in astray}
    taken = astray | {at for at in range(len(found)) if caller[at] != at and caller[at] in is_open}
    if not is_open:
        return list(enumerate(messages))
    met = list(_events(found, is_open, taken))
    pairing = pairs(met)
    lost = unanswered(met, pairing)
    answer = (lambda call: _no_result(found, call, open_calls.reason)) if open_calls.become == "answer" else None
    given = answers(met, pairing, lambda place: messages[place[0]], answer)
    note(is_open, [event.place for event in met if not event.is_call], pairing, lost, open_calls.become, log, {})
    removed = {at: {call for one, call in lost if one == at} for at, _ in lost if open_calls.become == "remove"}
    kept: Kept = []
    for at, message in enumerate(messages):
        left = _without_calls(message, removed[at]) if at in removed else message
        kept += [] if at in taken or left is None else [(at, left), *((-1, answer) for answer in given.get(at, ()))]
    return kept


def _without_calls(message: object, removed: Collection[int]) -> object | None:
    """A message without some of its calls; None where nothing is left of it."""
    calls = [call for at, call in enumerate(listed(known(message).get("tool_calls"))) if at not in removed]
    if calls:
        return with_item(message, "tool_calls", calls)
    is_empty = all(is_bare(known(message).get(name)) for name in ("content", "refusal", "audio"))
    return None if is_empty else without(message, "tool_calls")


def _events(found: Sequence[Mapping[str, object]], is_open: set[int], taken: set[int]) -> Iterator[Event]:
    for at, message in enumerate(found):
        if at in taken and text(message.get("role")) == "tool":
            answered = text(message.get("tool_call_id"))
            yield Event((at, 0), False, () if answered is None else (answered,))
        for index, call in enumerate(listed(message.get("tool_calls")) if has_calls(message) else ()):
            call_id = text(known(call).get("id"))
            yield Event((at, index), True, () if call_id is None else (call_id,), at in is_open)


def _no_result(found: Sequence[Mapping[str, object]], call: tuple[int, int], reason: str) -> object:
    call_id = known(listed(found[call[0]].get("tool_calls"))[call[1]]).get("id")
    return {"role": "tool", "tool_call_id": call_id, "content": reason}


def _filled(at: int, message: object, log: Log) -> object:
    """A message with a content and without an empty list of calls."""
    for problem in log.at(at, "empty_tool_calls"):
        message = without(message, "tool_calls")
        log.add(problem, "removed the empty list of calls")
    for problem in log.at(at, "null_content"):
        message = with_item(message, "content", EMPTY)
        log.add(problem, f"wrote {EMPTY!r} in the empty message")
    return message


def _in_turn(messages: Kept, log: Log) -> list[Any]:
    """User and assistant in turns: neighbors that share a role are one message, others get a placeholder between."""
    runs: list[list[Any]] = []
    has_begun = False
    for at, message in messages:
        role = text(known(message).get("role"))
        found = log.at(at, "alternation")
        before = known(runs[-1][0]) if runs else {}
        is_same = text(before.get("role")) == role and not has_calls(before) and _is_plain(message, before)
        if found and not is_same:
            speaker, words = "assistant" if role == "user" else "user", NO_WORDS if has_begun else BEGINNING
            runs.append([{"role": speaker, "content": words}])
            log.add(found[0], f"put a message of the {speaker}'s before it: {words!r}")
        if found and is_same:
            runs[-1].append(message)
            log.add(found[0], "made one message of this and the one before")
        else:
            runs.append([message])
        has_begun = has_begun or role in ("user", "assistant")
    return [_merged(run) if len(run) > 1 else run[0] for run in runs]


def _is_plain(message: object, before: Mapping[str, object]) -> bool:
    """True for a message that holds nothing but its content, beside what the one before it says too."""
    found = known(message)
    return all(is_bare(found[name]) or found[name] == before.get(name) for name in found if name != "content")


def _merged(run: Sequence[object]) -> object:
    """Several messages as one: texts with an empty line between them, other contents as a list of blocks."""
    contents = [known(message).get("content") for message in run]
    if all(isinstance(content, str) for content in contents):
        return with_item(run[0], "content", "\n\n".join(map(str, contents)))
    return with_item(run[0], "content", [block for content in contents for block in _blocks(content)])


def _blocks(content: object) -> Sequence[object]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)
