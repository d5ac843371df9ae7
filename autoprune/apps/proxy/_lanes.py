"""Lanes prune requests, in a thread of the proxy or in worker processes. Each lane runs one task at a time.

All requests of a session go to one lane, so that the pruner's memory applies. A worker process runs one `Work` and
answers one call at a time over a pipe. Its state only saves the next request of a conversation some computation, so it
may die at any time: its current request is sent unpruned, and the next call starts another worker.

Workers are forked from the standard library's fork server, which imports `_preload` once, so that the tokenizer's
vocabulary and the price list are in memory once. Systems without a fork server (Windows) spawn each worker, which then
loads its own copy.
"""

import asyncio
import json
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from importlib import import_module
from multiprocessing.connection import Connection
from typing import TypeVar

from autoprune.apps.proxy._configuration import Settings
from autoprune.apps.proxy._pruning import Account, Job, Outcome, Target, Work
from autoprune.pruners.history import prefix_digests
from autoprune.pruners.requests import place

PATIENCE = 60.0  # seconds for one answer, after which the worker is killed; the largest requests take a few
PRELOAD = "autoprune.apps.proxy._preload"

LOST = Outcome(note="the worker process died or did not answer in time: the request was sent unpruned")

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


def conversation_key(job: Job) -> str:
    """Identify a request whose client names no session by its messages before the model's first one; "" without any."""
    try:
        body = json.loads(job.body)
        found = place(job.path, body) if isinstance(body, dict) else None
        messages = found.messages(body) if found else None
        return prefix_digests(messages)[0] if isinstance(messages, list) else ""
    except (ValueError, RecursionError):  # no JSON, or nested too deeply: it is sent unpruned
        return ""


class Lanes:
    """Runs requests in the lanes of a proxy, and chooses the lane of each."""

    def __init__(self, settings: Settings) -> None:
        """Create a lane for each worker process, or a single lane in a thread if there are no workers."""
        self._lanes: Sequence[Work | Worker] = [Worker(settings) for _ in range(settings.jobs)] or [Work(settings)]
        self._threads = [ThreadPoolExecutor(1, f"prune-{at}") for at, _ in enumerate(self._lanes)]

    def warm(self) -> None:
        """Warm all lanes in the background; requests wait until their lane is warm."""
        for thread, lane in zip(self._threads, self._lanes, strict=True):
            thread.submit(lane.warm)

    async def prune(self, job: Job) -> tuple[int, Outcome]:
        """Prune the conversation in a request; return the number of its lane and the outcome."""
        lane = await self._choose(job)
        return lane, await self._run(lane, Work.prune, job) or LOST

    async def account(self, lane: int, number: int) -> Account | None:
        """Return the account of a prune; None if it has none."""
        return await self._run(lane, Work.account, number)

    async def learn(self, lane: int, outcome: Outcome, usage: object) -> None:
        """Record the usage that a provider reported for a request."""
        await self._run(lane, Work.learn, outcome.conversation, usage, outcome.number)

    async def learn_window(self, target: Target, tokens: int) -> None:
        """Record in all lanes the context window that a provider stated for a model."""
        for at in range(len(self._lanes)):
            await self._run(at, Work.learn_window, target, tokens)

    async def recall(self, id: str) -> str | None:
        """Look up a cleared payload; None if no lane stores it any more."""
        for at in range(len(self._lanes)):
            if (text := await self._run(at, Work.recall, id)) is not None:
                return text
        return None

    def close(self) -> None:
        """Finish the tasks that lanes have started, and stop the workers."""
        for thread in self._threads:
            thread.shutdown()
        for lane in self._lanes:
            if isinstance(lane, Worker):
                lane.close()

    async def _choose(self, job: Job) -> int:
        """Choose the lane of a request by its session, or by its first messages."""
        if len(self._lanes) == 1:
            return 0
        key = job.session or await asyncio.to_thread(conversation_key, job)
        return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=4).digest()) % len(self._lanes)

    async def _run(self, at: int, method: Callable[..., Answer], *args: object) -> Answer | None:
        """Call a method of the `Work` of a lane; None if its process dies."""
        lane = self._lanes[at]
        call = partial(lane.call, method) if isinstance(lane, Worker) else partial(method, lane)
        return await asyncio.get_running_loop().run_in_executor(self._threads[at], call, *args)
