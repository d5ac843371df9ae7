"""What the user said, and what was answered, outlives every fold, or is said to be left out: in full and fed back."""

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from every_format import count, requests
from folding_cases import words
from hypothesis import given, note
from hypothesis import strategies as st
from profiles import examples, sample_cases
from spoken import FORMATS, RULE, Turn, asked, messages, talks
from tables import each_row

from autoprune import PruneArgs, Result
from autoprune.conversation.summary import find_summary
from autoprune.pruners.conversation import ConversationPruner
from autoprune.summarizers.brief import Brief
from autoprune.summarizers.digest._contents import Exchange, parse_contents
from autoprune.summarizers.rendering import render
from autoprune.summarizers.sections import GOAL, LEAVES_OUT, parse_sections
from autoprune.tokens import exact

STRATEGIES = (
    *("summarize", "hybrid", "summarize_older", "symbolize", "chat_summary(trigger=12, keep=4)", "action_trace"),
    *("sliding_window(n=4, keep=4)", "snapshot(messages=12, keep=4)"),
)
DIGESTS = tuple(name for name in STRATEGIES if name not in ("symbolize", "action_trace"))
# Those that fold much at once; the others may have no room for an answer at their first fold.
ROOMY = 1_500  # tokens of a safe zone in which nothing has to be dropped
LEFT_OUT = "left out"
TINY = 200  # tokens of a summary, in which there may be no room to say that something is left out


def in_short(brief: Brief) -> str:
    """A model that says next to nothing."""
    return "They worked on it."


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    """Check a property of a conversation in every format, with a safe zone, in full and fed back."""
    checked = given(talks(), st.sampled_from((25, 50, 80)), st.booleans())(test)
    found: Callable[..., None] = pytest.mark.parametrize("written_in", sample_cases(FORMATS, 3))(examples(12)(checked))
    return found


def pruned(given: list[Any], strategy: str, safe_zone: int, llm: Any = None, *, is_fed_back: bool = False) -> Result:
    """The outcome, once or at each request."""
    ours = ConversationPruner(PruneArgs(safe_zone), llm)
    if not is_fed_back:
        return ours.prune(given, strategy)
    sent: list[Any] = []
    done = 0
    for at in requests(given):
        sent, done = [*ours.prune([*sent, *given[done:at]], strategy).conversation], at
    return ours.prune([*sent, *given[done:]], strategy)


def said(result: Result) -> str:
    """All that is left of a conversation."""
    return "\n".join(text for message in result.conversation for text in words(message))


def is_told(result: Result) -> bool:
    """Whether the conversation says that something is left out of it, and the report that words of the user's are."""
    report = result.report
    notes = any("the user's words" in note or "first request" in note for note in report.fallbacks)
    return (LEFT_OUT in said(result) and notes) or report.requests_removed + report.answers_removed > 0


