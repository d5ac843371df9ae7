"""Words, results and calls inside texts, whatever the format of the message that holds them.

`calls` finds the calls in the model's text, and remembers the text. `user_text` finds the results in the user's text,
in one dialect. The dialect's mark must be in the text, and its results must be possible here given the model's
last output (`parsing.Standing`); of several dialects, the one that begins first is used. So after

    assistant: <tool_call>{"name": "ls", "arguments": {}}</tool_call>
    user:      <tool_response>a.py <tool_result tool_name='x'>…</tool_result></tool_response>

the user's text holds one result of the dialect with `<tool_response>`; the element inside it is part of the payload.
For the report, `Parser.note_lookalike` notes lookalikes that are no results, and the reason.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from autoprune.conversation.messages import fields, fields_of
from autoprune.conversation.transcript import Entry, Label, Path, ToolCall, ToolResult
from autoprune.wire._cline_text import CLINE
from autoprune.wire._media import find_medium
from autoprune.wire._parts import TEXT_BLOCKS
from autoprune.wire._tool_response import TOOL_RESPONSE
from autoprune.wire.dialects import REGISTERED, Dialect, register, results_in_text
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
    for dialect in REGISTERED.values() if parser.heading else ():
        if dialect.find_below and (below := dialect.find_below(text, path, parser)) is not None:
            return results_in_text(text, below, path, parser, dialect.kind)
    possible = [dialect for dialect in REGISTERED.values() if dialect.mark in text]
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
    dialects = (dialect for dialect in reversed(REGISTERED.values()) if dialect.calls and dialect.call_mark in text)
    read_calls = [[*dialect.calls(text, path, parser)] for dialect in dialects if dialect.calls]
    readings = [calls for calls in read_calls if calls]
    return min(readings, key=lambda calls: text.index("<", calls[0].location.start or 0), default=())


Span = tuple[int, int]

# The fields that hold a message's texts. An item with none of them and no role is searched as a whole.
HOLDERS = ("content", "parts", "refusal", "audio")
# The fields of blocks and items of any API whose strings are texts.
WORDS = frozenset(
    (
        *("text", "refusal", "transcript", "title", "query", "queries", "code", "output", "stdout", "stderr", "logs"),
        *("content", "parts"),
    )
)
SILENT = frozenset(("thinking", "redacted_thinking", "reasoning", "compaction", "item_reference"))  # types
SILENT_FIELDS = frozenset(
    (
        *("reasoningContent", "reasoning", "reasoning_content", "thinking", "encrypted_content", "signature"),
        *("cache_control", "cachePoint", "annotations", "citations", "logprobs", "tools", "toolAddition"),
    )
)
# Blocks that only hold texts. The texts of any other block follow a label with its kind.
PLAIN = frozenset(
    (
        *("text", "input_text", "output_text", "refusal", "message", "content", "citationsContent", "guardContent"),
        *("inlineData", "inline_data", "fileData", "file_data", "audioTranscription", "audio_transcription"),
    )
)
NAMES = ("name", "filename", "title", "file_id", "fileUri", "file_uri")  # most telling first
DEEPEST = 12  # levels of lists and objects that are searched
LONGEST_LABEL = 100  # characters


def message_texts(message: Mapping[str, object], entry: Entry) -> Iterator[str]:
    """Yield the texts of a message; some may be blank. `entry` holds its calls and results, which are left out.

    Thinking is left out too, and the tags or the heading around a call or result in a text. Each image, audio, document
    or other medium becomes a line such as "[image]".
    """
    return _Reader(entry).message_texts(message)


class _Reader:
    """Reads the texts of one message, without its calls and results."""

    def __init__(self, entry: Entry) -> None:
        self.native: set[Path] = set()  # the paths of calls and results that are values of their own
        self.inside: dict[Path, list[ToolResult | ToolCall]] = {}  # the calls and results in each text
        parts: tuple[ToolResult | ToolCall, ...] = (*entry.results, *entry.calls)
        for part in parts:
            path = part.location.path[1:]
            if part.location.start is not None:
                self.inside.setdefault(path, []).append(part)
            elif isinstance(part, ToolCall):
                self.native.add(path)
            else:
                self.native |= {path, path[:-1]}  # the fields beside a payload belong to the result too

    def message_texts(self, known: Mapping[str, object]) -> Iterator[str]:
        if () in self.native:
            return
        holders = [name for name in HOLDERS if known.get(name) is not None]
        if not holders and "role" not in known:
            yield from self._block_texts(known, ())
        for name in holders:
            yield from self._value_texts(known[name], (name,))

    def _value_texts(self, value: object, path: Path) -> Iterator[str]:
        if path in self.native or len(path) > DEEPEST:
            return
        if isinstance(value, str):
            yield _text_around(value, self.inside.get(path, ()))
        elif isinstance(value, list | tuple):
            is_words = path[-1] in WORDS
            for index, item in enumerate(value):
                if is_words or not isinstance(item, str):
                    yield from self._value_texts(item, (*path, index))
        elif (block := fields(value)) is not None:
            yield from self._block_texts(block, path)

    def _block_texts(self, block: Mapping[str, object], path: Path) -> Iterator[str]:
        """Yield the texts in a block, after a label unless the block holds only texts."""
        kind = _kind_of(block)
        if kind in SILENT or block.get("thought") is True:
            return
        if (medium := find_medium(block)) is not None:
            yield Label(f"[{_label(medium.kind, block)}]")
            return
        if kind in SILENT_FIELDS:
            return
        if (
            (not path or isinstance(path[-1], int))
            and len(path) <= 2
            and kind not in PLAIN
            and not any((*path, name) in self.native for name in block)
        ):
            yield Label(f"[{_label(kind, block)}]")
        for name, value in block.items():
            if name not in SILENT_FIELDS and (not isinstance(value, str) or _is_words(name, block)):
                yield from self._value_texts(value, (*path, name))


def _is_words(name: object, block: Mapping[str, object]) -> bool:
    return name in WORDS or (name == "data" and block.get("type") == "text")  # the "data" of a plain text document


def _kind_of(block: Mapping[str, object]) -> str:
    """Return the kind of a block: its type, or else the name of its first field that is not None."""
    if isinstance(kind := block.get("type"), str):
        return kind
    return next((name for name, value in block.items() if value is not None), "text")


def _label(kind: str, block: Mapping[str, object]) -> str:
    """Return the label of a block: its kind and, except for images and audio, its name if there is one."""
    inner = (inside for value in block.values() if (inside := fields(value)) is not None)
    names = (mapping.get(name) for mapping in (block, *inner) for name in NAMES)
    name = "" if kind in ("image", "audio") else next((value for value in names if isinstance(value, str)), "")
    return " ".join(f"{kind} {name}".split())[:LONGEST_LABEL]


def _text_around(text: str, parts: Sequence[ToolResult | ToolCall]) -> str:
    """Remove the results and calls from a text, with the tags or the heading of each."""
    if not parts:
        # Cline may write the heading of a result as a separate block.
        is_frame = any(one.mark in text and one.is_frame(text) for one in REGISTERED.values() if one.is_frame)
        return "" if is_frame else text
    dialects = filter(None, map(REGISTERED.get, {part.kind for part in parts if isinstance(part, ToolResult)}))
    wholes = {dialect.kind: dialect.spans(text) for dialect in dialects}
    around, at = [], 0
    for begin, end in sorted(_extent(text, part, wholes) for part in parts):
        around.append(text[at:begin])
        at = max(at, end)
    return "\n\n".join(filter(None, map(str.strip, (*around, text[at:]))))


def _extent(text: str, part: ToolResult | ToolCall, wholes: Mapping[str, Sequence[Span]]) -> Span:
    """Find the offsets of a result or a call, with the tags or the heading around it."""
    start, stop = part.location.start or 0, part.location.stop or 0
    if isinstance(part, ToolResult):
        spans = wholes.get(part.kind, ())
        index = bisect_right(spans, start, key=lambda span: span[0]) - 1
        return spans[index] if index >= 0 and stop <= spans[index][1] else (start, stop)
    return start, stop
