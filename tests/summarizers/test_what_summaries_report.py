"""What goes wrong with a summary is said at each prune that it affects, and what is left out is counted right."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from chat_client import Client
from tables import each_row
from utterances import answered, call, model, user, words

from autoprune import Chunked, ConversationPruner, Digest, OpenAISummarizer, PruneArgs
from autoprune.conversation.summary import find_summary
from autoprune.strategies.per_result import PerResult
from autoprune.strategies.presets import sliding_window, symbolize
from autoprune.summarizers import _snapshot
from autoprune.summarizers.action_trace import ActionTrace
from autoprune.summarizers.brief import Brief, Written
from autoprune.summarizers.driver import run, steps_of
from autoprune.summarizers.levels import Levels
from autoprune.summarizers.openai_summarizer import OpenAISummarizer as Model
from autoprune.summarizers.sections import Section, write_sections
from autoprune.summarizers.selection import summarizer_of
from autoprune.summarizers.symbols import Symbols


def chat(number: int = 30) -> list[dict[str, str]]:
    return [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * 100} for at in range(number)]


def broken(brief: Brief) -> str:
    raise TimeoutError("no answer")


def at_length(brief: Brief) -> str:
    return "word " * 9_000


def asking(answer: str, style: str = "free") -> OpenAISummarizer:
    return Model(Client(answer), "m", style=style, instructions="Be brief.")  # type: ignore[arg-type]


ITEMS = [f"Item {at} of what was done, told at some length." for at in range(400)]
SNAPSHOT = json.dumps({"goal": "Fix it.", "done": ITEMS, "current_state": "Fine."})
FAULTS: dict[str, tuple[Callable[[Brief], Any], str]] = {
    "fails": (broken, "the summarizer failed (TimeoutError: no answer)"),
    "fails in parts": (Chunked(broken, 2_500), "a summary in parts failed"),
    "too long": (at_length, "the summary had 9000 tokens and was cut to"),
    "a model's, too long": (asking("word " * 9_000), "an answer had 9000 tokens and was cut to"),
    "a snapshot, too long": (asking(SNAPSHOT, "snapshot"), "a snapshot had"),
    "parts, too long": (Chunked(at_length, 2_500), "the summary of a part had 9001 tokens"),
    "nothing": (lambda brief: None, "the summarizer failed (the summarizer gave no text)"),
}


@each_row("strategy", ["summarize", "hybrid", "chat_summary(trigger=9, keep=4)", "snapshot"])
@each_row("name", FAULTS)
def test_a_failure_is_reported_at_each_prune_that_it_affects(name: str, strategy: str):
    summarizer, note = FAULTS[name]
    if name.startswith("a snapshot") and strategy.startswith("chat_summary"):
        note = "an answer had"  # the strategy has a style of its own
    pruner = ConversationPruner(PruneArgs(3_000), summarizer)
    first, *others = [pruner.prune(chat(), strategy) for _ in range(4)]
    assert any(said.startswith(note) for said in first.report.fallbacks), first.report.fallbacks
    for other in others:
        assert other.conversation == first.conversation
        assert set(other.report.fallbacks) == set(first.report.fallbacks)


def test_a_cut_text_for_one_result_is_reported_each_time():
    made = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    given = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c", "content": "line\n" * 3_000},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "And now?"},
    ]
    pruner = ConversationPruner(PruneArgs(1_000), at_length)
    reports = [pruner.prune(given, PerResult(mode="auto", threshold=300)).report for _ in range(3)]
    assert {report.fallbacks for report in reports} == {
        ("what was written for a large result was too long and was cut",)
    }


# Counts


@each_row("room", range(40, 400, 7))
def test_items_left_out_of_a_snapshot_are_counted(room: int):
    whole = _snapshot.Snapshot("Fix it.", done=tuple(f"Step {at}." for at in range(90)), current_state="Fine.")
    short = _snapshot.parse_text(_snapshot.shorten_snapshot(whole, room, words))
    kept = [item for item in short.done if item.startswith("Step")]
    marks = [_snapshot.LEFT_OUT.fullmatch(item) for item in short.done]
    missing = sum(int(mark[1]) for mark in marks if mark)
    assert len(kept) + missing == (90 if short.done else 0)
    again = _snapshot.parse_text(_snapshot.shorten_snapshot(short, max(room // 2, 20), words))
    marks = [_snapshot.LEFT_OUT.fullmatch(item) for item in again.done]
    left = sum(int(mark[1]) for mark in marks if mark)
    assert sum(item.startswith("Step") for item in again.done) + left == (90 if again.done else 0)


@each_row("room", [100, 200, 400, 900])
@each_row("summarizer", [ActionTrace(), Digest(), Symbols()])
def test_omitted_words_of_the_user_are_reported(summarizer: Any, room: int):
    rules = [f"Rule {number}: " + "word " * 30 for number in range(20)]
    answer = summarizer(Brief(tuple(map(user, ("Fix it.", *rules))), "", room, words))
    kept = [rule for rule in rules if rule.strip() in answer.text]
    assert len(kept) == 20 or ("left out" in answer.text and "leaves out some of the user's words" in answer.notes[0])
    assert words(answer.text) <= room
    assert room < 900 or len(kept) == 20


def test_symbols_report_lines_made_without_a_model():
    brief = Brief((model("Hello there."),), "", 200, words)
    for answer, why in ((lambda prompt: "none", "no list with a line for each"), (broken, "TimeoutError: no answer")):
        made = Symbols(answer)(brief)  # type: ignore[arg-type]
        assert isinstance(made, Written)
        (note,) = made.notes
        assert note.startswith("the lines of some messages were made without a model")
        assert why in note


def test_levels_report_dropped_sections():
    previous = write_sections([Section("Level 1", "one " * 60), Section("Level 1", "two " * 60)])
    made = Levels(lambda brief: "x", fanout=9, depth=1)(Brief((), previous, 70, words))
    assert isinstance(made, Written)
    assert made.notes in (
        ("no room for the oldest of the summary: 1 section left out",),
        ("the oldest section of the summary was shortened",),
    )
    failing = Levels(broken, fanout=2)(Brief((), previous, 2_000, words))
    assert isinstance(failing, Written)
    assert failing.notes == ("sections of the summary could not be merged (TimeoutError: no answer)",)


# Levels without a model


def test_without_a_model_a_window_slides_over_one_digest():
    made = [answered(call("run", number, command=f"make part{number}"), "1 failed", True) for number in range(6)]
    levels, _ = summarizer_of(sliding_window(), None)
    text, plain = "", ""
    for number, both in enumerate(made):
        said = (user(f"Part {number}, please."), *both)
        answer, other = (
            run(steps_of(each, Brief(said, before, 900, words))) for each, before in ((levels, text), (Digest(), plain))
        )
        assert isinstance(answer, Written)
        assert isinstance(other, Written)
        text, plain = answer.text, other.text
    assert text == plain
    assert "Level" not in text
    assert text.count("##") <= 12
    assert all(f"Part {number}, please." in text and f"part{number}" in text for number in range(6))


def test_levels_of_snapshots_have_one_first_request():
    levels = Levels(asking(json.dumps({"goal": "", "done": ["It."], "next": []}), "snapshot"), fanout=2)
    text = ""
    for number in range(5):
        answer = run(levels.steps(Brief((user(f"Part {number}."), model("Done.")), text, 900, words)))
        assert isinstance(answer, Written)
        text = answer.text
    assert text.count("The user's first request") == 1
    assert "Part 0." in text


# Whom symbolize asks


@pytest.mark.parametrize("llm", [lambda brief: "[]", Chunked(lambda brief: "[]", 900)])
def test_symbolize_reports_a_model_that_it_cannot_ask(llm: Any):
    pruner = ConversationPruner(PruneArgs(3_000), llm)
    for _ in range(2):
        report = pruner.prune(chat(), symbolize()).report
        assert report.spent.calls == 0
        assert report.fallbacks[0].startswith("no model was asked for the lines of the messages")


def test_symbolize_asks_the_model_behind_parts():
    lines = json.dumps([f"line {at}" for at in range(10)])
    pruner = ConversationPruner(PruneArgs(12_000), Chunked(asking(lines), 3_000))
    result = pruner.prune(chat(26), symbolize(keep=5))
    assert result.report.spent.calls == 2
    assert result.report.fallbacks == ()
    found = find_summary(result.conversation)
    assert found
    assert "- line 8" in found.text  # what the assistant said; the user's words are no line of a model's


def test_symbolize_without_a_model_has_nothing_to_say():
    for llm in (None, Digest()):
        assert ConversationPruner(PruneArgs(30_000), llm).prune(chat(), symbolize()).report.fallbacks == ()