@everywhere
def test_the_goal_is_the_first_request(written_in: str, talk: list[Turn], share: int, is_fed_back: bool):
    given = messages(talk, written_in)
    zone = max(count(given) * share // 100, 600)
    for name in STRATEGIES:
        for llm in (None, in_short):
            result = pruned(given, name, zone, llm, is_fed_back=is_fed_back)
            note(f"{name} {llm} {result.report}: {result.conversation}")
            assert "REQUEST0: fix part 0." in said(result)
            summary = find_summary(result.conversation)
            goal = (
                next((one.body for one in parse_sections(summary.text) or () if one.title == GOAL), "")
                if summary
                else ""
            )
            assert goal.startswith("REQUEST0") or not goal


@everywhere
def test_what_the_user_says_stays_or_is_said_to_be_left_out(
    written_in: str, talk: list[Turn], share: int, is_fed_back: bool
):
    given = messages(talk, written_in)
    zone = max(count(given) * share // 100, 600)
    for name in STRATEGIES:
        result = pruned(given, name, zone, is_fed_back=is_fed_back)
        note(f"{name} {result.report}: {result.conversation}")
        text = said(result)
        for phrase in phrases(talk):
            summary = find_summary(result.conversation)
            has_no_room = summary is not None and summary.room < TINY
            assert phrase in text or (is_fed_back and (LEFT_OUT in text or has_no_room)) or is_told(result), phrase


def phrases(talk: Sequence[Turn]) -> list[str]:
    """What the user says."""
    rules = [RULE for turn in talk if RULE in turn.request][:1]
    through_tools = [words for turn in talk for words in turn.said]
    return [turn.request.partition(".")[0] for turn in talk] + through_tools + rules


@everywhere
def test_an_answer_is_that_of_its_request(written_in: str, talk: list[Turn], share: int, is_fed_back: bool):
    given = messages(talk, written_in)
    zone = max(count(given) * share // 100, ROOMY)
    for name in DIGESTS:
        result = pruned(given, name, zone, is_fed_back=is_fed_back)
        note(f"{name} {result.report}: {result.conversation}")
        summary = find_summary(result.conversation)
        contents = parse_contents(summary.text) if summary else parse_contents("")
        for exchange in contents.exchanges:
            number = re.match(r"REQUEST(\d+)", exchange.request or contents.goal)
            if number and exchange.answer:
                turn = talk[int(number[1])]
                wanted = turn.answer[:7] or turn.chatter[:8]
                assert exchange.answer.startswith((wanted, "[none kept]", "I look."))


# The same in view


IN_BATCHES = ("summarize", "hybrid", "chat_summary(trigger=12, keep=4)", "snapshot(messages=12, keep=4)")


running = find_summary  # hypothesis derives its examples from the source below, which keeps this name


@everywhere
def test_no_answer_is_lost_while_there_is_room(written_in: str, talk: list[Turn], share: int, is_fed_back: bool):
    given = messages(talk, written_in)
    zone = max(count(given) * share // 100, ROOMY)
    for name in IN_BATCHES:
        result = pruned(given, name, zone, is_fed_back=is_fed_back)
        note(f"{name} {result.report}: {result.conversation}")
        summary = running(result.conversation)
        if not summary or count([{"role": "user", "content": summary.text}]) > summary.room * 0.6:
            continue
        lost = [turn.answer[:30] for turn in talk[:-1] if turn.answer[:30] not in said(result)]
        assert lost == []


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def used(number: int, tool: str, text: str, words: str = "") -> list[dict[str, Any]]:
    """A call of a tool and its result."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": text}
    return [{"role": "assistant", "content": words, "tool_calls": [call]}, result]


GIVEN = {
    "an answer": asked('"Which?"="the old one"').text,
    "a rejected plan": "Plan rejected. User feedback: Not so.",
    "a refusal": "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nNo.",
}
BYTHEWAY = [each for at in range(40) for each in (model("w " * 100), user(f"By the way, rename variable {at}."))]


@pytest.mark.full
@each_row("name, is_fed_back, given", sample_cases(product(STRATEGIES, (False, True), GIVEN), 5))
def test_what_the_user_says_through_a_tool_is_not_the_first_request(name: str, is_fed_back: bool, given: str):
    goal = "Fix the parser. Keep Python 3.8 and never push."
    said_first = used(0, "AskUserQuestion" if given == "an answer" else "ExitPlanMode", GIVEN[given])
    work = [each for at in range(1, 20) for each in used(at, "run", "a line of output\n" * 60)]
    for llm in (None, in_short):
        text = said(pruned([user(goal), *said_first, *work, *BYTHEWAY], name, 5_000, llm, is_fed_back=is_fed_back))
        assert goal in text


@pytest.mark.parametrize("is_fed_back", [False, True])
def test_a_model_is_told_which_request_stays_and_which_came_first(is_fed_back: bool):
    briefs: list[Brief] = []

    def noting(brief: Brief) -> str:
        briefs.append(brief)
        return "They worked on it."

    work = [each for at in range(40) for each in used(at, "run", "line\n" * 100, f"Looking at file {at}.")]
    before = [user("Why did CI fail?"), model("The port was taken."), user("Fix it.")]
    pruned([*before, *work], "summarize", 4_000, noting, is_fed_back=is_fed_back)
    first, *later = briefs
    assert (first.first_request, first.request) == ("Why did CI fail?", "Fix it.")
    asked, answer, next_words = first.utterances[:3]
    assert [one.after_request for one in (asked, answer, next_words)] == [False, False, True]
    assert "▶ the user's next request, which stays" in render(first.utterances, len, 10_000)
    assert all(brief.utterances[0].after_request and brief.previous for brief in later)


INSTRUCTIONS = "# AGENTS.md instructions for /app\n\n<INSTRUCTIONS>\nNever push.\n</INSTRUCTIONS>"
CODE = "a line of code\n" * 110


def exchanges(given: list[Any]) -> tuple[Exchange, ...]:
    """The requests and answers in the summary of a pruned conversation."""
    text = said(ConversationPruner(4_000).prune(given))
    return parse_contents(text[text.find("## ") : text.find("[/Summary]")]).exchanges


@pytest.mark.parametrize("before", [[], [user(INSTRUCTIONS)]])
def test_no_interim_words_are_shown_as_the_answer_of_a_request(before: list[Any]):
    """Behind a user's message that stays at the start an answer stays too, so that the next request is apart."""
    given, seen = [*before], set[str]()
    for number in range(4):
        given += [user(f"Request {number}?")]
        for at in range(6):
            given += used(10 * number + at, "read", CODE, f"Working on {number}, part {at}.")
            answers = [one.answer for one in exchanges(given) if one.answer]
            last = answers.pop() if answers and answers[-1] == "[below]" else ""
            assert answers == [f"Answer {each}." for each in range(len(answers))]
            assert not last or (before and f"Answer {len(answers)}." in said(ConversationPruner(4_000).prune(given)))
            seen |= {*answers, last}
        given += [model(f"Answer {number}.")]
    assert seen - {""} == {"Answer 0.", "Answer 1.", "[below]" if before else "Answer 2."}


@each_row("name", STRATEGIES)
def test_rules_of_the_user_stay_or_are_said_to_be_left_out(name: str):
    rules = [f"Rule {at}: never touch the module number {at} of the parser." for at in range(60)]
    turns = [each for rule in rules for each in (model("Ok."), user(rule))]
    result = pruned([user("Build it. Follow my rules."), *turns, model("Ok."), user("Go on.")], name, 2_700)
    text = said(result)
    missing = sum(rule not in text for rule in rules)
    notes = [note for note in result.report.fallbacks if note.startswith(LEAVES_OUT)]
    assert missing < 40
    assert bool(missing) == (LEFT_OUT in text) == bool(notes)
    assert not missing or f"{missing} later messages" in notes[0]


def test_a_long_request_takes_the_room_that_a_models_summary_leaves():
    request = " ".join(f"word{at}" for at in range(700))
    result = pruned([user(request), *BYTHEWAY], "chat_summary", 12_000, in_short)
    summary = find_summary(result.conversation)
    assert summary
    assert 1_000 < exact()(request) < summary.room
    assert request in summary.text
    assert result.report.fallbacks == ()


def told(result: Result) -> tuple[str, ...]:
    return result.report.fallbacks


@each_row("name", ["summarize", "chat_summary(trigger=9, keep=4)", "sliding_window(n=4, keep=4)", "snapshot"])
def test_a_summary_that_is_much_too_long_is_said_to_be_cut(name: str):
    result = pruned([user("Fix it."), *BYTHEWAY], name, 3_000, lambda brief: "word " * 200_000)
    assert any(re.search(r"had 200000 tokens and was cut to \d+", note) for note in told(result))
