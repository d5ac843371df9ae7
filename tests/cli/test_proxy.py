"""`autoprune proxy` as a program: output, errors, shutdown."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from command_line import run_text
from proxied import prefix_changes, recorded, send
from proxy.conftest import body
from raw_upstream import Connection, always, answer, serving

from autoprune.apps.cli.proxy import base_addresses

OPTIONS = ("--port", "0", "--safe-zone", "2k", "--jobs", "1")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep ledgers out of the home folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@contextmanager
def program(*args: str) -> Iterator["subprocess.Popen[str]"]:
    command = (sys.executable, "-m", "autoprune", "proxy", *args)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as known:
        try:
            yield known
        finally:
            known.kill()


def test_proxy_prints_its_address_prunes_with_cache_aware_and_stops_on_ctrl_c():
    options = (*OPTIONS, "--safe-zone", "30k")
    with serving(always(answer())) as upstream, program(*options, "--upstream", upstream.url) as known:
        assert known.stdout
        said = [known.stdout.readline().rstrip() for _ in range(6)]
        url = said[0].removeprefix("autoprune proxy on ")
        send(url, recorded())
        known.send_signal(signal.SIGINT)
        _, errors = known.communicate(timeout=60)
    assert (known.returncode, errors) == (0, "")
    assert prefix_changes(upstream) == 3
    assert f"{url}/v1 (OpenAI)" in said[1]
    assert said[2].endswith(upstream.url)
    assert said[3].endswith("30k")
    assert said[5].startswith(f"  page            {url}/?token=")
    assert "in 1 session." in run_text("savings").stdout


def test_sigterm_stops_the_proxy_and_its_ledgers_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with serving(always(answer())) as upstream, program(*OPTIONS, "--upstream", f"{upstream.url}/v1") as known:
        assert known.stdout
        url = known.stdout.readline().split()[-1]
        assert httpx.post(f"{url}/v1/messages", content=body(9), timeout=60).status_code == 200
        known.send_signal(signal.SIGTERM)
        known.communicate(timeout=60)
    assert known.returncode == 0
    assert len([*tmp_path.rglob("*.json")]) == 1


@pytest.mark.full
def test_proxy_stops_without_messages_while_answers_are_streaming():
    def play(connection: Connection) -> None:
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while True:
            connection.send(b"data: 1\n\n")
            time.sleep(0.05)

    with serving(play) as upstream, program(*OPTIONS, "--upstream", upstream.url) as known:
        assert known.stdout
        url = known.stdout.readline().split()[-1]
        with httpx.stream("POST", f"{url}/v1/messages", content=body(2), timeout=60) as got:
            pieces = got.iter_raw()
            assert next(pieces).startswith(b"data: 1")
            known.send_signal(signal.SIGINT)
            _, errors = known.communicate(timeout=60)
    assert (known.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--host", "0.0.0.0"), "other machines can reach 0.0.0.0: give a token"),
        (("--strategy", "lowwater"), "there is no strategy 'lowwater' (did you mean low_water?)"),
        (("--upstream", "gateway"), "upstream is 'gateway': give an address such as https://"),
        (("--upstream", "http://lab:port"), "upstream is 'http://lab:port': give an address such as https://"),
        (
            ("--port", "9811", "--upstream", "http://localhost:9811/v1"),
            "--upstream is http://localhost:9811, this proxy itself: give the address",
        ),
        (("--safe-zone", "much"), "the safe zone is 'much': write it as 51200"),
        (("--host", "192.0.2.1", "--token", "t", "--port", "0"), "cannot listen on 192.0.2.1:0"),
    ],
)
def test_an_invalid_option_is_one_line(args: tuple[str, ...], said: str) -> None:
    with program(*args) as known:
        _, errors = known.communicate(timeout=20)
    assert known.returncode == 2
    assert errors.startswith(f"autoprune: {said}")
    assert errors.count("\n") == 1


def test_requests_are_forwarded_to_base_addresses_in_variables(monkeypatch: pytest.MonkeyPatch):
    with serving(always(answer())) as upstream:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/gateway/v2")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{upstream.url}/claude")
        with program(*OPTIONS) as known:
            assert known.stdout
            url = known.stdout.readline().split()[-1]
            for path in ("/v1/chat/completions", "/v1/messages"):
                assert httpx.post(f"{url}{path}", content=body(2), timeout=60).status_code == 200
    lines = [head.splitlines()[0] for head, _ in upstream.requests]
    assert lines == ["POST /gateway/v2/chat/completions HTTP/1.1", "POST /claude/v1/messages HTTP/1.1"]


def test_the_proxys_own_address_is_not_an_upstream():
    assert base_addresses({"ANTHROPIC_BASE_URL": "http://localhost:8484", "OPENAI_BASE_URL": ""}, 8484) == {}
    assert base_addresses({"ANTHROPIC_BASE_URL": "http://localhost:8485"}, 8484) == {
        "anthropic": "http://localhost:8485"
    }
