"""Real assistants make forty or fifty calls through `autoprune run`; the provider refuses what real ones refuse.

ASSISTANTS names the folder in which npm has installed them (see `tests/support/real_assistants.py`). Without it these
tests are skipped, unless ASSISTANTS_REQUIRED is set, as in `.ci/run`.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import long_session
import pytest
import real_assistants as assistants
from reading_tasks import Comparing, document, strings
from real_assistants import CODEX, GEMINI, GEMINI_CLI, OPENCODE, OPENCODE_RUN, PI, PI_OPENAI, Assistant
from strict_provider.caching import marks
from strict_provider.counting import tokens
from strict_provider.exchange import Request
from strict_provider.scripts import Call, Turn
from strict_provider.server import Provider, serve

from autoprune.apps.cli.recalling import DEFINITIONS
from autoprune.conversation.archive import Directory

BOUND, UNBOUND = assistants.claude("claude-opus-5-5"), assistants.claude("claude-sonnet-4-5")
# What differs between two sessions: ids, seals, checksums, what is left of a budget by their tokens, and the folder.
OWN = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|(?:msg|req|toolu)_\w+"
    r'|(?<="signature": ")[^"]+|(?<=cch=)\w+|(?<=<total_tokens>)\d+|parity\d'
)
HEADERS = re.compile(r"anthropic-|x-|user-agent|accept$|content-")
RECALL = re.compile(r"autoprune recall \d{15}")
MARGIN = 1.05  # the provider counts all strings of a body, pruning counts as the API does


@pytest.mark.parametrize(
    "assistant",
    [BOUND, UNBOUND, CODEX, GEMINI_CLI, OPENCODE_RUN, PI, PI_OPENAI],
    ids=["claude bound", "claude", "codex", "gemini", "opencode", "pi with Anthropic", "pi with OpenAI"],
)
def test_an_assistant_finishes_its_task_within_the_safe_zone(assistant: Assistant, prefix: Path, tmp_path: Path):
    with serve(assistants.script(assistant)) as provider:
        provider.play.is_aside = assistants.is_aside
        options = ("--upstream", provider.url, "--safe-zone", str(assistants.SAFE_ZONE))
        done = assistants.run(assistant, tmp_path, prefix, options)

    assert provider.refusals == [], done.stderr
    assert (done.returncode, assistants.END in done.stdout) == (0, True), done.stderr
    assert (tmp_path / "project" / "done.txt").read_text().split() == [f"{n:02}" for n in range(assistants.CALLS)]
    bodies = [request.body for request in provider.requests if not assistants.is_aside(request)]
    assert len(bodies) == assistants.CALLS + 1
    assert max(map(tokens, bodies)) < assistants.SAFE_ZONE * MARGIN
    assert len({*assistants.thoughts(bodies[-1])}) == assistant.thoughts
    assert f"{assistants.CALLS + 1} requests, the last prompt" in done.stderr
    assert "ERROR" not in done.stderr
    for name, content in assistant.files.items():
        assert content.items() <= json.loads((tmp_path / "home" / name).read_text()).items()
    if assistant.name == "claude":
        look_at_what_claude_code_marks(provider, is_bound=assistant is BOUND)


def recalling(assistant: Assistant, recall: Callable[[str], Call]) -> Callable[[Request], Turn]:
    """The forty calls, then a call for the first command in the prompt that recalls something, and the end."""
    turns = iter(assistants.script(assistant)[:-1])
    asked: list[str] = []

    def answer(request: Request) -> Turn:
        if turn := next(turns, None):
            return turn
        asked.extend(RECALL.findall(json.dumps(request.body))[:1])
        return Turn(calls=(recall(asked[0]),)) if len(asked) == 1 else Turn(assistants.END)

    return answer


@pytest.mark.parametrize(
    "assistant", [BOUND, CODEX, GEMINI_CLI, OPENCODE_RUN, PI], ids=["claude", "codex", "gemini", "opencode", "pi"]
)
def test_an_assistant_recalls_a_note_in_its_shell(assistant: Assistant, prefix: Path, tmp_path: Path):
    if assistant is CODEX:  # it asks a login shell, which sets its own path
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / ".profile").write_text(f'PATH="$PATH:{sysconfig.get_path("scripts")}"\n')
    play_a_recall(assistant, assistant.tool, prefix, tmp_path)


SERVER = (sys.executable, "-m", "autoprune", "mcp")


def with_mcp(assistant: Assistant) -> Assistant:
    """The assistant with the server `autoprune mcp`, set as its vendor documents it."""
    command, *arguments = SERVER
    local: dict[str, Any] = {"command": command, "args": arguments}
    if assistant is CODEX:
        # Codex waits for a server only up to its first request.
        value = f"{{command={json.dumps(command)}, args={json.dumps(arguments)}, required=true}}"
        env = f"mcp_servers.autoprune.env.PYTHONPATH={json.dumps(str(assistants.ROOT))}"
        first, *others = CODEX.arguments
        return replace(CODEX, arguments=(first, "-c", f"mcp_servers.autoprune={value}", "-c", env, *others))
    if assistant is GEMINI_CLI:
        return replace(assistant, files={".gemini/settings.json": {**GEMINI, "mcpServers": {"autoprune": local}}})
    if assistant is OPENCODE_RUN:
        server = {"type": "local", "command": SERVER}
        return replace(assistant, files={".config/opencode/opencode.json": {**OPENCODE, "mcp": {"autoprune": server}}})
    if assistant is PI:
        servers = {"mcpServers": {"autoprune": {**local, "exposure": "direct"}}}
        return replace(assistant, files={".pi/agent/mcp.json": servers})
    config = json.dumps({"mcpServers": {"autoprune": {**local, "alwaysLoad": True}}})
    return replace(
        assistant, arguments=(*assistant.arguments, "--mcp-config", config, "--allowedTools", "Bash", "mcp__autoprune")
    )


@pytest.mark.parametrize(
    ("assistant", "tool"),
    [
        (BOUND, Call("mcp__autoprune__recall", {})),
        (CODEX, Call("recall", {}, namespace="mcp__autoprune")),
        (GEMINI_CLI, Call("mcp_autoprune_recall", {})),
        (OPENCODE_RUN, Call("autoprune_recall", {})),
        (PI, Call("mcp__autoprune__recall", {})),
    ],
    ids=["claude", "codex", "gemini", "opencode", "pi"],
)
def test_an_assistant_recalls_a_note_by_the_tool_of_autoprune_mcp(
    assistant: Assistant, tool: Call, prefix: Path, tmp_path: Path
):
    pytest.importorskip("mcp")

    def recall(line: str) -> Call:
        return replace(tool, arguments={"id": line.rpartition(" ")[2]})

    body = play_a_recall(with_mcp(assistant), recall, prefix, tmp_path)
    text = json.dumps(body["tools"])
    assert [text.count(each["description"][:40]) for each in DEFINITIONS] == [1, 1]


def play_a_recall(assistant: Assistant, recall: Callable[[str], Call], prefix: Path, tmp_path: Path) -> dict[str, Any]:
    """Let an assistant recall a note that is no longer in its prompt. Return the last request before it does."""
    with serve(recalling(assistant, recall)) as provider:
        provider.play.is_aside = assistants.is_aside
        options = ("--upstream", provider.url, "--safe-zone", str(assistants.SAFE_ZONE))
        done = assistants.run(assistant, tmp_path, prefix, options)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    before, after = [request.body for request in provider.requests if not assistants.is_aside(request)][-2:]
    (archive,) = (tmp_path / "home/.local/state/autoprune/archive").iterdir()
    id = RECALL.findall(json.dumps(before))[0].rpartition(" ")[2]
    (note,) = (each for each in assistants.notes().values() if each in Directory(archive)[id])
    assert [any(note in each for each in strings(body)) for body in (before, after)] == [False, True]
    return before


RESUMING = {
    "claude": ("--continue", *BOUND.arguments),
    "codex": ("exec", "resume", "--last", *CODEX.arguments[1:]),
    "opencode": ("run", "--continue", *OPENCODE_RUN.arguments[1:]),
    "pi": ("--continue", *PI.arguments),
}
LEAST_LOG = 100_000  # bytes of the session file of Claude Code and of Codex
ADVICE = "".join(f"{number} words of advice, and then some.\n" for number in range(400))


def summarizing(assistant: Assistant) -> list[Turn]:
    """Twenty notes are read, and each is summed up in a long text."""
    summary = "\n".join(f"Advice {number}: {number} words, and then some." for number in range(60))
    lines = [
        line
        for number in range(20)
        for line in (f"cat notes/{number:02}.txt", f"cat > summary{number}.md <<'EOF'\n{summary}\nEOF")
    ]
    turns = (Turn(calls=(assistant.tool(line),), thinking=f"Next: {line[:40]}") for line in lines)
    return [*turns, Turn(assistants.END)]


@pytest.mark.parametrize("hours", [0, 2])
@pytest.mark.parametrize(
    ("assistant", "is_known"),
    # The history that Gemini CLI resumes has each result twice, which a strict provider refuses without a proxy too.
    [(BOUND, True), (BOUND, False), (CODEX, False), (OPENCODE_RUN, True), (PI, True)],
    ids=["claude", "claude begun without autoprune", "codex begun without autoprune", "opencode", "pi"],
)
def test_a_session_resumed_after_its_cache_has_expired_is_smaller_at_once(
    assistant: Assistant, is_known: bool, hours: int, prefix: Path, tmp_path: Path
):
    files = {f"notes/{number:02}.txt": f"Note {number}\n{ADVICE}" for number in range(20)}
    home = tmp_path / "home"
    with serve(summarizing(assistant)) as provider:
        provider.play.is_aside = assistants.is_aside
        whole = ("--upstream", provider.url, "--safe-zone", "900k", "--strategy", "low_water")
        first = assistants.run(assistant, tmp_path, prefix, whole, files)
        assert first.returncode == 0, first.stderr
        make_older(home, 3_600 * hours, is_known=is_known)
        logs = [file for file in home.rglob("*.jsonl") if file.stat().st_size > LEAST_LOG]
        before = [file.read_bytes() for file in logs]
        seen = len(provider.requests)
        again = replace(assistant, arguments=RESUMING[assistant.name])
        done = assistants.run(again, tmp_path, prefix, ("--upstream", provider.url, "--safe-zone", "200k"), files)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    direct, resumed = (
        [tokens(each.body) for each in some if not assistants.is_aside(each)]
        for some in (provider.requests[:seen], provider.requests[seen:])
    )
    assert (resumed[0] < 0.6 * direct[-1]) == bool(hours), (direct, resumed)
    assert all(file.read_bytes().startswith(text) for file, text in zip(logs, before, strict=True))


COPIED = {
    "claude": lambda id: ("--resume", id),
    "codex": lambda id: ("exec", "resume", id),
    "pi": lambda id: ("--session", id),
}


@pytest.mark.parametrize(
    "assistant", [BOUND, CODEX, PI, PI_OPENAI], ids=["claude", "codex", "pi with Anthropic", "pi with OpenAI"]
)
def test_an_assistant_resumes_a_slimmer_copy_of_its_session(assistant: Assistant, prefix: Path, tmp_path: Path):
    files = {f"notes/{number:02}.txt": f"Note {number}\n{ADVICE}" for number in range(20)}
    whole = ("--safe-zone", "900k", "--strategy", "low_water")  # routes requests, and prunes nothing
    with serve(summarizing(assistant)) as provider:
        provider.play.is_aside = assistants.is_aside
        options = ("--upstream", provider.url, *whole)
        first = assistants.run(assistant, tmp_path, prefix, options, files)
        assert first.returncode == 0, first.stderr
        make_older(tmp_path / "home", 7_200, is_known=False)
        (log,) = (file for file in (tmp_path / "home").rglob("*.jsonl") if file.stat().st_size > LEAST_LOG)
        before, seen = log.read_bytes(), len(provider.requests)
        copied = subprocess.run(
            [sys.executable, "-m", "autoprune", "resume", assistant.name, "--print"],
            cwd=tmp_path / "project",
            env=assistants.environment(tmp_path, assistant, prefix),
            capture_output=True,
            text=True,
            check=False,
        )
        assert copied.returncode == 0, copied.stderr
        own = assistant.arguments[1:] if assistant is CODEX else assistant.arguments  # without its "exec"
        again = replace(assistant, arguments=(*COPIED[assistant.name](copied.stdout.split()[-1]), *own))
        done = assistants.run(again, tmp_path, prefix, options, files)
    assert (done.returncode, provider.refusals) == (0, []), done.stderr
    direct, resumed = (
        [tokens(each.body) for each in some if not assistants.is_aside(each)]
        for some in (provider.requests[:seen], provider.requests[seen:])
    )
    assert resumed[0] < 0.6 * direct[-1], copied.stderr
    assert log.read_bytes() == before
    (copy,) = log.parent.glob(f"*{copied.stdout.split()[-1]}.jsonl")
    assert copy.stat().st_mode & 0o077 == 0
    assert assistants.TASK in copy.read_text(encoding="utf-8").rpartition("autoprune recall")[2]  # it went on there


def make_older(home: Path, seconds: float, *, is_known: bool) -> None:
    """Move the last request of a session to the past: in what autoprune has kept, or in the client's own file."""
    for file in (home / ".local/state/autoprune/conversations").glob("*/*"):
        if not is_known:
            file.unlink()
            continue
        kept = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**kept, "seen_at": kept["seen_at"] - seconds}), encoding="utf-8")
    for file in home.rglob("*.jsonl"):
        os.utime(file, (0, file.stat().st_mtime - seconds))


