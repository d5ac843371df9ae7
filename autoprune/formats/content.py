"""What a message's content holds: text, blocks, media, or anything else, counted and never changed."""

from collections.abc import Iterator, Mapping

from autoprune.media import is_media, media_tokens
from autoprune.tokens import Count

NOTHING: Mapping[str, object] = {}
TEXT_BLOCKS = ("text", "input_text", "output_text")


def fields(value: object) -> Mapping[str, object] | None:
    """A mapping itself, the fields of an SDK's object (extra ones included), None for what has no named fields."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    own = getattr(value, "__dict__", None)
    extra = getattr(value, "__pydantic_extra__", None)
    return {**own, **extra} if own and extra else own


def tokens(content: object, count: Count) -> int:
    """Tokens of a content: its texts counted one by one, media by rule, of unknown blocks every name and value."""
    if type(content) is str:
        return count(content)
    total = 0
    open_values: list[object] = [content]
    while open_values:
        value = open_values.pop()
        if isinstance(value, str):
            total += count(value)
        elif isinstance(value, list | tuple):
            open_values.extend(value)
        elif isinstance(value, bool | int | float):
            total += count(str(value))
        elif value is not None and (block := fields(value)) is not None:
            if is_media(block):
                total += media_tokens(block)
            else:
                open_values.extend(_counted(block))
    return total


def _counted(block: Mapping[str, object]) -> Iterator[object]:
    """The parts of a block that reach the model: the text of a text block, names and values of any other."""
    if block.get("type") in TEXT_BLOCKS and "text" in block:
        yield block["text"]
    else:
        for name, value in block.items():
            yield name
            yield value
