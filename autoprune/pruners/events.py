"""Tell a caller of prunes, and ask whether to make them. Calls the caller's functions; catches nothing that they raise.

Both functions are called while the caller's messages are as they were, so an exception of theirs loses nothing: it
comes out of the call to prune as it is, and the bug shows where it is.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loguru import logger

from autoprune.conversation.copying import Copied
from autoprune.errors import SettingsError
from autoprune.pruners.report import Report
from autoprune.pruners.result import Result


@dataclass(frozen=True)
class PruneEvent(Copied):
    """One prune of one conversation: about to be made, or made.

    `report` is the whole of it. `conversation_id` is what the caller gave by that name. `request_parameters` are what
    the next request must say besides: see `providers.merged`. Before a prune is made no summary is written, and
    `report.tokens_after` is the most that it can come to.
    """

    report: Report = field(repr=False)
    conversation_id: object = None
    request_parameters: Mapping[str, object] = field(default_factory=dict, repr=False)

    def _given(self) -> Iterator[tuple[str, object]]:
        yield "conversation_id", self.conversation_id

    def to_dict(self) -> dict[str, object]:
        """Return the figures by name, for a log or a metric."""
        return {
            "conversation_id": self.conversation_id,
            **{name: getattr(self.report, name) for name in FIGURES},
            "model_calls": self.report.spent.calls,
            "cost": self.report.spent.cost,
            "seconds": self.report.seconds,
        }


FIGURES = (
    *("strategy", "tokens_before", "tokens_after", "results_cleared", "messages_removed", "messages_summarized"),
    "first_changed_message",
)
BeforePrune = Callable[[PruneEvent], object]  # False: do not prune
OnPruned = Callable[[PruneEvent], object]


def veto(before_prune: BeforePrune | None, event: PruneEvent) -> str | None:
    """Return who refuses a prune that is about to be made, in words for the report; None where nobody does.

    Only False refuses: a function that looks on and returns None does not. Raises SettingsError for what is no plain
    function, and whatever the function raises.
    """
    if before_prune is None or _answer(before_prune, event, "before_prune") is not False:
        return None
    return f"nothing was pruned: {_called(before_prune)} (before_prune) returned False"


def tell(on_pruned: OnPruned | None, event: PruneEvent) -> None:
    """Tell a caller of a prune that was made. Raises what `veto` does."""
    if on_pruned is not None:
        _answer(on_pruned, event, "on_pruned")


@dataclass(frozen=True)
class Callbacks:
    """Whom to ask and to tell of a prune, and the conversation's id in what they are told."""

    before_prune: BeforePrune | None
    on_pruned: OnPruned | None
    conversation_id: object = None

    def refused(self, result: Result, conversation: list[Any]) -> Result | None:
        """Return the result of doing nothing where a prune is refused; None where nobody refuses.

        Nobody is asked where the result is the conversation that was given. Raises what `veto` does.
        """
        if self.before_prune is None or result.conversation is conversation:
            return None
        note = veto(self.before_prune, self._event(result))
        return None if note is None else result.refused(conversation, note)

    def told(self, result: Result, conversation: list[Any]) -> Result:
        """Return the result, after the caller was told of it if anything was done. Raises what `tell` does."""
        if self.on_pruned is not None and result.conversation is not conversation:
            tell(self.on_pruned, self._event(result))
        return result

    def _event(self, result: Result) -> PruneEvent:
        return PruneEvent(result.report, self.conversation_id, request_parameters=result.request_parameters)


def _answer(function: Callable[[PruneEvent], object], event: PruneEvent, option: str) -> object:
    """Return what a caller's function returns for an event. Raises SettingsError for what is no plain function."""
    if not callable(function):
        raise SettingsError(f"{option} is {function!r}: give a function that takes a PruneEvent")
    answer = function(event)
    if not inspect.isawaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # else Python warns that it was never awaited
    raise SettingsError(f"{option} is {_called(function)}, which is async: give a plain function")


def _called(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def logged(report: Report, level: str) -> None:
    """Log a prune in one line with bound fields; silent unless the program calls `logger.enable("autoprune")`."""
    with_fields = logger.opt(lazy=True, capture=False).patch(lambda record: record["extra"].update(report.fields))
    with_fields.log(level, "{}", lambda: report)
