"""Shorten each large tool result by itself: cut, summarized, or by the caller's function. Writes no summary."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autoprune.clamping import Clamp
from autoprune.edits import Replace
from autoprune.errors import SettingsError
from autoprune.protections import NOTHING, Protections
from autoprune.reasons import Reason
from autoprune.transcript import ToolResult

if TYPE_CHECKING:
    from autoprune.folding import FoldView

MODES = ("simple", "auto", "custom")
THRESHOLD_TOKENS = 2_000


@dataclass(frozen=True)
class PerResult:
    """Shorten each tool result above `threshold` tokens to at most as many, once the model has seen it.

    `mode`: "simple" cuts it to its head and tail, "auto" has the summarizer sum it up, "custom" gives it to `function`
    (text in, text out). Whatever those give is cut where it is too long, and where they fail the result is cut.
    `start_after`: within a turn of the user's, begin with the request of that number; `start_turn`: nothing is done
    before that turn. Results of earlier turns are shortened too unless `this_turn_only`.
    """

    mode: str = "simple"
    threshold: int = THRESHOLD_TOKENS
    start_after: int = 1
    start_turn: int = 1
    this_turn_only: bool = False
    function: Callable[[str], object] | None = None
    summarizer: Callable[..., object] | None = None
    protect: Protections = NOTHING
    name = "per_result"

    def step(self, view: "FoldView") -> Iterator[Replace]:
        """Every large result, cut: what a model or a function writes takes the place of that."""
        self._check()
        if view.turn < self.start_turn or view.iteration <= self.start_after:
            return
        clamp = Clamp(max_result_tokens=self.threshold)
        for candidate in list(view.candidates()):
            part = candidate.part
            if not isinstance(part, ToolResult) or part.tokens <= self.threshold:
                continue
            text = clamp.shortened(part.text, part.count)
            if text is not None:
                yield Replace(part, text, Reason.CLAMPED if self.mode == "simple" else Reason.SHORTENED, 0)

    def _check(self) -> None:
        if self.mode not in MODES:
            raise SettingsError(f"per_result: mode is {self.mode!r}: give one of {', '.join(MODES)}")
        if self.mode == "custom" and not callable(self.function):
            raise SettingsError("per_result: mode 'custom' needs function=, which gets a text and returns one")
        for name, least in (("threshold", 1), ("start_after", 0), ("start_turn", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SettingsError(f"per_result: {name} is {value!r}: give a number, {least} or more")
