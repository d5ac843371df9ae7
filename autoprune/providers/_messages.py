"""How messages are looked into and copied, whether they are mappings, SDK objects or anything else."""

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from autoprune.conversation.messages import fields_of, with_item


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of an API whose content is a text or a list of blocks. What is no message has no fields."""

    fields: Mapping[str, object]
    role: str | None
    content: object
    blocks: Sequence[Mapping[str, object]]


def turn(message: object, name: str = "content") -> Turn:
    """Return a message as a turn, with its content under `name`."""
    found = fields_of(message)
    content = found.get(name)
    return Turn(found, text(found.get("role")), content, [fields_of(block) for block in listed(content)])


def listed(value: object) -> Sequence[object]:
    """Return a list or tuple itself; an empty one for anything else."""
    return value if isinstance(value, list | tuple) else ()


def text(value: object) -> str | None:
    """Return a string, or that of an enumeration's member; None for anything else."""
    plain = value.value if isinstance(value, Enum) else value
    return plain if isinstance(plain, str) else None


def id_keys(call_id: object) -> tuple[Hashable, ...]:
    """Return the id of a call or a result as its only key; no key where it has none."""
    plain = text(call_id)
    return () if plain is None else (plain,)


def is_blank(value: object) -> bool:
    """Return whether a value is a string of nothing but white space."""
    return isinstance(value, str) and not value.strip()


def is_bare(content: object) -> bool:
    """Return whether a content holds nothing: it is absent, an empty string or an empty list."""
    return content is None or (isinstance(content, str | list | tuple) and not content)


def is_empty_text(value: object) -> bool:
    """Return whether a value is an empty string."""
    return isinstance(value, str) and not value


def first(blocks: Iterable[Mapping[str, object]], names: Sequence[str]) -> Iterator[tuple[int, str, object]]:
    """Yield, for each block that holds one of `names`, its index, the first such name, and the value."""
    for at, block in enumerate(blocks):
        for name in names:
            if block.get(name) is not None:
                yield at, name, block[name]
                break


def with_blocks(message: object, name: str, blocks: Sequence[object]) -> object:
    """Return a copy of a message with other blocks. An SDK's object makes its own objects of mappings."""
    changed: Any = with_item(message, name, list(blocks))
    validator = getattr(type(changed), "__pydantic_validator__", None)
    if validator is None or not any(isinstance(block, Mapping) for block in blocks):
        return changed
    try:
        validator.validate_assignment(changed, name, list(blocks))
    except ValueError:
        # A block that the type does not know stays a mapping.
        return with_item(message, name, list(blocks))
    return changed


def without(message: object, name: str) -> object:
    """Return a copy of a message in which nothing is set under a name."""
    if isinstance(message, Mapping):
        return {key: value for key, value in message.items() if key != name}
    changed = with_item(message, name, None)
    set_fields = getattr(changed, "__pydantic_fields_set__", None)
    if isinstance(set_fields, set):
        # What is not set is not sent.
        set_fields.discard(name)
    else:
        changed = copy.copy(changed)
    return changed
