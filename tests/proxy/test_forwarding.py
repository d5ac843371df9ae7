"""Requests and answers pass through the proxy unchanged except for pruning, and failures are readable errors."""

import gzip
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import zstandard
from proxied import prefix_changes, recorded, send
from proxy.conftest import body, eventually, messages
from raw_upstream import Connection, always, answer, serving

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.apps.proxy import ClientSession, Running, Settings, _forwarding, running
from autoprune.apps.proxy._configuration import Guard
from autoprune.apps.proxy._forwarding import upstream_url
from autoprune.apps.proxy._lanes import Lanes

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
USAGE = b'data: {"type": "message_start", "message": {"usage": {"input_tokens": 700}}}\n\n'
ProxyTo = Callable[..., Running]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_only_the_conversation_in_a_request_is_changed(proxy_to: ProxyTo) -> None:
    with serving(always(answer(b'{"ok": 1}', x_own="yes"))) as upstream:
        proxy = proxy_to(upstream.url)
        sent = body(8, metadata={"user_id": "ünï"}, stream=False)
        headers = {"X-Api-Key": "secret", "User-Agent": "mine/1", "anthropic-version": "2023-06-01"}
        got = httpx.post(f"{proxy.url}/v1/messages?beta=true", content=sent, headers=headers)
    head, came = upstream.requests[0]
    assert head.splitlines()[0] == "POST /v1/messages?beta=true HTTP/1.1"
    assert {"x-api-key: secret", "user-agent: mine/1"} <= set(head.lower().splitlines())
    known = json.loads(came)
    assert list(known) == ["model", "messages", "metadata", "stream"]
    args = PruneArgs("2k", model="claude-sonnet-4-5", format="anthropic")
    assert known["messages"] == AgenticConversationPruner(args).prune(messages(8), "cache_aware").conversation
    assert known["messages"] != messages(8)
    assert known["metadata"] == {"user_id": "ünï"}
    assert (got.status_code, got.json(), got.headers["x-own"]) == (200, {"ok": 1}, "yes")


def test_the_default_strategy_changes_the_prefix_as_seldom_as_cache_aware():
    with serving(always(answer())) as upstream, running(Settings(upstream.url, "30k")) as proxy:
        assert send(proxy.url, recorded()) == len(upstream.requests) == 42
    assert prefix_changes(upstream) == 3


def test_a_request_that_is_retried_after_a_429_is_one_request_in_the_ledger(proxy_to: ProxyTo) -> None:
    answers = iter([answer(), *[answer(b"{}", "429 Too Many Requests")] * 2, *[answer()] * 5])

    def play(connection: Connection) -> None:
        while connection.request():
            connection.send(next(answers))

    def session(url: str, *sizes: int) -> ClientSession:
        proxy = proxy_to(url, strategy="low_water")
        for results in sizes:
            httpx.post(f"{proxy.url}/v1/messages", content=body(results))
        eventually(lambda: sum(each.requests for each in proxy.sessions) == len(sizes))
        return proxy.sessions[0]

    with serving(play) as upstream:
        repeating, plain = session(upstream.url, 1, 3, 3, 3, 4), session(upstream.url, 1, 3, 4)
    assert (repeating.refused, repeating.ledger.requests, plain.ledger.requests) == (2, 3, 3)
    assert repeating.ledger.entries == plain.ledger.entries
    assert repeating.ledger.entries[0].request == 2


