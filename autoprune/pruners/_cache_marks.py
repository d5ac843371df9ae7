"""Marks for the provider's prompt cache. Clients move them at every request; they say nothing to the model."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from autoprune.conversation.messages import MARK
from autoprune.pruners._snapshots import same

MARKED = frozenset(("text", "tool_use", "tool_result", "image", "document"))  # blocks whose mark counts no tokens


def moved(messages: Sequence[object], before: Sequence[object]) -> dict[int, object] | None:
    """Return the messages, by their numbers, that differ in their marks from what was before, and in nothing else.

    None where any of them differs in more, or where there are fewer.
    """
    if same(messages, before):
        return {}
    if len(messages) != len(before):
        return None
    found = {}
    for at, (message, known) in enumerate(zip(messages, before, strict=True)):
        if not same(message, known):
            if not same(unmarked(message), unmarked(known)):
                return None
            found[at] = message
    return found


def unmarked(message: object) -> object:
    """Return a message without the marks that it and its blocks carry."""
    if type(message) is not dict:
        return message
    plain = {name: value for name, value in message.items() if name != MARK}
    return {**plain, "content": [*map(_plain, plain["content"])]} if type(plain.get("content")) is list else plain


def _plain(block: object) -> object:
    return unmarked(block) if type(block) is dict and block.get("type") in MARKED else block


def with_texts_of(known: object, message: object) -> Any:
    """Return a copy of a message that shares with a `known` one the texts that are equal."""
    if type(message) is dict:
        others: Mapping[str, object] = known if type(known) is dict else {}
        return {name: with_texts_of(others.get(name), value) for name, value in message.items()}
    if type(message) is list:
        parts = zip_longest(known if type(known) is list else (), message)
        return [with_texts_of(*pair) for pair in parts][: len(message)]
    return known if type(known) is type(message) and same(known, message) else message
