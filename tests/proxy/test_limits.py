"""Limits for clients: how long a request may take to arrive, how large it may be, and how many connect at once."""

import gzip
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from proxy.conftest import messages
from raw_upstream import Connection, Upstream, always, answer, serving
from tables import each_row

from autoprune.apps.proxy import Running, _server
from autoprune.apps.proxy._application import HEAD_BYTES, TARGET_BYTES
from autoprune.apps.proxy._bodies import MOST_REQUEST
from autoprune.apps.proxy._server import LEAST_CONNECTIONS, MOST_CONNECTIONS, OWN_FILES, most_connections

ProxyTo = Callable[..., Running]
SECONDS, SILENCE = 0.3, 1.0  # for a head, and within a body


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving(always(answer(b'{"ok": 1}'))) as known:
        yield known


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the proxy's timeouts."""
    monkeypatch.setattr(_server, "HEAD_SECONDS", SECONDS)
    monkeypatch.setattr(_server, "BODY_SECONDS", SILENCE)


@contextmanager
def connected(proxy: Running) -> Iterator[socket.socket]:
    """A connection to a proxy."""
    address = urlsplit(proxy.url)
    with socket.create_connection((address.hostname, address.port)) as client:
        client.settimeout(10)
        yield client


def head(proxy: Running, *fields: str, line: str = "POST /v1/messages HTTP/1.1") -> bytes:
    """The head of a request, without the empty line that ends it."""
    return "".join(f"{each}\r\n" for each in (line, f"host: {urlsplit(proxy.url).netloc}", *fields)).encode("latin-1")


def whole(proxy: Running, content: bytes, *fields: str) -> bytes:
    return head(proxy, f"content-length: {len(content)}", *fields) + b"\r\n" + content


def received(client: socket.socket, until: bytes = b"") -> bytes:
    """Receive until the data ends with `until`, or until the connection is closed."""
    found = b""
    while not (until and found.endswith(until)) and (piece := client.recv(65_536)):
        found += piece
    return found


def is_closed_while(client: socket.socket, pieces: Iterable[bytes], seconds: float) -> bool:
    """Send pieces at intervals, and return whether the other side closes the connection meanwhile."""
    try:
        for piece in pieces:
            client.sendall(piece)
            time.sleep(seconds)
    except OSError:
        return True
    return False


# Time


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("first", ["", "POST", "POST /v1/messages HTTP/1.1\r\nhost: a\r\n"])
def test_a_connection_without_a_complete_head_is_closed(first: str, proxy_to: ProxyTo, upstream: Upstream) -> None:
    with connected(proxy_to(upstream.url)) as client:
        client.sendall(first.encode())
        assert received(client).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


@pytest.mark.usefixtures("impatient")
def test_a_slow_head_gets_no_more_time(proxy_to: ProxyTo, upstream: Upstream) -> None:
    proxy = proxy_to(upstream.url)
    started = time.monotonic()
    letters = (bytes([letter]) for letter in head(proxy, *(f"x-{at}: 1" for at in range(99))))
    with connected(proxy) as client:
        assert is_closed_while(client, letters, 0.02)
    assert time.monotonic() - started < 5 * SECONDS


@pytest.mark.usefixtures("impatient")
def test_a_stalled_body_is_a_408_and_a_slow_one_is_not(proxy_to: ProxyTo, upstream: Upstream) -> None:
    proxy = proxy_to(upstream.url)
    with connected(proxy) as client:
        client.sendall(head(proxy, "content-length: 100") + b"\r\n{")
        assert received(client).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert upstream.requests == []
    with connected(proxy) as client:
        client.sendall(head(proxy, "content-length: 8") + b"\r\n")
        for piece in (b'{"', b'a"', b": ", b"1}"):
            time.sleep(0.4 * SILENCE)
            client.sendall(piece)
        assert received(client, b'{"ok": 1}').startswith(b"HTTP/1.1 200 OK\r\n")
    assert [content for _, content in upstream.requests] == [b'{"a": 1}']


