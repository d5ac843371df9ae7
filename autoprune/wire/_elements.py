"""Find elements in raw text by scanning for tags, in linear time. Nothing is parsed."""

import re
from bisect import bisect, bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

QUOTATION_MARKS = ("`", '"', "'", "“", "‘", "«")
AFTER_END_TAG = re.compile(r"</[\w:.-]+\s*>\Z")
LONGEST_END_TAG = 128
SHORT = 2_000  # characters; a shorter text is searched again for each of its tags, which is faster than an index
MOST_ARGUMENTS = 32  # of a call; a longer chain of elements is no call, and is not read to its end
END_TAG = re.compile(r"</([A-Za-z][A-Za-z0-9_]*)>")
BLANK = re.compile(r"\s*")
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)


First: TypeAlias = Callable[[str, int], int]  # the first offset of a word at or after another; -1 if none


class Span(NamedTuple):
    """The offsets of a result in its text: the beginning of its start tag, its payload, and the end of its end tag."""

    begin: int
    start: int
    stop: int
    end: int


class Tag(NamedTuple):
    """A tag in a text. A quoted tag begins no element."""

    begin: int
    end: int
    is_start: bool
    is_quoted: bool


def pair_outermost(tags: Iterable[Tag]) -> list[Span]:
    """Pair tags into balanced, outermost elements, each up to the last end tag before the next element.

    Quoted start tags and their end tags are plain text. Start tags that are never closed are plain text too.
    """
    open_tags: list[Tag] = []
    unquoted = 0
    spans: list[Span] = []
    for tag in tags:
        if tag.is_start:
            # Quoted tags inside a result are the tool's text, and need not be balanced.
            if not tag.is_quoted or not unquoted:
                open_tags.append(tag)
                unquoted += not tag.is_quoted
        elif open_tags:
            start = open_tags.pop()
            if not start.is_quoted:
                unquoted -= 1
                while spans and spans[-1].begin > start.begin:
                    spans.pop()
                spans.append(Span(start.begin, start.end, tag.begin, tag.end))
        elif spans and not tag.is_quoted:
            spans[-1] = spans[-1]._replace(stop=tag.begin, end=tag.end)
    return spans


def elements(text: str, name: str) -> list[Span]:
    """Find the elements `<name>…</name>` that begin a line or follow an end tag, outside fenced blocks."""
    return outside_fences(text, pair_outermost(tags(text, name)))


def first_start(tags: Iterable[Tag]) -> int:
    """Find the offset of the first tag that can begin an element; -1 if there is none."""
    return next((tag.begin for tag in tags if tag.is_start and not tag.is_quoted), -1)


def explain_miss(text: str, found: Sequence[Tag], closed: list[Span], refused: str | None, *, wants: str) -> str | None:
    """Explain why a start tag in `found` begins no result; None if there is nothing to report.

    `closed` are the elements that the tags form. `refused` is the reason why the text can hold no result, or None, and
    `wants` says what must precede a start tag. A start tag after a quotation mark, or without any end tag after it,
    is the writer's text.
    """
    outside = outside_fences(text, closed)
    taken = [] if refused else outside
    last_end = max((tag.begin for tag in found if not tag.is_start), default=-1)
    for tag in found:
        if not tag.is_start or is_within(taken, tag.begin) or text[tag.begin - 1 : tag.begin] in QUOTATION_MARKS:
            continue
        if not tag.is_quoted and not is_within(closed, tag.begin):
            return "it is never closed"
        if not tag.is_quoted:
            return refused if is_within(outside, tag.begin) else "it is in a fenced block"
        if tag.begin < last_end:
            return wants
    return None


def is_within(spans: list[Span], at: int) -> bool:
    """Return whether an offset is in one of the spans, which are sorted."""
    index = bisect(spans, at, key=lambda span: span.begin) - 1
    return index >= 0 and at < spans[index].end


