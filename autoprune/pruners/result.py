"""The result of a prune: the new conversation, its report, events for callbacks, and figures for a ledger."""

import inspect
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from autoprune.conversation.archive import Archive
from autoprune.conversation.edits import Replace, savings_by_message
from autoprune.conversation.messages import without_marks
from autoprune.conversation.placeholders import (
    content_id,
    pointer,
    pointer_target,
    recall_id,
    split_mark,
    text_to_archive,
)
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.economics import Sent, Weighed
from autoprune.errors import SettingsError
from autoprune.facts.calls import target
from autoprune.planning.plan import Plan
from autoprune.pruners.report import Report


@dataclass(frozen=True)
class Result:
    """The new conversation and the report.

    `request_parameters` must be added to the next request; usually {}. See `providers.merged`.
    """

    conversation: list[Any] = field(repr=False)
    report: Report
    request_parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The decision for each result."""
        return self.report.plan

    @property
    def sent(self) -> Sent:
        """The figures of the prompt before and after the prune, for a ledger (`economics.Ledger`)."""
        return sent(self.conversation, self.report)

    def with_notes(self, notes: Sequence[str]) -> "Result":
        """Return the result with more notes in its report."""
        if not notes:
            return self
        return replace(self, report=replace(self.report, fallbacks=(*self.report.fallbacks, *notes)))

    def refused(self, conversation: list[Any], note: str) -> "Result":
        """Return a result without changes: the caller's conversation, and a report with the reason."""
        nothing = partial(_nothing_done, self.report.plan_of)
        return Result(conversation, replace(self.report, plan_of=nothing)).with_notes([note])


def _nothing_done(plan_of: Callable[[], Plan]) -> Plan:
    """Return a plan without its changes."""
    return replace(plan_of(), edits=(), folds=(), stripped=(), doomed=(), counted=None, weights=())


@dataclass(frozen=True)
class PruneEvent:
    """One prune of one conversation, before or after it is done.

    `report` is the full report. `conversation_id` is the id that the caller passed. `request_parameters` must be added
    to the next request; see `providers.merged`. Before a prune, no summary is written yet, and `report.tokens_after` is
    an upper bound.
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


def veto(before_prune: BeforePrune | None, event: PruneEvent) -> str | None:
    """Ask `before_prune` about a prune. Return a note for the report if it refuses, else None.

    Only False refuses, so a function that only logs and returns None does not. Raises SettingsError if the callback is
    not a plain function, and any error of the function.
    """
    if before_prune is None or _answer(before_prune, event, "before_prune") is not False:
        return None
    return f"nothing was pruned: {_qualified_name(before_prune)} (before_prune) returned False"


def tell(on_pruned: OnPruned | None, event: PruneEvent) -> None:
    """Call `on_pruned` after a prune. Raises the same errors as `veto`."""
    if on_pruned is not None:
        _answer(on_pruned, event, "on_pruned")


@dataclass(frozen=True)
class Callbacks:
    """The callbacks of one prune, and the conversation's id for their events."""

    before_prune: BeforePrune | None
    on_pruned: OnPruned | None
    conversation_id: object = None

    def refused(self, result: Result, conversation: list[Any]) -> Result | None:
        """Ask `before_prune`. Return a result without changes if it refuses the prune, else None.

        The callback is not called if the prune changes nothing. Raises the same errors as `veto`.
        """
        if self.before_prune is None or result.conversation is conversation:
            return None
        note = veto(self.before_prune, self._event(result))
        return None if note is None else result.refused(conversation, note)

    def notify(self, result: Result, conversation: list[Any]) -> Result:
        """Call `on_pruned` if the prune changed anything, and return the result. Raises the same errors as `tell`."""
        if self.on_pruned is not None and result.conversation is not conversation:
            tell(self.on_pruned, self._event(result))
        return result

    def _event(self, result: Result) -> PruneEvent:
        return PruneEvent(result.report, self.conversation_id, request_parameters=result.request_parameters)


def _answer(function: Callable[[PruneEvent], object], event: PruneEvent, option: str) -> object:
    """Call a caller's function with an event. Raises SettingsError if it is not a plain function."""
    if not callable(function):
        raise SettingsError(f"{option} is {function!r}: give a function that takes a PruneEvent")
    answer = function(event)
    if not inspect.isawaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # else Python warns that it was never awaited
    raise SettingsError(f"{option} is {_qualified_name(function)}, which is async: give a plain function")


def _qualified_name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


DIGEST_BYTES = 6
NO_REFERENCES = 2  # marshal's last version without references: with them, equal messages can differ in their bytes


def sent(conversation: Sequence[Any], report: Report) -> Sent:
    """The figures of a prompt before and after a prune, in counted tokens."""
    plan, spent = report.plan, report.spent
    known = plan.transcript
    after = _weigh_messages(conversation, _weights(plan))
    is_changed = bool(plan.edits or plan.folds or plan.stripped)
    return Sent(
        _weigh_messages(known.messages, [entry.tokens for entry in known.entries]) if is_changed else after,
        after,
        known.fixed_tokens,
        _tokens_placed(report),
        tuple(filter(None, map(_digest_of_result, _results_edited_now(plan)))),
        tuple(_unseen_results(plan)),
        spent.input_tokens,
        spent.output_tokens,
        spent.cost,
    )


