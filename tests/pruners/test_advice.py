"""Where a prune leaves a conversation over its safe zone the report says what to do next, and that is true."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from rounds import WIRE, Round, Step
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, Result
from autoprune.conversation.edits import Replace
from autoprune.planning.clamping import Clamp
from autoprune.planning.view import View
from autoprune.strategies import BaseStrategy
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

SMALL = Step("read_file", {"path": "a.py"}, "a line of code\n" * 40)
GIANT = Step("read_file", {"path": "log.txt"}, "a line of the log\n" * 2_000)
SEEN: list[Round] = [[SMALL], [SMALL], "And now? " * 150, [SMALL], [GIANT], "Thanks."]
UNSEEN: list[Round] = [[SMALL], "And now? " * 150, [SMALL], [GIANT]]
WOULD = re.compile(r"the strategy (\w+) of ConversationPruner would bring it to at most ([\d,]+) tokens")
CLAMPED = re.compile(r"clamp=Clamp\(max_result_tokens=(\d+)\) would bring it to at most ([\d,]+) tokens")
REACHED = re.compile(r"a safe zone of ([\d,]+) tokens can be reached, with the strategy (\w+)( of ConversationPruner)?")
SUMMARIES = ("summarize", "chat_summary", "summarize_older", "truncate", "hybrid", "per_result", "keep_last")


def number(figure: str) -> int:
    return int(figure.replace(",", ""))


def prune(messages: list[Any], strategy: Any, safe_zone: int) -> Result:
    folds = isinstance(strategy, str) and strategy not in ("tool_output_cleanup", "low_water")
    made = ConversationPruner if folds else AgenticConversationPruner
    return made(PruneArgs(safe_zone)).prune(messages, strategy)


def follow(messages: list[Any], result: Result, strategy: Any) -> int:
    """Do everything that is advised, and return how many things that was."""
    advice, zone = result.report.advice, result.report.safe_zone
    for name, most in WOULD.findall(advice):
        report = prune(messages, name, zone).report
        assert report.tokens_after <= number(most) <= zone
    for most_each, most in CLAMPED.findall(advice):
        report = prune(messages, type(strategy)(clamp=Clamp(number(most_each))), zone).report
        assert report.tokens_after <= number(most) <= zone
    for reached, name, is_folding in REACHED.findall(advice):
        chosen = name if is_folding or isinstance(strategy, str) else strategy
        assert zone < number(reached)
        assert prune(messages, chosen, number(reached)).report.within_safe_zone
    return len(WOULD.findall(advice) + CLAMPED.findall(advice) + REACHED.findall(advice))


@pytest.mark.full
@each_row("write", WIRE.values(), ids=WIRE)
@each_row("rounds", [SEEN, UNSEEN], ids=["seen", "unseen"])
@each_row("safe_zone", [60, 700, 5_000])
def test_following_the_advice_has_the_promised_effect(write: Any, rounds: list[Round], safe_zone: int):
    messages = write(rounds)
    for strategy in (ToolOutputCleanup(), LowWater(), *SUMMARIES):
        result = prune(messages, strategy, safe_zone)
        assert (result.report.advice == "") == result.report.within_safe_zone
        if result.report.advice:
            assert follow(messages, result, strategy) > 0
            assert f"; next: {result.report.advice}" in str(result.report)
            assert result.report.to_dict()["advice"] == result.report.advice


@pytest.mark.parametrize("name", ["summarize", "chat_summary"])
def test_a_giant_that_stays_is_named_with_what_shortens_it(name: str):
    advice = prune(WIRE["openai_chat"](SEEN), name, 9_000).report.advice
    assert advice.startswith("a result that the model has seen stays whole: ")
    assert "read_file log.txt" in advice
    assert [found for found, _ in WOULD.findall(advice)] == ["hybrid", "per_result"]


def test_nothing_is_tried_before_the_report_is_read():
    class Counted(ConversationPruner):
        plans = 0

        def plan(self, *given: Any, **options: Any) -> Any:
            type(self).plans += 1
            return super().plan(*given, **options)

    result = Counted(PruneArgs(700)).prune(WIRE["openai_chat"](SEEN), "summarize")
    assert Counted.plans == 0
    assert result.report.advice
    assert Counted.plans > 0


@dataclass(frozen=True)
class Nothing(BaseStrategy):
    """A strategy without the option `clamp`, which clears nothing."""

    name = "nothing"

    def step(self, view: View) -> Iterator[Replace]:
        return iter(())


def test_a_strategy_without_options_gets_advice_without_a_clamp():
    advice = prune(WIRE["openai_chat"](SEEN), Nothing(), 60).report.advice
    assert advice
    assert "clamp" not in advice
