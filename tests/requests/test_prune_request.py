"""A provider's request comes back with its conversation pruned, and with everything else as it was."""

import json
from copy import deepcopy
from typing import Any

import pytest
from every_format import conversations
from hypothesis import given
from profiles import examples
from rounds import WIRE

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.conversation.messages import without_marks
from autoprune.pruners.requests import prune_request

PATHS = {
    "openai_chat": (
        "/v1/chat/completions",
        "/openai/deployments/mine/chat/completions?api-version=1",
        "/chat/completions/",
    ),
    "openai_responses": ("/v1/responses", "/v1/responses/input_tokens"),
    "anthropic": ("/v1/messages", "/v1/messages?beta=true", "/v1/messages/count_tokens"),
    "gemini": (
        *("/v1beta/models/gemini-2.5-pro:generateContent", "/v1beta/models/gemini-2.5-pro:countTokens"),
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    ),
    "bedrock": ("/model/anthropic.claude-3-7%3A0/converse", "/model/anthropic.claude-3-7/converse-stream"),
}
FIELDS = {"openai_responses": "input", "gemini": "contents"}
BINDING = "claude-opus-5-5"
BETA = "thinking-binding-controls-2026-08-01"


def body_of(format: str, messages: list[Any], **others: object) -> dict[str, Any]:
    return {"first": 1, FIELDS.get(format, "messages"): messages, "stream": True, **others}


def chat(results: int, size: int = 300) -> list[Any]:
    """A conversation of Chat Completions with so many results of some hundred tokens."""
    messages: list[Any] = [{"role": "user", "content": "Mend it."}]
    for at in range(results):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "{at}.py"}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"line {at}\n" * size})
    return messages


def thinking(results: int) -> list[Any]:
    """A conversation of Anthropic's with thinking before each call."""
    messages: list[Any] = [{"role": "user", "content": "Mend it."}]
    for at in range(results):
        call = {"type": "tool_use", "id": f"t{at}", "name": "read", "input": {"path": f"{at}.py"}}
        thought = {"type": "thinking", "thinking": f"Number {at} next.", "signature": f"seal {at}"}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": f"line {at}\n" * 300}
        messages += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    return messages


@pytest.mark.parametrize("format", WIRE)
def test_the_messages_are_what_the_pruner_makes_of_them_and_the_rest_is_as_it_was(format: str) -> None:
    @examples(12)
    @given(conversations(format))
    def holds(messages: list[Any]) -> None:
        for path in PATHS[format]:
            body = body_of(format, messages)
            before = deepcopy(body)
            pruned = prune_request(AgenticConversationPruner(300), body, path)
            assert body == before
            args = PruneArgs(300, format=format, model=named(path))
            expected = AgenticConversationPruner(args).prune(messages).conversation
            assert pruned.note == ""
            field = FIELDS.get(format, "messages")
            assert {**pruned.body, field: 0} == {**before, field: 0}
            # A cache mark may be added: tests/requests/test_cache_marks.py.
            assert [*map(without_marks, pruned.body[field])] == [*map(without_marks, expected)]
            assert list(pruned.body) == list(before)

    holds()


def named(path: str) -> str | None:
    """The model in a path."""
    return "gemini-2.5-pro" if "gemini" in path else "anthropic.claude-3-7:0" if "%3A0" in path else None


def test_what_is_sent_beside_the_messages_counts():
    pruner = AgenticConversationPruner("4k")
    body = body_of("openai_chat", chat(3))
    assert prune_request(pruner, body, "/v1/chat/completions").body is body
    tools = [{"type": "function", "function": {"name": f"tool_{at}", "description": "word " * 200}} for at in range(12)]
    pruned = prune_request(pruner, {**body, "tools": tools}, "/v1/chat/completions")
    assert pruned.body["messages"] != body["messages"]
    assert pruned.result
    assert pruned.result.report.floor["sent beside"] >= 2_400


