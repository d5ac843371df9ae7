"""What a prune returns: the new conversation, its report, events for callbacks, and figures for a ledger."""

import inspect
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from autoprune.conversation.archive import Archive
from autoprune.conversation.edits import Replace, saved_by_message
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

    `request_parameters` are what the next request must say besides, {} mostly: see `providers.merged`.
    """

    conversation: list[Any] = field(repr=False)
    report: Report
    request_parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """What was decided for each result."""
        return self.report.plan

    @property
    def sent(self) -> Sent:
        """The prompt as it was given and sent, in figures: what a ledger (`economics.Ledger`) takes."""
        return sent(self.conversation, self.report)

    def with_notes(self, notes: Sequence[str]) -> "Result":
        """Return the result with more notes in its report."""
        if not notes:
            return self
        return replace(self, report=replace(self.report, fallbacks=(*self.report.fallbacks, *notes)))

    def refused(self, conversation: list[Any], note: str) -> "Result":
        """Return the result of doing nothing: the caller's own conversation, and a report that says why."""
        nothing = partial(_nothing_done, self.report.plan_of)
        return Result(conversation, replace(self.report, plan_of=nothing)).with_notes([note])


def _nothing_done(plan_of: Callable[[], Plan]) -> Plan:
    """Return a plan of which nothing is done."""
    return replace(plan_of(), edits=(), folds=(), stripped=(), doomed=(), counted=None, weights=())


