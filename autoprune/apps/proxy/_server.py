"""Run a proxy: in a thread of this process, while something else is done, or until it is interrupted."""

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import uvicorn

from autoprune.apps.proxy._app import Proxy, lifespan
from autoprune.apps.proxy._connections import Connection, Crowd
from autoprune.apps.proxy._guard import quoted
from autoprune.apps.proxy._pages import pages
from autoprune.apps.proxy._sessions import Session, Sessions
from autoprune.apps.proxy._settings import Settings
from autoprune.economics import Clock
from autoprune.errors import SettingsError

STEP_SECONDS = 0.01
KEEP_SECONDS = 75  # for an idle connection of a client: longer than clients keep theirs
BACKLOG = 256  # connections that wait to be taken, all of which are taken at once
# Connections of clients: each needs a file, and another one for the upstream; the rest is for the proxy's own.
MOST_CONNECTIONS, LEAST_CONNECTIONS, OWN_FILES = 1_000, 16, 128


@dataclass(frozen=True)
class Running:
    """A proxy that is running. `url` is its address, `page` that of its page with the token in it."""

    url: str
    page: str
    traffic: Sessions

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The conversations that went through, the newest last."""
        return tuple(self.traffic)


def server(settings: Settings, clock: Clock = time.time) -> tuple[uvicorn.Server, Proxy]:
    """Return a server that is not started yet, with its application; `clock` gives seconds, for pauses."""
    proxy = Proxy(settings, clock)
    config = uvicorn.Config(
        lifespan(proxy, pages(proxy)),
        http=partial(Connection, crowd=Crowd(most_connections())),  # type: ignore[arg-type]  # it is called, no more
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config), proxy


def most_connections() -> int:
    """Return how many connections of clients there may be, by the files that this process may open."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    known = MOST_CONNECTIONS if files == resource.RLIM_INFINITY else (files - OWN_FILES) // 2
    return max(LEAST_CONNECTIONS, min(MOST_CONNECTIONS, known))


@contextmanager
def running(settings: Settings, clock: Clock = time.time) -> Iterator[Running]:
    """Run a proxy in a thread of this process while the context lasts; `clock` gives seconds, for pauses.

    Raises SettingsError where it cannot listen on its address, or cannot reach any upstream.
    """
    with listen(settings) as listening:
        known, proxy = server(settings, clock)
        thread = threading.Thread(target=known.run, args=([listening],), name="autoprune-proxy", daemon=True)
        thread.start()
        while not known.started and thread.is_alive():
            time.sleep(STEP_SECONDS)
        port = listening.getsockname()[1]
        url = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}"
        try:
            yield Running(url, f"{url}/?token={quoted(settings.token)}", proxy.sessions)
        finally:
            known.should_exit = True
            thread.join()


def listen(settings: Settings) -> socket.socket:
    """Return the socket that a proxy listens on. Raises SettingsError where its address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.getaddrinfo(settings.host, settings.port, family)
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        where = f"{settings.host}:{settings.port}"
        if isinstance(error, socket.gaierror | UnicodeError) or error.errno == errno.EADDRNOTAVAIL:
            raise SettingsError(f"cannot listen on {where}: give an address of this machine as the host") from error
        words = os.strerror(error.errno) if error.errno else str(error)
        raise SettingsError(f"cannot listen on {where}: {words}; take another port, or 0 for any free one") from error
    # Connections take it over. asyncio sets it only where a socket names its protocol, which these do not, and without
    # it the second piece of an answer waits 40 ms for the client to acknowledge the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
