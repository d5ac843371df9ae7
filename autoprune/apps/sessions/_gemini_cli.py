"""Reader of Gemini CLI's chats: one JSON object, or since 2026 JSONL of messages and updates. Returns Gemini contents.

The rules are those of Gemini CLI: `chatRecordingService` loads a chat, `sessionUtils` selects the records to send.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from autoprune.apps.sessions._json import Object, fields, objects, text
from autoprune.apps.sessions._recording import (
    NO_SYSTEM_PROMPT,
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    bad_record,
    besides,
    build_usage,
    note,
    parse_time,
    token_count,
)
from autoprune.apps.sessions._sending import GEMINI, conversation, function_call, function_response, stretch

Record = Object
# Prefixes of commands to the CLI itself, and of context that it writes at each start.
IGNORED = ("/", "?", "<session_context>", "<hook_context>")


def detect(values: Sequence[object]) -> bool:
    """Look for a session's id and its project's hash in the first value, which is the header or the whole chat.

    If the header was lost, one of the first records is a message of the model.
    """
    first = fields(values[0]) if values else {}
    if any(value.get("type") == "gemini" and {"id", "timestamp"} <= value.keys() for value in map(fields, values[:20])):
        return True
    return isinstance(first.get("sessionId"), str) and isinstance(first.get("projectHash"), str)


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the one conversation in a chat, with rewinds applied. Raises SessionError for a record of another kind."""
    *_, (records, _) = _histories(values, [])
    contents = (content for content, _ in _history_contents(records))
    commands = sum(record.get("type") == "user" and _is_ignored(record) for record in records)
    notes = [NO_SYSTEM_PROMPT, *note("commands and context of the CLI's own, left out", commands)]
    return [conversation(GEMINI, contents, notes=notes)]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation in a chat as its stretches between rewrites. Raises SessionError like `read`."""
    answered: list[Record] = []  # also those that were taken back, or that have no part that could be sent again
    found: list[Conversation] = []
    for records, kept in _histories(values, answered):
        found.append(_stretch(records, kept))
        answered += records
    moments = (_content_moment(each, "model") for each in answered if each.get("type") == "gemini")
    paid = {(each.time, each.usage): each for each in moments if isinstance(each, Answer)}
    found[-1] = replace(found[-1], besides=besides(paid.values(), found))
    return [found]


def _stretch(records: Sequence[Record], kept: Container[str]) -> Conversation:
    """Create a stretch from records. Answers that a rewrite of the history `kept` are not new requests."""
    said = (
        (content, None if text(record.get("id")) in kept else _content_moment(record, content["role"]))
        for content, record in _history_contents(records)
    )
    return stretch(GEMINI, said)


def _content_moment(record: Record, role: object) -> Moment:
    """Return the recorded data of a content. Responses to calls have the time of the last call in their record."""
    time = parse_time(record.get("timestamp"))
    if role == "user":
        # The responses to all calls of a record are sent together, when the last call is done.
        times = (parse_time(made.get("timestamp")) for made in objects(record.get("toolCalls")))
        return max((each for each in times if each is not None), default=time)
    counted = fields(record.get("tokens"))
    prompt, output = (
        sum(token_count(counted.get(name)) for name in names) for names in (("input", "tool"), ("output", "thoughts"))
    )
    return Answer(time, text(record.get("model")), build_usage(prompt, counted.get("cached"), output=output))


def _history_contents(records: Sequence[Record]) -> Iterator[tuple[Message, Record]]:
    """Yield the contents to send, each with its record."""
    done = {
        text(made.get("id")) for record in records for made in objects(record.get("toolCalls")) if made.get("result")
    }
    for record in records:
        if not _is_copy(record, done):
            yield from ((content, record) for content in _contents(record) if content["parts"])


def _histories(values: Sequence[object], rewound: list[Record]) -> Iterator[tuple[list[Record], frozenset[str]]]:
    """Yield the history before each rewrite that does more than append, and the history at the end.

    A message that was logged several times stays at its first position, with its latest content. Each history comes
    with the ids of the messages that the previous rewrite kept. Messages that were taken back are added to `rewound`.
    """
    records: dict[str, Record] = {}
    kept: frozenset[str] = frozenset()
    for at, value in enumerate(values, 1):
        line = fields(value)
        update = fields(line.get("$set")) if "$set" in line else line
        if isinstance(line.get("$rewindTo"), str):
            rewound += _rewind(records, text(line["$rewindTo"]))
        elif isinstance(update.get("messages"), list):
            new = {text(each.get("id")) or str(place): each for place, each in enumerate(objects(update["messages"]))}
            if not _is_addition(list(records.values()), list(new.values())):
                yield list(records.values()), kept
                kept = frozenset(new)
            records = new
        elif isinstance(line.get("id"), str):
            records[text(line["id"])] = line
        elif "$set" not in line and "sessionId" not in line:
            raise bad_record("is neither a message nor an update of a Gemini CLI chat", at)
    yield list(records.values()), kept


def _is_addition(old: Sequence[Record], new: Sequence[Record]) -> bool:
    """Return whether a new history begins with the old one, so that no sent part has changed."""
    before, after = _history_parts(old), _history_parts(new)
    return before == after[: len(before)]


def _history_parts(records: Sequence[Record]) -> list[tuple[object, Object]]:
    """Return the parts of a history that are sent, each with its role."""
    messages = _stretch(records, ()).messages
    return [(message["role"], part) for message in messages for part in objects(message["parts"])]


def _rewind(known: dict[str, Record], to: str) -> list[Record]:
    """Remove a message and all later ones, and return them. If it is unknown, remove all, as Gemini CLI does."""
    names = list(known)
    return [known.pop(name) for name in names[names.index(to) if to in known else 0 :]]


def _contents(record: Record) -> Iterator[Message]:
    """Yield the contents of a record: its parts, then the responses to its calls."""
    parts = _as_parts(record.get("content"))
    if record.get("type") == "user" and not _is_ignored(record):
        yield {"role": "user", "parts": parts}
    elif record.get("type") == "gemini":
        calls = objects(record.get("toolCalls"))
        is_held = any("functionCall" in part for part in parts)
        asked = () if is_held else ({"functionCall": function_call(made, made.get("args"))} for made in calls)
        yield {"role": "model", "parts": [*parts, *asked]}
        responses = [part for made in calls for part in _responses(made, is_first=made is calls[0])]
        yield {"role": "user", "parts": responses}


def _is_copy(record: Record, done: set[str]) -> bool:
    """Return whether a user's message holds responses that are also recorded with their calls, as since 2026."""
    responses = [fields(part.get("functionResponse")) for part in _as_parts(record.get("content"))]
    return record.get("type") == "user" and any(text(each.get("id")) in done for each in responses if each)


