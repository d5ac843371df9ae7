"""A thread and worker processes prune alike, and a worker that dies costs one request its pruning."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from proxy.conftest import body, eventually
from raw_upstream import always, answer, serving

from autoprune.apps.proxy import Running, Settings, _lanes
from autoprune.apps.proxy._lanes import LOST, Lanes, Worker, conversation_key
from autoprune.apps.proxy._pruning import WARMING, Job, Work
from autoprune.tokens import ExactCounter

ProxyTo = Callable[..., Running]


def job(results: int, tag: str = "") -> Job:
    return Job("/v1/messages", {}, body(results, tag=tag), "", 0.0)


def test_a_proxy_warms_up_before_the_first_request():
    program = """if True:
        import sys, time
        from autoprune.apps.proxy import Settings, running
        with running(Settings()):
            while "genai_prices" not in sys.modules or "splintr" not in sys.modules:
                time.sleep(0.01)
    """
    subprocess.run([sys.executable, "-c", program], timeout=20, check=True)
    words = json.loads(WARMING.body)["messages"][0]["content"].split()
    assert any(ExactCounter()(f" {word}") > 1 for word in words)  # merging tokens loads tables of its own


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker process with a safe zone of 2,000 tokens."""
    known = Worker(Settings(safe_zone="2k"))
    yield known
    known.close()


def test_a_worker_process_prunes_as_a_thread_does(worker: Worker):
    work = Work(Settings(safe_zone="2k"))
    for results in (2, 8, 9):
        expected, found = work.prune(job(results)), worker.call(Work.prune, job(results))
        assert (found.body, found.conversation) == (expected.body, expected.conversation)
        account = work.account(expected.number)
        assert worker.call(Work.account, found.number) == account
    assert account
    assert worker.call(Work.account, found.number) is None
    recalled = work.recall(account.cleared[0].id)
    assert recalled
    assert worker.call(Work.recall, account.cleared[0].id) == recalled
    assert worker.call(Work.recall, "0" * 16) is None


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_repeated_request_gets_the_same_bytes_in_the_same_lane(jobs: int):
    async def played() -> list[tuple[int, bytes | None]]:
        lanes = Lanes(Settings(safe_zone="2k", jobs=jobs))
        found = []
        for known in (job(9), job(9), replace(job(9), at=200.0), job(9, " another"), job(9)):
            lane, done = await lanes.prune(known)
            found.append((lane, done.body))
            assert await lanes.account(lane, done.number)
        await asyncio.to_thread(lanes.close)
        return found

    found = asyncio.run(played())
    assert found[0] == found[1] == found[2] == found[4] != found[3]


def test_a_worker_that_dies_is_replaced_and_costs_one_request_its_pruning(worker: Worker):
    pruned = worker.call(Work.prune, job(9)).body
    kill(pid_of(worker))
    assert worker.call(Work.prune, job(9)).body == pruned  # it died before it was called
    kill(parent_of(pid_of(worker)), pid_of(worker))  # and the fork server with it
    assert worker.call(Work.prune, job(9)).body == pruned
    with ThreadPoolExecutor(1) as thread:
        called = thread.submit(worker.call, Work.prune, job(4_000))
        time.sleep(0.2)
        kill(pid_of(worker))
        assert called.result() is None
    assert worker.call(Work.prune, job(9)).body == pruned


def test_a_fault_in_a_worker_does_not_end_it(worker: Worker):
    worker.call(Work.prune, job(9))
    known = pid_of(worker)
    assert worker.call(Work.account, []) is None
    worker.call(Work.learn, [], None)
    assert worker.call(Work.recall, []) is None
    assert worker.call(Work.prune, job(9)).body
    assert pid_of(worker) == known


def test_a_worker_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch):
    lanes = Lanes(Settings(safe_zone="2k", jobs=1))
    (worker,) = lanes._lanes
    assert isinstance(worker, Worker)
    worker.warm()
    stuck = pid_of(worker)
    monkeypatch.setattr(_lanes, "PATIENCE", 0.1)
    assert asyncio.run(lanes.prune(job(4_000))) == (0, LOST)
    assert not is_alive(stuck)
    lanes.close()


@pytest.mark.full
def test_without_a_fork_server_workers_are_spawned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_lanes.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    worker = Worker(Settings(safe_zone="2k"))
    try:
        assert worker.call(Work.prune, job(9)).body == Work(Settings(safe_zone="2k")).prune(job(9)).body
        assert parent_of(pid_of(worker)) == os.getpid()
    finally:
        worker.close()


def test_workers_end_with_the_proxy(worker: Worker):
    worker.warm()
    known = pid_of(worker)
    worker.close()
    assert not is_alive(known)


def test_workers_and_the_fork_server_end_when_the_proxy_is_killed():
    program = """if True:
        import time
        from autoprune.apps.proxy import Settings
        from autoprune.apps.proxy._lanes import Worker
        worker = Worker(Settings())
        worker.warm()
        print(worker._process.pid, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as proxy:
        assert proxy.stdout
        known = int(proxy.stdout.readline())
        server = parent_of(known)
        proxy.kill()
    eventually(lambda: not is_alive(known) and not is_alive(server))


def pid_of(worker: Worker) -> int:
    assert worker._process
    assert worker._process.pid
    return worker._process.pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill(*numbers: int) -> None:
    """Kill processes, and wait for their end."""
    for number in numbers:
        os.kill(number, signal.SIGKILL)
    eventually(lambda: not any(is_alive(number) for number in numbers))


def is_alive(number: int) -> bool:
    state = Path(f"/proc/{number}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_requests_of_many_sessions_go_through_workers(proxy_to: ProxyTo) -> None:
    with serving(always(answer(b'{"usage": {"input_tokens": 900}}'))) as upstream:
        proxy = proxy_to(upstream.url, jobs=2)
        for results in (4, 5, 6):
            for tag in (" one", " two", " three"):
                assert httpx.post(f"{proxy.url}/v1/messages", content=body(results, tag=tag)).status_code == 200
        eventually(lambda: sorted(session.requests for session in proxy.sessions) == [3, 3, 3])
        assert all(session.ledger.requests == 3 and session.ledger.reported for session in proxy.sessions)


def test_cache_marks_and_the_order_of_members_do_not_change_the_lane():
    mark = {"cache_control": {"type": "ephemeral"}}
    plain = {"messages": [{"role": "user", "content": "Fix it."}], "system": [{"type": "text", "text": "Be brief."}]}
    block = {"role": "user", "content": [{"type": "text", "text": "Fix it.", **mark}]}
    said = {"content": [{"type": "text", "text": "I read."}], "role": "assistant"}
    bodies = (plain, {"system": "", "messages": [block, said]})
    keys = [conversation_key(Job("/v1/messages", {}, json.dumps(each).encode(), "", 0.0)) for each in bodies]
    assert keys[0] == keys[1] != ""


def test_an_unnamed_session_keeps_its_lane():
    assert conversation_key(job(1)) == conversation_key(job(9)) != conversation_key(job(1, " another"))
    deep = b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert [conversation_key(replace(job(1), body=known)) for known in (b"no JSON", deep)] == ["", ""]
