"""Two dialects whose results are elements without attributes: `<tool_response>` and `<function_results>`.

Hermes and Qwen use `<tool_response>`; a call is a JSON object in `<tool_call>`. A payload is raw (Qwen's template), or
a JSON object whose "content" holds the tool's output (Hermes).

`<function_results>` is Claude's first dialect; a call is an `<invoke>` in `<function_calls>`. Each `<result>` names its
tool and holds the output in `<stdout>`. A failed call is alone in its block, in `<error>` or `<system>`. Source:
anthropics/anthropic-tools and Anthropic's page on legacy tool use.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from autoprune.conversation.transcript import Location, Path, ToolCall, ToolInput
from autoprune.formats._elements import (
    MOST_ARGUMENTS,
    First,
    Span,
    begins_line,
    elements,
    end_tags,
    pair_in_turn,
    trim_line_breaks,
)
from autoprune.formats.dialects import Example, Found, after_letters, argument, element_dialect, read_raw
from autoprune.formats.parsing import UNKNOWN, Parser

DECODER = json.JSONDecoder(strict=False)  # templates do not always escape line breaks
SPACE = re.compile(r"[ \t\r\n]*")
RESULT = re.compile(
    r"\s*<(?P<tag>result)>\s*"
    r"(?:<(?P<name>tool_name|name)>(?P<tool>[^<>\n]{0,256})</(?P=name)>\s*)?"
    r"(?:<(?P<body>stdout|output|error)>)?"
)
# The end tag of a result precedes another result or the block's end; any other may be part of the output.
RESULT_END = re.compile(r"</result>\s*(?=<(?:result|error|system)>|\Z)")
FAILURE = re.compile(r"\s*<(error|system)>")
CALLS, CALLS_END = "<function_calls>", "</function_calls>"
# Claude has written calls in two ways: `<invoke name="ls">` now, `<invoke><tool_name>ls</tool_name>` at first.
INVOKE = re.compile(r"""\s*<invoke name=(["'])([^"'<>\n]{1,256})\1>""")
PARAMETER = re.compile(r"""\s*<(parameter) name=["']([^"'<>\n]{1,256})["'][^<>\n]{0,256}>""")
LEGACY_INVOKE = re.compile(r"\s*<(invoke)>\s*<tool_name>([^<>\n]{1,256})</tool_name>(?:\s*<parameters>)?")
LEGACY_PARAMETER = re.compile(r"\s*<(([A-Za-z][A-Za-z0-9_]*))>")
INVOKE_END = re.compile(r"\s*(?:</parameters>\s*)?</invoke>")


# <tool_response>: Hermes and Qwen


class Member(NamedTuple):
    """The value of a member of a JSON object, with the offsets of the value."""

    value: object
    start: int
    stop: int


NO_MEMBER = Member(None, 0, 0)


def _read_response(text: str, span: Span, parser: Parser) -> Iterator[Found]:
    """Yield the result in an element. A result that names no tool answers the next open call."""
    members = _members(text, span.start, span.stop)
    name = members.get("name", NO_MEMBER).value
    call = parser.open_calls.close_in_text(name) if isinstance(name, str) else parser.open_calls.close_next_in_text()
    tool = name if isinstance(name, str) else call.name if call else UNKNOWN
    # Hermes wraps results in JSON, Qwen does not; an object without "content" is the raw output of a tool.
    if "content" in members:
        _, start, stop = members["content"]
        cut = after_letters(text, span.begin + 1)
        yield Found(cut, start, stop, tool, call, put=_quote_as_json, is_plain=False)
    else:
        yield read_raw("tool_response", text, span, call, tool)


def _quote_as_json(value: object, text: str) -> str:
    """Write a text as a JSON string, to take the place of a JSON value."""
    return json.dumps(text, ensure_ascii=False)


def _members(text: str, start: int, stop: int) -> dict[str, Member]:
    """Return the members of the JSON object in a slice of a text; {} if the slice holds anything else."""
    inside = text[start:stop].rstrip()
    at = _skip_space(inside, 0)
    if inside[at : at + 1] != "{" or not inside.endswith("}"):
        return {}
    members: dict[str, Member] = {}
    try:
        while inside[at] == ("," if members else "{"):
            name, at = DECODER.raw_decode(inside, _skip_space(inside, at + 1))
            at = _skip_space(inside, at)
            if inside[at] != ":" or not isinstance(name, str):
                return {}
            begin = _skip_space(inside, at + 1)
            value, at = DECODER.raw_decode(inside, begin)
            members[name] = Member(value, start + begin, start + at)
            at = _skip_space(inside, at)
    except (ValueError, IndexError, RecursionError):  # no JSON, or JSON that Python cannot hold
        return {}
    return members if at == len(inside) - 1 else {}


def _skip_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _json_calls(text: str, path: Path, parser: Parser) -> Iterator[ToolCall]:
    """Yield the calls in the model's text: one JSON object in each `<tool_call>`."""
    spans = elements(text, "tool_call")
    cuts = [*(after_letters(text, span.begin + 1) for span in spans), len(text)]
    for span, begin, end in zip(spans, cuts, cuts[1:], strict=False):
        members = _members(text, span.start, span.stop)
        tool, arguments = members.get("name", NO_MEMBER).value, members.get("arguments", NO_MEMBER)
        if isinstance(tool, str):
            inputs: tuple[ToolInput, ...] = ()
            if parser.wants_inputs and isinstance(arguments.value, dict):
                place = (arguments.start, arguments.stop)
                inputs = (argument(text, place, (begin, end), path, parser, tool, is_json=True),)
            location = Location(path, span.begin, span.end)
            yield ToolCall(location, parser.request, None, tool, arguments.value, inputs)


TOOL_RESPONSE = element_dialect(
    "tool_response",
    answers="tool_call",
    example=Example(
        call='<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>',
        result="<tool_response>\n@\n</tool_response>",
    ),
    read_element=_read_response,
    calls=_json_calls,
    call_mark="<tool_call>",
)


# <function_results>: Claude's first dialect


class Block(NamedTuple):
    """A result in a block of results: an exact cut before its payload, and the payload's offsets."""

    cut: int
    start: int
    stop: int
    tool: str
    is_error: bool | None


def _read_results(text: str, span: Span, parser: Parser) -> Iterator[Found]:
    """Yield the results in a block. A result that names no tool answers the next open call."""
    for cut, start, stop, tool, is_error in _split_block(text, span):
        call = parser.open_calls.close_in_text(tool) if tool else parser.open_calls.close_next_in_text()
        yield Found(cut, start, stop, tool or (call.name if call else UNKNOWN), call, is_error)


def _split_block(text: str, span: Span) -> list[Block]:
    """Split a block into results; a block without `<result>` is one result."""
    blocks = []
    at = span.start
    while match := RESULT.match(text, at, span.stop):
        end = RESULT_END.search(text, match.end(), span.stop)
        if end is None:
            break
        blocks.append(_read_named_result(text, match, end.start()))
        at = end.start() + len("</result>")
    return blocks or [_read_whole_block(text, span)]


def _read_named_result(text: str, match: re.Match[str], limit: int) -> Block:
    """Read the result that ends at `limit`. The payload is the printed output, or else all except the tool's name."""
    cut, body = after_letters(text, match.start("tag")), match["body"]
    # The last end tag counts: the output may itself print one.
    stop = text.rfind(f"</{body}>", match.end(), limit) if body else limit
    is_closed = stop >= 0
    start = match.end() if is_closed else match.start("body") - 1
    start, stop = trim_line_breaks(text, start, stop if is_closed else limit)
    return Block(cut, start, stop, (match["tool"] or "").strip(), True if is_closed and body == "error" else None)


def _read_whole_block(text: str, span: Span) -> Block:
    """Read the payload of a block without `<result>`: the message of a failed call, or anything else."""
    match = FAILURE.match(text, span.start, span.stop)
    stop = text.rfind(f"</{match[1]}>", match.end(), span.stop) if match else -1
    begin, end, is_error = (match.end(), stop, True) if match and stop >= 0 else (span.start, span.stop, None)
    return Block(after_letters(text, span.begin + 1), *trim_line_breaks(text, begin, end), "", is_error)


class Invocation(NamedTuple):
    """A call in the model's text, with its arguments as written."""

    begin: int
    end: int
    tool: str
    arguments: dict[str, str]


def _invoke_calls(text: str, path: Path, parser: Parser) -> Iterator[ToolCall]:
    """Yield the calls in the model's text, each an `<invoke>` element."""
    for call in _invocations(text):
        yield ToolCall(Location(path, call.begin, call.end), parser.request, None, call.tool, call.arguments)


def _invocations(text: str) -> Iterator[Invocation]:
    """Yield the calls in the model's text, even from a block that the model did not close."""
    ends = end_tags(text)
    at = text.find(CALLS)
    while at >= 0:
        stop = at + len(CALLS)
        call = _invocation(text, stop, ends) if begins_line(text, at) else None
        while call:
            yield call
            stop = call.end
            call = _invocation(text, stop, ends)
        at = text.find(CALLS, stop)


def _invocation(text: str, at: int, ends: First) -> Invocation | None:
    """Match the call at an offset, in either of Claude's two spellings; None if no call begins there."""
    return _match_invoke(text, at, ends, INVOKE, PARAMETER) or _match_invoke(
        text, at, ends, LEGACY_INVOKE, LEGACY_PARAMETER
    )


def _match_invoke(
    text: str, at: int, ends: First, invoke: re.Pattern[str], parameter: re.Pattern[str]
) -> Invocation | None:
    """Match the call at an offset, using patterns for its start tags; None if no call begins there."""
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
    return Invocation(text.index("<", at), closing.end(), head[2].strip(), arguments) if closing else None


FUNCTION_RESULTS = element_dialect(
    "function_results",
    answers="function_calls",
    example=Example(
        call='<function_calls>\n<invoke name="read_file">\n<parameter name="path">a.py</parameter>\n</invoke>\n'
        "</function_calls>",
        result="<function_results>\n<result>\n<tool_name>read_file</tool_name>\n<stdout>\n@\n</stdout>\n</result>\n"
        "</function_results>",
    ),
    read_element=_read_results,
    # Results do not nest, so that no text in a block can change where the block ends.
    pair=pair_in_turn,
    inner_tags=("result", "stdout", "output", "error", "system", "tool_name", "name"),
    calls=_invoke_calls,
    call_mark=CALLS,
    call_frame=(CALLS, CALLS_END),
)
