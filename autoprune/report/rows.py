"""What a report says of each tool, result, call and fold: plain values for tables and for JSON."""

from collections.abc import Mapping

from autoprune.conversation.calls import target
from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.reasons import sentence
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.planning.plan import Plan


def tools(plan: Plan) -> Mapping[str, Mapping[str, int]]:
    """Per tool, largest saving first: its results, their tokens, how many were edited, the tokens saved in all."""
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
    """What became of one result."""
    edit = plan.results.get(result)
    fold = plan.gone.get(result.location.message)
    reason = fold.reason if fold else edit.reason if edit else plan.kept[result]
    row = part_row(plan, result, edit, reason)
    tokens_after = 0 if fold else row["tokens_after"]
    state = {"folded": not fold.is_drop, "dropped": fold.is_drop} if fold else {}
    return {**row, **state, "tokens_after": tokens_after, "target": target(result.call), "failed": result.is_error}


def part_row(plan: Plan, part: Part, edit: Replace | None, reason: str) -> dict[str, object]:
    """What became of one part."""
    return {
        "message": part.location.message,
        "turn": plan.transcript.turns[part.location.message],
        "request": part.request,
        "tool": part.tool,
        "tokens": part.tokens,
        "tokens_after": part.tokens - (edit.saved if edit else 0),
        "cleared": edit is not None,
        "reason": str(reason),
        "why": sentence(reason),
    }


def fold_row(fold: Fold) -> dict[str, object]:
    """What was folded or dropped together."""
    return {
        "messages": list(fold.messages),
        "request": fold.request,
        "tokens": fold.saved,
        "dropped": fold.is_drop,
        "room": fold.room,
        "reason": str(fold.reason),
        "why": sentence(fold.reason),
    }
