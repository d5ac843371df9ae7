"""The XML dialect: `<tool_result tool_name='…'>` in a user's text, calls as elements in the assistant's.

Results hold raw code, not escaped XML. So their extent is found by scanning, and lxml reads only start tags and
well-formed calls. Nothing is ever serialized again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

KIND = "xml"
WORD = "tool_result"
UNQUOTED = """[^<>"']*"""
QUOTED = r"""(?:"[^"\n]{0,512}"|'[^'\n]{0,512}')"""  # may hold ">"
START_TAG = re.compile(rf"<tool_result\s{UNQUOTED}(?:{QUOTED}{UNQUOTED})*>")
END_TAG = re.compile(r"</tool_result\s*>")
NAME = re.compile(r"""<tool_result\b[^>]*?\btool_name\s*=\s*(?:"([^"]*)"|'([^']*)')""")
AFTER_END_TAG = re.compile(r"</[\w:.-]+\s*>\Z")
LONGEST_TAG = 2048
LONGEST_END_TAG = 128
FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
FENCE_BEFORE = re.compile(r"^[ \t]*```[^\n`]*\n[ \t]*\Z", re.MULTILINE)
FENCE_AFTER = re.compile(r"\s*\n[ \t]*```")
CALL = re.compile(r"^[ \t]*<([a-z][a-z0-9_]*)>[ \t]*\n?", re.MULTILINE)
ARGUMENT = re.compile(r"\s*<([a-z][a-z0-9_]*)>")
UNKNOWN = "unknown"


class Span(NamedTuple):
    """Where a result stands in its text: the start tag, the payload, and the end of the end tag."""

    begin: int
    start: int
    stop: int
    end: int


@dataclass(frozen=True, slots=True)
class StartTag:
    """What a result's start tag says."""

    tool: str
    is_error: bool | None


def is_tool_result(text: object) -> bool:
    """Whether a text can hold a result at all."""
    return isinstance(text, str) and "<tool_result" in text and "tool_name=" in text


def tool_name(text: str) -> str:
    """The name in the first start tag, closed or not: "unknown" where there is none, "" where it is empty."""
    return _name_in(text) if len(text) < LONGEST_TAG else _name_in(text[text.find("<tool_result") :][:LONGEST_TAG])


@lru_cache(maxsize=1024)
def _name_in(text: str) -> str:
    match = NAME.search(text)
    if not match:
        return UNKNOWN
    return match[1] if match[1] is not None else match[2]


def spans(text: str) -> list[Span]:
    """The results in a text, in order: balanced and outermost, each up to the last end tag before the next result.

    A start tag counts after the text's start, white space or an end tag; elsewhere (after a quotation mark, a
    backtick, or alone in a fenced block) it is the writer's text, and so is one that is never closed.
    """
    open_tags: list[tuple[int, int]] = []
    found: list[Span] = []
    for begin, end, is_start in _tags(text):
        if is_start:
            open_tags.append((begin, end))
        elif open_tags:
            first, start = open_tags.pop()
            while found and found[-1].begin > first:
                found.pop()
            found.append(Span(first, start, begin, end))
        elif found:
            found[-1] = found[-1]._replace(stop=begin, end=end)
    return _unfenced(text, found)


def _tags(text: str) -> Iterator[tuple[int, int, bool]]:
    """The tags that count: begin, end, and whether it is a start tag. Found by the word: patterns alone are slow."""
    at = text.find(WORD)
    while at >= 0:
        if text[at - 1] == "<" and at:
            tag = START_TAG.match(text, at - 1)
            if tag and _is_named(tag[0]) and _begins_result(text, at - 1):
                yield *tag.span(), True
        elif text[at - 2 : at] == "</" and (tag := END_TAG.match(text, at - 2)):
            yield *tag.span(), False
        at = text.find(WORD, at + len(WORD))


@lru_cache(maxsize=1024)
def _is_named(tag: str) -> bool:
    return NAME.match(tag) is not None and not tag.endswith("/>")


def _begins_result(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return not before or before.isspace() or bool(AFTER_END_TAG.search(text, max(0, at - LONGEST_END_TAG), at))


def _unfenced(text: str, found: list[Span]) -> list[Span]:
    """Without the spans that fill a fenced code block of the writer's: an open fence before, a fence after."""
    kept, at, is_open = [], 0, False
    for span in found:
        outside = text[at : span.begin]
        if "```" in outside:
            is_open ^= len(FENCE.findall(outside)) % 2 == 1
        if not (is_open and FENCE_BEFORE.search(outside) and FENCE_AFTER.match(text, span.end)):
            kept.append(span)
        at = span.end
    return kept


def cuts(text: str, found: list[Span]) -> list[int]:
    """Where to cut a text so that each piece holds at most one result and the pieces' token counts add up.

    Exact for o200k and cl100k: after a newline before "<", and between "<tool_result" and a single space.
    """
    return [at if text[at - 1 : at] == "\n" else at + len("<tool_result") for at, *_ in found[1:]]


@lru_cache(maxsize=1024)
def read_start_tag(tag: str) -> StartTag:
    """The tool's name and whether it failed. lxml reads the tag; where it cannot, the name is found by pattern."""
    from lxml import etree

    parser = etree.XMLPullParser(("start",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        parser.feed(tag)
        events: Any = parser.read_events()
        attributes = dict(next(events)[1].attrib)
    except (etree.XMLSyntaxError, ValueError, StopIteration):
        attributes = {}
    success = attributes.get("success") or _pattern_value(tag, "success")
    failed = {"true": False, "false": True}.get((success or "").strip().lower())
    return StartTag(attributes.get("tool_name", tool_name(tag)), failed)


def _pattern_value(tag: str, name: str) -> str | None:
    match = re.search(rf"""\b{name}\s*=\s*["']([^"']*)["']""", tag)
    return match[1] if match else None


def calls(text: str) -> list[tuple[int, int, str, dict[str, str]]]:
    """The calls in an assistant's text: where each begins and ends, the tool, its arguments as written.

    A call is an element at the start of a line that holds elements only: `<read_file><path>a.py</path></read_file>`.
    """
    found = []
    at = 0
    while match := CALL.search(text, at):
        at = match.end()
        stop = text.find(f"</{match[1]}>", at)
        if stop >= 0 and (arguments := _arguments(text, at, stop)):
            end = stop + len(match[1]) + 3
            found.append((match.start(), end, match[1], arguments))
            at = end
    return found


def _arguments(text: str, at: int, stop: int) -> dict[str, str]:
    """The elements between two offsets; a value runs to its last end tag before the next element, and may be raw."""
    arguments: dict[str, str] = {}
    while (match := ARGUMENT.match(text, at, stop)) and (end := text.find(f"</{match[1]}>", match.end(), stop)) >= 0:
        arguments[match[1]] = text[match.end() : end]
        at = end + len(match[1]) + 3
    return arguments if not text[at:stop].strip() else {}
