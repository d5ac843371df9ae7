"""Histories longer than a window, in parts; and the drivers that ask summarizers, whatever those do."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import utterances as say
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, sample_cases
from tables import each_row

from autoprune.errors import SettingsError
from autoprune.facts.utterances import Utterance
from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Refused, Written, identity_of
from autoprune.summarizers.chunked import Chunked
from autoprune.summarizers.driver import Budget, arun, as_answer, run, steps_of
from autoprune.summarizers.rendering import render
from autoprune.tokens import exact

COUNT = exact()
SPAN: ContextVar[str] = ContextVar("span", default="none")


@dataclass
class Inner:
    """A summarizer that keeps what it was asked; the summary is the number of the call."""

    failing: int = -1
    asked: list[Brief] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def __call__(self, brief: Brief) -> Written:
        with self.lock:
            number = len(self.asked)
            self.asked.append(brief)
        if number == self.failing:
            raise OSError("the line is dead")
        return Written(f"Summary {number}.", 10, 1, 0.5, "m")


def history(rounds: int, words: int = 100) -> tuple[Utterance, ...]:
    """The user's request, and rounds of one call with a result of so many words."""
    rest = (turn for at in range(rounds) for turn in say.answered(say.call("run", at), "word " * words))
    return (say.user("Fix it."), *rest)


def brief_of(said: Sequence[Utterance], **settings: Any) -> Brief:
    return Brief(tuple(said), **{"count": say.words, "max_tokens": 100, "request": "Go on.", **settings})


def size(brief: Brief) -> int:
    """The words of all that a brief says, and of the summary."""
    return (
        say.words(render(brief.utterances, say.words, 10**9))
        + say.words(brief.previous)
        + say.words(brief.request)
        + brief.max_tokens
    )


# Parts


def test_a_history_that_fits_is_passed_on_unchanged():
    inner, brief = Inner(), brief_of(history(3), previous="So far.")
    assert Chunked(inner, 1_000)(brief) == Written("Summary 0.", 10, 1, 0.5, "m")
    assert inner.asked == [brief]


def test_no_cut_is_made_between_a_call_and_its_result():
    calls = [say.call("run", at) for at in range(24)]
    pairs = zip(calls[::2], calls[1::2], strict=True)
    # As in OpenAI's Responses: two calls, each an item of its own, and then both outputs.
    said = [
        one
        for first, second in pairs
        for one in (
            say.model("", first),
            say.model("", second),
            say.tool(say.result(first, "word " * 150)),
            say.model("Hm."),
            say.tool(say.result(second, "word " * 150)),
        )
    ]
    inner = Inner()
    Chunked(inner, 1_000)(brief_of(said))
    parts = [part for part in inner.asked if any(one.results for one in part.utterances)]
    assert len(parts) > 3
    for part in parts:
        made = {call.location for one in part.utterances for call in one.calls}
        assert {result.call.location for one in part.utterances for result in one.results} == made


def test_parts_are_asked_at_the_same_time_and_no_more_than_allowed():
    together = threading.Barrier(3, timeout=10)
    now, most = [0], [0]

    def inner(brief: Brief) -> str:
        now[0] += 1
        most[0] = max(most[0], now[0])
        if brief.previous == "":
            together.wait()
        now[0] -= 1
        return "A part."

    first, *rest = history(23)
    assert Chunked(inner, 1_000, concurrency=3)(brief_of((first, *rest))).text == "A part."
    assert most == [3]


def test_a_failed_part_fails_the_whole_and_nothing_more_is_asked():
    inner = Inner(failing=1)
    answer = Chunked(inner, 1_000, concurrency=2)(brief_of(history(60)))
    assert answer == Failed("one of 8 parts: OSError: the line is dead")
    assert len(inner.asked) == 2


@each_row(
    ("calls", "depth", "asked"),
    sample_cases([(1, 5, 1), (2, 5, 1), (3, 5, 3), (4, 5, 4), (16, 1, 1), (16, 2, 8), (16, 5, 16), (40, 3, 40)], 2),
)
def test_questions_and_rounds_are_bounded_and_every_question_fits(calls: int, depth: int, asked: int):
    inner = Inner()
    summary = Chunked(inner, 1_000, calls=calls, depth=depth)(brief_of(history(400)))
    assert isinstance(summary, Written)
    assert len(inner.asked) == asked
    assert max(map(size, inner.asked)) <= 1_000