def tags(text: str, name: str) -> Iterator[Tag]:
    """Yield the tags `<name>` and `</name>` of a text; a tag in the middle of a line is quoted."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if text[end : end + 1] == ">":
            if text[at - 1 : at] == "<":
                yield Tag(at - 1, end + 1, True, not begins_line(text, at - 1))
            elif text[at - 2 : at] == "</":
                yield Tag(at - 2, end + 1, False, not begins_line(text, at - 2))
        at = text.find(name, end)


def begins_line(text: str, at: int) -> bool:
    """Return whether only white space separates an offset from the start of the text or line, or from an end tag."""
    before = text[max(0, at - LONGEST_END_TAG) : at]
    words = before.rstrip()
    is_first = not words and len(before) == at
    return is_first or "\n" in before[len(words) :] or bool(AFTER_END_TAG.search(words))


def follows_space(text: str, at: int) -> bool:
    """Return whether an offset is at the start of the text or follows white space or an end tag."""
    before = text[at - 1 : at]
    return not before or before.isspace() or bool(AFTER_END_TAG.search(text, max(0, at - LONGEST_END_TAG), at))


def outside_fences(text: str, found: list[Span]) -> list[Span]:
    """Find the spans that are outside fenced blocks."""
    edges = [0, *(edge for span in found for edge in (span.begin, span.end)), len(text)]
    gaps = list(zip(edges[::2], edges[1::2], strict=True))
    if not any("```" in text[begin:end] or "~~~" in text[begin:end] for begin, end in gaps[:-1]):
        return found
    blocks = _fenced_blocks(fence for begin, end in gaps for fence in FENCE.finditer(text, begin, end))
    return [span for span in found if not is_within(blocks, span.begin)]


def _fenced_blocks(fences: Iterable[re.Match[str]]) -> list[Span]:
    """Find the spans of fenced blocks. A fence that is never closed begins no block."""
    blocks = []
    opened: re.Match[str] | None = None
    for fence in fences:
        if opened is None:
            opened = fence
        elif _closes(fence, opened):
            blocks.append(Span(opened.start(), opened.end(), fence.start(), fence.end()))
            opened = None
    return blocks


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return fence[1].startswith(opened[1]) and not fence[2].strip()


class Fences:
    """A scan for fenced blocks that reads each part of a text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = self._at = 0
        self._opened: re.Match[str] | None = None
        self._has_ends = True

    def end(self, words: int, at: int) -> int:
        """Return the end of the fenced block around `at`; -1 if there is none.

        Only fences from `words` on count. Both offsets must not decrease between calls.
        """
        if words != self._words:
            self._words = self._at = words
            self._opened = None
        for fence in FENCE.finditer(self.text, self._at, at):
            if self._opened is None:
                self._opened = fence
            elif _closes(fence, self._opened):
                self._opened = None
        self._at = max(self._at, at)
        opened = self._opened
        if opened is None or not self._has_ends:
            return -1
        end = next((fence.end() for fence in FENCE.finditer(self.text, at) if _closes(fence, opened)), -1)
        self._has_ends = end >= 0  # an open fence is no block, and its end is not searched again
        return end


def is_blank(text: str, start: int, stop: int) -> bool:
    """Return whether there is only white space between two offsets."""
    match = BLANK.match(text, start, stop)
    return match is None or match.end() >= stop


def trim_line_breaks(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return the offsets of a slice without the line breaks at its ends."""
    inside = text[start:stop]
    kept = inside.lstrip("\r\n")
    start += len(inside) - len(kept)
    return start, start + len(kept.rstrip("\r\n"))


class Places:
    """An index of the offsets of words in a text."""

    def __init__(self, found: Iterable[tuple[str, int]]) -> None:
        """Index words by their offsets, which must be sorted for each word."""
        self._places: dict[str, list[int]] = {}
        for word, at in found:
            self._places.setdefault(word, []).append(at)

    def first(self, word: str, at: int) -> int:
        """Find the first offset of a word at or after `at`; -1 if there is none."""
        places = self._places.get(word, [])
        index = bisect_left(places, at)
        return places[index] if index < len(places) else -1


def end_tags(text: str) -> First:
    """Make a function that finds the first end tag of a name at or after an offset."""
    if len(text) <= SHORT:
        return lambda name, at: text.find(f"</{name}>", at)
    return Places((match[1], match.start()) for match in END_TAG.finditer(text)).first


def occurrences(text: str, *words: str) -> Places:
    """Index the offsets of some words in a text."""
    return Places((word, at) for word in words for at in _occurrences(text, word))


def _occurrences(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
