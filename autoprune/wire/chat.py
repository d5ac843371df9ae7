"""OpenAI's Chat Completions API: how messages are read, its rules with the texts of its errors, and their repair."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import autoprune.wire.texts as texts
from autoprune.conversation.messages import fields, fields_of, items_of, listed, with_item
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall
from autoprune.tokens import MESSAGE_TOKENS, NAME_TOKENS, Count
from autoprune.wire._media import OPENAI
from autoprune.wire._parts import Payload, payload, text_block, tokens
from autoprune.wire._rules import (
    ALTERNATE,
    ASTRAY,
    BEGINNING,
    EMPTY,
    NO_WORDS,
    Event,
    Log,
    OpenCalls,
    Problem,
    Provider,
    Round,
    is_bare,
    place_results,
    string_of,
    without_field,
)
from autoprune.wire.parsing import Parser, native_call, native_result, seen_block

SPEAKERS: Mapping[object, Speaker] = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.MODEL,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
}
NAME = "openai_chat"
media = OPENAI
# Text that providers receive besides the content. DeepSeek, Qwen and others accept `reasoning_content` back.
TEXT_FIELDS = ("refusal", "reasoning_content")
BLOCKS = frozenset(("image_url", "input_audio", "audio_url", "video_url", "file", "refusal"))


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the mark of this format in a message; None if there is none."""
    if message.get("role") in ("tool", "function") and "parts" not in message:
        return f"role {message['role']!r}"
    for name in ("tool_calls", "function_call"):
        if message.get(name):
            return f"{name!r}"
    # A message of the Responses API can hold a refusal too.
    return None if message.get("type") == "message" else seen_block(message, BLOCKS)


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a message."""
    role = message.get("role")
    return SPEAKERS.get(role, Speaker.OTHER) if isinstance(role, str) else Speaker.OTHER


def message(role: str, text: str) -> dict[str, object]:
    """Make a message with a text."""
    return {"role": role, "content": text}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a message. Anything unknown in it is counted and never changed."""
    who = speaker(message)
    content = message.get("content")
    content = listed(content) if isinstance(content, tuple) else content
    weight = MESSAGE_TOKENS + (_name_tokens(message, parser.count) if "name" in message else 0)
    if who is Speaker.TOOL:
        if isinstance(content, str):
            content_payload = Payload(content, parser.count(content))
        else:
            content_payload = payload(content, parser.count, text_block)
        name = message.get("name")
        call = parser.answered(message.get("tool_call_id") if message["role"] == "tool" else name)
        # Only a text or a list of blocks can be cleared.
        result = native_result(parser, (at, "content"), content_payload, call, kind=NAME, tool=name)
        return Entry(who, weight + content_payload.tokens, (result,))
    if who is Speaker.USER:
        results, spent = texts.user_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, results)
    if content is not None:
        weight += tokens(content, parser.count)
    if who is Speaker.MODEL:
        calls, spent = _calls(message, at, parser) if len(message) > 2 or content is None else ([], 0)
        if content:
            calls += texts.model_content(content, (at, "content"), parser)
        return Entry(who, weight + spent, (), tuple(calls))
    return Entry(who, weight)


def _name_tokens(message: Mapping[str, object], count: Count) -> int:
    name = message["name"]
    return NAME_TOKENS + count(name) if isinstance(name, str) else 0


def _calls(message: Mapping[str, object], at: int, parser: Parser) -> tuple[list[ToolCall], int]:
    """Return the native calls of a message, and the tokens of all its fields except the name and content."""
    count = parser.count
    calls: list[ToolCall] = []
    spent = 0
    for name in TEXT_FIELDS:
        if name in message:
            spent += tokens(message[name], count)
    listed = message.get("tool_calls")
    for index, item in enumerate(listed if isinstance(listed, list | tuple) else ()):
        call = item if type(item) is dict else fields_of(item)
        tool, arguments, inside = _function(call)
        # Both are almost always texts, so count these without the general function.
        spent += count(tool) if type(tool) is str else tokens(tool, count)
        spent += count(arguments) if type(arguments) is str else tokens(arguments, count)
        calls.append(native_call(parser, (at, "tool_calls", index), call.get("id"), tool, arguments, inside))
    if message.get("function_call") and (legacy := fields(message["function_call"])):
        tool, arguments = legacy.get("name"), legacy.get("arguments")
        spent += tokens(tool, count) + tokens(arguments, count)
        # The legacy API has no call ids: a function's name pairs its call with its result.
        calls.append(native_call(parser, (at, "function_call"), tool, tool, arguments, ("arguments",)))
    return calls, spent