def test_if_parts_must_be_shortened_the_first_request_stays():
    inner = Inner()
    Chunked(inner, 1_000, calls=3)(brief_of(history(400)))
    assert inner.asked[0].utterances[0] == say.user("Fix it.")


def test_a_summary_may_take_at_most_half_of_the_window():
    inner = Inner()
    assert isinstance(Chunked(inner, 1_000)(brief_of(history(30), max_tokens=2_000)), Written)
    assert inner.asked[-1].max_tokens == 499
    assert max(map(size, inner.asked)) <= 1_000


@pytest.mark.parametrize("settings", [{"previous": "word " * 990}, {"max_tokens": 8}])
def test_a_window_without_room_is_a_failure(settings: dict[str, Any]):
    brief = brief_of(history(30), **settings)
    assert Chunked(Inner(), 1_000)(brief) == Failed("a window of 1,000 tokens has no room for a part of the history")


@given(say.utterances(), st.integers(100, 600), st.integers(1, 12), st.integers(1, 4))
@examples(60)
def test_for_any_history_every_question_fits_and_their_number_is_bounded(
    said: tuple[Utterance, ...], window: int, calls: int, depth: int
):
    inner = Inner()
    summarizer = Chunked(inner, window, calls=calls, depth=depth)
    brief = Brief(said, count=COUNT, max_tokens=60)
    assert isinstance(summarizer(brief), Written | Failed)
    assert len(inner.asked) <= calls
    assert inner.asked == [brief] or all(
        COUNT(render(one.utterances, COUNT, 10**9)) + COUNT(one.previous) + one.max_tokens <= window
        for one in inner.asked
    )


@each_row("name", ["window_tokens", "concurrency", "depth", "calls"])
@each_row("value", [0, True, 2.5])
def test_invalid_settings_are_errors(name: str, value: object):
    with pytest.raises(SettingsError, match=name):
        _ = replace(Chunked(Inner(), 1_000), **{name: value}).identity


def test_the_identity_contains_that_of_the_inner_summarizer():
    one = Chunked(Inner(), 1_000)
    assert one.identity == "test_chunked.Inner in parts of 1000, 16 calls, 5 rounds"
    assert one.calls_model


# What summarizers give


@each_row(
    ("given", "answer"),
    [
        ("A text.", Written("A text.")),
        (Written("A text.", 1, 2, 3.0, "m"), Written("A text.", 1, 2, 3.0, "m")),
        (Failed("tired"), Failed("tired")),
        (None, Failed("the summarizer gave no text")),
        ("", Failed("the summarizer gave no text")),
        (" \n", Failed("the summarizer gave no text")),
        (Written(" "), Failed("the summarizer gave no text")),
        (Written(None), Failed("the summarizer gave no text")),
        (Written(b"bytes"), Failed("the summarizer gave a Written, not a text")),
        (b"bytes", Failed("the summarizer gave a bytes, not a text")),
        (["A text."], Failed("the summarizer gave a list, not a text")),
        (KeyError("a"), Failed("KeyError: 'a'")),
        (OSError("x" * 1_000), Failed("OSError: " + "x" * 291)),
        (TimeoutError(), Failed("TimeoutError")),
    ],
)
def test_whatever_a_summarizer_returns_becomes_an_answer(given: object, answer: Answer):
    assert as_answer(given) == answer


def gives(value: object) -> Callable[[Brief], object]:
    def summarizer(brief: Brief) -> object:
        if isinstance(value, BaseException):
            raise value
        return value

    return summarizer


def awaited(value: object) -> Callable[[Brief], object]:
    async def summarizer(brief: Brief) -> object:
        await asyncio.sleep(0)
        return gives(value)(brief)

    return summarizer


EMPTY = brief_of(())


OUTCOMES = pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("A text.", Written("A text.")),
        (None, Failed("the summarizer gave no text")),
        (ZeroDivisionError("oh"), Failed("ZeroDivisionError: oh")),
    ],
)


@OUTCOMES
@each_row("make", [gives, awaited])
def test_both_drivers_give_the_same_answer_for_any_summarizer(make: Any, value: object, answer: Answer):
    assert run(steps_of(make(value), EMPTY)) == answer
    assert asyncio.run(arun(steps_of(make(value), EMPTY))) == answer


