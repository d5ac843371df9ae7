"""Read the words of a message of any API: its texts without thinking, calls and results."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from autoprune.conversation.messages import fields
from autoprune.conversation.transcript import Entry, Label, Path, ToolCall, ToolResult
from autoprune.wire._media import find_medium
from autoprune.wire.dialects import all_dialects, dialect_of

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
        """Yield the texts of a message, in order; some may be blank."""
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
        is_frame = any(one.mark in text and one.is_frame(text) for one in all_dialects() if one.is_frame)
        return "" if is_frame else text
    dialects = filter(None, map(dialect_of, {part.kind for part in parts if isinstance(part, ToolResult)}))
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
