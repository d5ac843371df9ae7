"""Concurrent calls of aprune for one conversation share a summary."""

import asyncio
import gc
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import conversations
import pytest

from autoprune import ConversationPruner
from autoprune.summarizers.brief import Brief

MESSAGES = conversations.openai_chat(*([conversations.words(300)] for _ in range(8)))


@dataclass
class Slow:
    """A model that answers once the event loop has run everything else, and counts its calls."""

    failures: int = 0
    calls: list[Brief] = field(default_factory=list)
    calls_model = True

    async def __call__(self, brief: Brief) -> str:
        self.calls.append(brief)
        for _ in range(20):
            await asyncio.sleep(0.001)
        if len(self.calls) <= self.failures:
            raise ValueError("overloaded")
        return f"summary {len(self.calls)}"


def pruned(model: Slow, times: int = 4, cancelled: int = 0) -> list[str]:
    pruner = ConversationPruner(1_000, llm=model)

    async def together() -> list[str]:
        tasks = [asyncio.ensure_future(pruner.aprune(MESSAGES, "summarize")) for _ in range(times)]
        while not model.calls:
            await asyncio.sleep(0)
        for task in tasks[:cancelled]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        return [repr(one.conversation) for one in done if not isinstance(one, BaseException)]

    return asyncio.run(together())


def test_one_summary_is_paid_and_all_get_it():
    model = Slow()
    found = pruned(model)
    assert len(model.calls) == 1
    assert len(found) == 4
    assert len({*found}) == 1
    assert "summary 1" in found[0]


def test_a_cancelled_call_leaves_the_summary_to_the_next():
    model = Slow()
    found = pruned(model, cancelled=1)
    assert len(found) == 3
    assert len({*found}) == 1
    assert len(model.calls) == 2


@pytest.mark.parametrize("is_late", [False, True])
def test_a_call_that_is_cancelled_leaves_no_coroutine_that_nobody_awaits(
    recwarn: pytest.WarningsRecorder, is_late: bool
):
    called, may_return = threading.Event(), threading.Event()

    class Asked(Slow):
        def __call__(self, brief: Brief) -> Any:
            called.set()
            may_return.wait(10)
            return super().__call__(brief)

    async def cancelled() -> None:
        task = asyncio.ensure_future(ConversationPruner(1_000, llm=Asked()).aprune(MESSAGES, "summarize"))
        await asyncio.to_thread(called.wait, 10)
        if is_late:  # after the summarizer returned, and before the loop goes on
            may_return.set()
            while threading.active_count() > before:
                time.sleep(0.001)
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.wait([task])
        else:
            task.cancel()
            await asyncio.wait([task])
            may_return.set()
            while threading.active_count() > before:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
        assert task.cancelled()

    before = threading.active_count() + 1  # and the one of `to_thread`
    asyncio.run(cancelled())
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


def test_after_a_failure_all_get_the_summary_that_was_made_without_a_model():
    model = Slow(failures=9)
    found = pruned(model)
    assert len(found) == 4
    assert len({*found}) == 1
    assert len(model.calls) == 1
