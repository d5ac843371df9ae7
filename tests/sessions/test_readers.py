"""Readers of agents' session files: golden samples, and a pair of inputs for each rule of how an agent continues."""

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from faults import faults
from hypothesis import given
from hypothesis import strategies as st
from profiles import sample_cases
from session_texts import (
    changed,
    every_run,
    expected_of,
    lines,
    places,
    reading_of,
    said,
    samples_in,
    values_of,
)
from tables import each_row

from autoprune import SessionError, SettingsError
from autoprune.apps.sessions import (
    NO_RESULT,
    READERS,
    Conversation,
    Reader,
    Session,
    agent_log,
    conversation,
    decode,
    find_reader,
    load,
    plugin_readers,
    recordings,
)
from autoprune.apps.sessions._codex_rollout import SENT
from autoprune.settings import plugins
from autoprune.wire import SHIPPED, problems

FOLDER = Path(__file__).parents[2] / "fixtures" / "readers"
SAMPLES = samples_in(FOLDER)
PLAIN = ("cline-classic.json",)
Value = Any


def test_the_samples_were_found():
    assert len(SAMPLES) >= 12
    assert {reader.name for reader in READERS} <= {
        load(path.read_text(encoding="utf-8"), "s").agent for path in SAMPLES
    }


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_read_as_its_expected_file_says(path: Path):
    assert reading_of(path) == expected_of(path)


@each_row("path", [path for path in SAMPLES if path.name not in PLAIN], ids=lambda path: path.name)
def test_a_sample_becomes_a_conversation_that_its_provider_accepts(path: Path):
    text = path.read_text(encoding="utf-8")
    assert [faults(session) for session in every_run(text, path.name)] in ([[]], [[], []])
    assert [fault for stretches in recordings(text, path.name) for each in stretches for fault in faults(each)] == []


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_exactly_one_reader_detects_a_sample(path: Path):
    claims = [reader.name for reader in READERS if reader.detect(values_of(path))]
    assert len(claims) == (0 if path.name in PLAIN else 1)


@each_row(
    "text",
    [
        '[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}]',
        '[{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "hello"}]}]',
        '[{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]',
        '{"type": "reasoning", "summary": []}\n{"type": "message", "role": "user", "content": "x"}',
        '{"messages": [{"role": "user", "content": "x"}], "model": "m", "sessionId": "s"}',
        '[{"role": "assistant", "content": "Run this:\\n```bash\\nls\\n```"}, {"role": "user", "content": "done"}]',
        '{"role": "user", "content": "one message"}',
    ],
)
def test_no_reader_detects_plain_messages(text: str):
    session = load(text, "s")
    assert (session.agent, session.notes, session.conversations) == (None, (), 1)


# Files as such


def codex(*items: Value) -> str:
    return lines({"type": "session_meta", "payload": {"id": "1"}}, *items)


def item(kind: str, **payload: Value) -> Value:
    return {"type": "response_item", "payload": {"type": kind, **payload}}


def user(text: str) -> Value:
    return item("message", role="user", content=[{"type": "input_text", "text": text}])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (codex(user("hello")) + '{"type": "response_item", "payl', 3),
        ('{"role": "user", "content": "hello"}\n{"role": "assistant", "conte', 2),
        ('{"role": "user", "content": "hello"}\n\n{"role": "assistant", "content": "h\u00e9', 3),
        ('{"role": "user", "content": "hello"}\r\n{', 2),
    ],
)
def test_a_last_line_that_was_cut_off_is_left_out_with_a_note(text: str, number: int):
    session = load(text, "s")
    assert said(session) == ["user:hello"]
    assert session.notes[0] == f"line {number} is cut off, left out"


GOOD = '{"role": "user", "content": "hello"}'


@each_row("cut", range(1, 40))
def test_a_file_cut_off_within_a_line_or_a_character_is_read_up_to_there(cut: int):
    whole = '{"role": "user", "content": "你好"}\n'.encode()
    session = load(decode(whole * 3 + whole[:cut], "s"), "s")
    assert len(session.messages) == (4 if cut >= len(whole) - 1 else 3)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        (f"{GOOD}\n{{broken\n{GOOD}", " 2 is"),
        (f"{{broken\n{GOOD}\n{GOOD}", " 1 is"),
        (f"{GOOD}\nTraceback (most recent call last):\n\n{GOOD}{GOOD}\n{GOOD}", "s 2, 4 are"),
        (f'{GOOD}\n{{"role": "user", "score": NaN}}\n{GOOD}', " 2 is"),
    ],
)
def test_broken_lines_are_skipped_on_request_or_else_an_error_names_the_first(text: str, broken: str):
    session = load(text, "s", skip_broken=True)
    assert (said(session), session.notes) == (["user:hello"] * 2, (f"line{broken} broken, left out",))
    first = int(re.findall(r"\d", broken)[0])
    with pytest.raises(SessionError, match=f"line {first}") as caught:
        load(text, "s")
    assert caught.value.line == first


@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@each_row("wrap", [bytes, gzip.compress, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])])
def test_files_in_every_unicode_encoding_and_gzip_are_read(encoding: str, wrap: Callable[[bytes], bytes]):
    text = '{"role": "user", "content": "héllo 你好 🎈"}\n'
    assert decode(wrap(text.encode(encoding)), "s") == text


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"a": "' + b"\xff" * 20 + b'"}', "s is not UTF-8 text: byte 7 is 0xff"),
        (b"\xff\xfe{\x00\x00\xdc}\x00", "s is not UTF-16 text: byte 4"),
        (gzip.compress(b"x" * 999, mtime=0)[:-9], "s is a gzip file that is damaged or cut off"),
        (b"\x1f\x8bnonsense, really", "s is a gzip file that is damaged or cut off"),
    ],
)
def test_bytes_that_are_not_text_raise_an_error_with_their_place(data: bytes, what: str):
    with pytest.raises(SessionError, match=what):
        decode(data, "s")


def test_replacement_characters_that_the_agent_wrote_are_not_bad_bytes():
    text = '{"role": "user", "content": "' + "\ufffd" * 20
    assert decode(text.encode() + b'\xff"}', "s") == text + '\ufffd"}'


# Bytes that are no text

LETTER = re.compile(rb"(?<=[a-z] )[a-z](?=[a-z ])")  # within words, and so within a string