def _function(call: Mapping[str, object]) -> tuple[object, object, Path]:
    """Return the name and arguments of a call, and the path to the arguments in it."""
    function = call.get("function")
    if function and (type(function) is dict or (function := fields(function))):
        return function.get("name"), function.get("arguments"), ("function", "arguments")
    custom = fields_of(call.get("custom"))
    return custom.get("name"), custom.get("input"), ("custom", "input")


# Its rules

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
ROLE = "Invalid value: '{}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
NO_ROLE = "Missing required parameter: 'messages[{}].role'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {}"
)
ORPHAN = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNKNOWN_ID = "Invalid parameter: 'tool_call_id' of '{}' not found in 'tool_calls' of previous message."
SECOND_RESULT = "Invalid parameter: Duplicate value for 'tool_call_id' of '{}', in messages[{}] and messages[{}]."
NO_ID = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
UNKNOWN = "Unknown parameter: 'messages[{}].{}'."
NO_CONTENT = "Invalid value for 'content': expected a string, got null."
NO_CALLS = (
    "Invalid 'messages[{}].tool_calls': empty array. "
    "Expected an array with minimum length 1, but got an empty array instead."
)
# An assistant's message needs no content if it has one of these.
IN_PLACE = ("tool_calls", "function_call", "refusal", "audio")


