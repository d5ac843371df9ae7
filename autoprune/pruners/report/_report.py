"""The report of a prune, and its figures for a ledger. Figures are computed when they are first read."""

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

import autoprune.pruners.report._figures as figures
from autoprune.conversation.edits import Reason, savings_by_message
from autoprune.conversation.messages import without_marks
from autoprune.conversation.transcript import Entry, Speaker, ToolResult, Transcript
from autoprune.economics import Sent, Weighed
from autoprune.errors import count_noun
from autoprune.facts.calls import target
from autoprune.facts.outcomes import answer_text
from autoprune.planning.plan import Plan
from autoprune.planning.thinking import thinking_lost
from autoprune.pruners._marks import reaches
from autoprune.summarizers.brief import Spent
from autoprune.tokens import scale_tokens

MARKED = "a cache mark was added to message {}, since the client's marks are after the cut"


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The outcome of one prune.

    Tokens are the provider's if a calibration or a usage was given, else counted tokens. `tokens_before` and
    `tokens_after` are the figures that are compared with the safe zone. `fallbacks` are notes on everything that was
    not done as requested, and `notes` holds them and other warnings. `seconds` is the duration of the prune. If the
    size of the messages in bytes showed that there was nothing to do, tokens are counted when a figure is first read.
    `cache_mark` is the index of the message that `prune_request` marked for the provider's cache.
    """

    strategy: str
    safe_zone: int
    calibration: float
    fallbacks: tuple[str, ...]
    seconds: float
    plan_of: Callable[[], Plan]
    spent: Spent = field(default_factory=Spent)
    advise: "Callable[[Report], str] | None" = None
    warn: Callable[[Plan], str] | None = None
    cache_mark: int | None = None

    @cached_property
    def advice(self) -> str:
        """Advice on how to reach the safe zone, with figures; "" if it is reached. Computed when first read."""
        return self.advise(self) if self.advise and not self.within_safe_zone else ""

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for the caller: fallbacks, compactions, a cache mark, a warning if pruning costs more than it saves."""
        return (*self.fallbacks, *self._facts, *filter(None, (self._warning,)))

    @property
    def _facts(self) -> tuple[str, ...]:
        return (*figures.compaction_notes(self.plan), *filter(None, (self.mark_note,)))

    @property
    def mark_note(self) -> str:
        """A note that a message was marked for the provider's cache; "" if none was."""
        return "" if self.cache_mark is None else MARKED.format(self.cache_mark)

    @cached_property
    def _warning(self) -> str:
        return self.warn(self.plan) if self.warn else ""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields with computed values instead of functions, which refer to the pruner and its memory."""
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "plan_of": partial(constant, self.plan),
            "advise": partial(constant, self.advice) if self.advise else None,
            "warn": partial(constant, self._warning),
        }

    @cached_property
    def plan(self) -> Plan:
        """The decision for each result."""
        return self.plan_of()

    @cached_property
    def tokens_before(self) -> int:
        """The tokens of the next prompt before the prune."""
        return scale_tokens(self.plan.tokens_before, self.calibration)

    @cached_property
    def tokens_after(self) -> int:
        """The tokens of the next prompt after the prune."""
        return scale_tokens(self.plan.tokens, self.calibration)

    @property
    def tokens_saved(self) -> int:
        """The tokens that the prune saved; never below zero."""
        return self.tokens_before - self.tokens_after

    @property
    def compression_ratio(self) -> float:
        """Tokens after / tokens before; 1.0 for an empty conversation."""
        return self.tokens_after / self.tokens_before if self.tokens_before else 1.0

    @property
    def within_safe_zone(self) -> bool:
        """Whether the prompt is within the safe zone. If not, `floor` shows what takes the tokens."""
        return self.tokens_after <= self.safe_zone

    @property
    def results(self) -> int:
        """The number of tool results in the conversation."""
        return len(self.plan.transcript.results)

    @property
    def results_cleared(self) -> int:
        """The number of tool results that this prune replaced by placeholders."""
        return sum(edit.reason not in (Reason.CLAMPED, Reason.RESTORED) for edit in self.plan.results.values())

    @property
    def results_clamped(self) -> int:
        """The number of tool results that this prune cut to their head and tail."""
        return len(self.plan.results) - self.results_cleared

    @property
    def calls_cleaned(self) -> int:
        """The number of calls whose arguments this prune shortened."""
        return len({self.plan.answers[part] for part in self.plan.inputs})

    @property
    def first_changed_message(self) -> int | None:
        """The index of the first message that the prune changes; None if it changes none."""
        edited = self.plan.first_changed
        stripped = (thought.location.message for thought in self.plan.stripped)
        return min((*((int(edited[0]),) if edited else ()), *stripped), default=None)

    @cached_property
    def cache_tokens_lost(self) -> int:
        """The tokens of the previous prompt after this request's first edit, which the provider may have cached."""
        return scale_tokens(figures.tokens_lost(self.plan), self.calibration)

    @cached_property
    def thinking_tokens_lost(self) -> int:
        """The tokens of thinking that the edits make invalid; 0 if the thinking policy is "report" or "refuse"."""
        return scale_tokens(sum(each.tokens for each in thinking_lost(self.plan)), self.calibration)

    @cached_property
    def stable_boundary(self) -> int | None:
        """The index of the last message up to which no later prune changes anything; None if there is none.

        A cache breakpoint fits there. If messages may be folded or dropped, only the system messages at the head are
        stable. `cache_aware` may make its placeholders shorter, but only if a limit leaves no room for their names.
        """
        return figures.stable_boundary(self.plan)

    @cached_property
    def floor(self) -> Mapping[str, int]:
        """The counted tokens of each part of the prompt after the prune; they add up to the whole.

        `frames` is the content around the results in a tool's messages. `unseen` results cannot be cleared yet,
        `cleared` results are placeholders, `answers` are the user's, and `kept` are all other results. `summary` is the
        running summary, and `sent beside` is the overhead plus the start of the reply.
        """
        return figures.floor(self.plan)

    @cached_property
    def tools(self) -> Mapping[str, Mapping[str, int]]:
        """For each tool, largest saving first: its results, their tokens, the number edited, and the tokens saved.

        Tokens that were saved by folding or dropping whole messages are not included.
        """
        return figures.tools(self.plan)

    @cached_property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """One row for each tool result, oldest first: location, tool, tokens, whether it was cleared, and why."""
        return tuple(figures.result_row(self.plan, result) for result in self.plan.transcript.results)

    @cached_property
    def input_rows(self) -> tuple[Mapping[str, Any], ...]:
        """One row for each argument that was shortened: the location of its call, its tokens, and why."""
        return tuple(figures.part_row(self.plan, part, edit, edit.reason) for part, edit in self.plan.inputs.items())

    @cached_property
    def fold_rows(self) -> tuple[Mapping[str, Any], ...]:
        """One row for each fold or drop, in order: its messages, the request, their tokens, and why."""
        return tuple(map(figures.fold_row, self.plan.folds))

    @property
    def decisions(self) -> tuple[str, ...]:
        """The strategy's explanations of its decisions, with figures, oldest first; () if it gives none."""
        return self.plan.rationale.decisions

    @property
    def messages_summarized(self) -> int:
        """The number of messages that this prune folded into the summary."""
        return sum(len(fold.messages) for fold in self.plan.folds if not fold.is_drop)

    @property
    def messages_removed(self) -> int:
        """The number of messages that this prune dropped."""
        return sum(len(fold.messages) for fold in self.plan.folds if fold.is_drop)

    @property
    def requests_removed(self) -> int:
        """The number of dropped messages of the user, not counting messages with tool results."""
        return sum(entry.speaker is Speaker.USER and not entry.results for entry in self._dropped)

    @property
    def answers_removed(self) -> int:
        """The number of the user's answers through tools in dropped messages."""
        is_answer = self.plan.protections.is_answer
        return sum(is_answer(each) and bool(answer_text(each)) for entry in self._dropped for each in entry.results)

    @property
    def _dropped(self) -> list[Entry]:
        entries = self.plan.transcript.entries
        return [entries[at] for fold in self.plan.folds if fold.is_drop for at in fold.messages]

    @property
    def statistics(self) -> dict[str, int | float]:
        """The statistics of `get_cleanup_statistics`, for this prune."""
        return {
            **figures.token_figures(self.tokens_before, self.tokens_after),
            "tool_results_cleaned": len(self.plan.results),
            "tool_calls_cleaned": self.calls_cleaned,
            "messages_removed": self.messages_removed,
            "messages_summarized": self.messages_summarized,
            "total_messages": len(self.plan.transcript.entries),
        }

    @property
    def fields(self) -> dict[str, object]:
        """The bound fields of a log line."""
        return {
            "strategy": self.strategy,
            "safe_zone": self.safe_zone,
            "within_safe_zone": self.within_safe_zone,
            "calibration": self.calibration,
            **self.statistics,
            "seconds": self.seconds,
            "fallbacks": list(self.fallbacks),
        }

    def to_dict(self) -> dict[str, object]:
        """Return the whole report as JSON values."""
        return {
            **self.fields,
            "tool_results": self.results,
            "first_changed_message": self.first_changed_message,
            "cache_tokens_lost": self.cache_tokens_lost,
            "thinking_tokens_lost": self.thinking_tokens_lost,
            "stable_boundary": self.stable_boundary,
            "cache_mark": self.cache_mark,
            "advice": self.advice,
            "notes": list(self.notes),
            "decisions": list(self.decisions),
            "results_clamped": self.results_clamped,
            "requests_removed": self.requests_removed,
            "answers_removed": self.answers_removed,
            "model_calls": self.spent.calls,
            "model_input_tokens": self.spent.input_tokens,
            "model_output_tokens": self.spent.output_tokens,
            "cost": self.spent.cost,
            "floor": dict(self.floor),
            "tools": {tool: dict(row) for tool, row in self.tools.items()},
            "results": [dict(row) for row in self.rows],
            "inputs": [dict(row) for row in self.input_rows],
            "folds": [dict(row) for row in self.fold_rows],
        }

    def to_json(self, **options: object) -> str:
        """Return `to_dict` as JSON text; `options` are those of `json.dumps`."""
        return json.dumps(self.to_dict(), **{"ensure_ascii": False, **options})  # type: ignore[arg-type]

    @property
    def also(self) -> str:
        """The changes besides cleared results, as text; "" if there are none."""
        lost = ((self.requests_removed, "request"), (self.answers_removed, "answer"))
        users = " and ".join(count_noun(number, what) for number, what in lost if number)
        done = (
            (self.results_clamped, "result", "cut"),
            (self.calls_cleaned, "call", "with shorter arguments"),
            (len(self.plan.stripped), "thinking block", "stripped"),
            (self.messages_summarized, "message", "folded" if self.plan.folds_steps else "summed up"),
            (self.messages_removed, "message", f"dropped (with {users} of the user's)" if users else "dropped"),
            (self.spent.calls, "call", "of a model"),
        )
        return "".join(f", {count_noun(number, what)} {how}" for number, what, how in done if number)

    def __str__(self) -> str:
        """Format the report in one line for a person."""
        state = "within" if self.within_safe_zone else "over"
        line = (
            f"{self.strategy}: {self.tokens_before:,} → {self.tokens_after:,} tokens, {self.results_cleared} of "
            f"{self.results} tool results cleared{self.also}, {state} the safe zone of {self.safe_zone:,}"
        )
        if not self.within_safe_zone:
            part, tokens = max(self.floor.items(), key=lambda item: item[1])
            line += f" ({part}: {tokens:,})"
        said = (*self.fallbacks, *self._facts)
        return "; ".join((line, *((f"next: {self.advice}",) if self.advice else ()), *said))

    __repr__ = __str__

    def __rich__(self) -> object:
        from autoprune.pruners.report.drawing import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from autoprune.pruners.report.drawing import page

        return page(self)


