"""Copilot CLI's event logs: JSONL of `{type, data, id}`. Read as Chat Completions messages.

Event types as the Copilot SDK declares them (`session-events`); what is sent after a compaction, an abort or a
notification as the requests that its tests recorded show.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from autoprune.sessions._json import Object, fields, objects, text
from autoprune.sessions._recorded import NO_SYSTEM_PROMPT, Conversation, Message, Reader, bad_record, note
from autoprune.sessions.as_chat import call, conversation, result, said

Event = Object


def detect(values: Sequence[object]) -> bool:
    """Look for an event of a session's start or resume, or a message event: a dotted type and data."""
    types = ("session.start", "session.resume", "assistant.message", "user.message")
    return any(
        value.get("type") in types and isinstance(value.get("data"), dict) for value in map(fields, values[:100])
    )


def read(values: Sequence[object]) -> list[Conversation]:
    """Return the one conversation of a log. Raises SessionError for a line that is no event."""
    for at, value in enumerate(values, 1):
        if not text(fields(value).get("type")) or not isinstance(fields(value).get("data"), dict):
            raise bad_record("is no event: it has no type, or no data", at)
    events = _once([fields(value) for value in values])
    own = [event for event in events if not _is_sub_agents(event)]
    systems: dict[str, Message] = {}
    spoken: list[Message] = []
    compacting = 0
    for event in own:
        data = fields(event.get("data"))
        match event.get("type"):
            case "system.message":
                systems[text(data.get("role")) or "system"] = _system(data)
            case "session.compaction_start":
                compacting = len(spoken)
            case "session.compaction_complete" if text(data.get("summaryContent")):
                spoken = [_summary(spoken[:compacting], text(data.get("summaryContent"))), *spoken[compacting:]]
            case "session.context_cleared":
                compacting = 0
                spoken = [_user(text(data.get("initialMessage")))]
            case kind:
                spoken += _spoken(text(kind), data)
    return [conversation([*systems.values(), *spoken], notes=list(_notes(values, events, own)))]


def _once(events: Sequence[Event]) -> list[Event]:
    """Return the events without those that a resume wrote again."""
    seen: dict[str, Event] = {}
    for at, event in enumerate(events):
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
            yield said(text(data.get("content")), [_call(request) for request in objects(data.get("toolRequests"))])
        case "tool.execution_complete" if not data.get("isUserRequested"):
            yield result(text(data.get("toolCallId")), _output(data))


def _call(request: Event) -> Message:
    arguments = request.get("arguments")
    if isinstance(arguments, str) and request.get("type") == "custom":  # free text: a call holds JSON
        arguments = {"input": arguments}
    return call(text(request.get("toolCallId")), text(request.get("name")), {} if arguments is None else arguments)


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


READER = Reader("copilot-cli", detect, read)