def _as_parts(content: object) -> list[Object]:
    items = content if isinstance(content, list) else [content]
    return [{"text": item} if isinstance(item, str) else fields(item) for item in items if isinstance(item, str | dict)]


def _is_ignored(record: Record) -> bool:
    """Return whether Gemini CLI does not send a user's message, because it is blank or a command."""
    parts = _as_parts(record.get("content"))
    said = "".join(text(part.get("text")) for part in parts).strip()
    return said.startswith(IGNORED) or (not said and all("text" in part for part in parts))


def _responses(made: Record, *, is_first: bool) -> Iterator[Object]:
    """Yield the response to a call, and other parts of its result, such as a picture.

    After a rewrite of the history, each call holds the responses to all calls of its message: only the call's own
    response is used, and the other parts are used once, for the first call.
    """
    result = made.get("result")
    if isinstance(result, str) and result:
        yield function_response(made, {"output": result})
        return
    parts = _as_parts(result) if result else []
    responses = [fields(part["functionResponse"]) for part in parts if "functionResponse" in part]
    own = [each for each in responses if text(each.get("id")) in ("", text(made.get("id")))]
    for each in own[:1]:
        yield function_response(made, each.get("response"))
    if len(responses) < 2 or is_first:
        yield from (part for part in parts if "functionResponse" not in part)


PLACES = (".gemini/tmp/*/chats/**/*.json", ".gemini/tmp/*/chats/**/*.jsonl")
READER = Reader("gemini-cli", detect, read, record, PLACES)
