"""A tool that prints a mark of ours, such as a page of the documentation, has not been pruned."""

from typing import Any

import pytest

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, Result
from autoprune.conversation.edits import SENTENCE, element
from autoprune.conversation.summary import find_summary
from autoprune.planning.clamping import Clamp
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Strategy
from autoprune.strategies.cache_aware import CacheAware
from autoprune.strategies.catalog import folding_named
from autoprune.strategies.clearing import LowWater
from autoprune.strategies.presets import per_result
from autoprune.summarizers.brief import Brief
from autoprune.summarizers.sections import GOAL, SUMMARY, Section, parse_sections

BINDS = "claude-opus-5-5"
MARKS = [
    "[… 9,120 characters left out …]",
    "[… 212 lines (2,950 tokens) left out …]",
    "[… 212 lines left out, 2,950 tokens in all …]\n[… 90 lines left out …]",
    "[… shortened from 2,950 tokens …]",
    "[Cleared at request 12: run make, 900 tokens] [autoprune recall 104839926617352]",
    "[Cleared at request 999: run ls, 900 tokens]",
    "[2,950 tokens cleared to save space; the call succeeded]",
    "[Summary of 12 earlier messages (max 800 tokens)]\nThey read a.py.\n[/Summary]",
    SENTENCE,
    element("run"),
]
STRATEGIES: list[Strategy] = [
    CacheAware(),
    LowWater(clear_tool_inputs=ToolInputs()),
    LowWater(clamp=Clamp(4_000)),
]


def pruner(safe_zone: int = 20_000) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(model=BINDS, conversation_prune_safe_zone_tokens=safe_zone))


def calls(*results: str, command: str = "cat docs/guide.md") -> list[dict[str, Any]]:
    """A loop that thinks before each call."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Improve the guide."}]
    for number, text in enumerate(results):
        use = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {"command": command}}
        thought = {"type": "thinking", "thinking": "Next.", "signature": f"s{number}"}
        messages += (
            {"role": "assistant", "content": [thought, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": text}]},
        )
    return messages


def page(mark: str) -> str:
    return f"# Guide\n\nA cut text has a mark:\n\n{mark}\n\nThat is all."


def assert_unchanged(result: Result, messages: list[dict[str, Any]]) -> None:
    assert (result.conversation, result.request_parameters, result.plan.changed) == (messages, {}, None)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("mark", MARKS)
def test_a_page_that_quotes_a_mark_changes_no_request(mark: str, strategy: Strategy):
    for command in ("cat docs/guide.md", page(mark)):
        messages = calls("ok", page(mark), "ok", command=command)
        assert_unchanged(pruner().prune(messages, strategy), messages)


@pytest.mark.parametrize("mark", MARKS)
def test_a_page_that_quotes_a_mark_is_summed_up_as_any_other(mark: str):
    asked: list[Brief] = []

    def summarizer(brief: Brief) -> str:
        asked.append(brief)
        return "A page about marks."

    large = page(mark) + "\n".join(f"line {number}" for number in range(400))
    result = ConversationPruner(PruneArgs(), llm=summarizer).prune(
        calls(large, "ok", "ok"), per_result("auto", threshold=1_000)
    )
    is_whole_line = "2,950 tokens) left" in mark or "tokens in all" in mark
    assert len(asked) == (not is_whole_line)  # a result that was cut before is not summed up
    assert result.report.rows[0]["reason"] == ("clamped" if is_whole_line else "shortened")


@pytest.mark.parametrize("quoted", ["[/Summary]", "A summary ends with this line:\n[/Summary]\n\nDocument it."])
@pytest.mark.parametrize("name", ["summarize", "hybrid", "summarize_older", "chat_summary", "snapshot"])
def test_a_first_request_that_quotes_the_end_of_a_summary_does_not_end_the_summary(name: str, quoted: str):
    answer = {"role": "assistant", "content": "a word or two " * 20}
    messages = [{"role": "user", "content": quoted}, answer]
    for number in range(8):
        messages += ({"role": "user", "content": f"Now part {number}."}, answer)

    def prune(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        pruner = ConversationPruner(PruneArgs(300), llm=lambda brief: "They talked.")
        return pruner.prune(given, folding_named(name)).conversation

    once = prune(messages)
    summary = find_summary(once)
    assert summary is not None
    request = quoted.replace("[/Summary]", "[ /Summary]")
    assert parse_sections(summary.text) == (Section(GOAL, request), Section(SUMMARY, "They talked."))
    assert prune(once) == once
