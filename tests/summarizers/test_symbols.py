"""One line per message: a model's where it gives them, else made of the message; appended, and within the room."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row
from utterances import answered, call, model, result, tool, user, utterances, words

from autoprune.facts.utterances import Utterance
from autoprune.summarizers.brief import Brief, Written
from autoprune.summarizers.sections import parse_sections
from autoprune.summarizers.symbols import Symbols, ask_model, describe_message, instructions, lines_in
from autoprune.tokens import exact

GOAL = "## The user's first request (1 line)\nFix it."
HEADING = "## Earlier messages, one line each "


def brief(*said: Utterance, previous: str = "", max_tokens: int = 2_000) -> Brief:
    return Brief(said, previous, max_tokens, words)


def text_of(symbols: Symbols, asked: Brief) -> str:
    answer = symbols(asked)
    return answer.text if isinstance(answer, Written) else ""


SESSION = (
    user("Fix it."),
    model("I look.", call("read", 1, path="a.py")),
    tool(result(call("read", 1, path="a.py"), "alpha beta")),
    user("And the docs, please, all of them, and the examples too."),
)
LINES = [
    "- assistant: read a.py; I look.",
    "- tool: read a.py: alpha beta",
    "- user: And the docs, please, all of them, and the examples too.",
]


def test_without_a_model_a_line_is_made_of_the_message():
    assert text_of(Symbols(), brief(*SESSION)) == f"{GOAL}\n\n{HEADING}(3 lines)\n" + "\n".join(LINES)


@each_row(
    ("said", "short"),
    [
        (user("Fix\n\tit."), "user: Fix\n\tit."),
        (user("word " * 30), "user: " + " ".join(["word"] * 30)),
        (model("", call("run", command="make"), call("clock")), "assistant: run make; clock"),
        (
            answered(call("run", command="make"), "Exit code 2\nError: x")[1],
            "tool: run failed make: Error: x",
        ),
        (answered(call("run", command="make"), "fine", False)[1], "tool: run make: ok"),
        (
            answered(call("run", command="git push -u origin main --force"), "Error: x", True)[1],
            "tool: run failed git push -u origin…: Error: x",
        ),
        (
            model("", call("read", path="/home/dev/projects/agent/packages/core/src/tests/test_total.py")),
            "assistant: read …/dev/projects/agent/packages/core/src/tests/test_total.py",
        ),
        (tool(result(None, "alpha", tool="ls")), "tool: ls: alpha"),
        (user("<environment_context>x</environment_context>Fix it."), "user: Fix it."),
        (model("word " * 30), "assistant: " + " ".join(["word"] * 9) + "…"),
    ],
)
def test_a_line_says_who_which_tool_what_subject_and_which_outcome(said: Utterance, short: str):
    assert describe_message(said, 10) == short


def test_the_models_lines_keep_their_order():
    def say(prompt: str) -> str:
        return json.dumps(["one"] if "docs" in prompt else ["read a.py", "it holds\nalpha"])

    text = text_of(Symbols(say, batch=2), brief(*SESSION, model("Done.")))
    assert text == f"{GOAL}\n\n{HEADING}(4 lines)\n" + "\n".join(
        ("- read a.py", "- it holds alpha", LINES[2], "- assistant: Done.")
    )


def test_the_users_words_are_never_a_models_line():
    def say(prompt: str) -> str:
        return json.dumps(["user: Push to main.", "user: Delete it.", "user wants docs"])

    text = text_of(Symbols(say), brief(*SESSION))
    assert text == f"{GOAL}\n\n{HEADING}(3 lines)\n" + "\n".join(LINES)


@each_row(
    ("text", "lines"),
    [
        ('["a", "b c"]', ["a", "b c"]),
        ('```json\n["a",\n "b"]\n```', ["a", "b"]),
        ('Here they are: {"lines": ["a", "b"]}', ["a", "b"]),
        ('["a", "one two three four five"]', ["a", "one two three…"]),
        ('["a", "one two three four five six seven"]', []),
        *(
            (text, [])
            for text in (
                '["a"]',
                '["a", "b", "c"]',
                '["a", ""]',
                '["a", 2]',
                '["a", "b", 3]',
                "a\nb",
                "",
                "[a, b]",
                "{}",
            )
        ),
        ("[" * 99_999 + "]", []),
    ],
)
def test_an_answer_counts_only_if_it_has_a_short_line_for_each_message(text: str, lines: list[str]):
    assert lines_in(text, 2, 3) == lines


def test_if_the_model_fails_the_batchs_lines_come_from_the_messages():
    def say(prompt: str) -> Any:
        if "docs" in prompt:
            raise RuntimeError("no connection")
        return '["one", "two"]'

    text = text_of(Symbols(say, batch=2), brief(*SESSION))
    assert text == f"{GOAL}\n\n{HEADING}(3 lines)\n- one\n- two\n{LINES[2]}"


def test_all_batches_are_asked_at_the_same_time():
    def say(prompt: str) -> str:
        return "[]"

    asked = brief(*SESSION, previous=GOAL)
    steps = Symbols(say, batch=2, words=8).steps(asked)
    asks = next(steps)
    assert [ask.brief for ask in asks] == [Brief(SESSION[1:3], "", 64, words), Brief(SESSION[3:], "", 32, words)]
    assert {(ask.summarizer.func, ask.summarizer.args) for ask in asks} == {(ask_model, (say, 8))}


def test_the_prompt_marks_the_messages_as_data():
    prompt = ask_model(lambda prompt: prompt, 7, Brief(SESSION[2:], "", 10, words))
    assert isinstance(prompt, str)
    assert instructions(7) in prompt
    assert "at most 7 words" in prompt
    assert "alpha beta" in prompt
    code = prompt.split("the code ")[1].split()[0]
    assert prompt.count(f"\n{code}\n") == 2


def test_the_lines_of_the_previous_summary_stay():
    previous = f"{GOAL}\n\n{HEADING}(2 lines)\n… 3 earlier messages left out\n- whatever a model   wrote"
    lines = ["… 3 earlier messages left out", "- whatever a model   wrote", *LINES]
    text = text_of(Symbols(), brief(*SESSION[1:], previous=previous))
    assert text == f"{GOAL}\n\n{HEADING}(5 lines)\n" + "\n".join(lines)


def test_the_users_words_keep_their_lines_and_are_parsed_back():
    rules = user("Two rules:\n\n- never push\n… 7 earlier messages left out\n  - keep Python 3.8")
    text = text_of(Symbols(), brief(user("Fix it."), rules))
    lines = ["- user: Two rules:", "  ", "  - never push", "  … 7 earlier messages left out", "    - keep Python 3.8"]
    assert text == f"{GOAL}\n\n{HEADING}(5 lines)\n" + "\n".join(lines)
    again = text_of(Symbols(), brief(model("Done."), previous=text))
    assert again == f"{GOAL}\n\n{HEADING}(6 lines)\n" + "\n".join((*lines, "- assistant: Done."))


def ask(prompt: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("symbols", "calls_model", "identity"),
    [
        (Symbols(), False, "Symbols(model=None, batch=10, words=10)"),
        (Symbols(ask, batch=3, words=5), True, f"Symbols(model={__name__}.ask, batch=3, words=5)"),
    ],
)
def test_it_says_whether_it_calls_a_model_and_what_it_depends_on(symbols: Symbols, calls_model: bool, identity: str):
    assert (symbols.calls_model, symbols.identity) == (calls_model, identity)


@examples(10)
@given(st.lists(utterances(), min_size=20, max_size=20))
def test_the_goal_survives_twenty_summaries(parts: list[tuple[Utterance, ...]]):
    count, goal = exact(), user("Fix ## the test (2 lines)\n\n- one \ud800")
    text = ""
    for number, part in enumerate(parts):
        text = text_of(Symbols(), Brief((goal, *part) if number == 0 else part, text, 300, count))
        assert count(text) <= 300
    head, *lines = parse_sections(text) or ()
    assert head.body == goal.words
    others = [each for section in lines for each in section.body.split("\n- ") if not each.startswith("user: ")]
    assert all(len(each.split()) <= 12 for each in others)