@each_row("path", [path for path in SAMPLES if path.name not in PLAIN], ids=lambda path: path.name)
@each_row("bad", [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80"])
def test_a_bad_byte_in_a_string_becomes_a_replacement_character_with_a_note(path: Path, bad: bytes):
    data = path.read_bytes()
    whole = load(decode(data, "s"), "s")
    places = [found.start() for found in LETTER.finditer(data)]
    for at in sample_cases(places[:: max(1, len(places) // 20)]):
        damaged = data[:at] + bad + data[at + 1 :]
        session = load(decode(damaged, "s"), "s")
        assert session.notes[0].startswith("characters \ufffd, which stand for bytes that are not UTF-8: ")
        assert (len(session.messages), session.agent) == (len(whole.messages), whole.agent)
        assert session.write(session.messages).encode()
        assert agent_log(decode(damaged, "s")) == agent_log(data.decode())


@each_row("path", SAMPLES, ids=lambda path: path.name)
def test_an_agents_log_differs_from_the_conversation_written_from_it(path: Path):
    text = path.read_text(encoding="utf-8")
    session = load(text, "s")
    log = agent_log(text)
    assert (log and log.agent) == session.agent or text == session.write(session.messages)
    assert agent_log(session.write(session.messages)) is None


@each_row(
    ("text", "where"),
    [
        (codex(user("a")) + '{"type": \n' + json.dumps({"type": "event_msg", "payload": {}}), "line 3, column 10"),
        ('{"role": "user"}\n{"role": \n{"role": "user"}', "line 2, column 10"),
        ('{"role": "user"}\n{"role": "user", "score": NaN}', "s holds NaN in line 2, which is not a number in JSON"),
        ('[{"role": "user", "score": -Infinity}]', "s holds -Infinity, which is not a number in JSON"),
        ('[{"role": "user", "score": 1e999}]', "s holds 1e999, which is not a number in JSON"),
    ],
    ids=["in an agent's log, not last", "in plain messages, not last", "NaN", "infinity", "an infinite number"],
)
def test_any_other_broken_line_raises_an_error_with_its_place(text: str, where: str):
    with pytest.raises(SessionError, match=where):
        load(text, "s")


def test_a_conversation_is_chosen_by_number_and_one_out_of_range_raises_an_error_with_the_count():
    text = json.dumps({"tasks": [[{"role": "user", "content": f"task {n}"}] for n in (1, 2)]})
    tasks = Reader("mine", lambda values: True, lambda values: [Conversation(task) for task in values[0]["tasks"]])
    assert [said(load(text, "s", run, readers=[tasks])) for run in (1, 2)] == [["user:task 1"], ["user:task 2"]]
    for run in (0, 3, -1):
        with pytest.raises(SessionError, match=f"s has no conversation {run}: it holds 2 conversations"):
            load(text, "s", run, readers=[tasks])
    with pytest.raises(SessionError, match=r"s has no conversation 2: it holds 1 conversation$"):
        load('[{"role": "user"}]', "s", 2)


@each_row(("found", "kinds"), [([{"role": "user"}], "dict"), (None, "NoneType"), ([Conversation([]), 5], "int")])
def test_a_reader_that_returns_no_conversations_is_named(found: Value, kinds: str):
    mine = Reader("mine", lambda values: True, lambda values: found)
    for use in (load, recordings):
        with pytest.raises(SettingsError, match=f"read of the reader mine must return conversations, not .*{kinds}"):
            use(lines({"a": 1}, {"b": 2}), "s", readers=[mine])


def test_a_conversation_from_an_agents_file_is_written_as_a_list_of_messages():
    session = load(codex(user("é")), "s")
    text = session.write(session.messages)
    assert json.loads(text) == session.messages
    assert (load(text, "again").messages, load(text, "again").agent) == (session.messages, None)


@each_row(
    ("text", "what"),
    [
        (
            lines({"type": "user", "uuid": "1", "parentUuid": None, "message": {}}),
            "claude-code, but record 1 is a line",
        ),
        (codex({"payload": 3}), "codex, but record 2 is not a line of a Codex session"),
        (lines({"type": "session", "id": "1"}, {"type": "message", "message": 3}), "pi, but record 2 is an entry"),
        (lines({"type": "session.start", "data": {}}, {"type": "abort"}), "copilot-cli, but record 2 is not an event"),
        (lines({"sessionId": "s", "projectHash": "h"}, {"n": 1}), "gemini-cli, but record 2 is neither a message"),
        ('{"version": 1, "sessionId": "s", "agent": "lead", "messages": [{}]}', "cline, but record 1 of the messages"),
    ],
)
def test_a_broken_agents_file_raises_an_error_with_the_place(text: str, what: str):
    with pytest.raises(SessionError) as caught:
        load(text, "s")
    assert f"s is a session file of {what}" in str(caught.value)


# Formats without a reader

OPENCODE = [
    {"info": {"role": "user", "id": "msg_1"}, "parts": [{"type": "text", "text": "go"}]},
    {
        "info": {"role": "assistant", "modelID": "m"},
        "parts": [{"type": "tool", "tool": "bash", "callID": "c", "state": {"status": "completed", "output": "ok"}}],
    },
]
ANTIGRAVITY = [
    {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": "go"},
    {"step_index": 1, "source": "MODEL", "type": "PLANNER_RESPONSE", "tool_calls": [{"name": "view_file", "args": {}}]},
    {"step_index": 2, "source": "MODEL", "type": "VIEW_FILE", "content": "1: a"},
]
STREAM = [
    {"type": "init", "session_id": "s", "model": "m"},
    {"type": "message", "role": "user", "content": "go"},
    {"type": "tool_use", "tool_name": "ls", "tool_id": "t", "parameters": {}},
    {"type": "tool_result", "tool_id": "t", "status": "success", "output": "a"},
]
CURSOR = [
    {"role": "user", "message": {"content": [{"type": "text", "text": "Write a.py."}]}},
    {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "Write", "input": {"path": "a.py"}}]}},
]
KIMI = [
    {"type": "metadata", "protocol_version": "1.4", "created_at": 1},
    {"type": "turn.prompt", "input": [{"type": "text", "text": "hi"}], "time": 2},
]
QWEN = [
    {"uuid": "1", "parentUuid": None, "type": "user", "message": {"role": "user", "parts": [{"text": "hi"}]}},
    {"uuid": "2", "parentUuid": "1", "type": "assistant", "message": {"role": "model", "parts": [{"text": "Yes?"}]}},
]
EVENTS = [
    {"type": "step_start", "sessionID": "ses_1", "part": {"type": "step-start"}},
    {"type": "text", "sessionID": "ses_1", "part": {"type": "text", "text": "Yes."}},
]
STORED = [
    {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "tokens": {"input": 9, "output": 3}},
    {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "reasoning", "text": "Hm."},
    {"id": "prt_2", "messageID": "msg_1", "type": "text", "text": "Yes."},
]
AMP = [
    {"role": "user", "messageId": 0, "content": [{"type": "text", "text": "hi"}]},
    {"role": "assistant", "messageId": 1, "content": [{"type": "tool_use", "id": "1", "name": "Read", "input": {}}]},
    {"role": "user", "messageId": 2, "content": [{"type": "tool_result", "toolUseID": "1", "run": {"result": "x"}}]},
]
GOOSE = [
    {"role": "user", "created": 1, "content": [{"type": "text", "text": "hi"}]},
    {"role": "assistant", "created": 2, "content": [{"type": "toolRequest", "id": "1", "toolCall": {"value": {}}}]},
]
DISPLAYED = [{"ts": 1, "type": "say", "say": "text", "text": "hi"}, {"ts": 2, "type": "ask", "ask": "followup"}]


@each_row(
    "text, what",
    [
        (json.dumps({"id": "T-1", "messages": AMP}), "a thread of Amp"),
        (json.dumps({"messages": GOOSE}), "a session of Goose"),
        (lines(*GOOSE), "a session of Goose"),
        (
            json.dumps(DISPLAYED),
            r"what Cline or Roo Code displayed \(what they sent is in api_conversation_history.json\)",
        ),
        (json.dumps({"info": {"id": "ses_1"}, "messages": OPENCODE}), "an export of opencode"),
        (json.dumps(OPENCODE), "an export of opencode"),
        (lines(*ANTIGRAVITY), "a transcript of Antigravity"),
        (json.dumps(ANTIGRAVITY), "a transcript of Antigravity"),
        (lines(*STREAM), "a stream of events of Gemini CLI"),
        (lines(*CURSOR), "a transcript of Cursor"),
        (lines(*KIMI), "a log of Kimi CLI"),
        (lines(*QWEN), "a log of Qwen Code"),
        (lines(*EVENTS), "a stream of events of opencode"),
        *((json.dumps(each), "a message or a part of one from opencode's storage") for each in STORED),
    ],
)
@each_row("read", [load, recordings])
def test_a_format_without_a_reader_is_named(read: Value, text: str, what: str):
    with pytest.raises(SessionError, match=f"^s is {what}, which autoprune cannot read: give a JSON list of"):
        read(text, "s")


@each_row(
    "message",
    [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]},
        {"id": 0, "role": "user", "segments": [{"type": "text", "text": "hi"}]},
    ],
    ids=["AI SDK", "Zed"],
)
def test_messages_without_a_content_that_a_format_reads_are_refused(message: Value):
    with pytest.raises(
        SessionError, match=r"^s holds an object with the fields id, role, [a-z]+ where a message with 'con"
    ):
        load(json.dumps([message]), "s")


def test_messages_that_roo_code_summarized_or_cut_are_left_out():
    first, cut, kept = ({"role": "user", "content": text} for text in ("hi", "long", "go on"))
    summary = {"role": "user", "content": "so far", "isSummary": True, "condenseId": "c"}
    marker = {"role": "user", "content": "cut here", "truncationId": "t"}
    undone = {**kept, "condenseParent": "gone"}
    messages = [{**first, "condenseParent": "c"}, summary, {**cut, "truncationParent": "t"}, marker, undone]
    session = load(json.dumps(messages), "s")
    assert session.messages == [summary, marker, undone]
    assert session.notes == ("messages that the agent has summarized or cut, left out: 2",)


UNREAD = "calls with fields that are not read ({}), so names or arguments may be missing: 2"


@each_row(
    "call, result, notes",
    [
        (
            {"type": "tool_use", "tool_name": "Read", "tool_id": "a", "tool_input": {"path": "a.py"}},
            {"type": "tool_result", "tool_id": "a", "content": "A"},
            (UNREAD.format("tool_name, tool_id, tool_input"),),
        ),
        (
            {"type": "tool-call", "toolName": "Read", "toolCallId": "a", "input": {}},
            {"type": "tool-result", "toolName": "Read", "toolCallId": "a", "output": "A"},
            (UNREAD.format("toolName, toolCallId"),),
        ),
        (
            {"type": "tool_use", "name": "Read", "id": "a", "input": {}},
            {"type": "tool_result", "tool_use_id": "a", "content": "A"},
            (),
        ),
    ],
)
def test_calls_in_fields_that_no_format_reads_are_noted(call: Value, result: Value, notes: tuple[str, ...]):
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]}]
    messages = [*said, {"role": "user", "content": [result]}]
    assert load(json.dumps(messages), "s").notes == notes
    assert load(lines(*messages), "s").notes == notes
    assert recordings(json.dumps(messages), "s")[0][0].notes == notes


