"""Track the first change in a conversation, and strip the thinking blocks after it that it makes invalid.

A strategy may also strip the thinking of all finished turns, which no later turn needs (`clears_thinking`).
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from autoprune.conversation.edits import Reason, Replace
from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.transcript import Entry, Path, Thought, ToolResult
from autoprune.planning.tool_inputs import ToolInputs

# Edits that keep part of the result, so that only a marker in their text shows them.
CUT_REASONS = (Reason.CLAMPED, Reason.SHORTENED)


class Stripping:
    """Track the first change in a conversation and the thinking blocks after it.

    A thinking block is only valid with the messages that preceded it, so blocks after a change are stripped once their
    turn is over. Changes are permanent, so later thinking comes after the first change too. In pruned output that is
    passed back, placeholders, cut results, folded steps and the summary show what was changed. A dropped message leaves
    no trace, so with a strategy that drops messages, all thinking counts as after a change.
    """

    def __init__(
        self,
        placeholder: Placeholder,
        tool_inputs: ToolInputs | None,
        is_ours: Callable[[ToolResult], bool],
        *,
        strips: bool,
    ) -> None:
        """Start before the first message. Without `strips`, only the first change is tracked.

        `is_ours` recognizes texts that the strategy or its clamp wrote.
        """
        self.first: Path | None = None
        self.stripped: list[Thought] = []
        self._placeholder = placeholder
        self._tool_inputs = tool_inputs
        self._is_ours = is_ours
        self._strips = strips
        self._finished: list[Thought] = []  # in turns that are over
        self._latest: list[Thought] = []  # in the current turn
        self._has_alone = False

    def append(self, at: int, entry: Entry) -> None:
        """Add message number `at`, the next one."""
        if entry.is_users:
            self._finished += self._latest
            self._latest = []
        # Providers reject empty messages, so thinking that is alone in its message stays.
        self._has_alone = self._has_alone or any(thought.is_alone for thought in entry.thinking)
        self._latest += (thought for thought in entry.thinking if self._strips and not thought.is_alone)
        if self.first is None:
            self.first = min(self._earlier_changes(at, entry), default=None)

    def _earlier_changes(self, at: int, entry: Entry) -> list[Path]:
        """Return the paths of the parts of a message that an earlier prune changed."""
        results = (each for each in entry.results if self._placeholder.has_replaced(each) or self._is_ours(each))
        inputs = (part for call in entry.calls for part in call.inputs)
        shortened = (part for part in inputs if self._tool_inputs and self._tool_inputs.was_made(part))
        folded: list[Path] = [(at,)] if entry.folded else []
        return [*folded, *(part.location.path for part in (*results, *shortened))]

    def record_edit(self, edit: Replace) -> None:
        """Record an edit if its text shows that the part was edited."""
        # A walk over pruned output that is passed back could not find an edit without a trace.
        part = edit.part
        if isinstance(part, ToolResult) and edit.reason in CUT_REASONS:
            stop = part.start + len(edit.text)
            if not self._is_ours(replace(part, piece=part.with_text(edit.text), stop=stop)):
                return
        self.record_change(part.location.path)

    def record_change(self, path: Path) -> None:
        """Record the path of a permanent change."""
        self.first = path if self.first is None else min(path, self.first)

    def remove_messages(self, gone: Collection[int]) -> None:
        """Forget the thinking in removed messages."""
        for thoughts in (self.stripped, self._finished, self._latest):
            thoughts[:] = (thought for thought in thoughts if thought.location.message not in gone)

    def strip_finished(self) -> list[Thought]:
        """Strip all thinking if none has to stay, which may be bound to it; return these blocks."""
        if self._latest or self._has_alone:
            return []
        due, self._finished = self._finished, []
        self.stripped += due
        return due

    def strip_due(self) -> list[Thought]:
        """Strip the thinking blocks after the first change whose turns are over, and return these blocks."""
        first = self.first
        if first is None or not self._finished:
            return []
        due = [thought for thought in self._finished if thought.location.path > first]
        if due:
            self._finished = [thought for thought in self._finished if thought.location.path < first]
            self.stripped += due
        return due
