"""What became of each result of a session."""

import json
from dataclasses import asdict

import pytest
from replayed import SECRET, call, hostile, recorded, replayed
from tables import each_row

from autoprune.apps.replay import ReplayArgs
from autoprune.apps.replay.detail import (
    ClearedResult,
    ResultDetail,
    SessionDetail,
    head_and_tail,
    most_expensive,
    public_target,
    session_details,
)
from autoprune.conversation.transcript import Location, ToolCall
from autoprune.economics import LISTS


def session(rounds: int) -> bytes:
    """A session in which each request but the first reads a file, and the last one edits what the first file said."""
    messages = [{"role": "user", "content": "Begin."}]
    for number in range(rounds):
        messages += call(number, "read", {"path": f"/src/file_{number}.py"}, f"def first_{number}(): pass\n" * 40)
    edit = {"path": "/src/file_0.py", "old_string": "def first_0(): pass", "new_string": "x"}
    return json.dumps([*messages, *call(rounds, "edit", edit, "done")]).encode()


def detail(*strategies: str, texts: bool = False) -> SessionDetail:
    args = ReplayArgs(strategies, (LISTS["anthropic"],))
    (found,) = replayed("session.json", session(22), args, texts=texts).details
    return found


def test_a_result_names_its_first_request_and_the_actions_that_needed_it():
    results = detail("none").results
    assert results[0] == ResultDetail("read", "/src/file_0.py", results[0].tokens, 0, 1, needed=((22, "edit"),))
    assert results[1] == ResultDetail("read", "/src/file_1.py", results[1].tokens, 1, 2)


def test_an_outcome_names_cleared_results_and_the_actions_that_missed_them():
    none, window = detail("none", "window(keep=20)").outcomes
    assert (none.cleared, none.missed) == ((), ())
    assert [(each.result, each.request) for each in window.cleared] == [(0, 21), (1, 22)]
    assert window.missed == ((0, 22),)
    assert isinstance(window.cleared[0], ClearedResult)
    assert window.cleared[0].saved > 100


def test_details_of_known_figures_are_the_same_without_a_replay(monkeypatch: pytest.MonkeyPatch):
    args = ReplayArgs(
        ("none", "window(keep=20)", "low_water"), (LISTS["anthropic"], LISTS["deepseek"]), safe_zone=5_000
    )
    whole = replayed("session.json", session(22), args)
    monkeypatch.delattr("autoprune.apps.replay.detail.play")
    (figures,) = whole.found
    again = session_details("session.json", session(22), args, found=figures.figures)
    assert tuple(again) == whole.details


def test_details_are_json():
    for known in (*recorded(texts=True).details, *hostile(texts=True).details):
        assert json.loads(json.dumps(asdict(known))).keys() == asdict(known).keys()


def test_without_texts_a_detail_holds_no_secret():
    assert SECRET not in json.dumps([asdict(each) for each in hostile().details])
    assert SECRET in json.dumps([asdict(each) for each in hostile(texts=True).details])


@each_row(
    "arguments, target",
    [
        ({"path": "/src/a.py", "limit": "3"}, "/src/a.py"),
        ({"command": "cd /src && API_KEY=sk-1 curl -H 'Authorization: sk-1' https://u:p@host | jq .x"}, "curl, jq"),
        ({"command": "sk-1/../x --password sk-1"}, "x"),
        ({"command": "echo sk-1 > /tmp/key"}, ""),
        ({"pattern": "sk-1"}, ""),
        ({"url": "https://u:p@host"}, ""),
    ],
)
def test_a_public_target_is_a_path_or_a_program(arguments: dict[str, str], target: str):
    assert public_target(ToolCall(Location((0,)), 0, None, "tool", arguments)) == target


def test_long_texts_are_cut_in_the_middle():
    assert head_and_tail("a" * 8_000) == ("a" * 8_000, 0)
    text, left_out = head_and_tail("a" * 6_000 + "b" * 5 + "c" * 2_000)
    assert (text, left_out) == ("a" * 6_000 + "\n[…]\n" + "c" * 2_000, 5)


def test_the_most_expensive_episodes_come_first():
    figures = [each for one in (recorded(), hostile()) for each in one.found[0].figures]
    names = most_expensive(figures, "anthropic", 5)
    assert names == [recorded().details[0].episode, hostile().details[0].episode]
    assert most_expensive(figures, "anthropic", 1) == names[:1]
