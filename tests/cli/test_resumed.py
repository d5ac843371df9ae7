"""`autoprune run` finds the session that an assistant resumes, and says what its first request costs."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tables import each_row
from typer.testing import CliRunner

from autoprune.apps.cli.command_table import app
from autoprune.apps.cli.resumed import describe_cost, find_resumed, session_files, session_times
from autoprune.apps.clients import User, find_client

HOUR = 3_600.0
OLD, NEW = "0a6c0c4e-2222-4f6f-9a57-000000000001", "0a6c0c4e-2222-4f6f-9a57-000000000002"
LONG = "".join(f"{number} words of advice, and then some.\n" for number in range(400))


def user(folder: Path, *arguments: str) -> User:
    return User({}, arguments, folder, folder, lambda path: None)


def session(path: Path, *, model: str = "claude-opus-5-5", hours: float = 3.0, folder: str = "/home/me/shop") -> Path:
    """Write a session of Claude Code that reads twenty notes and sums up each."""
    said: list[Any] = [("user", "Sum up the notes.")]
    for at in range(20):
        for name, given, result in (
            ("Read", {"file_path": f"/notes/{at}.txt"}, LONG),
            ("Write", {"file_path": f"/out/{at}.md", "content": LONG[:3_000]}, "Done."),
        ):
            id = f"{name}{at}"
            said.append(("assistant", {"type": "tool_use", "id": id, "name": name, "input": given}))
            said.append(("user", {"type": "tool_result", "tool_use_id": id, "content": result}))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for number, (role, content) in enumerate(said):
            message = {"role": role, "content": content if isinstance(content, str) else [content]}
            if role == "assistant":
                usage = {"input_tokens": 9, "cache_read_input_tokens": 90_000, "output_tokens": 991}
                message |= {"id": f"m{number}", "model": model, "usage": usage}
            line = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "cwd": folder}
            when = f"2026-01-02T08:{number // 60:02}:{number % 60:02}.000Z"
            file.write(json.dumps({**line, "type": role, "timestamp": when, "message": message}) + "\n")
    os.utime(path, (0, time.time() - HOUR * hours))
    return path


@each_row(
    ("client", "arguments", "found"),
    [
        ("claude", ("--resume", OLD), OLD),
        ("claude", ("-r", NEW, "-p", "Go on."), NEW),
        ("claude", ("--continue",), NEW),
        ("claude", ("-c", "-p", "Go on."), NEW),
        ("claude", ("-p", "Go on."), None),
        ("claude", ("--resume",), None),
        ("claude", ("--resume", "an-unknown-one"), None),
        ("codex", ("-c", "model=gpt-5"), None),
        ("gemini", ("--continue",), None),
    ],
)
def test_the_resumed_session_is_found_by_its_id_or_as_the_newest_of_the_folder(
    client: str, arguments: tuple[str, ...], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    projects = tmp_path / ".claude" / "projects"
    session(projects / "a" / f"{OLD}.jsonl", hours=9, folder=str(tmp_path))
    session(projects / "a" / f"{NEW}.jsonl", hours=5, folder=str(tmp_path))
    session(projects / "b" / "elsewhere.jsonl", hours=1)
    files = session_files(find_client("claude"))
    assert [file.stem for file in files] == ["elsewhere", NEW, OLD]
    assert [round((time.time() - each) / HOUR) for each in session_times(files).values()] == [1, 5, 9]
    resumed = find_resumed(find_client(client), user(tmp_path, *arguments), files)
    assert (resumed and resumed.stem) == found


def test_the_cost_of_the_first_request_is_said_with_pruning_and_without(tmp_path: Path):
    said = describe_cost(session(tmp_path / "s.jsonl"), "cache_aware")
    match = re.fullmatch(
        r"the session is 3 hours old, and its cache has expired: its first request costs about \$(\d\.\d\d), without "
        r"pruning \$(\d\.\d\d), at API list prices",
        said,
    )
    assert match, said
    pruned, whole = map(float, match.groups())
    assert whole == 0.45  # 91,000 tokens written for five minutes, at 1.25 times 4 dollars a million
    assert 0 < pruned < 0.6 * whole


@each_row(
    "changed",
    [
        {"hours": 0.0},
        {"model": "a-model-without-a-price"},
    ],
)
def test_nothing_is_said_about_a_warm_cache_or_without_a_price(changed: dict[str, Any], tmp_path: Path):
    assert describe_cost(session(tmp_path / "s.jsonl", **changed), "cache_aware") == ""


def test_nothing_is_said_about_a_session_that_cannot_be_pruned(tmp_path: Path):
    file = session(tmp_path / "s.jsonl")
    assert describe_cost(file, "cache_aware(target=7)") == ""
    before = file.stat()
    with file.open("ab") as opened:
        opened.truncate(50_000_001)
    os.utime(file, (0, before.st_mtime))
    assert describe_cost(file, "cache_aware") == ""


def test_resume_lists_the_newest_sessions_with_cost_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".claude" / "projects" / "a"
    session(folder / f"{OLD}.jsonl", hours=72)
    session(folder / f"{NEW}.jsonl", hours=0.05, folder="/home/me/my shop")
    session(folder / "agent-a1b2c3d.jsonl")
    (folder / "0a6c0c4e-2222-4f6f-9a57-000000000003.jsonl").write_text("no session", encoding="utf-8")
    done = CliRunner().invoke(app, ["resume"])
    cost = r"first request about \$0\.\d\d, without pruning \$0\.45"
    assert re.fullmatch(
        rf"""3 minutes ago, my shop: Sum up the notes\.
    cd '/home/me/my shop' && autoprune run claude --resume {NEW}

3 days ago, shop: Sum up the notes\.
    {cost}
    cd /home/me/shop && autoprune run claude --resume {OLD}
""",
        done.stdout,
    ), done.stdout
    assert CliRunner().invoke(app, ["resume", "claude"]).stdout == done.stdout


@each_row(
    ("arguments", "code", "said"),
    [
        ((), 3, "no sessions of claude or codex were found on this machine"),
        (("codex",), 3, "no sessions of codex were found on this machine"),
        (("gemini",), 2, "sessions of 'gemini' are not listed; there are claude, codex"),
    ],
)
def test_without_sessions_resume_says_which_it_looked_for(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["resume", *arguments])
    assert (done.exit_code, done.stderr) == (code, f"autoprune: {said}\n")


@each_row("text", ["", "[]", "not a session", '{"role": "user"}', "[" * 5_000])
def test_nothing_is_said_about_a_file_that_cannot_be_read(text: str, tmp_path: Path):
    (tmp_path / "s.jsonl").write_text(text, encoding="utf-8")
    os.utime(tmp_path / "s.jsonl", (0, 0))
    assert describe_cost(tmp_path / "s.jsonl", "cache_aware") == ""
    assert describe_cost(tmp_path / "missing.jsonl", "cache_aware") == ""
