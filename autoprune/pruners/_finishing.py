"""From a plan whose texts are written to the conversation and its report. Decides nothing but whether it is smaller."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from autoprune.conversation.edits import CALLS_IN_TEXT, NO_ANSWER, Running
from autoprune.conversation.rewriting import apply, strip
from autoprune.conversation.summary import assembled, wrapped
from autoprune.conversation.transcript import Speaker
from autoprune.formats.parsing import Format
from autoprune.planning.plan import Plan
from autoprune.providers.thinking import Outcome
from autoprune.pruners._terms import Terms
from autoprune.pruners._writing import SummaryWriter
from autoprune.pruners.result import Result
from autoprune.report import Report
from autoprune.summarizers.brief import Answer, Written


@dataclass(frozen=True)
class Unfinished:
    """A prune that is decided and waits for its texts.

    `given` are the caller's messages, `bare` the same without the summary that stood in them. `weigh` counts the prompt
    that messages make.
    """

    started: float
    terms: Terms
    given: list[Any]
    bare: list[Any]
    plan: Plan
    aftermath: Outcome
    writer: SummaryWriter
    written_in: Format
    weigh: Callable[[list[Any]], int]
    advise: Callable[[Report], str]

    def planned(self) -> Result:
        """What is about to be done, with the largest summary that there can be; no conversation is made."""
        is_idle = not (self.plan.edits or self.plan.folds or self.plan.stripped)
        report = self._report(self.plan, self.aftermath.notes, 0.0)
        return Result(self.given if is_idle else [], report, self.aftermath.parameters)

    def finished(self, answer: Answer, clock: Callable[[], float]) -> Result:
        """The conversation with the summary that was written, and the report."""
        plan, notes = replace(self.plan, edits=self.writer.edits), self.aftermath.notes
        pruned = rewritten(self.given, plan)
        if plan.folds:
            pieces = assembled(rewritten(self.bare, plan), self._gone, plan.place, self._summary(answer))
            pruned = [piece.message for piece in pieces]
            plan = replace(plan, counted=self.weigh(pruned))
        if plan.folds and plan.tokens >= plan.transcript.tokens:
            plan, pruned = replace(plan, edits=(), folds=(), stripped=(), counted=None), self.given
            notes = (*notes, "nothing was folded: with its summary the conversation would not have been smaller")
        return Result(pruned, self._report(plan, notes, clock() - self.started), self.aftermath.parameters)

    def _report(self, plan: Plan, notes: tuple[str, ...], seconds: float) -> Report:
        return Report(
            getattr(self.terms.strategy, "name", type(self.terms.strategy).__name__),
            self.terms.safe_zone,
            self.terms.calibration,
            (*self.terms.fallbacks, *notes, *self.writer.spent.notes),
            seconds,
            lambda: plan,
            self.writer.spent,
            self.advise,
        )

    @property
    def _gone(self) -> set[int]:
        """The messages that are not sent as they are; that of the old summary is one of them."""
        known = self.plan.running
        return {*self.plan.gone, *((known.at,) if known and known.rest is None else ())}

    def _summary(self, answer: Answer) -> Any:
        """The message of the summary: a new one, the old one where nothing was added to it, or None."""
        folds = [fold for fold in self.plan.folds if not fold.is_drop]
        known = self.plan.running
        text = answer.text if folds and isinstance(answer, Written) else known.text if known else None
        if text is None:
            return None
        messages = sum(len(fold.messages) for fold in folds) + (known.messages if known else 0)
        room = max((*(fold.room for fold in folds), *((known.room,) if known else ())))
        return self.written_in.message("user", wrapped(text, messages, room, self._calls(known)))

    def _calls(self, known: Running | None) -> str:
        """Return how the model had made its calls in what the summary stands for, before the first message that stays.

        A native call counts wherever it was folded, for what follows is read by it. What was dropped leaves no trace in
        pruned output that is fed back, so it does not count here either.
        """
        last = max((at for at, fold in enumerate(self.plan.folds) if not fold.is_drop), default=-1)
        if known and (last < 0 or not known.calls):
            return known.calls
        entries, folds = self.plan.transcript.entries, self.plan.folds[: last + 1]
        folded = {at for fold in folds if not fold.is_drop for at in fold.messages}
        if any(call.location.start is None for at in folded for call in entries[at].calls):
            return ""
        gone = {at for fold in folds for at in fold.messages} | ({known.at} if known and known.rest is None else set())
        head = takewhile(lambda at: at in gone or entries[at].speaker is Speaker.SYSTEM, range(len(entries)))
        has_spoken = any(entries[at].speaker is Speaker.MODEL for at in head if at in folded)
        return CALLS_IN_TEXT if has_spoken else known.calls if known else NO_ANSWER


def rewritten(messages: list[Any], plan: Plan) -> list[Any]:
    """The messages with what a plan replaces and strips; whole messages stay."""
    return strip(apply(messages, plan.edits), plan.stripped)