# Claude Code


def claude(uuid: str, parent: str | None, content: Value, message_id: str = "", **more: Value) -> Value:
    """A line: the assistant's if it has a message id."""
    role = "assistant" if message_id else "user"
    blocks = [content] if isinstance(content, dict) else content
    message = {"role": role, "content": blocks, "id": message_id}
    return {"type": role, "uuid": uuid, "parentUuid": parent, "message": message, **more}


def use(call_id: str, name: str = "Read") -> Value:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def answer(call_id: str, content: str) -> Value:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def words(text: str) -> Value:
    return {"type": "text", "text": text}


def test_claude_code_continues_from_the_newest_branch():
    first = [claude("1", None, "hello"), claude("2", "1", words("Hi."), "m1"), claude("3", "2", "old way")]
    assert said(load(lines(*first), "s")) == ["user:hello", "assistant:Hi.", "user:old way"]
    session = load(lines(*first, claude("4", "2", "new way")), "s")
    assert said(session) == ["user:hello", "assistant:Hi.", "user:new way"]
    assert "lines of abandoned branches, left out: 1" in session.notes


def test_claude_codes_parallel_results_are_collected_from_their_branches():
    text = lines(
        claude("1", None, "read both"),
        claude("2", "1", use("a"), "m1"),
        claude("3", "2", use("b"), "m1"),
        claude("5", "3", answer("b", "B")),
        claude("4", "2", answer("a", "A")),
        claude("6", "4", words("Read."), "m2"),
    )
    assert said(load(text, "s")) == ["user:read both", "assistant:Read+Read", "user:A+B", "assistant:Read."]


