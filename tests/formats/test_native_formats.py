"""Every native format is read, counted and cleared like OpenAI's Chat Completions."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from conversations import Request, anthropic, bedrock, openai_chat, words
from gemini_responses_hypothesis import gemini, responses
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, is_full

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.formats import anthropic_messages, bedrock_converse, gemini_contents, openai_responses
from autoprune.pruners.report import Report

Write = Callable[..., list[Any]]

LONG = "a line of output\n" * 200
WRITERS: dict[str, Write] = {"anthropic": anthropic, "bedrock": bedrock, "gemini": gemini, "responses": responses}
in_every_format = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
FACTS = ("turn", "request", "tool", "target", "failed", "tokens", "tokens_after", "cleared", "reason")
REQUESTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(("ok", words(20), words(90), "漢字 👩‍👩‍👧 " * 9, None)), min_size=1, max_size=3),
        st.sampled_from(("And now?", "見て\n")),
    ),
    min_size=1,
    max_size=5,
)


def chat(*requests: Request) -> list[Any]:
    """The work in OpenAI's format, without the system message, which other APIs take in another field."""
    return openai_chat(*requests)[1:]


def count(messages: list[Any]) -> int:
    return AgenticConversationPruner(None).count_tokens(messages)


def report(messages: list[Any], safe_zone: int = 1) -> Report:
    return AgenticConversationPruner(PruneArgs(safe_zone)).prune(messages).report


def rows(found: Report) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in FACTS) for row in found.rows]


@in_every_format
def test_a_conversation_has_the_same_tokens_as_in_openais_format(write: Write):
    requests: list[Request] = [["one", LONG, ""], "And now? 見て", [None], [words(50)], "Thanks."]
    assert count(write(*requests)) == count(chat(*requests))


@in_every_format
def test_at_every_safe_zone_the_same_results_are_cleared_as_in_openais_format(write: Write):
    requests: list[Request] = [[words(60), "ok", words(90)], "And now?", [words(70)], [words(40), words(50)]]
    theirs, ours = chat(*requests), write(*requests)
    for safe_zone in range(1, count(theirs) + 2, 1 if is_full() else 3):
        assert rows(report(ours, safe_zone)) == rows(report(theirs, safe_zone))


@in_every_format
@examples(60)
@given(requests=REQUESTS, share=st.floats(0, 1.1))
def test_the_report_is_that_of_openais_format(write: Write, requests: list[Request], share: float):
    theirs, ours = chat(*requests), write(*requests)
    safe_zone = 1 + int(share * count(theirs))
    wanted, got = report(theirs, safe_zone), report(ours, safe_zone)
    assert (got.tokens_before, got.tokens_after) == (wanted.tokens_before, wanted.tokens_after)
    assert rows(got) == rows(wanted)


# Rounds with ids of one's own: a call of each path, and their answers

ASKED = {
    "anthropic": {"role": "user", "content": "Look."},
    "bedrock": {"role": "user", "content": [{"text": "Look."}]},
    "gemini": {"role": "user", "parts": [{"text": "Look."}]},
    "responses": {"role": "user", "content": "Look."},
}
DONE = {
    "anthropic": {"role": "assistant", "content": "I see."},
    "bedrock": {"role": "assistant", "content": [{"text": "I see."}]},
    "gemini": {"role": "model", "parts": [{"text": "I see."}]},
    "responses": {"role": "assistant", "content": "I see."},
}


def called(format: str, id: str, path: str) -> Any:
    given = {"path": path}
    return {
        "anthropic": {"type": "tool_use", "id": id, "name": "read", "input": given},
        "bedrock": {"toolUse": {"toolUseId": id, "name": "read", "input": given}},
        "gemini": {"functionCall": {"id": id, "name": "read", "args": given}},
        "responses": {"type": "function_call", "call_id": id, "name": "read", "arguments": json.dumps(given)},
    }[format]


def answered(format: str, id: str) -> Any:
    return {
        "anthropic": {"type": "tool_result", "tool_use_id": id, "content": LONG},
        "bedrock": {"toolResult": {"toolUseId": id, "content": [{"text": LONG}]}},
        "gemini": {"functionResponse": {"id": id, "name": "read", "response": {"output": LONG}}},
        "responses": {"type": "function_call_output", "call_id": id, "output": LONG},
    }[format]


def messages_of(format: str, role: str, blocks: list[Any]) -> list[Any]:
    """Blocks as one message, or as the items that they are."""
    if format == "responses":
        return blocks
    if format == "gemini":
        return [{"role": "model" if role == "assistant" else role, "parts": blocks}]
    return [{"role": role, "content": blocks}]


def round_of(format: str, calls: list[tuple[str, str]], answers: list[str]) -> list[Any]:
    made = messages_of(format, "assistant", [called(format, id, path) for id, path in calls])
    return [*made, *messages_of(format, "user", [answered(format, id) for id in answers])]


@pytest.mark.parametrize("format", WRITERS)
def test_results_in_another_order_find_their_calls(format: str):
    messages = [ASKED[format], *round_of(format, [("a", "a.py"), ("b", "b.py")], ["b", "a"])]
    assert [row["target"] for row in report(messages).rows] == ["b.py", "a.py"]


@pytest.mark.parametrize("format", WRITERS)
def test_an_id_that_is_used_again_is_the_new_calls(format: str):
    """Local servers use an id again."""
    rounds = [message for path in ("a.py", "b.py") for message in round_of(format, [("x", path)], ["x"])]
    found = report([ASKED[format], *rounds, DONE[format]]).rows
    assert [(row["target"], row["request"], row["cleared"]) for row in found] == [("a.py", 0, True), ("b.py", 1, True)]


def test_a_message_of_words_is_one_for_its_api():
    assert anthropic_messages.message("user", "Go on.") == {"role": "user", "content": "Go on."}
    assert bedrock_converse.message("user", "Go on.") == {"role": "user", "content": [{"text": "Go on."}]}
    assert openai_responses.message("user", "Go on.") == {"role": "user", "content": "Go on."}
    assert gemini_contents.message("user", "Go on.") == {"role": "user", "parts": [{"text": "Go on."}]}
    assert gemini_contents.message("assistant", "Yes.") == {"role": "model", "parts": [{"text": "Yes."}]}
