"""Ask summarizers, in threads or in asyncio, and turn whatever they give or raise into an answer.

A question that may wait for somebody is asked in a daemon thread of its own, never in a pool: Python waits for a pool's
threads before it exits, so Ctrl-C would hang as long as a server does. Nothing can end a thread that hangs; when the
time is up it is left behind, and its answer is ignored.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

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
LONGEST_REASON = 300  # characters of an error that are reported; some hold a whole page


@dataclass
class Budget:
    """How many more questions may be asked of a model, and for how long; others may be asked at any time.

    A question is one call of a summarizer. How many requests it makes is up to the summarizer: `OpenAISummarizer` makes
    at most two, each tried again as often as it was told to. The time is for all questions together,
    in seconds from when the budget is made; None for no limit.
    """

    calls: int
    seconds: float | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self.started = self.clock()

    @property
    def left(self) -> float | None:
        """The seconds that are left, 0 or more; None where there is no limit."""
        return None if self.seconds is None else max(0.0, self.started + self.seconds - self.clock())

    @property
    def late(self) -> Failed:
        """The answer in place of one that did not come in time."""
        return Failed(f"no answer within {self.seconds or 0:g} seconds")

    def refusal(self, ask: Ask) -> str | None:
        """Return why a question may not be asked; where it may, count it and return None."""
        if not may_wait(ask.summarizer):
            return None
        if self.left == 0:
            return "the time that one prune may take is used up"
        if not calls_model(ask.summarizer):
            return None
        self.calls -= 1
        return None if self.calls >= 0 else "the calls that one prune may make are used up"


Job: TypeAlias = tuple[int, Callable[[], Answer]]
UNLIMITED = 1_000_000  # calls, where nobody counts them


def steps_of(summarizer: Summarizer, brief: Brief) -> Steps:
    """Run the steps of a summarizer that has some, or ask the one question that it is; a failure where they raise."""
    own = getattr(summarizer, "steps", None)
    if not callable(own):
        (answer,) = yield [Ask(summarizer, brief)]
        return answer
    try:
        return judged((yield from own(brief)))
    except Exception as error:  # a stranger's generator, as in `_call`
        return judged(error)


def run(steps: Steps, concurrency: int = CONCURRENCY, budget: Budget | None = None) -> Answer:
    """Run steps to their answer. The questions of a batch are asked in threads, `concurrency` of them at a time.

    An awaitable is run to its end in an event loop of its own. Where the caller is within a running loop it is
    refused, since it may hold what belongs to that loop: `arun` is for there.
    """
    limits = budget or Budget(UNLIMITED)
    asked = _advance(steps, None)
    while not isinstance(asked, Written | Failed):
        asked = _advance(steps, _in_threads(_afford(asked, limits), concurrency, limits))
    return asked


async def arun(steps: Steps, concurrency: int = CONCURRENCY, budget: Budget | None = None) -> Answer:
    """Run steps to their answer in asyncio. Summarizers are called in threads: one that waits blocks no other."""
    limits = budget or Budget(UNLIMITED)
    gate = asyncio.Semaphore(max(concurrency, 1))
    asked = _advance(steps, None)
    while not isinstance(asked, Written | Failed):
        answers = await asyncio.gather(*(_await_answer(ask, gate, limits) for ask in _afford(asked, limits)))
        asked = _advance(steps, answers)
    return asked


def answered(ask: Ask, *, is_within_loop: bool = False, budget: Budget | None = None) -> Answer:
    """Return the answer to one question, whatever the summarizer gives or raises."""
    given = _call(ask)
    if not inspect.isawaitable(given):
        return judged(given)
    if not is_within_loop:
        return asyncio.run(_in_time(_await_value(given), budget or Budget(UNLIMITED)))
    if inspect.iscoroutine(given):
        given.close()
    return Failed("this summarizer is asynchronous and an event loop is running: use aprune in place of prune")


def judged(given: object) -> Answer:
    """Return what a summarizer gave, or the exception that it raised, as an answer."""
    match given:
        case Failed():
            return given
        case Written(text=str(text)) if text.strip():
            return given
        case str() if given.strip():
            return Written(given)
        case BaseException():
            return Failed(": ".join(filter(None, (type(given).__name__, _words(given))))[:LONGEST_REASON])
        case None | str() | Written(text=None | str()):
            return Failed("the summarizer gave no text")
        case _:
            return Failed(f"the summarizer gave a {type(given).__name__}, not a text")


def _words(error: BaseException) -> str:
    """Return what an exception says, if it can."""
    try:
        return str(error)
    except Exception:  # a stranger's exception is a stranger's callable too
        return ""


def call_safely(function: Callable[..., object], *arguments: object) -> object:
    """Call a caller's function and return what it gives; Failed where it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # a stranger's callable, as in `_call`
        return judged(error)


