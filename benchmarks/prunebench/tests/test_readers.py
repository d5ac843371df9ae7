"""Readers of logs that only benchmarks read: golden samples, and a pair of inputs for each rule."""

import copy
import json
import re
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from autoprune import SessionError
from autoprune.apps.sessions import READERS, load, plugin_readers, recordings
from faults import faults
from session_texts import Value, every_run, expected_of, lines, reading_of, said, samples_in, values_of
from tables import each_row

SAMPLES = samples_in(Path(__file__).parents[1] / "fixtures" / "readers")


def test_each_reader_is_registered_and_has_a_sample():
    registered = {each.name: each.load().name for each in entry_points(group="autoprune.readers")}
    assert registered == {name: name for name in plugin_readers()}
    assert set(registered) == {load(path.read_text(encoding="utf-8"), "s").agent for path in SAMPLES}


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_read_as_its_expected_file_says(path: Path):
    assert reading_of(path) == expected_of(path)


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_becomes_a_conversation_that_its_provider_accepts(path: Path):
    text = path.read_text(encoding="utf-8")
    assert [faults(session) for session in every_run(text, path.name)] in ([[]], [[], []])
    assert [fault for stretches in recordings(text, path.name) for each in stretches for fault in faults(each)] == []


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_exactly_one_reader_detects_a_sample_and_reading_does_not_change_the_values(path: Path):
    values = values_of(path)
    before = copy.deepcopy(values)
    [reader] = [each for each in (*READERS, *plugin_readers().values()) if each.detect(values)]
    assert reader.record
    assert len(reader.record(values)) == len(reader.read(values))
    assert values == before


@each_row(
    ("text", "what"),
    [
        (
            lines({"history": [{"action": "run", "source": "agent"}]}, {"history": []}),
            "openhands, but record 2 is not a run",
        ),
        ('{"trajectory": [], "history": [{"role": "user"}, {"content": 1}]}', "swe-agent, but record 2 of the history"),
        ('{"trajectory_format": "mini-swe-agent-1", "messages": [3]}', "mini-swe-agent, but record 1 of the messages"),
        ('{"llm_interactions": [{}], "agent_steps": []}', "trae, but record 1 of llm_interactions"),
        ('{"eval": {}, "plan": {}, "version": 2}', "inspect, but the log holds no samples"),
        ('{"eval": {}, "samples": [{"messages": [{}]}]}', "inspect, but record 1 of the samples"),
        ('[{"traj": [{}]}]', "tau-bench, but record 1 of the tasks"),
    ],
)
def test_a_broken_log_raises_an_error_with_the_place(text: str, what: str):
    with pytest.raises(SessionError, match=re.escape(f"s is a session file of {what}")):
        load(text, "s")


def openhands(*events: Value) -> str:
    return json.dumps({"instance_id": "i", "history": list(events)})


