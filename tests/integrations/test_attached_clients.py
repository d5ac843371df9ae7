"""Plain clients with an attached pruner, against a strict provider and a server that records its requests."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
import pytest
from client_loops import LOOPS, is_kept
from loguru import logger
from raw_upstream import Upstream, always, answer, serving
from reading_loop import CALLS, DONE, SAFE_ZONE, SCRIPT, figures_of, read_file
from strict_provider import loops
from strict_provider.server import Provider
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.integrations.clients import attach

OF = {"chat": openai, "responses": openai, "messages": anthropic}
OPTIONS = {"api_key": "none", "max_retries": 0}


def attached(client: Any, safe_zone: int = SAFE_ZONE) -> Any:
    return attach(client, AgenticConversationPruner(PruneArgs(safe_zone)))


def address(api: str, provider: Provider) -> str:
    return provider.url if api == "messages" else f"{provider.url}/v1"


def run(api: str, provider: Provider) -> list[Any]:
    name = "Anthropic" if api == "messages" else "OpenAI"
    with getattr(OF[api], name)(base_url=address(api, provider), **OPTIONS) as client:
        return LOOPS[api].run(attached(client))


async def run_async(api: str, provider: Provider) -> list[Any]:
    name = "AsyncAnthropic" if api == "messages" else "AsyncOpenAI"
    async with getattr(OF[api], name)(base_url=address(api, provider), **OPTIONS) as client:
        return await LOOPS[api].run_async(attached(client))


@pytest.mark.parametrize(
    ("api", "is_async"),
    [
        ("chat", False),
        ("messages", True),
        ("responses", True),
        *[
            pytest.param(*each, marks=pytest.mark.full)
            for each in (("chat", True), ("messages", False), ("responses", False))
        ],
    ],
)
def test_a_long_loop_is_never_refused_and_stays_within_the_safe_zone(
    api: str, is_async: bool, strict_provider: Provider
):
    strict_provider.play.script = SCRIPT
    messages = asyncio.run(run_async(api, strict_provider)) if is_async else run(api, strict_provider)
    found = figures_of(strict_provider)
    assert DONE in str(messages[-1])
    assert strict_provider.refusals == []
    assert found.requests == CALLS + 1
    assert found.largest <= SAFE_ZONE
    assert is_kept(messages)


def test_bound_thinking_stays_valid_beside_a_beta_of_the_callers(strict_provider: Provider):
    beta = {"anthropic-beta": "context-1m-2025-08-07"}
    with anthropic.Anthropic(base_url=strict_provider.url, default_headers=beta, **OPTIONS) as client:
        loops.anthropic(attached(client, 3_000), ["Fix it.", "Test it."], thinking={"type": "adaptive"})
    betas = [request.headers["anthropic-beta"] for request in strict_provider.requests]
    assert strict_provider.refusals == []
    assert betas[0] == "context-1m-2025-08-07"
    assert betas[-1] == "context-1m-2025-08-07,thinking-binding-controls-2026-08-01"
    assert "This message" not in json.dumps(strict_provider.requests[0].body)


def test_a_model_that_gets_a_request_after_another_one_gets_the_parameters_that_it_needs(strict_provider: Provider):
    def fall_back(method: Any, request: dict[str, Any]) -> Any:
        answer = method(**request)
        method(**request | {"model": "claude-opus-5-5"})
        return answer

    settings = {"model": "claude-opus-4-8", "thinking": {"type": "adaptive"}}
    with anthropic.Anthropic(base_url=strict_provider.url, **OPTIONS) as client:
        loops.anthropic(attached(client, 3_000), ["Fix it.", "Test it."], send=fall_back, **settings)
    *_, before, last = strict_provider.requests
    assert strict_provider.refusals == []
    assert before.body["thinking"] == {"type": "adaptive"}
    assert last.body["thinking"] == {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


# What is passed on as it is

HISTORY = [
    {"role": "user", "content": "Read a.py and b.py."},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.py"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": read_file("a.py")}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t2", "name": "read_file", "input": {"path": "b.py"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": read_file("b.py")}]},
]
ROLES = ("user", "assistant")
CHAT = [{"role": "user", "content": "Read a.py and b.py."}]
for name in ("a.py", "b.py"):
    function = {"name": "read_file", "arguments": f'{{"path": "{name}"}}'}
    CHAT += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": name, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": name, "content": read_file(name)},
    ]
REQUEST = {"model": "claude-opus-4-8", "messages": HISTORY}
EVENTS = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'


class Recorder(BaseHTTPRequestHandler):
    """Keeps paths and bodies of requests, refuses the first as overloaded, and answers a stream with its end."""

    protocol_version = "HTTP/1.1"

    def __init__(self, kept: list[tuple[str, bytes]], *connection: Any) -> None:
        self.kept = kept
        super().__init__(*connection)

    def do_POST(self) -> None:
        self.kept.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        is_stream = b'"stream":true' in self.kept[-1][1].replace(b" ", b"")
        self.send_response(529 if len(self.kept) == 1 else 200)
        self.send_header("retry-after-ms", "1")
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        answer = EVENTS if is_stream else b"{}"
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the standard error stream for faults."""