SCHEMA = {"type": "object", "properties": {f"field_{at}": {"type": "string"} for at in range(300)}}
SCHEMA_FORMAT = {"type": "json_schema", "name": "answer", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("format", "fields"),
    [
        ("openai_chat", {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        ("openai_responses", {"text": {"verbosity": "low", "format": SCHEMA_FORMAT}}),
        ("anthropic", {"output_config": {"effort": "low", "format": SCHEMA_FORMAT}}),
        ("anthropic", {"output_format": SCHEMA_FORMAT}),
        ("gemini", {"generationConfig": {"temperature": 0, "responseSchema": SCHEMA}}),
        ("gemini", {"generationConfig": {"responseJsonSchema": SCHEMA}}),
    ],
)
def test_the_schema_of_the_answer_counts(format: str, fields: dict[str, Any]) -> None:
    def beside(**fields: Any) -> int:
        pruned = prune_request(AgenticConversationPruner("50k"), body_of(format, [], **fields), PATHS[format][0])
        assert pruned.result
        return pruned.result.report.floor["sent beside"]

    assert beside(**fields) == pytest.approx(AgenticConversationPruner("50k").count_text(json.dumps(SCHEMA)), abs=30)
    assert beside(text="low", output_config=None, generationConfig=[], response_format={"type": "json_object"}) == 0


def test_the_model_is_the_requests_unless_the_settings_name_one():
    body = {"model": BINDING, "messages": thinking(8)}
    assert prune_request(AgenticConversationPruner("2k"), body, "/v1/messages").body["thinking"]
    other = AgenticConversationPruner(PruneArgs("2k", model="claude-sonnet-4-5"))
    assert "thinking" not in prune_request(other, body, "/v1/messages").body


def test_a_share_is_one_of_the_window_that_the_request_gets():
    ours = AgenticConversationPruner(PruneArgs(0.5, model="claude-opus-4-6"))
    for headers, zone in (({}, 100_000), ({"Anthropic-Beta": ["a", "context-1m-2025-08-07"]}, 500_000)):
        pruned = prune_request(ours, {"messages": [{"role": "user", "content": "Hi."}]}, "/v1/messages", headers)
        assert pruned.result
        assert pruned.result.report.safe_zone == zone


@pytest.mark.parametrize("name", ["anthropic-beta", "Anthropic-Beta"])
def test_the_beta_for_bound_thinking_is_merged_into_the_header_and_the_setting_into_the_body(name: str) -> None:
    body = {"model": BINDING, "messages": thinking(8), "thinking": {"type": "enabled", "budget_tokens": 2_000}}
    headers = {"X-Api-Key": "key", name: "context-1m"}
    pruned = prune_request(AgenticConversationPruner("2k"), body, "/v1/messages", headers)
    assert pruned.headers == {"X-Api-Key": "key", "anthropic-beta": f"context-1m,{BETA}"}
    several: Any = {"X-Api-Key": "key", name: ["context-1m", "other"]}
    listed = prune_request(AgenticConversationPruner("2k"), body, "/v1/messages", several)
    assert listed.headers == {"X-Api-Key": "key", "anthropic-beta": f"context-1m,other,{BETA}"}
    assert pruned.body["thinking"] == {
        "type": "enabled",
        "budget_tokens": 2_000,
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert headers == {"X-Api-Key": "key", name: "context-1m"}
    assert "block_binding" not in body["thinking"]
    assert "extra_headers" not in pruned.body


@pytest.mark.parametrize(
    ("wrapper", "path"),
    [
        ("request", "/v1internal:streamGenerateContent?alt=sse"),
        ("generateContentRequest", "/v1beta/models/gemini-2.5-pro:countTokens"),
    ],
)
def test_gemini_bodies_may_be_wrapped(wrapper: str, path: str) -> None:
    contents = [{"role": "user", "parts": [{"text": "Mend it."}]}]
    for at in range(8):
        contents.append({"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": f"{at}.py"}}}]})
        answer = {"name": "read", "response": {"output": f"line {at}\n" * 300}}
        contents.append({"role": "user", "parts": [{"functionResponse": answer}]})
    inner = {"contents": contents, "systemInstruction": {"parts": [{"text": "You mend."}]}}
    wrapped = {"model": "gemini-2.5-pro", "project": "mine", wrapper: inner}
    pruned = prune_request(AgenticConversationPruner("2k"), wrapped, path)
    assert pruned.body[wrapper]["systemInstruction"] is inner["systemInstruction"]
    assert len(json.dumps(pruned.body)) < len(json.dumps(wrapped)) / 2
    assert list(pruned.body) == list(wrapped)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/responses", {"input": chat(1), "previous_response_id": "r"}, "previous_response_id"),
        ("/v1/responses", {"input": chat(1), "conversation": {"id": "c"}}, "conversation"),
        ("/v1beta/models/g:generateContent", {"contents": [], "cachedContent": "caches/1"}, "cachedContent"),
        (
            "/v1/messages?beta=true",
            {"messages": [], "thread": {"type": "continue", "previous_message_id": "msg_1"}},
            "thread: the provider keeps the history",
        ),
        ("/v1/responses", {"input": "Say something."}, "input is of type str"),
        ("/v1/messages", {"model": "m"}, "messages is missing"),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Go."}, 7]}, "message 1"),
        ("/v1/messages", ["not", "an", "object"], "list"),
        ("/v1/embeddings", {"input": ["a"]}, "/v1/embeddings"),
        ("/v1/messages/batches", {"requests": []}, "/v1/messages/batches"),
        ("/v1/responses/compact", {"input": chat(1)}, "/v1/responses/compact"),
    ],
)
def test_what_cannot_be_pruned_goes_on_unchanged_with_a_note(path: str, body: Any, said: str) -> None:
    before = deepcopy(body)
    pruned = prune_request(AgenticConversationPruner(10), body, path)
    assert pruned.body is body
    assert body == before
    assert pruned.result is None
    assert said in pruned.note


