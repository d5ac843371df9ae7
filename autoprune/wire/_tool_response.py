"""The dialect of Hermes and Qwen: results in `<tool_response>`.

A call is a JSON object in `<tool_call>`. A payload is raw (Qwen's template), or a JSON object whose "content" holds the
tool's output (Hermes).
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from autoprune.conversation.transcript import Location, Path, ToolCall, ToolInput
from autoprune.wire._elements import Span, elements
from autoprune.wire.dialects import Example, FoundResult, after_letters, argument, element_dialect, read_raw
from autoprune.wire.parsing import UNKNOWN, Parser

DECODER = json.JSONDecoder(strict=False)  # templates do not always escape line breaks
SPACE = re.compile(r"[ \t\r\n]*")


class Member(NamedTuple):
    """The value of a member of a JSON object, with the offsets of the value."""

    value: object
    start: int
    stop: int


NO_MEMBER = Member(None, 0, 0)


def _read_response(text: str, span: Span, parser: Parser) -> Iterator[FoundResult]:
    """Yield the result in an element. A result that names no tool answers the next open call."""
    members = _members(text, span.start, span.stop)
    name = members.get("name", NO_MEMBER).value
    call = parser.open_calls.close_in_text(name) if isinstance(name, str) else parser.open_calls.close_next_in_text()
    tool = name if isinstance(name, str) else call.name if call else UNKNOWN
    # Hermes wraps results in JSON, Qwen does not; an object without "content" is the raw output of a tool.
    if "content" in members:
        _, start, stop = members["content"]
        cut = after_letters(text, span.begin + 1)
        yield FoundResult(cut, start, stop, tool, call, put=_quote_as_json, is_plain=False)
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
