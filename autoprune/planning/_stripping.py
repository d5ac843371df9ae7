"""Find thinking that stands behind a change, as a conversation grows. Edits nothing.

A block of thinking is bound to all that precedes it, so one that stands behind a change is to be taken out once its
turn is over. A change stays where it is, so thinking that comes later stands behind it too. In pruned output that is
fed back placeholders, cut results and the summary show where something was changed. A dropped message leaves no trace,
so with a strategy that drops messages all thinking counts as behind a change.
"""

from collections.abc import Collection

from autoprune.conversation.edits import Replace
from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.reasons import Reason
from autoprune.conversation.transcript import Entry, Path, Speaker, Thought, ToolInput
from autoprune.planning.clamping import is_cut
from autoprune.planning.plan import Shortening

CUT = (Reason.CLAMPED, Reason.SHORTENED)


class Stripping:
    """Keeps track of the first change in a conversation and of the thinking that stands behind it."""

    def __init__(self, placeholder: Placeholder, shortening: Shortening | None, *, strips: bool) -> None:
        """Start before the first message. With `strips` thinking is taken out."""
        self.first: Path | None = None
        self.stripped: list[Thought] = []
        self._placeholder = placeholder
        self._shortening = shortening
        self._strips = strips
        self._over: list[Thought] = []  # of turns that are over
        self._latest: list[Thought] = []

    def append(self, entry: Entry) -> None:
        """Take the next message."""
        if entry.speaker is Speaker.USER and not entry.results:
            self._over += self._latest
            self._latest = []
        # A message cannot be empty.
        self._latest += (thought for thought in entry.thinking if self._strips and not thought.is_alone)
        if self.first is None:
            self.first = min(self._changed_before(entry), default=None)

    def _changed_before(self, entry: Entry) -> list[Path]:
        """Return the places in a message that an earlier prune has changed."""
        results = (each for each in entry.results if self._placeholder.stands_in(each) or is_cut(each.text))
        inputs = (part for call in entry.calls for part in call.inputs)
        shortened = (part for part in inputs if self._shortening and self._shortening.was_made(part))
        return [part.location.path for part in (*results, *shortened)]

    def make(self, edit: Replace) -> None:
        """Take note of an edit, if the text that it puts there will show that it was made."""
        if isinstance(edit.part, ToolInput) or edit.reason not in CUT or is_cut(edit.text):
            self.change(edit.part.location.path)

    def change(self, path: Path) -> None:
        """Take note of a place where something changes for good."""
        self.first = path if self.first is None else min(path, self.first)

    def leave(self, gone: Collection[int]) -> None:
        """Forget the thinking of messages that go."""
        for thoughts in (self.stripped, self._over, self._latest):
            thoughts[:] = (thought for thought in thoughts if thought.location.message not in gone)

    def due(self) -> list[Thought]:
        """Return the thinking to take out now: of turns that are over, behind the first change."""
        first = self.first
        if first is None or not self._over:
            return []
        due = [thought for thought in self._over if thought.location.path > first]
        if due:
            self._over = [thought for thought in self._over if thought.location.path < first]
            self.stripped += due
        return due
