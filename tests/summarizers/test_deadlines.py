"""A summary has a limit of time, whatever holds it up, and Ctrl-C waits for nobody."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from tables import each_row

from autoprune import Chunked, ConversationPruner, OpenAISummarizer, PruneArgs, SettingsError
from autoprune.conversation.summary import find_summary
from autoprune.strategies.per_result import PerResult
from autoprune.summarizers.brief import Ask, Brief, Failed, Written
from autoprune.summarizers.driver import Budget, arun, run, steps_of

SOON = 0.3  # seconds that a summary may take here
MUCH_LATER = 20.0  # seconds, within which a slow machine comes to an end too, and the server does not


def chat(number: int = 30) -> list[dict[str, str]]:
    return [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * 100} for at in range(number)]


class Dripping(BaseHTTPRequestHandler):
    """Sends one byte after the other, so that no time-out for a silence is ever reached."""

    def __init__(self, asked: threading.Event, closing: threading.Event, *connection: Any) -> None:
        self.asked, self.closing = asked, closing
        super().__init__(*connection)

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.asked.set()
        try:
            while not self.closing.wait(0.05):
                self.wfile.write(b" ")
        except OSError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the standard error stream for faults."""


@contextmanager
def dripping() -> Iterator[tuple[str, threading.Event]]:
    asked, closing = threading.Event(), threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Dripping, asked, closing)) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            closing.set()
            server.shutdown()


def hanging(brief: Brief) -> str:
    time.sleep(60)
    return "too late"


async def hanging_async(brief: Brief) -> str:
    await asyncio.sleep(60)
    return "too late"


async def stubborn(brief: Brief) -> str:
    """Refuses to be cancelled, for a while."""
    for _ in range(20):
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            continue
    return "too late"


def pruned(llm: object, how: str, strategy: Any = None, **more: Any) -> Any:
    pruner = ConversationPruner(PruneArgs(2_000), llm, max_seconds=SOON, **more)
    if how == "sync":
        return pruner.prune(chat(), strategy)
    return asyncio.run(pruner.aprune(chat(), strategy))


HOW = pytest.mark.parametrize("how", ["sync", "async"])


@pytest.mark.parametrize("how", ["sync", pytest.param("async", marks=pytest.mark.full)])
@each_row("llm", [hanging, hanging_async, stubborn, Chunked(hanging, 900)])
def test_a_function_that_never_returns_is_abandoned(llm: Callable[[Brief], Any], how: str):
    started = time.monotonic()
    result = pruned(llm, how)
    assert time.monotonic() - started < MUCH_LATER
    assert any("no answer within 0.3 seconds" in note for note in result.report.fallbacks)
    assert result.report.within_safe_zone
    assert find_summary(result.conversation)


@HOW
@pytest.mark.parametrize("client", [OpenAI, AsyncOpenAI])
def test_a_server_that_drips_is_abandoned(client: Any, how: str):
    with dripping() as (url, _):
        summarizer = OpenAISummarizer(client(base_url=url, api_key="none"), "m", retries=0)
        started = time.monotonic()
        result = pruned(summarizer, how)
        assert time.monotonic() - started < MUCH_LATER
    assert result.report.fallbacks[0] == (
        "the summarizer failed (no answer within 0.3 seconds): the summary was made without a model"
    )


@HOW
def test_a_function_for_single_results_is_abandoned(how: str):
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    given = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "line\n" * 3_000},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "And now?"},
    ]
    pruner = ConversationPruner(PruneArgs(1_000), max_seconds=SOON)
    strategy = PerResult(mode="custom", function=lambda text: str(time.sleep(60)), threshold=100)
    result = pruner.prune(given, strategy) if how == "sync" else asyncio.run(pruner.aprune(given, strategy))
    assert any("no answer within 0.3 seconds" in note for note in result.report.fallbacks)


@HOW
def test_the_time_is_for_all_questions_of_a_prune(how: str):
    def rounds(brief: Brief) -> Any:
        for _ in range(50):
            (answer,) = yield [Ask(lambda brief: str(time.sleep(0.2) or "a part"), brief)]
            if isinstance(answer, Failed):
                return answer
        return Written("all of it")

    budget = Budget(100, SOON)
    started = time.monotonic()
    answer = run(rounds(Brief(())), 2, budget) if how == "sync" else asyncio.run(arun(rounds(Brief(())), 2, budget))
    assert isinstance(answer, Failed)
    assert time.monotonic() - started < 5
    assert budget.calls >= 96


def test_a_summarizer_without_a_model_is_asked_after_the_time_is_up():
    budget = Budget(1, 1.0, clock=iter([0.0, *[5.0] * 99]).__next__)

    def plain(brief: Brief) -> str:
        return "by hand"

    plain.calls_model = False  # type: ignore[attr-defined]
    assert run(steps_of(plain, Brief(())), budget=budget) == Written("by hand")
    late = run(steps_of(hanging, Brief(())), budget=budget)
    assert isinstance(late, Failed)
    assert late.why == "the time that one prune may take is used up"


@pytest.mark.parametrize("seconds", [0, -1, True, "1"])
def test_an_invalid_limit_is_an_error(seconds: Any):
    with pytest.raises(SettingsError, match="max_seconds is"):
        ConversationPruner(PruneArgs(1_000), max_seconds=seconds).prune(chat())


def test_without_a_limit_the_prune_waits():
    pruner = ConversationPruner(
        PruneArgs(1_000), lambda brief: str(time.sleep(0.1) or "They talked."), max_seconds=None
    )
    assert "They talked." in str(find_summary(pruner.prune(chat()).conversation).text)  # type: ignore[union-attr]


INTERRUPTED = """
import asyncio, sys
from openai import AsyncOpenAI, OpenAI
from autoprune import Chunked, ConversationPruner, OpenAISummarizer, PruneArgs
url, how, client = sys.argv[1:]
made = {"sync": OpenAI, "async": AsyncOpenAI}[client](base_url=url, api_key="none")
llm = Chunked(OpenAISummarizer(made, "m", retries=0), 1_500)
chat = [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * 100} for at in range(60)]
pruner = ConversationPruner(PruneArgs(1_000), llm)
try:
    pruner.prune(chat) if how == "sync" else asyncio.run(pruner.aprune(chat))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


MIXED = [pytest.param(*mixed, marks=pytest.mark.full) for mixed in (("sync", "async"), ("async", "sync"))]


@pytest.mark.parametrize(("how", "client"), [("sync", "sync"), ("async", "async"), *MIXED])
def test_ctrl_c_waits_for_no_question(how: str, client: str):
    with dripping() as (url, asked):
        command = [sys.executable, "-c", INTERRUPTED, url, how, client]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert asked.wait(60)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=MUCH_LATER)
        finally:
            process.kill()
    assert (out, err, process.returncode) == ("interrupted\n", "", 0)
