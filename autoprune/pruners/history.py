"""A conversation that grows: what was read and decided before is not read and decided again. A memo, never a state.

Whatever is remembered is compared first with what the caller passes: the messages with copies of those that were
passed before, so that a change made in place is noticed too (all but a change to an equal value, such as 1 for True or
another order of keys).
"""

import math
from collections.abc import Callable, Mapping
from itertools import islice
from threading import Lock
from typing import Any

from autoprune.conversation.edits import Replace
from autoprune.conversation.rewriting import rewrite
from autoprune.conversation.transcript import Entry, Part, Speaker
from autoprune.errors import ConversationError
from autoprune.formats import media
from autoprune.formats.parsing import Parser, placed
from autoprune.planning.fold_walk import FoldWalk
from autoprune.planning.walk import Walk
from autoprune.pruners.snapshots import Container, as_read, copied, token_bound

REMEMBERED = 8  # conversations per pruner


class History:
    """One conversation, read and walked as far as the caller has passed it."""

    def __init__(self, parser: Parser, walk: Walk, bound: float) -> None:
        """Start before the first message. `bound`: tokens sent beside the messages; infinite: count from the start."""
        self.parser = parser
        self.walk = walk
        self.given: list[object] = []
        self.rewritten: dict[int, object] = {}
        self._given_as_read: list[object] = []
        self._rewritten_as_made: dict[int, object] = {}
        self._edits_of: dict[int, dict[Part, Replace]] = {}
        self._changes: dict[int, tuple[str, str] | None] = {}
        self._live: list[Container] = []  # what the objects in messages hold that are no lists or dicts
        self._frozen: list[Container] = []  # and what they held
        self._bound = bound
        self._edits_made = 0
        self._is_fed_back = False

    @property
    def is_read(self) -> bool:
        """Whether the messages had to be read: not while their bytes are fewer than the budget's tokens."""
        return bool(self.walk.entries)

    @property
    def notes(self) -> tuple[str, ...]:
        """What looks like a result and was not taken, in words; nothing while there is nothing to prune."""
        walk = self.walk
        return self.parser.notes if walk.edits or walk.tokens > walk.limit else ()

    def matches(self, messages: list[object]) -> bool:
        """Whether `messages` goes on from what was given, or from what was returned, and nothing has changed since."""
        known = messages[: len(self.given)]
        if same(known, self._given_as_read):
            self._is_fed_back = False
        elif self.walk.edits and self.walk.is_settled() and same(known, self._returned_as_made()):
            self._is_fed_back = True
        else:
            return False
        return same(self.rewritten, self._rewritten_as_made) and same(self._live, self._frozen)

    def extend(self, messages: list[object]) -> bool:
        """Take the messages that are new, and decide. False where the memo does not hold for this continuation."""
        if self._is_fed_back and not self._settle():
            return False
        for at in range(len(self.given), len(messages)):
            self._take(messages[at], at)
        # Only what is new is taken: equal messages of the caller's are not kept, nor freed, here.
        self.given += messages[len(self.given) :]
        return self._bound <= self.walk.limit or self._read(messages)

    def _take(self, message: object, at: int) -> None:
        """Bound a message's tokens by its bytes, and remember what it holds."""
        try:
            if self._bound <= self.walk.limit:  # else it is read, and checked there
                _, written_in = self.parser.choose(message, at)
                self.parser.use(written_in)
                # No bytes bound what a format's own rules count for media.
                self._bound += token_bound(message) if self.parser.media is media else math.inf
            self._given_as_read.append(copied(message, self._live, self._frozen))
        except ConversationError as error:
            raise placed(error, at) from error

    def output(self, conversation: list[object]) -> list[object]:
        """The pruned conversation: the caller's list itself where there is nothing to do."""
        walk = self.walk
        if not walk.edits:
            return conversation
        self._rewrite()
        output = list(conversation)
        for at, message in self.rewritten.items():
            # Equal is not the same: another order of keys, or 1 for true, is the caller's to keep.
            output[at] = message if conversation[at] is self.given[at] else self._anew(conversation[at], at)
        return output

    def _anew(self, message: object, at: int) -> object:
        """A message that is equal to number `at`, with its edits made."""
        if at not in self._changes:
            self._changes[at] = changed_text(self._given_as_read[at], self._rewritten_as_made[at])
        change = self._changes[at]
        if change and type(message) is dict:
            name, text = change
            return {**message, name: text}
        return rewrite(message, [*self._edits_of[at].values()])

    def as_read(self) -> Callable[[], list[Any]]:
        """The messages as they are now, to be had later, whatever becomes of them in between."""
        given, live, frozen = list(self._given_as_read), list(self._live), list(self._frozen)

        def messages() -> list[Any]:
            copies = {id(container): copy for container, copy in zip(live, frozen, strict=True)}
            return [as_read(message, copies) for message in given] if copies else given

        return messages

    def _rewrite(self) -> None:
        """Make the edits that are new: they are the last ones."""
        new = islice(reversed(self.walk.edits.values()), self.walk.edits_made - self._edits_made)
        fresh = [edit for edit in new if self._edits_of.get(edit.part.location.message, {}).get(edit.part) is not edit]
        for edit in fresh:
            self._edits_of.setdefault(edit.part.location.message, {})[edit.part] = edit
        for at in {edit.part.location.message for edit in fresh}:
            self.rewritten[at] = rewrite(self.given[at], [*self._edits_of[at].values()])
            self._rewritten_as_made[at] = copied(self.rewritten[at], self._live, self._frozen)
            self._changes.pop(at, None)
        self._edits_made = self.walk.edits_made

    def _read(self, messages: list[object]) -> bool:
        walk, parser = self.walk, self.parser
        first = len(walk.entries)
        for at in range(first, len(messages)):
            entry = parser.read(messages[at], at)
            if at == first and not walk.goes_on_with(entry):
                return False
            walk.append(messages[at], entry)
        walk.ask()
        return True

    def _settle(self) -> bool:
        """Go on from what was returned: its changed messages are read anew, in place of the caller's.

        False where they are read otherwise than they were.
        """
        entries: dict[int, Entry] = {}
        for at, message in self.rewritten.items():
            before = self.walk.entries
            follows_model = at > 0 and before[at - 1].speaker is Speaker.MODEL
            entry = self.parser.read_again(message, at, before[at], follows_model=follows_model)
            if entry is None:
                return False
            entries[at] = entry
        self.walk.settle(self.rewritten, entries)
        self.given, self._given_as_read = self._returned(), self._returned_as_made()
        self.rewritten, self._rewritten_as_made, self._edits_of, self._changes = {}, {}, {}, {}
        self._edits_made = self.walk.edits_made
        return True

    def _returned(self) -> list[object]:
        return with_others(self.given, self.rewritten)

    def _returned_as_made(self) -> list[object]:
        return with_others(self._given_as_read, self._rewritten_as_made)


