"""Compare: what a caller passed before, so that only what is new need be read. Changes nothing.

How it works. Each message is remembered by a copy with lists and dicts of its own. The next call's messages are
compared with these copies, and not with the messages themselves, so that a change made in place is noticed:

    first call    [system, user]                   copies of both
    second call   [system, user, answer, result]   the first two equal their copies: two messages are new
    third call    [system, user', …]               user' differs from its copy: nothing is known of this conversation

An SDK's object is compared as itself; what it holds is remembered beside the copies, container by container. A change
to an equal value (1 for True, another order of keys) is not noticed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from autoprune.pruners._snapshots import Container, as_read, copied


class Known:
    """The messages that a caller has passed, with copies of what they held."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.messages: list[object] = []
        self.copies: list[object] = []
        self.live: list[Container] = []  # what the objects in messages hold that are no lists or dicts
        self.frozen: list[Container] = []  # and what they held

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.messages)

    def add(self, message: object) -> None:
        """Remember a new message. Raises ConversationError where it never ends."""
        self.copies.append(self.copy(message))
        self.messages.append(message)

    def copy(self, message: object) -> object:
        """Return a copy of a message; what its objects hold is remembered too."""
        return copied(message, self.live, self.frozen)

    def begins(self, messages: list[object]) -> bool:
        """Return whether these messages begin with the known ones."""
        return same(messages[: len(self.copies)], self.copies)

    def replaced(self, messages: Mapping[int, object], copies: Mapping[int, object]) -> None:
        """Put other messages in the place of some, by their indexes, as a caller did who stores what is returned."""
        self.messages, self.copies = with_others(self.messages, messages), with_others(self.copies, copies)

    @property
    def is_unchanged(self) -> bool:
        """Whether the objects in the messages hold what they held."""
        return same(self.live, self.frozen)

    def as_read(self) -> Callable[[], list[Any]]:
        """Return how to come by the messages as they are now, whatever becomes of them in between."""
        copies, live, frozen = list(self.copies), list(self.live), list(self.frozen)

        def messages() -> list[Any]:
            held = {id(container): copy for container, copy in zip(live, frozen, strict=True)}
            return [as_read(message, held) for message in copies] if held else copies

        return messages


def with_others(messages: list[object], others: Mapping[int, object]) -> list[object]:
    """Return a copy of a list of messages with some others in it, by their indexes."""
    mixed = list(messages)
    for at, message in others.items():
        mixed[at] = message
    return mixed


def same(left: Any, right: Any) -> bool:
    """Return whether two lists or mappings are equal, as far as what they hold can be compared."""
    try:
        return bool(left == right)
    except (ValueError, TypeError, RecursionError):  # an array, a very deep nest: read them anew
        return False
