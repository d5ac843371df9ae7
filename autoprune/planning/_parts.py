"""The parts of a conversation that can be edited, as a walk comes to know them. Weighs nothing, edits nothing."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.transcript import Entry, Part, ToolInput, ToolResult
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate


class Parts:
    """Which results the model has seen, which parts may still be cleared, and which result answers which call."""

    def __init__(self, tool_inputs: ToolInputs | None) -> None:
        """Know no part yet. `tool_inputs` says which calls' arguments may be shortened."""
        self.tool_inputs = tool_inputs
        self.results: list[ToolResult] = []
        self.unseen: list[ToolResult] = []
        self.seen: dict[Part, Candidate | None] = {}  # oldest first, not cleared; None: not weighed yet
        self.result_of: dict[Part, ToolResult] = {}  # of the calls' arguments among the parts that were seen
        self.useless: list[Part] = []  # as was found at this request
        self.as_cut: dict[ToolResult, ToolResult] = {}

    def append(self, entry: Entry) -> None:
        """Take the results of the next message."""
        self.results.extend(entry.results)
        self.unseen.extend(entry.results)

    def see(self, result: ToolResult, inputs: Iterable[Part]) -> None:
        """Take note that the model has seen a result: it may be cleared, and so may arguments of its call."""
        for part in inputs:
            self.seen[part] = None
            self.result_of[part] = result
        self.seen[result] = None

    def text(self, part: Part, placeholder: Placeholder, mark: str) -> str:
        """Return the text that clears a part, with the mark that it is to carry."""
        if isinstance(part, ToolInput) and self.tool_inputs:
            return self.tool_inputs.text(part, placeholder.count, mark)
        assert isinstance(part, ToolResult)
        return placeholder.text(part, mark)

    def cut(self, result: ToolResult, text: str, saved: int) -> None:
        """Know a result as it is with a text in its place that saves so many tokens."""
        piece, stop, tokens = result.with_text(text), result.start + len(text), result.piece_tokens - saved
        self.as_cut[result] = replace(result, piece=piece, stop=stop, piece_tokens=tokens, is_plain=True)

    def as_it_stands(self, part: Part) -> Part:
        """Return a part with the text that stands in its place, if there is one that may change."""
        return self.as_cut.get(part, part) if isinstance(part, ToolResult) else part

    def result(self, part: Part) -> ToolResult:
        """Return a part if it is a result, or else the result of the call whose argument it is."""
        return part if isinstance(part, ToolResult) else self.result_of[part]

    def leave(self, messages: Collection[int]) -> None:
        """Offer no more what stands in messages that go."""
        self.seen = {part: known for part, known in self.seen.items() if part.location.message not in messages}

    def clear(self, part: Part) -> None:
        """Offer a part no more that was cleared, nor the arguments of a call whose outcome nothing shows now."""
        del self.seen[part]
        self.useless += _inputs(part)

    def shorten(self, result: ToolResult, text: str, saved: int) -> None:
        """Keep a result on offer that has a text of a strategy's own in its place, as if its tool had given no more."""
        self.cut(result, text, saved)
        self.seen[result] = None
        shown = self.tool_inputs.of(self.as_cut[result]) if self.tool_inputs else ()
        self.useless += (part for part in _inputs(result) if part not in shown)

    def forget(self) -> None:
        """Offer no more what is of no use."""
        for part in self.useless:
            self.seen.pop(part, None)
        self.useless.clear()


def _inputs(part: Part) -> tuple[Part, ...]:
    """Return the arguments of the call that a part answers, if it is a result."""
    return part.call.inputs if isinstance(part, ToolResult) and part.call else ()
