"""A plan: the edits and folds of a conversation, and the reasons for what stays. Decides nothing itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from itertools import takewhile
from typing import Any, TypeAlias

from autoprune.conversation.edits import AnyReason, Fold, Placeholder, Reason, Replace, check_reason, savings_by_message
from autoprune.conversation.summary import RunningSummary
from autoprune.conversation.transcript import (
    Path,
    Speaker,
    Thought,
    ToolInput,
    ToolResult,
    Transcript,
    newest_compaction,
)
from autoprune.planning._groups import units
from autoprune.planning.protections import DEFAULT_PROTECTIONS, Guard, Protections, guard
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import NO_RATIONALE, Rationale, Strategy


class ThinkingPolicy(StrEnum):
    """The policy for thinking blocks after an edit, which providers may reject.

    `drop_block` returns request parameters that make the API drop them. `strip` removes them, except in the latest
    turn, where they must stay. `refuse` edits nothing that comes before a thinking block. `report` only reports them.
    """

    DROP_BLOCK = "drop_block"
    STRIP = "strip"
    REFUSE = "refuse"
    REPORT = "report"


TRACKED = frozenset((ThinkingPolicy.STRIP, ThinkingPolicy.DROP_BLOCK))  # policies that act on invalid thinking


@dataclass(frozen=True, slots=True)
class Conditions:
    """The settings of a planned request: the strategy for its prices, its limits, the tokens beside messages, thinking.

    Above `limit` something should be cleared, and above `hard_limit` anything may be.
    """

    strategy: Strategy
    limit: int
    overhead: int
    thinking: ThinkingPolicy
    hard_limit: int = 0  # below `limit`, it is the same as `limit`


Later: TypeAlias = Sequence[tuple[int, Conditions]]  # each with the number of messages from which it applies


@dataclass(frozen=True, eq=False)
class Plan:
    """The changes that bring a transcript to at most `limit` tokens, if possible.

    Every result is in `edits`, in `kept`, or in a message of `folds`.

    `edits` and `folds`: the parts to replace, and the messages to fold or drop, in this order.
    `bound_before`: the path before which nothing is edited; () if everything may be.
    `needed`: the results with a text that the newest read of a file only refers to.
    `stripped`: thinking blocks to remove, since something before them has changed.
    `stripped_later`: thinking blocks that are removed once their turn is over.
    `changed`: the path of the first visible change, by this prune or an earlier one, if the thinking policy needs it.
    `running`: the summary that the conversation already held.
    `counted`: with folds, the tokens of the next prompt; an upper bound until the summary is written.
    `weights`: the tokens of each message that is sent, once the messages are removed.
    `places`: then, the index in the next prompt of each message, or of the text in its place.
    `head`: the number of first messages that never go; None if the strategy never removes messages.
    `folds_steps`: whether the strategy may fold finished steps.
    `beyond`: the tokens that the provider reported beyond the count.
    `rationale`: the strategy's reasons for its decisions.
    """

    transcript: Transcript = field(repr=False)
    edits: tuple[Replace, ...]
    limit: int
    placeholder: Placeholder = field(repr=False)
    protections: Protections = DEFAULT_PROTECTIONS
    tool_inputs: ToolInputs | None = None
    bound_before: Path = ()
    needed: frozenset[ToolResult] = frozenset()
    stripped: tuple[Thought, ...] = ()
    stripped_later: tuple[Thought, ...] = ()
    changed: Path | None = None
    folds: tuple[Fold, ...] = ()
    running: RunningSummary | None = None
    counted: int | None = None
    weights: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    head: int | None = None
    folds_steps: bool = False
    beyond: int = 0
    rationale: Rationale = NO_RATIONALE

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def without_changes(self) -> "Plan":
        """The plan for the same messages that changes none of them."""
        return replace(self, edits=(), folds=(), stripped=(), stripped_later=(), counted=None, weights=(), places=())

    @cached_property
    def gone(self) -> Mapping[int, Fold]:
        """The indexes of the messages that are folded or dropped, each with its fold."""
        return {at: fold for fold in self.folds for at in fold.messages}

    @property
    def summarized(self) -> bool:
        """Whether there is a new summary to write."""
        return any(not fold.is_drop for fold in self.folds)

    @cached_property
    def place(self) -> int:
        """The index of the summary: after the system messages at the head, or after a compaction by the provider.

        The provider ignores what comes before its compaction. The summary follows the results of the calls with it.
        """
        if (start := newest_compaction(self.transcript.entries)) is not None:
            stop = next(unit.stop for unit in units(self.transcript.entries) if start in unit)
            return max(stop, self.running.at if self.running else 0)
        if self.running:
            return self.running.at
        # Messages that were dropped before the first fold do not count: pruned output does not show them.
        before = takewhile(lambda fold: fold.is_drop, self.folds)
        dropped = {at for fold in before for at in fold.messages}
        head = ((at, entry) for at, entry in enumerate(self.transcript.entries) if at not in dropped)
        return next((at for at, entry in head if entry.speaker is not Speaker.SYSTEM), 0)

    def start(self, fold: Fold) -> int:
        """Return the first message that a fold changes: where the summary is, or the message that gets the text."""
        return max(0, fold.messages[0] - 1) if fold.text else min(self.place, *fold.messages)

    @property
    def tokens_before(self) -> int:
        """The tokens of the prompt before the prune."""
        return self.transcript.tokens + self.beyond

    @cached_property
    def tokens(self) -> int:
        """The tokens of the next prompt, with all changes made."""
        if self.counted is not None:
            return self.counted + self.beyond
        saved = sum(edit.saved for edit in self.edits) + sum(thought.tokens for thought in self.stripped)
        return self.tokens_before - saved

    @cached_property
    def results(self) -> Mapping[ToolResult, Replace]:
        """The edits of tool results."""
        return {edit.part: edit for edit in self.edits if isinstance(edit.part, ToolResult)}

    @cached_property
    def inputs(self) -> Mapping[ToolInput, Replace]:
        """The edits of the arguments of calls."""
        return {edit.part: edit for edit in self.edits if isinstance(edit.part, ToolInput)}

    @cached_property
    def kept(self) -> Mapping[ToolResult, AnyReason]:
        """The results that stay, oldest first, each with the reason."""
        here = (each for each in self.transcript.results if each.location.message not in self.gone)
        return {each: self._why_kept(each) for each in here if each not in self.results}

    @cached_property
    def answers(self) -> Mapping[ToolInput, ToolResult]:
        """The arguments of calls, each with the result of its call."""
        answered = ((result, result.call) for result in self.transcript.results if result.call)
        return {part: result for result, call in answered for part in call.inputs}

    @cached_property
    def first_changed(self) -> Path | None:
        """The path of the first edit or fold of the plan; None if it has none."""
        edited = [edit.part.location.path for edit in self.edits]
        folded: list[Path] = [(self.start(fold),) for fold in self.folds]
        return min((*edited, *folded), default=None)

    @property
    def open_inputs(self) -> Iterator[ToolInput]:
        """The calls' arguments that may be shortened later."""
        return (part for call in self.transcript.calls for part in call.inputs if self._may_be_shortened(part))

    def _may_be_shortened(self, part: ToolInput) -> bool:
        if self.tool_inputs is None or part in self.inputs or part.location.path < self.bound_before:
            return False
        result = self.answers.get(part)
        if result is not None and (self._hides_outcome(result) or part not in self.tool_inputs.of(result)):
            return False
        # With its mark, the text may be as long as the argument.
        mark = self.placeholder.mark(part)
        return self.placeholder.saves(part, self.tool_inputs.text(part, self.placeholder.count, mark)) > 0

    def _hides_outcome(self, result: ToolResult) -> bool:
        """Return whether a result no longer shows how its call went, or is the user's answer."""
        edit = self.results.get(result)
        is_cleared = edit is not None and edit.reason not in (Reason.CLAMPED, Reason.RESTORED)
        return is_cleared or self.placeholder.has_replaced(result) or self.protections.is_answer(result)

    @cached_property
    def _guard(self) -> Guard:
        transcript = self.transcript
        saved = savings_by_message(self.edits, self.stripped)
        return guard(self.protections, transcript.entries, transcript.results, saved)

    def is_unseen(self, result: ToolResult) -> bool:
        """Return whether the model has not seen a result yet."""
        return result.sent == len(self.transcript.requests) - 1

    def _why_kept(self, result: ToolResult) -> AnyReason:
        """Return the first reason that explains why a result stays."""
        if self.placeholder.has_replaced(result):
            return Reason.ALREADY_CLEARED
        if self.is_unseen(result):
            return Reason.UNSEEN
        if self.protections.is_answer(result):
            return Reason.USER_ANSWER
        if result in self.needed:
            return Reason.REFERRED_TO
        mark = self.placeholder.mark(result)
        if self.placeholder.saves(result, self.placeholder.text(result, mark)) <= 0:
            return Reason.NO_GAIN
        if result.location.path < self.bound_before:
            return Reason.BOUND
        if why := self._guard(result) or self.rationale.why_kept(result):
            return check_reason(why)
        return Reason.WITHIN_SAFE_ZONE if self.tokens <= self.limit else Reason.NOT_CHOSEN
