"""OpenAI Chat Completions, and the XML dialect inside its texts: one message in, one entry out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from autoprune.formats import xml_tool_result as xml
from autoprune.formats.content import NOTHING, TEXT_BLOCKS, fields, tokens
from autoprune.tokens import MESSAGE_TOKENS, NAME_TOKENS, Count
from autoprune.transcript import Entry, Location, Path, Speaker, ToolCall, ToolResult

SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.MODEL,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
}
# What a provider receives besides the content; `reasoning_content` is what DeepSeek, Qwen and others take back.
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

    def answered(self, call_id: object, tool: str) -> ToolCall | None:
        """The open call that a result answers; it is open no longer."""


@dataclass(slots=True)
class Draft:
    """An entry in the making."""

    at: int
    tokens: int
    results: list[ToolResult]
    calls: list[ToolCall]


def parse(message: Mapping[str, object], at: int, dialogue: Dialogue) -> Entry:
    """One message as pruning sees it. Anything unknown in it is counted and otherwise left alone."""
    speaker = SPEAKERS.get(str(message.get("role")), Speaker.OTHER)
    draft = Draft(at, MESSAGE_TOKENS + _extra_tokens(message, dialogue.count), [], [])
    content = message.get("content")
    if speaker is Speaker.TOOL:
        _read_result(draft, message, content, dialogue)
    elif speaker is Speaker.USER:
        _read_user(draft, content, dialogue)
    else:
        draft.tokens += tokens(content, dialogue.count)
    if speaker is Speaker.MODEL:
        draft.calls.extend(_calls(message, content, at, dialogue))
    return Entry(speaker, draft.tokens, tuple(draft.results), tuple(draft.calls))


def _extra_tokens(message: Mapping[str, object], count: Count) -> int:
    """Tokens of everything but the content: name, calls, reasoning."""
    if len(message) == 2:
        return 0
    total = sum(tokens(message[name], count) for name in TEXT_FIELDS if message.get(name))
    if isinstance(name := message.get("name"), str):
        total += NAME_TOKENS + count(name)
    for function in _functions(message):
        total += tokens(function.get("name"), count) + tokens(function.get("arguments"), count)
    return total


def _functions(message: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """What is called, as {"name", "arguments"}: of `tool_calls` (functions and custom tools) and of `function_call`."""
    listed = message.get("tool_calls")
    for call in map(fields, listed) if isinstance(listed, list | tuple) else ():
        yield _function(call or NOTHING)
    if legacy := fields(message.get("function_call")):
        yield legacy


def _function(call: Mapping[str, object]) -> Mapping[str, object]:
    if function := fields(call.get("function")):
        return function
    custom = fields(call.get("custom")) or NOTHING
    return {"name": custom.get("name"), "arguments": custom.get("input")}


def _calls(message: Mapping[str, object], content: object, at: int, dialogue: Dialogue) -> Iterator[ToolCall]:
    listed = message.get("tool_calls")
    for index, item in enumerate(listed if isinstance(listed, list | tuple) else ()):
        call = fields(item) or NOTHING
        function = _function(call)
        name, call_id = function.get("name"), call.get("id")
        yield ToolCall(
            Location((at, "tool_calls", index)),
            dialogue.request,
            call_id if isinstance(call_id, str) else None,
            name if isinstance(name, str) else xml.UNKNOWN,
            function.get("arguments"),
        )
    if legacy := fields(message.get("function_call")):
        name = str(legacy.get("name"))
        yield ToolCall(Location((at, "function_call")), dialogue.request, name, name, legacy.get("arguments"))
    if isinstance(content, str) and "</" in content:
        for start, stop, name, arguments in xml.calls(content):
            yield ToolCall(Location((at, "content"), start, stop), dialogue.request, None, name, arguments)


def _read_result(draft: Draft, message: Mapping[str, object], content: object, dialogue: Dialogue) -> None:
    """The one result of a tool's message. Only a string or a list of blocks can be cleared: others are text."""
    weight = tokens(content, dialogue.count)
    draft.tokens += weight
    name = message.get("name")
    call_id = message.get("tool_call_id") if message.get("role") == "tool" else name
    call = dialogue.answered(call_id, "")
    if not isinstance(content, str | list) or not content:
        return
    piece = content if isinstance(content, str) else ""
    draft.results.append(
        ToolResult(
            location=Location((draft.at, "content")),
            request=call.request if call else dialogue.request,
            sent=dialogue.sent,
            tool=call.name if call else name if isinstance(name, str) else xml.UNKNOWN,
            kind="openai_chat",
            is_error=None,
            call=call,
            piece=piece,
            start=0,
            stop=len(piece),
            piece_tokens=weight,
            tokens=weight,
        )
    )


def _read_user(draft: Draft, content: object, dialogue: Dialogue) -> None:
    if isinstance(content, str):
        _read_text(draft, content, (draft.at, "content"), dialogue)
    elif isinstance(content, list):
        for index, item in enumerate(content):
            block = fields(item) or NOTHING
            text = block.get("text")
            if block.get("type") in TEXT_BLOCKS and isinstance(text, str):
                _read_text(draft, text, (draft.at, "content", index, "text"), dialogue)
            else:
                draft.tokens += tokens(item, dialogue.count)
    else:
        draft.tokens += tokens(content, dialogue.count)


def _read_text(draft: Draft, text: str, path: Path, dialogue: Dialogue) -> None:
    """A user's text: counted in pieces, so that clearing one result never counts the others anew."""
    found = xml.spans(text) if "<tool_result" in text and dialogue.is_tool_result(text) else []
    if not found:
        draft.tokens += dialogue.count(text)
        return
    edges = [0, *xml.cuts(text, found), len(text)]
    for span, begin, end in zip(found, edges, edges[1:], strict=False):
        piece = text[begin:end]
        weight = dialogue.count(piece)
        draft.tokens += weight
        draft.results.append(
            _xml_result(Location(path, span.start, span.stop), text, span, begin, piece, weight, dialogue)
        )


def _xml_result(
    location: Location, text: str, span: xml.Span, begin: int, piece: str, weight: int, dialogue: Dialogue
) -> ToolResult:
    tag = text[span.begin : span.start]
    tool = dialogue.tool_name(tag)
    call = dialogue.answered(None, tool)
    start, stop = span.start - begin, span.stop - begin
    return ToolResult(
        location=location,
        request=call.request if call else dialogue.request,
        sent=dialogue.sent,
        tool=tool,
        kind="xml",
        is_error=xml.read_start_tag(tag).is_error,
        call=call,
        piece=piece,
        start=start,
        stop=stop,
        piece_tokens=weight,
        tokens=weight - dialogue.count(piece[:start] + piece[stop:]),
    )