@pytest.mark.parametrize(
    ("assistant", "variables"),
    [
        (BOUND, {}),
        (BOUND, {"ENABLE_TOOL_SEARCH": "true"}),
        (UNBOUND, {"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"}),
    ],
    ids=["as it is", "tool search", "first party"],
)
def test_without_pruning_the_provider_gets_the_same_requests_from_claude_code(
    assistant: Assistant, variables: dict[str, str], prefix: Path, tmp_path: Path
):
    sent = []
    for number, options in enumerate((None, ("--safe-zone", "900k"))):
        folder = tmp_path / f"parity{number}"
        folder.mkdir()
        with serve([*assistants.script(assistant)[:6], Turn(assistants.END)]) as provider:
            own = {**assistant.environ, **variables, "ANTHROPIC_BASE_URL": provider.url}
            done = assistants.run(replace(assistant, environ=own), folder, prefix, options)
        assert (provider.refusals, done.returncode) == ([], 0), done.stderr
        sent.append([without_own(request) for request in provider.requests])
    directly, through = sent
    assert len(directly) == 7
    assert through == directly


def without_own(request: Request) -> tuple[str, dict[str, str], str]:
    """A request without what differs between sessions. Its length in bytes is in its headers."""
    headers = {name: OWN.sub("", value) for name, value in request.headers.items() if HEADERS.match(name)}
    headers.pop("x-claude-code-prev-tool-durations", None)
    return request.path, headers, OWN.sub("", json.dumps(request.body))


