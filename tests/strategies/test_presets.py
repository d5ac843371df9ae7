"""What presets take over from other systems: titles, headings, whole turns, summaries that are worth a call."""

from dataclasses import replace
from typing import Any

import pytest
from chat_client import turn
from shipped import PRESETS
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.conversation.summary import find_summary
from autoprune.strategies.presets import OUTCOMES, snapshot, summarize, summarize_older, truncate
from autoprune.summarizers.chunked import Chunked
from autoprune.summarizers.sections import GOAL, parse_sections
from autoprune.summarizers.symbols import Symbols

EACH = 100


def count(text: str) -> int:
    return len(text.split())


def chat(number: int) -> list[dict[str, str]]:
    return [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * (EACH - 3)} for at in range(number)]


def pruned(safe_zone: int, strategy: Any, messages: list[Any], **more: Any) -> Any:
    return ConversationPruner(PruneArgs(safe_zone), count=count, **more).prune(messages, strategy)


# A title


@each_row("is_fed_back", [True, False])
@each_row(
    "llm", [None, lambda brief: f"They are at it. {brief.previous}", Chunked(lambda brief: "A part.", 900), Symbols()]
)
def test_a_title_is_put_above_any_summary(llm: Any, is_fed_back: bool):
    pruner = ConversationPruner(PruneArgs(2_000), llm)
    messages: list[Any] = []
    seen = set()
    for number in range(12):
        messages += turn(number)
        out = pruner.prune(messages, summarize_older(title="What  came\nbefore")).conversation
        if found := find_summary(out):
            seen.add(found.messages)
            assert found.text.startswith("# What came before\n\n## ")
            assert found.text.count("What came before") == 1
            assert [one.title for one in parse_sections(found.text) or ()].count(GOAL) == 1
        messages = list(out) if is_fed_back else messages
    assert len(seen) > 3


def test_a_title_by_name():
    assert "# Before\n" in pruned(2_000, "summarize_older(title='Before')", chat(20)).conversation[0]["content"]
    with pytest.raises(SettingsError, match="title is 7: give a text, or None"):
        pruned(2_000, summarize_older(title=7), chat(20))  # type: ignore[arg-type]


@each_row("room", range(1, 40))
def test_a_title_has_its_place_within_the_room(room: int):
    strategy = replace(summarize_older(title="A title of six words, no more"), summary_tokens=room)
    result = pruned(900, strategy, chat(20), llm=lambda brief: "word " * 90)
    found = find_summary(result.conversation)
    assert found is None or count(found.text) <= found.room


# Headings


def test_outcomes_have_six_headings():
    headings = [line for line in OUTCOMES.splitlines() if line.startswith("## ")]
    assert len(headings) == 6
    assert {"## What exists", "## What does not exist yet", "## Technical setup"} <= {*headings}
    assert "Facts only" in OUTCOMES


# Whole turns


@each_row(("safe_zone", "first"), [(503, 0), (502, 2), (403, 2), (303, 2), (302, 4)])
def test_a_turn_is_dropped_whole_even_at_group_size_one(safe_zone: int, first: int):
    given = chat(5)
    assert pruned(safe_zone, truncate(1), given).conversation == given[first:]


# What is worth a call


@pytest.mark.parametrize(("share", "is_folded"), [(0.0, True), (0.3, True), (0.79, True), (0.81, False)])
def test_a_summary_is_written_if_enough_may_be_folded(share: float, is_folded: bool):
    # Eight of ten messages may go: the last two stay.
    strategy = replace(summarize(1), keep=2, minimum_foldable=share)
    result = pruned(950, strategy, chat(10), llm=lambda brief: "They talked.")
    assert bool(result.plan.folds) == is_folded
    assert result.report.spent.calls == int(is_folded)


def test_messages_not_worth_a_call_are_dropped_if_requested():
    strategy = replace(summarize(1), keep=9, minimum_foldable=0.9, then_drops=True)
    result = pruned(950, strategy, chat(10), llm=lambda brief: "They talked.")
    assert result.report.within_safe_zone
    assert result.report.spent.calls == 0


def test_it_is_off_by_default_and_set_by_name():
    assert all(getattr(preset(), "minimum_foldable", 0.0) == 0.0 for preset in PRESETS.values())
    assert replace(snapshot(), minimum_foldable=0.3).minimum_foldable == 0.3
    pruned(950, "snapshot(minimum_foldable=0.3)", chat(10))
    with pytest.raises(SettingsError, match="minimum_foldable is 1: give a share"):
        pruned(950, "snapshot(minimum_foldable=1)", chat(10))


# What the strategies are listed with


def test_the_list_of_strategies_has_the_safe_zone_and_the_group_size():
    args = PruneArgs(7_000, conversation_prune_group_size=3)
    for row in ConversationPruner(args).get_available_strategies():
        assert isinstance(row["config"], dict)
        assert row["config"]["safe_zone_tokens"] == 7_000
        assert row["config"].get("group_size") == {"per_result": None, "snapshot": 1}.get(str(row["name"]), 3)
    for row in AgenticConversationPruner(args).get_available_strategies():
        assert isinstance(row["config"], dict)
        assert row["config"]["safe_zone_tokens"] == 7_000