@pytest.mark.usefixtures("impatient")
def test_a_refused_body_gets_no_more_time(proxy_to: ProxyTo, upstream: Upstream) -> None:
    proxy = proxy_to(upstream.url, host="0.0.0.0", token="secret")
    with connected(proxy) as client:
        client.sendall(head(proxy, "content-length: 1000000") + b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 403 ")
        assert is_closed_while(client, [b"x"] * 99, 0.05)


@pytest.mark.usefixtures("impatient")
def test_idle_connections_and_late_answers_have_their_own_limits(proxy_to: ProxyTo) -> None:
    def late(connection: Connection) -> None:
        while connection.request():
            time.sleep(3 * SECONDS)
            connection.send(answer(b'{"ok": 1}'))

    with serving(late) as upstream:
        proxy = proxy_to(upstream.url)
        with connected(proxy) as client:
            for _ in range(2):
                client.sendall(whole(proxy, b"{}"))
                assert received(client, b'{"ok": 1}').startswith(b"HTTP/1.1 200 OK\r\n")
                time.sleep(3 * SECONDS)
            client.sendall(whole(proxy, b"{}") + head(proxy))  # and half of the next one
            assert b"HTTP/1.1 408 " in received(client)


# Size


@each_row(
    "fields, status",
    [
        (tuple(f"x-{at}: 1" for at in range(250)), 200),
        (tuple(f"x-{at}: 1" for at in range(260)), 431),
        (tuple(f"x-{at}: 1" for at in range(20_000)), 431),
        (("x: 1",) * 20_000, 431),
        (("x: " + "1" * (HEAD_BYTES - 2_000),), 200),
        (("x: " + "1" * HEAD_BYTES,), 431),
    ],
)
def test_a_head_with_too_many_or_too_long_fields_is_a_431(fields: tuple[str, ...], status: int) -> None:
    with ExitStack() as stack:
        upstream = stack.enter_context(serving(always(answer(b'{"ok": 1}'))))
        proxy = stack.enter_context(_server.running(_server.Settings(upstream.url)))
        started = time.monotonic()
        with connected(proxy) as client:
            client.sendall(whole(proxy, b"{}", *fields))
            assert client.recv(100).startswith(f"HTTP/1.1 {status} ".encode())
        assert time.monotonic() - started < 2
        assert len(upstream.requests) == int(status == 200)


@each_row("length, status", [(TARGET_BYTES, 200), (TARGET_BYTES + 1, 414), (HEAD_BYTES, 414)])
def test_a_path_and_query_that_are_too_long_are_a_414(length: int, status: int) -> None:
    target = f"/v1/models?{'q' * (length - len('/v1/models'))}"
    with ExitStack() as stack:
        upstream = stack.enter_context(serving(always(answer(b'{"ok": 1}'))))
        proxy = stack.enter_context(_server.running(_server.Settings(upstream.url)))
        with connected(proxy) as client:
            client.sendall(head(proxy, line=f"GET {target} HTTP/1.1") + b"\r\n")
            assert client.recv(100).startswith(f"HTTP/1.1 {status} ".encode())
        assert len(upstream.requests) == int(status == 200)


def test_an_endless_head_is_refused(proxy_to: ProxyTo, upstream: Upstream) -> None:
    proxy = proxy_to(upstream.url)
    with connected(proxy) as client:
        client.sendall(head(proxy) + b"x: ")
        assert is_closed_while(client, [b"1" * 10_000] * 99, 0.01)


def test_a_malformed_head_is_a_400_whatever_follows_it(proxy_to: ProxyTo, upstream: Upstream) -> None:
    proxy = proxy_to(upstream.url)
    with connected(proxy) as client:
        client.sendall(head(proxy, "content-length: 1", "content-length: 2") + b"\r\n" + b"x" * 100_000)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_trailers_are_not_forwarded(proxy_to: ProxyTo, upstream: Upstream) -> None:
    proxy = proxy_to(upstream.url)
    with connected(proxy) as client:
        client.sendall(head(proxy, "transfer-encoding: chunked") + b"\r\n2\r\n{}\r\n0\r\nx-behind: 1\r\n\r\n")
        assert received(client, b'{"ok": 1}').startswith(b"HTTP/1.1 200 OK\r\n")
    assert "x-behind" not in upstream.requests[0][0]


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_body_that_is_too_large_decompressed_is_forwarded_byte_for_byte(
    jobs: int, proxy_to: ProxyTo, upstream: Upstream
) -> None:
    large = json.dumps(
        {"model": "m", "messages": [*messages(3), {"role": "user", "content": "a" * 2 * MOST_REQUEST}]}
    ).encode()
    packed = gzip.compress(large)
    proxy = proxy_to(upstream.url, jobs=jobs)
    headers = {"content-encoding": "gzip"}
    got = httpx.post(f"{proxy.url}/v1/messages", content=packed, headers=headers)
    assert got.status_code == 200
    assert upstream.requests[0][1] == packed
    assert "content-encoding: gzip" in upstream.requests[0][0].lower()
    assert proxy.traffic.why == "the body is larger than 32,000,000 bytes: it was sent unpruned"


# Number


def test_if_all_connections_are_busy_a_new_one_is_a_503(proxy_to: ProxyTo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_server, "MOST_CONNECTIONS", LEAST_CONNECTIONS)
    with ExitStack() as stack:
        silent = serving(lambda connection: (connection.request(), connection.wait_until_gone())[1])
        upstream = stack.enter_context(silent)
        proxy = proxy_to(upstream.url)
        for _ in range(LEAST_CONNECTIONS):
            stack.enter_context(connected(proxy)).sendall(whole(proxy, b"{}"))
        while len(upstream.requests) < LEAST_CONNECTIONS:
            time.sleep(0.01)
        with connected(proxy) as client:
            assert received(client).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")


def test_the_limit_of_open_files_limits_connections():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert most_connections() == max(LEAST_CONNECTIONS, min(MOST_CONNECTIONS, (files - OWN_FILES) // 2))
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024));"
        "from autoprune.apps.proxy._server import most_connections; print(most_connections())"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "448\n"