def test_a_line_that_claude_code_wrote_twice_counts_once():
    once = [claude("1", None, "hello"), claude("2", "1", use("a"), "m1"), claude("3", "2", answer("a", "A"))]
    again = [*once, once[0], once[1], {**once[1], "uuid": "9", "parentUuid": "2"}, once[2]]
    assert load(lines(*again), "s").messages == load(lines(*once), "s").messages


def test_a_call_of_claude_code_without_a_result_is_left_out_and_so_is_the_thought_before_it():
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    kept = [claude("1", None, "hello"), claude("2", "1", words("I look."), "m1"), claude("3", "2", use("a"), "m1")]
    assert said(load(lines(*kept), "s")) == ["user:hello", "assistant:I look."]
    behind = load(lines(*kept[:2], claude("3", "2", thought, "m1"), claude("4", "3", use("a"), "m1")), "s")
    assert said(behind) == ["user:hello", "assistant:I look."]
    alone = load(lines(kept[0], claude("2", "1", thought, "m1"), claude("3", "2", use("a"), "m1")), "s")
    assert said(alone) == ["user:hello"]
    assert "calls without a result, left out: 1" in alone.notes


def test_sub_agents_lines_are_left_out_but_their_own_logs_are_read():
    own = [claude("1", None, "go"), claude("2", "1", words("Done."), "m1")]
    other = [claude("3", None, "sub", isSidechain=True), claude("4", "3", words("Found."), "m2", isSidechain=True)]
    session = load(lines(*own, *other), "s")
    assert said(session) == ["user:go", "assistant:Done."]
    assert "lines of sub-agents, left out: 2" in session.notes
    assert said(load(lines(*other), "s")) == ["user:sub", "assistant:Found."]


BOUNDARY = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "logicalParentUuid": "4"}
BEFORE = [claude("1", None, "one"), claude("2", "1", words("A."), "m1"), claude("3", "2", "two")]
AFTER = [claude("s", "b", "summary", isCompactSummary=True), claude("6", "s", "go on")]


@each_row(
    ("metadata", "expected"),
    [
        (None, ["user:summary+go on"]),
        ({"trigger": "auto"}, ["user:summary+go on"]),
        (
            {"preservedSegment": {"headUuid": "2", "anchorUuid": "s", "tailUuid": "3"}},
            ["user:summary", "assistant:A.", "user:two+go on"],
        ),
        (
            {"preservedMessages": {"anchorUuid": "s", "uuids": ["2", "3"]}},
            ["user:summary", "assistant:A.", "user:two+go on"],
        ),
        ({"preservedSegment": {"headUuid": "?", "anchorUuid": "s", "tailUuid": "3"}}, ["user:summary+go on"]),
        ({"preservedMessages": {"anchorUuid": "s", "uuids": ["2", "?"]}}, ["user:summary+go on"]),
    ],
)
def test_claude_code_continues_from_a_compaction_with_the_messages_that_it_kept(metadata: Value, expected: list[str]):
    session = load(lines(*BEFORE, {**BOUNDARY, "compactMetadata": metadata}, *AFTER), "s")
    assert said(session) == expected


def test_a_summary_whose_parent_is_no_uuid_begins_its_stretch():
    session = load(lines(*BEFORE, claude("s", ["3"], "summary", isCompactSummary=True), claude("6", "s", "go on")), "s")
    assert said(session) == ["user:summary+go on"]
    assert len(recordings(lines(*BEFORE, claude("s", ["3"], "summary", isCompactSummary=True)), "s")[0]) == 2


def test_a_report_of_a_failed_request_is_not_sent_but_queued_messages_are():
    text = lines(
        claude("1", None, "hello"),
        claude("2", "1", words("API Error: 500"), "m1", isApiErrorMessage=True),
        claude("3", "2", words("Hi."), "m2"),
        {"type": "attachment", "uuid": "4", "parentUuid": "3", "attachment": {"type": "todo_reminder"}},
        {
            "type": "attachment",
            "uuid": "5",
            "parentUuid": "4",
            "attachment": {"type": "queued_command", "prompt": "And?"},
        },
    )
    assert said(load(text, "s")) == ["user:hello", "assistant:Hi.", "user:And?"]


@each_row(
    "lost, expected, note",
    [
        (
            [claude("2", "lost", use("a"), "m1"), claude("3", "2", answer("a", "A"))],
            ["user:The first message was not recorded.", "assistant:Read", "user:A+next"],
            "first messages that were lost, replaced by a remark: 1",
        ),
        ([claude("3", "lost", words("Hi."), "m1")], ["user:next"], "messages before the user's first, left out: 1"),
    ],
)
def test_a_conversation_without_its_start_begins_with_the_users_words(lost: Value, expected: list[str], note: str):
    session = load(lines(*lost, claude("4", "3", "next")), "s")
    assert (said(session), note in session.notes) == (expected, True)


@each_row("at, lost", [(1, "assistant:Hi."), (2, "user:read"), (5, "assistant:Read.")])
def test_a_broken_line_of_claude_code_costs_itself(at: int, lost: str):
    logged = [
        *(claude("1", None, "hello"), claude("2", "1", words("Hi."), "m1"), claude("3", "2", "read")),
        *(claude("4", "3", use("a"), "m2"), claude("5", "4", answer("a", "A")), claude("6", "5", words("Read."), "m3")),
        claude("7", "6", "next"),
    ]
    broken = lines(*logged[:at]) + '{"type": \n' + lines(*logged[at + 1 :])
    session = load(broken, "s", skip_broken=True)
    whole = "|".join(said(load(lines(*logged), "s"))).replace("+", "|user:").split("|")
    assert "|".join(said(session)).replace("+", "|user:").split("|") == [each for each in whole if each != lost]
    assert f"line {at + 1} is broken, left out" in session.notes
    assert "records whose parent was lost, placed after the record before them: 1" in session.notes


def test_a_compaction_of_claude_code_whose_boundary_was_lost_begins_at_its_summary():
    text = lines(*BEFORE, *AFTER)
    assert said(load(text, "s")) == ["user:summary+go on"]
    [[before, after]] = recordings(text, "s")
    assert (len(before.messages), len(after.messages)) == (3, 1)


# Codex


def model(text: str) -> Value:
    return item("message", role="assistant", content=[{"type": "output_text", "text": text}])


def event(kind: str, **payload: Value) -> Value:
    return {"type": "event_msg", "payload": {"type": kind, **payload}}


