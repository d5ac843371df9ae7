"""Run a proxy: in a thread of this process, while something else is done, or until it is interrupted."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from autoprune.errors import SettingsError
from autoprune.proxy._app import Proxy, lifespan
from autoprune.proxy._pages import pages
from autoprune.proxy._sessions import Session, Sessions
from autoprune.proxy._settings import Settings

START_SECONDS, STEP_SECONDS = 15.0, 0.01


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


def server(settings: Settings) -> tuple[uvicorn.Server, Proxy]:
    """Return a server that is not started yet, with its application."""
    proxy = Proxy(settings)
    config = uvicorn.Config(
        lifespan(proxy, pages(proxy)),
        host=settings.host,
        port=settings.port,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config), proxy


@contextmanager
def running(settings: Settings) -> Iterator[Running]:
    """Run a proxy in a thread of this process while the context lasts.

    Raises SettingsError where it cannot listen on its address.
    """
    known, proxy = server(settings)
    thread = threading.Thread(target=known.run, name="autoprune-proxy", daemon=True)
    thread.start()
    _wait(known, thread, settings)
    port = known.servers[0].sockets[0].getsockname()[1]
    url = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}"
    try:
        yield Running(url, f"{url}/?token={settings.token}", proxy.sessions)
    finally:
        known.should_exit = True
        thread.join()


def _wait(known: uvicorn.Server, thread: threading.Thread, settings: Settings) -> None:
    """Wait until the server listens. Raises SettingsError where it ends before."""
    end = time.monotonic() + START_SECONDS
    while not known.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise SettingsError(
                f"the proxy cannot listen on {settings.host}:{settings.port}: take another port, or 0 for any free one"
            )
        time.sleep(STEP_SECONDS)
