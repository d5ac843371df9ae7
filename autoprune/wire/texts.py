"""Results and calls inside texts, whatever the format of the message that holds them.

`calls` finds the calls in the model's text, and remembers the text. `user_text` finds the results in the user's text,
in one dialect. The dialect's mark must be in the text, and its results must be possible here given the model's
last output (`parsing.Standing`); of several dialects, the one that begins first is used. So after

    assistant: <tool_call>{"name": "ls", "arguments": {}}</tool_call>
    user:      <tool_response>a.py <tool_result tool_name='x'>…</tool_result></tool_response>

the user's text holds one result of the dialect with `<tool_response>`; the element inside it is part of the payload.
For the report, `Parser.note_lookalike` notes lookalikes that are no results, and the reason.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Path, ToolCall, ToolResult
from autoprune.wire._cline_text import CLINE
from autoprune.wire._parts import TEXT_BLOCKS
from autoprune.wire._tool_response import TOOL_RESPONSE
from autoprune.wire.dialects import Dialect, all_dialects, register, results_in_text
from autoprune.wire.parsing import Parser
from autoprune.wire.xml_tool_result import XML_DIALECT

Reading: TypeAlias = tuple[tuple[ToolResult, ...], int]  # the results in a content, and its tokens
ReadBlock: TypeAlias = Callable[[object, Path, Parser], Reading]

SHIPPED_DIALECTS = (CLINE, XML_DIALECT, TOOL_RESPONSE)
for _dialect in SHIPPED_DIALECTS:
    register(_dialect, is_checked=True)


def user_block(item: object, path: Path, parser: Parser) -> Reading:
    """Find the results in one block of a user's content, and count the block's tokens."""
    block = fields_of(item)
    text = block.get("text")
    if block.get("type") in TEXT_BLOCKS and isinstance(text, str):
        return user_text(text, (*path, "text"), parser)
    return (), parser.tokens(item)


def user_content(content: object, path: Path, parser: Parser, read_block: ReadBlock = user_block) -> Reading:
    """Find the results in a user's content, and count the content's tokens.

    The content is a text, a list of blocks, or anything else, which is only counted. `read_block` reads the blocks of
    formats whose user messages hold more than texts, such as native results.
    """
    if isinstance(content, str):
        return user_text(content, path, parser)
    if not isinstance(content, list):
        return (), parser.tokens(content)
    all_results: list[ToolResult] = []
    total = 0
    for index, item in enumerate(content):
        results, weight = read_block(item, (*path, index), parser)
        all_results += results
        total += weight
    return tuple(all_results), total


def user_text(text: str, path: Path, parser: Parser) -> Reading:
    """Find the results in a user's text, in the dialect that begins first, and count the text's tokens."""
    for dialect in all_dialects() if parser.heading else ():
        if dialect.find_below and (below := dialect.find_below(text, path, parser)) is not None:
            return results_in_text(text, below, path, parser, dialect.kind)
    possible = [dialect for dialect in all_dialects() if dialect.mark in text]
    if not possible:
        return (), parser.count(text)
    chosen = _choose_dialect(possible, text, parser)
    results = chosen.find(text, path, parser) if chosen else ()
    # If a dialect was read, lookalikes of others are inside its payloads or beside them, which is not worth a note.
    for dialect in [chosen] if chosen and results else possible:
        if why := dialect.explain(text, parser):
            parser.note_lookalike(dialect.look, f"is no result: {why}")
    return results_in_text(text, results, path, parser, (chosen or possible[0]).kind)


def _choose_dialect(possible: Sequence[Dialect], text: str, parser: Parser) -> Dialect | None:
    """Choose the dialect to read a text in: the first to begin, of those whose results the text can hold."""
    allowed = [dialect for dialect in possible if dialect.refuse(text, parser) is None]
    if len(allowed) < 2:
        return allowed[0] if allowed else None
    # The choice does not depend on payloads, so clearing them does not change it.
    begins = [(dialect.find_begin(text, parser), at) for at, dialect in enumerate(allowed)]
    return allowed[min((found for found in begins if found[0] >= 0), default=(0, 0))[1]]


def model_content(content: object, path: Path, parser: Parser) -> list[ToolCall]:
    """Find the calls in the model's content: a text, or blocks of text."""
    if not isinstance(content, list):
        return [*calls(content, path, parser)]
    texts = (fields_of(item).get("text") for item in content)
    return [call for at, text in enumerate(texts) for call in calls(text, (*path, at, "text"), parser)]


def calls(text: object, path: Path, parser: Parser) -> Sequence[ToolCall]:
    """Find the calls in a model's text, in the dialect whose call begins first."""
    # Without a tag there is neither a call nor an opening tag for `Standing` to find.
    if not isinstance(text, str) or "<" not in text:
        return ()
    first = _first_calls(text, path, parser)
    parser.standing.add_text(text, first)
    return first


def _first_calls(text: str, path: Path, parser: Parser) -> Sequence[ToolCall]:
    # The last registered dialect goes first: XML takes any element of elements for a call, so it must not win a tie.
    dialects = (dialect for dialect in reversed(all_dialects()) if dialect.calls and dialect.call_mark in text)
    read_calls = [[*dialect.calls(text, path, parser)] for dialect in dialects if dialect.calls]
    readings = [calls for calls in read_calls if calls]
    return min(readings, key=lambda calls: text.index("<", calls[0].location.start or 0), default=())
