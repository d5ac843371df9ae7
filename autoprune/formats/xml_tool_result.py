"""The XML dialect: `<tool_result tool_name='…'>` in a user's text, calls as elements in the assistant's.

Results hold raw code, not escaped XML. So their extent is found by scanning, and lxml reads only start tags and
well-formed calls. Nothing is ever serialized again.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

KIND = "xml"
WORD = "tool_result"
UNQUOTED = """[^<>"']*"""
QUOTED = r"""(?:"[^"\n]{0,512}"|'[^'\n]{0,512}')"""  # may hold ">"
HEAD = re.compile(rf"<tool_result(?=[\s>/]|\Z){UNQUOTED}(?:{QUOTED}{UNQUOTED})*")  # a start tag without its end
END_TAG = re.compile(r"</tool_result\s*>")
ATTRIBUTE = re.compile(r"""([^\s=<>"'/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
AFTER_END_TAG = re.compile(r"</[\w:.-]+\s*>\Z")
LONGEST_END_TAG = 128
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
CALL = re.compile(r"^[ \t]*<([a-z][a-z0-9_]*)>[ \t]*\n?", re.MULTILINE)
ARGUMENT = re.compile(r"\s*<([a-z][a-z0-9_]*)>")
UNKNOWN = "unknown"


class Span(NamedTuple):
    """Where a result stands in its text: the start tag, the payload, and the end of the end tag."""

    begin: int
    start: int
    stop: int
    end: int


class Tag(NamedTuple):
    """A tag in a text. Of start tags only those that name a tool are seen; a quoted one begins no result."""

    begin: int
    end: int
    is_start: bool
    is_quoted: bool


def is_tool_result(text: object) -> bool:
    """Whether a text can hold a result at all."""
    return isinstance(text, str) and "<tool_result" in text and "tool_name=" in text


def tool_name(text: str) -> str:
    """The tool of the first start tag that names one, closed or not: "unknown" where none does; may be ""."""
    at = text.find("<tool_result") if text else -1
    while at >= 0:
        head = HEAD.match(text, at)
        if head and (name := attributes(head[0]).get("tool_name")) is not None:
            return name
        at = text.find("<tool_result", at + 1)
    return UNKNOWN


def is_error(tag: str) -> bool | None:
    """Whether a start tag says that the tool failed; None where it does not say."""
    return {"true": False, "false": True}.get(attributes(tag).get("success", "").strip().lower())


@lru_cache(maxsize=1024)
def attributes(tag: str) -> Mapping[str, str]:
    """The attributes of a start tag, closed or not: as lxml reads them, by pattern where it cannot."""
    from lxml import etree

    parser = etree.XMLPullParser(("start",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        parser.feed(tag.rstrip("/>") + ">")
        events: Any = parser.read_events()
        return dict(next(events)[1].attrib)
    except (etree.XMLSyntaxError, ValueError, StopIteration):
        return {match[1]: match[2] or match[3] or "" for match in reversed(list(ATTRIBUTE.finditer(tag)))}


def spans(text: str) -> list[Span]:
    """The results in a text, in order: balanced and outermost, each up to the last end tag before the next result.

    A start tag counts after the text's start, white space or an end tag. Elsewhere (after a quotation mark or a
    backtick) and in a closed fenced block it is the writer's text, with its end tag; so is one that is never closed.
    """
    open_tags: list[Tag] = []
    found: list[Span] = []
    for tag in _tags(text):
        if tag.is_start:
            # What stands quoted inside a result is the tool's text, and need not be balanced.
            if not tag.is_quoted or all(other.is_quoted for other in open_tags):
                open_tags.append(tag)
        elif open_tags:
            start = open_tags.pop()
            if not start.is_quoted:
                while found and found[-1].begin > start.begin:
                    found.pop()
                found.append(Span(start.begin, start.end, tag.begin, tag.end))
        elif found:
            found[-1] = found[-1]._replace(stop=tag.begin, end=tag.end)
    return _unfenced(text, found)


def _tags(text: str) -> Iterator[Tag]:
    """The tags in order. Found by the word: a pattern alone is slow on a long text."""
    at = text.find(WORD)
    while at >= 0:
        if at and text[at - 1] == "<":
            head = HEAD.match(text, at - 1)
            end = head.end() if head else 0
            if head and text[end : end + 1] == ">" and head[0][-1] != "/" and "tool_name" in attributes(head[0]):
                yield Tag(at - 1, end + 1, True, not _begins_result(text, at - 1))
        elif text[at - 2 : at] == "</" and (tag := END_TAG.match(text, at - 2)):
            yield Tag(*tag.span(), False, False)
        at = text.find(WORD, at + len(WORD))


def _begins_result(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return not before or before.isspace() or bool(AFTER_END_TAG.search(text, max(0, at - LONGEST_END_TAG), at))


def _unfenced(text: str, found: list[Span]) -> list[Span]:
    """Without the spans that stand in a fenced block of the writer's."""
    edges = [0, *(edge for span in found for edge in (span.begin, span.end)), len(text)]
    gaps = list(zip(edges[::2], edges[1::2], strict=True))
    if not any("```" in text[begin:end] or "~~~" in text[begin:end] for begin, end in gaps[:-1]):
        return found
    fences = [fence for begin, end in gaps for fence in FENCE.finditer(text, begin, end)]
    blocks = _blocks(fences)
    return [span for span in found if not any(begin < span.begin < end for begin, end in blocks)]


def _blocks(fences: list[re.Match[str]]) -> list[tuple[int, int]]:
    """Where fenced blocks begin and end; one that is never closed is none."""
    blocks = []
    opened: re.Match[str] | None = None
    for fence in fences:
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            blocks.append((opened.start(), fence.end()))
            opened = None
    return blocks


def cuts(text: str, found: list[Span]) -> list[int]:
    """Where to cut a text so that each piece holds at most one result and the pieces' token counts add up.

    Exact for o200k and cl100k: after a newline before "<", and between "<tool_result" and a single space.
    """
    return [at if text[at - 1 : at] == "\n" else at + len("<tool_result") for at, *_ in found[1:]]


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
