"""The dialect of Cline and Roo Code: `[read_file for 'a.py'] Result:` in a user's text, with the payload below it.

The heading and its payload are one text, or two text blocks, one after the other. Source: cline/cline up to 3.35 and
RooCodeInc/Roo-Code up to 3.38 send two blocks, cline/cline from 3.36 on one; some of their providers join all blocks by
line breaks. Their calls are elements, as in `xml_tool_result`. A user's answer to a tool is no result.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autoprune.conversation.transcript import Path
from autoprune.wire._elements import Fences, Places, is_blank, occurrences, trim_line_breaks
from autoprune.wire.dialects import REGISTERED, Dialect, Example, FoundResult, after_letters
from autoprune.wire.parsing import Parser, Standing

KIND = "cline"
MARK = "] Result:"
NAME = re.compile(r"\[([A-Za-z][A-Za-z0-9_-]*)(?=[\] ])")
# A command or a question may have several lines, and its heading with it. Cline writes `for '…'`, Roo Code also
# `switch_mode to '…'` and `new_task in … mode: '…'`.
LONG = re.compile(r"\[([A-Za-z][A-Za-z0-9_-]*) (?:for '|to '|in [^\n]{1,99} mode: ')")
# Both agents append the state of the editor to a user's message. It is new in each message, and no part of a result.
ENVIRONMENT, ENVIRONMENT_END = "\n<environment_details>", "</environment_details>"
FEEDBACK = "\nThe user provided the following feedback:\n<feedback>"
# The tools that the user answers, and the beginning of a user's answer to any other tool.
QUESTIONS = ("ask_followup_question", "attempt_completion", "plan_mode_respond")
ANSWER = re.compile(r"(?:The user [^\n]{1,300}\n)?<(?:answer|feedback|user_message)>")
FAILED, FAILED_END = "The tool execution failed with the following error:\n<error>", "</error>"
AFTER_FAILURE = re.compile(rf"\s*{re.escape(FAILED_END)}")


class Heading(NamedTuple):
    """The line above a payload, from the bracket to the colon."""

    begin: int
    end: int
    tool: str


class Extent(NamedTuple):
    """The offsets of a result in a text: the beginning of its heading, and its payload."""

    begin: int
    start: int
    stop: int
    tool: str
    is_error: bool | None


def find(text: str, path: Path, parser: Parser) -> list[FoundResult]:
    """Find the results in a user's text. A text that is only a heading announces the payload in the next block."""
    standing = parser.standing
    results = extents(text, standing)
    # `find_below` reads the next block, which itself does not say that it is a result.
    heading = None if results else _only_heading(text)
    if heading and standing.refusal(heading.tool) is None and (below := _next_block(path)):
        parser.heading = (below, heading.tool)
    return _close_calls(text, results, parser)


def find_below(text: str, path: Path, parser: Parser) -> list[FoundResult] | None:
    """Find the result in a block whose heading is the block before it; None for any other block."""
    heading, parser.heading = parser.heading, None
    if heading is None or heading[0] != path or text.startswith(ENVIRONMENT[1:]) or _first_heading(text):
        return None
    feedback = text.find(FEEDBACK)
    result = _extent(text, Heading(0, 0, heading[1]), feedback if feedback >= 0 else len(text))
    return _close_calls(text, [result] if result else [], parser)


def _close_calls(text: str, found: Sequence[Extent], parser: Parser) -> list[FoundResult]:
    calls = parser.open_calls
    return [
        FoundResult(
            after_letters(text, begin + 1),
            start,
            stop,
            tool,
            calls.close_in_text(tool) or calls.close_by_name(tool),
            is_error,
        )
        for begin, start, stop, tool, is_error in found
    ]


def spans(text: str) -> list[tuple[int, int]]:
    """Find the offsets of the results in a text, including headings and the tags of failures."""
    return [(one.begin, _after_failure(text, one.stop)) for one in extents(text)]


def _after_failure(text: str, at: int) -> int:
    match = AFTER_FAILURE.match(text, at)
    return match.end() if match else at


def extents(text: str, standing: Standing | None = None) -> list[Extent]:
    """Find the results in a text. A payload ends at the next heading, at the environment's details, or at the end.

    A heading in a closed fenced block of the user, or in the environment's details, is plain text. With a `standing`,
    a heading of a tool that the model has not called is plain text too.
    """
    places = occurrences(text, ENVIRONMENT, ENVIRONMENT_END, FEEDBACK)
    headings = list(_headings(text))
    limits = [*(heading.begin for heading in headings[1:]), len(text)]
    results: list[Extent] = []
    words: int | None = 0  # where the user's words before a heading begin; None if there are none
    closed = 0  # headings before it do not count
    fences = Fences(text)
    for heading, limit in zip(headings, limits, strict=False):
        if heading.begin < closed:
            continue
        end = -1 if words is None else fences.end(words, heading.begin)
        if end >= 0:
            closed = words = end
            continue
        stop, words = _payload_end(heading.end, limit, places)
        closed = words or limit
        extent = _extent(text, heading, stop)
        if extent and (standing is None or standing.refusal(heading.tool) is None):
            results.append(extent)
        else:
            words = words or heading.end
    return results


