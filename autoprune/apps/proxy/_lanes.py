"""Lanes prune requests, in a thread of the proxy or in worker processes. Each lane runs one task at a time.

All requests of a session go to one lane, so that the pruner's memo applies. Within a lane, requests have priority over
accounts:

    request 1 ─► prune ─► sent upstream                    account 1, while no request waits
    request 2      └────► prune ─► sent upstream ─────────────┘
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import TypeAlias, TypeVar

from autoprune.apps.proxy._configuration import Settings
from autoprune.apps.proxy._pruning import Account, Job, Outcome, Target, Work
from autoprune.apps.proxy._workers import Worker
from autoprune.pruners.history import prefix_digests
from autoprune.pruners.requests import place

MOST_WAITING = 8  # if more accounts wait in a lane, they no longer yield to requests: each holds a conversation
MOST_DIGESTS, DIGEST_BYTES = 1_000, 16
LARGE = 256_000  # bytes: hashing more would block the event loop for a millisecond, so a thread does it
Answer = TypeVar("Answer")
Lane: TypeAlias = Work | Worker


class Queue:
    """Orders the work of a lane: requests come first, and deferred tasks run one by one while no request waits."""

    def __init__(self) -> None:
        self._requests = self._deferred = 0
        self._may_go = asyncio.Event()
        self._one = asyncio.Lock()

    @contextmanager
    def urgent_turn(self) -> Iterator[None]:
        """Hold back deferred tasks within the context, unless too many of them wait."""
        self._add(requests=1)
        try:
            yield
        finally:
            self._add(requests=-1)

    @asynccontextmanager
    async def deferred_turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a deferred task, and hold it within the context."""
        self._add(deferred=1)
        try:
            async with self._one:
                await self._may_go.wait()
                yield
        finally:
            self._add(deferred=-1)

    def _add(self, requests: int = 0, deferred: int = 0) -> None:
        self._requests += requests
        self._deferred += deferred
        if not self._requests or self._deferred > MOST_WAITING:
            self._may_go.set()
        else:
            self._may_go.clear()


def job_digest(job: Job) -> bytes:
    """Compute a digest that identifies a request when it is sent again."""
    head = repr((job.path, job.session, sorted(job.headers.items())))
    digest = blake2b(head.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)
    digest.update(job.body)
    return digest.digest()


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
        self._lanes: Sequence[Lane] = [Worker(settings) for _ in range(settings.jobs)] or [Work(settings)]
        self._queues = [Queue() for _ in self._lanes]
        self._digests: OrderedDict[bytes, int] = OrderedDict()  # of the newest requests, with their lanes
        self._threads = [ThreadPoolExecutor(1, f"prune-{at}") for at, _ in enumerate(self._lanes)]

    def warm(self) -> None:
        """Warm all lanes in the background; requests wait until their lane is warm."""
        for thread, lane in zip(self._threads, self._lanes, strict=True):
            thread.submit(lane.warm)

    async def prune(self, job: Job) -> tuple[int, Outcome]:
        """Prune the conversation in a request; return the number of its lane and the outcome."""
        digest = await asyncio.to_thread(job_digest, job) if len(job.body) > LARGE else job_digest(job)
        lane = self._digests.get(digest)
        outcome = None if lane is None else await self._run_first(lane, self._lanes[lane].reuse, digest, job.at)
        if lane is None or outcome is None:
            lane = await self._choose(job)
            outcome = await self._run_first(lane, self._lanes[lane].prune, replace(job, digest=digest))
        if outcome.number:
            self._digests[digest] = lane
            self._digests.move_to_end(digest)
        while len(self._digests) > MOST_DIGESTS:
            self._digests.popitem(last=False)
        return lane, outcome

    async def account(self, lane: int, number: int) -> Account | None:
        """Wait until no request waits for the lane, and return the account of a prune; None if it has none."""
        async with self._queues[lane].deferred_turn():
            return await self._run(lane, self._lanes[lane].account, number)

    async def learn(self, lane: int, outcome: Outcome, usage: object) -> None:
        """Record the usage that a provider reported for a request."""
        await self._run(lane, self._lanes[lane].learn, outcome.conversation, usage, outcome.messages)

    async def learn_window(self, target: Target, tokens: int) -> None:
        """Record in all lanes the context window that a provider stated for a model."""
        for at, lane in enumerate(self._lanes):
            await self._run(at, lane.learn_window, target, tokens)

    async def recall(self, id: str) -> str | None:
        """Look up a cleared payload; None if no lane stores it any more."""
        for at, lane in enumerate(self._lanes):
            if (text := await self._run(at, lane.recall, id)) is not None:
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

    async def _run_first(self, at: int, function: Callable[..., Answer], *args: object) -> Answer:
        with self._queues[at].urgent_turn():
            return await self._run(at, function, *args)

    async def _run(self, at: int, function: Callable[..., Answer], *args: object) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads[at], function, *args)
