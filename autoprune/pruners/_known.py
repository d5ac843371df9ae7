"""Compare and rewrite: what a caller passed before and what was returned, so that only what is new is dealt with.

How it works. Each message is remembered by a copy with lists and dicts of its own. The next call's messages are
compared with these copies, and not with the messages themselves, so that a change made in place is noticed:

    first call    [system, user]                   copies of both
    second call   [system, user, answer, result]   the first two equal their copies: two messages are new
    third call    [system, user', …]               user' differs from its copy: nothing is known of this conversation

The messages that were rewritten are kept with copies in the same way, since a caller may pass those instead.

An SDK's object is compared as itself; what it holds is remembered beside the copies, container by container. A change
to an equal value (1 for True, another order of keys) is not noticed.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from autoprune.conversation.edits import Replace
from autoprune.conversation.rewriting import rewrite
from autoprune.conversation.transcript import Part
from autoprune.pruners._cache_marks import with_texts_of
from autoprune.pruners._snapshots import Container, as_read, copied, same


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

    def replaced(self, messages: Mapping[int, object], copies: Mapping[int, object]) -> None:
        """Put other messages in the place of some, by their indexes, as a caller did who stores what is returned."""
        self.messages, self.copies = with_others(self.messages, messages), with_others(self.copies, copies)

    def remarked(self, messages: Mapping[int, object]) -> None:
        """Put messages with other marks for the cache in the place of some, by their indexes."""
        copies = {at: with_texts_of(self.copies[at], message) for at, message in messages.items()}
        self.replaced(copies, copies)

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


class Rewritten:
    """The messages that edits have changed, by their indexes; each is made once."""

    def __init__(self) -> None:
        """Start without any."""
        self.messages: dict[int, object] = {}
        self.copies: dict[int, object] = {}
        self._edits: dict[int, dict[Part, Replace]] = {}
        self._changes: dict[int, tuple[str, str] | None] = {}
        self._made = 0

    def make(self, edits: dict[Part, Replace], made: int, known: Known) -> None:
        """Make the edits that are new: of those that a walk has `made` in all, the last ones."""
        new = islice(reversed(edits.values()), made - self._made)
        fresh = [edit for edit in new if self._edits.get(edit.part.location.message, {}).get(edit.part) is not edit]
        for edit in fresh:
            self._edits.setdefault(edit.part.location.message, {})[edit.part] = edit
        for at in {edit.part.location.message for edit in fresh}:
            self.messages[at] = rewrite(known.messages[at], [*self._edits[at].values()])
            self.copies[at] = known.copy(self.messages[at])
            self._changes.pop(at, None)
        self._made = made

    def output(self, conversation: list[object], known: Known) -> list[object]:
        """Return a caller's conversation with the changed messages in it; the known ones are equal to the caller's."""
        output = list(conversation)
        for at, message in self.messages.items():
            # Equal is not the same: another order of keys, or 1 for true, is the caller's to keep.
            is_same = conversation[at] is known.messages[at]
            output[at] = message if is_same else self._anew(conversation[at], at, known.copies[at])
        return output

    def _anew(self, message: object, at: int, before: object) -> object:
        """Return a message that is equal to number `at` with its edits made."""
        if at not in self._changes:
            self._changes[at] = changed_text(before, self.copies[at])
        change = self._changes[at]
        if change and type(message) is dict:
            name, text = change
            return {**message, name: text}
        return rewrite(message, [*self._edits[at].values()])

    @property
    def is_unchanged(self) -> bool:
        """Whether the messages are as they were made."""
        return same(self.messages, self.copies)

    def forget(self, made: int) -> None:
        """Start again behind the edits that were made so far: the messages with them are the caller's now."""
        self.messages, self.copies, self._edits, self._changes = {}, {}, {}, {}
        self._made = made


def changed_text(before: object, after: object) -> tuple[str, str] | None:
    """Return the one text that tells two dicts apart, after its name; None where they differ in anything else."""
    if type(before) is not dict or type(after) is not dict:
        return None
    pairs = ((name, before.get(name), value) for name, value in after.items())
    changed = [(name, value) for name, old, value in pairs if value is not old and value != old]
    return changed[0] if len(changed) == 1 and type(changed[0][1]) is str else None


def with_others(messages: list[object], others: Mapping[int, object]) -> list[object]:
    """Return a copy of a list of messages with some others in it, by their indexes."""
    mixed = list(messages)
    for at, message in others.items():
        mixed[at] = message
    return mixed