def test_requests_that_only_count_are_marked():
    counted = [path for paths in PATHS.values() for path in paths if "count" in path or "input_tokens" in path]
    pruner = AgenticConversationPruner("50k")
    bodies = [{"messages": chat(1), "input": [], "contents": []}] * len(counted)
    assert all(prune_request(pruner, body, path).counts_only for body, path in zip(bodies, counted, strict=True))
    assert not prune_request(pruner, body_of("openai_chat", chat(1)), "/v1/chat/completions").counts_only


def test_messages_can_be_folded_too():
    body = body_of("openai_chat", chat(12))
    pruned = prune_request(ConversationPruner("2k"), body, "/v1/chat/completions", strategy="summarize")
    assert len(pruned.body["messages"]) < len(body["messages"])


def test_settings_that_cannot_be_used_are_the_programs_fault():
    with pytest.raises(SettingsError, match="safe zone"):
        prune_request(AgenticConversationPruner(-1), body_of("openai_chat", chat(1)), "/v1/chat/completions")


@pytest.mark.parametrize(
    ("args", "strategy", "model", "expected"),
    [
        (PruneArgs(), "cache_aware", "gpt-4o", 108_000),
        (PruneArgs("20k"), "cache_aware", "gpt-4o", 20_480),
        (PruneArgs(window=50_000), "cache_aware", "gpt-4o", 40_000),
        (PruneArgs(), "low_water", "gpt-4o", 51_200),
        (PruneArgs(), "cache_aware", "a model of nobody's", 51_200),
    ],
    ids=["not given", "given", "with a window", "another strategy", "an unknown model"],
)
def test_without_a_safe_zone_the_window_of_the_model_counts(args: PruneArgs, strategy: str, model: str, expected: int):
    messages = [{"role": "user", "content": "Hello."}]
    body = {"model": model, "messages": messages}
    found = prune_request(AgenticConversationPruner(args, environ={}), body, "/v1/chat/completions", strategy=strategy)
    assert found.result
    assert found.result.report.safe_zone == expected
    pruner = AgenticConversationPruner(args, strategy=strategy, environ={})
    direct = prune_request(pruner, body, "/v1/chat/completions").result
    assert direct
    assert direct.report.safe_zone == expected