STARTED = event("task_started")
CONTEXT = user("<environment_context>here</environment_context>")
TURNS = [CONTEXT, user("one"), model("1"), CONTEXT, user("two"), model("2")]
MARKED = [CONTEXT, STARTED, user("one"), model("1"), STARTED, CONTEXT, user("two"), model("2")]


@each_row("turns", [TURNS, MARKED], ids=["unmarked turns", "marked turns"])
@each_row(
    ("count", "expected"),
    [
        (0, ["user:<env", "user:one", "assistant:1", "user:<env", "user:two", "assistant:2", "user:go"]),
        (1, ["user:<env", "user:one", "assistant:1", "user:go"]),
        (2, ["user:<env", "user:go"]),
        (9, ["user:<env", "user:go"]),
        ("?", ["user:<env", "user:one", "assistant:1", "user:<env", "user:two", "assistant:2", "user:go"]),
    ],
)
def test_codex_rolls_back_the_users_last_turns(turns: list[Value], count: Value, expected: list[str]):
    more = [event("thread_rolled_back", num_turns=count), STARTED, user("go")]
    session = load(codex(*turns, *(more if turns is MARKED else [more[0], more[2]])), "s")
    assert [each[:13].replace("<environ", "<env") if "<env" in each else each for each in said(session)] == expected


def compacted(message: str, replacement: list[Value] | None = None) -> Value:
    return {"type": "compacted", "payload": {"message": message, "replacement_history": replacement}}


def test_a_compaction_of_codex_replaces_the_history_and_a_later_rollback_restores_it():
    replacement = [user("one")["payload"], user("summary")["payload"]]
    turn = [STARTED, user("two"), compacted("", replacement), model("2")]
    log = [STARTED, user("one"), model("1"), *turn]
    assert said(load(codex(*log), "s")) == ["user:one", "user:summary", "assistant:2"]
    back = load(codex(*log, event("thread_rolled_back", num_turns=1)), "s")
    assert said(back) == ["user:one", "assistant:1"]


def test_a_compaction_without_a_history_keeps_the_users_newest_messages_and_the_summary():
    log = [CONTEXT, user("one"), model("1"), user("two"), compacted("Prefix\nall so far"), user("three")]
    assert said(load(codex(*log), "s")) == ["user:one", "user:two", "user:Prefix\nall so far", "user:three"]
    again = load(codex(*log, compacted("Prefix\nmore")), "s")
    assert said(again) == ["user:one", "user:two", "user:three", "user:Prefix\nmore"]
    assert said(load(codex(compacted("")), "s")) == ["user:(no summary available)"]


def test_a_compaction_without_a_history_cuts_the_users_messages_at_20_000_tokens():
    long = "a" * 30_000 + "b" * 60_000
    session = load(codex(user("old"), user(long), user("c" * 20_000), compacted("s")), "s")
    texts = [message["content"][0]["text"] for message in session.messages]
    assert texts == ["a" * 30_000 + "…7500 tokens truncated…" + "b" * 30_000, "c" * 20_000, "s"]


def call(call_id: str) -> Value:
    return item("function_call", call_id=call_id, name="f", arguments="{}")


def output(call_id: str, text: Value) -> Value:
    return item("function_call_output", call_id=call_id, output=text)


def test_codex_answers_an_open_call_and_drops_a_result_without_a_call():
    log = [user("go"), call("a"), call("b"), output("b", "B"), output("b", "B again"), output("c", "C")]
    session = load(codex(*log), "s")
    shown = [message.get("output") or message["type"] for message in session.messages]
    assert shown == ["message", "function_call", "aborted", "function_call", "B"]
    assert session.notes[1:] == (
        "calls without a result, answered with a remark: 1",
        "results that answer no call, or answer it again, left out: 2",
    )


def test_codex_answers_the_open_one_of_two_calls_with_one_id():
    session = load(codex(user("go"), call("a"), output("a", "A"), call("a"), call("b"), output("b", "B")), "s")
    shown = [message.get("output") or message["type"] for message in session.messages]
    assert shown == ["message", "function_call", "A", "function_call", "aborted", "function_call", "B"]


def test_a_result_that_the_log_holds_before_its_call_moves_behind_it():
    session = load(codex(user("go"), output("a", "A"), call("a"), ANSWER), "s")
    shown = [message.get("output") or message["type"] for message in session.messages]
    assert shown == ["message", "function_call", "A", "message"]
    assert not [note for note in session.notes if "call" in note]