@pytest.mark.parametrize(
    ("version", "framed", "is_closed"),
    [("1.0", [b"one", b"two"], True), ("1.1", [b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"], False)],
)
def test_an_answer_to_http_1_0_has_no_chunks_and_ends_with_the_connection(
    proxy_to: ProxyTo, version: str, framed: list[bytes], is_closed: bool
) -> None:
    with serving(always(STREAM + chunk(b"one") + chunk(b"two") + chunk(b""))) as upstream:
        proxy = urlsplit(proxy_to(upstream.url).url)
        with socket.create_connection((proxy.hostname, proxy.port)) as client:
            client.settimeout(5)
            client.sendall(f"GET /v1/models HTTP/{version}\r\nhost: {proxy.netloc}\r\n\r\n".encode())
            got = b""
            while not got.endswith(framed[-1]):
                got += client.recv(65_536)
            head, _, content = got.partition(b"\r\n\r\n")
            assert (b"chunked" in head, b"connection: close" in head.lower()) == (not is_closed, is_closed)
            assert content.replace(b"6\r\nonetwo", b"3\r\none\r\n3\r\ntwo") == b"".join(framed)
            if is_closed:
                assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("method", "path", "content", "headers"),
    [
        ("GET", "/v1/models?limit=5", b"", {}),
        ("POST", "/v1/files/a%2Fb%20c", bytes(range(256)), {"content-type": "application/octet-stream"}),
        ("POST", "/v1/messages", b'{"messages": [{"role": "user", "content": "Go."}],  "spaces":   1}', {}),
        ("POST", "/v1/messages", b"no JSON \xff", {}),
        ("POST", "/v1/messages", body(8), {"content-encoding": "br"}),
        ("POST", "/v1/messages", body(8), {"x-interaction-type": "conversation-compaction"}),
        ("POST", "/v1/messages", body(8), {"authorization": "AWS4-HMAC-SHA256 Credential=a"}),
        ("DELETE", "/v1/files/1", b"", {}),
    ],
)
def test_requests_that_are_not_pruned_are_forwarded_byte_for_byte(
    proxy_to: ProxyTo, method: str, path: str, content: bytes, headers: dict[str, str]
) -> None:
    with serving(always(answer(b"\x00\xff", kind="text/plain"))) as upstream:
        got = httpx.request(method, proxy_to(upstream.url).url + path, content=content, headers=headers)
    head, came = upstream.requests[0]
    assert head.splitlines()[0] == f"{method} {path} HTTP/1.1"
    assert came == content
    assert got.content == b"\x00\xff"


NESTED = (100, 499, 500, 900, 2_000, 100_000)


@pytest.mark.parametrize("jobs", [0, 2])
def test_deeply_nested_requests_are_pruned_or_forwarded_byte_for_byte(proxy_to: ProxyTo, jobs: int) -> None:
    def nested(depth: int) -> str:
        return '{"a": ' * depth + "1" + "}" * depth

    places: list[Callable[[str, int], str]] = [
        lambda said, depth: said.replace('{"path": "0.py"}', nested(depth)),
        lambda said, depth: said.replace('{"path": "0.py"}', '{"a": ' + "[" * depth + "]" * depth + "}"),
        lambda said, depth: said.replace('"Mend it."', '[{"type": "text", "content": ' * depth + '"x"' + "}]" * depth),
        lambda said, depth: f'{said[:-1]}, "metadata": {nested(depth)}}}',
    ]
    with serving(always(answer())) as upstream:
        url = f"{proxy_to(upstream.url, jobs=jobs).url}/v1/messages"
        for place in places:
            for depth in NESTED:
                content = place(body(8).decode(), depth).encode()
                assert httpx.post(url, content=content).status_code == 200
                came = upstream.requests[-1][1]
                if came != content:
                    assert depth < 1_000 or sys.version_info >= (3, 12)  # which parses more levels
                    before, after = (json.loads(each)["messages"] for each in (content, came))
                    assert before[:2] == after[:2]
                    assert len(came) < len(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"messages": [], "messages": [{"role": "user", "content": "Go."}]}', "duplicate name 'messages'"),
        (body(8).replace(b'"model"', b'"temperature": NaN, "model"'), "NaN is not valid JSON"),
        (body(8).replace(b'"model"', b'"temperature": 1e999, "model"'), "Out of range float"),
        (body(8).replace(b"Mend", b"Mend \xff"), "invalid start byte"),
        (body(8) + b"}", "Extra data"),
        (b'{"messages": [' + b"{}," * 50_000 + b"{}]}", "more than 50,000 messages"),
    ],
)
def test_bodies_that_cannot_be_rewritten_faithfully_are_forwarded_byte_for_byte(
    proxy_to: ProxyTo, content: bytes, why: str
) -> None:
    with serving(always(answer())) as upstream:
        proxy = proxy_to(upstream.url)
        assert httpx.post(f"{proxy.url}/v1/messages", content=content).status_code == 200
    assert upstream.requests[0][1] == content
    assert why in proxy.traffic.why


def fails(*args: Any, **named: Any) -> Any:
    """Raise an error, in place of any function."""
    raise ZeroDivisionError("a fault")


