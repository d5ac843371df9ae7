"""Copilot CLI's event logs: JSONL of `{type, data, id}`. Read as Chat Completions messages.

Event types as the Copilot SDK declares them (`session-events`); what is sent after a compaction, an abort or a
notification as the requests that its tests recorded show.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import Object, fields, objects, text
from autoprune.apps.sessions._recording import (
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    bad_record,
    build_usage,
    note,
    parse_time,
)
from autoprune.apps.sessions._sending import CHAT, assistant, conversation, stretch, tool_call, tool_result

Event = Object


def detect(values: Sequence[object]) -> bool:
    """Look for an event of a session's start or resume, or a message event: a dotted type and data."""
    types = ("session.start", "session.resume", "assistant.message", "user.message")
    return any(
        value.get("type") in types and isinstance(value.get("data"), dict) for value in map(fields, values[:100])
    )


def read(values: Sequence[object]) -> list[Conversation]:
    """Return the one conversation of a log. Raises SessionError for a line that is no event."""
    events = _once(values)
    own = [event for event in events if not _is_sub_agents(event)]
    *_, said = _stretches(own)
    return [conversation(CHAT, [message for message, _ in said], notes=list(_notes(values, events, own)))]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Return the one conversation of a log as its stretches between compactions. Raises SessionError as `read` does."""
    own = [event for event in _once(values) if not _is_sub_agents(event)]
    return [[stretch(CHAT, said) for said in _stretches(own)]]


def _stretches(events: Sequence[Event]) -> Iterator[list[tuple[Message, Moment]]]:
    """Return the messages sent until each compaction, and until the end, each with what the log says of it."""
    systems: dict[str, tuple[Message, Moment]] = {}
    spoken: list[tuple[Message, Moment]] = []
    compacting = 0
    model = ""
    for event in events:
        data = fields(event.get("data"))
        model = text(data.get("newModel")) or text(data.get("selectedModel")) or model
        match event.get("type"):
            case "system.message":
                systems[text(data.get("role")) or "system"] = _system(data), None
            case "session.compaction_start":
                compacting = len(spoken)
            case "session.compaction_complete" if text(data.get("summaryContent")):
                yield [*systems.values(), *spoken]
                messages = [message for message, _ in spoken]
                summary = _summary(messages[:compacting], text(data.get("summaryContent")))
                spoken = [(message, None) for message in (summary, *messages[compacting:])]
            case "session.context_cleared":
                yield [*systems.values(), *spoken]
                compacting = 0
                spoken = [(_user(text(data.get("initialMessage"))), None)]
            case kind:
                spoken += [(message, _moment(event, model)) for message in _spoken(text(kind), data)]
    yield [*systems.values(), *spoken]


def _moment(event: Event, model: str) -> Moment:
    """Return what the log says of a message: of the tokens of an answer, it has the output alone."""
    data, time = fields(event.get("data")), parse_time(event.get("timestamp"))
    if event.get("type") != "assistant.message":
        return time
    return Answer(time, text(data.get("model")) or model, build_usage(0, output=data.get("outputTokens")))


def _once(values: Sequence[object]) -> list[Event]:
    """Return the events without those that a resume wrote again."""
    seen: dict[str, Event] = {}
    for at, event in enumerate(map(fields, values), 1):
        if not text(event.get("type")) or not isinstance(event.get("data"), dict):
            raise bad_record("is no event: it has no type, or no data", at)
        seen.setdefault(text(event.get("id")) or str(at), event)
    return list(seen.values())


def _is_sub_agents(event: Event) -> bool:
    return bool(event.get("agentId") or fields(event.get("data")).get("parentToolCallId"))


def _system(data: Event) -> Message:
    return {"role": text(data.get("role")) or "system", "content": text(data.get("content"))}


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _spoken(kind: str, data: Event) -> Iterator[Message]:
    """Return the message that an event adds; none for what is not sent."""
    match kind:
        case "user.message":
            yield _user(text(data.get("transformedContent")) or text(data.get("content")))
        case "system.notification":
            yield _user(text(data.get("content")))
        case "assistant.message":
            yield assistant(
                text(data.get("content")), [_call(request) for request in objects(data.get("toolRequests"))]
            )
        case "tool.execution_complete" if not data.get("isUserRequested"):
            yield tool_result(text(data.get("toolCallId")), _output(data))


def _call(request: Event) -> Message:
    arguments = request.get("arguments")
    if isinstance(arguments, str) and request.get("type") == "custom":  # free text: a call holds JSON
        arguments = {"input": arguments}
    return tool_call(text(request.get("toolCallId")), text(request.get("name")), {} if arguments is None else arguments)


def _output(data: Event) -> str:
    """Return the result that the model sees: its short form, or the error."""
    done = data.get("result")
    if isinstance(done, str):
        return done
    return text(fields(done).get("content")) or text(fields(data.get("error")).get("message"))


def _summary(summarized: Sequence[Message], summary: str) -> Message:
    """Write what stands for a compacted conversation: the user's messages and the model's summary."""
    asked = [text(message.get("content")) for message in summarized if message.get("role") == "user"]
    quoted = "\n".join(f"<user_message>\n{each}\n</user_message>" for each in asked)
    return _user(f"{quoted}\n\n<summary>\n{summary}\n</summary>".strip())


def _notes(values: Sequence[object], events: Sequence[Event], own: Sequence[Event]) -> Iterator[str]:
    kinds = Counter(text(event.get("type")) for event in own)
    if not kinds["system.message"]:
        yield NO_SYSTEM_PROMPT
    yield from note("events written twice, left out", len(values) - len(events))
    yield from note("events of sub-agents, left out", len(events) - len(own))
    summaries = sum(bool(text(fields(event.get("data")).get("summaryContent"))) for event in own)
    yield from note("compactions; the words around a summary are ours", summaries)
    yield from note("truncations by Copilot, which are not in the log", kinds["session.truncation"])


PLACES = (".copilot/session-state/*.jsonl", ".copilot/session-state/*/events.jsonl")
READER = Reader("copilot-cli", detect, read, record, PLACES)