def with_others(messages: list[object], others: Mapping[int, object]) -> list[object]:
    """A copy of a list of messages with some others in it, by their indexes."""
    mixed = list(messages)
    for at, message in others.items():
        mixed[at] = message
    return mixed


def changed_text(before: object, after: object) -> tuple[str, str] | None:
    """The one text that tells two dicts apart, after its name; None where they differ in anything else."""
    if type(before) is not dict or type(after) is not dict:
        return None
    pairs = ((name, before.get(name), value) for name, value in after.items())
    changed = [(name, value) for name, old, value in pairs if value is not old and value != old]
    return changed[0] if len(changed) == 1 and type(changed[0][1]) is str else None


def same(left: Any, right: Any) -> bool:
    """Whether two lists or mappings are equal, as far as what they hold can be compared."""
    try:
        return bool(left == right)
    except (ValueError, TypeError, RecursionError):  # an array, a very deep nest: read them anew
        return False


class Memory:
    """The histories of a pruner. Safe to share between threads: a history is in one call's hands at a time."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._kept: list[tuple[object, History]] = []
        self._lock = Lock()

    def take(self, key: object, messages: list[object]) -> History | None:
        """A history that `messages` goes on from, made with the same settings."""
        with self._lock:
            for index, (known, history) in enumerate(self._kept):
                if known == key and history.given and history.matches(messages):
                    return self._kept.pop(index)[1]
        return None

    def keep(self, key: object, history: History) -> None:
        """Remember a history; the oldest one goes."""
        with self._lock:
            self._kept.insert(0, (key, history))
            del self._kept[REMEMBERED:]


class FoldHistory(History):
    """What is remembered of a conversation whose messages are folded, with the summaries by the number of folds."""

    walk: FoldWalk

    def __init__(self, parser: Parser, walk: FoldWalk) -> None:
        """Start before the first message."""
        super().__init__(parser, walk, math.inf)
        self.texts: dict[int, str] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What looks like a result and was not taken, in words; nothing while there is nothing to fold."""
        return self.parser.notes if self.walk.folds else super().notes
