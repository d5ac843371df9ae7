"""Ask summarizers, in threads or in asyncio, and turn whatever they return or raise into an answer.

A question that may take long is asked in its own daemon thread, never in a pool: Python waits for a pool's threads
before it exits, so Ctrl-C would hang as long as the server does. A hanging thread cannot be ended; when the time is up
it is abandoned, and its answer is ignored.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any

from autoprune.errors import type_of
from autoprune.summarizers.brief import (
    Answer,
    Ask,
    Brief,
    Failed,
    Refused,
    Steps,
    Summarizer,
    Written,
    calls_model,
    may_wait,
)

CONCURRENCY = 4  # questions of a batch that are asked at the same time
MAX_CALLS = 16  # calls of a model in one prune
MAX_SECONDS = 300.0  # that one prune waits for all calls of a model
LONGEST_REASON = 300  # characters of an error in the report; some contain a whole page
UNLIMITED = 1_000_000  # calls, if the caller sets no limit


@dataclass
class Budget:
    """The limits of one prune: how many questions models may be asked, and how long all questions may take.

    A question is one call of a summarizer, which may make several requests: `OpenAISummarizer` makes at most two, each
    with its retries. Summarizers that need no model are not counted. The time is for all questions together, in seconds
    from the creation of the budget; None for no limit.
    """

    calls: int
    seconds: float | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def left(self) -> float | None:
        """The seconds that are left, 0 or more; None if there is no limit."""
        return None if self.seconds is None else max(0.0, self.started + self.seconds - self.clock())

    @property
    def late(self) -> Failed:
        """The answer for a question that was not answered in time."""
        return Failed(f"no answer within {self.seconds or 0:g} seconds")

    def refusal(self, ask: Ask) -> str | None:
        """Return why a question may not be asked. If it may be asked, count it and return None."""
        if not may_wait(ask.summarizer):
            return None
        if self.left == 0:
            return "the time that one prune may take is used up"
        if not calls_model(ask.summarizer):
            return None
        self.calls -= 1
        return None if self.calls >= 0 else "the calls that one prune may make are used up"


def steps_of(summarizer: Summarizer, brief: Brief) -> Steps:
    """Run a summarizer's `steps`, or ask it as a single question; an exception becomes a failure."""
    own = getattr(summarizer, "steps", None)
    if not callable(own):
        (answer,) = yield [Ask(summarizer, brief)]
        return answer
    try:
        return as_answer((yield from own(brief)))
    except Exception as error:  # the caller's generator, which `_attempt` cannot call
        return as_answer(error)


def run(steps: Steps, concurrency: int = CONCURRENCY, budget: Budget | None = None) -> Answer:
    """Run steps to their answer. The questions of a batch are asked in threads, at most `concurrency` at a time.

    Awaitables are awaited in another thread's event loop.
    """
    limits = budget or Budget(UNLIMITED)
    asked = _advance(steps, None)
    while not isinstance(asked, Written | Failed):
        asked = _advance(steps, _ask_all(_afford(asked, limits), concurrency, limits))
    return asked


async def arun(steps: Steps, concurrency: int = CONCURRENCY, budget: Budget | None = None) -> Answer:
    """Run steps to their answer in asyncio. Summarizers are called in threads, so that they do not block each other."""
    limits = budget or Budget(UNLIMITED)
    gate = asyncio.Semaphore(max(concurrency, 1))
    asked = _advance(steps, None)
    while not isinstance(asked, Written | Failed):
        answers = await asyncio.gather(*(_await_answer(ask, gate, limits) for ask in _afford(asked, limits)))
        asked = _advance(steps, answers)
    return asked


def as_answer(given: object) -> Answer:
    """Convert what a summarizer returned or raised to an answer."""
    match given:
        case Failed():
            return given
        case Written(text=str(text)) if text.strip():
            return given
        case str() if given.strip():
            return Written(given)
        case BaseException():
            return Failed(
                ": ".join(filter(None, (type(given).__name__, str(_attempt(str, given)[0] or ""))))[:LONGEST_REASON]
            )
        case None | str() | Written(text=None | str()):
            return Failed("the summarizer gave no text")
        case _:
            return Failed(f"the summarizer gave {type_of(given)}, not a text")


def call_safely(function: Callable[..., object], *arguments: object) -> object:
    """Call a caller's function; return `Failed` if it raises, since its faults must not end a prune."""
    result, error = _attempt(function, *arguments)
    if error is not None and not isinstance(error, Exception):  # such as a KeyboardInterrupt
        raise error
    return as_answer(error) if error else result


