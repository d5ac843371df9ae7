"""Make the conversation and the report of a plan once its texts are there. Decides only whether it is smaller."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from autoprune.conversation.edits import CALLS_IN_TEXT, CALLS_LATER, NO_ANSWER, Fold, Running
from autoprune.conversation.rewriting import apply, strip
from autoprune.conversation.summary import assembled, wrapped
from autoprune.conversation.transcript import Part, Speaker, Transcript
from autoprune.formats.parsing import Format
from autoprune.planning.plan import Plan
from autoprune.providers.thinking import Outcome
from autoprune.pruners._terms import Terms
from autoprune.pruners._writing import SummaryWriter
from autoprune.pruners.report import Report
from autoprune.pruners.result import Result
from autoprune.summarizers.brief import Answer, Written


@dataclass(frozen=True)
class Unfinished:
    """A prune that is decided and waits for its texts.

    `given` are the caller's messages, `bare` the same without the summary that stood in them. `weigh` reads and
    counts messages. `archived` are the parts that an archive keeps.
    """

    started: float
    terms: Terms
    given: list[Any]
    bare: list[Any]
    plan: Plan
    aftermath: Outcome
    writer: SummaryWriter
    written_in: Format
    weigh: Callable[[list[Any]], Transcript]
    advise: Callable[[Report], str]
    archived: dict[Part, str]

    def planned(self) -> Result:
        """Return what is about to be done, with the largest summary that there can be; no conversation is made."""
        is_idle = not (self.plan.edits or self.plan.folds or self.plan.stripped)
        report = self._report(self.plan, self.aftermath.notes, 0.0)
        return Result(self.given if is_idle else [], report, self.aftermath.parameters)

    def finished(self, answer: Answer, clock: Callable[[], float]) -> Result:
        """Return the conversation with the summary that was written, and the report."""
        plan, notes = replace(self.plan, edits=self.writer.edits), self.aftermath.notes
        pruned = rewritten(self.given, plan)
        if plan.folds:
            kept = assembled(rewritten(self.bare, plan), self._gone, plan.place, self._summary(answer))
            pruned = [each.message for each in kept]
            weighed = self.weigh(pruned)
            weights = tuple(entry.tokens for entry in weighed.entries)
            plan = replace(plan, counted=weighed.tokens, weights=weights)
        if plan.folds and plan.tokens >= plan.tokens_before:
            plan, pruned = replace(plan, edits=(), folds=(), stripped=(), counted=None, weights=()), self.given
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
        """Return the message of the summary: a new one, the old one where nothing was added to it, or None."""
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
        pruned output that is fed back, so it does not count here either; and as only the last mark is known there, each
        fold goes by the mark before it.
        """
        calls = known.calls if known else NO_ANSWER
        gone = {known.at} if known and known.rest is None else set()
        for fold in self.plan.folds:
            gone.update(fold.messages)
            if not fold.is_drop:
                calls = self._calls_behind(calls, fold, gone)
        return calls

    def _calls_behind(self, before: str, fold: Fold, gone: set[int]) -> str:
        """Return how the calls were made once one more fold is made; `gone` are all messages that went by then."""
        entries = self.plan.transcript.entries
        stays = (at for at, entry in enumerate(entries) if at not in gone and entry.speaker is not Speaker.SYSTEM)
        first = next(stays, len(entries))
        folded = [(at, entries[at]) for at in fold.messages]
        has_spoken = any(entry.speaker is Speaker.MODEL and at < first for at, entry in folded)
        if before in (CALLS_LATER, "") or any(call.location.start is None for _, each in folded for call in each.calls):
            is_opening = before and not has_spoken and before != CALLS_IN_TEXT
            return CALLS_LATER if is_opening and first < len(entries) and entries[first].results else ""
        return CALLS_IN_TEXT if has_spoken else before


def rewritten(messages: list[Any], plan: Plan) -> list[Any]:
    """Return the messages with what a plan replaces and strips; whole messages stay."""
    return strip(apply(messages, plan.edits), plan.stripped)
