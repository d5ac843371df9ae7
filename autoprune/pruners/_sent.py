"""What a ledger needs of a prune: messages by their digests and tokens, and what was cleared and fetched."""

import marshal
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from autoprune.conversation.edits import saved_by_message
from autoprune.conversation.messages import without_marks
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import Sent, Weighed
from autoprune.facts.calls import target
from autoprune.planning.plan import Plan
from autoprune.pruners.report import Report

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
    """Return a digest of a result and of its call: the tool, the target; "" where the call names none.

    The text is part of it. Tests that are run again, or a file that was changed and is read again, say something new,
    and would have been fetched had nothing been cleared.
    """
    touched = target(result.call)
    return _digest(_encoded(f"{result.tool}\0{touched}\0{result.text}")) if touched else ""


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()
