"""Reader of SWE-agent's trajectories: JSON with a `history`. Returns chat messages; an action in text becomes a call.

The rules are those of SWE-agent's `_history_to_messages`. Its history processors, which shorten old observations in
each request, are not applied.
"""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions import (
    NO_SYSTEM_PROMPT,
    Conversation,
    Message,
    Moment,
    Object,
    Reader,
    bad_record,
    conversation,
    fields,
    listed,
    note,
    objects,
    stretch,
    text,
    tool_call,
    tool_result,
    try_parse,
    unrecorded_answers,
)

TOOL = "bash"  # the tool's name for calls in text
# Values of the model setting that do not name a model.
NO_MODELS = frozenset(("human", "human_thought", "instant_empty_submit", "replay"))


def detect(values: Sequence[object]) -> bool:
    """Look for a trajectory and a history of records with roles, or for several attempts with both."""
    attempts = _attempts(values[0]) if len(values) == 1 else []
    histories = (objects(attempt.get("history")) for attempt in attempts if isinstance(attempt.get("trajectory"), list))
    return any("role" in record for history in histories for record in history[:1])


def read(values: Sequence[object]) -> list[Conversation]:
    """Read a conversation per attempt. Raises SessionError for a record without a role."""
    return [_attempt_conversation(history) for history in _histories(values)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read a conversation per attempt, each as one stretch. Raises SessionError like `read`."""
    model = _configured_model(fields(values[0]).get("replay_config"))
    own = (_own_records(history) for history in _histories(values))
    return [
        [stretch("openai_chat", zip(_history_messages(records), _moments(records, model), strict=True))]
        for records in own
    ]


def _moments(records: Sequence[Object], model: str) -> list[Moment]:
    """Return the recorded data of records: only the name of the run's model.

    The model did not write demonstrations.
    """
    return unrecorded_answers([{} if record.get("is_demo") else record for record in records], model)


def _configured_model(config: object) -> str:
    """Return the model in a run's configuration (an object or its JSON); "" if it names none."""
    whole = fields(try_parse(config) if isinstance(config, str) else config)
    name = text(fields(fields(whole.get("agent")).get("model")).get("name"))
    return "" if name in NO_MODELS else name


def _histories(values: Sequence[object]) -> Iterator[list[Object]]:
    for attempt in _attempts(values[0]):
        history = objects(attempt.get("history"))
        for at, record in enumerate(history, 1):
            if not isinstance(record.get("role"), str) or not isinstance(record.get("content"), str | list | None):
                raise bad_record("of the history has no role, or a content that is no text", at)
        yield history


def _attempts(value: object) -> list[Object]:
    whole = fields(value)
    return [whole] if "history" in whole else objects(whole.get("attempts"))


def _own_records(history: Sequence[Object]) -> list[Object]:
    """Select the records of the agent that speaks first, which owns the history; reviewers may follow."""
    agent = history[0].get("agent") if history else None
    return [record for record in history if record.get("agent") == agent]


def _attempt_conversation(history: Sequence[Object]) -> Conversation:
    own = _own_records(history)
    system = any(record["role"] == "system" for record in own)
    notes = [
        *(() if system else (NO_SYSTEM_PROMPT,)),
        *note("entries of other agents, left out", len(history) - len(own)),
        *note("calls that were made in text", sum(_is_made_in_text(own, at) for at in range(len(own)))),
    ]
    return conversation("openai_chat", list(_history_messages(own)), notes=notes)


def _is_made_in_text(history: Sequence[Object], at: int) -> bool:
    """Whether the user's next message answers a record's action, as in SWE-agent without native calls."""
    if not text(history[at].get("action")).strip() or objects(history[at].get("tool_calls")):
        return False
    return at + 1 < len(history) and history[at + 1]["role"] == "user"


def _history_messages(history: Sequence[Object]) -> Iterator[Message]:
    made = 0
    for at, record in enumerate(history):
        content = record.get("content") or ""
        if record["role"] == "tool":
            yield tool_result(text(next(iter(listed(record.get("tool_call_ids"))), None)), content)
        elif at and _is_made_in_text(history, at - 1):
            yield tool_result(f"call_{made}", content)
        elif _is_made_in_text(history, at):
            made += 1
            command = {"command": text(record.get("action")).strip()}
            yield _message_with_calls(content, [tool_call(f"call_{made}", TOOL, command)])
        elif calls := objects(record.get("tool_calls")):
            yield _message_with_calls(content, [_native_call(each) for each in calls])
        else:
            yield {"role": record["role"], "content": content}


def _message_with_calls(content: object, calls: list[Message]) -> Message:
    return {"role": "assistant", "content": content or None, "tool_calls": calls}


def _native_call(raw: Object) -> Message:
    function = fields(raw.get("function"))
    return tool_call(text(raw.get("id")), text(function.get("name")), function.get("arguments") or "{}")


READER = Reader("swe-agent", detect, read, record)
