"""Run a proxy in a thread, with limits on its clients' connections that uvicorn lacks.

    limit                                                on violation
    HEAD_SECONDS for a whole head, from the connection   408, closed
    HEAD_BYTES for a head                                431, closed; the application checks complete heads
    BODY_SECONDS of silence within a body                408, closed
    `most_connections()`                                 503, closed

uvicorn closes idle connections that have had an answer after KEEP_SECONDS.
"""

import errno
import os
import socket
import sys
import threading
import time
from asyncio import TimerHandle, Transport
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from autoprune.apps.proxy._application import HEAD_BYTES, Proxy, with_pages
from autoprune.apps.proxy._configuration import Settings, quote_token
from autoprune.apps.proxy._pages import Pages
from autoprune.apps.proxy._traffic import ClientSession, ClientSessions
from autoprune.economics import Clock
from autoprune.errors import SettingsError

STEP_SECONDS = 0.01
SHUTDOWN_SECONDS = 2
KEEP_SECONDS = 75  # for idle connections of clients: longer than the clients' timeouts
BACKLOG = 256  # connections that wait to be accepted; the event loop accepts all of them at once
# Each client needs a file, and another one for its connection to the upstream; OWN_FILES are for everything else.
MOST_CONNECTIONS, LEAST_CONNECTIONS, OWN_FILES = 1_000, 16, 128
HEAD_SECONDS, BODY_SECONDS = 20.0, 60.0
TOO_SLOW, TOO_LARGE, TOO_MANY = "408 Request Timeout", "431 Request Header Fields Too Large", "503 Service Unavailable"


# The server


@dataclass(frozen=True)
class Running:
    """A running proxy. `url` is its base URL, and `page` is the URL of its page, including the token."""

    url: str
    page: str
    traffic: ClientSessions

    @property
    def sessions(self) -> tuple[ClientSession, ...]:
        """The conversations so far, the newest last."""
        return tuple(self.traffic)


@contextmanager
def running(settings: Settings, clock: Clock = time.time) -> Iterator[Running]:
    """Run a proxy in a thread within the context. `clock` returns seconds and is used to measure pauses.

    Raises SettingsError if its address, or the environment's HTTP proxy or certificates, cannot be used.
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
        http=Connection,
        h11_max_incomplete_event_size=HEAD_BYTES,
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


class Connection(H11Protocol):
    """A connection of a client."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._timer: TimerHandle | None = None

    # asyncio and uvicorn call these

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Accept the connection, or reject it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) <= most_connections():
            self._start_timer(HEAD_SECONDS)
        else:
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived, and limit the time of what has not."""
        super().handle_events()
        theirs = self.conn.their_state
        if self.transport.is_closing() or theirs not in (h11.IDLE, h11.SEND_BODY):
            self._stop_timer()
        elif theirs is h11.SEND_BODY:
            if self.conn.our_state is not h11.DONE:  # a rejected request gets no more time
                self._start_timer(BODY_SECONDS)
        elif not self._timer and (self.timeout_keep_alive_task is None or self.conn.trailing_data[0]):
            self._start_timer(HEAD_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Reject a request that is not valid HTTP, or whose head is too large."""
        if getattr(sys.exception(), "error_status_hint", 400) == int(TOO_LARGE[:3]):  # what uvicorn has caught
            self._refuse(TOO_LARGE)
        else:
            super().send_400_response(msg)

    # Limits

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
        if self.conn.their_state is h11.SEND_BODY and self.flow.read_paused:
            self._start_timer(BODY_SECONDS)
        elif not self.transport.is_closing():
            self._refuse(TOO_SLOW)

    def _refuse(self, status: str) -> None:
        """Close the connection, after an error response if no response has begun."""
        self._stop_timer()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE, h11.ERROR):
            message = f"autoprune: {status.partition(' ')[2]}\n"
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(message)}\r\n"
            self.transport.write(f"{head}connection: close\r\n\r\n{message}".encode())
        self.transport.close()
