"""Run a proxy in a thread, with limits on its clients' connections that uvicorn and httptools lack.

A connection waits for a request, receives its head, then its body, and is busy until the answer is sent:

    waiting ──first byte──► head ──► body ──► busy ──answer sent──► waiting

    limit                                                on violation
    HEAD_SECONDS for a whole head, from the connection   408, closed
    HEAD_BYTES for a head                                431, closed; the application checks complete heads
    BODY_SECONDS of silence within a body                408, closed
    `most` connections                                   close the connection that has waited longest and never
                                                         had a request, or else the one that has waited longest;
                                                         503 if all are busy

So half-open connections never lock other clients out. uvicorn closes idle connections that have had an answer after
KEEP_SECONDS.
"""

import errno
import os
import socket
import threading
import time
from asyncio import TimerHandle, Transport
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from autoprune.apps.proxy._application import HEAD_BYTES, Proxy, with_pages
from autoprune.apps.proxy._configuration import Settings, quote_token
from autoprune.apps.proxy._pages import Pages
from autoprune.apps.proxy._traffic import Session, Sessions
from autoprune.economics import Clock
from autoprune.errors import SettingsError

STEP_SECONDS = 0.01
SHUTDOWN_SECONDS = 2
KEEP_SECONDS = 75  # for idle connections of clients: longer than the clients' timeouts
BACKLOG = 256  # connections that wait to be accepted; the event loop accepts all of them at once
# Each client needs a file, and another one for its connection to the upstream; OWN_FILES are for everything else.
MOST_CONNECTIONS, LEAST_CONNECTIONS, OWN_FILES = 1_000, 16, 128
HEAD_SECONDS, BODY_SECONDS = 20.0, 60.0
FRAMING = (b"content-length", b"transfer-encoding")  # headers that define the end of a body
TOO_SLOW, TOO_LARGE, TOO_MANY = "408 Request Timeout", "431 Request Header Fields Too Large", "503 Service Unavailable"


# The server


@dataclass(frozen=True)
class Running:
    """A running proxy. `url` is its base URL, and `page` is the URL of its page, including the token."""

    url: str
    page: str
    traffic: Sessions

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The conversations so far, the newest last."""
        return tuple(self.traffic)


@contextmanager
def running(settings: Settings, clock: Clock = time.time) -> Iterator[Running]:
    """Run a proxy in a thread within the context. `clock` returns seconds and is used to measure pauses.

    Raises SettingsError if the proxy cannot listen on its address, or if the environment's HTTP proxy or certificates
    cannot be used.
    """
    with open_socket(settings) as listening:
        known, proxy = server(settings, clock)
        thread = threading.Thread(target=known.run, args=([listening],), name="autoprune-proxy", daemon=True)
        thread.start()
        while not known.started and thread.is_alive():
            time.sleep(STEP_SECONDS)
        port = listening.getsockname()[1]
        url = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}"
        try:
            yield Running(url, f"{url}/?token={quote_token(settings.token)}", proxy.sessions)
        finally:
            known.should_exit = True
            thread.join()


def server(settings: Settings, clock: Clock = time.time) -> tuple[uvicorn.Server, Proxy]:
    """Create a server that is not yet started, and its application. `clock` returns seconds."""
    proxy = Proxy(settings, clock)
    config = uvicorn.Config(
        with_pages(proxy, Pages(proxy)),
        http=partial(Connection, waiting=Waiting(most_connections())),  # type: ignore[arg-type]  # uvicorn only calls it
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config), proxy


def most_connections() -> int:
    """Compute how many client connections the process's limit of open files allows."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST_CONNECTIONS if files == resource.RLIM_INFINITY else (files - OWN_FILES) // 2
    return max(LEAST_CONNECTIONS, min(MOST_CONNECTIONS, allowed))


def open_socket(settings: Settings) -> socket.socket:
    """Open the socket that a proxy listens on. Raises SettingsError if its address cannot be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.getaddrinfo(settings.host, settings.port, family)
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        address = f"{settings.host}:{settings.port}"
        if isinstance(error, socket.gaierror | UnicodeError) or error.errno == errno.EADDRNOTAVAIL:
            raise SettingsError(f"cannot listen on {address}: the host must be an address of this machine") from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SettingsError(f"cannot listen on {address}: {reason}; use another port, or 0 for any free one") from error
    # Connections inherit it. asyncio sets it only for sockets with an explicit protocol, which these lack. Without
    # it the second piece of an answer waits up to 40 ms until the client acknowledges the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


# Connections


class Stage(Enum):
    """The part of a request that a connection's parser expects next."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class Waiting:
    """The connections that wait for a request; those that never had a request come first."""

    def __init__(self, most: int) -> None:
        """Limit the connections, waiting and busy, to `most`."""
        self.most = most
        self._fresh: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}

    def join(self, connection: "Connection") -> None:
        """Add a connection that begins to wait."""
        (self._idle if connection.cycle else self._fresh)[connection] = None

    def leave(self, connection: "Connection") -> None:
        """Stop tracking a connection that is no longer waiting: it received a request or was closed."""
        self._fresh.pop(connection, None)
        self._idle.pop(connection, None)

    def make_room(self, newest: "Connection") -> bool:
        """Close a waiting connection if there are too many. Return False if there is no room for the newest."""
        connections = newest.server_state.connections
        if len(connections) <= self.most:
            return True
        oldest = next((each for each in (*self._fresh, *self._idle) if each is not newest), None)
        if oldest is None:
            return False
        self.leave(oldest)
        connections.discard(oldest)
        oldest.transport.abort()
        return True