@dataclass(frozen=True)
class PruneEvent:
    """One prune of one conversation: about to be made, or made.

    `report` is the whole of it. `conversation_id` is what the caller gave by that name. `request_parameters` are what
    the next request must say besides: see `providers.merged`. Before a prune is made no summary is written, and
    `report.tokens_after` is the most that it can come to.
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
BeforePrune = Callable[[PruneEvent], object]  # False: do not prune
OnPruned = Callable[[PruneEvent], object]


def veto(before_prune: BeforePrune | None, event: PruneEvent) -> str | None:
    """Return who refuses a prune that is about to be made, in words for the report; None if nobody does.

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
        """Return the result of doing nothing where a prune is refused; None if nobody refuses.

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


DIGEST_BYTES = 6
NO_REFERENCES = 2  # the last version of the format in which a text is written again where it occurs again


def sent(conversation: Sequence[Any], report: Report) -> Sent:
    """Return a prompt as it was given and as it was sent, in counted tokens."""
    plan, spent = report.plan, report.spent
    known = plan.transcript
    after = _weighed(conversation, _weights(plan))
    is_changed = bool(plan.edits or plan.folds or plan.stripped)
    return Sent(
        _weighed(known.messages, [entry.tokens for entry in known.entries]) if is_changed else after,
        after,
        known.fixed_tokens,
        _placed(report),
        tuple(filter(None, map(_digest_of_result, _cleared(plan)))),
        tuple(_fetched(plan)),
        spent.input_tokens,
        spent.output_tokens,
        spent.cost,
    )


def _weights(plan: Plan) -> Sequence[int]:
    """Return the tokens of each message that is sent."""
    if plan.weights:
        return plan.weights
    saved = saved_by_message(plan.edits, plan.stripped)
    return [entry.tokens - saved.get(at, 0) for at, entry in enumerate(plan.transcript.entries)]


def _weighed(messages: Iterable[object], tokens: Iterable[int]) -> Weighed:
    # Where nothing was done the conversation is the caller's own list, to which more may have been appended since.
    return tuple((_digest(_written(message)), weight) for message, weight in zip(messages, tokens, strict=False))


def _written(message: object) -> bytes:
    """Return a message as bytes, which are the same for equal ones, wherever their marks for the cache are."""
    known: Any = without_marks(message)
    try:
        return marshal.dumps(known, NO_REFERENCES)  # four times as fast as repr
    except ValueError:  # an SDK's object is in it
        return _encoded(repr(known))


def _placed(report: Report) -> int:
    """Return the tokens of what this request puts in place of parts of the prompt before, and of a new summary."""
    plan = report.plan
    requests = plan.transcript.requests
    last = len(requests) - 1
    before = requests[last - 1] if last else 0
    fresh = [edit for edit in plan.edits if edit.request == last and edit.part.location.message < before]
    is_summed_up = any(fold.request == last and not fold.is_drop for fold in plan.folds)
    return sum(edit.part.tokens - edit.saved for edit in fresh) + (report.floor["summary"] if is_summed_up else 0)


def _cleared(plan: Plan) -> Iterator[ToolResult]:
    """Yield the results that went at this request, whole or in part."""
    last = len(plan.transcript.requests) - 1
    yield from (result for result, edit in plan.results.items() if edit.request == last)
    gone = (at for fold in plan.folds if fold.request == last for at in fold.messages)
    yield from (result for at in gone for result in plan.transcript.entries[at].results)


def _fetched(plan: Plan) -> Iterator[tuple[str, int]]:
    """Yield the results that the model has not seen yet, by their digests, with their tokens."""
    edits = plan.results
    for result in plan.transcript.results:
        if plan.is_unseen(result) and (mark := _digest_of_result(result)):
            yield mark, result.tokens - (edits[result].saved if result in edits else 0)


def _digest_of_result(result: ToolResult) -> str:
    """Return a digest of a result and of its call: the tool, the target; "" if the call names none.

    The text is part of it. Tests that are run again, or a file that was changed and is read again, say something new,
    and would have been fetched had nothing been cleared.
    """
    touched = target(result.call)
    return _digest(_encoded(f"{result.tool}\0{touched}\0{result.text}")) if touched else ""


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def archive_payloads(
    result: Result,
    archive: Archive,
    messages: Sequence[object],
    known: dict[Part, str],
) -> Result:
    """Return the result of a prune after the payloads that its edits replace were kept; its report says what was not.

    `known` are the parts for which that was done before, with the texts that were put in their place. What failed is
    tried again with the next prune.
    """
    failures: dict[str, dict[str, None]] = {}  # what the archive says, with the ids
    for edit in result.plan.edits:
        if known.get(edit.part) == edit.text:
            continue
        failed = [*_kept(archive, edit, text_to_archive(edit.part, messages))]
        for id, why in failed:
            failures.setdefault(why, {})[id] = None
        if not failed:
            known[edit.part] = edit.text
    return result.with_notes([_told(why, ids) for why, ids in failures.items()])


def _kept(archive: Archive, edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Keep the payload that an edit replaces, and the pointers to it.

    Yield the ids that failed, each with the reason: what the archive raised, or what stands in the way.
    """
    from autoprune.summarizers.driver import call_safely  # loaded with the first payload: few have an archive

    for id, text in _records(edit, content):
        if (answer := call_safely(_put, archive, id, text)) is not None:
            yield id, str(getattr(answer, "why", answer))


def _records(edit: Replace, content: str) -> Iterator[tuple[str, str]]:
    """Yield what is to be kept for an edit, by ids: the payload, and pointers to it.

    Say that the payload P was cut to C, and C is cleared, in one prune or in two. The placeholder carries C's id, so
    that points to P. A cut points to P in advance, since a later prune over pruned output knows C alone.
    """
    whole, told = content_id(content), split_mark(edit.mark)[1]
    yield whole, content
    if told not in ("", whole, split_mark(content)[1]):
        yield told, pointer(told, whole)
    if edit.may_change and (later := recall_id(edit.text)) != told:
        yield later, pointer(later, told or whole)


def _put(archive: Archive, id: str, text: str) -> str | None:
    """Keep a payload or a pointer under an id. Return None, or what is in the way.

    A pointer takes the place of the text whose id it has, and stays there while its payload is kept.
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
    archive[id] = text  # what is there was cut off or changed, or the text itself is kept in place of a pointer
    return None


def _told(why: str, ids: Iterable[str]) -> str:
    return f"the archive failed ({why}): what was cleared cannot be recalled by {', '.join(ids)}"