def constant(value: Any, *asked: object) -> Any:
    """Return a value in place of computing it. A `partial` of this function can be pickled, unlike a lambda."""
    return value


# Figures for a ledger

DIGEST_BYTES = 6
NO_REFERENCES = 2  # marshal's last version without references: with them, equal messages can differ in their bytes


def ledger_figures(report: Report, conversation: Sequence[Any]) -> Sent:
    """Compute the figures of a prompt before and after a prune for a ledger, in counted tokens."""
    plan, spent = report.plan, report.spent
    transcript = plan.transcript
    saved = savings_by_message(plan.edits, plan.stripped)
    sizes = [entry.tokens - saved.get(at, 0) for at, entry in enumerate(transcript.entries)]
    answers = (at for at, entry in enumerate(transcript.entries) if entry.speaker is Speaker.MODEL)
    after = _weigh_messages(conversation, plan.weights or sizes)
    is_changed = bool(plan.edits or plan.folds or plan.stripped)
    weights = [entry.tokens for entry in transcript.entries]
    given = _weigh_messages(transcript.messages, weights) if is_changed else after
    lost = thinking_lost(plan) if is_changed else ()
    return Sent(
        given=given,
        sent=after,
        beside=transcript.fixed_tokens,
        answers=sum(sizes[at] for at in answers if at not in plan.gone) if plan.head is None else None,
        placeholders=_tokens_placed(report),
        cleared=tuple(filter(None, map(_digest_of_result, _results_edited_now(plan)))),
        fetched=tuple(_unseen_results(plan)),
        thinking=sum(thought.tokens for thought in lost),
        lost=tuple({given[thought.location.message][0]: None for thought in lost}),
        thought=_newest_thought(transcript, given),
        model_input=spent.input_tokens,
        model_output=spent.output_tokens,
        model_cost=spent.cost,
        marks=reaches(conversation),
    )


