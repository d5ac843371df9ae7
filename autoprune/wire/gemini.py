"""The Gemini API: how its contents are read, its rules with the texts of its errors, and their repair."""

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial

import autoprune.wire.texts as texts
from autoprune.conversation.messages import fields, fields_of, items_of, with_item, with_items
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall
from autoprune.errors import ConversationError
from autoprune.tokens import MESSAGE_TOKENS, Count
from autoprune.wire._block_repair import Shape, repair_blocks
from autoprune.wire._media import GEMINI
from autoprune.wire._parts import Payload, join_entries, json_text, tokens
from autoprune.wire._rules import (
    BlockMessage,
    Problem,
    Provider,
    check_neighbors,
    find_first,
    is_bare,
    is_empty_text,
    read_turn,
    string_of,
    with_blocks,
    with_neighbors,
)
from autoprune.wire.parsing import Parser, native_call, native_result

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
# The names of fields in JSON and in the SDK.
CALL = ("functionCall", "function_call")
RESPONSE = ("functionResponse", "function_response")
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
    return Speaker.TOOL if who is Speaker.USER and _is_answer(items_of(message.get("parts"))) else who


def message(role: str, text: str) -> dict[str, object]:
    """Make a content with a text."""
    return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}


def parse(message: Mapping[str, object], at: int, parser: Parser) -> Entry:
    """Read a content. Each response counts as a message, and everything else together as one more message."""
    who = speaker(message)
    parts = items_of(message.get("parts"))
    read = [_read_part(item, (at, "parts", index), who, parser) for index, item in enumerate(parts)]
    return join_entries(who, 0 if _is_answer(parts) else MESSAGE_TOKENS, read)


def _is_part(item: object) -> bool:
    part = fields_of(item)
    return isinstance(item, str) or (not KINDS.isdisjoint(part) and not any(part.get(name) for name in FOREIGN))


def _is_answer(parts: Sequence[object]) -> bool:
    return bool(parts) and all(_response_name(fields_of(item)) for item in parts)


def _response_name(part: Mapping[str, object]) -> str | None:
    return next((name for name in RESPONSE if fields(part.get(name)) is not None), None)


def _read_part(item: object, path: Path, who: Speaker, parser: Parser) -> Entry:
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
    for item in items_of(parts):
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


# Its rules

ROLES = (None, "user", "model", "function")  # in the SDK's types, a content without a role is the user's
SIGNATURE = ("thoughtSignature", "thought_signature")
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts "
    "of the function call turn."
)
CALL_PLACE = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
ORPHAN = "Please ensure that function response turn comes immediately after a function call turn."
NO_ROLE = "Please use a valid role: user, model."
NO_PARTS = "* GenerateContentRequest.contents[{}].parts: contents.parts must not be empty."
NO_DATA = (
    "* GenerateContentRequest.contents[{}].parts[{}].data: required oneof field 'data' must have one initialized field"
)
NO_TEXT = "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again."
NO_STRUCT = (
    "Invalid value at 'contents[{}].parts[{}].function_response.response' (type.googleapis.com/google.protobuf.Struct)"
)
LIST_FOR_STRUCT = (
    "Invalid JSON payload received. Unknown name \"response\" at 'contents[{}].parts[{}].function_response': "
    "Proto field is not repeating, cannot start list."
)
# Our own texts, since those of the API are not known.
OTHER_NAME = "contents[{}].parts[{}]: the function response is named {}, its function call {}"
NO_NAME = "contents[{}].parts[{}]: the function response is named {}, no function call that is left before it"


