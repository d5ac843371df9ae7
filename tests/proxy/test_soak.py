"""An hour of a team's traffic at full speed does not make the proxy's memory grow."""

import gc
import json
from pathlib import Path

import pytest
from proxy.conftest import messages

from autoprune.apps.proxy import Settings
from autoprune.apps.proxy._pruning import Job, Work

SESSIONS, REQUESTS = 240, 15  # one request a second
ALLOWED = 24  # megabytes, of some 400 that pass through in the second half


def resident() -> float:
    """The resident memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096 / 1e6


def session(work: Work, number: int) -> None:
    """Prune one conversation from its first request to its last, with unique results of 14 kB."""
    whole = messages(REQUESTS, tag=f" {number}", lines=1_600)
    for at in range(REQUESTS):
        known = {"model": "claude-sonnet-4-5", "messages": whole[: 2 * at + 1]}
        done = work.prune(Job("/v1/messages", {}, json.dumps(known).encode(), f"s{number}", float(at)))
        work.account(done.number)
        work.learn(done.conversation, {"input_tokens": 9_000}, done.number)


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a process from /proc")
def test_memory_does_not_grow():
    work = Work(Settings(safe_zone="8k"))
    half = 0.0
    for number in range(SESSIONS):
        session(work, number)
        if number == SESSIONS // 2:
            gc.collect()
            half = resident()
    gc.collect()
    assert resident() - half < ALLOWED
