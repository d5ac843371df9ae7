"""What a prompt consists of after a prune, what became of its parts, and what the provider's cache loses, as values.

Counts what the plan knows, and decides nothing.
"""

from collections.abc import Mapping

from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.reasons import Reason, sentence
from autoprune.conversation.transcript import Part, Speaker, Thought, ToolResult
from autoprune.facts.calls import target
from autoprune.planning.plan import Plan

# Why a result stays as it is for good.
LASTING = frozenset(
    (
        *(Reason.ALREADY_CLEARED, Reason.NO_GAIN, Reason.PINNED, Reason.PROTECTED_TOOL, Reason.PROTECTED_PATH),
        *(Reason.INSTRUCTIONS, Reason.USER_ANSWER, Reason.FAILED, Reason.SMALL),
    )
)
FLOOR = {
    "system": "system and developer messages",
    "summary": "the summary",
    "user": "the user's words",
    "assistant": "the assistant's words and calls",
    "frames": "what stands around the tools' results",
    "other": "messages of other roles",
    "answers": "what the user said through tools",
    "unseen": "results that the model has not seen yet",
    "kept": "results that were kept",
    "cleared": "placeholders",
    "sent beside": "sent beside the messages",
}
PARTS = {
    Speaker.SYSTEM: "system",
    Speaker.USER: "user",
    Speaker.MODEL: "assistant",
    Speaker.TOOL: "frames",
    Speaker.OTHER: "other",
}


def floor(plan: Plan) -> dict[str, int]:
    """Return the counted tokens of each part of the prompt; they add up to the whole.

    What a provider reported beyond the count is taken for sent beside the messages: a system prompt, schemas of tools.
    """
    parts = dict.fromkeys(FLOOR, 0)
    parts["sent beside"] = plan.transcript.fixed_tokens + plan.beyond
    kept = [entry for at, entry in enumerate(plan.transcript.entries) if at not in plan.gone]
    for entry in kept:
        parts[PARTS[entry.speaker]] += entry.tokens - sum(result.tokens for result in entry.results)
        for result in entry.results:
            edit = plan.results.get(result)
            parts[_part(plan, result)] += result.tokens - (edit.saved if edit else 0)
    parts["assistant"] -= sum(edit.saved for edit in plan.inputs.values())
    parts["assistant"] -= sum(thought.tokens for thought in plan.stripped)
    if plan.running and plan.running.at not in plan.gone:
        parts["user"] -= plan.running.tokens
    # What is left is the summary; where there is none, words of the user's that were joined.
    rest = plan.tokens - sum(parts.values())
    parts["summary" if plan.summarized or plan.running else "user"] += rest
    return parts


def _part(plan: Plan, result: ToolResult) -> str:
    why = reason(plan, result)
    if why in (Reason.ALREADY_CLEARED, Reason.USER_ANSWER):
        return "cleared" if why is Reason.ALREADY_CLEARED else "answers"
    return "unseen" if plan.is_unseen(result) else "kept"


def reason(plan: Plan, result: ToolResult) -> str:
    """Return why a result is as it is after the prune."""
    if result in plan.kept:
        return plan.kept[result]
    edit = plan.results.get(result)
    if edit is None:
        return plan.gone[result.location.message].reason
    return edit.reason if edit.reason in (Reason.CLAMPED, Reason.SHORTENED) else Reason.ALREADY_CLEARED


def tools(plan: Plan) -> Mapping[str, Mapping[str, int]]:
    """Count for each tool its results, their tokens, how many were edited and what that saved, the most saved first."""
    table: dict[str, dict[str, int]] = {}
    for result in plan.transcript.results:
        edit = plan.results.get(result)
        row = table.setdefault(result.tool, dict.fromkeys(("results", "tokens", "cleared", "saved"), 0))
        row["results"] += 1
        row["tokens"] += result.tokens
        row["cleared"] += edit is not None
        row["saved"] += edit.saved if edit else 0
    for part, edit in plan.inputs.items():
        table[plan.answers[part].tool]["saved"] += edit.saved
    return dict(sorted(table.items(), key=lambda item: (-item[1]["saved"], -item[1]["tokens"], item[0])))


def result_row(plan: Plan, result: ToolResult) -> dict[str, object]:
    """Return what became of a result."""
    edit = plan.results.get(result)
    fold = plan.gone.get(result.location.message)
    why = fold.reason if fold else edit.reason if edit else plan.kept[result]
    row = part_row(plan, result, edit, why)
    tokens_after = 0 if fold else row["tokens_after"]
    state = {"folded": not fold.is_drop, "dropped": fold.is_drop} if fold else {}
    return {**row, **state, "tokens_after": tokens_after, "target": target(result.call), "failed": result.is_error}


def part_row(plan: Plan, part: Part, edit: Replace | None, why: str) -> dict[str, object]:
    """Return what became of a result or of a call's arguments."""
    return {
        "message": part.location.message,
        "turn": plan.transcript.turns[part.location.message],
        "request": part.request,
        "tool": part.tool,
        "tokens": part.tokens,
        "tokens_after": part.tokens - (edit.saved if edit else 0),
        "cleared": edit is not None,
        "reason": str(why),
        "why": sentence(why),
    }


def fold_row(fold: Fold) -> dict[str, object]:
    """Return what was folded or dropped together."""
    return {
        "messages": list(fold.messages),
        "request": fold.request,
        "tokens": fold.saved,
        "dropped": fold.is_drop,
        "room": fold.room,
        "reason": str(fold.reason),
        "why": sentence(fold.reason),
    }


# The provider's prompt cache holds a prompt up to its first changed message.


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