@each_row(
    ("payload", "expected"),
    [
        ({"type": "reasoning", "summary": [], "content": None}, []),
        ({"type": "reasoning", "summary": [], "content": None, "encrypted_content": "g"}, []),
        ({"type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]}, []),
        (
            {"type": "compaction_summary", "encrypted_content": "g"},
            [{"type": "compaction", "encrypted_content": "g"}],
        ),
        ({"type": "ghost_snapshot", "ghost_commit": {}}, []),
        ({"type": "invented_item"}, []),
        (
            {"type": "tool_search_call", "call_id": "t", "execution": "client", "arguments": {}},
            [
                {"type": "tool_search_call", "call_id": "t", "execution": "client", "arguments": {}},
                {
                    "type": "tool_search_output",
                    "call_id": "t",
                    "status": "completed",
                    "execution": "client",
                    "tools": [],
                },
            ],
        ),
        (
            {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
            [{"type": "tool_search_call", "execution": "server", "arguments": {}}],
        ),
    ],
)
def test_codex_sends_only_what_the_api_takes(payload: Value, expected: list[Value]):
    assert load(codex({"type": "response_item", "payload": payload}), "s").messages == expected


THOUGHT = item("reasoning", id="rs_1", summary=[], encrypted_content="g")
OTHER_THOUGHT = item("reasoning", summary=[], encrypted_content="h")
ANSWER = item("message", role="assistant", content=[{"type": "output_text", "text": "Done."}])


@each_row(
    ("log", "kinds", "alone"),
    [
        ([user("go"), THOUGHT], ["message"], 1),
        ([user("go"), THOUGHT, THOUGHT], ["message"], 2),
        ([user("go"), THOUGHT, user("stop")], ["message", "message"], 1),
        ([user("go"), call("a"), THOUGHT, output("a", "A")], ["message", "function_call", "function_call_output"], 1),
        ([user("go"), THOUGHT, call("a")], ["message", "reasoning", "function_call", "function_call_output"], 0),
        ([user("go"), OTHER_THOUGHT, THOUGHT, ANSWER, THOUGHT], ["message", "reasoning", "reasoning", "message"], 1),
    ],
)
def test_reasoning_of_codex_that_nothing_follows_is_left_out(log: list[Value], kinds: list[str], alone: int):
    session = load(codex(*log), "s")
    assert [message["type"] for message in session.messages] == kinds
    assert [note for note in session.notes if "reasoning" in note] == (
        [f"reasoning that nothing follows, left out: {alone}"] if alone else []
    )
    assert problems(session.messages, "openai_responses") == []


@each_row("kind", sorted(SENT))
def test_each_item_that_codex_sends_is_one_of_the_responses_api(kind: str):
    [seen] = [each.NAME for each in SHIPPED if each.seen({"type": kind, "content": [{"type": "input_text"}]})]
    assert seen == "openai_responses"


def test_unknown_items_of_codex_are_named_in_a_note():
    assert "items of unknown types, left out: invented_item" in load(codex(item("invented_item")), "s").notes


# Gemini CLI


def gemini(*records: Value) -> str:
    return lines({"sessionId": "s", "projectHash": "h"}, *records)


def record(record_id: str, kind: str, content: Value, **more: Value) -> Value:
    return {"id": record_id, "type": kind, "content": content, **more}


def spoken(session: Session) -> list[str]:
    return [part.get("text", "?") for content in session.messages for part in content["parts"]]


@each_row(
    ("change", "expected"),
    [
        ({"$set": {"lastUpdated": "later"}}, ["a", "b", "c"]),
        ({"$rewindTo": "3"}, ["a", "b"]),
        ({"$rewindTo": "1"}, []),
        ({"$rewindTo": "unknown"}, []),
        ({"$set": {"messages": [record("9", "user", "z")]}}, ["z"]),
        (record("2", "gemini", "B"), ["a", "B", "c"]),
        (record("4", "info", "note"), ["a", "b", "c"]),
        (record("4", "user", "/help"), ["a", "b", "c"]),
        (record("4", "user", "<session_context>x"), ["a", "b", "c"]),
        (record("4", "user", ["d", {"text": "e"}]), ["a", "b", "c", "d", "e"]),
    ],
)
def test_later_lines_change_a_gemini_chat(change: Value, expected: list[str]):
    start = [record("1", "user", "a"), record("2", "gemini", "b"), record("3", "user", "c")]
    assert spoken(load(gemini(*start, change), "s")) == expected


def ran(call_id: str, result: Value) -> Value:
    return {"id": call_id, "name": "run", "args": {}, "result": result}


def replied(call_id: str) -> Value:
    return {"functionResponse": {"id": call_id, "name": "run", "response": {"output": call_id}}}


PICTURE = {"inlineData": {"mimeType": "image/png", "data": "aa"}}


@each_row(
    ("calls", "expected"),
    [
        ([ran("a", [replied("a")]), ran("b", [replied("b"), PICTURE])], [replied("a"), replied("b"), PICTURE]),
        ([ran("a", [replied("a"), replied("b"), PICTURE])] * 1, [replied("a"), PICTURE]),
        (
            [ran("a", [replied("a"), replied("b"), PICTURE]), ran("b", [replied("a"), replied("b"), PICTURE])],
            [replied("a"), replied("b"), PICTURE],
        ),
        ([ran("a", "a")], [replied("a")]),
        ([ran("a", None)], [{"functionResponse": {"id": "a", "name": "run", "response": {"error": NO_RESULT}}}]),
    ],
    ids=["apart", "more than its own", "all with each", "text", "none"],
)
def test_responses_to_geminis_calls_come_once_and_in_one_content(calls: list[Value], expected: list[Value]):
    session = load(gemini(record("1", "user", "go"), record("2", "gemini", "", toolCalls=calls)), "s")
    assert session.messages[2] == {"role": "user", "parts": expected}


def test_a_response_has_the_id_of_the_call_whose_name_it_has():
    asked = record("2", "gemini", [{"functionCall": {"name": "run", "args": {}}}], toolCalls=[ran("a", [replied("a")])])
    session = load(gemini(record("1", "user", "go"), asked), "s")
    response = {"name": "run", "response": {"output": "a"}}
    assert session.messages[2] == {"role": "user", "parts": [{"functionResponse": response}]}


def test_a_response_that_gemini_records_twice_counts_once():
    asked = record("2", "gemini", [{"functionCall": {"id": "a", "name": "run", "args": {}}}])
    copy_of_it = record("3", "user", [replied("a")])
    with_result = {**asked, "toolCalls": [ran("a", [replied("a")])]}
    for log in ([asked, copy_of_it], [with_result, copy_of_it], [with_result]):
        session = load(gemini(record("1", "user", "go"), *log), "s")
        assert session.messages[2:] == [{"role": "user", "parts": [replied("a")]}]
        assert len(session.notes) == 1


# Copilot CLI


def copilot(kind: str, event_id: str = "", **data: Value) -> Value:
    return {"type": kind, "id": event_id, "data": data}


COPILOT = [
    copilot("session.start"),
    copilot("system.message", role="system", content="old rules"),
    copilot("user.message", content="hi", transformedContent="<now>\nhi"),
    copilot("assistant.message", content="Hello."),
]


@each_row(
    ("events", "expected"),
    [
        ([], ["system:old rules", "user:<now>\nhi", "assistant:Hello."]),
        (
            [copilot("session.resume"), copilot("system.message", role="system", content="new rules")],
            ["system:new rules", "user:<now>\nhi", "assistant:Hello."],
        ),
        ([copilot("session.context_cleared", messagesCleared=2)], ["system:old rules"]),
        (
            [copilot("session.context_cleared", messagesCleared=2, initialMessage="again")],
            ["system:old rules", "user:again"],
        ),
        (
            [
                copilot("session.compaction_start"),
                copilot("user.message", content="meanwhile"),
                copilot("session.compaction_complete", success=True, summaryContent="so far"),
            ],
            [
                "system:old rules",
                "user:<user_message>\n<now>\nhi\n</user_message>\n\n<summary>\nso far\n</summary>",
                "user:meanwhile",
            ],
        ),
        (
            [copilot("session.compaction_complete", success=True, summaryContent="so far")],  # its start was lost
            [
                "system:old rules",
                "user:<user_message>\n<now>\nhi\n</user_message>\n\n<summary>\nso far\n</summary>",
            ],
        ),
        (
            [copilot("session.compaction_start"), copilot("session.compaction_complete", success=False, error="no")],
            ["system:old rules", "user:<now>\nhi", "assistant:Hello."],
        ),
        (
            [copilot("tool.execution_complete", toolCallId="u", isUserRequested=True, result={"content": "x"})],
            ["system:old rules", "user:<now>\nhi", "assistant:Hello."],
        ),
        (
            [copilot("assistant.message", "e1", content="Once."), copilot("assistant.message", "e1", content="Once.")],
            ["system:old rules", "user:<now>\nhi", "assistant:Hello.", "assistant:Once."],
        ),
    ],
)
def test_copilot_events_become_messages(events: list[Value], expected: list[str]):
    assert said(load(lines(*COPILOT, *events), "s")) == expected


def test_free_text_for_a_custom_tool_of_copilot_becomes_json():
    request = {"toolCallId": "c", "name": "apply_patch", "type": "custom", "arguments": "*** Begin Patch"}
    done = copilot("tool.execution_complete", toolCallId="c", success=True, result={"content": "ok"})
    session = load(lines(*COPILOT, copilot("assistant.message", content="", toolRequests=[request]), done), "s")
    assert session.messages[-2]["tool_calls"][0]["function"]["arguments"] == '{"input":"*** Begin Patch"}'


# pi


def pi(*entries: Value) -> str:
    return lines({"type": "session", "version": 3, "id": "s"}, *entries)


def entry(entry_id: str, parent: str | None, role: str, content: Value, **more: Value) -> Value:
    message = {"role": role, "content": content, **more}
    return {"type": "message", "id": entry_id, "parentId": parent, "message": message}


def test_pi_continues_from_the_branch_of_the_last_entry():
    start = [entry("1", None, "user", "one"), entry("2", "1", "user", "old")]
    assert said(load(pi(*start), "s")) == ["user:one+old"]
    assert said(load(pi(*start, entry("3", "1", "user", "new")), "s")) == ["user:one+new"]


@each_row("at, expected", [(1, "user:two+three+four"), (2, "user:one+three+four"), (3, "user:one+two+four")])
def test_a_broken_line_of_pi_costs_itself(at: int, expected: str):
    entries = [entry("1", None, "user", "one"), entry("2", "1", "user", "two"), entry("3", "2", "user", "three")]
    rows = pi(*entries, entry("4", "3", "user", "four")).splitlines(keepends=True)
    session = load("".join([*rows[:at], '{"type": \n', *rows[at + 1 :]]), "s", skip_broken=True)
    assert said(session) == [expected]
    assert session.notes[0] == f"line {at + 1} is broken, left out"


def test_the_system_prompt_in_a_session_of_pi_is_not_a_message():
    sections = {"preamble": "You are pi.", "rules": None, "tools": "read, bash"}
    system = entry("1", None, "system", "Hm.", sections=sections)
    session = load(pi(system, entry("2", "1", "user", "one")), "s")
    assert (said(session), session.notes) == (
        ["user:one"],
        ("the system prompt is sent beside the messages: 24 characters",),
    )


def test_a_session_of_pi_without_its_header_is_read():
    entries = [{**entry("1", None, "user", "one"), "timestamp": "t"}, entry("2", "1", "user", "two")]
    session = load(lines(*entries), "s")
    assert (session.agent, said(session)) == ("pi", ["user:one+two"])


def test_a_header_like_that_of_pi_above_events_of_another_agent_is_not_read_as_pi():
    header = {"type": "session", "version": 0, "id": "s", "cwd": "/shop"}
    assert load(lines(header), "s").agent == "pi"
    with pytest.raises(SessionError, match=r"^s line 1 holds an object with the fields type, version, id, cwd where"):
        load(lines(header, {"type": "user/message", "seq": 1, "data": {"text": "hi"}}), "s")


def test_what_pi_kept_begins_behind_a_lost_entry():
    entries = [
        *(entry("1", None, "user", "one"), entry("3", "2", "user", "three")),
        {"type": "compaction", "id": "4", "parentId": "3", "summary": "s", "firstKeptEntryId": "2"},
        entry("5", "4", "user", "five"),
    ]
    assert said(load(pi(*entries), "s")) == ["user:<summary>\ns\n</summary>+three+five"]


def test_a_chat_of_gemini_cli_without_its_header_is_read():
    spoken = {"id": "2", "timestamp": "t", "type": "gemini", "content": "Hi."}
    session = load(lines({"id": "1", "timestamp": "t", "type": "user", "content": "hello"}, spoken), "s")
    assert session.agent == "gemini-cli"
    assert [message["parts"] for message in session.messages] == [[{"text": "hello"}], [{"text": "Hi."}]]


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({"firstKeptEntryId": "2"}, "user:<summary>\ns\n</summary>+two+three"),
        ({"firstKeptEntryId": "3"}, "user:<summary>\ns\n</summary>+three"),
        ({"firstKeptEntryId": "unknown"}, "user:<summary>\ns\n</summary>+three"),
        ({"firstKeptEntryIndex": 2}, "user:<summary>\ns\n</summary>+two+three"),
    ],
)
def test_pi_continues_from_a_compaction_with_the_messages_that_it_kept(kept: Value, expected: str):
    entries = [
        entry("1", None, "user", "one"),
        entry("2", "1", "user", "two"),
        {"type": "compaction", "id": "3", "parentId": "2", "summary": "s", **kept},
        entry("4", "3", "user", "three"),
    ]
    assert said(load(pi(*entries), "s")) == [expected]


CLAUDE = {"provider": "anthropic", "api": "anthropic-messages", "model": "claude"}


@each_row(
    ("thought", "model_of_it", "expected"),
    [
        (
            {"thinking": "hm", "thinkingSignature": "x"},
            CLAUDE,
            {"type": "thinking", "thinking": "hm", "signature": "x"},
        ),
        ({"thinking": "hm"}, CLAUDE, words("hm")),
        ({"thinking": "hm", "thinkingSignature": "x"}, {**CLAUDE, "model": "other"}, words("hm")),
        ({"thinking": " ", "thinkingSignature": "x"}, {**CLAUDE, "api": "openai-responses"}, None),
        ({"thinkingSignature": "x", "redacted": True}, CLAUDE, {"type": "redacted_thinking", "data": "x"}),
        ({"thinkingSignature": "x", "redacted": True}, {**CLAUDE, "model": "other"}, None),
    ],
)
def test_pi_sends_thoughts_back_only_to_the_model_that_signed_them(thought: Value, model_of_it: Value, expected: Value):
    blocks = [{"type": "thinking", **thought}, words("So.")]
    start = [entry("1", None, "user", "go"), entry("2", "1", "assistant", blocks, **model_of_it)]
    last = [entry("3", "2", "user", "on"), entry("4", "3", "assistant", [words("Yes.")], **CLAUDE)]
    session = load(pi(*start, *last), "s")
    assert session.messages[1]["content"] == [*([expected] if expected else []), words("So.")]


def test_ids_that_anthropic_refuses_become_valid_and_unique():
    calls = [{"type": "toolCall", "id": each, "name": "f", "arguments": {}} for each in ("a|b", "a_b", "c" * 99)]
    replies = [entry(f"r{n}", "2", "toolResult", [words(str(n))], toolCallId=calls[n]["id"]) for n in range(3)]
    chain = [{**reply, "parentId": "2" if n == 0 else f"r{n - 1}"} for n, reply in enumerate(replies)]
    session = load(pi(entry("1", None, "user", "go"), entry("2", "1", "assistant", calls, **CLAUDE), *chain), "s")
    assert [block["id"] for block in session.messages[1]["content"]] == ["a_b_2", "a_b", "c" * 64]
    assert [block["tool_use_id"] for block in session.messages[2]["content"]] == ["a_b_2", "a_b", "c" * 64]


@pytest.mark.parametrize(
    ("ran_by_user", "expected"),
    [
        ({"command": "ls", "output": "a"}, "user:go+Ran `ls`\n```\na\n```"),
        ({"command": "ls", "output": "", "exitCode": 0}, "user:go+Ran `ls`\n(no output)"),
        ({"command": "ls", "output": "", "cancelled": True}, "user:go+Ran `ls`\n(no output)\n\n(cancelled)"),
        ({"command": "ls", "output": "a", "excludeFromContext": True}, "user:go"),
    ],
)
def test_commands_that_pis_user_ran_are_sent_unless_excluded(ran_by_user: Value, expected: str):
    ran = entry("2", "1", "bashExecution", None, **ran_by_user)
    assert said(load(pi(entry("1", None, "user", "go"), ran), "s")) == [expected]


# Ids


def test_reused_ids_are_paired_in_order():
    def asks(*ids: str) -> Value:
        return {
            "role": "assistant",
            "tool_calls": [{"id": each, "function": {"name": "f", "arguments": "{}"}} for each in ids],
        }

    def tells(call_id: str, content: str) -> Value:
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    log = [asks("x"), asks("x", "x"), tells("x", "1"), tells("x", "2"), asks("x"), tells("x", "3"), tells("x", "4")]
    messages = conversation("openai_chat", log).messages
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        NO_RESULT,
        "1",
        "2",
        "3",
    ]


