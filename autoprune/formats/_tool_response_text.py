"""The dialect of Hermes and Qwen: `<tool_response>` in a user's text, `<tool_call>` with JSON in the assistant's.

A payload is raw (Qwen's template), or a JSON object of which only the value of "content" is the tool's (Hermes).
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from autoprune.conversation.transcript import Location, Path, ToolCall, ToolInput, ToolResult
from autoprune.formats._elements import Span, elements, first_start, outermost, tags, trimmed, why_missed
from autoprune.formats._parts import after_letters, argument, read
from autoprune.formats.parsing import UNKNOWN, Found, Parser, Standing

KIND = "tool_response"
MARK = LOOK = "<tool_response>"  # in every text with a result
CALL_MARK = "<tool_call>"  # in every text with a call
DECODER = json.JSONDecoder(strict=False)  # templates do not always escape line breaks
SPACE = re.compile(r"[ \t\r\n]*")


class Member(NamedTuple):
    """A member of a JSON object, and where its value stands."""

    value: object
    start: int
    stop: int


NONE = Member(None, 0, 0)


def results(text: str, path: Path, parser: Parser) -> tuple[list[ToolResult], int]:
    """Return the results in a user's text, and the tokens of the whole text."""
    return read(text, [_found(text, span, parser) for span in spans(text)], path, parser, KIND)


def spans(text: str) -> list[Span]:
    """Return where the results in a text stand, in order."""
    return elements(text, "tool_response")


def begin(text: str, standing: Standing) -> int:
    """Return where the first result can begin; -1 for nowhere."""
    return first_start(tags(text, "tool_response"))


def refusal(text: str, standing: Standing) -> str | None:
    """Return why no result can stand in a text, in words; None where one can."""
    return standing.refusal("tool_call")


def missed(text: str, standing: Standing) -> str | None:
    """Return why something that looks like a result is none, in words; None where there is no such thing."""
    known = [*tags(text, "tool_response")]
    return why_missed(text, known, outermost(known), standing.refusal("tool_call"), wants="it does not begin a line")


def _found(text: str, span: Span, parser: Parser) -> Found:
    """Return a result; where it names no tool, the next open call does."""
    known = members(text, span.start, span.stop)
    name = known.get("name", NONE).value
    call = parser.open_calls.answered_in_text(name) if isinstance(name, str) else parser.open_calls.next_in_text()
    tool = name if isinstance(name, str) else call.name if call else UNKNOWN
    cut = after_letters(text, span.begin + 1)
    if "content" in known:
        _, start, stop = known["content"]
        return Found(cut, start, stop, tool, call, put=as_json, is_plain=False)
    start, stop = trimmed(text, span.start, span.stop)
    # Cut in the middle, a payload that holds another element might be read as that one.
    return Found(cut, start, stop, tool, call, is_plain="tool_response" not in text[start:stop])


def as_json(value: object, text: str) -> str:
    """Return a text as a JSON string: it takes the place of a JSON value."""
    return json.dumps(text, ensure_ascii=False)


def members(text: str, start: int, stop: int) -> dict[str, Member]:
    """Return the members of the JSON object that is all of a slice; {} for anything else."""
    inside = text[start:stop].rstrip()
    at = _skip(inside, 0)
    if inside[at : at + 1] != "{" or not inside.endswith("}"):
        return {}
    found: dict[str, Member] = {}
    try:
        while inside[at] == ("," if found else "{"):
            name, at = DECODER.raw_decode(inside, _skip(inside, at + 1))
            at = _skip(inside, at)
            if inside[at] != ":" or not isinstance(name, str):
                return {}
            begin = _skip(inside, at + 1)
            value, at = DECODER.raw_decode(inside, begin)
            found[name] = Member(value, start + begin, start + at)
            at = _skip(inside, at)
    except (ValueError, IndexError, RecursionError):  # no JSON, or none that Python can hold
        return {}
    return found if at == len(inside) - 1 else {}


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def calls_in(text: str, path: Path, parser: Parser) -> Iterator[ToolCall]:
    """Yield the calls in a text of the model's, which stands at `path`: one JSON object in each element."""
    found = elements(text, "tool_call")
    cuts = [*(after_letters(text, span.begin + 1) for span in found), len(text)]
    for span, begin, end in zip(found, cuts, cuts[1:], strict=False):
        known = members(text, span.start, span.stop)
        tool, arguments = known.get("name", NONE).value, known.get("arguments", NONE)
        if isinstance(tool, str):
            inputs: tuple[ToolInput, ...] = ()
            if parser.wants_inputs and isinstance(arguments.value, dict):
                place = (arguments.start, arguments.stop)
                inputs = (argument(text, place, (begin, end), path, parser, tool, is_json=True),)
            place_of_call = Location(path, span.begin, span.end)
            yield ToolCall(place_of_call, parser.request, None, tool, arguments.value, inputs)
