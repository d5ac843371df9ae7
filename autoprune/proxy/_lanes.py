"""Where pruning is done: a thread of the proxy, or processes of their own. Each lane does one thing at a time.

What belongs to one session goes to one lane, so that the lane's memos hold. A process that dies is started anew; the
request that it had goes on unpruned, and the next one of each conversation is pruned from its first message.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import ParamSpec, Protocol, TypeVar

from autoprune.proxy._conversations import heads
from autoprune.proxy._processes import Nursery, Process
from autoprune.proxy._pruning import WARMING, Account, Done, Job, Work
from autoprune.proxy._settings import Settings
from autoprune.requests import place

P = ParamSpec("P")
Answer = TypeVar("Answer")


class Lane(Protocol):
    """One place where pruning is done."""

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned."""
        ...

    def account(self, number: int) -> Account | None:
        """Return what a prune came to, by its number."""
        ...

    def answered(self, conversation: str, usage: object) -> None:
        """Note the usage that was reported with an answer."""

    def recall(self, id: str) -> str | None:
        """Return a cleared payload, if it is still kept."""
        ...


def beginning(job: Job) -> str:
    """Return by what a request is known whose client names no session: how its conversation begins; "" for none."""
    try:
        body = json.loads(job.body)
    except (ValueError, RecursionError):
        return ""
    found = place(job.path, body) if isinstance(body, dict) else None
    messages = found.messages(body) if found else None
    return heads(messages)[0] if isinstance(messages, list) else ""


class Lanes:
    """All lanes, and who goes to which."""

    def __init__(self, settings: Settings) -> None:
        """Start as many as the settings say."""
        self._nursery = Nursery() if settings.jobs else None
        self._processes = [Process(settings, self._nursery) for _ in range(settings.jobs) if self._nursery]
        self._lanes: Sequence[Lane] = self._processes or [Work(settings)]
        self._threads = [ThreadPoolExecutor(1, f"prune-{at}") for at, _ in enumerate(self._lanes)]

    def warm(self) -> None:
        """Prune something in the meantime, so that no request waits for what a first prune loads."""
        if not self._nursery:  # which does so itself
            self._threads[0].submit(self._lanes[0].prune, WARMING)

    async def of(self, job: Job) -> int:
        """Return the number of the lane to which a request belongs."""
        if len(self._lanes) == 1:
            return 0
        key = job.session or await asyncio.to_thread(beginning, job)
        return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=4).digest()) % len(self._lanes)

    async def prune(self, lane: int, job: Job) -> Done:
        """Return a request with its conversation pruned."""
        return await self._run(lane, self._lanes[lane].prune, job)

    async def account(self, lane: int, number: int) -> Account | None:
        """Return what a prune came to, by its number."""
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
        for process in self._processes:
            process.close()
        if self._nursery:
            self._nursery.close()

    async def _run(self, at: int, function: Callable[P, Answer], *args: P.args, **named: P.kwargs) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads[at], partial(function, *args, **named))
