"""`autoprune run` and `autoprune doctor`, with a fake assistant and a provider on the loopback interface."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import run_text
from fake_clients import install
from pages import ROOT
from proxy.conftest import messages
from raw_upstream import Connection, always, answer, serving
from reading_tasks import Comparing, document
from strict_provider.exchange import Request
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider, serve
from tables import each_row

from autoprune import AgenticConversationPruner
from autoprune.apps.cli.run import cost_of_limit, summarize_traffic
from autoprune.apps.proxy import ClientSession, Point
from autoprune.conversation.limited_archive import project_folder
from autoprune.economics import Ledger

SCRIPT = [*(Turn(calls=(Call("read", {"path": f"{number}.log"}),)) for number in range(8)), Turn("All is read.")]
RECALL = re.compile(r"autoprune recall (\d{15})")
WAITS = f"""#!{sys.executable}
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
time.sleep(30)
"""
ON_ITS_TERMINAL = "import fcntl, runpy, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); runpy.run_module('autoprune')"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serve(SCRIPT) as known:
        yield known


def having(folder: Path, **variables: str | None) -> dict[str, str | None]:
    """The variables of a user with an empty home folder and no settings."""
    return {"HOME": str(folder), "XDG_STATE_HOME": None, "ANTHROPIC_BASE_URL": None, **variables}


def test_an_assistant_runs_behind_a_proxy_and_its_ledger_is_printed_at_the_end(
    tmp_path: Path, provider: Provider, capfd: pytest.CaptureFixture[str]
):
    user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL=provider.url, FAKE_EXIT="3")
    done = run_text("run", "--safe-zone", "5k", "claude", "--ask", "--help", "-s", environ=user)
    assert (capfd.readouterr(), done.returncode) == (("arguments: --ask --help -s\n", ""), 3)
    assert (len(provider.requests), provider.refusals) == (9, [])
    last = provider.requests[-1].body["messages"]
    assert "All is well" in str(last[-1])
    assert "All is well" not in str(last[2])
    page = r"autoprune: live page http://127\.0\.0\.1:\d+/\?token=[\w-]+\n"
    warning = r"autoprune: the safe zone of 5k forces cuts, so a session can get dearer than without pruning; [^\n]+\n"
    introduction = r"autoprune: claude-opus-4-8: 9 requests, the last prompt [\d,]+ tokens, 1\d,\d+ without pruning"
    assert re.match(page + warning + introduction, done.stderr)
    first = done.stderr.splitlines()[0]
    shown = re.sub(r":\d+/\?token=[\w-]+$", ":41327/?token=…", first)
    assert f"autoprune run claude\n{shown}\n```" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^In 9 requests, \d prunes (saved|lost)", done.stderr, re.MULTILINE)
    assert "in 1 session." in run_text("savings", environ=user).stdout


def recalling(files: dict[str, str]) -> Callable[[Request], Turn]:
    """A model that reads files, and then recalls the first one that was cleared, if there is one."""

    def answer(request: Request) -> Turn:
        spoken = sum(message["role"] == "assistant" for message in request.body["messages"])
        if spoken < len(files):
            return Turn(calls=(Call("read", {"path": [*files][spoken]}),))
        found = RECALL.search(json.dumps(request.body["messages"]))
        return Turn(calls=(Call("bash", {"command": found[0]}),)) if found and spoken == len(files) else Turn("Done.")

    return answer


@pytest.mark.parametrize("options", [(), ("--no-archive",)])
def test_an_assistant_recalls_what_was_cleared_unless_no_archive_is_kept(options: tuple[str, ...], tmp_path: Path):
    files = {str(tmp_path / f"{number}.log"): f"log {number}: all is well\n" * 300 for number in range(8)}
    for path, text in files.items():
        Path(path).write_text(text)
    with serve(recalling(files)) as provider:
        user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL=provider.url, AUTOPRUNE_ARCHIVE=None)
        done = run_text("run", *options, "-s", "5k", "claude", "--ask", environ=user, folder=tmp_path)
    assert (done.returncode, provider.refusals, len(provider.requests)) == (0, [], 9 if options else 10)
    archive = tmp_path / ".local" / "state" / "autoprune" / "archive"
    assert archive.exists() is not bool(options)
    cleared, answer = (provider.requests[-1].body["messages"][at]["content"][0] for at in (2, -1))
    if options:
        assert cleared["content"].endswith("tokens]")
        return
    first = next(iter(files.values()))
    id = RECALL.search(cleared["content"])[1]  # type: ignore[index]
    assert answer["content"] == first
    done = run_text("recall", id, environ=user)
    assert (done.returncode, done.stdout) == (0, first)
    done = run_text("recall", "--search", "log 0", environ=user, folder=tmp_path)
    assert done.stdout.startswith(f"{id}  read {next(iter(files))}\n    line 1: log 0: all is well\n")


@pytest.mark.parametrize("kind", ["csv", "log", "chinese"])
def test_files_that_an_assistant_compares_are_in_view_together(kind: str, tmp_path: Path):
    files = {str(tmp_path / f"{number}.txt"): document(kind, number, 30_000) for number in range(3)}
    for path, text in files.items():
        Path(path).write_text(text)
    with serve(Comparing(files, lambda path: Call("read", {"path": path}))) as provider:
        user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL=provider.url)
        assert run_text("run", "claude", "--ask", environ=user).returncode == 0
    assert (len(provider.requests), provider.refusals) == (4, [])


def test_print_shows_the_command_and_starts_nothing(tmp_path: Path):
    user = having(tmp_path, PATH="")
    done = run_text("run", "--print", "claude", "-p", "Fix it.", environ=user, folder=tmp_path)
    archive = project_folder(str(tmp_path / ".local/state/autoprune/archive"), str(tmp_path))
    assert [*tmp_path.iterdir()] == []
    assert done.stdout.splitlines() == [
        "# claude is not installed: npm install -g @anthropic-ai/claude-code",
        "# By hand, in one terminal; it prints the address of its live page:",
        "autoprune proxy --port 8484 --upstream https://api.anthropic.com --strategy 'cache_aware(fold_steps=10)' "
        "--archive",
        "# Safe zone: the window of each request's model (200,000 tokens if unknown) without room for the reply; at "
        "most 0.9 of the size at which the client compacts",
        f"# Cleared results: {archive}, for 7 days, up to 200 MB with those of other projects",
        "# Claude Code compacts at about 167k of 200k tokens (its default)",
        "# In another terminal:",
        "ANTHROPIC_BASE_URL=http://127.0.0.1:8484 ENABLE_TOOL_SEARCH=true claude -p 'Fix it.'",
        "# the proxy forwards requests to https://api.anthropic.com",
    ]


def test_print_shows_the_variables_that_a_proxy_by_hand_needs(tmp_path: Path):
    environ = {"AUTOPRUNE_COMPACT_AT": "10m", "AUTOPRUNE_CACHE_TTL": "1h", "AUTOPRUNE_STRATEGY": "low_water"}
    done = run_text("run", "--print", "claude", environ=having(tmp_path, PATH="", **environ)).stdout.splitlines()
    assert done[2].startswith("AUTOPRUNE_CACHE_TTL=1h AUTOPRUNE_COMPACT_AT=10m autoprune proxy --port 8484 ")
    assert done[2].count("low_water") == 1
    assert done[3].endswith("without room for the reply; at most 0.9 of 10m (AUTOPRUNE_COMPACT_AT)")


def test_print_says_that_no_archive_is_kept(tmp_path: Path):
    done = run_text("run", "--no-archive", "--print", "claude", environ=having(tmp_path, PATH=""))
    assert "# Cleared results: none is kept" in done.stdout.splitlines()
    assert "--archive" not in done.stdout


@each_row(
    ("arguments", "warnings"),
    [
        (
            ("--safe-zone", "10m", "claude"),
            [
                "# the safe zone of 10m changes nothing: Claude Code compacts at about 167k of 200k tokens (its "
                "default), and prompts stay below 0.9 of that; to let it compact, set AUTOPRUNE_COMPACT_AT=10m"
            ],
        ),
        (("claude", "--model", "claude-opus-5-5"), []),
        (
            ("--safe-zone", "40k", "claude", "--model", "claude-opus-5-5"),
            [
                "# the safe zone of 40k forces cuts that pay only after some 24 more requests at the prices of "
                "claude-opus-5-5, so a session can get dearer than without pruning; without --safe-zone "
                "only the model's window and the assistant's own compaction force cuts"
            ],
        ),
    ],
)
def test_a_safe_zone_that_the_user_chose_comes_with_a_warning(
    arguments: tuple[str, ...], warnings: list[str], tmp_path: Path
):
    printed = run_text("run", "--print", *arguments, environ=having(tmp_path)).stdout.splitlines()
    assert [line for line in printed if "the safe zone of" in line] == warnings


def test_the_printed_command_is_valid_in_a_shell(tmp_path: Path):
    asked = ["-p", "Fix the key handling, it's `here`: $HOME", "--max-tokens", "5"]
    user = having(tmp_path, HTTP_PROXY="http://127.0.0.1:9", NO_PROXY=None)
    line = run_text("run", "--print", "claude", *asked, environ=user).stdout.splitlines()[-2]
    assert shlex.split(line) == [
        *("NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "ANTHROPIC_BASE_URL=http://127.0.0.1:8484"),
        *("ENABLE_TOOL_SEARCH=true", "claude"),
        *asked,
    ]


@pytest.mark.parametrize(
    "line", ["run claude --upstream http://x", "run claude -p Hi --safe-zone=5k", "doctor claude --wait 9"]
)
def test_an_own_option_after_the_client_is_refused(line: str, tmp_path: Path):
    done = run_text(*line.split(), environ=having(tmp_path, PATH=""))
    command, name = line.split()[0], re.findall("--[a-z-]+", line)[0]
    assert done.returncode == 2
    assert done.stderr.startswith(f"autoprune: {name} comes after claude, so claude would get it")
    assert f"`autoprune {command} {name} … claude`, or `autoprune {command} -- claude … {name}`" in done.stderr


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_an_unknown_option_before_the_client_is_named(command: str, tmp_path: Path):
    done = run_text(command, "--upstraem=http://x", "claude", environ=having(tmp_path, PATH=""))
    assert done.returncode == 2
    assert done.stderr == "autoprune: there is no option --upstraem (did you mean --upstream?)\n"


@pytest.mark.parametrize(
    "line", ["-- claude --upstream x", "claude -- --upstream x", "claude --print", "codex exec -s read-only"]
)
def test_options_after_a_double_dash_and_shared_options_belong_to_the_client(line: str, tmp_path: Path):
    printed = run_text("run", "--print", *line.split(), environ=having(tmp_path)).stdout
    commands = [each for each in printed.splitlines() if not each.startswith("#")]
    assert commands[1].endswith(line.removeprefix("-- ").partition(" ")[2])


def test_keys_are_not_printed(tmp_path: Path):
    settings = tmp_path / ".cline" / "data" / "settings" / "providers.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '{"lastUsedProvider": "anthropic", "providers": {"anthropic": {"settings": {"apiKey": "sk-1"}}}}'
    )
    printed = run_text("run", "--print", "cline", environ=having(tmp_path)).stdout
    assert '"apiKey": "…", "baseUrl": "http://127.0.0.1:8484/v1"' in printed
    assert "sk-1" not in printed


def test_if_a_program_is_not_installed_an_error_says_how_to_install_it(tmp_path: Path):
    for command in ("run", "doctor"):
        done = run_text(command, "claude", environ=having(tmp_path, PATH=str(tmp_path)))
        words = "autoprune: claude is not installed: npm install -g @anthropic-ai/claude-code\n"
        assert (done.returncode, done.stderr) == (127, words)


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_a_program_that_cannot_be_started_is_an_error(command: str, tmp_path: Path):
    done = run_text(command, "claude", environ=having(tmp_path, PATH=install(tmp_path, "#!/no/such/interpreter")))
    assert done.returncode == 2
    assert f"{tmp_path / 'claude'} cannot be started; is it fully installed?" in done.stderr


def test_a_client_that_cannot_be_routed_is_refused_before_anything_is_started(tmp_path: Path):
    done = run_text("run", "claude", environ=having(tmp_path, PATH=install(tmp_path), CLAUDE_CODE_USE_BEDROCK="1"))
    assert done.returncode == 2
    assert "would bypass the proxy, because CLAUDE_CODE_USE_BEDROCK is set" in done.stderr


def test_a_run_without_a_request_is_an_error_that_says_why(tmp_path: Path):
    user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    done = run_text("run", "claude", environ=user)
    assert done.returncode == 1
    assert done.stderr.partition("\n")[2] == (
        "autoprune: no request came through the proxy, so nothing was pruned: Claude Code sent its requests "
        "to another address, or sent none; see `autoprune doctor claude`\n"
    )
    asked = run_text("run", "claude", "--version", environ=user)
    assert (asked.returncode, asked.stderr) == (0, "")


def test_a_run_fails_if_the_assistant_sends_its_requests_to_another_address(tmp_path: Path):
    with serving(always(answer(b'{"content": []}'))) as elsewhere:
        asks = f"import urllib.request; urllib.request.urlopen('{elsewhere.url}/v1/messages', b'{{}}').close()"
        user = having(tmp_path, PATH=install(tmp_path, f"#!{sys.executable}\n{asks}\n"))
        done = run_text("run", "claude", "-p", "Hi.", environ=user)
    assert (done.returncode, len(elsewhere.requests)) == (1, 1)
    assert "so nothing was pruned: Claude Code sent its requests to another address, or sent none" in done.stderr


def test_a_run_fails_if_only_other_requests_came_through_the_proxy(tmp_path: Path):
    lists = "import os, urllib.request; urllib.request.urlopen(os.environ['ANTHROPIC_BASE_URL'] + '/v1/models').close()"
    path = install(tmp_path, f"#!{sys.executable}\n{lists}\n")
    with serving(always(answer())) as upstream:
        done = run_text("run", "claude", environ=having(tmp_path, PATH=path, ANTHROPIC_BASE_URL=upstream.url))
    assert done.returncode == 1
    assert "1 request came through the proxy, and none was a conversation" in done.stderr
    assert "sent its requests to another address" in done.stderr


def test_a_run_fails_if_the_provider_does_not_answer(tmp_path: Path):
    user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    done = run_text("run", "claude", "--ask", environ=user)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "autoprune: the upstream answered none of 1 request: is its address right, and the network up?"
    )


def test_http_proxies_are_bypassed_for_this_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    path = install(tmp_path, f"#!{sys.executable}\nimport os; print(os.environ['NO_PROXY'])")
    run_text("run", "claude", environ=having(tmp_path, PATH=path, HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="lab"))
    assert capfd.readouterr().out == "lab,127.0.0.1\n"


def test_an_assistant_has_the_terminal_handles_ctrl_c_and_sets_the_exit_code(tmp_path: Path, provider: Provider):
    path = install(tmp_path)
    environ = {**os.environ, "PATH": path, "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": provider.url, "FAKE_EXIT": "7"}
    command = [sys.executable, "-c", ON_ITS_TERMINAL, "run", "--safe-zone", "5k", "claude", "--ask", "--pause"]
    keyboard, terminal = os.openpty()
    with subprocess.Popen(
        command, env=environ, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    ) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # as the terminal of a program that has ended does on Linux
            while piece := os.read(keyboard, 4096):
                shown += piece
                if shown.endswith(b"I wait.\r\n"):
                    os.write(keyboard, b"\x03")
    os.close(keyboard)
    page, of_client, of_run = re.split(rb"autoprune: (?=claude)|(?<=\n)(?=I wait)", shown, maxsplit=2)
    assert page.startswith(b"autoprune: live page http://127.0.0.1:")
    assert of_client == b"I wait.\r\n^CI go on.\r\narguments: --ask --pause\r\n"
    assert of_run.startswith(b"claude-opus-4-8: 9 requests, ")
    assert (process.returncode, len(provider.requests), provider.refusals) == (7, 9, [])


@pytest.mark.full
def test_sigterm_is_forwarded_to_the_assistant(tmp_path: Path):
    environ = {**os.environ, "PATH": install(tmp_path, WAITS), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "autoprune", "run", "claude", str(tmp_path / "ready")]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, start_new_session=True) as process:
        while not (tmp_path / "ready").exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Claude Code ended with 143 before its first request, or sent its requests to another address" in said


def test_doctor_reports_requests_and_sends_none_to_the_provider(tmp_path: Path, provider: Provider):
    user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL=provider.url)
    done = run_text("doctor", "claude", "--ask", environ=user)
    assert done.returncode == 0
    assert re.search(r"^requests      arrive: /v1/messages, claude-opus-4-8, \d+ tokens$", done.stdout, re.MULTILINE)
    assert "upstream      answers (200 to a request without a key)" in done.stdout
    assert "the window of a million tokens, which [1m] after" in done.stdout
    assert provider.requests == []


def test_doctor_reports_that_no_request_arrives(tmp_path: Path):
    user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    done = run_text("doctor", "claude", environ=user)
    assert done.returncode == 1
    assert "requests      none arrived before it ended with 0: arguments: -p Say that you are there." in done.stdout
    lines = done.stdout.splitlines()
    at = lines.index("upstream      does not answer: http://127.0.0.1:9")
    assert lines[at + 1].startswith("              no connection to 127.0.0.1:9: ")
    assert lines[at + 2].startswith("              Check that the address is right")


def wait_in_silence(connection: Connection) -> None:
    connection.request()
    connection.wait_until_gone()


BUSY = answer(b'{"error": {"message": "Overloaded:\\nthe model is busy"}}', "503 Service Unavailable")


@pytest.mark.parametrize(
    ("play", "options", "head", "why"),
    [
        (always(BUSY), (), "answers only with an error, 503", "Overloaded: the model is busy"),
        (always(answer(b"", "502 Bad Gateway")), (), "answers only with an error, 502", "without a message"),
        (wait_in_silence, ("--wait", "1"), "does not answer", "it did not answer within 1 seconds"),
    ],
)
def test_doctor_says_why_the_provider_does_not_answer(
    play: Callable[[Connection], None], options: tuple[str, ...], head: str, why: str, tmp_path: Path
):
    with serving(play) as upstream:
        user = having(tmp_path, PATH=install(tmp_path), ANTHROPIC_BASE_URL=upstream.url)
        done = run_text("doctor", *options, "claude", environ=user)
    assert f"upstream      {head}: {upstream.url}\n              {why}\n" in done.stdout
    assert done.returncode == 1


def test_doctor_reads_a_version_from_standard_error_and_reports_a_signal(tmp_path: Path):
    program = "#!/bin/sh\n[ $1 = --version ] && echo 1.2.3 >&2 && exit\nkill -9 $$\n"
    done = run_text("doctor", "claude", environ=having(tmp_path, PATH=install(tmp_path, program)))
    assert f"{tmp_path / 'claude'}, 1.2.3 (tried with " in done.stdout
    assert "none arrived before it ended with 137" in done.stdout


def test_doctor_tests_no_upstream_if_there_may_be_several(tmp_path: Path):
    program = install(tmp_path, "#!/bin/sh\necho 1.2.3\n", name="opencode")
    done = run_text("doctor", "opencode", environ=having(tmp_path, PATH=program))
    assert "upstream      not tested: it depends on the model; name one after the assistant\n" in done.stdout


def test_if_all_conversations_have_one_request_the_largest_is_shown():
    def session(before: int) -> ClientSession:
        points = [Point(request=1, at=0.0, before=before, after=before, cleared=0, seconds=0.1)]
        return ClientSession("", "", "/v1/messages", 0.0, requests=1, points=points)

    assert [*summarize_traffic(SimpleNamespace(sessions=(session(300), session(9_000))))] == [
        "autoprune: /v1/messages: 1 request, the last prompt 9,000 tokens, 9,000 without pruning, safe zone 0",
        "autoprune: 1 side question besides",
    ]


def test_an_unusual_cache_lifetime_is_printed():
    known = ClientSession(
        "",
        "",
        "/v1/messages",
        0.0,
        requests=1,
        points=[Point(request=1, at=0.0, before=9, after=9, cleared=0, seconds=0.1)],
    )
    known.life_from, known.ledger = "as its answers say", Ledger(cache_life=3_600)
    (line,) = summarize_traffic(SimpleNamespace(sessions=(known,)))
    assert line.endswith("safe zone 0, its cache lives 1 h, as its answers say")


def test_the_longest_conversation_has_its_ledger_and_each_other_one_a_line():
    def session(name: str, requests: int, *, cleared: bool = True) -> ClientSession:
        known = ClientSession(name, "", "/v1/messages", 0.0, requests=requests)
        known.points.append(Point(request=requests, at=0.0, before=9_000, after=4_000, cleared=3, seconds=0.1))
        for count in range(2) if cleared else ():
            known.ledger.add(AgenticConversationPruner("2k").prune(messages(8 + count)))
        return known

    sessions = (session("helper", 4), session("main", 9), session("idle", 2, cleared=False), session("title", 1))
    lines = [*summarize_traffic(SimpleNamespace(sessions=sessions))]
    assert [line.partition("\n")[0] for line in lines] == [
        "autoprune: /v1/messages: 9 requests, the last prompt 4,000 tokens, 9,000 without pruning, safe zone 0",
        str(sessions[1].ledger).partition("\n")[0],
        "autoprune: /v1/messages: 4 requests, the last prompt 4,000 tokens, 9,000 without pruning, safe zone 0",
        f"autoprune: pruning saved {sessions[0].ledger.total.net:,.0f} input tokens",
        "autoprune: /v1/messages: 2 requests, the last prompt 4,000 tokens, 9,000 without pruning, safe zone 0",
        "autoprune: 1 side question besides",
    ]


def test_the_cost_of_a_safe_zone_that_the_user_chose_is_printed():
    known = ClientSession("", "", "/v1/messages", 0.0, requests=8, safe_zone=3_072)
    known.ledger = Ledger(prices=(1.25, 0.02))
    assert cost_of_limit((known,)) == ""
    for count in range(3, 8):
        known.ledger.add(AgenticConversationPruner("3k").prune(messages(count)))
    assert cost_of_limit((known,)) == (
        "with the safe zone of 3,072 tokens the prompts cost 39% more than without pruning, 4,313 input tokens; "
        "without --safe-zone only the model's window and the assistant's own compaction force cuts"
    )
