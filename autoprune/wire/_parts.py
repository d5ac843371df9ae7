"""The contents of messages: count their tokens, and make payloads whose texts can be replaced."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from autoprune.conversation.messages import fields, fields_of, items_of, join_texts, nested, number_text
from autoprune.conversation.transcript import Entry, Speaker, as_text
from autoprune.errors import ConversationError
from autoprune.tokens import Count
from autoprune.wire._media import Media, is_media, media

TEXT_BLOCKS = ("text", "input_text", "output_text")
ENCRYPTED_CHARACTERS = 6  # of base64 per token: 4 characters encode 3 bytes, and a token has about four bytes


Put: TypeAlias = Callable[[object, str], object]  # replaces a payload with a text


class Payload(NamedTuple):
    """The payload of a result: the text that the model reads, its tokens, and how to replace the text (`put`)."""

    text: str
    tokens: int
    put: Put = as_text
    is_fixed: bool = False
    is_plain: bool = True  # whether it holds only the text


def tokens(content: object, count: Count, rules: Media = media) -> int:
    """Count the tokens of a content: its texts, its media by `rules`, and the names and values of other blocks.

    Raises ConversationError for a list or mapping that contains itself.
    """
    if type(content) is str:
        return count(content)
    if content is None:
        return 0
    total = 0
    open_values: list[object] = [content]
    for value in nested(open_values):
        if isinstance(value, str):
            total += count(value)
        elif isinstance(value, list | tuple):
            open_values.extend(value)
        elif isinstance(value, bool | int | float):
            total += count(number_text(value))
        elif isinstance(value, Enum):
            open_values.append(value.value)
        elif value is not None and (block := fields(value)) is not None:
            if (spent := rules(block, count)) is not None:
                total += spent
            else:
                open_values.extend(_counted_values(block))
    return total


def read_tokens(
    block: object, count: Count, rules: Media, unread: Collection[str], other: Callable[[Mapping[str, object]], int]
) -> int:
    """Count the tokens of the texts and media in a block and in the blocks inside it, but not in `unread` fields.

    `other` counts those unread fields of a block that have tokens all the same.
    """
    total = 0
    open_values = [block]
    for value in nested(open_values):
        inner = fields(value)
        if isinstance(value, list | tuple):
            open_values.extend(value)
        elif inner is None or is_media(inner):
            total += tokens(value, count, rules)
        else:
            total += other(inner)
            open_values.extend(item for name, item in inner.items() if name not in unread)
    return total


def payload(value: object, count: Count, put: Put) -> Payload:
    """Return the payload of a text or a list of blocks; anything else is a fixed payload.

    `put` replaces the text of a list of blocks.
    """
    if isinstance(value, str):
        return Payload(value, count(value))
    if isinstance(value, list | tuple):
        return Payload(join_texts(value), tokens(value, count), put, is_plain=all(map(_has_text, value)))
    return Payload("", tokens(value, count), is_fixed=True)


def _has_text(block: object) -> bool:
    return isinstance(block, str) or isinstance(fields_of(block).get("text"), str)


def text_block(blocks: object, text: str) -> list[object]:
    """Replace all blocks with one text block, keeping the last breakpoint of the prompt cache."""
    mappings = [*map(fields_of, items_of(blocks))]
    marks = [block["cache_control"] for block in mappings if block.get("cache_control")]
    return [{"type": "text", "text": text, **({"cache_control": marks[-1]} if marks else {})}]


def json_text(value: object) -> str:
    """Encode a value as the JSON text that a provider receives. Raises ConversationError if that is impossible."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain_fields)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConversationError(f"arguments that cannot be written as JSON: {error}") from error


def _plain_fields(value: object) -> object:
    """Convert an SDK's object to a dict of its fields, and anything else to text."""
    plain = fields(value)
    return str(value) if plain is None else dict(plain)


def as_json(value: object, text: str) -> Any:
    """Decode the JSON text that replaces a mapping of arguments."""
    return json.loads(text)


def encrypted_tokens(data: object) -> int:
    """Estimate the tokens of encrypted data from its length in base64, which botocore has already decoded."""
    if isinstance(data, bytes):
        return len(data) * 4 // (3 * ENCRYPTED_CHARACTERS)
    return len(data) // ENCRYPTED_CHARACTERS if isinstance(data, str) else 0


def _counted_values(block: Mapping[str, object]) -> Iterator[object]:
    """Yield the values of a block that are counted: for a text block the text, for others the names and values."""
    if block.get("type") in TEXT_BLOCKS and "text" in block:
        yield block["text"]
    else:
        for name, value in block.items():
            if value is not None:  # SDK objects have all fields, most of them None
                yield name
                yield value


def join_entries(who: Speaker, weight: int, read: Sequence[Entry]) -> Entry:
    """Join the entries of a message's parts into one entry. `weight` is the tokens of the message's frame."""
    return Entry(
        who,
        weight + sum(one.tokens for one in read),
        tuple(result for one in read for result in one.results),
        tuple(call for one in read for call in one.calls),
        tuple(thought for one in read for thought in one.thinking),
    )
