"""Results and calls inside texts, whatever the format of the message that holds them.

How it works. A text of the model's is searched for calls (`calls`), and what it said is remembered. A text of the
user's is searched for results (`user_text`), in one dialect: of those whose mark stands in the text and whose results
may stand here, as `Standing` judges by what the model said, the one that begins first. So behind

    assistant: <tool_call>{"name": "ls", "arguments": {}}</tool_call>
    user:      <tool_response>a.py <tool_result tool_name='x'>…</tool_result></tool_response>

the user's text holds one result of the dialect with `<tool_response>`; the element inside it is part of the payload.
What looks like a result and was not taken is noted with the reason (`Parser.miss`), for the report.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import autoprune.formats._cline_text as _cline_text
import autoprune.formats._function_results_text as _function_results_text
import autoprune.formats._tool_response_text as _tool_response_text
import autoprune.formats.xml_tool_result as xml
from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Path, ToolCall, ToolResult
from autoprune.formats._parts import TEXT_BLOCKS
from autoprune.formats.parsing import Parser, Standing


class Dialect(Protocol):
    """How one family of agents writes results into a user's text."""

    @property
    def MARK(self) -> str:  # noqa: N802 - a module's constant
        """The text that every text with a result holds."""

    @property
    def LOOK(self) -> str:  # noqa: N802 - a module's constant
        """The look of a result, for a person to read."""

    def refusal(self, text: str, standing: Standing, /) -> str | None:
        """Return why no result can stand in a text with the mark, in words; None where one can."""

    def begin(self, text: str, standing: Standing, /) -> int:
        """Return where the first result can begin; -1 for nowhere."""

    def missed(self, text: str, standing: Standing, /) -> str | None:
        """Return why something that looks like a result is none, in words; None where there is no such thing."""

    def results(self, text: str, path: Path, parser: Parser, /) -> tuple[list[ToolResult], int]:
        """Return the results in a user's text, and the tokens of the whole text."""


class CallDialect(Protocol):
    """How models of one family write calls into their text."""

    @property
    def CALL_MARK(self) -> str:  # noqa: N802 - a module's constant
        """The text that every text with a call holds."""

    def calls_in(self, text: str, path: Path, parser: Parser, /) -> Iterable[ToolCall]:
        """Return the calls in a text of the model's."""


DIALECTS: tuple[Dialect, ...] = (_cline_text, xml, _tool_response_text, _function_results_text)
CALL_DIALECTS: tuple[CallDialect, ...] = (_function_results_text, _tool_response_text, xml)


def user_content(content: object, path: Path, parser: Parser) -> tuple[tuple[ToolResult, ...], int]:
    """Return the results in a user's content (a text, blocks of text, or anything else), and its tokens."""
    if isinstance(content, str):
        return user_text(content, path, parser)
    if not isinstance(content, list):
        return (), parser.tokens(content)
    found: list[ToolResult] = []
    total = 0
    for index, item in enumerate(content):
        results, weight = user_block(item, (*path, index), parser)
        found += results
        total += weight
    return tuple(found), total


def user_block(item: object, path: Path, parser: Parser) -> tuple[tuple[ToolResult, ...], int]:
    """Return the results in one block of a user's content, and its tokens."""
    block = fields_of(item)
    text = block.get("text")
    if block.get("type") in TEXT_BLOCKS and isinstance(text, str):
        return user_text(text, (*path, "text"), parser)
    return (), parser.tokens(item)


def user_text(text: str, path: Path, parser: Parser) -> tuple[tuple[ToolResult, ...], int]:
    """Return the results in a user's text, and its tokens. All are of one dialect: the first that may begin here."""
    if parser.heading and (under := _cline_text.under_heading(text, path, parser)):
        return tuple(under[0]), under[1]
    possible = [dialect for dialect in DIALECTS if dialect.MARK in text]
    if not possible:
        return (), parser.count(text)
    is_whole = text.startswith(xml.MARK) and parser.is_tool_result(text) and parser.standing.refusal() is None
    if is_whole and (alone := xml.alone(text, path, parser)):
        return tuple(alone[0]), alone[1]
    dialect = _dialect(possible, text, parser)
    results, weight = dialect.results(text, path, parser) if dialect else ([], parser.count(text))
    for looked in [dialect] if dialect and results else possible:
        if why := looked.missed(text, parser.standing):
            parser.miss(looked.LOOK, f"is no result: {why}")
    return tuple(results), weight


def _dialect(possible: Sequence[Dialect], text: str, parser: Parser) -> Dialect | None:
    """Return the dialect whose results may stand in a text, of several the one that begins first; None for none."""
    standing = parser.standing
    allowed = [
        dialect
        for dialect in possible
        if dialect.refusal(text, standing) is None and (dialect is not xml or parser.is_tool_result(text))
    ]
    if len(allowed) < 2:
        return allowed[0] if allowed else None
    # The choice depends on no payload, so that it stays when payloads are cleared.
    begins = [(dialect.begin(text, standing), at) for at, dialect in enumerate(allowed)]
    return allowed[min((found for found in begins if found[0] >= 0), default=(0, 0))[1]]


def model_content(content: object, path: Path, parser: Parser) -> list[ToolCall]:
    """Return the calls in the model's content: a text, or blocks of text."""
    if not isinstance(content, list):
        return [*calls(content, path, parser)]
    texts = (fields_of(item).get("text") for item in content)
    return [call for at, text in enumerate(texts) for call in calls(text, (*path, at, "text"), parser)]


def calls(text: object, path: Path, parser: Parser) -> Sequence[ToolCall]:
    """Return the calls in a text of the model's, of the dialect whose call begins first."""
    if not isinstance(text, str) or "<" not in text:
        return ()
    found = _calls(text, path, parser) if "</" in text else ()
    parser.standing.say(text, found)
    return found


def _calls(text: str, path: Path, parser: Parser) -> Sequence[ToolCall]:
    made = [[*dialect.calls_in(text, path, parser)] for dialect in CALL_DIALECTS if dialect.CALL_MARK in text]
    found = [calls for calls in made if calls]
    return min(found, key=lambda calls: _begin(text, calls[0])) if len(found) > 1 else found[0] if found else ()


def _begin(text: str, call: ToolCall) -> int:
    """Return where a call's first tag stands."""
    return text.index("<", call.location.start or 0)
