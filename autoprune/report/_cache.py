"""What a prune means to the provider's prompt cache, which holds a prompt up to its first changed message."""

from autoprune.conversation.transcript import Part, Thought
from autoprune.planning.plan import Plan
from autoprune.report._breakdown import LASTING, reason


def tokens_lost(plan: Plan) -> int:
    """Return the counted tokens of the previous prompt that stand after the first edit of this request."""
    transcript = plan.transcript
    last = len(transcript.requests) - 1
    fresh = [edit.part.location.message for edit in plan.edits if edit.request == last]
    folds = [fold for fold in plan.folds if fold.request == last]
    fresh += [at for fold in folds for at in (plan.place, *fold.messages)]
    if not fresh or last == 0:
        return 0
    first = min(fresh)
    before = {at for fold in plan.folds if fold.request < last for at in fold.messages}
    still = (at for at in range(first, transcript.requests[last - 1]) if at not in before)
    cached = sum(transcript.entries[at].tokens for at in still)
    after = [edit for edit in plan.edits if edit.part.location.message >= first]
    return cached - sum(edit.saved if edit.request < last else edit.saved_before for edit in after)


def stable_boundary(plan: Plan) -> int | None:
    """Return the index of the last message up to which no later prune changes a thing; None where there is none.

    Where messages are folded or dropped, only the system's messages at the head are stable, before the first fold too.
    """
    if plan.head is not None:
        return plan.head - 1 if plan.head else None
    results = (result for result in plan.transcript.results if reason(plan, result) not in LASTING)
    may_change: tuple[Part | Thought, ...] = (*results, *plan.open_inputs, *plan.doomed)
    first = min((part.location.message for part in may_change), default=len(plan.transcript.entries))
    return first - 1 if first else None
