"""What a prompt consists of after a prune. Counts what the plan knows, and decides nothing."""

from autoprune.conversation.reasons import Reason
from autoprune.conversation.transcript import Speaker, ToolResult
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
    """What the prompt consists of, in counted tokens; the parts add up to the whole."""
    parts = dict.fromkeys(FLOOR, 0)
    parts["sent beside"] = plan.transcript.fixed_tokens
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
    """Why a result is as it is after the prune."""
    if result in plan.kept:
        return plan.kept[result]
    edit = plan.results.get(result)
    if edit is None:
        return plan.gone[result.location.message].reason
    return edit.reason if edit.reason in (Reason.CLAMPED, Reason.SHORTENED) else Reason.ALREADY_CLEARED
