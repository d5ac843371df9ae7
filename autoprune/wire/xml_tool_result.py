"""The XML dialect: results as `<tool_result tool_name='…'>` in a user's text, calls as elements in the model's.

Tools put raw code between the tags, not escaped XML, so no XML parser can read a result. A scan finds and pairs the
tags; lxml only reads the attributes of start tags, and nothing is serialized again. In

    <tool_result tool_name='read_file'>
    print("</tool_result>")          the payload could end at this end tag,
    </tool_result>                   but ends at this one, the last before the next result
    <tool_result tool_name='ls'>a.py</tool_result>

there are two results. The text is counted in two pieces, cut after the line break before the second start tag, where
token counts add up exactly. So when one result is cleared, only its piece is counted again. A start tag counts at the
start of a text, after white space or after an end tag. In quotation marks, in a closed fenced block or without an end
tag it is plain text. `parsing.Standing` says which texts can hold results at all.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from autoprune.conversation.edits import XML
from autoprune.conversation.transcript import Location, Path, ToolCall, ToolInput
from autoprune.wire._elements import (
    MOST_ARGUMENTS,
    QUOTATION_MARKS,
    First,
    Span,
    Tag,
    end_tags,
    explain_miss,
    first_start,
    follows_space,
    is_blank,
    is_within,
    outside_fences,
    pair_outermost,
)
from autoprune.wire.dialects import Dialect, Example, FoundResult, after_letters, argument
from autoprune.wire.parsing import UNKNOWN, Parser

MARK = "<tool_result"
WORD = "tool_result"
LONGEST_TAG = 1_024  # characters; longer start tags are not cached
UNQUOTED = """[^<>"']*"""
# Bounded, so that an unclosed quotation mark in front of a large payload costs little. May hold ">".
QUOTED = r"""(?:"[^"\n]{0,512}"|'[^'\n]{0,512}')"""
HEAD = re.compile(rf"<tool_result(?=[\s>/]|\Z){UNQUOTED}(?:{QUOTED}{UNQUOTED})*")  # a start tag without its end
END_TAG = re.compile(r"</tool_result\s*>")
ATTRIBUTE = re.compile(r"""([^\s=<>"'/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
LOOKALIKE = re.compile(r"<tool_result(?=[\s>])")
CALL = re.compile(r"^[ \t]*<([a-z][a-z0-9_]*)>[ \t]*\n?", re.MULTILINE)
ARGUMENT = re.compile(r"\s*<([a-z][a-z0-9_]*)>")
# The body arguments of tools that write files: names of Cline and Roo Code, and of the vendors' editors.
BODIES = frozenset(
    (
        *("content", "contents", "diff", "patch", "text", "code", "body", "input", "search", "replace", "code_edit"),
        *("file_text", "old_str", "new_str", "insert_text", "old_string", "new_string", "new_text", "new_source"),
    )
)


class TextCall(NamedTuple):
    """A call in the model's text: its offsets, an exact cut in its start tag, its tool and its arguments."""

    begin: int
    end: int
    cut: int
    tool: str
    places: dict[str, tuple[int, int]]


def is_tool_result(text: object) -> bool:
    """Return whether a text can hold a result at all."""
    return isinstance(text, str) and "<tool_result" in text and "tool_name=" in text


def tool_name(text: str) -> str:
    """Return the tool in the first start tag that names one, closed or not; "unknown" if no tag names a tool."""
    return _tool_of_tag(text) if len(text) <= LONGEST_TAG else _tool_name(text)


def _tool_name(text: str) -> str:
    at = text.find("<tool_result") if text else -1
    while at >= 0:
        head = HEAD.match(text, at)
        if head and (name := attributes(head[0]).get("tool_name")) is not None:
            return name
        at = text.find("<tool_result", at + 1)
    return UNKNOWN


_tool_of_tag = lru_cache(maxsize=1024)(_tool_name)


@lru_cache(maxsize=1024)
def is_error(tag: str) -> bool | None:
    """Return whether a start tag says that the tool failed; None if it does not say."""
    return {"true": False, "false": True}.get(attributes(tag).get("success", "").strip().lower())


@lru_cache(maxsize=1024)
def attributes(tag: str) -> Mapping[str, str]:
    """Return the attributes of a start tag, closed or not. lxml reads them, or a pattern if lxml cannot."""
    from lxml import etree

    # A tool may print any start tag: no entities, no files, no network. A pull parser needs no end tag.
    parser = etree.XMLPullParser(("start",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        parser.feed(tag.rstrip("/>") + ">")
        events: Any = parser.read_events()
        return dict(next(events)[1].attrib)
    except (etree.XMLSyntaxError, ValueError, StopIteration):
        # Reversed, so that the first of two attributes with the same name wins.
        return {match[1]: match[2] or match[3] or "" for match in reversed(list(ATTRIBUTE.finditer(tag)))}


def find(text: str, path: Path, parser: Parser) -> list[FoundResult]:
    """Find the results in a user's text."""
    elements = spans(text)
    # If cut in the middle, a payload that contains another element might be read as that element.
    plain = [text.find(WORD, span.start, span.stop) < 0 for span in elements]
    places = zip(elements, [0, *cuts(text, elements)], plain, strict=False)
    return [_read_element(text, span, cut, parser, is_plain) for span, cut, is_plain in places]


def _read_element(text: str, span: Span, cut: int, parser: Parser, is_plain: bool) -> FoundResult:
    tag = text[span.begin : span.start]
    tool = parser.tool_name(tag)
    call = parser.open_calls.close_in_text(tool)
    return FoundResult(cut, span.start, span.stop, tool, call, is_error(tag), is_plain=is_plain)


def spans(text: str) -> list[Span]:
    """Find the results in a text: balanced, outermost elements, each up to the last end tag before the next element.

    A start tag counts at the text's start and after white space or an end tag. Elsewhere (after a quotation mark or a
    backtick), in a closed fenced block and without an end tag it is plain text.
    """
    whole = _whole_result(text)
    return [whole] if whole else outside_fences(text, pair_outermost(_tags(text)))


def find_begin(text: str, parser: Parser) -> int:
    """Find the offset at which the first result can begin; -1 if no result can."""
    return first_start(_tags(text))


def refuse(text: str, parser: Parser) -> str | None:
    """Explain why a text can hold no result. Return None if it can hold results."""
    return _refusal(text, parser) if parser.is_tool_result(text) else "the pruner reads no result in it"


def _refusal(text: str, parser: Parser) -> str | None:
    if parser.standing.is_open and not (text.startswith(MARK) and [span.begin for span in spans(text)[:1]] == [0]):
        return "before the model's first message only a text that begins with a result holds any"
    return parser.standing.refusal()


def explain(text: str, parser: Parser) -> str | None:
    """Explain why text that resembles a result was not read as one. Return None if nothing resembles a result."""
    refused = _refusal(text, parser)
    if refused is None and _whole_result(text):
        return None
    all_tags = [*_tags(text)]
    why = explain_miss(text, all_tags, pair_outermost(all_tags), refused, wants="white space must precede it")
    return why or _explain_nameless(text, [] if refused else spans(text))


def _explain_nameless(text: str, found: list[Span]) -> str | None:
    """Explain that an element outside of `found` names no tool. Return None if there is no such element."""
    last_end = text.rfind("</tool_result")
    for match in LOOKALIKE.finditer(text, 0, max(0, last_end)):
        at = match.start()
        head = None if is_within(found, at) or text[at - 1 : at] in QUOTATION_MARKS else HEAD.match(text, at)
        if head and text[head.end() : head.end() + 1] == ">" and "tool_name" not in attributes(head[0]):
            return "it names no tool (tool_name='…')"
    return None


def _whole_result(text: str) -> Span | None:
    """Return the span of the result if the whole text is one result, as most texts are; None for other texts."""
    start = text.find(">", 0, LONGEST_TAG) + 1
    is_result = text.endswith("</tool_result>") and _is_start(text[:start]) and text.count(WORD) == 2
    return Span(0, start, len(text) - len("</tool_result>"), len(text)) if is_result else None


@lru_cache(maxsize=1024)
def _is_start(tag: str) -> bool:
    """Return whether a text up to its first ">" is the start tag of a result."""
    head = HEAD.match(tag)
    is_whole = head is not None and head.end() == len(tag) - 1 and tag[-2] != "/"
    return is_whole and "tool_name" in attributes(tag[:-1])


def _tags(text: str) -> Iterator[Tag]:
    """Yield the tags in order. A search for the word finds them, since a pattern alone is slow on long texts."""
    at = text.find(WORD)
    while at >= 0:
        after = at + len(WORD)
        if at and text[at - 1] == "<":
            head = HEAD.match(text, at - 1)
            end = head.end() if head else 0
            if head and text[end : end + 1] == ">" and head[0][-1] != "/" and "tool_name" in attributes(head[0]):
                after = end
                yield Tag(at - 1, end + 1, True, not follows_space(text, at - 1))
        elif text[at - 2 : at] == "</" and (tag := END_TAG.match(text, at - 2)):
            yield Tag(*tag.span(), False, text[at - 3 : at - 2] in QUOTATION_MARKS)
        at = text.find(WORD, after)


def cuts(text: str, found: list[Span]) -> list[int]:
    """Return the offsets that cut a text into pieces with at most one result each, whose token counts add up.

    Exact for o200k and cl100k: after a newline before "<", and between "<tool_result" and a single space.
    """
    return [at if text[at - 1 : at] == "\n" else at + len("<tool_result") for at, *_ in found[1:]]


def read_calls(text: str, path: Path, parser: Parser) -> Iterator[ToolCall]:
    """Yield the calls in the model's text at `path`."""
    all_calls = calls(text)
    ends = [*(call.cut for call in all_calls[1:]), len(text)]
    for call, end in zip(all_calls, ends, strict=False):
        arguments = {name: text[start:stop] for name, (start, stop) in call.places.items()}
        inputs = _inputs(text, call, end, path, parser) if parser.wants_inputs else ()
        place = Location(path, call.begin, call.end)
        yield ToolCall(place, parser.request, None, call.tool, arguments, inputs)


def _inputs(text: str, call: TextCall, end: int, path: Path, parser: Parser) -> tuple[ToolInput, ...]:
    """Return the body arguments of a call. Each argument has its own piece of text, cut within its start tag."""
    bodies = sorted((place, name) for name, place in call.places.items() if name in BODIES)
    starts = (after_letters(text, start - len(f"{name}>")) for (start, _), name in bodies[1:])
    edges = [call.cut, *starts, end]
    return tuple(
        argument(text, place, between, path, parser, call.tool, is_json=False)
        for (place, _), between in zip(bodies, pairwise(edges), strict=False)
    )


def calls(text: str) -> list[TextCall]:
    """Find the calls in the model's text.

    A call is an element at the start of a line that holds elements only: `<read_file><path>a.py</path></read_file>`.
    """
    all_calls = []
    ends = end_tags(text)
    at = 0
    while match := CALL.search(text, at):
        at = match.end()
        stop = ends(match[1], at)
        if stop >= 0 and (places := element_places(text, at, stop, ends)):
            at = stop + len(match[1]) + 3
            all_calls.append(TextCall(match.start(), at, after_letters(text, match.start(1)), match[1], places))
    return all_calls


def element_places(text: str, at: int, stop: int, ends: First) -> dict[str, tuple[int, int]]:
    """Return the offsets of the values of the elements between two offsets; {} if there is anything else.

    A value ends at its first end tag, and may be raw text.
    """
    places: dict[str, tuple[int, int]] = {}
    for _ in range(MOST_ARGUMENTS):
        match = ARGUMENT.match(text, at, stop)
        end = ends(match[1], match.end()) if match else -1
        if match is None or not 0 <= end < stop:
            break
        places[match[1]] = match.end(), end
        at = end + len(match[1]) + 3
    return places if is_blank(text, at, stop) else {}


XML_DIALECT = Dialect(
    kind=XML,
    mark=MARK,
    look="<tool_result …>",
    tags=frozenset((WORD,)),
    example=Example(
        call="<read_file>\n<path>a.py</path>\n</read_file>",
        result="<tool_result tool_name='read_file' success='true'>@</tool_result>",
    ),
    find=find,
    spans=lambda text: [(span.begin, span.end) for span in spans(text)],
    find_begin=find_begin,
    refuse=refuse,
    explain=explain,
    calls=read_calls,
    call_mark="</",
)
