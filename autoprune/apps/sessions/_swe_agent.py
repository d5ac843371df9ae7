"""SWE-agent's trajectories: JSON with a `history`. Read as chat messages; an action in text becomes a call.

The rules are those of SWE-agent's `_history_to_messages`. Its history processors, which shorten old observations at
each request, are not applied.
"""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import Object, fields, listed, objects, parse_or_none, text
from autoprune.apps.sessions._recording import (
    NO_SYSTEM_PROMPT,
    Conversation,
    Message,
    Moment,
    Reader,
    bad_record,
    note,
    unrecorded_answers,
)
from autoprune.apps.sessions._sending import CHAT, conversation, stretch, tool_call, tool_result

TOOL = "bash"  # what a call is named that was made in text
NO_MODELS = frozenset(("human", "human_thought", "instant_empty_submit", "replay"))  # that a configuration can name


def detect(values: Sequence[object]) -> bool:
    """Look for a trajectory beside a history of records with roles, or several attempts at that."""
    attempts = _attempts(values[0]) if len(values) == 1 else []
    histories = (objects(attempt.get("history")) for attempt in attempts if isinstance(attempt.get("trajectory"), list))
    return any("role" in record for history in histories for record in history[:1])


def read(values: Sequence[object]) -> list[Conversation]:
    """Return a conversation per attempt. Raises SessionError for a record without a role."""
    return [_conversation(history) for history in _histories(values)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Return a conversation per attempt, each as one stretch. Raises SessionError as `read` does."""
    model = _model(fields(values[0]).get("replay_config"))
    own = (_own(history) for history in _histories(values))
    return [[stretch(CHAT, zip(_messages(records), _moments(records, model), strict=True))] for records in own]


def _moments(records: Sequence[Object], model: str) -> list[Moment]:
    """Return the moments of records: only the run's model is known, and that it did not write a demonstration."""
    return unrecorded_answers([{} if record.get("is_demo") else record for record in records], model)


def _model(config: object) -> str:
    """Return the model that a run's configuration, an object or its JSON, names; "" for none."""
    whole = fields(parse_or_none(config) if isinstance(config, str) else config)
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


def _own(history: Sequence[Object]) -> list[Object]:
    """Return the records of the agent that speaks first, which is the one whose history it is."""
    agent = history[0].get("agent") if history else None
    return [record for record in history if record.get("agent") == agent]


def _conversation(history: Sequence[Object]) -> Conversation:
    own = _own(history)
    system = any(record["role"] == "system" for record in own)
    notes = [
        *(() if system else (NO_SYSTEM_PROMPT,)),
        *note("entries of other agents, left out", len(history) - len(own)),
        *note("calls that were made in text", sum(_is_made_in_text(own, at) for at in range(len(own)))),
    ]
    return conversation(CHAT, list(_messages(own)), notes=notes)


def _is_made_in_text(history: Sequence[Object], at: int) -> bool:
    """Tell whether a record's action is answered by the user's next message, as SWE-agent does without native calls."""
    if not text(history[at].get("action")).strip() or objects(history[at].get("tool_calls")):
        return False
    return at + 1 < len(history) and history[at + 1]["role"] == "user"


def _messages(history: Sequence[Object]) -> Iterator[Message]:
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
            yield _called(content, [tool_call(f"call_{made}", TOOL, command)])
        elif calls := objects(record.get("tool_calls")):
            yield _called(content, [_call(each) for each in calls])
        else:
            yield {"role": record["role"], "content": content}


def _called(content: object, calls: list[Message]) -> Message:
    return {"role": "assistant", "content": content or None, "tool_calls": calls}


def _call(raw: Object) -> Message:
    function = fields(raw.get("function"))
    return tool_call(text(raw.get("id")), text(function.get("name")), function.get("arguments") or "{}")


READER = Reader("swe-agent", detect, read, record)
