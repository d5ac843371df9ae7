"""Reader of mini-swe-agent's trajectories: a list of messages, since 1.0 within an object. Returns chat messages.

An action in a fenced block becomes a call, and the user's answer becomes its result. A run over the Responses API is
read as Responses items. The rules are those of mini-swe-agent's model classes, which send all but `extra`.
"""

import re
from collections.abc import Iterator, Sequence

from autoprune.apps.sessions import (
    Answer,
    Conversation,
    Message,
    Moment,
    Object,
    Reader,
    assistant,
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
)
from autoprune.wire import is_from_model

from prunebench.readers.request_fields import parse_epoch, parse_usage, requested_cache_life

FENCE = "```mswea_bash_command"  # opens a command in an answer
RETURNED = "<returncode>"  # begins the output of a command
ACTION = re.compile(r"```(?:mswea_bash_command|bash)[ \t]*\n(.*?)\n?```", re.DOTALL)
SENT = ("role", "content", "tool_calls", "tool_call_id", "name")  # fields of a message that are sent to the API
TOOL = "bash"  # the name of the tool in calls made from text


def detect(values: Sequence[object]) -> bool:
    """Look for an object that names its format, or for texts with mini-swe-agent's block for a command."""
    if len(values) != 1:
        return False
    whole = fields(values[0])
    if text(whole.get("trajectory_format")).startswith("mini-swe-agent"):
        return isinstance(whole.get("messages"), list)
    listing = listed(values[0])
    is_texts = all(set(fields(each)) <= {"role", "content", "extra"} and fields(each) for each in listing)
    return is_texts and any(map(_is_marked, objects(values[0])))


def _is_marked(record: Object) -> bool:
    """Whether a text is clearly mini-swe-agent's: a command in its fence, or a command's output."""
    content = text(record.get("content"))
    return FENCE in content if record.get("role") == "assistant" else content.startswith(RETURNED)


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the one conversation. Raises SessionError for an entry that is not a message."""
    records = _records(values)
    if _is_responses(records):
        return [conversation("openai_responses", (item for record in records for item in _response_items(record)))]
    made = sum(len(_actions(record)) for record in records)
    return [
        conversation("openai_chat", list(_chat_messages(records)), notes=note("calls that were made in text", made))
    ]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation as one stretch. Raises SessionError like `read`."""
    records = _records(values)
    config = fields(fields(fields(fields(values[0]).get("info")).get("config")).get("model"))
    moments = [_record_moment(record, config) for record in records]
    if _is_responses(records):
        timed = zip(records, moments, strict=True)
        items = ((item, moment) for record, moment in timed for item in _response_items(record))
        return [[stretch("openai_responses", (each for each in items if each[0].get("type") != "reasoning"))]]
    return [[stretch("openai_chat", zip(_chat_messages(records), moments, strict=True))]]


def _record_moment(record: Object, config: Object) -> Moment:
    """Return the recorded data of a message; `config` is the run's configuration of the model.

    mini-swe-agent 1 writes no times; only the response has one, `created`.
    """
    extra = fields(record.get("extra"))
    response = record if record.get("object") == "response" else fields(extra.get("response"))
    time = parse_epoch(extra.get("timestamp")) or parse_epoch(response.get("created") or response.get("created_at"))
    if response is not record and not is_from_model(record):
        return time
    model = text(response.get("model")) or text(config.get("model_name"))
    usage = parse_usage(fields(response.get("usage")), extra.get("cost"))
    return Answer(time, model, usage, cache_life=_cache_life(config))


def _cache_life(config: Object) -> float | None:
    """Return the cache life in seconds that a run's requests ask for, by `cache_control` marks or by arguments."""
    marked = {"cache_control": {"type": "ephemeral"}} if config.get("set_cache_control") else {}
    return requested_cache_life({**fields(config.get("model_kwargs")), **marked})


def _is_responses(records: Sequence[Object]) -> bool:
    """Whether a run used the Responses API."""
    return any(record.get("object") == "response" for record in records)


def _records(values: Sequence[object]) -> list[Object]:
    listing = listed(fields(values[0]).get("messages")) or listed(values[0])
    for at, record in enumerate(map(fields, listing), 1):
        if not any(text(record.get(name)) for name in ("role", "type", "object")):
            raise bad_record("of the messages has no role", at)
    return [record for record in objects(listing) if record.get("role") != "exit"]


def _response_items(record: Object) -> Iterator[Message]:
    """Yield the items of a response; any other record is a single item."""
    for item in objects(record.get("output")) if record.get("object") == "response" else [record]:
        yield {name: value for name, value in item.items() if name != "extra" and value is not None}


def _actions(record: Object) -> list[str]:
    """Return the command in an assistant's text, if there is exactly one."""
    if record.get("role") != "assistant" or objects(record.get("tool_calls")):
        return []
    parsed = [text(each.get("command")) for each in objects(fields(record.get("extra")).get("actions"))]
    commands = parsed or [action.strip() for action in ACTION.findall(text(record.get("content")))]
    # mini-swe-agent answers any other number of commands with an error message.
    return commands if len(commands) == 1 else []


def _chat_messages(records: Sequence[Object]) -> Iterator[Message]:
    waiting = ""
    for at, record in enumerate(records):
        is_answered = at + 1 < len(records) and records[at + 1].get("role") == "user"
        if waiting and record.get("role") == "user":
            yield tool_result(waiting, record.get("content") or "")
            waiting = ""
        elif is_answered and (commands := _actions(record)):
            waiting = f"call_{at}"
            yield assistant(text(record.get("content")), [tool_call(waiting, TOOL, {"command": commands[0]})])
        else:
            yield {name: value for name, value in record.items() if name in SENT and (value or name == "content")}


READER = Reader("mini-swe-agent", detect, read, record)
