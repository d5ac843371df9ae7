"""Results and calls inside texts, whatever the format of the message that holds them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from autoprune.formats import cline_text, function_results_text, tool_response_text
from autoprune.formats import xml_tool_result as xml
from autoprune.formats.content import NOTHING, TEXT_BLOCKS, fields, tokens
from autoprune.formats.dialogue import Dialogue
from autoprune.transcript import Path, ToolCall, ToolResult


class Dialect(Protocol):
    """A way to write results into a user's text."""

    @property
    def MARK(self) -> str:  # noqa: N802 - a module's constant
        """What stands in every text with a result."""

    def begin(self, text: str, /) -> int:
        """Where the first result can begin; -1 for nowhere."""

    def results(self, text: str, path: Path, dialogue: Dialogue, /) -> tuple[list[ToolResult], int]:
        """The results in a user's text, and the tokens of all of it."""


class CallDialect(Protocol):
    """A way to write calls into the model's text."""

    @property
    def CALL_MARK(self) -> str:  # noqa: N802 - a module's constant
        """What stands in every text with a call."""

    def calls_in(self, text: str, path: Path, dialogue: Dialogue, /) -> Iterable[ToolCall]:
        """The calls in a text of the model's."""


DIALECTS: tuple[Dialect, ...] = (cline_text, xml, tool_response_text, function_results_text)
CALL_DIALECTS: tuple[CallDialect, ...] = (function_results_text, tool_response_text, xml)


def user_content(content: object, path: Path, dialogue: Dialogue) -> tuple[tuple[ToolResult, ...], int]:
    """The results in a user's words and the tokens of those: a text, blocks of text, or anything else."""
    if isinstance(content, str):
        return user_text(content, path, dialogue)
    if not isinstance(content, list):
        return (), tokens(content, dialogue.count)
    found: list[ToolResult] = []
    total = 0
    for index, item in enumerate(content):
        results, weight = user_block(item, (*path, index), dialogue)
        found += results
        total += weight
    return tuple(found), total


def user_block(item: object, path: Path, dialogue: Dialogue) -> tuple[tuple[ToolResult, ...], int]:
    """The same of one block."""
    block = fields(item) or NOTHING
    text = block.get("text")
    if block.get("type") in TEXT_BLOCKS and isinstance(text, str):
        return user_text(text, (*path, "text"), dialogue)
    return (), tokens(item, dialogue.count)


def user_text(text: str, path: Path, dialogue: Dialogue) -> tuple[tuple[ToolResult, ...], int]:
    """The same of one text. A text is of one dialect: the one that begins first."""
    if dialogue.heading and (under := cline_text.under_heading(text, path, dialogue)):
        return tuple(under[0]), under[1]
    if text.startswith(xml.MARK) and dialogue.is_tool_result(text) and (alone := xml.alone(text, path, dialogue)):
        return tuple(alone[0]), alone[1]
    dialect = _dialect(text, dialogue)
    if dialect is None:
        return (), dialogue.count(text)
    results, weight = dialect.results(text, path, dialogue)
    return tuple(results), weight


def _dialect(text: str, dialogue: Dialogue) -> Dialect | None:
    if text.startswith(xml.MARK) and dialogue.is_tool_result(text) and xml.begin(text) == 0:
        return xml
    possible = [dialect for dialect in DIALECTS if dialect.MARK in text]
    if len(possible) < 2:
        return possible[0] if possible else None
    # The choice depends on no payload, so that it stays when payloads are cleared.
    begins = [(dialect.begin(text), at) for at, dialect in enumerate(possible) if _is_allowed(dialect, text, dialogue)]
    return possible[min((found for found in begins if found[0] >= 0), default=(0, 0))[1]]


def _is_allowed(dialect: Dialect, text: str, dialogue: Dialogue) -> bool:
    return dialect is not xml or dialogue.is_tool_result(text)


def model_content(content: object, path: Path, dialogue: Dialogue) -> list[ToolCall]:
    """The calls in the model's words: a text, or blocks of text."""
    if not isinstance(content, list):
        return [*calls(content, path, dialogue)]
    texts = ((fields(item) or NOTHING).get("text") for item in content)
    return [call for at, text in enumerate(texts) for call in calls(text, (*path, at, "text"), dialogue)]


def calls(text: object, path: Path, dialogue: Dialogue) -> Sequence[ToolCall]:
    """The calls in a text of the model's, of the dialect whose call begins first."""
    if not isinstance(text, str) or "</" not in text:
        return ()
    made = [[*dialect.calls_in(text, path, dialogue)] for dialect in CALL_DIALECTS if dialect.CALL_MARK in text]
    found = [calls for calls in made if calls]
    return min(found, key=lambda calls: _begin(text, calls[0])) if len(found) > 1 else found[0] if found else ()


def _begin(text: str, call: ToolCall) -> int:
    """Where a call's first tag stands."""
    return text.index("<", call.location.start or 0)
