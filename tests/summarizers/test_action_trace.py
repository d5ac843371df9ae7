"""A trace of actions: by tool, with what they touched and how it went; continued, and always within its room."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row
from utterances import answered, call, model, result, tool, user, utterances, words

from autoprune.facts.utterances import Utterance
from autoprune.summarizers.action_trace import USER, ActionTrace, Trace, read_trace
from autoprune.summarizers.brief import Brief, Written
from autoprune.tokens import exact

HEADING = "## Actions by tool, numbered in their order "
TESTS_FAILED = "Exit code 1\n2 failed\nAssertionError: 3 != 4"


def traced(trace: ActionTrace, asked: Brief) -> str:
    answer = trace(asked)
    return answer.text if isinstance(answer, Written) else ""


def brief(*said: Utterance, previous: str = "", max_tokens: int = 2_000) -> Brief:
    return Brief(said, previous, max_tokens, words)


SESSION = (
    user("Fix the test.\nPlease."),
    *answered(call("read", 1, path="a.py"), "alpha"),
    *answered(call("read", 2, path="a.py"), "alpha"),
    *answered(call("run", 3, command="pytest -q"), TESTS_FAILED),
    *answered(call("read", 4, path="b.py"), "beta\n\nbeta"),
    user("And the docs."),
    *answered(call("run", 5, command="pytest -q"), "Exit code: 0\nWall time: 1\nOutput:\nok"),
)


def test_calls_are_listed_by_tool_and_the_last_ones_show_their_results():
    assert traced(ActionTrace(keep=2), brief(*SESSION)) == (
        "## The user's first request (2 lines)\nFix the test.\nPlease.\n\n"
        f"{HEADING}(14 lines)\n"
        "read: 3 calls\n- #2 a.py ×2\n- #4 b.py\n  | beta\n  | beta\n"
        "run: 2 calls, 1 failed\n- failed #3 pytest -q: exit code 1: AssertionError: 3 != 4\n- #6 pytest -q: ok\n"
        "  | Exit code: 0\n  | Wall time: 1\n  | Output:\n  | ok\n"
        "user: 1 message\n- #5 And the docs."
    )


def listed(text: str) -> list[str]:
    """What stands below the heading of a trace."""
    return text.partition(HEADING)[2].split("\n")[1:]


ONE_LINE_EACH = [
    *("read: 3 calls", "- #2 a.py ×2", "- #4 b.py", "run: 2 calls, 1 failed"),
    *("- failed #3 pytest -q: exit code 1: AssertionError: 3 != 4", "- #6 pytest -q: ok", "user: 1 message"),
    "- #5 And the docs.",
]


@each_row(
    ("max_tokens", "lines"),
    [
        (61, ONE_LINE_EACH),
        (57, [line for line in ONE_LINE_EACH if "#2" not in line]),
        (54, [line for line in ONE_LINE_EACH if "#2" not in line and "#4" not in line]),
        (49, ["read: 3 calls", "run: 2 calls, 1 failed", ONE_LINE_EACH[4], *ONE_LINE_EACH[-2:]]),
        (48, ["read: 3 calls", "run: 2 calls, 1 failed", *ONE_LINE_EACH[-2:]]),
        (36, ["all tools: 5 calls, 1 failed", "user: 1 message", ONE_LINE_EACH[-1]]),
        (34, ["all tools: 5 calls, 1 failed", "user: 1 message, 1 left out"]),
    ],
)
def test_with_less_room_there_is_less_detail(max_tokens: int, lines: list[str]):
    assert listed(traced(ActionTrace(), brief(*SESSION, max_tokens=max_tokens))) == lines


@pytest.mark.parametrize(
    ("max_tokens", "text"),
    [
        (15, "## The user's first request (2 lines)\nFix the test.\nPlease."),
        (5, "Fix the test.\nPlease."),
        (0, ""),
    ],
)
def test_the_first_request_goes_last(max_tokens: int, text: str):
    assert traced(ActionTrace(), brief(*SESSION, max_tokens=max_tokens)) == text


def test_the_users_words_keep_their_lines_and_are_parsed_back():
    rules = user("Two rules ×2:\n\n- never push ×3\n- failed #1 x\nend ×2")
    text = traced(ActionTrace(keep=0), brief(user("Fix it."), rules, user("Go on ×4")))
    wanted = [
        "user: 2 messages",
        "- #1 Two rules ×2:",
        "  | ",
        "  | - never push ×3",
        "  | - failed #1 x",
        "  | end ×2",
    ]
    assert listed(text) == [*wanted, "- #2 Go on ×4 ×1"]
    again = traced(ActionTrace(keep=0), brief(user("Go on ×4"), previous=text))
    assert listed(again) == [wanted[0].replace("2", "3"), *wanted[1:], "- #3 Go on ×4 ×2"]


def test_the_models_last_words_in_a_turn_are_listed():
    reads = answered(call("read", 1, path="a.py"))
    said = (
        user("Why?"),
        model("I look."),
        *reads,
        model("The port\nwas taken."),
        user("Fix it."),
        model("Now.", call("x")),
    )
    assert "assistant: 1 message\n- #2 The port was taken.\n" in traced(ActionTrace(), brief(*said))


def test_errors_and_the_users_words_are_kept_longer_than_successes():
    reads = [answered(call("read", at, path=f"{at}.py")) for at in range(2, 40)]
    failure = answered(call("run", 1, command="make"), "Error: no rule", True)
    said = (user("Go."), *failure, user("Use ninja."), *(one for pair in reads for one in pair))
    lines = listed(traced(ActionTrace(keep=0), brief(*said, max_tokens=60)))
    assert "- failed #1 make: Error: no rule" in lines
    assert "- #2 Use ninja." in lines
    assert "- #40 39.py" in lines
    assert "- #3 2.py" not in lines


@each_row(
    ("name", "arguments", "line"),
    [
        ("grep", {"pattern": "def x", "path": "src"}, "- #1 def x in src"),
        ("search", {"query": "x"}, "- #1 x"),
        ("clock", {}, "- #1 ()"),
        ("add", {"a": 1, "b": [2]}, '- #1 {"a": 1, "b": [2]}'),
        ("read", {"path": "/" + "folder/" * 30 + "a.py"}, "- #1 …" + "/folder" * 22 + "/a.py"),
        ("scale", {"path": "2 × 3"}, "- #1 2 x 3"),
        (
            "apply_patch",
            {"input": "*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n" + "+x\n" * 99},
            "- #1 a.py, b.py",
        ),
    ],
)
def test_a_line_says_what_a_call_touched(name: str, arguments: dict[str, Any], line: str):
    said = answered(call(name, 1, **arguments), "fine")
    assert listed(traced(ActionTrace(keep=0), brief(*said))) == [f"{name}: 1 call", line]


def test_a_line_gives_the_id_that_a_call_returned():
    said = answered(call("book", 1, flight="LH1"), '{"booking": {"reference": "X7BYG1", "price": 120}}')
    assert listed(traced(ActionTrace(keep=0), brief(*said)))[1] == '- #1 {"flight": "LH1"}: reference X7BYG1'


@each_row(
    ("text", "is_error", "line"),
    [
        ("fine", False, "- #1 x: ok"),
        ("", True, "- failed #1 x: error"),
        ("Exit code 2", None, "- failed #1 x: exit code 2"),
        ("Exit code 2\nls: cannot access 'b'", None, "- failed #1 x: exit code 2: ls: cannot access 'b'"),
        ("it did not work\nsee the log", True, "- failed #1 x: it did not work"),
        (
            "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 1\nOriginal token count: 0\nOutput:\n",
            None,
            "- failed #1 x: exit code 1",
        ),
    ],
)
def test_a_line_gives_the_outcome_of_a_call(text: str, is_error: bool | None, line: str):
    said = answered(call("run", 1, command="x"), text, is_error)
    assert listed(traced(ActionTrace(keep=0), brief(*said)))[1] == line


def test_a_call_without_a_result_and_a_result_without_a_call_are_listed():
    said = (model("", call("run", 1, command="x")), tool(result(None, "fine", tool="ls")))
    assert listed(traced(ActionTrace(keep=0), brief(*said))) == [
        "run: 1 call",
        "- #1 x: no result",
        "ls: 1 call",
        "- #2 ()",
    ]


def test_a_trace_is_continued():
    first = traced(ActionTrace(keep=2), brief(*SESSION[:5]))
    again = traced(ActionTrace(keep=2), brief(*SESSION[5:], previous=first))
    assert again == traced(ActionTrace(keep=2), brief(*SESSION))


@each_row("text", ["- #1 a", "x", "read: 1 call\n- #2 a", "read: 2 calls\n- #1 a\n- #1 b", "  | a", ""])
def test_a_text_that_is_not_a_trace_is_not_parsed(text: str):
    assert read_trace(text) is None


@examples(10)
@given(st.lists(utterances(), min_size=20, max_size=20))
def test_the_goal_survives_twenty_summaries(parts: list[tuple[Utterance, ...]]):
    count, goal = exact(), user("Fix ## the test (2 lines)\n\n- #1 first ×2 \ud800")
    text, done = "", 0
    for number, part in enumerate(parts):
        text = traced(ActionTrace(), Brief((goal, *part) if number == 0 else part, text, 300, count))
        done += sum(len(one.calls) for one in part)
        assert count(text) <= 300
    assert f"## The user's first request (3 lines)\n{goal.words}\n" in f"{text}\n"
    known = read_trace("\n".join(listed(text))) or Trace()
    assert sum(total.times for total in known.totals if total.key != USER) >= done


STARTED = "Wall time: 1\nProcess running with session ID 7\nOutput:\n"
ENDED = "Wall time: 1\nProcess exited with code 1\nOutput:\nno\n"


def test_the_exit_code_of_a_background_command_is_matched_to_an_earlier_trace():
    first = (user("Go."), *answered(call("exec_command", 1, cmd="go test ./..."), STARTED))
    waits = answered(call("write_stdin", 2, session_id=7, chars=""), ENDED)
    previous = traced(ActionTrace(keep=0), brief(*first))
    assert "- #1 go test ./...: still running as 7" in previous
    assert "- failed #2 go test ./...: exit code 1" in traced(ActionTrace(keep=0), brief(*waits, previous=previous))
