"""Shorten each large tool result by itself: by a cut, a summary, or the caller's function. Makes only the cuts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from autoprune.conversation.edits import Reason, Replace
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.planning.clamping import Clamp, missing_tokens
from autoprune.planning.protections import DEFAULT_PROTECTIONS, Protections
from autoprune.planning.view import BaseFoldingStrategy

if TYPE_CHECKING:
    from autoprune.planning.view import FoldView

SIMPLE, AUTO, CUSTOM = "simple", "auto", "custom"
MODES = (SIMPLE, AUTO, CUSTOM)
INSIDE, AFTER = "inside", "after"
TIMES = (INSIDE, AFTER)
THRESHOLD_TOKENS = 2_000
HARD_LIMIT_TOKENS = 30_000  # of one result in a summarizer's prompt


@dataclass(frozen=True)
class ByFunction:
    """A caller's function as a summarizer. Its `identity` is unique, because two functions may have the same name."""

    function: Callable[[str], object]
    identity: str = field(default_factory=lambda: uuid4().hex)
    calls_model: ClassVar[bool] = False
    may_wait: ClassVar[bool] = True

    def __call__(self, brief: Any, /) -> object:
        """Call the function with the text of the result, the one message of the summarizer's `Brief`."""
        return self.function(brief.utterances[-1].words)


@dataclass(frozen=True)
class PerResult(BaseFoldingStrategy):
    """Shorten each tool result above `threshold` tokens to at most that many, once the model has seen it.

    `mode`: "simple" cuts the result to its head and tail. "auto" has a summarizer sum up the result: `summarizer`, else
    the strategy's, else the pruner's `llm`. "custom" passes the result to `function`, which must return equal texts for
    equal inputs and may be called in several threads at once. A summarizer gets at most `hard_limit` tokens of the
    result, and a summary that is too long is cut. If there is no summary, or if the result was shortened before, the
    result itself is cut. A result with anything but text, such as an image, is left unchanged, and so is an element in
    a text that could be taken for another result.

    The start limits say when to shorten. With `when="inside"` results of the current turn are shortened once
    `start_after` rounds of tools of that turn have returned; with "after" no result is shortened before its turn is
    over. Nothing is shortened before turn `start_turn`. Results of earlier turns are shortened too, unless
    `this_turn_only`. Invalid start limits switch the strategy off, and the report says so.
    """

    mode: str = SIMPLE
    threshold: int = THRESHOLD_TOKENS
    start_after: int = 1
    start_turn: int = 1
    this_turn_only: bool = False
    function: Callable[[str], object] | None = None
    summarizer: Callable[..., object] | str | None = None
    protect: Protections = DEFAULT_PROTECTIONS
    when: str = INSIDE
    hard_limit: int = HARD_LIMIT_TOKENS
    name = "per_result"
    folds = may_drop = False  # it takes no messages out

    def step(self, view: "FoldView") -> Iterator[Replace]:
        """Yield a cut for every large result that is due. A summary that is written later replaces the cut."""
        if self.off_reason or max(view.turn, 1) < self.start_turn:
            return
        for candidate in list(view.candidates()):
            part = candidate.part
            if not isinstance(part, ToolResult) or not self._is_large(part) or not self._is_due(part, view):
                continue
            text = cut(part.text, self.threshold, part.count, candidate.mark)
            if text is not None:
                yield Replace(part, text, self._reason(part), 0)

    def _reason(self, part: Part) -> Reason:
        """Return the reason of an edit. SHORTENED asks for a summary, except for results that were shortened before."""
        return Reason.CLAMPED if self.mode == SIMPLE or missing_tokens(part.text) else Reason.SHORTENED

    def has_written(self, result: Part) -> bool:
        """Return whether a text can be one that replaced a large result."""
        return Clamp(self.threshold).may_have_cut(result.text, result.count)

    @cached_property
    def function_summarizer(self) -> ByFunction:
        """The caller's function as a summarizer. Raises SettingsError if `mode` is "custom" without a function."""
        self.check_parameters()
        assert self.function is not None
        return ByFunction(self.function)

    def _is_large(self, part: Part) -> bool:
        """Return whether a part is above the threshold and can be shortened."""
        return part.is_plain and not part.is_fixed and part.tokens > self.threshold

    def _is_due(self, result: ToolResult, view: "FoldView") -> bool:
        """Return whether the start limits let a result be shortened at a request."""
        requests_before = view.request - view.iteration + 1  # of earlier turns
        if result.sent <= requests_before:
            return not self.this_turn_only
        return self.when == INSIDE and view.iteration > self.start_after

    @cached_property
    def off_reason(self) -> str | None:
        """The reason why invalid start limits switch the strategy off; None if the limits are valid."""
        reasons = [
            f"{name} is {value!r}, not a number of 0 or more"
            for name in ("start_after", "start_turn")
            if not is_number(value := getattr(self, name))
        ]
        if self.when not in TIMES:
            reasons.append(f"when is {self.when!r}, not one of {', '.join(TIMES)}")
        if not isinstance(self.this_turn_only, bool):
            reasons.append(f"this_turn_only is {self.this_turn_only!r}, not True or False")
        elif self.when == AFTER and self.this_turn_only:
            reasons.append(f"this_turn_only leaves nothing for when={AFTER!r}")
        return f"per_result: no result was shortened: {'; '.join(reasons)}" if reasons else None

    def check_parameters(self) -> None:
        """Raise SettingsError for an invalid parameter, except start limits."""
        if self.mode not in MODES:
            raise SettingsError(f"per_result: mode is {self.mode!r}: give one of {', '.join(MODES)}")
        if self.mode == CUSTOM and not callable(self.function):
            raise SettingsError("per_result: mode 'custom' needs function=, which gets a text and returns one")
        for name in ("threshold", "hard_limit"):
            check_number(f"per_result: {name}", getattr(self, name), 1)
        if not (self.summarizer is None or isinstance(self.summarizer, str) or callable(self.summarizer)):
            raise SettingsError(f"per_result: summarizer is {self.summarizer!r}: give a summarizer, its name, or None")


def mark(tokens: int) -> str:
    """Return the mark above a text that replaces a result of `tokens` tokens."""
    return f"[… shortened from {tokens:,} tokens …]"


def cut(text: str, limit: int, count: Callable[[str], int], mark: str = "") -> str | None:
    """Cut a text to at most `limit` tokens, with a mark at its end; None if there is nothing to cut."""
    return Clamp(max_result_tokens=limit).shortened(text, count, mark)
