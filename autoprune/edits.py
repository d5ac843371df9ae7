"""What can be decided about a conversation. Decides nothing itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from autoprune.placeholders import Placeholder
from autoprune.transcript import ToolResult, Transcript


class Reason(StrEnum):
    """Why a result was cleared or kept; `sentence` says it in words."""

    OVER_SAFE_ZONE = "over_safe_zone"
    TO_TARGET = "to_target"
    OUT_OF_REACH = "out_of_reach"
    WITHIN_SAFE_ZONE = "within_safe_zone"
    NOT_CHOSEN = "not_chosen"
    UNSEEN = "unseen"
    NO_GAIN = "no_gain"
    ALREADY_CLEARED = "already_cleared"

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return SENTENCES[self]


SENTENCES = {
    Reason.OVER_SAFE_ZONE: "oldest first, until within the safe zone",
    Reason.TO_TARGET: "oldest first, down to the target",
    Reason.OUT_OF_REACH: "the safe zone is out of reach: all that can go, goes",
    Reason.WITHIN_SAFE_ZONE: "not needed: the safe zone is reached",
    Reason.NOT_CHOSEN: "the strategy kept it",
    Reason.UNSEEN: "the model has not seen it yet",
    Reason.NO_GAIN: "a placeholder would not be smaller",
    Reason.ALREADY_CLEARED: "it was cleared before",
}


@dataclass(frozen=True, slots=True)
class Replace:
    """Put `text` where the payload of `part` stands, which saves `saved` tokens; the walk says at which `request`."""

    part: ToolResult
    text: str = field(repr=False)
    reason: Reason
    saved: int
    request: int = -1


@dataclass(frozen=True, eq=False)
class Plan:
    """What to change in a transcript so that it has at most `limit` tokens. Every result is in `edits` or in `kept`."""

    transcript: Transcript = field(repr=False)
    edits: tuple[Replace, ...]
    limit: int
    placeholder: Placeholder = field(repr=False)

    @cached_property
    def tokens(self) -> int:
        """Tokens of the next prompt once the edits are made."""
        return self.transcript.tokens - sum(edit.saved for edit in self.edits)

    @cached_property
    def kept(self) -> Mapping[ToolResult, Reason]:
        """For every result that stays, oldest first, why it does."""
        cleared = {edit.part for edit in self.edits}
        return {result: self._why_kept(result) for result in self.transcript.results if result not in cleared}

    def _why_kept(self, result: ToolResult) -> Reason:
        if self.placeholder.stands_in(result):
            return Reason.ALREADY_CLEARED
        if result.sent == len(self.transcript.requests) - 1:
            return Reason.UNSEEN
        if self.placeholder.saves(result, self.placeholder.text(result)) <= 0:
            return Reason.NO_GAIN
        return Reason.WITHIN_SAFE_ZONE if self.tokens <= self.limit else Reason.NOT_CHOSEN