@contextmanager
def recorded() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    kept: list[tuple[str, bytes]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Recorder, kept)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", kept
        finally:
            server.shutdown()
            thread.join()


def test_a_retry_and_a_stream_send_the_same_pruned_messages():
    with recorded() as (url, kept), anthropic.Anthropic(base_url=url, api_key="none", max_retries=1) as client:
        pruning = attached(client, 4_000)
        with pruning.messages.create(**REQUEST, max_tokens=100, stream=True) as stream:
            assert [event.type for event in stream] == ["message_stop"]
    first, second = (json.loads(body)["messages"] for _, body in kept)
    assert first == second
    assert first != HISTORY
    assert [message["role"] for message in first] == [message["role"] for message in HISTORY]
    assert HISTORY[2]["content"][0]["content"] == read_file("a.py")


ITEMS = [{"role": "user", "content": "Read a.py and b.py."}]
for name in ("a.py", "b.py"):
    call = {"call_id": name, "name": "read_file", "arguments": f'{{"path": "{name}"}}'}
    ITEMS += [
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": name, "output": read_file(name)},
    ]
ASKED = {"chat": CHAT, "responses": ITEMS, "messages": HISTORY}
REFUSAL = b'{"error": {"type": "invalid_request_error", "message": "No such model."}}'


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("api", LOOPS)
def test_an_error_of_the_provider_is_raised_unchanged_and_the_messages_stay(api: str, is_async: bool):
    before = json.dumps(ASKED[api])
    with serving(always(answer(REFUSAL, "400 Bad Request"))) as upstream:
        plain, raised = (asyncio.run(error_of(api, is_async, upstream, each)) for each in (as_it_is, pruning))
    sent = [len(body) for _, body in upstream.requests]
    assert (type(raised), str(raised), raised.body) == (type(plain), str(plain), plain.body)
    assert "No such model." in str(raised)
    assert len(sent) == 2
    assert sent[1] < sent[0]
    assert json.dumps(ASKED[api]) == before


def as_it_is(client: Any) -> Any:
    return client


def pruning(client: Any) -> Any:
    return attached(client, 4_000)


async def error_of(api: str, is_async: bool, upstream: Upstream, prepared: Callable[[Any], Any]) -> Any:
    """The error that a client raises if the provider refuses a request."""
    made = getattr(OF[api], ("Async" if is_async else "") + ("Anthropic" if api == "messages" else "OpenAI"))
    client, loop = prepared(made(base_url=upstream.url, **OPTIONS)), LOOPS[api]
    with pytest.raises(OF[api].BadRequestError) as raised:
        await loop.method(client)(**loop.request, **{loop.field: ASKED[api]})
    await client.close() if is_async else client.close()
    return raised.value


def test_a_copy_of_the_client_prunes_and_a_client_that_was_there_before_does_not():
    with recorded() as (url, kept), anthropic.Anthropic(base_url=url, api_key="none", max_retries=1) as client:
        before = client.with_options(timeout=10)
        for each in (before, attached(client, 4_000).with_options(timeout=10)):
            each.messages.create(**REQUEST, max_tokens=100)
    *_, unpruned, pruned = (json.loads(body)["messages"] for _, body in kept)
    assert unpruned == HISTORY
    assert pruned != HISTORY


def azure(url: str) -> Any:
    return openai.AzureOpenAI(azure_endpoint=url, api_key="none", api_version="2024-10-21", max_retries=1)


def vertex(url: str) -> Any:
    return anthropic.AnthropicVertex(base_url=url, access_token="none", project_id="p", region="us", max_retries=1)


def bedrock(url: str) -> Any:
    keys = {"aws_access_key": "none", "aws_secret_key": "none", "aws_region": "us-east-1"}
    return anthropic.AnthropicBedrock(base_url=url, **keys, max_retries=1)


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (azure, "/openai/deployments/m/chat/completions?api-version=2024-10-21"),
        (vertex, "/projects/p/locations/us/publishers/anthropic/models/m:rawPredict"),
        (bedrock, "/model/m/invoke"),
    ],
)
def test_a_client_for_a_cloud_prunes_its_requests(made: Callable[[str], Any], path: str):
    with recorded() as (url, kept), made(url) as client:
        pruning = attached(client, 4_000)
        if made is azure:
            pruning.chat.completions.create(model="m", messages=CHAT)
        else:
            pruning.messages.create(model="m", max_tokens=100, messages=HISTORY)
    sent = json.loads(kept[-1][1])["messages"]
    assert kept[-1][0] == path
    assert len(sent) == len(CHAT if made is azure else HISTORY)
    assert read_file("a.py") not in str(sent)


