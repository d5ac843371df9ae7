"""Results, calls and arguments as parts of the prompt: those that a format writes natively, and those inside a text.

What is native stands by itself, as a block or a message. A text is counted in pieces, cut where token counts add up
exactly. A cut is exact for o200k and cl100k between a letter and a character that is no letter, mark or apostrophe, as
in `<tool` and `_response>`: no token crosses it, and none depends on what stands beyond it. So clearing one result
counts a small piece anew and never the others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from autoprune.conversation.transcript import Location, Path, ToolCall, ToolInput, ToolResult, as_text
from autoprune.formats._payloads import Payload, as_json, json_text
from autoprune.formats.parsing import Parser

UNKNOWN = "unknown"  # the tool of a result that does not say which made it
LETTERS = re.compile(r"[A-Za-z]*")


class Found(NamedTuple):
    """A result in a text: its payload from `start` to `stop`, and the exact cut before it."""

    cut: int
    start: int
    stop: int
    tool: str
    call: ToolCall | None
    is_error: bool | None = None
    put: Callable[[object, str], object] = as_text
    is_plain: bool = True


def native_call(parser: Parser, path: Path, call_id: object, tool: object, arguments: object, inside: Path) -> ToolCall:
    """Return the call at `path`, whose arguments stand below it at `inside`."""
    name = tool if isinstance(tool, str) else UNKNOWN
    inputs: tuple[ToolInput, ...] = ()
    if parser.wants_inputs and (found := _native_input(parser, (*path, *inside), name, arguments)):
        inputs = (found,)
    known_id = call_id if isinstance(call_id, str) else None
    return ToolCall(Location(path), parser.request, known_id, name, arguments, inputs)


def _native_input(parser: Parser, path: Path, tool: str, arguments: object) -> ToolInput | None:
    """Return arguments as a part of the prompt: JSON text, a mapping, or the free text of a custom tool."""
    if not isinstance(arguments, str | Mapping):
        return None
    piece = arguments if isinstance(arguments, str) else json_text(arguments)
    put = as_text if isinstance(arguments, str) else as_json
    return _input(parser, Location(path), tool, piece, 0, len(piece), is_json=piece.lstrip()[:1] == "{", put=put)


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
    text, tokens, put, is_fixed, is_plain = payload
    name = call.name if call else tool if isinstance(tool, str) else UNKNOWN
    found = Found(0, 0, len(text), name, call, is_error, put, is_plain)
    return _result(parser, Location(path), found, text, 0, tokens, kind, is_fixed=is_fixed)


def after_letters(text: str, at: int) -> int:
    """Return the end of the letters at an offset: an exact cut where a `_`, `>` or the like follows."""
    match = LETTERS.match(text, at)
    return match.end() if match else at


def read(text: str, found: Sequence[Found], path: Path, parser: Parser, kind: str) -> tuple[list[ToolResult], int]:
    """Return the results in a text, in order, and the tokens of the whole text."""
    if not found:
        return [], parser.count(text)
    results = []
    for one, (begin, end) in zip(found, pairwise((0, *(one.cut for one in found[1:]), len(text))), strict=True):
        piece, place = text[begin:end], Location(path, one.start, one.stop)
        results.append(_result(parser, place, one, piece, begin, parser.count(piece), kind))
    return results, sum(result.piece_tokens for result in results)


def argument(
    text: str,
    place: tuple[int, int],
    between: tuple[int, int],
    path: Path,
    parser: Parser,
    tool: str,
    *,
    is_json: bool,
) -> ToolInput:
    """Return the argument at a place in a text of the model's; its piece stands `between` two exact cuts."""
    (start, stop), (begin, end) = place, between
    location = Location(path, start, stop)
    return _input(parser, location, tool, text[begin:end], start - begin, stop - begin, is_json=is_json)


def _result(
    parser: Parser,
    location: Location,
    found: Found,
    piece: str,
    begin: int,
    tokens: int,
    kind: str,
    *,
    is_fixed: bool = False,
) -> ToolResult:
    """Return a result whose piece of `tokens` tokens stands at `begin` in its text."""
    _, start, stop, tool, call, is_error, put, is_plain = found
    return ToolResult(
        location=location,
        request=call.request if call else parser.request,
        tool=tool,
        piece=piece,
        start=start - begin,
        stop=stop - begin,
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


def _input(
    parser: Parser,
    location: Location,
    tool: str,
    piece: str,
    start: int,
    stop: int,
    *,
    is_json: bool,
    put: Callable[[object, str], object] = as_text,
) -> ToolInput:
    """Return an argument that stands from `start` to `stop` in its piece."""
    return ToolInput(
        location=location,
        request=parser.request,
        tool=tool,
        piece=piece,
        start=start,
        stop=stop,
        piece_tokens=parser.count(piece),
        count=parser.count,
        put=put,
        is_json=is_json,
    )
