"""Results and arguments inside a text: it is counted in pieces, cut where token counts add up exactly.

A cut is exact for o200k and cl100k between a letter and a character that is no letter, mark or apostrophe, as in
`<tool` and `_response>`: no token crosses it, and none depends on what stands beyond it. So clearing one result counts
a small piece anew and never the others.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from autoprune.conversation.transcript import (
    Location,
    Path,
    ToolCall,
    ToolInput,
    ToolResult,
    as_text,
)
from autoprune.formats.parsing import Parser

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


def after_letters(text: str, at: int) -> int:
    """Return the end of the letters at an offset: an exact cut where a `_`, `>` or the like follows."""
    match = LETTERS.match(text, at)
    return match.end() if match else at


def read(text: str, found: Sequence[Found], path: Path, parser: Parser, kind: str) -> tuple[list[ToolResult], int]:
    """Return the results in a text, in order, and the tokens of the whole text."""
    if not found:
        return [], parser.count(text)
    if len(found) == 1:
        result = _result(text, found[0], path, 0, len(text), parser, kind)
        return [result], result.piece_tokens
    edges = [0, *(one.cut for one in found[1:]), len(text)]
    results = [
        _result(text, one, path, begin, end, parser, kind)
        for one, begin, end in zip(found, edges, edges[1:], strict=False)
    ]
    return results, sum(result.piece_tokens for result in results)


def _result(text: str, found: Found, path: Path, begin: int, end: int, parser: Parser, kind: str) -> ToolResult:
    piece = text[begin:end]
    _, start, stop, tool, call, is_error, put, is_plain = found
    return ToolResult(
        location=Location(path, start, stop),
        request=call.request if call else parser.request,
        tool=tool,
        piece=piece,
        start=start - begin,
        stop=stop - begin,
        piece_tokens=parser.count(piece),
        count=parser.count,
        put=put,
        is_plain=is_plain,
        sent=parser.sent,
        kind=kind,
        is_error=is_error,
        call=call,
    )


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
    piece = text[begin:end]
    return ToolInput(
        location=Location(path, start, stop),
        request=parser.request,
        tool=tool,
        piece=piece,
        start=start - begin,
        stop=stop - begin,
        piece_tokens=parser.count(piece),
        count=parser.count,
        is_json=is_json,
    )