@pytest.mark.parametrize("place", ["_choose", "prune", "account", "learn"])
def test_a_fault_of_the_proxy_does_not_keep_a_request_from_its_answer(
    proxy_to: ProxyTo, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(Lanes, place, fails)
    said = b'{"usage": {"input_tokens": 4000}}'
    with serving(always(answer(said))) as upstream:
        proxy = proxy_to(upstream.url)
        for results in (8, 9):
            got = httpx.post(f"{proxy.url}/v1/messages", content=body(results))
            assert (got.status_code, got.content) == (200, said)
    came = [content for _, content in upstream.requests]
    assert (came == [body(8), body(9)]) == (place in ("_choose", "prune"))
    eventually(lambda: proxy.traffic.why == "ZeroDivisionError: a fault")


def test_an_internal_error_has_the_shape_of_the_api(proxy_to: ProxyTo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "objection", fails)
    monkeypatch.setattr(Guard, "foreign_objection", fails)
    url = proxy_to("http://127.0.0.1:9").url
    for path in ("/v1/messages", "/metrics"):
        got = httpx.get(url + path)
        assert got.status_code == 500
        assert got.json()["error"]["message"] == "autoprune: internal error of the proxy: ZeroDivisionError: a fault"


def test_a_token_count_is_pruned_like_the_request_and_not_counted_as_one(proxy_to: ProxyTo) -> None:
    with serving(always(answer(b'{"input_tokens": 700}'))) as upstream:
        proxy = proxy_to(upstream.url)
        for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/messages"):
            httpx.post(f"{proxy.url}{path}", content=body(8))
        eventually(lambda: [session.requests for session in proxy.sessions] == [2])
    first, counted, last = (came for _, came in upstream.requests)
    assert first == counted == last != body(8)
    assert proxy.sessions[0].ledger.requests == 2


@pytest.mark.parametrize("name", ["x-claude-code-session-id", "session-id", "x-session-id"])
def test_a_header_of_the_client_names_the_session(proxy_to: ProxyTo, name: str) -> None:
    with serving(always(answer())) as upstream:
        proxy = proxy_to(upstream.url)
        for session in ("one", "two", "one"):
            httpx.post(f"{proxy.url}/v1/messages", content=body(2), headers={name: session})
        eventually(lambda: sorted(session.requests for session in proxy.sessions) == [1, 2])


def test_a_websocket_is_refused_with_a_status_that_makes_clients_use_http(proxy_to: ProxyTo) -> None:
    with serving(always(answer())) as upstream:
        url = f"{proxy_to(upstream.url).url}/v1/responses"
        for protocol, status in (("websocket", 426), ("h2c", 200)):
            assert httpx.get(url, headers={"Connection": "Upgrade", "Upgrade": protocol}).status_code == status
    assert len(upstream.requests) == 1


def test_a_request_that_offers_http_2_keeps_its_body(proxy_to: ProxyTo) -> None:
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAA"}
    with serving(always(answer(b'{"ok": 1}'))) as upstream:
        url = f"{proxy_to(upstream.url).url}/v1/messages"
        for content in (body(1), iter([b'{"a":', b" 1}"]), b"x" * 300_000):
            got = httpx.post(url, content=content, headers=headers)
            assert (got.status_code, got.content) == (200, b'{"ok": 1}')
    assert [content for _, content in upstream.requests] == [body(1), b'{"a": 1}', b"x" * 300_000]


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("zstd", zstandard.compress)]
)
def test_a_compressed_request_is_pruned_and_sent_uncompressed(
    proxy_to: ProxyTo, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    with serving(always(answer())) as upstream:
        packed = compress(body(8))
        httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=packed, headers={"content-encoding": encoding})
    head, came = upstream.requests[0]
    assert "content-encoding" not in head.lower()
    assert 0 < len(came) < len(body(8)) / 2
    assert json.loads(came)["messages"]


def test_a_compressed_answer_is_passed_unchanged_and_its_usage_is_read(proxy_to: ProxyTo) -> None:
    packed = gzip.compress(b'{"usage": {"input_tokens": 4000}}')
    with serving(always(answer(packed, content_encoding="gzip"))) as upstream:
        proxy = proxy_to(upstream.url)
        with httpx.stream("POST", f"{proxy.url}/v1/messages", content=body(8)) as got:
            assert b"".join(got.iter_raw()) == packed
        httpx.post(f"{proxy.url}/v1/messages", content=body(9))
        eventually(lambda: [session for session in proxy.sessions if session.ledger.reported])
    assert proxy.sessions[0].ledger.reported[0].prompt == 4_000


