"""The promises for every wire format and every dialect inside texts: what one prune changes, and what it says about it.

`test_every_format_memo.py` holds the promises about more than one prune, `test_every_format_agrees.py` what the formats
have in common, and `test_properties.py` what a pruner remembers.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from every_format import (
    Case,
    Path,
    again,
    at,
    count,
    differences,
    every_format,
    fields,
    is_models,
    is_seen,
    shape,
)
from hypothesis import assume
from pydantic import BaseModel
from sendable import accepts, rules

from autoprune import AgenticConversationPruner, PruneArgs, Report, ToolInputs, problems
from autoprune.conversation.edits import Reason, Replace, apply
from autoprune.conversation.transcript import ToolInput, ToolResult, Transcript
from autoprune.planning.plan import Plan
from autoprune.planning.view import Strategy
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

# 1. Nothing of the caller's is changed


@every_format
def test_nothing_of_the_callers_is_changed_and_what_is_not_edited_is_the_same_object(case: Case):
    messages, before = list(case.messages), shape(case.messages)
    result = case.pruned()
    edited = {edit.part.location.message for edit in result.plan.edits}
    assert shape(case.messages) == before
    assert all(now is then for now, then in zip(case.messages, messages, strict=True))
    same = [new is old for new, old in zip(result.conversation, messages, strict=True)]
    assert same == [number not in edited for number in range(len(messages))]
    assert (result.conversation is case.messages) == (not edited)
    if count(messages) <= case.safe_zone and case.strategy.clamp is None:
        assert result.conversation is case.messages
    assert apply(case.messages, ()) is case.messages


# 2. Only what the plan names changes


@every_format
def test_every_difference_is_at_a_planned_place_and_every_planned_place_differs(case: Case):
    result = case.pruned()
    planned = by_place(result.plan.edits)
    found = list(differences(case.messages, result.conversation))
    assert {place for place in planned if any(path[: len(place)] == place for path in found)} == planned.keys()
    assert [path for path in found if not any(path[: len(place)] == place for place in planned)] == []
    for place, edits in planned.items():
        old, new = at(case.messages, place), at(result.conversation, place)
        if edits[0].part.location.start is None:
            assert kept_of(new) == kept_of(old)
        else:
            assert new == spliced(old, edits)


def by_place(edits: Sequence[Replace]) -> Mapping[Path, list[Replace]]:
    """The edits by the value that they change: a payload, or the text that payloads stand in."""
    found = defaultdict(list)
    for edit in edits:
        found[edit.part.location.path].append(edit)
    return found


def kept_of(payload: Any) -> tuple[object, ...]:
    """What a payload is, whatever the text in it: its type, and what the last mark of the prompt cache in it says."""
    held = payload if isinstance(payload, list) else []
    blocks = [fields(block) for block in held if isinstance(block, dict | BaseModel)]
    marks = [block.get("cache_control", block.get("prompt_cache_breakpoint")) for block in blocks]
    return type(payload), bool(held), [mark for mark in marks if mark][-1:]


def spliced(text: str, edits: list[Replace]) -> str:
    """The text with the slices replaced, one after the other."""
    pieces, end = [], 0
    for edit in sorted(edits, key=lambda edit: edit.part.location.start or 0):
        pieces += [text[end : edit.part.location.start], edit.text]
        end = edit.part.location.stop or 0
    return "".join([*pieces, text[end:]])


@every_format
def test_what_was_edited_is_read_again_as_what_it_was_with_the_planned_text(case: Case):
    result = case.pruned()
    texts = {edit.part.location: edit.text for edit in result.plan.edits}
    before, after = read(case.messages), read(result.conversation)
    assert [after.text for after in after.results] == [texts.get(old.location, old.text) for old in before.results]
    assert list(map(identity, after.results)) == list(map(identity, before.results))
    given = [[texts.get(part.location, part.text) for part in call.inputs] for call in before.calls]
    assert [[part.text for part in call.inputs] for call in after.calls] == given
    assert [entry.speaker for entry in after.entries] == [entry.speaker for entry in before.entries]


def read(messages: list[Any]) -> Transcript:
    """The conversation as pruning sees it, arguments too."""
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs())
    return AgenticConversationPruner(PruneArgs(10**9)).plan(messages, strategy).transcript


def identity(result: ToolResult) -> tuple[object, ...]:
    """What clearing a result leaves as it was: its message and its status."""
    return result.location.message, result.request, result.sent, result.tool, result.kind, result.is_error


# 3. The provider accepts the result if it accepted the input


@every_format
def test_what_the_provider_takes_it_takes_afterwards(case: Case):
    provider = rules(case.messages)
    assume(problems(case.messages, provider) == [])
    assume(accepts(case.messages, provider) is None)
    pruned = case.pruned().conversation
    assert problems(pruned, provider) == []
    assert accepts(pruned, provider) is None


# 4. It never grows


@every_format
def test_every_edit_saves_tokens_and_the_sums_are_exact(case: Case):
    result = case.pruned()
    saved = [edit.saved for edit in result.plan.edits]
    before, after = count(case.messages), count(result.conversation)
    assert all(tokens > 0 for tokens in saved)
    assert (result.report.tokens_before, result.report.tokens_after) == (before, after)
    assert before - after == result.report.tokens_saved == sum(saved)
    for edit in result.plan.edits:
        assert before - count(apply(case.messages, [edit])) == edit.saved


@every_format
def test_every_figure_of_the_report_can_be_counted_again(case: Case):
    result = case.pruned()
    report, (given, now) = result.report, (unpruned(each) for each in (case.messages, result.conversation))
    results = [{tool: (row["results"], row["tokens"]) for tool, row in each.tools.items()} for each in (report, given)]
    assert results[0] == results[1]
    assert [row["tokens_after"] for row in report.rows] == [row["tokens"] for row in now.rows]
    assert report.tokens_saved == sum(row["saved"] for row in report.tools.values())
    assert report.results_cleared + report.results_clamped == sum(row["cleared"] for row in report.rows)
    for after in (result.conversation, again(result.conversation)):
        assert case.pruner.get_cleanup_statistics(case.messages, after) == report.statistics
    counted = {"tool_results_cleaned": len(result.plan.results), "tool_calls_cleaned": len(result.plan.inputs)}
    assert report.statistics.items() >= counted.items()


def unpruned(messages: list[Any]) -> Report:
    return AgenticConversationPruner(PruneArgs(10**9)).prune(messages, ToolOutputCleanup()).report


# 8. What the model has not seen is never cleared, and nothing but results


@every_format
def test_only_results_that_the_model_has_seen_are_cleared_and_nobodys_words(case: Case):
    result = case.pruned()
    for edit in result.plan.edits:
        answer = edit.part if isinstance(edit.part, ToolResult) else result.plan.answers[edit.part]
        assert edit.reason is Reason.CLAMPED or is_seen(case.messages, answer.location.message)
        message = fields(case.messages[edit.part.location.message])
        if is_models(message):
            assert isinstance(edit.part, ToolInput) or message["type"] == "mcp_call"
        else:
            assert isinstance(edit.part, ToolResult)
            assert message.get("role") in ("user", "tool", "function", None)


@every_format
def test_what_is_protected_is_not_cleared(case: Case):
    protect, plan = case.strategy.protect, case.pruned().plan
    results = plan.transcript.results
    newest = results[-protect.last_results :] if protect.last_results else ()
    for part, edit in plan.results.items():
        if edit.reason is not Reason.CLAMPED:
            assert part not in newest
            assert not protect.tools or not part.tool.startswith("read_")
            assert callable(protect.pinned) or part.location.message not in protect.pinned
            assert part.tokens >= protect.minimum_tokens
            assert not (protect.failed and part.is_error)


# 9. The budget is met, or the report says why not; no more is cleared than is needed


@every_format
def test_the_budget_is_met_or_nothing_is_left_to_clear_and_the_floor_adds_up(case: Case):
    result = case.pruned()
    report = result.report
    assert report.within_safe_zone == (count(result.conversation) <= case.safe_zone)
    assert sum(report.floor.values()) == report.tokens_after
    assert min(report.floor.values()) >= 0
    if not report.within_safe_zone:
        left = sum(edit.saved for edit in everything(result.conversation, case).edits)
        is_out_of_reach = report.tokens_after - left > case.safe_zone
        assert left == 0 or (is_out_of_reach and left < least(case.strategy) * case.safe_zone)


@every_format
def test_without_the_last_edit_something_would_be_missing(case: Case):
    plan = case.pruned().plan
    edits = [edit for edit in plan.edits if edit.reason is not Reason.CLAMPED]
    if edits:
        last = edits[-1].saved - edits[-1].saved_before
        batch = sum(edit.saved - edit.saved_before for edit in edits if edit.request == edits[-1].request)
        target = getattr(case.strategy, "target", 1.0)
        assert plan.tokens + last > target * case.safe_zone or batch - last < least(case.strategy) * case.safe_zone


def least(strategy: Strategy) -> float:
    """What a strategy clears at least, as a share of the safe zone."""
    return strategy.minimum_reclaim if isinstance(strategy, LowWater) else 0.0


def everything(messages: list[Any], case: Case) -> Plan:
    """What a strategy with the same options clears that always clears all that it can."""
    options = (case.strategy.protect, case.strategy.clamp, case.strategy.clear_tool_inputs)
    return AgenticConversationPruner(PruneArgs(1)).plan(messages, ToolOutputCleanup(*options))


# 10. Every result is in the plan, with a reason


@every_format
def test_a_plan_parts_the_results_into_edited_and_kept_ones_with_their_reasons(case: Case):
    first = case.pruned()
    for messages, result in (
        (case.messages, first),
        (first.conversation, case.pruner.prune(first.conversation, case.strategy)),
    ):
        plan, parts = result.plan, result.plan.transcript.results
        assert [*plan.kept] == [part for part in parts if part not in plan.results]
        assert len(plan.kept) + len(plan.results) == len(parts)
        assert len(plan.edits) == len(plan.results) + len(plan.inputs) == len({edit.part for edit in plan.edits})
        for row, part in zip(result.report.rows, parts, strict=True):
            assert Reason(row["reason"]) in possible_reasons(case, messages, plan, part)
            assert row["cleared"] == (part in plan.results)


def possible_reasons(case: Case, messages: list[Any], plan: Plan, part: ToolResult) -> set[Reason]:
    """Which reasons may be given for what became of a result."""
    text = plan.placeholder.text(part)
    if part in plan.results:
        return FOR_CLEARING if plan.results[part].text == text else {Reason.CLAMPED}
    if part.text == text:
        return {Reason.ALREADY_CLEARED}
    if not is_seen(messages, part.location.message):
        return {Reason.UNSEEN}
    if case.strategy.protect.is_answer(part):
        return {Reason.USER_ANSWER}
    if plan.placeholder.saves(part, text) <= 0:
        return {Reason.NO_GAIN}
    own = Reason.WITHIN_SAFE_ZONE if plan.tokens <= plan.limit else Reason.NOT_CHOSEN
    return {own, *FOR_PROTECTING} if case.strategy.protect.has_rules else {own}


FOR_CLEARING = {Reason.OVER_SAFE_ZONE, Reason.TO_TARGET, Reason.OUT_OF_REACH}
FOR_PROTECTING = {
    *(Reason.PINNED, Reason.PROTECTED_TOOL, Reason.PROTECTED_PATH, Reason.INSTRUCTIONS, Reason.FAILED),
    *(Reason.SMALL, Reason.AMONG_LAST, Reason.IN_TOKEN_WINDOW),
}