def _newest_thought(transcript: Transcript, given: Weighed) -> tuple[str, int] | None:
    """Return the digest of the first message with thinking in the newest answer, and the tokens of that answer."""
    *_, before, last = 0, 0, *transcript.requests
    answer = [at for at in range(before, last) if transcript.entries[at].speaker is Speaker.MODEL]
    first = next((at for at in answer if transcript.entries[at].thinking), None)
    return None if first is None else (given[first][0], sum(transcript.entries[at].tokens for at in answer))


def _weigh_messages(messages: Iterable[object], tokens: Iterable[int]) -> Weighed:
    # Not strict: an unchanged conversation is the caller's own list, which may have grown since.
    return tuple((_digest(_serialize(message)), weight) for message, weight in zip(messages, tokens, strict=False))


def _serialize(message: object) -> bytes:
    """Serialize a message, ignoring its marks for the prompt cache. Equal messages give equal bytes."""
    plain: Any = without_marks(message)
    try:
        return marshal.dumps(plain, NO_REFERENCES)  # four times as fast as repr
    except ValueError:  # an SDK's object is in it
        return repr(plain).encode("utf-8", "surrogatepass")


def _tokens_placed(report: Report) -> int:
    """Count the tokens that this request's edits put into the previous prompt, and those of a new summary."""
    plan = report.plan
    requests = plan.transcript.requests
    last = len(requests) - 1
    before = requests[last - 1] if last else 0
    fresh = [edit for edit in plan.edits if edit.request == last and edit.part.location.message < before]
    is_summed_up = any(fold.request == last and not fold.is_drop and not fold.text for fold in plan.folds)
    texts = sum(fold.room for fold in plan.folds if fold.request == last and fold.text)
    written = texts + (report.floor["summary"] if is_summed_up else 0)
    return sum(edit.part.tokens - edit.saved for edit in fresh) + written


def _results_edited_now(plan: Plan) -> Iterator[ToolResult]:
    """Yield the results that were cleared, cut or removed at this request."""
    last = len(plan.transcript.requests) - 1
    yield from (result for result, edit in plan.results.items() if edit.request == last)
    gone = (at for fold in plan.folds if fold.request == last for at in fold.messages)
    yield from (result for at in gone for result in plan.transcript.entries[at].results)


def _unseen_results(plan: Plan) -> Iterator[tuple[str, int]]:
    """Yield the digest and the tokens of each result that the model has not seen yet."""
    edits = plan.results
    for result in plan.transcript.results:
        if plan.is_unseen(result) and (mark := _digest_of_result(result)):
            yield mark, result.tokens - (edits[result].saved if result in edits else 0)


def _digest_of_result(result: ToolResult) -> str:
    """Compute a digest of a result from its tool, target and text; "" if the call has no target.

    The text is included, since a file that is read again after a change, or tests that run again, would have been
    fetched without pruning too.
    """
    touched = target(result.call)
    text = f"{result.tool}\0{touched}\0{result.text}"
    return _digest(text.encode("utf-8", "surrogatepass")) if touched else ""


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()