ANTHROPICS = b'"diagnostics": {"cache_miss_reason": {"type": "messages_changed", "cache_missed_input_tokens": 900}}'
OPENAIS = b'"prompt_cache_diagnostics": {"type": "cache_miss", "cache_missed_tokens": 900, "reason": "input_changed"}'
USED = b'"usage": {"input_tokens": 4000}'


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("application/json", b"{%s, %s}" % (ANTHROPICS, USED), "messages_changed"),
        ("application/json", b"{%s, %s}" % (OPENAIS, USED), "input_changed"),
        ("text/event-stream", b'data: {"message": {%s, %s}}\n\n' % (ANTHROPICS, USED), "messages_changed"),
        ("text/event-stream", b'data: {"delta": {%s}, %s}\n\n' % (ANTHROPICS, USED), "messages_changed"),
        ("text/event-stream", b'data: {"response": {%s, %s}}\n\n' % (OPENAIS, USED), "input_changed"),
    ],
)
def test_a_cache_diagnosis_passes_unchanged_and_is_noted_if_it_is_about_our_change(
    proxy_to: ProxyTo, kind: str, text: bytes, reason: str
) -> None:
    asked = {"diagnostics": {"previous_message_id": "msg_1"}, "prompt_cache_options": {"comparison_response_id": "r"}}
    said = f"results were cleared, and the provider's cache diagnosis says {reason}"
    with serving(always(answer(text, kind=kind))) as upstream:
        proxy = proxy_to(upstream.url, strategy="tool_output_cleanup")
        for results in (1, 8):
            assert httpx.post(f"{proxy.url}/v1/messages", content=body(results, **asked)).content == text
        eventually(lambda: said in proxy.sessions[0].notes)
    sent = [json.loads(came) for _, came in upstream.requests]
    assert [{name: each[name] for name in asked} for each in sent] == [asked, asked]
    assert proxy.sessions[0].notes[said] == 1


@pytest.mark.parametrize(
    ("accepted", "offered"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate, zstd"),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip;q=0.8"),
        ("br", "identity"),
        ("BR , x-gzip", "x-gzip"),
        ("gzip, deflate", "gzip, deflate"),
        ("identity", "identity"),
    ],
)
def test_only_encodings_in_which_usage_can_be_read_are_offered_to_the_provider(
    proxy_to: ProxyTo, accepted: str, offered: str
) -> None:
    with serving(always(answer())) as upstream:
        url = proxy_to(upstream.url).url
        httpx.post(f"{url}/v1/messages", content=body(2), headers={"accept-encoding": accepted})
        httpx.get(f"{url}/v1/models", headers={"accept-encoding": accepted})
    lines = [line for head, _ in upstream.requests for line in head.lower().splitlines() if "accept-encoding" in line]
    assert lines == [f"accept-encoding: {offered}".lower(), f"accept-encoding: {accepted}".lower()]


def test_events_of_a_stream_are_passed_on_one_by_one(proxy_to: ProxyTo) -> None:
    go_on = threading.Event()

    def play(connection: Connection) -> None:
        connection.request()
        connection.send(STREAM + chunk(USAGE))
        assert go_on.wait(10)
        connection.send(chunk(b"data: last\r\n\r\n") + b"0\r\n\r\n")

    with (
        serving(play) as upstream,
        httpx.stream("POST", f"{proxy_to(upstream.url).url}/v1/messages", content=body(2)) as got,
    ):
        pieces = got.iter_raw()
        assert next(pieces) == USAGE
        go_on.set()
        assert b"".join(pieces) == b"data: last\r\n\r\n"


def test_a_client_that_goes_away_closes_the_connection_to_the_upstream(proxy_to: ProxyTo) -> None:
    def play(connection: Connection) -> None:
        connection.request()
        connection.send(STREAM + chunk(USAGE))
        connection.wait_until_gone()

    with serving(play) as upstream:
        proxy = proxy_to(upstream.url)
        with httpx.stream("POST", f"{proxy.url}/v1/messages", content=body(2)) as got:
            next(got.iter_raw())
        assert upstream.gone.wait(10)
        eventually(lambda: [each.usage for each in proxy.sessions] == [{"input_tokens": 700}])


