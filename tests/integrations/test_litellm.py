"""The hook for LiteLLM's proxy, and its functions that prune, against a strict provider."""

import asyncio
import inspect
import json
from types import SimpleNamespace
from typing import Any

import litellm_loop as loop
import pytest

pytest.importorskip("litellm", reason="LiteLLM is not installed")

import litellm
from client_loops import is_kept
from raw_upstream import always, answer, serving
from reading_loop import CALLS, DONE, PATHS, SAFE_ZONE, SCRIPT, TASK, figures_of, read_file
from strict_provider import loops
from strict_provider.server import Provider

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.integrations.litellm import PruningHook, prunes

pytestmark = pytest.mark.filterwarnings("default")  # LiteLLM warns of what it does itself
REFUSAL = b'{"error": {"type": "invalid_request_error", "message": "No such model."}}'
BETA = "thinking-binding-controls-2026-08-01"


def pruner(safe_zone: int = SAFE_ZONE) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone))


def run(name: str, provider: Provider) -> list[Any]:
    function = prunes(getattr(litellm, name), pruner())
    if name == "completion":
        return loop.chat(function, provider)
    return asyncio.run((loop.chat_async if name == "acompletion" else loop.responses_async)(function, provider))


@pytest.mark.parametrize("name", ["completion", "acompletion", "aresponses"])
def test_a_long_loop_is_never_refused_and_stays_within_the_safe_zone(name: str, strict_provider: Provider):
    strict_provider.play.script = SCRIPT
    messages = run(name, strict_provider)
    found = figures_of(strict_provider)
    assert DONE in str(messages[-1])
    assert strict_provider.refusals == []
    assert found.requests == CALLS + 1
    assert found.largest <= SAFE_ZONE
    assert is_kept(messages)


def test_thinking_that_a_chat_carries_stays_valid(strict_provider: Provider):
    function = prunes(litellm.completion, pruner(3_000))
    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=function)))
    request = {"api_base": strict_provider.url, "api_key": "none", "thinking": {"type": "adaptive"}}
    loops.openai_chat(client, ["Fix it.", "Test it."], model="anthropic/claude-opus-5-5", **request)
    last = strict_provider.requests[-1]
    assert strict_provider.refusals == []
    assert BETA in last.headers["anthropic-beta"]
    assert '"type": "thinking"' in json.dumps(last.body)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("completion", "openai/gpt-4.1"),
        ("acompletion", "openai/gpt-4.1"),
        ("responses", "openai/gpt-4.1"),
        ("aresponses", "openai/gpt-4.1"),
        ("anthropic_messages", "anthropic/claude-opus-4-8"),
    ],
)
def test_an_error_of_the_model_is_raised_unchanged_and_the_messages_stay(name: str, model: str):
    function, messages = getattr(litellm, name), {"anthropic_messages": MESSAGES}.get(name, CHAT)
    request = {"model": model, "input": ITEMS} if "responses" in name else {"model": model, "messages": messages}
    before = json.dumps(request)
    with serving(always(answer(REFUSAL, "400 Bad Request"))) as upstream:
        address = {"api_base": upstream.url, "api_key": "none", "max_tokens": 100}
        plain, raised = (error_of(each, {**request, **address}) for each in (function, prunes(function, pruner(4_000))))
    sent = [len(body) for _, body in upstream.requests]
    assert (type(raised), str(raised), raised.status_code) == (type(plain), str(plain), 400)
    assert "No such model." in str(raised)
    assert len(sent) == 2
    assert sent[1] < sent[0]
    assert json.dumps(request) == before


def error_of(function: Any, request: dict[str, Any]) -> Any:
    """The error that a function of LiteLLM raises, synchronous or asynchronous."""

    async def called() -> None:
        answer = function(**request)
        if inspect.isawaitable(answer):
            await answer

    with pytest.raises(litellm.BadRequestError) as raised:
        asyncio.run(called())
    return raised.value


def test_a_function_of_another_kind_is_refused_in_words():
    with pytest.raises(SettingsError, match="embedding cannot be pruned: give one of litellm's completion, "):
        prunes(litellm.embedding, pruner())


# The proxy's hook


def hooked(call_type: str, **data: Any) -> dict[str, Any]:
    return asyncio.run(PruningHook(pruner(4_000)).async_pre_call_hook(None, None, data, call_type))


CHAT = [
    {"role": "user", "content": TASK},
    *[
        message
        for path in PATHS[:3]
        for message in (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": path, "type": "function", "function": {"name": "read_file", "arguments": f'["{path}"]'}}
                ],
            },
            {"role": "tool", "tool_call_id": path, "content": read_file(path)},
        )
    ],
]
MESSAGES = [
    {"role": "user", "content": TASK},
    *[
        message
        for path in PATHS[:3]
        for message in (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I see.", "signature": "c2lnbmVk"},
                    {"type": "tool_use", "id": path, "name": "read_file", "input": {"path": path}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": path, "content": read_file(path)}]},
        )
    ],
]
ITEMS = [
    {"role": "user", "content": TASK},
    *[
        item
        for path in PATHS[:3]
        for item in (
            {"type": "function_call", "call_id": path, "name": "read_file", "arguments": f'["{path}"]'},
            {"type": "function_call_output", "call_id": path, "output": read_file(path)},
        )
    ],
]


@pytest.mark.parametrize(
    ("call_type", "field", "messages"),
    [
        ("completion", "messages", CHAT),
        ("acompletion", "messages", CHAT),
        ("anthropic_messages", "messages", MESSAGES),
        ("aresponses", "input", ITEMS),
    ],
)
def test_the_hook_prunes_the_conversation_alone_and_in_a_copy(call_type: str, field: str, messages: list[Any]):
    given = {"model": "m", "metadata": {"user": "ann"}, "stream": True, field: messages}
    before = json.dumps(given)
    data = hooked(call_type, **given)
    assert data == {**given, field: data[field]}
    assert json.dumps(given) == before
    assert len(data[field]) == len(messages)
    assert read_file(PATHS[0]) not in str(data[field])
    assert data[field][-1] is messages[-1]


def test_the_hook_leaves_other_calls_and_small_conversations_as_they_are():
    assert hooked("aembedding", input=ITEMS) == {"input": ITEMS}
    assert hooked("acompletion", messages=CHAT[:3]) == {"messages": CHAT[:3]}


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_beta_of_the_clients_is_joined_with_that_for_bound_thinking(is_listed: bool):
    own = {"custom_llm_provider": "anthropic", "extra_headers": {"anthropic-beta": "context-1m-2025-08-07"}}
    other = {"custom_llm_provider": "other", "extra_headers": {"x-other": "1"}}
    given = {"model": "claude-opus-5-5", "messages": MESSAGES, "thinking": {"type": "adaptive"}}
    data = hooked("anthropic_messages", **given, provider_specific_header=[own, other] if is_listed else own)
    assert data["thinking"] == {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert data["extra_headers"] == {"anthropic-beta": f"context-1m-2025-08-07,{BETA}"}
    assert data["provider_specific_header"] == ([other] if is_listed else [])
