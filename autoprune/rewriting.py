"""Apply: carry out edits in a copy that shares everything that does not change. Decides nothing."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from autoprune.edits import Replace
from autoprune.transcript import Location, Part, Path, Thought, ToolResult


def apply(messages: list[Any], edits: Sequence[Replace]) -> list[Any]:
    """The conversation with the edits made. What no edit names is the same object; the list too, without edits."""
    if not edits:
        return messages
    groups: dict[int, list[Replace]] = {}
    for edit in edits:
        groups.setdefault(edit.part.location.message, []).append(edit)
    rewritten = list(messages)
    for at, group in groups.items():
        rewritten[at] = rewrite(messages[at], group)
    return rewritten


def strip(messages: list[Any], thoughts: Sequence[Thought]) -> list[Any]:
    """The conversation without some blocks of thinking; the list itself where there are none."""
    if not thoughts:
        return messages
    groups: dict[int, list[Thought]] = {}
    for thought in thoughts:
        groups.setdefault(thought.location.message, []).append(thought)
    stripped = list(messages)
    for at, group in groups.items():
        stripped[at] = thoughtless(messages[at], group)
    return stripped


def thoughtless(message: object, thoughts: Sequence[Thought]) -> object:
    """One message without some of its blocks of thinking, which are given in their order."""
    for thought in reversed(thoughts):
        _, name, index = thought.location.path
        blocks = item(message, name)
        assert isinstance(blocks, list | tuple)
        message = with_item(message, name, [*blocks[: int(index)], *blocks[int(index) + 1 :]])
    return message


def rewrite(message: object, edits: Sequence[Replace]) -> object:
    """One message with its edits made."""
    if len(edits) == 1 and type(message) is dict:
        (edit,) = edits
        name = edit.part.location.path[-1]
        if len(edit.part.location.path) == 2 and isinstance(message[name], str):
            return {**message, name: _replaced(message[name], (), edit)}
    # Back to front, so that the offsets of earlier spans stay true.
    for edit in sorted(edits, key=lambda edit: edit.part.location.start or 0, reverse=True):
        message = _replaced(message, edit.part.location.path[1:], edit)
    return message


def _replaced(value: object, path: Path, edit: Replace) -> object:
    """A copy of `value` with the payload at `path` replaced, in the shape that it had."""
    if path:
        return with_item(value, path[0], _replaced(item(value, path[0]), path[1:], edit))
    location = edit.part.location
    return spliced(value, location, edit.text) if location.start is not None else edit.part.put(value, edit.text)


def without(message: object, parts: Sequence[Part]) -> object:
    """What stays of a message when its parts are gone: the values that hold them, but for a result's name and id."""
    for part in parts:
        message = _emptied(message, part.location.path[1:], part)
    return message


def _emptied(value: object, path: Path, part: Part) -> object:
    if path:
        return with_item(value, path[0], _emptied(item(value, path[0]), path[1:], part))
    is_payload = not isinstance(part, ToolResult) or part.is_fixed or isinstance(value, str | list | tuple | None)
    return None if is_payload else part.put(value, "")


def spliced(value: object, location: Location, text: str) -> str:
    """A string with a text in place of the slice that a location names."""
    whole = str(value)
    return whole[: location.start] + text + whole[location.stop :]


def item(value: object, name: int | str) -> object:
    """What a list, mapping or object holds under a name."""
    if isinstance(value, Mapping):
        return value[name]
    return value[name] if isinstance(value, Sequence) and isinstance(name, int) else getattr(value, str(name))


def with_item(value: object, name: int | str, new: object) -> object:
    """A shallow copy of a list, tuple, mapping or SDK object, of the same type, with one item changed."""
    if isinstance(value, list) and isinstance(name, int):
        return [*value[:name], new, *value[name + 1 :]]
    if isinstance(value, tuple) and isinstance(name, int):
        return (*value[:name], new, *value[name + 1 :])
    if type(value) is dict:
        return {**value, name: new}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{str(name): new})
    if hasattr(value, "model_copy"):
        return value.model_copy(update={str(name): new})
    return _copied(value, name, new)


def _copied(value: object, name: int | str, new: object) -> object:
    """The same for other kinds of mappings and objects; a read-only mapping becomes a dict."""
    if isinstance(value, Mapping):
        try:
            duplicate: Any = copy.copy(value)
            duplicate[name] = new
        except TypeError:
            return {**value, name: new}
        return duplicate
    duplicate = copy.copy(value)
    setattr(duplicate, str(name), new)
    return duplicate
