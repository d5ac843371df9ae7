"""Dialects: how a family of agents writes tool results into a user's text, and calls into the model's.

A `Dialect` is one value that describes a dialect completely: the texts to search, the tags and headings to escape in a
text that replaces a payload (`escape`), and the tags that summarizers skip. Registering this value is all it takes.

`element_dialect` makes the value of a dialect whose results are elements with a raw payload; docs/formats.md has an
example. Other results need a `Dialect` with custom functions: `_cline_text` is an example, and `xml_tool_result` is
another that scans its own tags.

To ship a dialect, put its value into a module of this package and a line into `SHIPPED_DIALECTS` in `texts`. The
properties in tests/wire/test_dialects.py hold for every registered dialect: they build their conversations from its
`example`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from autoprune.conversation.transcript import Location, Path, ToolCall, ToolInput, ToolResult, as_text
from autoprune.errors import SettingsError
from autoprune.wire._elements import (
    Span,
    elements,
    explain_miss,
    first_start,
    pair_outermost,
    tags,
    trim_line_breaks,
)
from autoprune.wire._parts import Put
from autoprune.wire.parsing import UNKNOWN, Parser

__all__ = [
    "REGISTERED",
    "Dialect",
    "Example",
    "FoundResult",
    "Span",
    "element_dialect",
    "escape",
    "read_raw",
    "register",
    "unregister",
]

LETTERS = re.compile(r"[A-Za-z]*")
PAYLOAD = "@"  # the payload in an example
ELEMENT = re.compile(r"<([A-Za-z][\w-]*)[^<>]*>")


class FoundResult(NamedTuple):
    """A result in a text: its payload from `start` to `stop`, and the offset of the exact cut before it."""

    cut: int
    start: int
    stop: int
    tool: str
    call: ToolCall | None
    is_error: bool | None = None
    put: Put = as_text
    is_plain: bool = True


ReadElement: TypeAlias = Callable[[str, Span, Parser], Iterable[FoundResult]]


@dataclass(frozen=True)
class Example:
    """A call as the model writes it, and a result that may follow it, with "@" in place of its payload."""

    call: str
    result: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A way to write results into a user's text, and calls into the model's.

    `kind` names the dialect (`ToolResult.kind`). `mark` is in every text that holds a result, and `look` shows a person
    what a result looks like. `tags` are the names of the elements that begin, end or divide a result, and `headings`
    are other texts that begin a result. Neither tags nor headings may occur in a text that replaces a payload.

    The functions are called only with texts that hold the mark:

    - `find(text, path, parser)` returns the results in the text at `path`, in order, and closes the calls that they
      answer.
    - `spans(text)` returns the offsets of results, in order, including their tags or headings.
    - `find_begin(text, parser)` returns the offset at which the first result can begin, or -1. The offset chooses
      between dialects, so it must not depend on payloads: clearing a payload must not change the choice.
    - `refuse(text, parser)` returns the reason why the text can hold no result at this point, None if it can.
    - `explain(text, parser)` returns the reason why text that resembles a result was not read as one, or None.
    - `find_below(text, path, parser)` returns the results in a text block whose heading is the block before it, None
      for any other block. It is called only if `find` has set `parser.heading`.
    - `is_frame(text)` says whether a text is only the heading of a result in another block.
    - `calls(text, path, parser)` returns the calls in the model's text; every such text holds `call_mark`.
    """

    kind: str
    mark: str
    look: str
    tags: frozenset[str]
    example: Example
    find: Callable[[str, Path, Parser], Sequence[FoundResult]]
    spans: Callable[[str], Sequence[tuple[int, int]]]
    find_begin: Callable[[str, Parser], int]
    refuse: Callable[[str, Parser], str | None]
    explain: Callable[[str, Parser], str | None]
    headings: tuple[str, ...] = ()
    find_below: Callable[[str, Path, Parser], Sequence[FoundResult] | None] | None = None
    is_frame: Callable[[str], bool] | None = None
    calls: Callable[[str, Path, Parser], Iterable[ToolCall]] | None = None
    call_mark: str = ""


def element_dialect(
    name: str,
    *,
    answers: str,
    example: Example,
    read_element: ReadElement | None = None,
    calls: Callable[[str, Path, Parser], Iterable[ToolCall]] | None = None,
    call_mark: str = "",
) -> Dialect:
    """Make the dialect whose results are elements `<name>…</name>` that begin a line or follow an end tag.

    A text holds results only if the model's last message has the opening tag `<answers`. `read_element` returns the
    results in one element; by default, its whole payload is the result of the next open call.
    """

    def find(text: str, path: Path, parser: Parser) -> list[FoundResult]:
        read = read_element or partial(_read_raw, name)
        return [found for span in elements(text, name) for found in read(text, span, parser)]

    def explain(text: str, parser: Parser) -> str | None:
        all_tags = [*tags(text, name)]
        refused = parser.standing.refusal(answers)
        return explain_miss(text, all_tags, pair_outermost(all_tags), refused, wants="it does not begin a line")

    return Dialect(
        kind=name,
        mark=f"<{name}>",
        look=f"<{name}>",
        tags=frozenset((name,)),
        example=example,
        find=find,
        spans=lambda text: [(span.begin, span.end) for span in elements(text, name)],
        find_begin=lambda text, parser: first_start(tags(text, name)),
        refuse=lambda text, parser: parser.standing.refusal(answers),
        explain=explain,
        calls=calls,
        call_mark=call_mark,
    )