def _advance(steps: Steps, answers: Sequence[Answer] | None) -> Sequence[Ask] | Answer:
    """Return the next batch of questions, or what the steps come to."""
    try:
        asked = next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        return judged(end.value)
    if isinstance(asked, list | tuple) and all(isinstance(ask, Ask) for ask in asked):
        return asked
    steps.close()
    return Failed("its steps gave something that is no list of questions")


def _afford(asks: Sequence[Ask], budget: Budget) -> list[Ask]:
    """Return the questions, with a refusal in place of each one above the budget."""
    return [ask if (why := budget.refusal(ask)) is None else Ask(_Refusal(why), ask.brief) for ask in asks]


@dataclass(frozen=True)
class _Refusal:
    """A summarizer that answers a question that may not be asked."""

    why: str
    calls_model = False

    def __call__(self, brief: Brief) -> Refused:
        return Refused(self.why)


def _in_threads(asks: Sequence[Ask], concurrency: int, budget: Budget) -> list[Answer]:
    """Return the answers to all questions: those that wait for nobody are asked here, all others in daemon threads."""
    answer = partial(answered, is_within_loop=_is_within_loop(), budget=budget)
    waiting: SimpleQueue[Job] = SimpleQueue()
    slow = [number for number, ask in enumerate(asks) if may_wait(ask.summarizer)]
    for number in slow:
        # A copy of the context for each, so that tracing finds the caller's span.
        waiting.put((number, partial(copy_context().run, answer, asks[number])))
    come: SimpleQueue[tuple[int, Answer | BaseException]] = SimpleQueue()
    for _ in range(min(max(concurrency, 1), len(slow))):
        Thread(target=_work, args=(waiting, come), name="autoprune", daemon=True).start()
    try:
        answers = {number: answer(ask) for number, ask in enumerate(asks) if not may_wait(ask.summarizer)}
        while len(answers) < len(asks):
            try:
                number, given = come.get(timeout=budget.left)
            except Empty:
                break
            if isinstance(given, BaseException):
                raise given
            answers[number] = given
    finally:
        while _next(waiting):  # nothing more is begun
            pass
    return [answers.get(number, budget.late) for number in range(len(asks))]


def _work(waiting: "SimpleQueue[Job]", come: "SimpleQueue[tuple[int, Answer | BaseException]]") -> None:
    """Ask one question after the other, until there are none."""
    while job := _next(waiting):
        try:
            come.put((job[0], job[1]()))
        except BaseException as error:  # a KeyboardInterrupt that the summarizer raised, say: it is the caller's
            come.put((job[0], error))


def _next(waiting: "SimpleQueue[Job]") -> Job | None:
    try:
        return waiting.get_nowait()
    except Empty:
        return None


async def _await_answer(ask: Ask, gate: asyncio.Semaphore, budget: Budget) -> Answer:
    if not may_wait(ask.summarizer):
        return judged(await _ask_in_thread(ask))
    async with gate:
        return await _in_time(_ask_in_thread(ask), budget)


async def _in_time(asked: Coroutine[Any, Any, object], budget: Budget) -> Answer:
    """Await the answer to a question, but no longer than there is time."""
    question = asyncio.ensure_future(asked)
    try:
        # Not `wait_for`, which waits for what it cancels: a summarizer may refuse to be cancelled.
        await asyncio.wait({question}, timeout=budget.left)
        return judged(question.result()) if question.done() else budget.late
    finally:
        question.cancel()


async def _ask_in_thread(ask: Ask) -> object:
    """Call a summarizer in a daemon thread and await what it gives."""
    loop = asyncio.get_running_loop()
    given: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if not given.done():
            given.set_exception(error) if error else given.set_result(result)

    def call() -> None:
        result, error = None, None
        try:
            result = _call(ask)
        except BaseException as raised:  # as in `_work`
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    Thread(target=copy_context().run, args=(call,), name="autoprune", daemon=True).start()
    return await _await_value(await given)


def _call(ask: Ask) -> object:
    """Return what a summarizer gives, or the exception that it raises."""
    try:
        return ask.summarizer(ask.brief)
    except Exception as error:  # a stranger's callable: no fault of it may end a prune, and the report tells of it
        return error


async def _await_value(given: object) -> object:
    """Return a value, or what it comes to where it is awaitable."""

    async def whole(awaitable: Awaitable[object]) -> object:
        return await awaitable

    if not inspect.isawaitable(given):
        return given
    (result,) = await asyncio.gather(whole(given), return_exceptions=True)
    return result


def _is_within_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