def find_problems(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the rules that the API would find broken. Results answer the calls of the message directly before them."""
    every = [fields_of(message) for message in messages]
    at = 0
    while at < len(every):
        yield from _check_message(at, every[at])
        stop = at + 1
        while stop < len(every) and string_of(every[stop].get("role")) == "tool":
            yield from _check_message(stop, every[stop])
            stop += 1
        is_results = string_of(every[at].get("role")) == "tool"
        yield from _check_results(every, at if is_results else at + 1, stop, [] if is_results else call_ids(every[at]))
        at = stop


def check_alternation(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the places at which user and assistant do not alternate, which local chat templates reject.

    Messages with calls and messages with results do not count.
    """
    wanted = "user"
    for at, message in enumerate(messages):
        found = fields_of(message)
        role = string_of(found.get("role"))
        if role not in ("user", "assistant") or has_calls(found):
            continue
        if role != wanted:
            yield Problem(NAME, "alternation", (at,), ALTERNATE)
        wanted = "assistant" if role == "user" else "user"


def has_calls(message: Mapping[str, object]) -> bool:
    """Return whether a message is the assistant's and has calls."""
    return string_of(message.get("role")) == "assistant" and bool(items_of(message.get("tool_calls")))


def call_ids(message: Mapping[str, object]) -> list[str]:
    """Return the ids of the calls that the next messages must answer; an id may occur more than once."""
    calls = items_of(message.get("tool_calls")) if has_calls(message) else ()
    return [call_id for call in calls if (call_id := string_of(fields_of(call).get("id"))) is not None]


def _check_message(at: int, message: Mapping[str, object]) -> Iterator[Problem]:
    role, calls = string_of(message.get("role")), message.get("tool_calls")
    if message and role not in ROLES:
        said = NO_ROLE.format(at) if message.get("role") is None else ROLE.format(role)
        yield Problem(NAME, "unknown_role", (at, "role"), said)
    if isinstance(calls, list | tuple) and not calls:
        yield Problem(NAME, "empty_tool_calls", (at, "tool_calls"), NO_CALLS.format(at))
    elif calls and role in ROLES and role != "assistant":
        yield Problem(NAME, "misplaced_call", (at, "tool_calls"), UNKNOWN.format(at, "tool_calls"))
    if string_of(message.get("tool_call_id")) and role in ROLES and role not in ("tool", "function"):
        yield Problem(NAME, "misplaced_result", (at, "tool_call_id"), UNKNOWN.format(at, "tool_call_id"))
    is_needed = role in ROLES and role != "function"
    if is_needed and message.get("content") is None and all(is_bare(message.get(name)) for name in IN_PLACE):
        yield Problem(NAME, "null_content", (at, "content"), NO_CONTENT)


def _check_results(
    found: Sequence[Mapping[str, object]], at: int, stop: int, calls: Sequence[str]
) -> Iterator[Problem]:
    """Check the results from `at` to `stop` against the calls before them."""
    wanted, seen = Counter(calls), dict[str, int]()
    for place in range(at, stop):
        answered = string_of(found[place].get("tool_call_id"))
        if answered is None:
            yield Problem(NAME, "missing_call_id", (place, "tool_call_id"), NO_ID)
        elif not calls:
            yield Problem(NAME, "orphan_result", (place,), ORPHAN)
        elif answered not in wanted:
            yield Problem(NAME, "orphan_result", (place,), UNKNOWN_ID.format(answered))
        elif not wanted[answered]:
            said = SECOND_RESULT.format(answered, seen[answered], place)
            yield Problem(NAME, "duplicate_result", (place,), said)
        else:
            wanted[answered] -= 1
            seen[answered] = place
    if missing := [call for call in wanted if wanted[call]]:
        yield Problem(NAME, "unanswered_call", (at - 1,), UNANSWERED.format(", ".join(missing)))


SAID = ("refusal", "audio", "function_call", "reasoning_content")  # fields that merging two messages would lose
MISPLACED = ("misplaced_call", "misplaced_result")
Kept = list[tuple[int, object]]  # messages with their original indexes, -1 for new ones


def repair_round(
    messages: Sequence[object], problems: Sequence[Problem], open_calls: OpenCalls, alternates: bool
) -> Round:
    """Make one round of repairs."""
    log = Log(problems)
    if any(problem.rule in MISPLACED for problem in problems):
        return Round(_split_misplaced(messages, log), log.repairs)
    kept = _place_results(messages, [fields_of(message) for message in messages], log, open_calls)
    kept = [(at, _fill_content(at, message, log)) for at, message in kept]
    return Round(_alternate_roles(kept, log), log.repairs)


def _split_misplaced(messages: Sequence[object], log: Log) -> list[Any]:
    """Move misplaced calls into messages of the assistant, and give misplaced results the role "tool"."""
    is_open: set[str | None] = set()
    kept: list[Any] = []
    for at, message in enumerate(messages):
        answered = string_of(fields_of(message).get("tool_call_id"))
        for problem in log.problems_at(at, "misplaced_result"):
            # It answers no call, so it is an ordinary message.
            is_result = answered in is_open
            message = with_item(message, "role", "tool") if is_result else without_field(message, "tool_call_id")
            log.add(problem, "gave it the role 'tool'" if is_result else "removed the id, which no open call has")
        made = items_of(fields_of(message).get("tool_calls"))
        is_open = (is_open - {answered}) | {string_of(fields_of(call).get("id")) for call in made}
        calls: list[Any] = []
        for problem in log.problems_at(at, "misplaced_call"):
            calls = [{"role": "assistant", "content": None, "tool_calls": fields_of(message)["tool_calls"]}]
            message = without_field(message, "tool_calls")
            log.add(problem, "put the calls in a message of the assistant's")
        kept += calls if calls and is_bare(fields_of(message).get("content")) else [message, *calls]
    return kept


def _place_results(
    messages: Sequence[object], found: Sequence[Mapping[str, object]], log: Log, open_calls: OpenCalls
) -> Kept:
    """Put each result after its call. Results that break no rule stay unchanged."""
    caller: list[int] = []  # for each message, the index of the one whose calls it answers; its own index for others
    for at, one in enumerate(found):
        caller.append(caller[-1] if at and string_of(one.get("role")) == "tool" else at)
    astray = {at for at in range(len(found)) if log.problems_at(at, *ASTRAY)}
    is_open = {at for at in range(len(found)) if log.problems_at(at, "unanswered_call")} | {caller[at] for at in astray}
    taken = astray | {at for at in range(len(found)) if caller[at] != at and caller[at] in is_open}
    if not is_open:
        return list(enumerate(messages))
    placed, dropped = place_results(
        [*_call_events(found, is_open, taken)],
        log,
        open_calls,
        lambda place, _: (messages[place[0]], None),
        lambda call: _placeholder_result(found, call, open_calls.reason),
    )
    removed = {at: {call for one, call in dropped if one == at} for at, _ in dropped}
    kept: Kept = []
    for at, message in enumerate(messages):
        left = _without_calls(message, removed[at]) if at in removed else message
        kept += [] if at in taken or left is None else [(at, left), *((-1, answer) for answer in placed.get(at, ()))]
    return kept


def _without_calls(message: object, removed: Collection[int]) -> object | None:
    """Copy a message without some of its calls. Return None if the message would be empty."""
    calls = [call for at, call in enumerate(items_of(fields_of(message).get("tool_calls"))) if at not in removed]
    if calls:
        return with_item(message, "tool_calls", calls)
    is_empty = all(is_bare(fields_of(message).get(name)) for name in ("content", "refusal", "audio"))
    return None if is_empty else without_field(message, "tool_calls")


def _call_events(found: Sequence[Mapping[str, object]], is_open: set[int], taken: set[int]) -> Iterator[Event]:
    for at, message in enumerate(found):
        if at in taken and string_of(message.get("role")) == "tool":
            answered = string_of(message.get("tool_call_id"))
            yield Event((at, 0), False, () if answered is None else (answered,))
        for index, call in enumerate(items_of(message.get("tool_calls")) if has_calls(message) else ()):
            call_id = string_of(fields_of(call).get("id"))
            yield Event((at, index), True, () if call_id is None else (call_id,), at in is_open)


def _placeholder_result(found: Sequence[Mapping[str, object]], call: tuple[int, int], reason: str) -> object:
    call_id = fields_of(items_of(found[call[0]].get("tool_calls"))[call[1]]).get("id")
    return {"role": "tool", "tool_call_id": call_id, "content": reason}


def _fill_content(at: int, message: object, log: Log) -> object:
    """Add the missing content of a message, and remove an empty list of calls."""
    for problem in log.problems_at(at, "empty_tool_calls"):
        message = without_field(message, "tool_calls")
        log.add(problem, "removed the empty list of calls")
    for problem in log.problems_at(at, "null_content"):
        message = with_item(message, "content", EMPTY)
        log.add(problem, f"wrote {EMPTY!r} in the empty message")
    return message


def _alternate_roles(messages: Kept, log: Log) -> list[Any]:
    """Make user and assistant alternate: merge neighbors of one role, or insert a placeholder between them."""
    groups: list[list[Any]] = []
    has_begun = False
    for at, message in messages:
        role = string_of(fields_of(message).get("role"))
        found = log.problems_at(at, "alternation")
        before = fields_of(groups[-1][0]) if groups else {}
        is_same = string_of(before.get("role")) == role and not has_calls(before) and not _has_more(message)
        if found and not is_same:
            speaker, words = "assistant" if role == "user" else "user", NO_WORDS if has_begun else BEGINNING
            groups.append([{"role": speaker, "content": words}])
            log.add(found[0], f"put a message of the {speaker}'s before it: {words!r}")
        if found and is_same:
            groups[-1].append(message)
            log.add(found[0], "made one message of this and the one before")
        else:
            groups.append([message])
        has_begun = has_begun or role in ("user", "assistant")
    return [_merge_messages(group) if len(group) > 1 else group[0] for group in groups]


def _has_more(message: object) -> bool:
    """Return whether a message has other fields than its content that merging would lose."""
    return any(not is_bare(fields_of(message).get(name)) for name in SAID)


def _merge_messages(group: Sequence[object]) -> object:
    """Merge messages: texts with an empty line between them, other contents as a list of blocks."""
    contents = [fields_of(message).get("content") for message in group]
    if all(isinstance(content, str) for content in contents):
        return with_item(group[0], "content", "\n\n".join(map(str, contents)))
    return with_item(group[0], "content", [block for content in contents for block in _as_blocks(content)])


def _as_blocks(content: object) -> Sequence[object]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else items_of(content)


PROVIDER = Provider(
    NAME, find_problems, repair_round, other_names=("chat", "chat_completions"), alternation=check_alternation
)
