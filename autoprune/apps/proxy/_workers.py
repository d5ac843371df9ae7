"""Worker processes that prune. Each process runs one `Work` and answers one call at a time over a pipe.

Workers are forked from the standard library's fork server, which imports `_preload` once, so that the tokenizer's
vocabulary and the price list are in memory once. Systems without a fork server (Windows) spawn each worker, which then
loads its own copy.

A worker's state only saves the next request of a conversation some computation, so it may die at any time:
its current request is sent unpruned, and the next call starts another worker.
"""

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import TypeVar

from autoprune.apps.proxy._configuration import Settings
from autoprune.apps.proxy._pruning import Work

PATIENCE = 60.0  # seconds for one answer, after which the worker is killed; the largest requests take a few
PRELOAD = "autoprune.apps.proxy._preload"

Answer = TypeVar("Answer")


class Worker:
    """A lane in its own process. A process that dies is replaced by a new process without state."""

    def __init__(self, settings: Settings) -> None:
        """Choose the start method. The lane's thread starts the process later, since that waits for the fork server."""
        self._settings = settings
        start_method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context = multiprocessing.get_context(start_method)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def warm(self) -> None:
        with suppress(EOFError, OSError):  # the first request retries
            self._start()

    def call(self, method: Callable[..., Answer], *args: object) -> Answer | None:
        """Call a method of the worker's `Work`; None if that fails, or the process dies or exceeds `PATIENCE`."""
        try:
            connection = self._send((method, args))
            if connection.poll(PATIENCE):
                answer: Answer | None = connection.recv()
                return answer
        except (EOFError, OSError):
            pass
        self.close()
        return None

    def close(self) -> None:
        """Kill the process: its state need not outlive the proxy."""
        if self._connection:
            self._connection.close()
        if self._process:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None

    def _start(self) -> Connection:
        self._connection, theirs = self._context.Pipe()
        with theirs:
            # The whole program shares the fork server. If it runs already, this call has no effect, and the
            # worker imports the module by itself.
            self._context.set_forkserver_preload([PRELOAD])
            # A daemon, so that a program that exits without closing the proxy does not wait for its workers.
            process = self._context.Process(target=serve, args=(theirs, self._settings), daemon=True)  # type: ignore[attr-defined]
            process.start()
        self._process = process
        return self._connection

    def _send(self, call: tuple[Callable[..., object], tuple[object, ...]]) -> Connection:
        """Send a call, to a new process if the previous process has died."""
        connection = self._connection or self._start()
        try:
            connection.send(call)
        except OSError:
            self.close()
            connection = self._start()
            connection.send(call)
        return connection


def serve(connection: Connection, settings: Settings) -> None:
    """Answer calls of the methods of `Work`, with None after a fault, until the proxy closes the connection or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the proxy stops its workers
    import_module(PRELOAD)  # at no cost in a forked process, which has imported it
    work = Work(settings)
    with suppress(EOFError, OSError):
        while True:
            method, args = connection.recv()
            try:
                answer = method(work, *args)
            except Exception:  # it would end the process and lose its state
                answer = None
            connection.send(answer)
