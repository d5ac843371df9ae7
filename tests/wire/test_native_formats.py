"""Every native format is read, counted and cleared like OpenAI's Chat Completions."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from conversations import Request, anthropic, bedrock, openai_chat, words
from gemini_responses_hypothesis import gemini, responses
from profiles import is_full

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.pruners.report import Report

Write = Callable[..., list[Any]]

LONG = "a line of output\n" * 200
WRITERS: dict[str, Write] = {"anthropic": anthropic, "bedrock": bedrock, "gemini": gemini, "responses": responses}
in_every_format = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
FACTS = ("turn", "request", "tool", "target", "failed", "tokens", "tokens_after", "cleared", "reason")


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