def find_begin(text: str, parser: Parser) -> int:
    """Find the offset at which the first result can begin; -1 if no result can."""
    headings = (one.begin for one in _headings(text) if parser.standing.refusal(one.tool) is None)
    return next(headings, -1)


def refuse(text: str, parser: Parser) -> str | None:
    """Explain why no heading in a text can begin a result. Return None if a heading can."""
    first: str | None = None
    for heading in _headings(text):
        refused = parser.standing.refusal(heading.tool)
        if refused is None:
            return None
        first = first or refused
    return first


def explain(text: str, parser: Parser) -> str | None:
    """Explain why text that resembles a result was not read as one. Return None if nothing resembles a result."""
    alone = _only_heading(text)
    tools = (alone.tool,) if alone else (extent.tool for extent in extents(text))
    return next((why for tool in tools if (why := parser.standing.refusal(tool))), None)


def is_frame(text: str) -> bool:
    """Return whether a text is a heading, whose payload is the next block."""
    return text.startswith("[") and text.endswith(MARK) and _first_heading(text) is not None


def _payload_end(at: int, limit: int, places: Places) -> tuple[int, int | None]:
    """Return the end of a payload, and the offset of the user's words between this end and `limit`, if any."""
    environment, feedback = places.first(ENVIRONMENT, at), places.first(FEEDBACK, at)
    if 0 <= environment < limit and not 0 <= feedback < environment:
        closed = places.first(ENVIRONMENT_END, environment)
        return environment, (closed + len(ENVIRONMENT_END) if closed >= 0 else limit)
    return (feedback, feedback) if 0 <= feedback < limit else (limit, None)


def _extent(text: str, heading: Heading, stop: int) -> Extent | None:
    """Find the result below a heading; None if the payload is empty or the user's words."""
    start, stop = trim_line_breaks(text, heading.end, stop)
    if start == stop or heading.tool in QUESTIONS or ANSWER.match(text, start, stop):
        return None
    end = text.rfind(FAILED_END, start, stop) if text.startswith(FAILED, start, stop) else -1
    if end < 0:
        return Extent(heading.begin, start, stop, heading.tool, None)
    start, stop = trim_line_breaks(text, start + len(FAILED), end)
    return Extent(heading.begin, start, stop, heading.tool, True)


def _headings(text: str) -> Iterator[Heading]:
    """Yield the headings in a text. A heading begins a line and ends a line."""
    edge = line = 0
    at = text.find(MARK)
    while at >= 0:
        end = at + len(MARK)
        if text[end : end + 1] in ("", "\n") or text[end : end + 2] == "\r\n":
            begin = text.rfind("\n", line, at) + 1
            if heading := _short_heading(text, begin, at, end) or _long_heading(text, edge, begin, end):
                yield heading
            line = end
        edge = end
        at = text.find(MARK, end)


def _short_heading(text: str, begin: int, at: int, end: int) -> Heading | None:
    """Find a heading of one line. A bare name needs an underscore: `[main] Result:` may be a line of a log."""
    name = NAME.match(text, begin, at + 1)
    if name is None or (text[name.end()] == "]" and name.end() != at):
        return None
    is_tool = "_" in name[1] or text.startswith(" for '", name.end())
    return Heading(begin, end, name[1]) if is_tool else None


def _long_heading(text: str, edge: int, begin: int, end: int) -> Heading | None:
    """Find a heading of several lines that begins after `edge`, and whose last line begins at `begin`."""
    at = begin
    name = None
    while name is None and (at := text.rfind("\n[", edge, at)) >= 0:
        name = LONG.match(text, at + 1)
    name = name or (LONG.match(text) if edge == 0 else None)
    # A heading spans no result of another dialect, since clearing that result must not change the heading.
    return Heading(name.start(), end, name[1]) if name and not _has_other_mark(text, name.end(), begin) else None


def _has_other_mark(text: str, start: int, stop: int) -> bool:
    return any(text.find(other.mark, start, stop) >= 0 for other in REGISTERED.values() if other.kind != KIND)


def _first_heading(text: str) -> Heading | None:
    """Find the heading at the start of a text."""
    first = next(_headings(text), None) if text.startswith("[") else None
    return first if first and first.begin == 0 else None


def _only_heading(text: str) -> Heading | None:
    """Find the heading in a text that consists only of a heading."""
    first = _first_heading(text)
    return first if first and is_blank(text, first.end, len(text)) else None


def _next_block(path: Path) -> Path | None:
    """Return the path of the next block's text; None if the message is one text."""
    at = max(index for index, name in enumerate(path) if isinstance(name, int))
    number = path[at]
    return (*path[:at], number + 1, *path[at + 1 :]) if at and isinstance(number, int) else None


CLINE = Dialect(
    kind=KIND,
    mark=MARK,
    look="[… for '…'] Result:",
    tags=frozenset(("error", "environment_details", "feedback", "answer", "user_message")),
    headings=(MARK,),
    example=Example(
        call="<read_file>\n<path>a.py</path>\n</read_file>",
        result="[read_file for 'a.py'] Result:\n@\n\n<environment_details>\n# Time\n</environment_details>",
    ),
    find=find,
    find_below=find_below,
    spans=spans,
    find_begin=find_begin,
    refuse=refuse,
    explain=explain,
    is_frame=is_frame,
)
