"""Inspect's evaluation logs: JSON with samples, each a conversation. Read as chat messages.

The rules are those of Inspect's `ChatMessage` types, its OpenAI provider and its log's attachments.
"""

from collections.abc import Iterator, Mapping, Sequence

from autoprune.errors import SessionError
from autoprune.sessions.as_chat import call, image, result, run
from autoprune.sessions.json_values import fields, listed, objects, text
from autoprune.sessions.recording import Message, Run, counted, wrong

NAME = "inspect"
Entry = Mapping[str, object]
ATTACHMENT = "attachment://"


def detect(values: Sequence[object]) -> bool:
    """An evaluation, with its samples or its plan."""
    whole = fields(values[0]) if len(values) == 1 else {}
    return isinstance(whole.get("eval"), dict) and ("samples" in whole or "plan" in whole)


def read(values: Sequence[object]) -> list[Run]:
    """A conversation per sample and epoch. Raises SessionError where there is none, or a message has no role."""
    samples = objects(fields(values[0]).get("samples"))
    if not samples:
        raise SessionError("the log holds no samples, only the evaluation's header")
    return [_run(sample, at) for at, sample in enumerate(samples, 1)]


def _run(sample: Entry, at: int) -> Run:
    entries = [fields(entry) for entry in listed(sample.get("messages"))]
    if not all(text(entry.get("role")) for entry in entries):
        raise wrong("of the samples has a message without a role", at)
    attachments = fields(sample.get("attachments"))
    left = sum(part.get("type") not in ("text", "image") for entry in entries for part in objects(entry.get("content")))
    messages = [_message(entry, attachments) for entry in entries]
    return run(messages, notes=counted("reasoning and other parts that are no text or picture, left out", left))


def _message(entry: Entry, attachments: Entry) -> Message:
    content = _content(entry.get("content"), attachments)
    if entry["role"] == "tool":
        error = text(fields(entry.get("error")).get("message"))
        return result(text(entry.get("tool_call_id")), f"Error: {error}" if error else content)
    message: Message = {"role": entry["role"], "content": content}
    calls = [_call(made) for made in objects(entry.get("tool_calls"))]
    return {**message, "content": content or None, "tool_calls": calls} if calls else message


def _call(made: Entry) -> Message:
    return call(text(made.get("id")), text(made.get("function")), fields(made.get("arguments")))


def _content(content: object, attachments: Entry) -> object:
    """A text, or blocks of text and pictures, with what the log keeps aside put back."""
    if isinstance(content, str):
        return _attached(content, attachments)
    return list(_blocks(objects(content), attachments))


def _blocks(parts: Sequence[Entry], attachments: Entry) -> Iterator[Message]:
    for part in parts:
        if part.get("type") == "text":
            yield {"type": "text", "text": _attached(text(part.get("text")), attachments)}
        elif part.get("type") == "image":
            yield image(_attached(text(part.get("image")), attachments))


def _attached(value: str, attachments: Entry) -> str:
    found = attachments.get(value.removeprefix(ATTACHMENT)) if value.startswith(ATTACHMENT) else None
    return found if isinstance(found, str) else value