def test_messages_that_the_caller_adds_to_the_body_are_pruned_too():
    with recorded() as (url, kept), anthropic.Anthropic(base_url=url, api_key="none", max_retries=1) as client:
        extra = {"messages": HISTORY, "speed": "fast"}
        attached(client, 4_000).messages.create(model="claude-opus-4-8", max_tokens=1, messages=[], extra_body=extra)
    sent = json.loads(kept[-1][1])
    assert sent["speed"] == "fast"
    assert len(sent["messages"]) == len(HISTORY)
    assert sent["messages"] != HISTORY


def test_counts_of_tokens_and_uploads_are_not_touched():
    with recorded() as (url, kept), anthropic.Anthropic(base_url=url, api_key="none", max_retries=1) as client:
        attached(client, 4_000).messages.count_tokens(**REQUEST)
    assert json.loads(kept[-1][1])["messages"] == HISTORY
    with recorded() as (url, kept), openai.OpenAI(base_url=url, api_key="none", max_retries=1) as client:
        attached(client).files.create(file=("a.txt", b"some bytes"), purpose="user_data")
    assert [path for path, _ in kept] == ["/files", "/files"]
    assert b"some bytes" in kept[-1][1]


def sent_by(pruning: Any, messages: list[Any] = HISTORY) -> Any:
    """The messages that a client sends to which this is attached."""
    with recorded() as (url, kept), anthropic.Anthropic(base_url=url, api_key="none", max_retries=1) as client:
        attach(client, pruning).messages.create(**REQUEST | {"messages": messages}, max_tokens=100)
    return json.loads(kept[-1][1])["messages"]


def test_a_safe_zone_settings_and_a_pruner_are_taken_alike():
    pruned = sent_by(AgenticConversationPruner(PruneArgs(4_000)))
    assert sent_by(4_000) == pruned
    assert sent_by(PruneArgs(4_000)) == pruned
    assert pruned != HISTORY


def test_a_pruner_that_folds_uses_its_own_default_strategy():
    talk = [{"role": role, "content": f"{role} {turn}: {'word ' * 200}"} for turn in range(20) for role in ROLES]
    pruned = sent_by(ConversationPruner(PruneArgs(4_000)), talk[:-1])
    assert pruned[-1] == talk[-2]
    assert len(pruned) < len(talk) / 2


def test_the_log_says_why_a_conversation_is_not_pruned():
    said: list[str] = []
    logger.enable("autoprune")
    sink = logger.add(said.append, format="{level} {message}", level="WARNING")
    try:
        with recorded() as (url, kept), openai.OpenAI(base_url=url, api_key="none", max_retries=1) as client:
            attached(client).responses.create(model="gpt-5", input="Go on.", previous_response_id="resp_1")
    finally:
        logger.remove(sink)
        logger.disable("autoprune")
    assert json.loads(kept[0][1])["previous_response_id"] == "resp_1"
    words = "previous_response_id: the provider keeps the history, nothing of it can be pruned here"
    assert said == [f"WARNING {words}\n"] * 2


def test_an_object_that_is_no_client_is_an_error():
    with pytest.raises(SettingsError, match="cannot attach to a dict: give a client of openai or anthropic"):
        attached({})


@pytest.mark.parametrize("kind", [openai.OpenAI, openai.AsyncOpenAI, anthropic.Anthropic, anthropic.AsyncAnthropic])
def test_a_class_is_an_error_and_is_not_changed(kind: type):
    before = dict(vars(kind))
    with pytest.raises(SettingsError, match=f"cannot attach to the class {kind.__name__}: give a client"):
        attached(kind)
    assert dict(vars(kind)) == before


def test_a_mistyped_strategy_is_an_error_at_once():
    client = openai.OpenAI(api_key="none")
    with pytest.raises(SettingsError, match=r"no strategy 'cache_awear' \(did you mean cache_aware\?\)"):
        attach(client, 4_000, strategy="cache_awear")


@each_row(
    ("pruning", "said"),
    [
        (PruneArgs("abc"), "the safe zone is 'abc'"),
        (-5, "the safe zone is -5"),
        ({"safe_zone": "4k"}, r"'safe_zone' \(did you mean"),
        (PruneArgs("50k", thinking_policy="x"), "thinking_policy is 'x'"),
        (AgenticConversationPruner("50k", strategy="low_water(target=5)"), "low_water: target is 5"),
        (AgenticConversationPruner(0.5), ""),  # a share of the window of each request's model
    ],
)
def test_settings_that_cannot_be_used_are_an_error_at_once(pruning: Any, said: str):
    client = openai.OpenAI(api_key="none")
    with pytest.raises(SettingsError, match=said) if said else nullcontext():
        attach(client, pruning)