GREETED = {"id": 1, "source": "user", "action": "message", "args": {"content": "hi"}}
RUN = {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look."}}
SEEN = {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "a.c", "extras": {}}


SHELL = {"exit_code": 1, "working_dir": "/w", "py_interpreter_path": "/py", "prefix": "", "suffix": " (cut)"}
SHOWN = " (cut)\n[Current working directory: /w]\n[Python interpreter: /py]\n[Command finished with exit code 1]"


def forget(start: int, end: int) -> Value:
    """A condensation that forgets the events between two."""
    args = {"forgotten_events_start_id": start, "forgotten_events_end_id": end}
    return {"id": 99, "source": "agent", "action": "condensation", "args": args}


@each_row(
    ("events", "expected"),
    [
        ([GREETED, RUN, SEEN], ["user:hi", "assistant:I look.", "tool:a.c"]),
        ([GREETED, [RUN, SEEN]], ["user:hi", "assistant:I look.", "tool:a.c"]),
        ([GREETED, RUN], ["user:hi", "assistant:I look."]),
        (
            [GREETED, {**RUN, "source": "user", "message": "ls"}, SEEN],
            ["user:hi", "user:The user's action: ls", "user:a.c"],
        ),
        (
            [GREETED, RUN, SEEN, {"id": 4, "action": "condensation", "args": {"forgotten_event_ids": [2, 3]}}],
            ["user:hi"],
        ),
        (
            [GREETED, {"id": 4, "source": "environment", "observation": "agent_state_changed", "content": ""}],
            ["user:hi"],
        ),
        ([{**GREETED, "args": {"content": "see", "image_urls": ["u"]}}], ["user:see+None"]),
        ([GREETED, forget(1, 2), forget(2, 3), forget(9, 12), RUN, SEEN], []),
        ([GREETED, forget(2, 2), RUN, SEEN], ["user:hi"]),
        ([GREETED, RUN, {**SEEN, "extras": {"metadata": SHELL}}], ["user:hi", "assistant:I look.", f"tool:a.c{SHOWN}"]),
    ],
)
def test_openhands_events_become_messages(events: list[Value], expected: list[str]):
    assert said(load(openhands(*events), "s")) == expected


def early(kind: str, name: str, **payload: Value) -> Value:
    """An event of 2024: no source, no id, no cause."""
    return {kind: name, **({"args": payload} if kind == "action" else {"extras": {}, "content": "", **payload})}


NOTHING_SEEN = early("observation", "null")
ASKED = [
    [early("action", "message", content="Fix it.", wait_for_response=False), NOTHING_SEEN],
    [early("action", "run", command="ls", thought="I look."), early("observation", "run", content="a.c")],
    [
        early("action", "run_ipython", code="1/0", thought=""),
        early("observation", "run_ipython", content="ZeroDivisionError"),
    ],
    [early("action", "message", content="Shall I?", wait_for_response=True), NOTHING_SEEN],
    [early("action", "message", content="Go on."), NOTHING_SEEN],
    [early("action", "run", command="make"), early("observation", "run", content="ok", extras={"exit_code": 0})],
    [early("action", "finish", thought="Done.", outputs={}), NOTHING_SEEN],
]
ASKED_SAID = [
    *("user:Fix it.", "assistant:I look.", "tool:a.c", "assistant:run_ipython", "tool:ZeroDivisionError"),
    *("assistant:Shall I?", "user:Go on.", "assistant:run", "tool:ok\n[Command finished with exit code 0]"),
    "assistant:Done.",
]


@each_row(
    "history",
    [
        ASKED,
        [event for pair in ASKED for event in pair],
        [[{**event, "id": 2 * at + number} for number, event in enumerate(pair)] for at, pair in enumerate(ASKED)],
    ],
    ids=["pairs", "flat", "with ids"],
)
@each_row("wrap", [lambda history: history, lambda history: {"instance_id": "i", "history": history}])
def test_events_of_openhands_without_a_source_are_read(history: list[Value], wrap: Callable[[Value], Value]):
    session = load(json.dumps(wrap(history)), "s")
    assert (session.agent, said(session)) == ("openhands", ASKED_SAID)
    assert faults(session) == []


def flat(event: Value) -> Value:
    """An event as the resolver writes it: all fields beside its name."""
    others = {name: value for name, value in event.items() if name not in ("args", "extras")}
    return {**event.get("args", {}), **event.get("extras", {}), **others, "security_risk": None}


RESOLVED = {"issue": {"number": 5}, "instruction": "Fix it.", "git_patch": "", "success": True, "error": None}


def test_the_output_of_the_openhands_resolver_is_read():
    history = [flat(event) for pair in ASKED for event in pair]
    context = [{"recall_type": "workspace_context", "query": "Fix it.", "thought": "", "action": "recall"}]
    context += [{"content": "Added workspace context", "recall_type": "workspace_context", "observation": "recall"}]
    lines = [
        {**RESOLVED, "history": [*history[:2], *context, *history[2:]]},
        {**RESOLVED, "history": [], "metrics": None, "error": "Agent failed to run or crashed"},
        {**RESOLVED, "history": history, "metrics": {"accumulated_cost": 0.07, "costs": [0.07]}},
    ]
    text = "\n".join(map(json.dumps, lines))
    first, second, third = (load(text, "s", number) for number in (1, 2, 3))
    assert (first.agent, said(first), faults(first)) == ("openhands", ASKED_SAID, [])
    assert (second.messages, said(third), third.conversations) == ([], ASKED_SAID, 3)
    assert [len(each) for each in recordings(text, "s")] == [1, 1, 1]
    assert load(json.dumps(lines[0]), "s").messages == first.messages


def test_a_flat_message_and_a_flat_exit_code_are_read():
    history = [
        {"content": "See.", "images_urls": ["u"], "wait_for_response": False, "action": "message"},
        {"command": "make", "thought": "I build.", "action": "run", "is_confirmed": "confirmed"},
        {"content": "no", "command_id": 7, "command": "make", "exit_code": 2, "observation": "run"},
        {"command": "make", "thought": "", "action": "run"},
        {"content": "no", "command": "make", "observation": "run", "metadata": SHELL, "hidden": False},
    ]
    made = said(load(json.dumps({"history": history}), "s"))
    assert made[:3] == ["user:See.+None", "assistant:I build.", "tool:no\n[Command finished with exit code 2]"]
    assert made[3:] == ["assistant:run", f"tool:no{SHOWN}"]


@pytest.mark.parametrize(
    "text",
    [
        '[{"action": "run", "command": "ls"}]',
        '[{"action": "run", "thought": "I look.", "command": "ls"}]',
        '{"history": [{"action": "ls", "by": "ann", "content": "x"}]}',
        '{"history": [{"action": "ls", "observation": "a.c", "thought": "I look."}]}',
        '{"history": [{"action": "ls", "observation": "a.c", "response": "x"}]}',
        '[{"observation": "run", "content": "x"}]',
        '[{"kind": "ActionEvent", "source": "agent", "action": {"kind": "TerminalAction", "command": "ls"}}]',
    ],
)
def test_records_with_actions_alone_are_not_openhands(text: str):
    with pytest.raises(SessionError, match="give a JSON list"):
        load(text, "s")


def test_an_openhands_trajectory_is_a_list_of_events():
    assert said(load(json.dumps([GREETED, RUN, SEEN]), "s")) == ["user:hi", "assistant:I look.", "tool:a.c"]


def test_each_attempt_of_swe_agent_is_a_conversation():
    attempt = {"trajectory": [], "history": [{"role": "user", "content": "go"}]}
    session = load(json.dumps({"attempts": [attempt, attempt]}), "s")
    assert (session.agent, session.conversations, said(session)) == ("swe-agent", 2, ["user:go"])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("I look.\n```bash\nls\n```", ["assistant:I look.\n```bash\nls\n```", "tool:<returncode>0</returncode>"]),
        ("I think.", ["assistant:I think.", "user:<returncode>0</returncode>"]),
        (
            "```bash\na\n```\n```bash\nb\n```",
            ["assistant:```bash\na\n```\n```bash\nb\n```", "user:<returncode>0</returncode>"],
        ),
    ],
)
def test_exactly_one_command_of_mini_swe_agent_is_a_call(told: str, expected: list[str]):
    text = json.dumps(
        [{"role": "assistant", "content": told}, {"role": "user", "content": "<returncode>0</returncode>"}]
    )
    assert said(load(text, "s")) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"result": "ok", "error": None}, "ok"),
        ({"result": None, "error": "bad"}, "Error: bad"),
        ({"result": "half", "error": "bad"}, "half\nError: bad"),
        ({"result": "", "error": ""}, ""),
    ],
)
def test_a_result_of_trae_includes_its_error(result: Value, expected: str):
    made = {"call_id": "c", "name": "bash", "arguments": {}}
    told = [{"input_messages": [{"role": "user", "content": "go"}], "response": {"content": "", "tool_calls": [made]}}]
    steps = [{"tool_results": [{"call_id": "c", **result}]}]
    session = load(json.dumps({"llm_interactions": told, "agent_steps": steps}), "s")
    assert session.messages[-1] == {"role": "tool", "tool_call_id": "c", "content": expected}
