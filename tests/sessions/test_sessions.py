"""Session files of plain messages: reading, writing back, and errors for anything else."""

import json

import pytest
from tables import each_row

from autoprune import SessionError
from autoprune.apps.sessions import load

MESSAGES = [{"role": "user", "content": "hé"}, {"role": "assistant", "content": None, "n": 1.50}]
ITEMS = [
    {"type": "message", "role": "user", "content": "hé"},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "1"},
]
CONTENTS = [{"parts": [{"text": "hé"}]}, {"role": "model", "parts": [{"text": "hello"}]}]


@each_row(
    "text",
    [
        json.dumps(MESSAGES),
        json.dumps(MESSAGES, indent=2),
        "\n".join(json.dumps(message) for message in MESSAGES),
        "\n\n".join(json.dumps(message) for message in MESSAGES) + "\n\n",
        json.dumps({"id": 7, "messages": MESSAGES, "tools": []}),
        json.dumps({"messages": MESSAGES}, indent=1),
    ],
)
def test_a_file_is_written_back_in_its_own_shape(text: str):
    session = load(text, "s.json")
    assert session.messages == MESSAGES
    again = session.write(session.messages)
    assert load(again, "again").messages == MESSAGES
    if text[0] == "{" and '"messages"' in text:
        assert json.loads(again) == json.loads(text)
    assert again[0] == text[0]


@each_row("messages", [MESSAGES, ITEMS, CONTENTS], ids=["messages", "items", "contents"])
@each_row("shape", ["list", "lines", "object"])
def test_messages_of_every_api_are_plain_messages(messages: list[dict[str, object]], shape: str):
    text = {
        "list": json.dumps(messages),
        "lines": "\n".join(map(json.dumps, messages)),
        "object": json.dumps({"messages": messages}),
    }[shape]
    session = load(text, "s")
    assert (session.messages, session.notes, session.agent, session.conversations) == (messages, (), None, 1)
    assert load(session.write(messages), "again").messages == messages


def test_a_lone_surrogate_is_written_as_an_escape():
    session = load('[{"role": "user", "content": "a\\ud800b é"}]', "s")
    text = session.write(session.messages)
    assert text.encode()
    assert load(text, "again").messages == session.messages


@each_row("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r"])
def test_lines_end_only_at_newlines(odd: str):
    messages = [{"role": "user", "content": f"a{odd}b"}, {"role": "assistant", "content": odd}]
    text = "\r\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
    session = load(text, "s")
    assert session.messages == messages
    assert load(session.write(messages), "again").messages == messages


@each_row(
    ("text", "said"),
    [
        ("", "s is empty"),
        (" \n ", "s is empty"),
        ('[{"role": "user",]', "broken JSON at line 1, column 18"),
        ('[\n {"role": "user"},\n oops]', "broken JSON at line 3, column 2"),
        ('{"role": "user"}\n{"role": \n{"role": "user"}', "broken JSON at line 2, column 10"),
        ("hello", "s is not JSON: give a JSON list"),
        ("42", "holds a number"),
        ('"text"', "holds a string"),
        ("null", "holds null"),
        ('["a"]', "holds a string where a message with a 'role' should be"),
        ('{"steps": [], "info": {}}', "holds an object with the fields steps, info"),
        ('{"type": "x", "payload": {}}\n{"type": "y"}', "line 1 holds an object with the fields type, payload"),
        ('{"role": "user"}\n{"type": "y"}', "line 2 holds an object with the fields type"),
        ('[{"type": "message", "content": []}]', "holds an object with the fields type, content"),
        ('[{"type": "input_text", "text": "x"}]', "holds an object with the fields type, text"),
        ('[{"parts": "text"}]', "holds an object with the fields parts"),
        ("{}", "s holds an empty object: give"),
        (
            '{"schema_version": "ATIF-v1.6", "agent": {}, "steps": [{"source": "tool"}]}',
            "s is a session file of atif, but record 1 has the source 'tool': a step is from the system, the user or",
        ),
        (
            '{"info": {"id": "ses_1"}, "messages": [{"info": {"role": "user"}, "parts": []}]}',
            "s is an export of opencode, which autoprune cannot read: give",
        ),
        (
            '{"step_index": 0, "source": "USER", "type": "USER_INPUT", "content": "x"}\n'
            '{"step_index": 1, "source": "MODEL", "type": "RUN_COMMAND"}',
            "s is a transcript of Antigravity, which autoprune cannot read: give",
        ),
        ('[{"role": "user"}, {}]', "s holds an empty object where a message with a 'role' should be"),
        ('{"role": "user"}\n{}', "s line 2 holds an empty object where"),
        ('{"": 1, "a": 2}', 's holds an object with the fields "", a: give'),
        ('{"' + 999 * "a" + '": 1}', f"s holds an object with the fields {80 * 'a'}: give"),
        ('{"messages": [3]}', "holds a number where a message"),
        ('[{"role": "user", "content": ' + "9" * 5_000 + "}]", "holds a number or nesting that cannot be parsed"),
        ("[" * 100_000, "holds a number or nesting that cannot be parsed"),
    ],
)
def test_anything_else_raises_an_error_that_describes_it(text: str, said: str):
    with pytest.raises(SessionError) as caught:
        load(text, "s")
    assert said in str(caught.value)


def test_fields_of_messages_that_are_not_read_are_a_note():
    told = {"role": "tool", "content": "text", "tool_id": "1", "tool_name": "read"}
    session = load(json.dumps([{"role": "user", "content": "go"}, told, told]), "s")
    assert session.notes == (
        "calls with fields that are not read (tool_id, tool_name), so names or arguments may be missing: 2",
    )
    assert load(json.dumps([{"role": "tool", "content": "text", "tool_call_id": "1"}]), "s").notes == ()
