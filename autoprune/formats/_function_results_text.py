"""Claude's first dialect: `<function_results>` in a user's text, `<function_calls>` in the assistant's.

Each `<result>` names its tool and holds the output in `<stdout>`; one failed call stands alone in `<error>` or
`<system>`. Source: anthropics/anthropic-tools and Anthropic's page on legacy tool use.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from autoprune.conversation.transcript import Location, Path, ToolCall, ToolResult
from autoprune.formats._elements import (
    MOST_ARGUMENTS,
    First,
    Span,
    begins_line,
    end_tags,
    first_start,
    in_turn,
    tags,
    trimmed,
    unfenced,
    why_missed,
)
from autoprune.formats._parts import after_letters, read
from autoprune.formats.parsing import UNKNOWN, Found, Parser, Standing

KIND = "function_results"
MARK = LOOK = "<function_results>"  # in every text with a result
CALL_MARK = "<function_calls>"  # in every text with a call
RESULT = re.compile(
    r"\s*<(?P<tag>result)>\s*"
    r"(?:<(?P<name>tool_name|name)>(?P<tool>[^<>\n]{0,256})</(?P=name)>\s*)?"
    r"(?:<(?P<body>stdout|output|error)>)?"
)
# A result's own end tag stands before another result or at the block's end; any other may be the tool's text.
RESULT_END = re.compile(r"</result>\s*(?=<(?:result|error|system)>|\Z)")
FAILURE = re.compile(r"\s*<(error|system)>")
INVOKE = re.compile(r"""\s*<invoke name=(["'])([^"'<>\n]{1,256})\1>""")
PARAMETER = re.compile(r"""\s*<(parameter) name=["']([^"'<>\n]{1,256})["'][^<>\n]{0,256}>""")
LEGACY_INVOKE = re.compile(r"\s*<(invoke)>\s*<tool_name>([^<>\n]{1,256})</tool_name>(?:\s*<parameters>)?")
LEGACY_PARAMETER = re.compile(r"\s*<(([A-Za-z][A-Za-z0-9_]*))>")
INVOKE_END = re.compile(r"\s*(?:</parameters>\s*)?</invoke>")


class Extent(NamedTuple):
    """A result in a text: an exact cut before its payload, and the payload."""

    cut: int
    start: int
    stop: int
    tool: str
    is_error: bool | None


class Call(NamedTuple):
    """A call in a text of the model's, and its arguments as written."""

    begin: int
    end: int
    tool: str
    arguments: dict[str, str]


def results(text: str, path: Path, parser: Parser) -> tuple[list[ToolResult], int]:
    """Return the results in a user's text, and the tokens of the whole text."""
    found = [_found(extent, parser) for block in spans(text) for extent in _extents(text, block)]
    return read(text, found, path, parser, KIND)


def spans(text: str) -> list[Span]:
    """Return where the blocks of results in a text stand, in order."""
    return unfenced(text, in_turn(tags(text, "function_results")))


def begin(text: str, standing: Standing) -> int:
    """Return where the first block can begin; -1 for nowhere."""
    return first_start(tags(text, "function_results"))


def refusal(text: str, standing: Standing) -> str | None:
    """Return why no result can stand in a text, in words; None where one can."""
    return standing.refusal("function_calls")


def missed(text: str, standing: Standing) -> str | None:
    """Return why something that looks like a result is none, in words; None where there is no such thing."""
    known, refused = [*tags(text, "function_results")], standing.refusal("function_calls")
    return why_missed(text, known, in_turn(known), refused, wants="it does not begin a line")


def _found(extent: Extent, parser: Parser) -> Found:
    """Return a result; where it names no tool, the next open call does."""
    cut, start, stop, tool, is_error = extent
    call = parser.open_calls.answered_in_text(tool) if tool else parser.open_calls.next_in_text()
    return Found(cut, start, stop, tool or (call.name if call else UNKNOWN), call, is_error)


def _extents(text: str, block: Span) -> list[Extent]:
    """Return the results in a block; the block itself where it has no elements of results."""
    found = []
    at = block.start
    while match := RESULT.match(text, at, block.stop):
        end = RESULT_END.search(text, match.end(), block.stop)
        if end is None:
            break
        found.append(_extent(text, match, end.start()))
        at = end.start() + len("</result>")
    return found or [_alone(text, block)]


def _extent(text: str, match: re.Match[str], limit: int) -> Extent:
    """Return the result that ends at `limit`. Its payload is what it printed, or all of it but the tool's name."""
    cut, body = after_letters(text, match.start("tag")), match["body"]
    stop = text.rfind(f"</{body}>", match.end(), limit) if body else limit
    is_closed = stop >= 0
    start = match.end() if is_closed else match.start("body") - 1
    start, stop = trimmed(text, start, stop if is_closed else limit)
    return Extent(cut, start, stop, (match["tool"] or "").strip(), True if is_closed and body == "error" else None)


def _alone(text: str, block: Span) -> Extent:
    """Return the payload of a block without results: the message of a failed call, or anything."""
    match = FAILURE.match(text, block.start, block.stop)
    stop = text.rfind(f"</{match[1]}>", match.end(), block.stop) if match else -1
    begin, end, is_error = (match.end(), stop, True) if match and stop >= 0 else (block.start, block.stop, None)
    return Extent(after_letters(text, block.begin + 1), *trimmed(text, begin, end), "", is_error)


def calls_in(text: str, path: Path, parser: Parser) -> Iterator[ToolCall]:
    """Yield the calls in a text of the model's, which stands at `path`."""
    for call in calls(text):
        yield ToolCall(Location(path, call.begin, call.end), parser.request, None, call.tool, call.arguments)


def calls(text: str) -> Iterator[Call]:
    """Yield the calls in the model's text, each an `<invoke>`. Models may stop before the end of their block."""
    ends = end_tags(text)
    at = text.find(CALL_MARK)
    while at >= 0:
        stop = at + len(CALL_MARK)
        call = _call(text, stop, ends) if begins_line(text, at) else None
        while call:
            yield call
            stop = call.end
            call = _call(text, stop, ends)
        at = text.find(CALL_MARK, stop)


def _call(text: str, at: int, ends: First) -> Call | None:
    """Return the call at an offset, as Claude writes it now or as it did at first; None where there is none."""
    return _invoked(text, at, ends, INVOKE, PARAMETER) or _invoked(text, at, ends, LEGACY_INVOKE, LEGACY_PARAMETER)


def _invoked(text: str, at: int, ends: First, invoke: re.Pattern[str], parameter: re.Pattern[str]) -> Call | None:
    """Return the call at an offset, with these patterns of its tags; None where there is none."""
    head = invoke.match(text, at)
    if head is None:
        return None
    stop = head.end()
    places: dict[str, tuple[int, int]] = {}
    for _ in range(MOST_ARGUMENTS):
        match = parameter.match(text, stop)
        end = ends(match[1], match.end()) if match else -1
        if match is None or end < 0:
            break
        places[match[2]] = match.end(), end
        stop = end + len(match[1]) + len("</>")
    closing = INVOKE_END.match(text, stop)
    arguments = {name: text[start:end] for name, (start, end) in places.items()} if closing else {}
    return Call(text.index("<", at), closing.end(), head[2].strip(), arguments) if closing else None
