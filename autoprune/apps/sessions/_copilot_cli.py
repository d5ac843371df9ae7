"""Reader of Copilot CLI's event logs: JSONL of `{type, data, id}`. Returns Chat Completions messages.

Event types are those of the Copilot SDK (`session-events`). The messages after a compaction, an abort or a
notification follow the requests recorded in its tests.
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
    """Look for an event with data that starts or resumes a session, or holds a message."""
    types = ("session.start", "session.resume", "assistant.message", "user.message")
    return any(
        value.get("type") in types and isinstance(value.get("data"), dict) for value in map(fields, values[:100])
    )


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the one conversation in a log. Raises SessionError for a line that is not an event."""
    events = _unique_events(values)
    own = [event for event in events if not _is_from_sub_agent(event)]
    *_, said = _stretches(own)
    return [conversation(CHAT, [message for message, _ in said], notes=list(_event_notes(values, events, own)))]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation in a log as its stretches between compactions. Raises SessionError like `read`."""
    own = [event for event in _unique_events(values) if not _is_from_sub_agent(event)]
    return [[stretch(CHAT, said) for said in _stretches(own)]]


def _stretches(events: Sequence[Event]) -> Iterator[list[tuple[Message, Moment]]]:
    """Yield the messages sent up to each compaction, and up to the end, each with its recorded data."""
    # The newest system message of each role counts, and is sent first.
    systems: dict[str, tuple[Message, Moment]] = {}
    spoken: list[tuple[Message, Moment]] = []
    compacting: int | None = None  # the messages before a compaction; None if it did not start, or its line was lost
    model = ""
    for event in events:
        data = fields(event.get("data"))
        model = text(data.get("newModel")) or text(data.get("selectedModel")) or model
        match event.get("type"):
            case "system.message":
                role = text(data.get("role")) or "system"
                systems[role] = {"role": role, "content": text(data.get("content"))}, None
            case "session.compaction_start":
                compacting = len(spoken)  # messages that arrive while the summary is written are kept after it
            case "session.compaction_complete" if text(data.get("summaryContent")):
                yield [*systems.values(), *spoken]
                messages = [message for message, _ in spoken]
                old = len(messages) if compacting is None else compacting
                summary = _summary(messages[:old], text(data.get("summaryContent")))
                spoken = [(message, None) for message in (summary, *messages[old:])]
                compacting = None
            case "session.context_cleared":
                yield [*systems.values(), *spoken]
                compacting = None
                spoken = [(_user_turn(text(data.get("initialMessage"))), None)]
            case kind:
                spoken += [(message, _event_moment(event, model)) for message in _event_messages(text(kind), data)]
    yield [*systems.values(), *spoken]


def _event_moment(event: Event, model: str) -> Moment:
    """Return the recorded data of a message. Of an answer's usage, the log holds only the output tokens."""
    data, time = fields(event.get("data")), parse_time(event.get("timestamp"))
    if event.get("type") != "assistant.message":
        return time
    return Answer(time, text(data.get("model")) or model, build_usage(0, output=data.get("outputTokens")))


def _unique_events(values: Sequence[object]) -> list[Event]:
    """Return the events without duplicates: resuming a session writes earlier events again."""
    seen: dict[str, Event] = {}
    for at, event in enumerate(map(fields, values), 1):
        if not text(event.get("type")) or not isinstance(event.get("data"), dict):
            raise bad_record("is not an event: it has no type, or no data", at)
        seen.setdefault(text(event.get("id")) or str(at), event)
    return list(seen.values())


def _is_from_sub_agent(event: Event) -> bool:
    return bool(event.get("agentId") or fields(event.get("data")).get("parentToolCallId"))


def _user_turn(content: str) -> Message:
    return {"role": "user", "content": content}


def _event_messages(kind: str, data: Event) -> Iterator[Message]:
    """Yield the message that an event adds, if Copilot sends it."""
    match kind:
        case "user.message":
            yield _user_turn(text(data.get("transformedContent")) or text(data.get("content")))
        case "system.notification":
            yield _user_turn(text(data.get("content")))
        case "assistant.message":
            yield assistant(
                text(data.get("content")), [_requested_call(request) for request in objects(data.get("toolRequests"))]
            )
        case "tool.execution_complete" if not data.get("isUserRequested"):
            yield tool_result(text(data.get("toolCallId")), _result_text(data))


def _requested_call(request: Event) -> Message:
    arguments = request.get("arguments")
    if isinstance(arguments, str) and request.get("type") == "custom":  # free text, but a call holds JSON
        arguments = {"input": arguments}
    return tool_call(text(request.get("toolCallId")), text(request.get("name")), {} if arguments is None else arguments)


def _result_text(data: Event) -> str:
    """Return a result as the model sees it: the short form, or the error."""
    done = data.get("result")
    if isinstance(done, str):
        return done
    return text(fields(done).get("content")) or text(fields(data.get("error")).get("message"))


def _summary(summarized: Sequence[Message], summary: str) -> Message:
    """Write the message that replaces a compacted conversation: the user's messages and the model's summary."""
    asked = [text(message.get("content")) for message in summarized if message.get("role") == "user"]
    quoted = "\n".join(f"<user_message>\n{each}\n</user_message>" for each in asked)
    return _user_turn(f"{quoted}\n\n<summary>\n{summary}\n</summary>".strip())


def _event_notes(values: Sequence[object], events: Sequence[Event], own: Sequence[Event]) -> Iterator[str]:
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