def test_a_client_that_goes_away_before_its_answer_closes_the_upstream_connection_too(proxy_to: ProxyTo) -> None:
    def play(connection: Connection) -> None:
        connection.request()
        connection.wait_until_gone()

    with serving(play) as upstream:
        address = urlsplit(proxy_to(upstream.url).url)
        with socket.create_connection((address.hostname, address.port)) as client:
            head = f"POST /v1/messages HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-length: {len(body(2))}\r\n\r\n"
            client.sendall(head.encode() + body(2))
            while not upstream.requests:
                time.sleep(0.01)
        assert upstream.gone.wait(10)


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200", b"nonsense\r\n\r\n"])
def test_an_upstream_that_fails_before_its_answer_gets_the_request_once(proxy_to: ProxyTo, beginning: bytes) -> None:
    def play(connection: Connection) -> None:
        connection.request()
        connection.send(beginning)

    with serving(play) as upstream:
        proxy = proxy_to(upstream.url)
        got = httpx.post(f"{proxy.url}/v1/messages", content=body(2))
    assert got.status_code == 502
    assert got.json()["error"]["message"].startswith("autoprune: 127.0.0.1:")
    assert len(upstream.requests) == 1
    eventually(lambda: [session.failed for session in proxy.sessions] == [1])


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/v1/messages", lambda said: (said["type"], said["error"]["type"]) == ("error", "api_error")),
        ("/v1/chat/completions", lambda said: said["error"]["type"] == "api_error"),
        ("/v1/responses", lambda said: said["error"]["code"] == "autoprune"),
        ("/v1beta/models/g:generateContent", lambda said: said["error"]["status"] == "UNAVAILABLE"),
        ("/model/m/converse", lambda said: isinstance(said["message"], str)),
    ],
)
def test_the_proxys_errors_have_the_shape_of_the_api(proxy_to: ProxyTo, path: str, where: Callable[..., bool]) -> None:
    got = httpx.post(proxy_to("http://127.0.0.1:9").url + path, json={"messages": []})
    assert got.status_code == 502
    assert where(got.json())


def test_an_answer_that_breaks_off_breaks_off_for_the_client(proxy_to: ProxyTo) -> None:
    def play(connection: Connection) -> None:
        connection.request()
        connection.send(STREAM + chunk(USAGE))

    with serving(play) as upstream:
        proxy = proxy_to(upstream.url)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{proxy.url}/v1/messages", content=body(2))
        eventually(lambda: [each.usage for each in proxy.sessions] == [{"input_tokens": 700}])


def test_a_closed_pooled_connection_is_not_reused(proxy_to: ProxyTo) -> None:
    def play(connection: Connection) -> None:
        connection.request()
        connection.send(answer())  # and closes, without having said so

    with serving(play) as upstream:
        proxy = proxy_to(upstream.url)
        for _ in range(5):
            assert httpx.post(f"{proxy.url}/v1/messages", content=body(2)).status_code == 200
            time.sleep(0.02)
    assert len(upstream.requests) == 5


def test_the_upstreams_errors_are_passed_on_and_counted(proxy_to: ProxyTo) -> None:
    said = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    with serving(always(answer(said, "529 Overloaded", retry_after="3"))) as upstream:
        proxy = proxy_to(upstream.url)
        got = httpx.post(f"{proxy.url}/v1/messages", content=body(2))
    assert (got.status_code, got.content, got.headers["retry-after"]) == (529, said, "3")
    eventually(lambda: [session.refused for session in proxy.sessions] == [1])


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_provider_that_states_the_window_gets_shorter_requests(proxy_to: ProxyTo, jobs: int) -> None:
    message = "prompt is too long: 5000 tokens > 2000 maximum"
    said = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).encode()
    with serving(always(answer(said, "400 Bad Request"))) as upstream:
        proxy = proxy_to(upstream.url, safe_zone=None, jobs=jobs)
        for _ in range(2):
            assert httpx.post(f"{proxy.url}/v1/messages", content=body(8)).content == said
            eventually(lambda: [session.safe_zone for session in proxy.sessions])
    unpruned, pruned = (sent for _, sent in upstream.requests)
    assert unpruned == body(8)
    assert len(pruned) < len(unpruned) / 2


