"""Where pruning is done: a thread of the proxy, or processes of their own. Each lane does one thing at a time.

What belongs to one session goes to one lane, so that the lane's memos hold. A process that dies is started anew; the
request that it had goes on unpruned, and the next one of each conversation is pruned from its first message.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import ParamSpec, Protocol, TypeVar

from autoprune.apps.proxy._conversations import heads
from autoprune.apps.proxy._pruning import Account, Done, Job, Work
from autoprune.apps.proxy._settings import Settings
from autoprune.apps.proxy._workers import Worker
from autoprune.pruners.requests import place

MOST_LATER = 8  # accounts of a lane that wait: each holds a conversation
MOST_MARKS, DIGEST_BYTES = 1_000, 16
LARGE = 256_000  # bytes, of which a digest would keep other requests waiting for a millisecond
P = ParamSpec("P")
Answer = TypeVar("Answer")


class Lane(Protocol):
    """One place where pruning is done."""

    def warm(self) -> None:
        """Load what a first prune loads."""

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned."""
        ...

    def again(self, mark: bytes, at: float) -> Done | None:
        """Return what was made of a request that is sent again; None if it has to be pruned."""
        ...

    def account(self, number: int) -> Account | None:
        """Return what a prune came to, by its number."""
        ...

    def answered(self, conversation: str, usage: object) -> None:
        """Note the usage that was reported with an answer."""

    def recall(self, id: str) -> str | None:
        """Return a cleared payload, if it is still kept."""
        ...


class Queue:
    """Who waits for a lane: requests first, and one by one what can be done later, when no request waits."""

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._requests = self._later = 0
        self._may_go = asyncio.Event()
        self._one = asyncio.Lock()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Keep what can be done later waiting while the context lasts, unless too much of it waits."""
        self._count(requests=1)
        try:
            yield
        finally:
            self._count(requests=-1)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn of something that can be done later, which lasts as long as the context."""
        self._count(later=1)
        try:
            async with self._one:
                await self._may_go.wait()
                yield
        finally:
            self._count(later=-1)

    def _count(self, requests: int = 0, later: int = 0) -> None:
        self._requests += requests
        self._later += later
        if not self._requests or self._later > MOST_LATER:
            self._may_go.set()
        else:
            self._may_go.clear()


def digest(job: Job) -> bytes:
    """Return a digest of a request, by which it is recognized when it is sent again."""
    beside = repr((job.path, job.session, sorted(job.headers.items())))
    found = blake2b(beside.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)
    found.update(job.body)
    return found.digest()


def beginning(job: Job) -> str:
    """Return by what a request is known whose client names no session: how its conversation begins; "" for none."""
    try:
        body = json.loads(job.body)
        found = place(job.path, body) if isinstance(body, dict) else None
        messages = found.messages(body) if found else None
        return heads(messages)[0] if isinstance(messages, list) else ""
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        return ""


class Lanes:
    """All lanes, and who goes to which."""

    def __init__(self, settings: Settings) -> None:
        """Start as many as the settings say."""
        self._workers = [Worker(settings) for _ in range(settings.jobs)]
        self._lanes: Sequence[Lane] = self._workers or [Work(settings)]
        self._queues = [Queue() for _ in self._lanes]
        self._marks: OrderedDict[bytes, int] = OrderedDict()  # of the newest requests, with their lanes
        self._threads = [ThreadPoolExecutor(1, f"prune-{at}") for at, _ in enumerate(self._lanes)]

    def warm(self) -> None:
        """Prune something in the meantime, so that no request waits for what a first prune loads."""
        for thread, lane in zip(self._threads, self._lanes, strict=True):
            thread.submit(lane.warm)

    async def prune(self, job: Job) -> tuple[int, Done]:
        """Return a request with its conversation pruned, and the number of the lane that it belongs to."""
        mark = await self._mark(job)
        lane = self._marks.get(mark)
        done = None if lane is None else await self._urgent(lane, self._lanes[lane].again, mark, job.at)
        if lane is None or done is None:
            lane = await self._of(job)
            done = await self._urgent(lane, self._lanes[lane].prune, replace(job, mark=mark))
        if done.number:
            self._marks[mark] = lane
            self._marks.move_to_end(mark)
        while len(self._marks) > MOST_MARKS:
            self._marks.popitem(last=False)
        return lane, done

    async def _of(self, job: Job) -> int:
        """Return the number of the lane to which a request belongs."""
        if len(self._lanes) == 1:
            return 0
        key = job.session or await asyncio.to_thread(beginning, job)
        return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=4).digest()) % len(self._lanes)

    async def _mark(self, job: Job) -> bytes:
        return await asyncio.to_thread(digest, job) if len(job.body) > LARGE else digest(job)

    async def account(self, lane: int, number: int) -> Account | None:
        """Return what a prune came to, by its number, when no request waits for the lane."""
        async with self._queues[lane].turn():
            return await self._run(lane, self._lanes[lane].account, number)

    async def answered(self, lane: int, conversation: str, usage: object) -> None:
        """Note the usage that was reported with the answer to a request."""
        await self._run(lane, self._lanes[lane].answered, conversation, usage)

    async def recall(self, id: str) -> str | None:
        """Return a cleared payload, if one of the lanes still keeps it."""
        for at, lane in enumerate(self._lanes):
            if (text := await self._run(at, lane.recall, id)) is not None:
                return text
        return None

    def close(self) -> None:
        """End all of them, once they have done what they were asked."""
        for thread in self._threads:
            thread.shutdown()
        for worker in self._workers:
            worker.close()

    async def _urgent(self, at: int, function: Callable[P, Answer], *args: P.args, **named: P.kwargs) -> Answer:
        with self._queues[at].urgent():
            return await self._run(at, function, *args, **named)

    async def _run(self, at: int, function: Callable[P, Answer], *args: P.args, **named: P.kwargs) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads[at], partial(function, *args, **named))
