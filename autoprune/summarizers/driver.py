"""Asks summarizers what steps want to know, in threads or in asyncio. Decides nothing, and no exception leaves it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Refused, Steps, Written

CONCURRENCY = 4  # questions of a batch that are asked at the same time
LONGEST_REASON = 300  # characters of an error that are reported; some hold a whole page


@dataclass
class Budget:
    """How many more questions may be asked of a model; a summarizer that calls none may be asked at any time.

    A question is one call of a summarizer. What it costs is the summarizer's promise: `OpenAISummarizer` makes at most
    two requests of one question, each tried again as often as it was told to.
    """

    calls: int

    def spend(self, ask: Ask) -> bool:
        """Whether a question may be asked; it is taken off."""
        if not calls_model(ask.summarizer):
            return True
        self.calls -= 1
        return self.calls >= 0


def calls_model(summarizer: object) -> bool:
    """Whether a summarizer calls a model, as far as it says."""
    return getattr(summarizer, "calls_model", True) is not False


def identity_of(summarizer: object) -> str:
    """What a summarizer calls itself; else the full name of the function, or of the class."""
    own = getattr(summarizer, "identity", None)
    named = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return own if isinstance(own, str) else f"{named.__module__}.{named.__qualname__}"


def steps_of(summarizer: Callable[[Brief], object], brief: Brief) -> Steps:
    """The steps of any summarizer: its own, or the one question that it is. What its own raise is a failure."""
    own = getattr(summarizer, "steps", None)
    if not callable(own):
        (answer,) = yield [Ask(summarizer, brief)]
        return answer
    try:
        return judged((yield from own(brief)))
    except Exception as error:  # a stranger's generator, as in `_called`
        return judged(error)


def run(steps: Steps, concurrency: int = CONCURRENCY, budget: Budget | None = None) -> Answer:
    """What steps come to. The questions of a batch are asked in threads, at most `concurrency` at the same time.

    An awaitable is run to its end in an event loop of its own. Where the caller is within a running loop it is
    refused, since it may hold what belongs to that loop: `arun` is for there.
    """
    asked = _advanced(steps, None)
    while not isinstance(asked, Written | Failed):
        asked = _advanced(steps, _in_threads(_afforded(asked, budget), concurrency))
    return asked


async def arun(steps: Steps, concurrency: int = CONCURRENCY, budget: Budget | None = None) -> Answer:
    """The same in asyncio. Summarizers are called in threads, so that one that waits holds up no one else."""
    gate = asyncio.Semaphore(max(concurrency, 1))
    asked = _advanced(steps, None)
    while not isinstance(asked, Written | Failed):
        answers = await asyncio.gather(*(_awaited(ask, gate) for ask in _afforded(asked, budget)))
        asked = _advanced(steps, answers)
    return asked


def answered(ask: Ask, *, is_within_loop: bool = False) -> Answer:
    """The answer to one question, whatever the summarizer gives or raises."""
    given = _called(ask)
    if not inspect.isawaitable(given):
        return judged(given)
    if not is_within_loop:
        return judged(asyncio.run(_settled(given)))
    if inspect.iscoroutine(given):
        given.close()
    return Failed("this summarizer is asynchronous and an event loop is running: use aprune in place of prune")


def judged(given: object) -> Answer:
    """What a summarizer gave, or the exception that it raised, as an answer."""
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
    """What an exception says, if it can."""
    try:
        return str(error)
    except Exception:  # a stranger's exception is a stranger's callable too
        return ""


def tried(function: Callable[..., object], *arguments: object) -> object:
    """What a function of the caller's gives, a mapping's say; Failed where it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # a stranger's callable, as in `_called`
        return judged(error)


def _advanced(steps: Steps, answers: Sequence[Answer] | None) -> Sequence[Ask] | Answer:
    """The next batch of questions, or what the steps come to."""
    try:
        asked = next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        return judged(end.value)
    if isinstance(asked, list | tuple) and all(isinstance(ask, Ask) for ask in asked):
        return asked
    steps.close()
    return Failed("its steps gave something that is no list of questions")


def _afforded(asks: Sequence[Ask], budget: Budget | None) -> list[Ask]:
    """The questions, those above the budget answered beforehand."""
    return [ask if budget is None or budget.spend(ask) else Ask(_over_budget, ask.brief) for ask in asks]


def _over_budget(brief: Brief) -> Refused:
    return Refused("the calls that one prune may make are used up")


def _in_threads(asks: Sequence[Ask], concurrency: int) -> list[Answer]:
    is_within_loop = _is_within_loop()
    if len(asks) < 2 or concurrency < 2:
        return [answered(ask, is_within_loop=is_within_loop) for ask in asks]
    pool = ThreadPoolExecutor(min(concurrency, len(asks)), "autoprune")
    try:
        # A copy of the context for each, so that tracing finds the caller's span.
        jobs = [pool.submit(copy_context().run, answered, ask, is_within_loop=is_within_loop) for ask in asks]
        return [job.result() for job in jobs]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def _awaited(ask: Ask, gate: asyncio.Semaphore) -> Answer:
    async with gate:
        return judged(await _settled(await asyncio.to_thread(_called, ask)))


def _called(ask: Ask) -> object:
    """What a summarizer gives, or the exception that it raises."""
    try:
        return ask.summarizer(ask.brief)
    except Exception as error:  # a stranger's callable: no fault of it may end a prune, and the report tells of it
        return error


async def _settled(given: object) -> object:
    """The same, where it is awaitable awaited."""

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
