"""Where pruning is done: a thread of the proxy, or processes of their own. Each lane does one thing at a time.

What belongs to one session goes to one lane, so that the lane's memos hold. A process that dies is started anew; the
request that it had goes on unpruned, and the next one of each conversation is pruned from its first message.
"""

import asyncio
import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from subprocess import PIPE, Popen
from threading import Timer
from typing import Any, ParamSpec, Protocol, TypeVar

from autoprune.proxy._conversations import heads
from autoprune.proxy._pruning import Account, Done, Job, Work
from autoprune.proxy._settings import Settings
from autoprune.requests import place

LOST = Done(note="the process that prunes has died: the request went on unpruned")
# For glibc: what a large request took is given back when it is done.
THRIFTY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
# A model with a price, whose list is loaded too, and a text, for which the vocabulary is.
WARM_BODY = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Are you warm?"}]}'
WARMING = Job("/v1/messages", {}, WARM_BODY, "autoprune", 0.0)
PATIENCE = 60.0  # seconds for an answer; a process that takes longer is ended
P = ParamSpec("P")
Answer = TypeVar("Answer")


class Lane(Protocol):
    """One place where pruning is done."""

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned."""
        ...

    def account(self, conversation: str) -> Account | None:
        """Return what the newest prune of a conversation came to."""
        ...

    def answered(self, conversation: str, usage: object) -> None:
        """Note the usage that was reported with an answer."""

    def recall(self, id: str) -> str | None:
        """Return a cleared payload, if it is still kept."""
        ...


class Process:
    """A lane in a process of its own, which is asked and answers through its standard streams."""

    def __init__(self, settings: Settings) -> None:
        """Start the process."""
        self._settings = settings
        self._process = self._started()

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned; `LOST` where the process has died."""
        done = self._ask("prune", job)
        return done if isinstance(done, Done) else LOST

    def account(self, conversation: str) -> Account | None:
        """Return what the newest prune of a conversation came to."""
        account = self._ask("account", conversation)
        return account if isinstance(account, Account) else None

    def answered(self, conversation: str, usage: object) -> None:
        """Note the usage that was reported with an answer."""
        self._ask("answered", conversation, usage)

    def recall(self, id: str) -> str | None:
        """Return a cleared payload, if it is still kept."""
        text = self._ask("recall", id)
        return text if isinstance(text, str) else None

    def close(self) -> None:
        """End the process."""
        with self._process as process:  # which closes its streams, and waits
            process.terminate()

    def _started(self) -> "Popen[bytes]":
        command = (sys.executable, "-m", "autoprune.proxy._worker")
        environment = {**os.environ, **THRIFTY}
        process = Popen(
            command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
        )  # Ctrl-C is for others
        tell(process.stdin, self._settings)
        return process

    def _ask(self, method: str, *args: object) -> object:
        impatient = Timer(PATIENCE, self._process.kill)
        impatient.start()
        try:
            tell(self._process.stdin, (method, args))
            return pickle.load(self._process.stdout)  # type: ignore[arg-type]  # PIPE was asked for
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            self._process = self._started()
            return None
        finally:
            impatient.cancel()


def tell(stream: Any, value: object) -> None:
    """Write a value to a stream of another process."""
    pickle.dump(value, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def beginning(job: Job) -> str:
    """Return by what a request is known whose client names no session: how its conversation begins; "" for none."""
    try:
        body = json.loads(job.body)
    except ValueError:
        return ""
    found = place(job.path, body) if isinstance(body, dict) else None
    messages = found.messages(body) if found else None
    return heads(messages)[0] if isinstance(messages, list) else ""


class Lanes:
    """All lanes, and who goes to which."""

    def __init__(self, settings: Settings) -> None:
        """Start as many as the settings say."""
        self._processes = [Process(settings) for _ in range(settings.jobs)]
        self._lanes: Sequence[Lane] = self._processes or [Work(settings)]
        self._threads = [ThreadPoolExecutor(1, f"prune-{at}") for at, _ in enumerate(self._lanes)]

    def warm(self) -> None:
        """Have each lane prune something in the meantime, so that no request waits for what a first prune loads."""
        for thread, lane in zip(self._threads, self._lanes, strict=True):
            thread.submit(lane.prune, WARMING)

    async def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned."""
        at = self._of(job)
        return await self._run(at, self._lanes[at].prune, job)

    async def account(self, job: Job, conversation: str) -> Account | None:
        """Return what the newest prune of a conversation came to."""
        lane = self._of(job)
        return await self._run(lane, self._lanes[lane].account, conversation)

    async def answered(self, job: Job, conversation: str, usage: object) -> None:
        """Note the usage that was reported with the answer to a request."""
        lane = self._of(job)
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

    def _of(self, job: Job) -> int:
        if len(self._lanes) == 1:
            return 0
        key = job.session or beginning(job)
        return int.from_bytes(blake2b(key.encode("utf-8", "replace"), digest_size=4).digest()) % len(self._lanes)

    async def _run(self, at: int, function: Callable[P, Answer], *args: P.args, **named: P.kwargs) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads[at], partial(function, *args, **named))
