"""Look into any message, a mapping or an SDK's object, and copy it with something changed. Knows no format."""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from autoprune.errors import ConversationError

NOTHING: Mapping[str, object] = {}
MARK, MARK_BLOCK = "cache_control", frozenset(("cachePoint",))  # Anthropic's marks for the cache, and Bedrock's
MARKED_DEPTH = 2  # a message has blocks, and a result among them has blocks too
LARGEST_DECIMAL = 10**4000  # Python refuses to write longer numbers
MOST_VALUES = 5_000_000  # in one message
MOST_CONTAINERS = 200_000  # lists and mappings, likewise


def checked(conversation: object) -> list[Any]:
    """Return a conversation that is a list. Raises ConversationError for anything else."""
    if isinstance(conversation, list):
        return conversation
    hint = "give list(messages)" if isinstance(conversation, Sequence) and not isinstance(conversation, str) else ""
    raise ConversationError(
        f"the conversation is no list but {type(conversation).__name__}; {hint or 'give a list of messages'}"
    )


def fields(value: object) -> Mapping[str, object] | None:
    """Return a mapping itself, or the fields of an SDK's object, extra ones included; None for anything else."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    if value is None or isinstance(value, type | Enum):
        return None
    own = getattr(value, "__dict__", None)
    extra = getattr(value, "__pydantic_extra__", None)
    return {**own, **extra} if own and extra else own


def fields_of(value: object) -> Mapping[str, object]:
    """Return the fields of a mapping or of an SDK's object; none for anything else."""
    return fields(value) or NOTHING


def listed(content: object) -> object:
    """Return the blocks of a content as a list where they stand in a tuple; any other content as it is."""
    return list(content) if isinstance(content, tuple) else content


def text_of(blocks: Sequence[object]) -> str:
    """Return the texts in a list of blocks, joined by line breaks; other blocks are left out."""
    found = (block if isinstance(block, str) else fields_of(block).get("text") for block in blocks)
    return "\n".join(text for text in found if isinstance(text, str))


def number_text(number: bool | int | float) -> str:
    """Return a number as text; equal numbers have equal texts, so that 1, 1.0 and True count alike."""
    if isinstance(number, float):
        return str(int(number)) if number.is_integer() else str(number)
    return f"{int(number):x}" if abs(number) > LARGEST_DECIMAL else str(int(number))


def nested(open_values: list[object]) -> Iterator[object]:
    """Take values off a list until it is empty. Raises ConversationError if that would never end."""
    for _ in range(MOST_VALUES):
        if not open_values:
            return
        yield open_values.pop()
    raise endless()


def endless() -> ConversationError:
    """Return the error for a message that never ends."""
    most = f"{MOST_VALUES:,} values or {MOST_CONTAINERS:,} lists and mappings"
    return ConversationError(f"it holds more than {most}, or a list or mapping that holds itself")


def item(value: object, name: int | str) -> object:
    """Return what a list, mapping or object holds under a name."""
    if isinstance(value, Mapping):
        return value[name]
    return value[name] if isinstance(value, Sequence) and isinstance(name, int) else getattr(value, str(name))


def with_item(value: object, name: int | str, new: object) -> object:
    """Return a shallow copy of a list, tuple, mapping or SDK object, of the same type, with one item changed."""
    return with_items(value, {name: new})


def with_items(value: object, changes: Mapping[str, object] | Mapping[int | str, object]) -> object:
    """Return a shallow copy of a list, tuple, mapping or SDK object, of the same type, with some items changed."""
    if isinstance(value, list | tuple):
        items = list(value)
        for name, new in changes.items():
            items[int(name)] = new
        return items if isinstance(value, list) else tuple(items)
    if type(value) is dict:
        return {**value, **changes}
    new_fields = {str(name): new for name, new in changes.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **new_fields)
    if hasattr(value, "model_copy"):
        return value.model_copy(update=new_fields)
    return _copied(value, changes)


def _copied(value: object, changes: Mapping[str, object] | Mapping[int | str, object]) -> object:
    """Return a copy of any other mapping or object with some items changed; a read-only mapping becomes a dict."""
    if isinstance(value, Mapping):
        try:
            duplicate: Any = copy.copy(value)
            for name, new in changes.items():
                duplicate[name] = new
        except TypeError:
            return {**value, **changes}
        return duplicate
    duplicate = copy.copy(value)
    for name, new in changes.items():
        setattr(duplicate, str(name), new)
    return duplicate


def without_marks(message: object, depth: int = MARKED_DEPTH) -> object:
    """Return what a message says, without the marks for the cache that clients move from request to request.

    A text that is the only block of a content, as it must be to carry a mark, is the text. For digests alone.
    """
    if type(message) is not dict:
        return message
    plain = {name: value for name, value in message.items() if name != MARK}
    if depth and type(plain.get("content")) is list:
        plain["content"] = _said([without_marks(block, depth - 1) for block in plain["content"] if not _is_mark(block)])
    return plain


def _is_mark(block: object) -> bool:
    return type(block) is dict and block.keys() == MARK_BLOCK


def _said(blocks: list[object]) -> object:
    match blocks:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text
    return blocks


def canonical(message: object) -> str:
    """Return the same text for the same message, be it a mapping or an SDK's object; a field that is None is no field.

    Raises RecursionError for a message that is nested too deeply to be written.
    """
    return json.dumps(_plain(message), sort_keys=True, default=repr)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    known = fields(value)
    return value if known is None else {str(name): _plain(item) for name, item in known.items() if item is not None}