def test_an_asynchronous_summarizer_may_be_asked_within_a_running_loop():
    async def program(parts: int) -> Answer:
        return run(batch([awaited("A text.")] * parts))

    assert asyncio.run(program(1)) == Written("A text.")
    assert asyncio.run(program(3)) == Written("A text. A text. A text.")


def test_a_stop_iteration_and_a_future_of_another_loop_are_failures_too():
    ended = Ask(lambda brief: next(iter(())), EMPTY)
    loop = asyncio.new_event_loop()
    foreign = loop.create_future()
    loop.close()
    for ask, words in ((ended, "StopIteration"), (Ask(lambda brief: foreign, EMPTY), "RuntimeError")):
        sync = run(batch([ask.summarizer]))
        assert isinstance(sync, Failed)
        assert sync.why.startswith(words)
        assert asyncio.run(asyncio.wait_for(arun(batch([ask.summarizer])), 5)).__class__ is Failed


def test_a_question_runs_in_the_callers_context():
    SPAN.set("prune 7")
    inner = [lambda brief: SPAN.get()] * 2
    assert run(batch(inner)) == Written("prune 7 prune 7")
    assert asyncio.run(arun(batch(inner))) == Written("prune 7 prune 7")


def test_a_synchronous_summarizer_does_not_block_the_loop():
    ticks = 0

    async def program() -> Answer:
        async def ticking() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        clock = asyncio.create_task(ticking())
        answer = await arun(steps_of(lambda brief: time.sleep(0.1) or "A text.", EMPTY))
        clock.cancel()
        return answer

    assert asyncio.run(program()) == Written("A text.")
    assert ticks > 5


def test_an_interrupt_is_not_an_answer():
    with pytest.raises(KeyboardInterrupt):
        run(steps_of(gives(KeyboardInterrupt()), EMPTY))


# Steps


def batch(summarizers: Sequence[Callable[[Brief], object]]) -> Generator[Sequence[Ask], Sequence[Answer], Answer]:
    """Steps that ask all at once, and come to the first failure or all texts."""
    answers = yield [Ask(summarizer, EMPTY) for summarizer in summarizers]
    failed = [answer for answer in answers if isinstance(answer, Failed)]
    return failed[0] if failed else Written(" ".join(answer.text for answer in answers if isinstance(answer, Written)))


def after(seconds: float, text: str) -> Callable[[Brief], str]:
    return lambda brief: time.sleep(seconds) or text


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_answers_come_in_the_order_of_the_questions(concurrency: int):
    asks = [after(0.02, "a"), after(0, "b"), after(0.01, "c"), awaited("d")]
    assert run(batch(asks), concurrency) == Written("a b c d")
    assert asyncio.run(arun(batch(asks), concurrency)) == Written("a b c d")


@pytest.mark.parametrize("driver", ["run", "arun"])
def test_beyond_the_budget_only_summarizers_without_a_model_are_asked(driver: str):
    free = Inner()
    free.calls_model = False
    asked = [Inner(), Inner(), Inner()]

    def drive(summarizer: Any, budget: Budget) -> Answer:
        steps = steps_of(summarizer, EMPTY)
        return run(steps, budget=budget) if driver == "run" else asyncio.run(arun(steps, budget=budget))

    budget = Budget(2)
    answers = [drive(each, budget) for each in (*asked, free)]
    assert answers[2] == Refused("the calls that one prune may make are used up")
    assert [len(each.asked) for each in (*asked, free)] == [1, 1, 0, 1]


def test_steps_that_raise_or_return_nothing_are_failures():
    class Raises:
        def steps(self, brief: Brief) -> Any:
            yield [Ask(gives("A text."), brief)]
            raise LookupError("lost")

    class Nothing:
        def steps(self, brief: Brief) -> Any:
            yield [Ask(gives("A text."), brief)]

    assert run(steps_of(Raises(), EMPTY)) == Failed("LookupError: lost")
    assert run(steps_of(Nothing(), EMPTY)) == Failed("the summarizer gave no text")


def test_the_identity_of_a_function_is_its_name_and_of_an_object_its_class():
    assert identity_of(history) == "test_chunked.history"
    assert identity_of(Inner()) == "test_chunked.Inner"
    assert identity_of(Chunked(history, 9)).startswith("test_chunked.history in parts of 9")
