"""Clamping as the walk does it: before results are cleared, and along with protections and shortened arguments."""

import json
from dataclasses import replace
from typing import Any

import pytest
from conversations import ANSWER, DIALECTS, Dialect, openai_chat, words
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, Protections, PruneArgs, ToolInputs
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.tokens import exact

PLENTY = 1_000_000
in_both_dialects = each_row("dialect", DIALECTS, ids=lambda dialect: dialect.__name__)


def pruner(safe_zone: int) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone))


count = pruner(1).count_tokens


def as_json(messages: object) -> str:
    return json.dumps(messages)


def lines(number: int) -> str:
    return "".join(f"line {at} of a log\n" for at in range(number))


# A giant in the walk

TEXT = lines(500)
CUT = Clamp(100).shortened(TEXT, exact()) or ""
CUTS = ToolOutputCleanup(clamp=Clamp(100))


def test_a_giant_result_is_cut_even_if_it_is_unseen_or_the_conversation_fits():
    messages = openai_chat([TEXT], ["ok", TEXT])
    result = pruner(PLENTY).prune(messages, CUTS)
    assert result.conversation == openai_chat([CUT], ["ok", CUT])
    assert [row["reason"] for row in result.report.rows] == ["clamped", "unseen", "clamped"]
    assert result.report.rows[0]["why"] == "larger than a single result may be: only its head and tail are kept"
    untouched = (0, 1, 2, 4, 5)
    assert all(result.conversation[at] is messages[at] for at in untouched)


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


@each_row(
    ("content", "becomes"),
    [
        (TEXT, CUT),
        ([{"type": "text", "text": TEXT}], [{"type": "text", "text": CUT}]),
        ([{"type": "text", "text": TEXT, "cache_control": {"type": "ephemeral"}}], "with its mark"),
        ([{"type": "text", "text": TEXT}, IMAGE], "left alone"),
        ([IMAGE], "left alone"),
        ({"rows": [TEXT]}, "left alone"),
        (None, "left alone"),
    ],
    ids=["a text", "a block", "a marked block", "an image too", "an image", "something else", "nothing"],
)
def test_only_text_is_cut_and_keeps_its_shape(content: Any, becomes: Any):
    messages = [*openai_chat(["ok"])[:-1], {"role": "tool", "tool_call_id": "call_0_0", "content": content}]
    (*_, after) = pruner(PLENTY).prune(messages, CUTS).conversation
    if becomes == "left alone":
        assert after is messages[-1]
    elif becomes == "with its mark":
        assert after["content"] == [{"type": "text", "text": CUT, "cache_control": {"type": "ephemeral"}}]
    else:
        assert after == {**messages[-1], "content": becomes}


@in_both_dialects
def test_a_cut_result_can_be_cleared_later_and_then_counts_as_cleared(dialect: Dialect):
    messages = dialect([TEXT], [words(60)], [words(60)])
    room = count(pruner(PLENTY).prune(messages, CUTS).conversation)
    cut, cleared = (pruner(room - less).prune(messages, CUTS).report for less in (0, 1))
    assert (cut.results_clamped, cut.results_cleared) == (1, 0)
    assert (cleared.results_clamped, cleared.results_cleared) == (0, 1)
    assert [report.rows[0]["reason"] for report in (cut, cleared)] == ["clamped", "over_safe_zone"]
    assert cleared.rows[0]["tokens_after"] < cut.rows[0]["tokens_after"] <= 100 < cut.rows[0]["tokens"]
    assert (cut.statistics["tool_results_cleaned"], cleared.statistics["tool_results_cleaned"]) == (1, 1)
    assert pruner(room - 1).prune(messages, CUTS).conversation == dialect([None], [words(60)], [words(60)])


@in_both_dialects
def test_a_result_that_was_cut_is_unseen_until_the_model_has_spoken(dialect: Dialect):
    messages = dialect([TEXT])
    strategy = replace(CUTS, clamp=Clamp(300))
    unseen = pruner(1).prune(messages, strategy).report
    assert unseen.rows[0]["reason"] == "clamped"
    assert unseen.floor["unseen"] == unseen.rows[0]["tokens_after"]
    seen = pruner(1).prune([*messages, ANSWER], strategy).report
    assert (seen.rows[0]["reason"], seen.floor["unseen"]) == ("out_of_reach", 0)


@pytest.mark.parametrize(
    ("text", "protect"),
    [
        (TEXT, Protections(minimum_tokens=200)),
        ('{"ok": false, "rows": [' + '"a", ' * 900 + '"b"]}', Protections(failed=True)),
    ],
    ids=["by its size", "by what it says"],
)
def test_a_protected_cut_result_is_kept_as_the_model_saw_it(text: str, protect: Protections):
    """Else the full history would be pruned otherwise than pruned output that is fed back."""
    messages = openai_chat([text], [words(900)], [words(900)], "Go on.")
    strategy = ToolOutputCleanup(protect, clamp=Clamp(100))
    result = pruner(1).prune(messages, replace(strategy, clamp=None))
    assert result.report.rows[0]["cleared"] == (not protect.failed)
    once = pruner(PLENTY).prune(messages, strategy).conversation
    assert as_json(pruner(1).prune_conversations(messages, strategy)) == as_json(
        pruner(1).prune_conversations(once, strategy)
    )


def test_calls_whose_success_was_cut_off_are_left_alone():
    """What is known of an outcome is known from what was sent."""
    text = '{"success": true, "rows": [' + '"a", ' * 900 + '"b"]}'
    messages = [*openai_chat([text]), ANSWER]
    messages[2]["tool_calls"][0]["function"]["arguments"] = json.dumps({"path": "a.py", "content": words(900)})
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs())
    assert pruner(1).prune(messages, strategy).report.calls_cleaned == 1
    strategy = replace(strategy, clamp=Clamp(100))
    sent = pruner(1).prune(messages[:-1], strategy).conversation
    for history in (messages, [*sent, ANSWER]):
        assert pruner(1).prune(history, strategy).report.calls_cleaned == 0
