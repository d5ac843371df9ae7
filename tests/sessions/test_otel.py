"""The reader of OpenTelemetry traces: what the samples do not show."""

import json
from typing import Any

import pytest
from session_texts import every_run, lines, outline, said, stretches
from tables import each_row

from autoprune import SessionError
from autoprune.apps.sessions import Request, Usage, load, recordings

Value = Any
GO = {"role": "user", "parts": [{"type": "text", "content": "go"}]}
SUMMARY = "The tests passed. What remains is the page of the changes, in which the new option must be named. " * 2


def attribute(value: Value) -> Value:
    kinds = {str: "stringValue", bool: "boolValue", int: "intValue"}
    if isinstance(value, list):
        return {"arrayValue": {"values": [attribute(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {kinds[type(value)]: str(value) if type(value) is int else value}


def pairs(attributes: Value) -> Value:
    return [{"key": key, "value": attribute(value)} for key, value in attributes.items()]


def span(start: int, attributes: Value, events: Value = (), trace: str = "t1") -> Value:
    """A span of two seconds."""
    return {
        "traceId": trace,
        "startTimeUnixNano": f"{1_767_268_800 + start}000000000",
        "endTimeUnixNano": f"{1_767_268_802 + start}000000000",
        "attributes": pairs(attributes),
        "events": [{"name": name, "attributes": pairs(body)} for name, body in events],
    }


def call(start: int, given: Value, answer: Value, trace: str = "t1", **more: Value) -> Value:
    """The span of a call of a model."""
    contents = {"gen_ai.input.messages": json.dumps(given), "gen_ai.output.messages": json.dumps([answer])}
    return span(start, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **contents, **more}, (), trace)


def of(role: str, *parts: Value) -> Value:
    return {
        "role": role,
        "parts": [{"type": "text", "content": each} if isinstance(each, str) else each for each in parts],
    }


def asks(name: str) -> Value:
    return of("assistant", {"type": "tool_call", "id": name, "name": name, "arguments": {}})


def tells(name: str, response: Value) -> Value:
    return of("tool", {"type": "tool_call_response", "id": name, "response": response})


def trace_of(*spans: Value) -> str:
    return lines({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})


MAIN = [of("system", "main"), GO, asks("task"), tells("task", "found")]
SUB = [of("system", "sub"), of("user", "find"), asks("grep"), tells("grep", "a.py")]


def test_a_sub_agent_and_another_trace_are_conversations_of_their_own():
    text = trace_of(
        call(60, MAIN, of("assistant", "done")),
        call(0, MAIN[:2], MAIN[2]),
        call(20, SUB, of("assistant", "found")),
        call(10, SUB[:2], SUB[2]),
        call(5, [of("user", "a title for: go")], of("assistant", "Going")),
        call(70, [of("system", "main"), GO], of("assistant", "gone"), trace="t2"),
    )
    assert [said(session) for session in every_run(text, "s")] == [
        ["system:main", "user:go", "assistant:task", "tool:found", "assistant:done"],
        ["system:sub", "user:find", "assistant:grep", "tool:a.py", "assistant:found"],
        ["user:a title for: go", "assistant:Going"],
        ["system:main", "user:go", "assistant:gone"],
    ]
    assert [[len(each.requests) for each in run] for run in recordings(text, "s")] == [[2], [2], [1], [1]]


@each_row("name", ["gen_ai.conversation.id", "session.id"])
def test_traces_of_one_session_are_one_conversation(name: str):
    later = [GO, of("assistant", "hi"), of("user", "more")]
    root = span(0, {name: "s1"}, trace="t1")
    text = trace_of(call(0, [GO], later[1]), root, call(10, later, of("assistant", "bye"), trace="t2", **{name: "s1"}))
    assert [(spoken, [each.message for each in requests]) for spoken, requests in stretches(text)] == [
        (["user:go", "assistant:hi", "user:more", "assistant:bye"], [1, 3])
    ]


@each_row(
    "after",
    [
        [of("system", "main"), of("user", f"What happened: {SUMMARY}")],
        [of("system", "main"), GO, of("user", "Somebody looked."), asks("task"), tells("task", "found")],
    ],
    ids=["the summary", "the newest messages"],
)
def test_what_a_compaction_leaves_begins_a_new_stretch(after: Value):
    text = trace_of(
        call(0, MAIN[:2], MAIN[2]), call(5, MAIN, of("assistant", SUMMARY)), call(20, after, of("assistant", "done"))
    )
    [(before, earlier), (rest, later)] = stretches(text)
    assert (before[-1], rest[-1]) == (f"assistant:{SUMMARY}", "assistant:done")
    assert ([each.message for each in earlier], [each.message for each in later]) == ([2, 4], [len(after)])
    assert said(load(text, "s"))[-1] == "assistant:done"


def test_counts_and_times_are_read_from_text_and_the_counts_include_cached_tokens():
    used = {"input_tokens": 100, "cache_read.input_tokens": 60, "cache_write.input_tokens": 30, "output_tokens": 5}
    text = trace_of(call(0, [GO], of("assistant", "hi"), **{f"gen_ai.usage.{key}": n for key, n in used.items()}))
    [(_, requests)] = stretches(text)
    assert requests == (Request(1, 1_767_268_802.0, None, "m", Usage(prompt=100, cached=60, written=30, output=5)),)


OLD_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
OLD = [
    ("gen_ai.system.message", {"content": "main"}),
    ("gen_ai.user.message", {"content": "12"}),
    ("gen_ai.assistant.message", {"tool_calls": json.dumps([OLD_CALL])}),
    ("gen_ai.tool.message", {"gen_ai.event.content": json.dumps({"id": "c", "content": "r"})}),
    ("gen_ai.choice", {"index": 0, "message": json.dumps({"content": "done"})}),
]
NEW = {
    "gen_ai.system_instructions": of("", "main")["parts"],
    "gen_ai.input.messages": [of("user", "12"), asks("f"), tells("f", [{"type": "text", "text": "r"}])],
    "gen_ai.output.messages": [of("assistant", "done"), of("assistant", "another choice")],
}
REPEATED = {**NEW, "gen_ai.input.messages": [of("system", "main"), *NEW["gen_ai.input.messages"]]}
OLDEST = {
    "gen_ai.prompt": json.dumps(REPEATED["gen_ai.input.messages"]),
    "gen_ai.completion": json.dumps({"text": "done"}),
}
FLAT = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "main",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "12",
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c",
    "gen_ai.prompt.2.tool_calls.0.name": "f",
    "gen_ai.prompt.2.tool_calls.0.arguments": "{}",
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.tool_call_id": "c",
    "gen_ai.prompt.3.content": "r",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "done",
}


@each_row(
    "attributes, events",
    [
        ({}, OLD),
        (NEW, ()),
        (REPEATED, ()),
        ({}, [("gen_ai.client.inference.operation.details", NEW)]),
        (FLAT, ()),
        (OLDEST, ()),
    ],
    ids=["events of version 1.36", "lists", "instructions twice", "the event of the details", "OpenLLMetry", "oldest"],
)
def test_contents_are_read_wherever_the_conventions_put_them(attributes: Value, events: Value):
    text = trace_of(span(0, {"gen_ai.request.model": "m", **attributes}, events))
    assert said(load(text, "s")) == ["system:main", "user:12", "assistant:f", "tool:r", "assistant:done"]
    assert [len(each.requests) for [each] in recordings(text, "s")] == [1]


def test_parts_of_other_types_are_read_as_text_and_noted():
    video = {"type": "uri", "modality": "video", "uri": "gs://a.mp4"}
    picture = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"}
    session = load(trace_of(call(0, [of("user", "look", video, picture)], of("assistant", "seen"))), "s")
    assert session.messages[0]["content"] == [
        {"type": "text", "text": f"look\n{json.dumps(video, separators=(',', ':'))}"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]
    assert "parts of other types, read as JSON text: 1" in session.notes


@each_row(("response", "content"), [(0, "0"), ({"a": 1}, '{"a":1}'), ([1, "b"], "1\nb"), ("", "")])
def test_a_result_that_is_not_text_becomes_text(response: Value, content: str):
    text = trace_of(call(0, [GO, asks("f"), tells("f", response)], of("assistant", "done")))
    assert load(text, "s").messages[2]["content"] == content


def test_a_failed_and_a_repeated_request_are_noted():
    failed = span(0, {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([GO])})
    longer = [GO, of("user", "please")]
    text = trace_of(failed, call(5, longer, of("assistant", "a")), call(9, longer, of("assistant", "b")))
    assert load(text, "s").notes[1:] == (
        "requests without an answer, left out: 1",
        "requests repeated with the same input, left out: 1",
    )
    assert [(spoken, [each.time for each in requests]) for spoken, requests in stretches(text)] == [
        (["user:go", "user:please", "assistant:b"], [1_767_268_811.0])
    ]


SILENT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9}
HIDDEN = {"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": "__REDACTED__"}
CUT = {**SILENT, "gen_ai.input.messages": json.dumps([GO])[:20]}


@each_row(
    ("spans", "what"),
    [
        ([span(0, SILENT), span(5, HIDDEN)], "s is a session file of otel, but its LLM spans (2) hold no contents of"),
        ([span(0, SILENT)], "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"),
        ([span(0, HIDDEN)], "OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_INPUT_MESSAGES must not be true"),
        ([span(0, {"http.request.method": "GET"})], "s is a session file of otel, but none of its spans is a call of"),
        ([span(0, CUT)], "gen_ai.input.messages (perhaps cut off by a limit on its length) is broken JSON at line 1"),
    ],
)
def test_a_trace_without_contents_raises_an_error_that_says_what_to_do(spans: list[Value], what: str):
    for read in (load, recordings):
        with pytest.raises(SessionError) as caught:
            read(trace_of(*spans), "s")
        assert what in str(caught.value)


def test_spans_without_contents_among_others_are_noted():
    session = load(trace_of(span(0, SILENT), span(1, CUT), call(5, [GO], of("assistant", "hi"))), "s")
    assert list(map(outline, session.messages)) == ["user:go", "assistant:hi"]
    assert session.notes[0] == "LLM spans without the contents of their messages, left out: 1"
    assert session.notes[1].startswith("LLM spans left out, since the attribute gen_ai.input.messages (perhaps")
