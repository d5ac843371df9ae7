"""Gemini contents, as JSON and as google-genai's objects: one content in, one entry out."""

from collections.abc import Iterator, Mapping, Sequence

import autoprune.formats.texts as texts
from autoprune.conversation.messages import fields, fields_of, with_items
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall
from autoprune.errors import ConversationError
from autoprune.formats._media import GEMINI
from autoprune.formats._parts import Payload, join_entries, json_text, tokens
from autoprune.formats.parsing import Parser, native_call, native_result
from autoprune.tokens import MESSAGE_TOKENS, Count

NAME = "gemini"
media = GEMINI
SPEAKERS: Mapping[object, Speaker] = {
    None: Speaker.USER,
    "user": Speaker.USER,
    "model": Speaker.MODEL,
    "function": Speaker.TOOL,
    "tool": Speaker.TOOL,
    "system": Speaker.SYSTEM,
}
# The kinds of parts, as JSON and the SDK name them. Source: google-genai's `types.Part`.
SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
    "audioTranscription": "audio_transcription",
}
KINDS = frozenset(("text", *SNAKE, *SNAKE.values()))
# The fields that the model reads of its built-in tools' parts; others, such as a signature, are not counted.
READ = {
    "executable_code": ("code",),
    "code_execution_result": ("output",),
    "tool_call": ("args",),
    "tool_response": ("response",),
    "audio_transcription": ("text",),
}
BESIDE = frozenset(
    (
        *("thought", "thoughtSignature", "thought_signature", "partMetadata", "part_metadata"),
        *("mediaResolution", "media_resolution", "mediaProcessing", "media_processing"),
        *("videoMetadata", "video_metadata", "audioMetadata", "audio_metadata", "speechMetadata", "speech_metadata"),
        *("documentMetadata", "document_metadata", "spreadsheetMetadata", "spreadsheet_metadata"),
    )
)
FOREIGN = ("type", "kind", "part_kind")  # the fields that name the kind of a part in other libraries
ANSWERS = ("output", "result", "error", "content")  # the names that SDKs give to the text of a response


def seen(message: Mapping[str, object]) -> str | None:
    """Describe the mark of this format in a message; None if there is none."""
    if "parts" not in message or message.get("content") is not None:
        return None
    parts = message["parts"]
    is_known = parts is None or (isinstance(parts, list | tuple) and all(map(_is_part, parts)))
    return "'parts'" if is_known and not any(message.get(name) for name in FOREIGN) else None


def speaker(message: Mapping[str, object]) -> Speaker:
    """Return the speaker of a content; a content that holds only responses comes from the tools."""
    role = message.get("role")
    who = SPEAKERS.get(role, Speaker.OTHER) if role is None or isinstance(role, str) else Speaker.OTHER
    return Speaker.TOOL if who is Speaker.USER and _is_answer(_parts_of(message)) else who


