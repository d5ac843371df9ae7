"""The report: figures that agree, three ways to print it, plain JSON, one log line."""

import json
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger
from rich.console import Console
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, PruneEvent, Report

LINES = "one more line of output\n" * 400


def conversation(results: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]
    for number in range(results):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/m{number}.py"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "Next.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"{LINES}{number}"})
    return messages


def report(safe_zone: int = 5_000, results: int = 5, **options: Any) -> Report:
    return AgenticConversationPruner(PruneArgs(safe_zone)).prune(conversation(results), **options).report


def reported(strategy_name: str) -> Report:
    """The report of a call of `prune_conversations`."""
    events: list[PruneEvent] = []
    pruner = AgenticConversationPruner(PruneArgs(5_000), on_pruned=events.append)
    pruner.prune_conversations(conversation(5), strategy_name)
    return events[0].report


def test_a_row_says_where_what_and_why():
    first, *_, last = report().rows
    assert first == {
        "message": 3,
        "turn": 1,
        "request": 0,
        "tool": "read",
        "target": "src/m0.py",
        "failed": None,
        "tokens": 2401,
        "tokens_after": 25,
        "cleared": True,
        "reason": "over_safe_zone",
        "why": "the prompt was above the safe zone: oldest first, until it fits",
    }
    assert (last["cleared"], last["reason"]) == (False, "unseen")


def test_what_stands_in_the_way_is_said_wherever_a_report_is_shown():
    found = report(safe_zone=100, results=2)
    assert {row["reason"] for row in found.rows} == {"out_of_reach", "unseen"}
    assert "over the safe zone of 100 (unseen: 2,401); next: clamp=Clamp(max_result_tokens=25) would bring" in str(
        found
    )
    assert "results that the model has not seen yet" in found._repr_html_()


def test_no_representation_holds_the_conversation():
    result = AgenticConversationPruner(PruneArgs(5_000)).prune(conversation(5))
    assert repr(result.report) == str(result.report)
    assert len(repr(result)) + len(repr(result.plan)) < 3_000


def test_cache_tokens_lost_are_those_of_the_previous_prompt_after_the_newest_edit():
    messages = conversation(3)
    ours = AgenticConversationPruner(PruneArgs(5_000))
    assert ours.prune(messages[:-2]).report.cache_tokens_lost == 0
    found = ours.prune(messages).report
    previous = messages[:-2]
    kept_in_front = previous[:3]
    assert [edit.part.location.message for edit in found.plan.edits] == [3]
    assert found.cache_tokens_lost == ours.count_tokens(previous) - ours.count_tokens(kept_in_front)


def test_it_is_plain_json():
    found = report()
    data = json.loads(found.to_json(indent=1))
    assert data == json.loads(json.dumps(found.to_dict()))
    assert data["original_tokens"] == found.tokens_before
    assert data["results"] == [dict(row) for row in found.rows]


def test_it_prints_as_one_line_as_tables_and_in_a_notebook():
    found = reported(strategy_name="nope")
    assert str(found).startswith("tool_output_cleanup: 12,109 → ")
    assert "there is no strategy 'nope'" in str(found)
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(found)
    console.file.close()
    text = console.export_text()
    assert "3 of 5 tool results cleared" in text
    assert "note: there is no strategy 'nope'" in text
    assert "3 of 5 tool results cleared" in found._repr_html_()


def test_what_a_tool_is_called_is_escaped_in_a_notebook():
    messages = conversation(5)
    for message in messages[2::2]:
        message["tool_calls"][0]["function"]["name"] = "<script>"
    found = AgenticConversationPruner(PruneArgs(5_000)).prune(messages).report
    assert "<script>" not in found._repr_html_()


@pytest.fixture
def records() -> Iterator[list[Any]]:
    found: list[Any] = []
    handler = logger.add(lambda message: found.append(message.record), level="DEBUG")
    yield found
    logger.remove(handler)
    logger.disable("autoprune")


def test_the_library_is_silent_by_default(records: list[Any]):
    report()
    assert records == []


def test_a_prune_is_one_line_with_fields(records: list[Any]):
    logger.enable("autoprune")
    found = report()
    (record,) = records
    assert record["message"] == str(found)
    assert record["level"].name == "INFO"
    assert record["extra"]["original_tokens"] == found.tokens_before
    assert record["extra"]["tool_results_cleaned"] == 3
    json.dumps(record["extra"])


def test_an_unknown_strategy_is_a_warning(records: list[Any]):
    logger.enable("autoprune")
    found = reported(strategy_name="nope {oops}")
    assert [record["level"].name for record in records] == ["WARNING", "INFO"]
    assert found.fallbacks == (records[0]["message"],)


def test_a_call_with_nothing_to_do_is_a_line_for_debugging(records: list[Any]):
    logger.enable("autoprune")
    report(safe_zone=1_000_000)
    assert [record["level"].name for record in records] == ["DEBUG"]


# What the literal rule costs with a prompt cache


def test_a_rule_that_breaks_the_cache_at_each_request_is_warned_of_with_its_bill():
    known = report(9_000, 30, strategy="tool_output_cleanup")
    (note,) = known.notes
    found = re.fullmatch(
        r"with the provider's prompt cache this costs more than no pruning: ([\d,]+) input tokens so far, against "
        r'([\d,]+) \((\d\.\d\d) times as much\); strategy="cache_aware" clears only when that pays',
        note,
    )
    assert found, note
    pruned, unpruned, times = (float(each.replace(",", "")) for each in found.groups())
    assert pruned / unpruned == pytest.approx(times, abs=0.005)
    assert known.fallbacks == ()
    assert known.to_dict()["notes"] == [note]
    assert pickle.loads(pickle.dumps(known)).notes == known.notes


@each_row(
    ("zone", "strategy", "model"),
    [
        (9_000, "cache_aware", None),
        (9_000, "low_water", None),
        (10**9, "tool_output_cleanup", None),
        (9_000, "tool_output_cleanup", "gpt-4-turbo"),  # without a cache
    ],
)
def test_what_saves_or_does_nothing_is_not_warned_of(zone: int, strategy: str, model: str | None):
    found = AgenticConversationPruner(PruneArgs(zone, model=model)).prune(conversation(30), strategy).report
    assert [note for note in found.notes if "prompt cache" in note] == []