class BodyOnly:
    """The callbacks of a parser for the body of a request whose head another parser has read."""

    def __init__(self, connection: "Connection") -> None:
        """Forward the callbacks to a connection."""
        self.on_body, self.on_message_complete = connection.on_body, connection.on_message_complete


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, waiting: Waiting, **named: Any) -> None:
        """Initialize uvicorn's protocol, and set the tracker of waiting connections."""
        super().__init__(*args, **named)
        self._waiting = waiting
        self._stage = Stage.NOTHING
        self._head_bytes = 0
        self._timer: TimerHandle | None = None

    # asyncio calls these

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Accept the connection, or reject it if there are too many."""
        super().connection_made(transport)
        if self._waiting.make_room(self):
            self._waiting.join(self)
            self._start_timer(HEAD_SECONDS)
        else:
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop tracking the connection and cancel the timer."""
        self._waiting.leave(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the next bytes."""
        was_in_body = self._stage is Stage.BODY
        self._head_bytes += 0 if was_in_body else len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if not self.transport.is_closing():
            self._enforce_limits(was_in_body)

    def _enforce_limits(self, was_in_body: bool) -> None:
        """Restart the timer and check the size of the head after more of a request has arrived."""
        if self._stage is Stage.BODY:
            if not (was_in_body and self.cycle.response_complete):  # a rejected request gets no more time
                self._start_timer(BODY_SECONDS)
        elif self._head_bytes > HEAD_BYTES:
            self._refuse(TOO_LARGE)
        elif self._is_answered and not self._timer:
            self._start_timer(HEAD_SECONDS)

    def _parse(self, data: bytes) -> None:
        """Parse bytes. Raises HttpParserError.

        If a request offers to upgrade the protocol, as the first requests of Java's HTTP client do, httptools stops
        after its head and leaves the rest to the new protocol. The proxy never upgrades, so another parser reads the
        rest as the request's body, and the connection is closed after the answer.
        """
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            framing = [(name, value) for name, value in self.headers if name in FRAMING]
            if framing:
                self._stage = Stage.BODY
                self.cycle.more_body, self.cycle.keep_alive = True, False
                self.cycle.message_event.clear()
                self.parser = HttpRequestParser(BodyOnly(self))
                head = b"".join(b"%s: %s\r\n" % field for field in framing)
                self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n%s" % (head, data[upgrade.args[0] :]))

    # The parser calls these

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        super().on_message_begin()
        self._stage = Stage.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a header. Drop trailers, because the request was forwarded before they arrived."""
        if self._stage is Stage.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application while the body is still arriving."""
        self._stage, self._head_bytes = Stage.BODY, 0
        self._waiting.leave(self)
        super().on_headers_complete()
        if self.cycle and self.scope["http_version"] == "1.0":
            end_with_connection(self.cycle)

    def on_message_complete(self) -> None:
        """Note the end of the request and stop the timer."""
        super().on_message_complete()
        self._stage = Stage.NOTHING
        self._stop_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is already queued or the connection is closing."""
        super().on_response_complete()
        if self._is_answered and not self.transport.is_closing():
            self._waiting.join(self)
            if self._stage is not Stage.NOTHING:  # the next request has begun, or a rejected one is still arriving
                self._start_timer(HEAD_SECONDS)

    # Time

    @property
    def _is_answered(self) -> bool:
        """Whether no request is being served or waits in the pipeline."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        """Close the connection, unless the proxy itself has stopped reading the body."""
        self._timer = None
        if self._stage is Stage.BODY and self.flow.read_paused:
            self._start_timer(BODY_SECONDS)
        elif not self.transport.is_closing():
            self._refuse(TOO_SLOW)

    def _refuse(self, status: str) -> None:
        """Close the connection, after an error response if the client expects an answer."""
        self._stop_timer()
        if self._stage is Stage.BODY:
            is_due = not self.cycle.response_started
        else:
            is_due = self._is_answered and (self._stage is Stage.HEAD or self._head_bytes > 0)
        if is_due or status == TOO_MANY:
            message = f"autoprune: {status.partition(' ')[2]}\n"
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(message)}\r\n"
            self.transport.write(f"{head}connection: close\r\n\r\n{message}".encode())
        self.transport.close()


def end_with_connection(cycle: RequestResponseCycle) -> None:
    """End an HTTP/1.0 answer by closing the connection, where uvicorn would send chunks."""
    send, cycle.chunked_encoding = cycle.send, False

    async def send_plain(event: Any) -> None:
        cycle.expected_content_length += len(event.get("body", b""))  # uvicorn checks every piece against it
        await send(event)

    cycle.send = send_plain  # type: ignore[method-assign, assignment]
