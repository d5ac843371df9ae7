"""Read the fields and texts of any message, a mapping or an SDK's object, and copy it with changes. Knows no format."""

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from autoprune.errors import ConversationError

NOTHING: Mapping[str, object] = {}
MARK, MARK_BLOCK = "cache_control", frozenset(("cachePoint",))  # Anthropic's cache breakpoints, and Bedrock's
MARKED_DEPTH = 2  # a message has blocks, and a result among them has blocks too
MOST_MARKS = 4  # in a request. Source: the prompt caching guides of Anthropic and Amazon
LARGEST_DECIMAL = 10**4000  # Python's int-to-text conversion is limited to 4,300 digits by default
MOST_VALUES = 5_000_000  # in one message
MOST_CONTAINERS = 200_000  # lists and mappings in one message


def check_conversation(conversation: object) -> list[Any]:
    """Return `conversation` if it is a list. Raises ConversationError otherwise."""
    if isinstance(conversation, list):
        return conversation
    hint = ": give list(messages)" if isinstance(conversation, Sequence) and not isinstance(conversation, str) else ""
    raise ConversationError(f"the conversation must be a list of messages, not {type(conversation).__name__}{hint}")


def fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of a mapping or an SDK's object, including extra fields; None for anything else."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    # Classes and enum members have a __dict__, but are no messages.
    if value is None or isinstance(value, type | Enum):
        return None
    # Pydantic keeps the fields that a model does not declare apart from the others.
    own = getattr(value, "__dict__", None)
    extra = getattr(value, "__pydantic_extra__", None)
    return {**own, **extra} if own and extra else own


def fields_of(value: object) -> Mapping[str, object]:
    """Return the fields of a mapping or an SDK's object; empty for anything else."""
    return fields(value) or NOTHING


def items_of(value: object) -> Sequence[object]:
    """Return a list or tuple unchanged; an empty tuple for anything else."""
    return value if isinstance(value, list | tuple) else ()


def role_of(message: object) -> str | None:
    """Return the role of a message; Gemini's messages without one are the user's."""
    own = fields_of(message)
    role = own.get("role")
    return role if isinstance(role, str) else "user" if role is None and "parts" in own else None


def listed(content: object) -> object:
    """Convert a tuple of blocks to a list; return any other content unchanged."""
    return list(content) if isinstance(content, tuple) else content


def join_texts(blocks: Sequence[object]) -> str:
    """Return the texts in a list of blocks, joined by line breaks; other blocks are left out."""
    texts = (block if isinstance(block, str) else fields_of(block).get("text") for block in blocks)
    return "\n".join(text for text in texts if isinstance(text, str))


def one_line(text: str, most: int) -> str:
    """Join a text to one line of at most `most` characters; "…" marks a cut."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def sendable(text: str) -> str:
    """Replace lone surrogates with U+FFFD, so that a text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def compaction_text(message: object) -> str:
    """Return the summary in the last compaction block of a message; "" if there is none, or if it failed."""
    content = fields_of(message).get("content")
    for block in reversed(items_of(content)):
        known = fields_of(block)
        if known.get("type") == "compaction" and isinstance(text := known.get("content"), str) and text:
            return text
    return ""


def number_text(number: bool | int | float) -> str:
    """Return a number as text. Equal numbers have equal texts, so that 1, 1.0 and True count alike."""
    if isinstance(number, float):
        return str(int(number)) if number.is_integer() else str(number)
    # Hexadecimal has no limit on its length.
    return f"{int(number):x}" if abs(number) > LARGEST_DECIMAL else str(int(number))


def nested(open_values: list[object]) -> Iterator[object]:
    """Pop values off a list until none are left. Raises ConversationError after too many values, as in a cycle."""
    for _ in range(MOST_VALUES):
        if not open_values:
            return
        yield open_values.pop()
    raise endless()


def endless() -> ConversationError:
    """Return the error for a message that is too large or contains itself."""
    most = f"{MOST_VALUES:,} values or {MOST_CONTAINERS:,} lists and mappings"
    return ConversationError(f"it holds more than {most}, or a list or mapping that holds itself")


def item(value: object, name: int | str) -> object:
    """Get an item of a list or mapping, or an attribute of an object."""
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
    return _copy_with_items(value, changes)


def _copy_with_items(value: object, changes: Mapping[str, object] | Mapping[int | str, object]) -> object:
    """Copy any other mapping or object with some items changed; a read-only mapping becomes a dict."""
    if isinstance(value, Mapping):
        try:
            duplicate: Any = copy.copy(value)
            for name, new in changes.items():
                duplicate[name] = new
        except TypeError:  # read-only, such as a MappingProxyType
            return {**value, **changes}
        return duplicate
    duplicate = copy.copy(value)
    for name, new in changes.items():
        setattr(duplicate, str(name), new)
    return duplicate


def cache_marks(message: object, depth: int = MARKED_DEPTH) -> Iterator[Mapping[str, object]]:
    """Yield the cache breakpoints of a message and of the blocks in it, in the order of the prompt."""
    own = fields_of(message)
    content = own.get("content")
    for block in content if depth and isinstance(content, list | tuple) else ():
        yield from cache_marks(block, depth - 1)
    for name in (MARK, *MARK_BLOCK):
        if mark := fields(own.get(name)):
            yield mark


def without_marks(message: object, depth: int = MARKED_DEPTH) -> object:
    """Remove cache breakpoints, which clients move from request to request. For digests only.

    A list with one plain text block becomes its text, since a text must be in a block to carry a breakpoint.
    """
    if type(message) is not dict:
        return message
    plain = {name: value for name, value in message.items() if name != MARK}
    if depth and type(plain.get("content")) is list:
        blocks = [without_marks(block, depth - 1) for block in plain["content"] if not _is_mark(block)]
        plain["content"] = _unwrap_text(blocks)
    return plain


def _is_mark(block: object) -> bool:
    return type(block) is dict and block.keys() == MARK_BLOCK


def _unwrap_text(blocks: list[object]) -> object:
    match blocks:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text
    return blocks


def canonical(message: object) -> str:
    """Return a text that is equal for equal messages, mappings or SDK objects; fields that are None are ignored.

    Raises RecursionError if the message is nested too deeply.
    """
    return json.dumps(_plain(message), sort_keys=True, default=repr)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    known = fields(value)
    return value if known is None else {str(name): _plain(item) for name, item in known.items() if item is not None}
