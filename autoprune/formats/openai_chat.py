"""OpenAI Chat Completions, and the XML dialect inside its texts: one message in, one entry out."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from autoprune.formats import xml_tool_result as xml
from autoprune.formats.content import NOTHING, TEXT_BLOCKS, fields, text_of, tokens
from autoprune.tokens import MESSAGE_TOKENS, NAME_TOKENS, Count
from autoprune.transcript import Entry, Location, Path, Speaker, ToolCall, ToolResult

SPEAKERS: Mapping[object, Speaker] = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.MODEL,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
}
# What a provider receives besides the content; `reasoning_content` is what DeepSeek, Qwen and others take back.
KIND = "openai_chat"
TEXT_FIELDS = ("refusal", "reasoning_content")


class Dialogue(Protocol):
    """What has gone before, as far as the next message needs it."""

    count: Count
    sent: int

    @property
    def request(self) -> int:
        """The request that the model answers, or has answered last."""

    def is_tool_result(self, text: str) -> bool:
        """Whether a user's text can hold results."""

    def tool_name(self, tag: str) -> str:
        """The tool that a start tag names."""

    def answered(self, call_id: object) -> ToolCall | None:
        """The open call with an id; it is open no longer."""

    def answered_in_text(self, tool: str) -> ToolCall | None:
        """The open call of a tool in the model's text; it is open no longer."""


def parse(message: Mapping[str, object], at: int, dialogue: Dialogue) -> Entry:
    """One message as pruning sees it. Anything unknown in it is counted and otherwise left alone."""
    speaker = SPEAKERS.get(message["role"], Speaker.OTHER)
    content = message.get("content")
    weight = MESSAGE_TOKENS + (_name_tokens(message, dialogue.count) if "name" in message else 0)
    if speaker is Speaker.TOOL:
        payload = tokens(content, dialogue.count)
        return Entry(speaker, weight + payload, _result(message, content, payload, at, dialogue))
    if speaker is Speaker.USER:
        results, payload = _user_content(content, at, dialogue)
        return Entry(speaker, weight + payload, results)
    weight += tokens(content, dialogue.count)
    if speaker is Speaker.MODEL:
        calls, spent = _calls(message, at, dialogue) if len(message) > 2 else ([], 0)
        return Entry(speaker, weight + spent, (), (*calls, *_calls_in_text(content, at, dialogue)))
    return Entry(speaker, weight)


def _name_tokens(message: Mapping[str, object], count: Count) -> int:
    name = message["name"]
    return NAME_TOKENS + count(name) if isinstance(name, str) else 0


def _calls(message: Mapping[str, object], at: int, dialogue: Dialogue) -> tuple[list[ToolCall], int]:
    """The native calls of an assistant's message, and the tokens of everything in it but name and content."""
    count, request = dialogue.count, dialogue.request
    calls: list[ToolCall] = []
    spent = 0
    for name in TEXT_FIELDS:
        if name in message:
            spent += tokens(message[name], count)
    listed = message.get("tool_calls")
    for index, item in enumerate(listed if isinstance(listed, list | tuple) else ()):
        call = fields(item) or NOTHING
        tool, arguments = _function(call)
        spent += tokens(tool, count) + tokens(arguments, count)
        known_id = call.get("id")
        call_id = known_id if isinstance(known_id, str) else None
        calls.append(ToolCall(Location((at, "tool_calls", index)), request, call_id, _tool(tool), arguments))
    if legacy := fields(message.get("function_call")):
        tool, arguments = legacy.get("name"), legacy.get("arguments")
        spent += tokens(tool, count) + tokens(arguments, count)
        calls.append(ToolCall(Location((at, "function_call")), request, _tool(tool), _tool(tool), arguments))
    return calls, spent


def _function(call: Mapping[str, object]) -> tuple[object, object]:
    """Name and arguments of a function's call, or of a custom tool's."""
    if function := fields(call.get("function")):
        return function.get("name"), function.get("arguments")
    custom = fields(call.get("custom")) or NOTHING
    return custom.get("name"), custom.get("input")


def _tool(name: object) -> str:
    return name if isinstance(name, str) else xml.UNKNOWN


def _calls_in_text(content: object, at: int, dialogue: Dialogue) -> Iterator[ToolCall]:
    if isinstance(content, str) and "</" in content:
        for start, stop, name, arguments in xml.calls(content):
            yield ToolCall(Location((at, "content"), start, stop), dialogue.request, None, name, arguments)


def _result(
    message: Mapping[str, object], content: object, weight: int, at: int, dialogue: Dialogue
) -> tuple[ToolResult, ...]:
    """The one result of a tool's message. Only a string or a list of blocks can be cleared; anything else is text."""
    name = message.get("name")
    call = dialogue.answered(message.get("tool_call_id") if message["role"] == "tool" else name)
    if not content or not isinstance(content, str | list):
        return ()
    request, tool = (call.request, call.name) if call else (dialogue.request, _tool(name))
    piece = content if isinstance(content, str) else text_of(content)
    location, stop = Location((at, "content")), len(piece)
    return (ToolResult(location, request, dialogue.sent, tool, KIND, None, call, piece, 0, stop, weight, weight),)


def _user_content(content: object, at: int, dialogue: Dialogue) -> tuple[tuple[ToolResult, ...], int]:
    """The results in a user's message and the tokens of its content: a text, blocks of text, or anything else."""
    if isinstance(content, str):
        results, weight = _read_text(content, (at, "content"), dialogue)
        return tuple(results), weight
    if not isinstance(content, list):
        return (), tokens(content, dialogue.count)
    found: list[ToolResult] = []
    total = 0
    for index, item in enumerate(content):
        block = fields(item) or NOTHING
        text = block.get("text")
        if block.get("type") in TEXT_BLOCKS and isinstance(text, str):
            results, weight = _read_text(text, (at, "content", index, "text"), dialogue)
            found += results
        else:
            weight = tokens(item, dialogue.count)
        total += weight
    return tuple(found), total


def _read_text(text: str, path: Path, dialogue: Dialogue) -> tuple[list[ToolResult], int]:
    """A user's text: counted in pieces, so that clearing one result never counts the others anew."""
    found = xml.spans(text) if "<tool_result" in text and dialogue.is_tool_result(text) else []
    if not found:
        return [], dialogue.count(text)
    edges = [0, *xml.cuts(text, found), len(text)]
    results = [
        _xml_result(text, span, path, begin, end, dialogue)
        for span, begin, end in zip(found, edges, edges[1:], strict=False)
    ]
    return results, sum(result.piece_tokens for result in results)


def _xml_result(text: str, span: xml.Span, path: Path, begin: int, end: int, dialogue: Dialogue) -> ToolResult:
    """One result in a text; its piece is what stands between `begin` and `end`."""
    tag = text[span.begin : span.start]
    tool = dialogue.tool_name(tag)
    call = dialogue.answered_in_text(tool)
    piece, start, stop = text[begin:end], span.start - begin, span.stop - begin
    weight = dialogue.count(piece)
    return ToolResult(
        location=Location(path, span.start, span.stop),
        request=call.request if call else dialogue.request,
        sent=dialogue.sent,
        tool=tool,
        kind=xml.KIND,
        is_error=xml.is_error(tag),
        call=call,
        piece=piece,
        start=start,
        stop=stop,
        piece_tokens=weight,
        tokens=weight - dialogue.count(piece[:start] + piece[stop:]),
    )