def test_a_repeated_header_reaches_the_upstream_complete(proxy_to: ProxyTo) -> None:
    with serving(always(answer())) as upstream:
        headers = [("anthropic-beta", "a,b"), ("anthropic-beta", "c")]
        httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(8), headers=headers)
    sent = [
        line.partition(": ")[2] for line in upstream.requests[0][0].splitlines() if line.startswith("anthropic-beta")
    ]
    assert sent == ["a,b", "c"]


def test_the_pages_cookie_is_not_forwarded(proxy_to: ProxyTo) -> None:
    with serving(always(answer())) as upstream:
        proxy = proxy_to(upstream.url, token="a-secret")
        port = proxy.url.rpartition(":")[2]
        headers = {"cookie": f"one=1; autoprune_token_{port}=a-secret; two=2"}
        httpx.get(f"{proxy.url}/v1/models", headers=headers)
    head = upstream.requests[0][0]
    assert "secret" not in head
    assert "cookie: one=1; two=2" in head


def test_a_key_in_a_url_is_not_logged(proxy_to: ProxyTo, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    path = "/v1beta/models/g:generateContent?key="
    with serving(always(answer())) as upstream:
        urllib.request.urlopen(f"{proxy_to(upstream.url).url}{path}secret", b"{}").close()
    assert upstream.requests[0][0].startswith(f"POST {path}secret HTTP/1.1\n")
    assert f"{upstream.url}{path.partition('?')[0]}" in caplog.text
    assert "secret" not in caplog.text


def test_an_upstream_that_takes_too_long_is_a_504(proxy_to: ProxyTo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forwarding, "READ_SECONDS", 0.2)
    with serving(lambda connection: (connection.request(), connection.wait_until_gone())[1]) as upstream:
        got = httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2))
        assert upstream.gone.wait(10)
    assert got.status_code == 504
    assert got.json()["error"]["type"] == "api_error"
    assert len(upstream.requests) == 1


def test_the_error_for_a_reset_connection_says_so(proxy_to: ProxyTo) -> None:
    def play(connection: Connection) -> None:
        connection.request()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(connection.sock.detach())

    with serving(play) as upstream:
        got = httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2))
    assert got.status_code == 502
    assert got.json()["error"]["message"].endswith("did not answer: ReadError")


def test_a_request_is_retried_if_no_connection_was_made(proxy_to: ProxyTo, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    send = httpx.AsyncClient.send

    async def refused_once(client: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        tried.append(request.url.path)
        if len(tried) == 1:
            raise httpx.ConnectError("refused")
        return await send(client, request, **options)

    monkeypatch.setattr(httpx.AsyncClient, "send", refused_once)
    with serving(always(answer())) as upstream:
        assert httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2)).status_code == 200
    assert tried == ["/v1/messages"] * 2
    assert len(upstream.requests) == 1


def test_a_redirect_is_passed_on_and_not_followed(proxy_to: ProxyTo) -> None:
    with serving(always(answer(b"", "307 Temporary Redirect", location="http://127.0.0.1:9/v1/messages"))) as upstream:
        got = httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2))
    assert (got.status_code, got.headers["location"]) == (307, "http://127.0.0.1:9/v1/messages")


@pytest.mark.parametrize(
    ("settings", "path", "sent"),
    [
        (Settings("https://gw.example"), "@evil.example/x", "https://gw.example/@evil.example/x"),
        (Settings("https://gw.example/base"), "//evil.example/x", "https://gw.example/base//evil.example/x"),
        (Settings(bases={"openai": "https://gw.example/llm/v2"}), "/v1/x", "https://gw.example/llm/v2/x"),
        (Settings(bases={"openai": "https://gw.example/llm/v2"}), "/v1", "https://gw.example/llm/v2/"),
        (Settings(bases={"openai": "https://gw.example/llm/v2"}), "/v10/x", "https://gw.example/llm/v2/v10/x"),
    ],
)
def test_a_path_cannot_change_the_host_or_leave_the_base_url(settings: Settings, path: str, sent: str):
    assert upstream_url(settings, path, "", {}) == sent