def _read_raw(name: str, text: str, span: Span, parser: Parser) -> list[FoundResult]:
    return [read_raw(name, text, span, parser.open_calls.close_next_in_text())]


def read_raw(name: str, text: str, span: Span, call: ToolCall | None, tool: str = "") -> FoundResult:
    """Read an element `<name>` as one result, from `tool`, or else from the tool that `call` names."""
    start, stop = trim_line_breaks(text, span.start, span.stop)
    # If cut in the middle, a payload that contains another such element might be read as that element.
    is_plain = name not in text[start:stop]
    tool = tool or (call.name if call else UNKNOWN)
    return FoundResult(after_letters(text, span.begin + 1), start, stop, tool, call, is_plain=is_plain)


# By kind. One registry for the process, as for codecs: placeholders are escaped far from the parser, for every dialect.
REGISTERED: dict[str, Dialect] = {}


def register(dialect: Dialect, *, is_checked: bool = False) -> None:
    """Register a dialect for the whole process. Call it before anything is pruned.

    `is_checked` skips the check of the example for shipped dialects: the tests check these, and lxml loads lazily.
    Raises SettingsError if the kind is taken, or if the example lacks the mark, cannot be read by `spans`, or holds an
    element that `tags` does not name.
    """
    if dialect.kind in REGISTERED:
        raise SettingsError(f"there is a dialect {dialect.kind!r} already: give another kind")
    if not is_checked:
        _check_complete(dialect)
    REGISTERED[dialect.kind] = dialect


def unregister(kind: str) -> None:
    """Remove a dialect from the registry, such as one that a test has registered."""
    REGISTERED.pop(kind, None)


def _check_complete(dialect: Dialect) -> None:
    called, sample = f"the dialect {dialect.kind!r}", dialect.example.result
    if not dialect.mark or dialect.mark not in sample or PAYLOAD not in sample:
        raise SettingsError(f"the example of {called} must hold its mark {dialect.mark!r}, and {PAYLOAD!r} as payload")
    if not dialect.spans(sample):
        raise SettingsError(f"{called} finds no result in its own example {sample!r}")
    if missing := {match[1] for match in ELEMENT.finditer(sample)} - dialect.tags:
        raise SettingsError(f"{called} must have {sorted(missing)} in its tags: its example holds them")


def escape(text: str) -> str:
    """Break the tags and headings of every registered dialect in a text.

    Then no dialect reads the text as the end of the result that contains it, or as the beginning of another one.
    """
    tag, headings = _breakable(tuple(REGISTERED.values()))
    # A space after "<" keeps the text readable, and no dialect reads the rest as a tag.
    text = tag.sub("< ", text)
    for heading in headings:
        text = text.replace(heading, f"{heading[:1]} {heading[1:]}")
    return text


@lru_cache(maxsize=8)  # changes only if a dialect is registered
def _breakable(dialects: tuple[Dialect, ...]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern that finds the "<" of the tags of some dialects, and the headings of these dialects."""
    names = sorted({re.escape(name) for dialect in dialects for name in dialect.tags})
    headings = (heading for dialect in dialects for heading in dialect.headings)
    return re.compile(rf"<(?=/?(?:{'|'.join(names)})\b)"), tuple(dict.fromkeys(headings))


def _escape_and_put(put: Put, value: object, text: str) -> object:
    return put(value, escape(text))


# Parts of a text. It is counted in pieces, cut at offsets where token counts add up exactly. In o200k and cl100k, a cut
# is exact between a letter and a character that is not a letter, mark or apostrophe, as in `<tool` and `_response>`: no
# token crosses it, and no token depends on the text beyond it. So clearing one result recounts only its small piece and
# never the others.


def after_letters(text: str, at: int) -> int:
    """Return the end of the letters at an offset: an exact cut if a `_`, `>` or the like follows."""
    match = LETTERS.match(text, at)
    return match.end() if match else at


def results_in_text(
    text: str, found: Sequence[FoundResult], path: Path, parser: Parser, kind: str
) -> tuple[tuple[ToolResult, ...], int]:
    """Create the results in a text, in order, and count the whole text. Texts that replace them are escaped."""
    if not found:
        return (), parser.count(text)
    edges = pairwise((0, *(one.cut for one in found[1:]), len(text)))
    results: list[ToolResult] = []
    for one, (begin, end) in zip(found, edges, strict=True):
        piece = text[begin:end]
        result = ToolResult(
            location=Location(path, one.start, one.stop),
            request=one.call.request if one.call else parser.request,
            tool=one.tool,
            piece=piece,
            start=one.start - begin,
            stop=one.stop - begin,
            piece_tokens=parser.count(piece),
            count=parser.count,
            # `put` escapes, rather than its callers, so that no caller can forget it.
            put=partial(_escape_and_put, one.put),
            is_plain=one.is_plain,
            sent=parser.sent,
            kind=kind,
            is_error=one.is_error,
            call=one.call,
        )
        results.append(result)
    return tuple(results), sum(result.piece_tokens for result in results)


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
    """Create the argument at `place` in the model's text, with the piece of text `between` two exact cuts."""
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