def _attempt(function: Callable[..., object], *arguments: object) -> tuple[object, BaseException | None]:
    """Call a function, and return its result and the exception that it raised."""
    try:
        return function(*arguments), None
    except BaseException as error:  # a caller's callable may raise anything; an interrupt is passed on between threads
        return None, error


def _advance(steps: Steps, answers: Sequence[Answer] | None) -> Sequence[Ask] | Answer:
    """Resume the steps; return the next batch of questions, or the final answer."""
    try:
        asked = next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        return as_answer(end.value)
    if isinstance(asked, list | tuple) and all(isinstance(ask, Ask) for ask in asked):
        return asked
    steps.close()
    return Failed("its steps yielded something other than a list of questions")


def _afford(asks: Sequence[Ask], budget: Budget) -> list[Ask]:
    """Replace each question that exceeds the budget with a refusal."""
    return [ask if (why := budget.refusal(ask)) is None else Ask(_Refusal(why), ask.brief) for ask in asks]


@dataclass(frozen=True)
class _Refusal:
    """A summarizer that refuses to answer."""

    why: str
    calls_model = False

    def __call__(self, brief: Brief) -> Refused:
        return Refused(self.why)


def _ask_all(asks: Sequence[Ask], concurrency: int, budget: Budget) -> list[Answer]:
    """Ask all questions: the quick ones in this thread, the others in an event loop in a daemon thread."""
    waiting = [number for number, ask in enumerate(asks) if may_wait(ask.summarizer)]
    finished: SimpleQueue[tuple[list[Answer], BaseException | None]] = SimpleQueue()

    async def ask_waiting() -> None:
        gate = asyncio.Semaphore(max(concurrency, 1))
        answers = await asyncio.gather(*(_await_answer(asks[number], gate, budget) for number in waiting))
        finished.put((answers, None))

    def run_loop() -> None:
        _, error = _attempt(asyncio.run, ask_waiting())
        if error is not None:
            finished.put(([], error))

    if waiting:
        # The copy of the context is for tracing, which finds the caller's span there.
        Thread(target=copy_context().run, args=(run_loop,), name="autoprune", daemon=True).start()
    answers = {
        number: as_answer(call_safely(ask.summarizer, ask.brief))
        for number, ask in enumerate(asks)
        if number not in waiting
    }
    found, error = finished.get() if waiting else ([], None)
    if error is not None:
        raise error
    answers |= zip(waiting, found, strict=True)
    return [answers[number] for number in range(len(asks))]


async def _await_answer(ask: Ask, gate: asyncio.Semaphore, budget: Budget) -> Answer:
    if not may_wait(ask.summarizer):
        return as_answer(await _ask_in_thread(ask))
    async with gate:
        return budget.late if budget.left == 0 else await _in_time(_ask_in_thread(ask), budget)


async def _in_time(asked: Coroutine[Any, Any, object], budget: Budget) -> Answer:
    """Await the answer to a question within the time that is left."""
    question = asyncio.ensure_future(asked)
    try:
        # Not `wait_for`, which waits for the cancelled task: a summarizer may refuse to be cancelled.
        await asyncio.wait({question}, timeout=budget.left)
        return as_answer(question.result()) if question.done() else budget.late
    finally:
        question.cancel()


async def _ask_in_thread(ask: Ask) -> object:
    """Call a summarizer in a daemon thread and await its answer."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if outcome.done():  # cancelled
            _close(result)
        else:
            outcome.set_exception(error) if error else outcome.set_result(result)

    def call() -> None:
        result, error = _attempt(call_safely, ask.summarizer, ask.brief)
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop is closed: nobody is waiting
            _close(result)

    Thread(target=copy_context().run, args=(call,), name="autoprune", daemon=True).start()
    try:
        return await _await_value(await outcome)
    finally:
        if outcome.done() and not outcome.cancelled():
            _close(outcome.exception() or outcome.result())


def _close(given: object) -> None:
    """Close an answer that nobody awaits any more, else Python warns that it was never awaited."""
    if inspect.iscoroutine(given):
        given.close()


async def _await_value(given: object) -> object:

    async def whole(awaitable: Awaitable[object]) -> object:
        return await awaitable

    if not inspect.isawaitable(given):
        return given
    (result,) = await asyncio.gather(whole(given), return_exceptions=True)
    return result
