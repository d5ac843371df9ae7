"""The result of a prune, and its events for callbacks."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from autoprune.conversation.archive import Archive, store_payloads
from autoprune.conversation.edits import Replace, split_mark
from autoprune.conversation.transcript import Part
from autoprune.economics import Sent
from autoprune.errors import SettingsError
from autoprune.planning.plan import Plan
from autoprune.pruners.report import Report, ledger_figures

Message = TypeVar("Message")


@dataclass(frozen=True)
class Result(Generic[Message]):
    """The new conversation and the report. `Message` is the type of the messages that were passed.

    `request_parameters` must be added to the next request; usually {}. See `planning.thinking.merged`.
    """

    conversation: list[Message] = field(repr=False)
    report: Report
    request_parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The decision for each result."""
        return self.report.plan

    @property
    def sent(self) -> Sent:
        """The figures of the prompt before and after the prune, for a ledger (`economics.Ledger`)."""
        return ledger_figures(self.report, self.conversation)

    def with_notes(self, notes: Sequence[str]) -> "Result[Message]":
        """Return the result with more notes in its report."""
        if not notes:
            return self
        return replace(self, report=replace(self.report, fallbacks=(*self.report.fallbacks, *notes)))

    def without_changes(self, conversation: list[Message], note: str) -> "Result[Message]":
        """Return a result without changes: the caller's conversation, and a report with the reason."""
        nothing = replace(self.report, plan_of=lambda: self.report.plan_of().without_changes)
        return Result(conversation, nothing).with_notes([note])


@dataclass(frozen=True)
class PruneEvent:
    """One prune of one conversation, before or after it is done.

    `report` is the full report. `conversation_id` is the id that the caller passed. `request_parameters` must be added
    to the next request; see `planning.thinking.merged`. Before a prune, no summary is written yet, and
    `report.tokens_after` is an upper bound.
    """

    report: Report = field(repr=False)
    conversation_id: object = None
    request_parameters: Mapping[str, object] = field(default_factory=dict, repr=False)

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
BeforePrune = Callable[[PruneEvent], object]  # returns False to refuse the prune
OnPruned = Callable[[PruneEvent], object]


@dataclass(frozen=True)
class Callbacks:
    """The callbacks of one prune, and the conversation's id for their events."""

    before_prune: BeforePrune | None
    on_pruned: OnPruned | None
    conversation_id: object = None

    def refusal(self, result: Result[Message], conversation: list[Message]) -> Result[Message] | None:
        """Ask `before_prune`. Return a result without changes if it refuses the prune, else None.

        The callback is not called if the prune changes nothing. Only False refuses, so a function that only logs and
        returns None does not. Raises SettingsError if the callback is not a plain function, and any error of it.
        """
        if self.before_prune is None or result.conversation is conversation:
            return None
        if self._call(self.before_prune, result, "before_prune") is not False:
            return None
        note = f"nothing was pruned: {_qualified_name(self.before_prune)} (before_prune) returned False"
        return result.without_changes(conversation, note)

    def notify(self, result: Result[Message], conversation: list[Message]) -> Result[Message]:
        """Call `on_pruned` if the prune changed anything, and return the result. Raises like `refusal`."""
        if self.on_pruned is not None and result.conversation is not conversation:
            self._call(self.on_pruned, result, "on_pruned")
        return result

    def _call(self, function: Callable[[PruneEvent], object], result: Result[Any], option: str) -> object:
        """Call a caller's function with the event. Raises SettingsError if it is not a plain function."""
        if not callable(function):
            raise SettingsError(f"{option} is {function!r}: give a function that takes a PruneEvent")
        answer = function(PruneEvent(result.report, self.conversation_id, result.request_parameters))
        if not inspect.isawaitable(answer):
            return answer
        if inspect.iscoroutine(answer):
            answer.close()  # else Python warns that it was never awaited
        raise SettingsError(f"{option} is {_qualified_name(function)}, which is async: give a plain function")


def _qualified_name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def archive_payloads(result: Result[Message], archive: Archive, known: dict[Part, str]) -> Result[Message]:
    """Archive the payloads that a prune replaced, as `store_payloads` does. Failures are noted in the report."""
    from autoprune.summarizers.driver import call_safely  # lazy: most pruners have no archive

    return result.with_notes(store_payloads(archive, (*result.plan.edits, *_folded(result.plan)), known, call_safely))


def _folded(plan: Plan) -> Iterator[Replace]:
    """Yield edits for the results of folded steps, which are archived like cleared ones; not for placeholders."""
    for at, fold in plan.gone.items():
        for part in plan.transcript.entries[at].results if fold.text else ():
            if not split_mark(part.text)[1]:
                yield Replace(part, fold.text, fold.reason, part.tokens, fold.request, mark=plan.placeholder.mark(part))
