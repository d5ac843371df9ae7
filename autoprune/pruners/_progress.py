"""How far a conversation has been pruned, so that the next call takes up from there. A memo, never a state.

How it works. A prune is four steps, each of which takes what the one before it returned:

    compare   known = memory.take(key, messages)      which messages are new; None where the memo does not hold
    read      entries = progress.read(messages)       the new messages, parsed
    walk      progress.walk.extend(messages, entries)
    rewrite   progress.rewrite(messages)              the caller's list with the edits made

`Memory.walked` takes the first three. Without a memo the same four steps start at the first message, and give the
same: the properties in the tests compare both after every kind of call. There are two ways in which a conversation goes
on. A caller who passes the full history each time passes what is known. A caller who stores what was returned passes
the rewritten messages instead; where no edit would be made to these, the walk becomes the walk over them (`_settle`),
and goes on.
"""

import math
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from autoprune.conversation.transcript import Entry, Part, Speaker
from autoprune.errors import ConversationError
from autoprune.formats import SHIPPED
from autoprune.formats.parsing import Parser, placed
from autoprune.planning.walk import Walk
from autoprune.pruners._cache_marks import moved
from autoprune.pruners._known import Known, Rewritten, with_others
from autoprune.pruners._snapshots import token_bound

REMEMBERED = 8  # conversations per pruner, unless it is told another number
NO_PAUSES: Mapping[int, float] = {}
Walked = TypeVar("Walked", bound=Walk)


class Progress(Generic[Walked]):
    """One conversation, read and walked as far as the caller has passed it.

    `texts` are summaries that were written for it, by the number of folds; `archived` are parts that were kept.
    """

    def __init__(self, parser: Parser, walk: Walked, bound: float) -> None:
        """Start before the first message. `bound`: tokens sent beside the messages; infinite: count from the start."""
        self.parser = parser
        self.walk = walk
        self.known = Known()
        self.texts: dict[int, str] = {}
        self.archived: dict[Part, str] = {}
        self._rewritten = Rewritten()
        self._bound = bound
        self._is_fed_back = False
        self._moved: Mapping[int, object] | None = None  # messages in which marks for the cache were moved

    @property
    def is_read(self) -> bool:
        """Whether the messages had to be read: not while their bytes are fewer than the budget's tokens."""
        return bool(self.walk.entries)

    @property
    def notes(self) -> tuple[str, ...]:
        """What looks like a result and was not taken, in words; nothing while there is nothing to prune."""
        return self.parser.notes if self.walk.is_at_work else ()

    def goes_on(self, messages: list[object]) -> bool:
        """Return whether messages go on from what was passed, or from what was returned, and nothing has changed."""
        begun, self._is_fed_back = messages[: len(self.known)], False
        self._moved = moved(begun, self.known.copies)
        if self._moved is None and self.walk.edits and self.walk.is_settled():
            self._moved, self._is_fed_back = moved(begun, self._returned()), True
        return self._moved is not None and self._rewritten.is_unchanged and self.known.is_unchanged

    def _returned(self) -> list[object]:
        return with_others(self.known.copies, self._rewritten.copies)

    def read(self, messages: list[object]) -> list[Entry] | None:
        """Return the entries of the messages that are new; None where this cannot go on with them.

        While the bytes of the messages are fewer than the budget's tokens they are not read, and there are no entries.
        """
        if self._is_fed_back and not self._settle():
            return None
        if self._moved:
            self.known.remarked(self._moved)
        for at in range(len(self.known), len(messages)):
            self._take(messages[at], at)
        if self._bound <= self.walk.limit:
            return []
        first = len(self.walk.entries)
        entries = [self.parser.read(messages[at], at) for at in range(first, len(messages))]
        return None if entries and not self.walk.goes_on_with(entries[0]) else entries

    def _take(self, message: object, at: int) -> None:
        """Bound a message's tokens by its bytes, and remember what it holds."""
        try:
            if self._bound <= self.walk.limit:  # else it is read, and checked there
                _, written_in = self.parser.choose(message, at)
                # No bytes bound what rules of the caller's count for media.
                is_bounded = written_in in SHIPPED or not hasattr(written_in, "media")
                self._bound += token_bound(message) if is_bounded else math.inf
            self.known.add(message)
        except ConversationError as error:
            raise placed(error, at) from error

    def rewrite(self, conversation: list[object]) -> list[object]:
        """Return the conversation with the walk's edits made: the caller's list itself where there is nothing to do."""
        if not self.walk.edits:
            return conversation
        self._rewritten.make(self.walk.edits, self.walk.edits_made, self.known)
        return self._rewritten.output(conversation, self.known)

    def _settle(self) -> bool:
        """Go on from what was returned: its changed messages are read anew, in place of the caller's.

        False where they are read otherwise than they were.
        """
        entries: dict[int, Entry] = {}
        before = self.walk.entries
        for at, message in self._rewritten.messages.items():
            follows_model = at > 0 and before[at - 1].speaker is Speaker.MODEL
            entry = self.parser.read_again(message, at, before[at], follows_model=follows_model)
            if entry is None:
                return False
            entries[at] = entry
        self.walk.settle(self._rewritten.messages, entries)
        self.known.replaced(self._rewritten.messages, self._rewritten.copies)
        self._rewritten.forget(self.walk.edits_made)
        self.archived.clear()
        return True


class Memory:
    """The conversations that a pruner remembers. Safe to share between threads: each is in one call's hands at a time.

    A memo, so its loss costs nothing but time: a pruner that is copied or pickled begins with an empty one.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        """Remember nothing yet, and later so many conversations at most."""
        self._most = most
        self._kept: list[tuple[object, Progress[Any]]] = []
        self._lock = Lock()

    def take(self, key: object, messages: list[object]) -> Progress[Any] | None:
        """Return the progress that `messages` go on from, made with the same settings; None where there is none."""
        with self._lock:
            for index, (known, progress) in enumerate(self._kept):
                if known == key and len(progress.known) and progress.goes_on(messages):
                    return self._kept.pop(index)[1]
        return None

    def walked(
        self,
        key: object,
        messages: list[object],
        start: Callable[[], Progress[Walked]],
        pauses: Mapping[int, float] = NO_PAUSES,
    ) -> Progress[Walked]:
        """Compare, read and walk: go on from where a conversation was left, or from its first message."""
        progress: Progress[Walked] | None = self.take(key, messages)
        entries = progress.read(messages) if progress and progress.walk.agrees(pauses) else None
        if progress is None or entries is None:
            progress = start()
            entries = progress.read(messages) or []
        progress.walk.pauses = pauses
        progress.walk.extend(messages, entries)
        return progress

    def keep(self, key: object, progress: Progress[Any]) -> None:
        """Remember a conversation; the one that was not asked for the longest goes."""
        with self._lock:
            self._kept.insert(0, (key, progress))
            del self._kept[self._most :]
