"""Apply: carry out edits in a copy that shares everything that does not change. Decides nothing."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from autoprune.conversation.edits import Replace
from autoprune.conversation.messages import item, with_item, with_items
from autoprune.conversation.transcript import Part, Path, Thought, ToolResult

Change: TypeAlias = Callable[[object, Sequence[Any]], object]  # what becomes of a value with these in it


def apply(messages: list[Any], edits: Sequence[Replace]) -> list[Any]:
    """Return the conversation with edits made. What no edit names is the same object; without edits, so is the list."""
    return _each(messages, [(edit.part.location.message, edit) for edit in edits], rewrite)


def strip(messages: list[Any], thoughts: Sequence[Thought]) -> list[Any]:
    """Return the conversation without some blocks of thinking; the list itself where there are none."""
    return _each(messages, [(thought.location.message, thought) for thought in thoughts], thoughtless)


def _each(messages: list[Any], placed: Sequence[tuple[int, Any]], change: Change) -> list[Any]:
    """Return the messages with a change made to those that something is placed in; the list itself without any."""
    if not placed:
        return messages
    groups: dict[int, list[Any]] = {}
    for at, one in placed:
        groups.setdefault(at, []).append(one)
    changed = list(messages)
    for at, group in groups.items():
        changed[at] = change(messages[at], group)
    return changed


def thoughtless(message: object, thoughts: Sequence[Thought]) -> object:
    """Return a message without some of its blocks of thinking."""
    groups = _by_name([(thought.location.path[1:], thought) for thought in thoughts])
    for name, group in groups.items():
        blocks = item(message, name)
        assert isinstance(blocks, list | tuple)
        gone = {path[0] for path, _ in group}
        message = with_item(message, name, [block for index, block in enumerate(blocks) if index not in gone])
    return message


def rewrite(message: object, edits: Sequence[Replace]) -> object:
    """Return a message with its edits made."""
    if len(edits) == 1 and type(message) is dict:
        (edit,) = edits
        name = edit.part.location.path[-1]
        if len(edit.part.location.path) == 2 and isinstance(message[name], str):
            return {**message, name: _put(message[name], edits)}
    return _changed(message, [(edit.part.location.path[1:], edit) for edit in edits], _put)


def without(message: object, parts: Sequence[Part]) -> object:
    """Return what stays of a message without its parts: the values that hold them, and a result's name and id."""
    return _changed(message, [(part.location.path[1:], part) for part in parts], _emptied)


def _changed(value: object, placed: Sequence[tuple[Path, Any]], change: Change) -> object:
    """Return a copy of `value` with changes made at places within it; each list, mapping and text is copied once."""
    inside = [one for one in placed if one[0]]
    if inside:
        groups = _by_name(inside)
        value = with_items(value, {name: _changed(item(value, name), group, change) for name, group in groups.items()})
    here = [one for path, one in placed if not path]
    return change(value, here) if here else value


def _by_name(placed: Sequence[tuple[Path, Any]]) -> dict[int | str, list[tuple[Path, Any]]]:
    """Group what has a path by the first name in it, each with the rest of its path."""
    groups: dict[int | str, list[tuple[Path, Any]]] = {}
    for path, one in placed:
        groups.setdefault(path[0], []).append((path[1:], one))
    return groups


def _put(value: object, edits: Sequence[Replace]) -> object:
    """Return a payload with its edits made, in the shape that it had; a text may have several edits."""
    if edits[0].part.location.start is None:
        return edits[0].part.put(value, edits[0].text)
    whole, at = str(value), 0
    texts: list[str] = []
    for edit in sorted(edits, key=lambda edit: edit.part.location.start or 0):
        texts += (whole[at : edit.part.location.start], edit.text)
        at = edit.part.location.stop or 0
    return "".join((*texts, whole[at:]))


def _emptied(value: object, parts: Sequence[Part]) -> object:
    """Return what stays of a payload that is gone."""
    part = parts[0]
    is_payload = not isinstance(part, ToolResult) or part.is_fixed or isinstance(value, str | list | tuple | None)
    return None if is_payload else part.put(value, "")
