"""Shorten each large tool result by itself: cut, sum up, or by the caller's function. Writes no text but cuts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

from autoprune.conversation.edits import Reason, Replace
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.planning.clamping import Clamp, is_cut
from autoprune.planning.protections import NOTHING, Protections

if TYPE_CHECKING:
    from autoprune.planning.view import FoldView
    from autoprune.summarizers.brief import Brief

SIMPLE, AUTO, CUSTOM = "simple", "auto", "custom"
MODES = (SIMPLE, AUTO, CUSTOM)
INSIDE, AFTER = "inside", "after"
TIMES = (INSIDE, AFTER)
THRESHOLD_TOKENS = 2_000
HARD_LIMIT_TOKENS = 30_000  # of a result, in a question to a model


@dataclass(frozen=True)
class ByFunction:
    """A caller's function as a summarizer. `identity` tells it from every other one, even of the same name."""

    function: Callable[[str], object]
    identity: str = field(default_factory=lambda: uuid4().hex)
    calls_model: ClassVar[bool] = False
    may_wait: ClassVar[bool] = True

    def __call__(self, brief: "Brief", /) -> object:
        """Return what the function makes of the result."""
        return self.function(brief.utterances[-1].words)


@dataclass(frozen=True)
class PerResult:
    """Shorten each tool result above `threshold` tokens to at most as many, once the model has seen it.

    `mode`: "simple" cuts it to its head and tail, "auto" has a summarizer sum it up (`summarizer`, else the strategy's,
    else the pruner's `llm`), "custom" gives it to `function`, which returns the same text for the same text and may be
    called in several threads at once. A summarizer gets at most `hard_limit` tokens of the result. A text that is too
    long is cut. If there is none, or if the result was shortened before, the result itself is cut. A result that holds
    more than a text stays as it is: an image, say, or an element in a text that could be taken for another result.

    The start limits say when. `when` is "inside" for results of the user's turn that the agent is in, as soon as
    `start_after` rounds of tools of that turn have come back, or "after" for none before their turn is over. Nothing is
    done before the turn `start_turn`. Results of turns that are over are shortened too, unless `this_turn_only`. Start
    limits that cannot be read switch the strategy off, and the report says so.
    """

    mode: str = SIMPLE
    threshold: int = THRESHOLD_TOKENS
    start_after: int = 1
    start_turn: int = 1
    this_turn_only: bool = False
    function: Callable[[str], object] | None = None
    summarizer: Callable[..., object] | None = None
    protect: Protections = NOTHING
    when: str = INSIDE
    hard_limit: int = HARD_LIMIT_TOKENS
    name = "per_result"
    folds = may_drop = False  # it takes no messages out

    def step(self, view: "FoldView") -> Iterator[Replace]:
        """Cut every large result that is due. A text that is written later takes the place of the cut."""
        self._check()
        if self.off or max(view.turn, 1) < self.start_turn:
            return
        for candidate in list(view.candidates()):
            part = candidate.part
            if not isinstance(part, ToolResult) or not self._is_large(part) or not self._is_due(part, view):
                continue
            text = cut(part.text, self.threshold, part.count, candidate.mark)
            if text is not None:
                yield Replace(part, text, self._reason(part), 0)

    def _reason(self, part: Part) -> Reason:
        """Return the reason, which says whether a text is to be written: not of what was shortened before."""
        return Reason.CLAMPED if self.mode == SIMPLE or is_cut(part.text) else Reason.SHORTENED

    @cached_property
    def asked(self) -> ByFunction:
        """The function as a summarizer. Raises SettingsError if there is none."""
        self._check()
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
    def off(self) -> str | None:
        """What is wrong with the start limits, in words, so that nothing is shortened; None if nothing is."""
        found = [
            f"{name} is {value!r}, not a number of 0 or more"
            for name in ("start_after", "start_turn")
            if not is_number(value := getattr(self, name))
        ]
        if self.when not in TIMES:
            found.append(f"when is {self.when!r}, not one of {', '.join(TIMES)}")
        if not isinstance(self.this_turn_only, bool):
            found.append(f"this_turn_only is {self.this_turn_only!r}, not True or False")
        elif self.when == AFTER and self.this_turn_only:
            found.append(f"this_turn_only leaves nothing for when={AFTER!r}")
        return f"per_result: no result was shortened: {'; '.join(found)}" if found else None

    def _check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used, but for start limits."""
        if self.mode not in MODES:
            raise SettingsError(f"per_result: mode is {self.mode!r}: give one of {', '.join(MODES)}")
        if self.mode == CUSTOM and not callable(self.function):
            raise SettingsError("per_result: mode 'custom' needs function=, which gets a text and returns one")
        for name in ("threshold", "hard_limit"):
            check_number(f"per_result: {name}", getattr(self, name), 1)
        if self.summarizer is not None and not callable(self.summarizer):
            raise SettingsError(f"per_result: summarizer is {self.summarizer!r}: give something callable, or None")


def mark(tokens: int) -> str:
    """Return the mark above a text that stands for a result of so many tokens."""
    return f"[… shortened from {tokens:,} tokens …]"


def cut(text: str, limit: int, count: Callable[[str], int], mark: str = "") -> str | None:
    """Return a text cut to at most `limit` tokens, with a mark at its end; None if there is nothing to cut."""
    return Clamp(max_result_tokens=limit).shortened(text, count, mark)
