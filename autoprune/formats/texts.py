"""Results and calls inside texts, whatever the format of the message that holds them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Path, ToolCall, ToolResult
from autoprune.formats import _cline_text, _function_results_text, _tool_response_text
from autoprune.formats import xml_tool_result as xml
from autoprune.formats._payloads import TEXT_BLOCKS
from autoprune.formats._standing import Standing
from autoprune.formats.parsing import Parser


class Dialect(Protocol):
    """A way to write results into a user's text."""

    @property
    def MARK(self) -> str:  # noqa: N802 - a module's constant
        """What stands in every text with a result."""

    @property
    def LOOK(self) -> str:  # noqa: N802 - a module's constant
        """What a result looks like, for a person."""

    def refusal(self, text: str, standing: Standing, /) -> str | None:
        """Return why no result can stand in a text with the mark, in words; None where one can."""

    def begin(self, text: str, standing: Standing, /) -> int:
        """Return where the first result can begin; -1 for nowhere."""

    def missed(self, text: str, standing: Standing, /) -> str | None:
        """Return why something that looks like a result is none, in words; None where there is no such thing."""

    def results(self, text: str, path: Path, parser: Parser, /) -> tuple[list[ToolResult], int]:
        """The results in a user's text, and the tokens of all of it."""


class CallDialect(Protocol):
    """A way to write calls into the model's text."""

    @property
    def CALL_MARK(self) -> str:  # noqa: N802 - a module's constant
        """What stands in every text with a call."""

    def calls_in(self, text: str, path: Path, parser: Parser, /) -> Iterable[ToolCall]:
        """The calls in a text of the model's."""


DIALECTS: tuple[Dialect, ...] = (_cline_text, xml, _tool_response_text, _function_results_text)
CALL_DIALECTS: tuple[CallDialect, ...] = (_function_results_text, _tool_response_text, xml)


def user_content(content: object, path: Path, parser: Parser) -> tuple[tuple[ToolResult, ...], int]:
    """The results in a user's words and the tokens of those: a text, blocks of text, or anything else."""
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
    """The same of one block."""
    block = fields_of(item)
    text = block.get("text")
    if block.get("type") in TEXT_BLOCKS and isinstance(text, str):
        return user_text(text, (*path, "text"), parser)
    return (), parser.tokens(item)


def user_text(text: str, path: Path, parser: Parser) -> tuple[tuple[ToolResult, ...], int]:
    """The same of one text. A text is of one dialect: the one that begins first of those that may stand here."""
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
    """The calls in the model's words: a text, or blocks of text."""
    if not isinstance(content, list):
        return [*calls(content, path, parser)]
    texts = (fields_of(item).get("text") for item in content)
    return [call for at, text in enumerate(texts) for call in calls(text, (*path, at, "text"), parser)]


def calls(text: object, path: Path, parser: Parser) -> Sequence[ToolCall]:
    """The calls in a text of the model's, of the dialect whose call begins first."""
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
    """Where a call's first tag stands."""
    return text.index("<", call.location.start or 0)