@pytest.mark.parametrize(
    "path",
    [
        "/v1//x",
        "//evil.example/x",
        "/v1/a%2Fb%20c%2e?x=%20%zz&y=a/../b",
        "/v1/...",
        "/v1/..a/b..",
        "/v1/x%",
        "/v1/a|b{}^`~!$&'()*+,;=:@",
    ],
)
@pytest.mark.parametrize("base", ["", "/base/path"])
def test_a_path_is_sent_exactly_as_written(proxy_to: ProxyTo, path: str, base: str) -> None:
    with serving(always(answer())) as upstream:
        assert ask(proxy_to(f"{upstream.url}{base}").url, path).startswith(b"HTTP/1.1 200 ")
    assert upstream.requests[0][0].splitlines()[0] == f"POST {base}{path} HTTP/1.1"


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/../x", "/..", "/v1/./x", "/v1/%2e%2e/x", "/v1/.%2E/x", "/v1/..%2fx", "/v1/..%5cx", "/v1/..\\x"),
        *("/v1/..;a=b/x", "/v1/x/.", "/v1/models/../messages?x"),
    ],
)
def test_a_path_with_dot_segments_is_refused(proxy_to: ProxyTo, path: str) -> None:
    with serving(always(answer())) as upstream:
        got = ask(proxy_to(f"{upstream.url}/base").url, path)
    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"autoprune: the path contains a . or .. segment" in got
    assert upstream.requests == []


def ask(url: str, path: str) -> bytes:
    """Send a request with a raw path, which httpx would normalize, and return the answer."""
    to = urlsplit(url)
    with socket.create_connection((to.hostname, to.port)) as client:
        client.sendall(f"POST {path} HTTP/1.0\r\nhost: {to.netloc}\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        return b"".join(iter(lambda: client.recv(65_536), b""))


@pytest.mark.parametrize("status", ["600 Odd", "999 Odd"])
def test_an_invalid_status_is_a_502_that_names_it(proxy_to: ProxyTo, status: str) -> None:
    with serving(always(answer(b"{}", status))) as upstream:
        got = httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2))
    assert got.status_code == 502
    assert got.json()["error"]["message"].endswith(f"answered with the status {status[:3]}")


def test_control_characters_in_an_answers_headers_are_replaced(proxy_to: ProxyTo) -> None:
    with serving(always(answer(b"{}", x_said="a\x01b\x7fc"))) as upstream:
        got = httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2))
    assert (got.status_code, got.headers["x-said"]) == (200, "a b c")


def test_a_length_beside_chunks_is_not_forwarded(proxy_to: ProxyTo) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(always(head + b"2\r\n{}\r\n0\r\n\r\n")) as upstream:
        got = httpx.post(f"{proxy_to(upstream.url).url}/v1/messages", content=body(2))
    assert (got.content, got.headers.get("content-length")) == (b"{}", None)


def test_connection_headers_are_not_forwarded(proxy_to: ProxyTo) -> None:
    with serving(always(answer(connection="keep-alive, x-hop", x_hop="1", x_kept="2"))) as upstream:
        headers = {"Connection": "close, x-private", "X-Private": "1", "TE": "trailers", "X-Kept": "2"}
        got = httpx.get(f"{proxy_to(upstream.url).url}/v1/models", headers=headers)
    head = upstream.requests[0][0].lower()
    assert "x-private: 1" not in head
    assert "\nte:" not in head
    assert "x-kept: 2" in head
    assert head.count("\nhost:") == 1
    assert "x-hop" not in got.headers
    assert got.headers["x-kept"] == "2"


def test_the_reason_for_an_unread_conversation_is_kept(proxy_to: ProxyTo) -> None:
    kept = json.dumps({"input": "Go on.", "previous_response_id": "r"}).encode()
    with serving(always(answer())) as upstream:
        proxy = proxy_to(upstream.url)
        for path, content in (("/v1/responses", kept), ("/v1/models", b"")):
            assert httpx.post(f"{proxy.url}{path}", content=content).status_code == 200
    assert proxy.traffic.passed == 2
    assert proxy.traffic.why.startswith("previous_response_id: the provider keeps the history")


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_large_is_refused_before_it_is_held(proxy_to: ProxyTo, *, is_chunked: bool) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (b" " * 1_000_000 for _ in range(100))

    with serving(always(answer(b"{}"))) as upstream:
        proxy = proxy_to(upstream.url)
        headers = {} if is_chunked else {"content-length": "100000000"}
        response = httpx.post(f"{proxy.url}/v1/messages", content=pieces(), headers=headers)
        assert upstream.requests == []
    assert response.status_code == 413
    assert response.json()["error"]["message"].startswith("autoprune: the body is larger than 64,000,000 bytes")
