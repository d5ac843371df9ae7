"""Copy what a message holds, list by list and mapping by mapping, and bound its tokens. Changes nothing."""

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from autoprune.conversation.messages import MOST_CONTAINERS, endless, nested, number_text
from autoprune.formats import is_media
from autoprune.tokens import MESSAGE_TOKENS

LEAVES = (str, int, float, bytes, Enum, type, type(None))
ESCAPED_BYTES = 6  # a control character is one byte, and \\u0000 in JSON
SEPARATORS = 6  # quotation marks, a colon or a comma, a space
LONGEST_NUMBER = 32
Container: TypeAlias = Mapping[str, object] | list[object]


def copied(message: object, live: list[Container], frozen: list[Container]) -> object:
    """Return a message with dicts and lists of its own, as deep as they go.

    Whatever else in it holds something stays the same object: what that holds is added to `live`, copies to `frozen`.
    """
    outer = [message]
    open_copies: list[Any] = [outer]
    most = MOST_CONTAINERS
    while open_copies:
        held = open_copies.pop()
        most -= 1
        if most < 0:
            raise endless()
        for name, item in held.items() if type(held) is dict else enumerate(held):
            kind = type(item)
            if kind is dict or kind is list:
                held[name] = duplicate = item.copy()
                open_copies.append(duplicate)
            elif kind is not str and item is not None and not isinstance(item, LEAVES):
                snapshot(item, live, frozen)
    return outer[0]


def snapshot(message: object, live: list[Container], frozen: list[Container]) -> None:
    """Add every list and mapping in a message to `live`, and a copy of each to `frozen`."""
    open_values: list[object] = [message]
    most = len(live) + MOST_CONTAINERS
    while open_values:
        value = open_values.pop()
        kind = type(value)
        if kind is dict or kind is list or isinstance(value, Mapping | list):
            held: Container = value  # type: ignore[assignment]
            live.append(held)
            if len(live) > most:
                raise endless()
            frozen.append(held.copy() if isinstance(held, dict | list) else dict(held))
            values: Iterable[object] = held.values() if isinstance(held, Mapping) else held
            for item in values:
                if type(item) is not str and item is not None:
                    open_values.append(item)
        elif kind is tuple:
            open_values.extend(value)  # type: ignore[arg-type]
        elif not isinstance(value, LEAVES):
            open_values.extend(_own_fields(value))


def token_bound(message: object) -> float:
    """Return what the tokens of a message never exceed: the bytes of its texts; infinite where it holds media."""
    total: float = MESSAGE_TOKENS
    open_values: list[object] = [message]
    for value in nested(open_values):
        if isinstance(value, str):
            total += utf8_bytes(value)
        elif isinstance(value, Mapping):
            if value is not message:
                total += math.inf if is_media(value) else utf8_bytes("".join(map(str, value)))
            for item in value.values():
                if type(item) is str:
                    total += utf8_bytes(item)
                    continue
                if isinstance(item, Mapping):
                    total += _json_bound(item)  # it may be sent as JSON text: a call's arguments
                open_values.append(item)
        elif isinstance(value, list | tuple):
            open_values.extend(value)
        elif isinstance(value, bool | int | float):
            total += len(number_text(value))
        elif isinstance(value, Enum):
            open_values.append(value.value)
        elif not isinstance(value, LEAVES):
            open_values.extend(_own_fields(value))
    return total


def _json_bound(arguments: Mapping[str, object]) -> int:
    """Return the most that JSON text has besides the bytes of its strings: escapes, quotation marks, separators."""
    total = 0
    open_values: list[object] = [arguments]
    for value in nested(open_values):
        if isinstance(value, str):
            total += ESCAPED_BYTES * utf8_bytes(value) + SEPARATORS
        elif isinstance(value, Mapping):
            total += sum(ESCAPED_BYTES * utf8_bytes(str(name)) + SEPARATORS for name in value) + SEPARATORS
            open_values.extend(value.values())
        elif isinstance(value, list | tuple):
            total += SEPARATORS
            open_values.extend(value)
        else:
            total += LONGEST_NUMBER if isinstance(value, float) else len(str(value)) + SEPARATORS
    return total


def as_read(value: object, copies: Mapping[int, Container]) -> Any:
    """Return a message as it was when it was copied; an SDK's object as the mapping of its fields."""
    held = copies.get(id(value), value)
    if isinstance(held, Mapping):
        return {name: as_read(item, copies) for name, item in held.items()}
    if isinstance(held, list):
        return [as_read(item, copies) for item in held]
    if isinstance(value, tuple):
        return tuple(as_read(item, copies) for item in value)
    if isinstance(value, LEAVES):
        return value
    return {name: item for own in _own_fields(value) for name, item in as_read(own, copies).items()}


def _own_fields(value: object) -> Iterator[object]:
    """Yield the fields of an SDK's object, and those that its class does not know."""
    for name in ("__dict__", "__pydantic_extra__"):
        if held := getattr(value, name, None):
            yield held


def utf8_bytes(text: str) -> int:
    """Return the length of a text in UTF-8, which its tokens never exceed."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def same(left: Any, right: Any) -> bool:
    """Return whether two lists or mappings are equal, as far as what they hold can be compared."""
    try:
        return bool(left == right)
    except (ValueError, TypeError, RecursionError):  # an array, a very deep nest: read them anew
        return False
