"""Calls and results that a format writes natively, as blocks or messages of their own."""

from collections.abc import Mapping

from autoprune.conversation.transcript import (
    Location,
    Path,
    ToolCall,
    ToolInput,
    ToolResult,
    as_text,
)
from autoprune.formats._payloads import Payload, as_json, json_text
from autoprune.formats.parsing import Parser

UNKNOWN = "unknown"  # the tool of a result that does not say which made it


def native_call(parser: Parser, path: Path, call_id: object, tool: object, arguments: object, inside: Path) -> ToolCall:
    """Return the call at `path`, whose arguments stand below it at `inside`."""
    name = tool if isinstance(tool, str) else UNKNOWN
    inputs: tuple[ToolInput, ...] = ()
    if parser.wants_inputs and (found := _input(parser, (*path, *inside), name, arguments)):
        inputs = (found,)
    known_id = call_id if isinstance(call_id, str) else None
    return ToolCall(Location(path), parser.request, known_id, name, arguments, inputs)


def _input(parser: Parser, path: Path, tool: str, arguments: object) -> ToolInput | None:
    """Return arguments as a part of the prompt: JSON text, a mapping, or the free text of a custom tool."""
    if not isinstance(arguments, str | Mapping):
        return None
    piece = arguments if isinstance(arguments, str) else json_text(arguments)
    return ToolInput(
        location=Location(path),
        request=parser.request,
        tool=tool,
        piece=piece,
        start=0,
        stop=len(piece),
        piece_tokens=parser.count(piece),
        count=parser.count,
        put=as_text if isinstance(arguments, str) else as_json,
        is_json=piece.lstrip()[:1] == "{",
    )


def native_result(
    parser: Parser,
    path: Path,
    payload: Payload,
    call: ToolCall | None,
    *,
    kind: str,
    tool: object = None,
    is_error: bool | None = None,
) -> ToolResult:
    """Return the result whose payload stands at `path`; `tool` names its tool where `call` is None."""
    name = tool if isinstance(tool, str) else UNKNOWN
    text, tokens, put, is_fixed, is_plain = payload
    return ToolResult(
        location=Location(path),
        request=call.request if call else parser.request,
        tool=call.name if call else name,
        piece=text,
        start=0,
        stop=len(text),
        piece_tokens=tokens,
        count=parser.count,
        put=put,
        is_fixed=is_fixed,
        is_plain=is_plain,
        sent=parser.sent,
        kind=kind,
        is_error=is_error,
        call=call,
    )
