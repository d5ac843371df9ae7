"""The rules of OpenAI's Chat Completions API, and the words in which it refuses what breaks them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from autoprune.rules.problem import Problem
from autoprune.rules.reading import ALTERNATE, is_bare, known, listed, text

PROVIDER = "openai_chat"
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
# What stands for the content of an assistant's message that has none.
IN_PLACE = ("tool_calls", "function_call", "refusal", "audio")


def problems(messages: Sequence[object]) -> Iterator[Problem]:
    """What the API would refuse. Results answer the calls of the message that their run of results stands behind."""
    found = [known(message) for message in messages]
    at = 0
    while at < len(found):
        yield from _message(at, found[at])
        stop = at + 1
        while stop < len(found) and text(found[stop].get("role")) == "tool":
            yield from _message(stop, found[stop])
            stop += 1
        is_results = text(found[at].get("role")) == "tool"
        yield from _results(found, at if is_results else at + 1, stop, [] if is_results else call_ids(found[at]))
        at = stop


def alternation(messages: Sequence[object]) -> Iterator[Problem]:
    """Where user and assistant do not take turns, as local chat templates want it: calls and results do not count."""
    wanted = "user"
    for at, message in enumerate(messages):
        found = known(message)
        role = text(found.get("role"))
        if role not in ("user", "assistant") or has_calls(found):
            continue
        if role != wanted:
            yield Problem(PROVIDER, "alternation", (at,), ALTERNATE)
        wanted = "assistant" if role == "user" else "user"


def has_calls(message: Mapping[str, object]) -> bool:
    """True for an assistant's message with native calls."""
    return text(message.get("role")) == "assistant" and bool(listed(message.get("tool_calls")))


def call_ids(message: Mapping[str, object]) -> list[str]:
    """The ids of the calls that the messages behind must answer; one id may stand for several calls."""
    calls = listed(message.get("tool_calls")) if has_calls(message) else ()
    return [call_id for call in calls if (call_id := text(known(call).get("id"))) is not None]


def _message(at: int, message: Mapping[str, object]) -> Iterator[Problem]:
    role, calls = text(message.get("role")), message.get("tool_calls")
    if message and role not in ROLES:
        said = NO_ROLE.format(at) if message.get("role") is None else ROLE.format(role)
        yield Problem(PROVIDER, "unknown_role", (at, "role"), said)
    if isinstance(calls, list | tuple) and not calls:
        yield Problem(PROVIDER, "empty_tool_calls", (at, "tool_calls"), NO_CALLS.format(at))
    elif calls and role in ROLES and role != "assistant":
        yield Problem(PROVIDER, "misplaced_call", (at, "tool_calls"), UNKNOWN.format(at, "tool_calls"))
    if text(message.get("tool_call_id")) and role in ROLES and role not in ("tool", "function"):
        yield Problem(PROVIDER, "misplaced_result", (at, "tool_call_id"), UNKNOWN.format(at, "tool_call_id"))
    is_needed = role in ROLES and role != "function"
    if is_needed and message.get("content") is None and all(is_bare(message.get(name)) for name in IN_PLACE):
        yield Problem(PROVIDER, "null_content", (at, "content"), NO_CONTENT)


def _results(found: Sequence[Mapping[str, object]], at: int, stop: int, calls: Sequence[str]) -> Iterator[Problem]:
    """The results from `at` to `stop` against the calls that they stand behind."""
    wanted, seen = Counter(calls), dict[str, int]()
    for place in range(at, stop):
        answered = text(found[place].get("tool_call_id"))
        if answered is None:
            yield Problem(PROVIDER, "missing_call_id", (place, "tool_call_id"), NO_ID)
        elif not calls:
            yield Problem(PROVIDER, "orphan_result", (place,), ORPHAN)
        elif answered not in wanted:
            yield Problem(PROVIDER, "orphan_result", (place,), UNKNOWN_ID.format(answered))
        elif not wanted[answered]:
            said = SECOND_RESULT.format(answered, seen[answered], place)
            yield Problem(PROVIDER, "duplicate_result", (place,), said)
        else:
            wanted[answered] -= 1
            seen[answered] = place
    if missing := [call for call in wanted if wanted[call]]:
        yield Problem(PROVIDER, "unanswered_call", (at - 1,), UNANSWERED.format(", ".join(missing)))