def _weights(plan: Plan) -> Sequence[int]:
    """The tokens of each message that is sent."""
    if plan.weights:
        return plan.weights
    saved = savings_by_message(plan.edits, plan.stripped)
    return [entry.tokens - saved.get(at, 0) for at, entry in enumerate(plan.transcript.entries)]


def _weigh_messages(messages: Iterable[object], tokens: Iterable[int]) -> Weighed:
    # Not strict: an unchanged conversation is the caller's own list, which may have grown since.
    return tuple((_digest(_serialize(message)), weight) for message, weight in zip(messages, tokens, strict=False))


def _serialize(message: object) -> bytes:
    """Serialize a message, ignoring its marks for the prompt cache. Equal messages give equal bytes."""
    known: Any = without_marks(message)
    try:
        return marshal.dumps(known, NO_REFERENCES)  # four times as fast as repr
    except ValueError:  # an SDK's object is in it
        return _encode(repr(known))


def _tokens_placed(report: Report) -> int:
    """The tokens that this request's edits put into the previous prompt, and those of a new summary."""
    plan = report.plan
    requests = plan.transcript.requests
    last = len(requests) - 1
    before = requests[last - 1] if last else 0
    fresh = [edit for edit in plan.edits if edit.request == last and edit.part.location.message < before]
    is_summed_up = any(fold.request == last and not fold.is_drop for fold in plan.folds)
    return sum(edit.part.tokens - edit.saved for edit in fresh) + (report.floor["summary"] if is_summed_up else 0)


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
    """A digest of a result: its tool, target and text; "" if the call has no target.

    The text is included, since a file that is read again after a change, or tests that run again, would have been
    fetched without pruning too.
    """
    touched = target(result.call)
    return _digest(_encode(f"{result.tool}\0{touched}\0{result.text}")) if touched else ""


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def archive_payloads(
    result: Result,
    archive: Archive,
    messages: Sequence[object],
    known: dict[Part, str],
) -> Result:
    """Archive the payloads that the edits of a prune replace. Return the result, with a note on each failure.

    `known` maps the parts that were archived before to the texts that replaced them, and is updated. The next prune
    tries failed payloads again.
    """
    failures: dict[str, dict[str, None]] = {}  # reason → ids, in order
    for edit in result.plan.edits:
        if known.get(edit.part) == edit.text:
            continue
        failed = [*_archive_edit(archive, edit, text_to_archive(edit.part, messages))]
        for id, why in failed:
            failures.setdefault(why, {})[id] = None
        if not failed:
            known[edit.part] = edit.text
    return result.with_notes([_failure_note(why, ids) for why, ids in failures.items()])


def _archive_edit(archive: Archive, edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Store the payload that an edit replaces, and the pointers to it.

    Yield the ids that failed, each with the reason: the archive's error, or a conflict with other content.
    """
    from autoprune.summarizers.driver import call_safely  # lazy: most pruners have no archive

    for id, text in _records(edit, content):
        if (answer := call_safely(_store_record, archive, id, text)) is not None:
            yield id, str(getattr(answer, "why", answer))


def _records(edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Yield the records to store for an edit, each with its id: the payload, and pointers to it.

    Say that the payload P was cut to C, and C is cleared, in one prune or in two. The placeholder then carries C's id,
    so that id must point to P. The pointer is stored with the cut, since a later prune of pruned output only knows C.
    """
    whole, carried = content_id(content), split_mark(edit.mark)[1]
    yield whole, content
    if carried not in ("", whole, split_mark(content)[1]):
        yield carried, pointer(carried, whole)
    # The id that a later placeholder will carry, if it replaces the text of this edit.
    if edit.may_change and (later := recall_id(edit.text)) != carried:
        yield later, pointer(later, carried or whole)


def _store_record(archive: Archive, id: str, text: str) -> str | None:
    """Store a payload or a pointer under an id. Return None, or the conflict that prevents it.

    A pointer replaces the text whose id it has, and stays as long as its payload is stored.
    """
    known = archive.setdefault(id, text)
    if known == text:
        return None
    is_pointer, whole = content_id(text) != id, pointer_target(known, id) if isinstance(known, str) else None
    if whole and is_pointer:
        return "another payload was cut to the same text"
    if whole and archive.get(whole) is not None:
        return None
    if not is_pointer and isinstance(known, str) and content_id(known) == id:
        return "another payload has the same id"
    archive[id] = text  # the stored text was damaged, or a text and its pointer replace each other
    return None


def _failure_note(why: str, ids: Iterable[str]) -> str:
    return f"the archive failed ({why}): what was cleared cannot be recalled by {', '.join(ids)}"