def find_problems(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the rules that the API would find broken, content by content."""
    for at, before, one, following in with_neighbors([read_turn(message, "parts") for message in messages]):
        if one.fields and one.role not in ROLES:
            yield Problem(NAME, "unknown_role", (at, "role"), NO_ROLE)
        yield from _check_parts(at, one)
        yield from _check_places(at, one)
        yield from _check_responses(at, one, model_calls(before))
        yield from _check_calls(at, one, before, following)


def model_calls(one: BlockMessage) -> list[Mapping[str, object]]:
    """Return the function calls in a content of the model; empty for other contents."""
    return [fields_of(call) for _, _, call in find_first(one.blocks, CALL)] if one.role == "model" else []


def _check_parts(at: int, one: BlockMessage) -> Iterator[Problem]:
    # The SDK also accepts bare parts in place of contents.
    if one.fields and is_bare(one.content) and (one.role is not None or _is_empty(one.fields)):
        yield Problem(NAME, "empty_content", (at, "parts"), NO_PARTS.format(at))
    for index, (part, item) in enumerate(zip(one.blocks, items_of(one.content), strict=True)):
        path: Path = (at, "parts", index)
        if _is_empty(part) and fields(item) is not None:
            yield Problem(NAME, "empty_part", path, NO_DATA.format(at, index))
        elif is_empty_text(part.get("text")) and part.get("thought") is not True and not _is_signed(part):
            yield Problem(NAME, "empty_text", path, NO_TEXT)
    for index, name, value in find_first(one.blocks, RESPONSE):
        response = fields_of(value).get("response")
        if isinstance(response, str | int | float | list | tuple):
            said = LIST_FOR_STRUCT if isinstance(response, list | tuple) else NO_STRUCT
            where: Path = (at, "parts", index, name, "response")
            yield Problem(NAME, "result_shape", where, said.format(at, index))


def _is_empty(part: Mapping[str, object]) -> bool:
    """Return whether a part is empty, or only marked as a thought."""
    return all(value is None or name in ("thought", "parts") for name, value in part.items())


def _is_signed(part: Mapping[str, object]) -> bool:
    """Return whether a part has a signature.

    Gemini sends some signed parts with an empty text, and requires them in the next request.
    """
    return any(part.get(name) is not None for name in SIGNATURE)


def _check_calls(at: int, one: BlockMessage, before: BlockMessage, following: BlockMessage) -> Iterator[Problem]:
    wanted = len(model_calls(one))
    if wanted and (at == 0 or before.role == "model"):
        yield Problem(NAME, "call_place", (at,), CALL_PLACE)
    if wanted > sum(1 for _ in find_first(following.blocks, RESPONSE)):
        yield Problem(NAME, "unanswered_call", (at,), COUNT)


def _check_places(at: int, one: BlockMessage) -> Iterator[Problem]:
    """Check that only the model's contents hold calls, and only other contents hold responses."""
    is_model = one.role == "model"
    for index, name, _ in find_first(one.blocks, RESPONSE if is_model else CALL):
        rule, said = ("misplaced_result", ORPHAN) if is_model else ("misplaced_call", CALL_PLACE)
        yield Problem(NAME, rule, (at, "parts", index, name), said)


def _check_responses(at: int, one: BlockMessage, wanted: Sequence[Mapping[str, object]]) -> Iterator[Problem]:
    """Check that a content has a response for each call of the previous content, with the same name."""
    responses = list(find_first(one.blocks, RESPONSE)) if one.role != "model" else []
    answered = _match_responses(wanted, [fields_of(value) for _, _, value in responses])
    for number, (index, name, value) in enumerate(responses):
        path: Path = (at, "parts", index, name)
        response, call = string_of(fields_of(value).get("name")), answered.get(number)
        if call is None and len(responses) > len(wanted):
            yield Problem(NAME, "orphan_result", path, COUNT if wanted else ORPHAN)
        elif call is None:
            yield Problem(NAME, "result_names", path, NO_NAME.format(at, index, response))
        elif string_of(call.get("name")) != response:
            said = OTHER_NAME.format(at, index, response, string_of(call.get("name")))
            yield Problem(NAME, "result_names", path, said)


def _match_responses(
    calls: Sequence[Mapping[str, object]], responses: Sequence[Mapping[str, object]]
) -> dict[int, Mapping[str, object]]:
    """Match each response with a call: by id and name, or else by id, or else by name, the first call first."""
    matches: dict[int, int] = {}
    for names in (("id", "name"), ("id",), ("name",)):
        answered = set(matches.values())
        waiting: dict[tuple[str | None, ...], deque[int]] = {}
        for at, call in enumerate(calls):
            if at not in answered:
                waiting.setdefault(tuple(string_of(call.get(name)) for name in names), deque()).append(at)
        for at, response in enumerate(responses):
            key = tuple(string_of(response.get(name)) for name in names)
            if at not in matches and None not in key and waiting.get(key):
                matches[at] = waiting[key].popleft()
    return {at: calls[call] for at, call in matches.items()}


def check_alternation(messages: Sequence[object]) -> Iterator[Problem]:
    """Yield the places at which user and model do not alternate, which local chat templates reject."""
    yield from check_neighbors(NAME, [_role_of(message) for message in messages], "model")


def _role_of(message: object) -> str | None:
    """Return the speaker of a content: the user's role is optional, and responses may have the role "function"."""
    own = fields_of(message)
    role = string_of(own.get("role"))
    return "user" if role == "function" or (own and own.get("role") is None) else role


class _GeminiShape(Shape):
    """Contents with a list of parts, each under the name of its kind."""

    field = "parts"
    model = "model"
    users = ("user", None, "function")

    def new_message(self, role: str, blocks: Sequence[object], like: object) -> object:
        """Create a content from parts, of the same type as `like` if `like` is an SDK's object."""
        if isinstance(like, Mapping) or not fields_of(like):
            return super().new_message(role, blocks, like)
        return with_blocks(with_item(like, "role", role), self.field, blocks)

    def call_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return the keys by which a response can name a call: its id and name, its id, or its name."""
        for _, _, call in find_first([fields_of(found)], CALL) if role == self.model else ():
            name, call_id = _name_and_id(call)
            own = (("name", name),) if call_id is None else (("id", name, call_id), ("id", call_id))
            return (*own, ("any", name))
        return None

    def result_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return the keys by which a response names its call, best first.

        A response with an id answers the call with that id, or else a call with its name and without an id. A response
        without an id answers any call with its name.
        """
        for _, _, response in find_first([fields_of(found)], RESPONSE):
            name, call_id = _name_and_id(response)
            return (("any", name),) if call_id is None else (("id", name, call_id), ("id", call_id), ("name", name))
        return None

    def nearby_keys(self, found: object) -> tuple[Hashable, ...]:
        """Return the name as a key: directly after the calls, a response can answer by name even if the ids differ."""
        return (("any", self.result_name(found)),)

    def with_call_name(self, found: object, call: object) -> object:
        """Copy a response with the name of its call. Return a response that has this name unchanged."""
        ((_, _, called),), ((_, spelled, response),) = (
            find_first([fields_of(call)], CALL),
            find_first([fields_of(found)], RESPONSE),
        )
        wanted = fields_of(called).get("name")
        if wanted is None or wanted == fields_of(response).get("name"):
            return found
        return with_item(found, spelled, with_item(response, "name", wanted))

    def result_name(self, found: object) -> str:
        ((_, _, response),) = find_first([fields_of(found)], RESPONSE)
        return _name_and_id(response)[0]

    def no_result(self, call: object, reason: str) -> object:
        ((_, spelled, found),) = find_first([fields_of(call)], CALL)
        named = {name: value for name in ("id", "name") if (value := fields_of(found).get(name)) is not None}
        return {RESPONSE[CALL.index(spelled)]: {**named, "response": {"error": reason}}}

    def repair_result(self, found: object) -> object:
        """Copy a response, with its value wrapped in an object."""
        ((_, spelled, response),) = find_first([fields_of(found)], RESPONSE)
        output = {"output": fields_of(response)["response"]}
        return with_item(found, spelled, with_item(response, "response", output))


def _name_and_id(value: object) -> tuple[str, str | None]:
    one = fields_of(value)
    call_id = one.get("id")
    return str(one.get("name")), None if call_id is None else str(call_id)


PROVIDER = Provider(
    NAME,
    find_problems,
    partial(repair_blocks, _GeminiShape()),
    other_names=("google", "genai", "google_genai", "vertex", "vertex_ai", "vertexai"),
    alternation=check_alternation,
    begins_with_user=True,
)