@pytest.mark.parametrize("kind", ["csv", "access log"])
def test_files_that_claude_code_compares_are_in_view_together(kind: str, prefix: Path, tmp_path: Path):
    files = {f"data/{number}.txt": document(kind, number, 20_000) for number in range(2)}
    model = Comparing(files, lambda path: UNBOUND.tool(f"cat {path}"))
    with serve(model) as provider:
        provider.play.is_aside = assistants.is_aside
        done = assistants.run(UNBOUND, tmp_path, prefix, ("--upstream", provider.url), files)
    assert "All documents are compared." in done.stdout, done.stderr
    assert set(model.asked.values()) == {1}


@pytest.mark.parametrize(
    ("name", "keeps"),
    [
        ("claude", False),
        pytest.param("codex", True, marks=pytest.mark.full),  # it keeps the user's messages
        pytest.param("gemini", False, marks=pytest.mark.full),
        pytest.param("opencode", False, marks=pytest.mark.full),
        pytest.param("pi", False, marks=pytest.mark.full),
    ],
)
def test_an_assistant_behind_run_does_not_compact_a_session_that_it_compacts_directly(
    name: str, keeps: bool, prefix: Path, tmp_path: Path
):
    direct = long_session.play(name, tmp_path / "direct", prefix, None)
    through = long_session.play(name, tmp_path / "run", prefix, ())
    # Codex cannot be switched off, but it can be told a larger window than the provider has, and so is `run`.
    limit = ("--safe-zone", "160k") if name == "codex" else ()
    off = long_session.play(name, tmp_path / "off", prefix, limit, compacts=False)

    sessions = (direct, through, off)
    assert [(each.done.returncode, each.read) for each in sessions] == [(0, long_session.FILES)] * 3, off.done.stderr
    assert [len(each.provider.refusals) for each in sessions] == [0, 0, 0]
    assert [each.compactions > 0 for each in sessions] == [True, False, False]
    assert [each.has_fact for each in sessions] == [keeps, True, True]


def look_at_what_claude_code_marks(provider: Provider, *, is_bound: bool) -> None:
    """Its three cache marks stay, pruning adds the fourth where it cuts, and only the provider drops bound thinking."""
    bodies = [request.body for request in provider.requests if not assistants.is_aside(request)]
    assert {(marks(body["system"]), marks(body["messages"][-1])) for body in bodies} == {(2, 1)}
    assert {marks(body) for body in bodies} == {3, 4}
    drops = ["drop_block" in json.dumps(body["thinking"]) for body in bodies if "thinking" in body]
    assert drops[-1] == is_bound