@each_row(
    ("text", "what"),
    [
        (lines(claude("1", None, [{"text": "x"}])), "1 of the conversation has a block without a type"),
        (
            lines(claude("1", None, "go"), claude("2", "1", {"type": "tool_use", "id": "a"}, "m")),
            "2 of the conversation has a call without an id or a name",
        ),
        (
            lines(claude("1", None, [{"type": "tool_result", "content": "x"}])),
            "1 of the conversation has a result without the id of its call",
        ),
        (codex(item("function_call", name="f")), "1 of the conversation is a call or an output without an id"),
        (codex(item("message", content="x")), "1 of the conversation has no type or no role"),
    ],
)
def test_a_message_that_the_api_cannot_take_raises_an_error_with_its_number(text: str, what: str):
    with pytest.raises(SessionError) as caught:
        load(text, "s")
    assert f"but message {what}" in str(caught.value)


@each_row(
    ("message", "what"),
    [
        ({"role": "user", "content": 3}, "has a content that is neither text nor blocks"),
        ({"role": "tool", "content": "x"}, "is a result without the id of its call"),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
            "has a call without an id, a name or arguments",
        ),
    ],
)
def test_a_chat_message_that_the_api_cannot_take_raises_an_error_with_its_number(message: Value, what: str):
    with pytest.raises(SessionError, match=f"^message 1 of the conversation {what}"):
        conversation("openai_chat", [message])


