"""Inspect's evaluation logs: JSON with samples, each a conversation. Read as chat messages.

The rules are those of Inspect's `ChatMessage` types, its OpenAI provider and its log's attachments.
"""

from collections.abc import Iterator, Sequence

from autoprune.errors import SessionError
from autoprune.sessions._json import Object, fields, listed, objects, text
from autoprune.sessions._recorded import Conversation, Message, Reader, bad_record, note
from autoprune.sessions.as_chat import call, conversation, image, result

ATTACHMENT = "attachment://"


def detect(values: Sequence[object]) -> bool:
    """Look for an evaluation, with its samples or its plan."""
    whole = fields(values[0]) if len(values) == 1 else {}
    return isinstance(whole.get("eval"), dict) and ("samples" in whole or "plan" in whole)


def read(values: Sequence[object]) -> list[Conversation]:
    """Return a conversation per sample and epoch. Raises SessionError where there is none, or a message has no role."""
    samples = objects(fields(values[0]).get("samples"))
    if not samples:
        raise SessionError("the log holds no samples, only the evaluation's header")
    return [_conversation(sample, at) for at, sample in enumerate(samples, 1)]


def _conversation(sample: Object, at: int) -> Conversation:
    records = [fields(record) for record in listed(sample.get("messages"))]
    if not all(text(record.get("role")) for record in records):
        raise bad_record("of the samples has a message without a role", at)
    attachments = fields(sample.get("attachments"))
    parts = (part for record in records for part in objects(record.get("content")))
    left = sum(part.get("type") not in ("text", "image") for part in parts)
    messages = [_message(record, attachments) for record in records]
    return conversation(messages, notes=note("reasoning and other parts that are no text or picture, left out", left))


def _message(record: Object, attachments: Object) -> Message:
    content = _content(record.get("content"), attachments)
    if record["role"] == "tool":
        error = text(fields(record.get("error")).get("message"))
        return result(text(record.get("tool_call_id")), f"Error: {error}" if error else content)
    message: Message = {"role": record["role"], "content": content}
    calls = [_call(made) for made in objects(record.get("tool_calls"))]
    return {**message, "content": content or None, "tool_calls": calls} if calls else message


def _call(made: Object) -> Message:
    return call(text(made.get("id")), text(made.get("function")), fields(made.get("arguments")))


def _content(content: object, attachments: Object) -> object:
    """Return a text, or blocks of text and pictures, with what the log keeps aside put back."""
    if isinstance(content, str):
        return _attached(content, attachments)
    return list(_blocks(objects(content), attachments))


def _blocks(parts: Sequence[Object], attachments: Object) -> Iterator[Message]:
    for part in parts:
        if part.get("type") == "text":
            yield {"type": "text", "text": _attached(text(part.get("text")), attachments)}
        elif part.get("type") == "image":
            yield image(_attached(text(part.get("image")), attachments))


def _attached(value: str, attachments: Object) -> str:
    found = attachments.get(value.removeprefix(ATTACHMENT)) if value.startswith(ATTACHMENT) else None
    return found if isinstance(found, str) else value


READER = Reader("inspect", detect, read)
