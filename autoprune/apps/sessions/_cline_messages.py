"""Reader of Cline's sessions (`messages.json`, contract version 1). Returns Anthropic messages.

Cline's older `api_conversation_history.json` is a plain list of Anthropic messages and needs no reader. The rules are
those of Cline's `messages-contract-v1`, `message-builder` and `ai-sdk-format`. Cline also cuts results of over 8,000
characters when it sends them; this reader does not.
"""

from collections.abc import Iterator, Sequence

from autoprune.apps.sessions._json import Object, compact, fields, listed, objects, text
from autoprune.apps.sessions._recording import (
    Answer,
    Conversation,
    Message,
    Moment,
    Reader,
    bad_record,
    build_usage,
    note,
    parse_milliseconds,
    prompt_note,
)
from autoprune.apps.sessions._sending import (
    ANTHROPIC,
    content_blocks,
    conversation,
    image_block,
    stretch,
    text_block,
    without_thoughts,
)

# Parts that are sent as separate blocks, also within results.
SHOWN = ("text", "image", "file")


def detect(values: Sequence[object]) -> bool:
    """Look for messages, a session's id, a version and the kind of agent in one object."""
    whole = fields(values[0]) if len(values) == 1 else {}
    is_session = isinstance(whole.get("sessionId"), str) and isinstance(whole.get("agent"), str)
    return is_session and "version" in whole and isinstance(whole.get("messages"), list)


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the one conversation. Raises SessionError for an entry that is not a message."""
    messages = map(_api_message, _messages(values))
    return [conversation(ANTHROPIC, messages, notes=_file_notes(fields(values[0])))]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation as one stretch. Raises SessionError like `read`."""
    said = ((without_thoughts(_api_message(message)), _message_moment(message)) for message in _messages(values))
    return [[stretch(ANTHROPIC, said)]]


def _messages(values: Sequence[object]) -> list[Object]:
    messages = [fields(message) for message in listed(fields(values[0]).get("messages"))]
    for at, message in enumerate(messages, 1):
        if message.get("role") not in ("user", "assistant") or not isinstance(message.get("content"), str | list):
            raise bad_record("of the messages has no role of user or assistant, or no content", at)
    return messages


def _message_moment(message: Object) -> Moment:
    time = parse_milliseconds(message.get("ts"))
    if message["role"] == "user":
        return time
    metrics = fields(message.get("metrics"))
    cached, written = metrics.get("cacheReadTokens"), metrics.get("cacheWriteTokens")
    usage = build_usage(
        metrics.get("inputTokens"), cached, written, metrics.get("outputTokens"), cost=metrics.get("cost")
    )
    return Answer(time, text(fields(message.get("modelInfo")).get("id")), usage)


def _api_message(message: Object) -> Message:
    return {"role": message["role"], "content": list(_api_blocks(message["content"]))}


def _api_blocks(content: object) -> Iterator[Object]:
    for part in content_blocks(content):
        match part.get("type"):
            case "tool_use":
                named = {"id": text(part.get("id")), "name": text(part.get("name"))}
                yield {"type": "tool_use", **named, "input": fields(part.get("input"))}
            case "tool_result":
                yield _result_block(part)
            case "thinking" if text(part.get("signature")):
                yield {"type": "thinking", "thinking": text(part.get("thinking")), "signature": part["signature"]}
            case "redacted_thinking":
                yield {"type": "redacted_thinking", "data": text(part.get("data"))}
            case kind if kind in SHOWN:
                yield _shown_block(part)


def _shown_block(part: Object) -> Object:
    """Convert a part to a block of text or a picture; files are sent as text."""
    if part.get("type") == "image":
        return image_block(part.get("mediaType"), part.get("data"))
    if part.get("type") == "file":
        named = f'<file_content path="{text(part.get("path"))}">'
        return text_block(f"{named}\n{text(part.get('content'))}\n</file_content>")
    return text_block(text(part.get("text")))


def _result_block(part: Object) -> Object:
    """Convert a result; a tool's structured output is sent as JSON."""
    content = part.get("content")
    parts = objects(content)
    is_shown = parts and len(parts) == len(listed(content)) and all(each.get("type") in SHOWN for each in parts)
    if is_shown:
        payload: object = [_shown_block(each) for each in parts]
    else:
        payload = content if isinstance(content, str) else compact(content)
    block: Object = {"type": "tool_result", "tool_use_id": text(part.get("tool_use_id")), "content": payload}
    return {**block, "is_error": True} if part.get("is_error") is True else block


def _file_notes(whole: Object) -> Iterator[str]:
    size = len(text(whole.get("system_prompt")))
    yield prompt_note(size)
    parts = [part for message in objects(whole.get("messages")) for part in objects(message.get("content"))]
    unsigned = sum(part.get("type") == "thinking" and not text(part.get("signature")) for part in parts)
    yield from note("thoughts without a signature, left out", unsigned)
    yield from note("media that the model made, left out", sum(part.get("type") == "media" for part in parts))


READER = Reader("cline", detect, read, record)