def message(role: str, text: str) -> dict[str, object]:
    """Make a content with a text."""
    return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a content. Each response counts as a message, and everything else together as one more message."""
    who = speaker(message)
    parts = _parts_of(message)
    read = [_read_part(item, (at, "parts", index), who, parser) for index, item in enumerate(parts)]
    return join_entries(who, 0 if _is_answer(parts) else MESSAGE_TOKENS, read)


def _parts_of(message: Mapping[str, object]) -> Sequence[object]:
    parts = message.get("parts")
    return parts if isinstance(parts, list | tuple) else ()


def _is_part(item: object) -> bool:
    part = fields_of(item)
    return isinstance(item, str) or (not KINDS.isdisjoint(part) and not any(part.get(name) for name in FOREIGN))


def _is_answer(parts: Sequence[object]) -> bool:
    return bool(parts) and all(_response_name(fields_of(item)) for item in parts)


def _response_name(part: Mapping[str, object]) -> str | None:
    names = ("functionResponse", "function_response")
    return next((name for name in names if fields(part.get(name)) is not None), None)


def _read_part(item: object, path: Path, who: Speaker, parser: Parser) -> Entry:
    """Read one part."""
    part = fields(item)
    if part is None:
        return _read_text(item, path, who, parser) if isinstance(item, str) else Entry(who, parser.tokens(item))
    if part.get("thought"):
        who = Speaker.OTHER  # a call in the model's thoughts is not made
    entries = [
        _read_field(SNAKE.get(name, name), value, (*path, name), who, parser)
        for name, value in part.items()
        if value is not None and name not in BESIDE
    ]
    return join_entries(who, 0, entries)


def _read_field(kind: str, value: object, path: Path, who: Speaker, parser: Parser) -> Entry:
    """Read one field of a part."""
    if kind == "text" and isinstance(value, str):
        return _read_text(value, path, who, parser)
    inner = fields(value)
    if inner is not None and kind == "function_call":
        return _read_call(inner, path, who, parser)
    if inner is not None and kind == "function_response":
        return _read_response(inner, path, who, parser)
    if inner is not None and kind in READ:
        return Entry(who, sum(parser.tokens(inner.get(name)) for name in READ[kind]))
    return Entry(who, parser.tokens(value))


def _read_text(text: str, path: Path, who: Speaker, parser: Parser) -> Entry:
    if who in (Speaker.USER, Speaker.TOOL):
        results, spent = texts.user_text(text, path, parser)
        return Entry(who, spent, results)
    calls = texts.calls(text, path, parser) if who is Speaker.MODEL else ()
    return Entry(who, parser.count(text), (), tuple(calls))


def _read_call(held: Mapping[str, object], path: Path, who: Speaker, parser: Parser) -> Entry:
    """Read a call. Without an id, responses find it by its name, the oldest call first."""
    tool, arguments = held.get("name"), held.get("args")
    spent = tokens(tool, parser.count) + _json_tokens(arguments, parser.count)
    return Entry(who, spent, (), (native_call(parser, path, held.get("id") or tool, tool, arguments, ("args",)),))


def _read_response(held: Mapping[str, object], path: Path, who: Speaker, parser: Parser) -> Entry:
    """Read a response. Media beside its payload belong to the result, and are cleared with it."""
    payload = _response_payload(held.get("response"), held.get("parts"), parser.count)
    result = native_result(
        parser,
        (*path, "response") if payload.is_fixed and "response" in held else path,
        payload,
        _find_call(held, parser),
        kind=NAME,
        tool=held.get("name"),
        is_error=_is_error(held.get("response")),
    )
    return Entry(who, MESSAGE_TOKENS + payload.tokens, (result,))


def _find_call(held: Mapping[str, object], parser: Parser) -> ToolCall | None:
    """Find the call that a response answers: by id if both have one, else the first open call of the same name."""
    # Ids are optional in this API: a call without one was registered under its name.
    call_id, name = held.get("id"), held.get("name")
    if call_id:
        return parser.answered(call_id) or parser.answered(name)
    return parser.open_calls.close_by_name(name) if isinstance(name, str) else None


def _media(parts: object) -> Iterator[object]:
    """Yield the inline data and files in the parts of a response."""
    for item in parts if isinstance(parts, list | tuple) else ():
        part = fields(item)
        yield from [item] if part is None else (value for name, value in part.items() if name not in BESIDE)


def _response_payload(response: object, parts: object, count: Count) -> Payload:
    """Return the payload of a response: its only string, or else its JSON text."""
    attachments = [*_media(parts)]
    beside = sum(tokens(value, count, media) for value in attachments)
    text = _json_or_none(response) if _only_string(response) is None else _only_string(response)
    if text is None:
        return Payload("", tokens(response, count) + beside, is_fixed=True)
    return Payload(text, count(text) + beside, _with_text, is_plain=not attachments)


def _only_string(response: object) -> str | None:
    """Find the only string in a response, under a name that SDKs use; None if the response holds anything else."""
    if not isinstance(response, Mapping) or len(response) != 1:
        return None
    ((name, text),) = response.items()
    return text if name in ANSWERS and isinstance(text, str) else None


def _json_or_none(value: object) -> str | None:
    """Return a mapping as JSON text; None for anything else, and if JSON cannot represent it."""
    if not isinstance(value, Mapping):
        return None
    try:
        return json_text(value)
    except ConversationError:
        return None


def _json_tokens(value: object, count: Count) -> int:
    text = _json_or_none(value)
    return tokens(value, count) if text is None else count(text)


def _is_error(response: object) -> bool | None:
    """Return whether a response reports a failure, by Gemini's "error" or MCP's "isError"; None if it does not say."""
    match response:
        case {"error": error} if error:
            return True
        case {"isError": True}:
            return True
    return None


def _with_text(held: object, text: str) -> object:
    """Replace the payload and media of a function response with a text. An empty text leaves no payload."""
    response = fields_of(held)
    changes: dict[str, object] = {"response": _write_response(response.get("response"), text) if text else None}
    if isinstance(held, Mapping):
        return with_items({name: value for name, value in held.items() if name != "parts" or not value}, changes)
    return with_items(held, changes | ({"parts": None} if response.get("parts") else {}))


def _write_response(response: object, text: str) -> Mapping[str, object]:
    """Make a response that holds a text. A response stays an object, and an error stays an error.

    Source: google-genai's `types.FunctionResponse`: "output" is the function's output, "error" is error details.
    """
    if _only_string(response) is not None and isinstance(response, Mapping):
        return dict.fromkeys(response, text)
    return {"error" if _is_error(response) else "output": text}
