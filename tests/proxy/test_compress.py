"""`POST /v1/compress`, by which gateways get pruned messages."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from proxied import recorded, send
from proxy.conftest import messages
from raw_upstream import always, answer, serving

from autoprune import AgenticConversationPruner
from autoprune.apps.proxy import Running
from autoprune.strategies.catalog import clearing_named

NOWHERE = "http://127.0.0.1:9"
THOUGHT = {"type": "thinking", "thinking": "I see.", "signature": "c2lnbmVk"}


def compress(proxy: Running, body: object, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **headers}
    return httpx.post(f"{proxy.url}/v1/compress", content=content, headers=sent)


@pytest.mark.parametrize(("given", "model"), [(messages(30), "claude-sonnet-4-5"), (recorded()[:-1], "gpt-5")])
def test_messages_come_back_pruned_as_a_forwarded_request_has_them(
    given: list[Any], model: str, proxy_to: Callable[..., Running]
):
    proxy = proxy_to(NOWHERE, strategy="low_water")
    done = compress(proxy, {"messages": given, "model": model})
    assert (done.status_code, done.headers["content-type"]) == (200, "application/json")
    found = done.json()
    pruner = AgenticConversationPruner("2k", model=model)
    plan = clearing_named("low_water")
    report = pruner.prune(given, plan).report
    assert found.pop("messages") == pruner.prune_conversations(given, strategy=plan) != given
    before, after = report.tokens_before, report.tokens_after
    sizes = {"tokens_before": before, "tokens_after": after, "tokens_saved": before - after}
    assert found == {**sizes, "compression_ratio": after / before}
    (session,) = proxy.sessions
    assert (session.requests, session.failed, session.points[-1].after) == (1, 0, after)


def test_a_conversation_that_grows_keeps_what_was_cleared(proxy_to: Callable[..., Running]):
    proxy, given = proxy_to(NOWHERE, strategy="low_water", safe_zone="20k"), messages(40)
    first, second = (
        compress(proxy, {"messages": given[:end], "model": "gpt-5"}).json()["messages"] for end in (61, 63)
    )
    assert second[: len(first)] == first != given[:61]
    assert len(proxy.sessions) == 1


def test_without_folding_the_number_of_messages_stays(proxy_to: Callable[..., Running]):
    given = messages(20)
    asks = [(proxy_to(NOWHERE, safe_zone="20k"), options) for options in ({"fold": False}, {})]
    for end in range(1, len(given) + 1, 2):
        kept, folded = (
            compress(proxy, {"messages": given[:end], "model": "gpt-5", **options}).json()["messages"]
            for proxy, options in asks
        )
    assert len(kept) == len(given) > len(folded)


def test_what_needs_no_pruning_comes_back_as_it_was(proxy_to: Callable[..., Running]):
    found = compress(proxy_to(NOWHERE), {"messages": messages(1), "model": "gpt-5"}).json()
    assert (found["messages"], found["tokens_saved"], found["compression_ratio"]) == (messages(1), 0, 1.0)
    odd = [{"role": 5}]
    found = compress(proxy_to(NOWHERE), {"messages": odd}).json()
    assert (found["messages"], found["tokens_before"], found["tokens_saved"]) == (odd, 0, 0)


def test_thinking_that_a_parameter_would_have_to_drop_is_not_made_invalid(proxy_to: Callable[..., Running]):
    given = messages(30)
    for message in given[1::2]:
        message["content"].insert(0, THOUGHT)
    proxy = proxy_to(NOWHERE)
    kept, cleared = (
        compress(proxy, {"messages": given, "model": model}).json()["messages"] == given
        for model in ("claude-opus-5-5", "claude-sonnet-4-5")
    )
    assert (kept, cleared) == (True, False)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": "gpt-5"}', b'{"messages": "x"}'])
def test_a_body_without_messages_is_an_error(body: bytes, proxy_to: Callable[..., Running]):
    done = compress(proxy_to(NOWHERE), body)
    assert (done.status_code, done.json()["error"]["message"][:11]) == (400, "autoprune: ")


def test_if_other_machines_reach_the_proxy_the_token_may_be_a_bearer_token(proxy_to: Callable[..., Running]):
    proxy = proxy_to(NOWHERE, host="0.0.0.0", token="secret")
    body = {"messages": messages(1), "model": "gpt-5"}
    given = ({}, {"authorization": "Bearer other"}, {"authorization": "Bearer secret"}, {"x-autoprune-token": "secret"})
    assert [compress(proxy, body, **headers).status_code for headers in given] == [403, 403, 200, 200]
    with serving(always(answer(b"{}"))) as upstream:
        forwarding = proxy_to(upstream.url, host="0.0.0.0", token="secret")
        sent = {"authorization": "Bearer secret"}
        assert httpx.post(f"{forwarding.url}/v1/chat/completions", json=body, headers=sent).status_code == 403


def test_other_requests_to_that_path_and_conversations_are_forwarded(proxy_to: Callable[..., Running]):
    with serving(always(answer(b"{}"))) as upstream:
        proxy = proxy_to(upstream.url)
        assert httpx.get(f"{proxy.url}/v1/compress").status_code == 200
        compress(proxy, {"messages": messages(1)})
        send(proxy.url, [*recorded()[:2], {"role": "assistant", "content": "Done."}])
        assert len(upstream.requests) == 2
