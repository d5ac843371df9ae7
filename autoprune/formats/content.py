"""What a message's content holds: text, blocks, media, or anything else, counted and never changed."""

from collections.abc import Iterator, Mapping
from enum import Enum

from autoprune.errors import ConversationError
from autoprune.media import is_media, media_tokens
from autoprune.tokens import Count

NOTHING: Mapping[str, object] = {}
MOST_VALUES = 5_000_000  # in one message
MOST_CONTAINERS = 200_000  # lists and mappings, likewise
LARGEST_DECIMAL = 10**4000  # Python refuses to write longer ones
TEXT_BLOCKS = ("text", "input_text", "output_text")


def fields(value: object) -> Mapping[str, object] | None:
    """A mapping itself, the fields of an SDK's object (extra ones included), None for what has no named fields."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    if isinstance(value, type | Enum):
        return None
    own = getattr(value, "__dict__", None)
    extra = getattr(value, "__pydantic_extra__", None)
    return {**own, **extra} if own and extra else own


def tokens(content: object, count: Count) -> int:
    """Tokens of a content: its texts counted one by one, media by rule, of unknown blocks every name and value.

    Raises ConversationError for a list or mapping that holds itself.
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
            total += count(written(value))
        elif isinstance(value, Enum):
            open_values.append(value.value)
        elif value is not None and (block := fields(value)) is not None:
            if is_media(block):
                total += media_tokens(block)
            else:
                open_values.extend(_counted(block))
    return total


def text_of(blocks: list[object]) -> str:
    """The texts of a list of blocks, a line break between them; other blocks are left out."""
    found = (block if isinstance(block, str) else (fields(block) or NOTHING).get("text") for block in blocks)
    return "\n".join(text for text in found if isinstance(text, str))


def nested(open_values: list[object]) -> Iterator[object]:
    """Take values off a list until it is empty. Raises ConversationError where that would never end."""
    for _ in range(MOST_VALUES):
        if not open_values:
            return
        yield open_values.pop()
    raise endless()


def endless() -> ConversationError:
    """The error for a message that never ends."""
    most = f"{MOST_VALUES:,} values or {MOST_CONTAINERS:,} lists and mappings"
    return ConversationError(f"it holds more than {most}, or a list or mapping that holds itself")


def written(number: bool | int | float) -> str:
    """A number as text; equal numbers have equal texts, so that 1, 1.0 and True count alike."""
    if isinstance(number, float):
        return str(int(number)) if number.is_integer() else str(number)
    return f"{int(number):x}" if abs(number) > LARGEST_DECIMAL else str(int(number))


def _counted(block: Mapping[str, object]) -> Iterator[object]:
    """The parts of a block that reach the model: the text of a text block, names and values of any other."""
    if block.get("type") in TEXT_BLOCKS and "text" in block:
        yield block["text"]
    else:
        for name, value in block.items():
            yield name
            yield value