# Readers of installed packages


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that registers a reader, and a string in place of one."""
    (tmp_path / "package.py").write_text(
        "from autoprune.apps.sessions import Reader\nREADER = Reader('mine', lambda values: True, lambda values: [])\n"
    )
    info = tmp_path / "package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[autoprune.readers]\nmine = package:READER\nother = package:__name__\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._find_entry_points.cache_clear()
    yield
    plugins._find_entry_points.cache_clear()
    sys.modules.pop("package", None)


@pytest.mark.usefixtures("installed")
def test_shipped_and_installed_readers_are_found_by_name():
    assert find_reader("codex").name == "codex"
    assert find_reader("mine").name == "mine"
    assert "mine" in plugin_readers()
    assert "other" not in plugin_readers()
    with pytest.raises(SettingsError, match=r"'other' under autoprune\.readers is a str: it must be a Reader"):
        find_reader("other")
    with pytest.raises(SettingsError, match=r"no reader 'mime' \(did you mean mine\?\)$"):
        find_reader("mime")


@pytest.mark.usefixtures("installed")
def test_an_installed_reader_reads_what_no_shipped_reader_detects():
    assert load(codex(user("a")), "s").agent == "codex"
    with pytest.raises(SessionError, match="s has no conversation 1: it holds 0 conversations"):
        load("{}", "s")


# Anything at all

SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text(max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.booleans())
def test_load_raises_only_its_own_error_for_any_json(value: Value, as_lines: bool):
    text = lines(*value) if as_lines and isinstance(value, list) else json.dumps(value)
    with suppress(SessionError):
        assert load(text, "s").conversations == len(recordings(text, "s"))


@given(st.data())
def test_a_damaged_file_becomes_valid_messages_or_an_error(data: st.DataObject):
    path = data.draw(st.sampled_from([path for path in SAMPLES if path.name not in PLAIN]))
    value: Value = values_of(path)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(places(value)))
        kin = data.draw(st.sampled_from(places(value)))
        moved = value
        for key in kin:
            moved = moved[key]
        value = changed(value, at, data.draw(JSON | st.just(moved)))
    text = lines(*value) if isinstance(value, list) else json.dumps(value)
    with suppress(SessionError):
        assert all(session.agent is None or faults(session) == [] for session in every_run(text, "s"))
    with suppress(SessionError):
        stretches = [each for conversation in recordings(text, "s") for each in conversation]
        assert all(each.agent is None or faults(each) == [] for each in stretches)
