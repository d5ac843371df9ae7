"""Rewrite: the messages of a conversation with the edits of its walk made. Decides nothing."""

from itertools import islice

from autoprune.conversation.edits import Replace
from autoprune.conversation.rewriting import rewrite
from autoprune.conversation.transcript import Part
from autoprune.pruners._known import Known, same


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
