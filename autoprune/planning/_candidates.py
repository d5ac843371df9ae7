"""The parts of a prompt that may be cleared with the tokens that this saves, and results that later reads refer to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from autoprune.conversation.edits import Placeholder, Replace, replacement_text
from autoprune.conversation.transcript import Entry, Part, ToolInput, ToolResult
from autoprune.facts.actions import argument_files, refers_to_earlier_read
from autoprune.facts.calls import arguments
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate


@dataclass(eq=False)
class Parts:
    """The results that the model has seen, the parts that may be cleared, and the result of each call.

    `seen` holds the parts that are not cleared, oldest first; None until their savings are counted. `whole` are those
    that the strategy has not replaced with a text of its own, and `as_sent` keeps the others as the model first saw
    them. `useless` collects parts that cannot be cleared, since `seen` must not change while it is iterated.
    """

    placeholder: Placeholder
    edits: Mapping[Part, Replace]  # of the walk
    tool_inputs: ToolInputs | None
    results: list[ToolResult] = field(default_factory=list)
    unseen: list[ToolResult] = field(default_factory=list)
    seen: dict[Part, Candidate | None] = field(default_factory=dict)
    whole: dict[Part, None] = field(default_factory=dict)
    result_of: dict[Part, ToolResult] = field(default_factory=dict)  # for arguments in `seen`
    useless: list[Part] = field(default_factory=list)
    replaced: dict[ToolResult, ToolResult] = field(default_factory=dict)
    as_sent: dict[ToolResult, ToolResult] = field(default_factory=dict)

    def record_text(self, result: ToolResult, text: str, saved: int) -> None:
        """Record the text that replaces a result for now, and the tokens that it saves."""
        piece, stop, tokens = result.with_text(text), result.start + len(text), result.piece_tokens - saved
        self.replaced[result] = replace(result, piece=piece, stop=stop, piece_tokens=tokens, is_plain=True)

    def current(self, part: Part) -> Part:
        """Return a part with its text in the current prompt."""
        return self.replaced.get(part, part) if isinstance(part, ToolResult) else part

    def result(self, part: Part) -> ToolResult:
        """Return the part itself if it is a result, or else the result of the call to which the argument belongs."""
        return part if isinstance(part, ToolResult) else self.result_of[part]

    def offer(self, part: Part) -> None:
        """Offer a part, after all others."""
        self.seen[part] = self.whole[part] = None

    def drop(self, part: Part) -> None:
        """Stop offering a part."""
        self.seen.pop(part, None)
        self.whole.pop(part, None)

    def drop_useless(self) -> None:
        """Stop offering the parts in `useless`."""
        for part in self.useless:
            self.drop(part)
        self.useless.clear()

    def weigh(self, part: Part) -> Candidate:
        """Count the tokens that clearing a part saves, and remember the part as a candidate."""
        placeholder = self.placeholder
        mark = placeholder.mark(self.current(part)) if placeholder.recalls else ""
        if isinstance(part, ToolInput):
            assert self.tool_inputs is not None
            text = self.tool_inputs.text(part, placeholder.count, mark)
        else:
            assert isinstance(part, ToolResult)
            text = placeholder.text(part, mark)
        candidate = self.seen[part] = self.candidate(part, text, mark)
        return candidate

    def candidate(self, part: Part, text: str, mark: str = "") -> Candidate:
        """Return a candidate with a text, and the tokens that the text saves beyond an earlier edit."""
        before = self.edits.get(part)
        saves = self.placeholder.saves(part, text) - (before.saved if before else 0)
        return Candidate(part, text, saves, self.result(part), mark)

    def own_text(self, candidate: Candidate, text: str) -> str:
        """Format the strategy's text as it would appear in place of a result."""
        current = self.current(candidate.part)
        assert isinstance(current, ToolResult)
        return replacement_text(current, text, candidate.mark)


def inputs_of(part: Part) -> tuple[Part, ...]:
    """Return the arguments of the call that a result answers; () for other parts."""
    return part.call.inputs if isinstance(part, ToolResult) and part.call else ()


# Some tools show a file once. To a second read of an unchanged file they answer only that it is unchanged, and refer to
# the first result. So the prompt needs that result for as long as the newest read refers to it. It needs this answer
# too: cleared, it would look like a newer read of the file in output that is passed back.


@dataclass(eq=False)
class Shown:
    """The newest result with a file's text, and the result whose place in the prompt that text has now."""

    whole: ToolResult
    holder: ToolResult


class References:
    """Track in one walk the newest result of each read, and which of them a later answer refers to."""

    def __init__(self) -> None:
        self._shown: dict[str, dict[str, Shown]] = {}  # by path and arguments, the newest last
        self._needed: dict[Shown | None, list[ToolResult]] = {}  # with the answers that refer to them

    def observe(self, entry: Entry) -> Iterator[tuple[ToolResult, Shown]]:
        """Read one more message. Yield each answer in it that refers to an earlier read, with that read."""
        for result in entry.results:
            path = next((path for verb, path in argument_files(result.call, None, result.tool) if verb == "read"), "")
            if not path or result.call is None:
                continue
            shown, key = self._shown.setdefault(path, {}), repr(sorted(arguments(result.call).items(), key=str))
            if not refers_to_earlier_read(result):
                self._needed.pop(shown.pop(key, None), None)
                shown[key] = Shown(result, result)
            elif shown:
                newest = shown.get(key) or next(reversed(shown.values()))
                self._needed.setdefault(newest, []).append(result)
                yield result, newest

    def move(self, shown: Shown, answer: ToolResult) -> None:
        """Record that an answer has the text now. No later answer needs it so far."""
        shown.holder = answer
        del self._needed[shown]

    @property
    def needed(self) -> frozenset[ToolResult]:
        """The results with a text that the newest read of a file refers to, and the answers that refer to it."""
        return frozenset(each for shown, answers in self._needed.items() if shown for each in (shown.holder, *answers))
