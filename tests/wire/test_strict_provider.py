"""The strict provider plays its script to each real client, in tests and from the shell."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import openai
import pytest
from sendable import accepts
from strict_provider import exchange, loops
from strict_provider.scripts import Turn, agent_script
from strict_provider.server import Provider, serve
from strict_provider.tools import run_tool
from tables import each_row
from test_validation import ANTHROPIC, BEDROCK, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES

ROOT = Path(__file__).parents[2]
TASKS = ("Fix the parser.", "Now write its tests.")
BETA = "thinking-binding-controls-2026-08-01"
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BINDING, UNBOUND = "claude-opus-5-5", "claude-opus-4-8"
BODY = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Go on."}]}

LOOPS = [
    ("openai_client", loops.openai_chat, {}),
    ("openai_client", loops.openai_responses, {}),
    ("openai_client", loops.openai_responses, {"store": False, "include": ["reasoning.encrypted_content"]}),
    ("anthropic_client", loops.anthropic, {"model": BINDING}),
    ("anthropic_client", loops.anthropic, {"model": UNBOUND, "thinking": {"type": "adaptive"}}),
    ("anthropic_client", loops.anthropic, {"model": BINDING, "betas": [BETA], "thinking": DROPS}),
    ("gemini_client", loops.gemini, {"model": "gemini-3.1-pro-preview"}),
    ("gemini_client", loops.gemini, {"model": "gemini-2.5-pro", "thinking_config": {"include_thoughts": True}}),
    ("bedrock_client", loops.bedrock, {}),
]


# Broken rules: the tables of the validation, and those rules in them that are not or not always checked here.
BROKEN = {
    "anthropic": (ANTHROPIC, {"misplaced_system", "empty_content", "thinking_signature"}),
    "bedrock": (BEDROCK, {"call_id_pattern", "empty_text"}),
    "gemini": (GEMINI, {"result_names"}),
    "openai_chat": (OPENAI_CHAT, set()),
    "openai_responses": (OPENAI_RESPONSES, {"duplicate_item", "orphan_result"}),
}


@each_row("provider", BROKEN)
def test_it_refuses_what_the_validation_reports(provider: str):
    table, unchecked = BROKEN[provider]
    with_the_same_words = 0
    for conversation, found in table:
        answer = accepts(conversation, provider)
        assert answer if found and found[0][0] not in unchecked else (found or not answer), (conversation, answer)
        with_the_same_words += any(json.dumps(words)[1:-1] in (answer or "") for _, _, words in found)
    assert with_the_same_words > len(table) * 0.4


@pytest.mark.full
@pytest.mark.parametrize("feeds_back", [False, True])
@pytest.mark.parametrize(("client", "loop", "request_fields"), LOOPS)
def test_a_legal_loop_is_answered_to_its_end(
    client: str,
    loop: Callable[..., list[Any]],
    request_fields: dict[str, Any],
    feeds_back: bool,
    strict_provider: Provider,
    request: pytest.FixtureRequest,
):
    strict_provider.play.strict_alternation = True
    conversation = loop(request.getfixturevalue(client), TASKS, feeds_back=feeds_back, **request_fields)

    assert strict_provider.refusals == []
    assert len(strict_provider.requests) == len(strict_provider.play.script) == 10
    assert strict_provider.play.script[-1].text in str(conversation[-1])


def test_a_local_server_may_use_an_id_again_in_each_turn(strict_provider: Provider, openai_client: openai.OpenAI):
    strict_provider.play.script = agent_script(8, seed=1, reuse_ids=True)
    messages = loops.openai_chat(openai_client, TASKS[:1])

    ids = [message["tool_call_id"] for message in messages if isinstance(message, dict) and message["role"] == "tool"]
    assert strict_provider.refusals == []
    assert set(ids) == {"call_0", "call_1", "call_2", "call_3"}
    assert ids.count("call_0") == 8


def test_a_named_conversation_plays_on_when_its_old_turns_are_gone(
    strict_provider: Provider, openai_client: openai.OpenAI
):
    strict_provider.play.script = [Turn("One."), Turn("Two."), Turn("Three.")]
    short = [{"role": "user", "content": "Go on."}]

    def said(**headers: str) -> str:
        answer = openai_client.chat.completions.create(model="gpt-4.1", messages=short, extra_headers=headers)
        return answer.choices[0].message.content

    assert [said() for _ in range(3)] == ["One.", "One.", "One."]
    assert [said(**{"X-Conversation": "mine"}) for _ in range(4)] == ["One.", "Two.", "Three.", "Three."]


def test_a_script_is_the_same_for_the_same_seed():
    assert agent_script(30, seed=4) == agent_script(30, seed=4) != agent_script(30, seed=5)


def test_a_script_has_parallel_calls_large_arguments_and_thinking():
    script = agent_script(60, seed=0, tasks=3)
    assert [bool(turn.calls) for turn in script].count(False) == 3
    assert {len(turn.calls) for turn in script} == {0, 1, 2, 3, 4}
    assert {bool(turn.thinking) for turn in script} == {bool(turn.text) for turn in script} == {True, False}
    assert max(len(str(call.arguments)) for turn in script for call in turn.calls) > 5_000


def test_results_are_the_same_for_the_same_call_and_differ_in_size_and_kind():
    outcomes = [run_tool("read_file", {"path": "a.py", "start": start}) for start in range(500)]
    sizes = sorted(len(outcome.text) for outcome in outcomes)
    shots = [run_tool("screenshot", {"page": str(page)}) for page in range(50)]

    assert outcomes == [run_tool("read_file", {"path": "a.py", "start": start}) for start in range(500)]
    assert outcomes[0] != run_tool("read_file", {"path": "a.py", "start": 0}, seed=1)
    assert all(outcome.text.strip() for outcome in outcomes + shots)
    assert 10 < sum(outcome.is_error for outcome in outcomes) < 100
    assert sizes[250] < 1_200 < 20_000 < sizes[-1]
    assert {outcome.picture is not None for outcome in shots} == {True, False}


def test_a_turn_says_something():
    with pytest.raises(ValueError, match="a turn has a text or calls"):
        Turn(thinking="Silence.")


# The server


def test_a_body_that_is_no_request_is_refused(strict_provider: Provider):
    assert strict_provider.answer(exchange.Request("/v2/chat", {}, {}))[0] == 404
    for body, words in [
        ({}, "Missing required parameter: 'messages'."),
        (BODY | {"messages": ["Go on."]}, "the strict provider cannot read this request: "),
    ]:
        status, answer = strict_provider.answer(exchange.Request("/v1/chat/completions", {}, body))
        assert (status, answer["error"]["message"][: len(words)]) == (400, words)


def test_two_providers_share_nothing():
    with serve([Turn("One.")]) as one, serve([Turn("Two.")]) as two:
        bodies = [each.answer(exchange.Request("/v1/chat/completions", {}, BODY))[1] for each in (one, two)]
    assert [body["choices"][0]["message"]["content"] for body in bodies] == ["One.", "Two."]
    assert [len(each.requests) for each in (one, two)] == [1, 1]


@pytest.mark.parametrize("start", [["-m", "tests.support.strict_provider"], ["tests/support/strict_provider"]])
def test_it_starts_from_the_shell(start: list[str]):
    command = [sys.executable, *start, "--port", "0", "--turns", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().split("/v1 ")[0]
        with urlopen(Request(f"{url}/v1/chat/completions", json.dumps(BODY).encode()), timeout=10) as answer:
            assert json.load(answer)["choices"][0]["message"]["tool_calls"]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "1 requests, 0 refused\n"
