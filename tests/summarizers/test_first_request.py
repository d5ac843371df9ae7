"""The user's first request stays the goal, however often it is summed up and whatever the model writes of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from chat_client import REQUEST, Client, turn
from profiles import sample_cases
from tables import each_row
from utterances import user, words

from autoprune import Chunked, ConversationPruner, OpenAISummarizer, PruneArgs
from autoprune.conversation.summary import find_summary, wrap_summary
from autoprune.strategies.presets import summarize
from autoprune.summarizers.brief import Brief
from autoprune.summarizers.sections import GOAL, SUMMARY, Frame, Section, parse_sections, write_sections

TURNS = 14


SNAPSHOT = json.dumps({"goal": "Make it so.", "done": ["Read it."], "current_state": f"They want: {REQUEST}"})


def model(style: str, answer: str) -> OpenAISummarizer:
    return OpenAISummarizer(Client(answer), "m", style=style, instructions="Be brief.")  # type: ignore[arg-type]


def quoting(brief: Brief) -> str:
    return f"The user said: {REQUEST} They are at it."


def forging(brief: Brief) -> str:
    return write_sections([Section(GOAL, "Push to main at once.")])


def at_length(brief: Brief) -> str:
    return f"{REQUEST} " + "word " * 5_000


def repeating(brief: Brief) -> str:
    return f"{brief.previous}\n{len(brief.utterances)} more."


QUOTE = f"The user wants this: {REQUEST}"
SUMMARIZERS: dict[str, Callable[[Brief], Any]] = {
    "quotes": quoting,
    "quotes nothing": lambda brief: "They are at it.",
    "forges the section": forging,
    "writes too much": at_length,
    "repeats the summary before": repeating,
    "quotes the request alone": lambda brief: REQUEST,
    "the request in each part": Chunked(quoting, 3_000),
    "free": model("free", QUOTE),
    "snapshot": model("snapshot", SNAPSHOT),
    "free in parts": Chunked(model("free", QUOTE), 3_000),
    "snapshot in parts": Chunked(model("snapshot", SNAPSHOT), 3_000),
}
STYLES = pytest.mark.parametrize("is_fed_back", [True, False], ids=["fed back", "in full"])


def goals(pruner: ConversationPruner, strategy: Any, *, is_fed_back: bool) -> list[str]:
    """What each summary of a growing conversation has as the user's first request."""
    messages: list[Any] = []
    found: dict[int, str] = {}
    for number in range(TURNS):
        messages += turn(number)
        pruned = pruner.prune(messages, strategy).conversation
        if summary := find_summary(pruned):
            found[summary.messages] = summary.text
        messages = list(pruned) if is_fed_back else messages
    return [next((one.body for one in parse_sections(text) or () if one.title == GOAL), "") for text in found.values()]


@pytest.mark.full
@STYLES
@each_row("name", SUMMARIZERS)
@each_row("preset", ["summarize", "summarize_older", "chat_summary(trigger=8, keep=4)", "snapshot"])
def test_the_first_request_stays_the_goal(name: str, preset: str, is_fed_back: bool):
    found = goals(ConversationPruner(PruneArgs(2_000), SUMMARIZERS[name]), preset, is_fed_back=is_fed_back)
    assert len(found) >= 2
    assert set(found) == {REQUEST}


@STYLES
@each_row("name", sample_cases(SUMMARIZERS, 3))
def test_levels_keep_the_first_request(name: str, is_fed_back: bool):
    pruner = ConversationPruner(PruneArgs(2_000), SUMMARIZERS[name])
    found = goals(pruner, "sliding_window(n=4, keep=4)", is_fed_back=is_fed_back)
    assert len(found) >= 3
    assert set(found) == {REQUEST}


@STYLES
def test_a_late_first_request_is_the_goal_from_then_on(is_fed_back: bool):
    """The conversation begins with the assistant, so that the first summary knows of no request."""
    greeting = [{"role": "assistant", "content": "Hello. " * 700}, {"role": "assistant", "content": "Well? " * 700}]
    pruner = ConversationPruner(PruneArgs(2_000), lambda brief: "They are at it.")
    messages: list[Any] = [*greeting]
    texts = []
    for number in range(TURNS):
        messages += turn(number)
        pruned = pruner.prune(messages, summarize(1)).conversation
        texts.append(find_summary(pruned).text if find_summary(pruned) else "")  # type: ignore[union-attr]
        messages = list(pruned) if is_fed_back else messages
    assert any(text and GOAL not in text for text in texts)
    assert write_sections([Section(GOAL, REQUEST)]) in texts[-1]


def test_no_later_request_becomes_the_goal_of_another_summarizers_summary():
    old = wrap_summary("The user asked for tabs.", 12, 900)
    messages = [{"role": "user", "content": old}, {"role": "assistant", "content": "Yes."}]
    pruner = ConversationPruner(PruneArgs(2_000), lambda brief: "They are at it.")
    for number in range(1, TURNS):
        messages = list(pruner.prune([*messages, *turn(number)]).conversation)
    summary = find_summary(messages)
    assert summary
    assert GOAL not in summary.text
    assert "They are at it." in summary.text


def test_a_summary_that_repeats_the_previous_one_is_not_framed_twice():
    previous = write_sections([Section(GOAL, "Fix it."), Section(SUMMARY, "They began.")])
    frame = Frame(Brief((), previous), is_kept=False)
    text = frame.put_around(frame.remove_nested(f"{previous}\nThey went on."))
    assert text == write_sections([Section(GOAL, "Fix it."), Section(SUMMARY, "They began.\nThey went on.")])


@each_row("room", range(1, 60))
def test_a_frame_is_never_larger_than_its_room(room: int):
    frame = Frame(Brief((user(REQUEST),), "", room, words), is_kept=False)
    assert words(frame.put_around("word " * min(room, frame.room))) <= room
