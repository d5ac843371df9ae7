"""`autoprune resume` lists the newest sessions, or resumes one as a slimmer copy."""

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_notes import LONG, session
from tables import each_row
from typer.testing import CliRunner, Result

from autoprune.apps.cli.command_table import app
from autoprune.apps.sessions import recordings

OTHER, NAMELESS = "0a6c0c4e-2222-4f6f-9a57-000000000009", "0b6c0c4e-2222-4f6f-9a57-000000000003"
UNNAMED = "no request since the session began or was compacted names a model and tokens, so a copy cannot be priced"
OLD, NEW = "0a6c0c4e-2222-4f6f-9a57-000000000001", "0a6c0c4e-2222-4f6f-9a57-000000000002"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, in which a session of Claude Code began three hours ago."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    session(logs(tmp_path) / f"{OLD}.jsonl", folder=str(folder))
    return folder


def logs(home: Path) -> Path:
    return home / ".claude" / "projects" / "a"


def resume(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["resume", *arguments])


def copies(home: Path) -> list[Path]:
    return [file for file in logs(home).iterdir() if file.stem not in (OLD, NEW)]


def test_resume_lists_the_newest_sessions_with_cost_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".claude" / "projects" / "a"
    session(folder / f"{OLD}.jsonl", hours=72)
    (shop := tmp_path / "my shop").mkdir()
    session(folder / f"{NEW}.jsonl", hours=0.05, folder=str(shop))
    session(folder / "agent-a1b2c3d.jsonl")
    (folder / "0a6c0c4e-2222-4f6f-9a57-000000000003.jsonl").write_text("no session", encoding="utf-8")
    done = resume()
    cost = r"first request about \$0\.\d\d, without pruning \$0\.45"
    assert re.fullmatch(
        rf"""3 minutes ago, my shop: Sum up the notes\.
    cd '{shop}' && autoprune run claude --resume {NEW}

3 days ago, shop: Sum up the notes\.
    {cost}
    autoprune run claude --resume {OLD}  # in /home/me/shop, which is not there
""",
        done.stdout,
    ), done.stdout
    assert resume("--list", "claude").stdout == done.stdout


@each_row(
    ("arguments", "code", "said"),
    [
        ((), 3, "there are no sessions of claude, codex, pi on this machine"),
        (("--list", "codex"), 3, "there are no sessions of codex on this machine"),
        (("gemini",), 2, "sessions of 'gemini' cannot be resumed; there are claude, codex, pi"),
    ],
)
def test_without_sessions_resume_says_which_it_looked_for(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    done = resume(*arguments)
    assert (done.exit_code, done.stderr) == (code, f"autoprune: {said}\n")


def test_a_copy_is_priced_written_beside_the_session_and_resumed(project: Path, tmp_path: Path):
    before = (logs(tmp_path) / f"{OLD}.jsonl").read_bytes()
    done = resume("claude", "--print")
    assert done.exit_code == 0, done.output
    match = re.fullmatch(
        r"autoprune: as it is: first request about \$0\.45, 91,000 tokens\n"
        r"autoprune: the copy: first request about \$0\.(\d\d), (\d\d),\d{3} tokens\n"
        r"autoprune: the copy: (\d+) results cleared\n",
        done.stderr,
    )
    assert match, done.stderr
    assert (int(match[1]) < 25, int(match[2]) < 50) == (True, True)
    (copy,) = copies(tmp_path)
    assert done.stdout == f"cd {project} && claude --resume {copy.stem}\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (logs(tmp_path) / f"{OLD}.jsonl").read_bytes() == before
    sent = recordings(copy.read_text(encoding="utf-8"), "copy")[-1][-1].messages
    cleared = [each for each in map(json.dumps, sent) if "autoprune recall" in each]
    assert len(cleared) == int(match[3]) > 10
    id = re.findall(r"autoprune recall (\d{15})", cleared[0])[0]
    assert CliRunner().invoke(app, ["recall", id]).stdout == LONG
    assert "Read /notes/" in CliRunner().invoke(app, ["recall", "--search", "advice"]).stdout


def test_a_session_is_copied_once_until_the_copy_is_continued(project: Path, tmp_path: Path):
    commands = [resume("claude", OLD, "--print").stdout]
    (copy,) = copies(tmp_path)
    file = copy.stat().st_ino
    commands.append(resume("claude", OLD, "--print").stdout)
    assert commands[0] == commands[1]
    assert [each.stat().st_ino for each in copies(tmp_path)] == [file]  # not written again: an assistant may write now
    continued = copy.read_text(encoding="utf-8") + "{}\n"
    copy.write_text(continued, encoding="utf-8")
    assert resume("claude", OLD, "--print").stdout not in commands
    assert len(copies(tmp_path)) == 2
    assert copy.read_text(encoding="utf-8") == continued
    assert resume("claude", OLD, "--print", "--no-archive").stdout not in commands


def test_a_dry_run_writes_only_the_receipt_which_holds_no_text(project: Path, tmp_path: Path):
    done = resume("claude", OLD, "--dry-run", "--receipt", "receipt.json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert (copies(tmp_path), (tmp_path / ".local").exists()) == ([], False)
    receipt: dict[str, Any] = json.loads(Path("receipt.json").read_text(encoding="utf-8"))
    assert "advice" not in json.dumps(receipt)
    assert receipt["source"] == str(logs(tmp_path) / f"{OLD}.jsonl")
    assert {each["tool"] for each in receipt["cleared"]} == {"Read"}
    saved = receipt["tokens"]["as_it_is"] - receipt["tokens"]["slim"]
    assert 0.8 < saved / sum(each["tokens"] for each in receipt["cleared"]) < 1


def test_without_an_archive_placeholders_have_no_ids(project: Path, tmp_path: Path):
    assert resume("claude", "--print", "--no-archive").exit_code == 0
    (copy,) = copies(tmp_path)
    assert "Cleared at request" in copy.read_text(encoding="utf-8")
    assert "autoprune recall" not in copy.read_text(encoding="utf-8")
    assert not (tmp_path / ".local").exists()


def test_the_assistant_is_started_in_the_folder_of_the_session(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$PWD" "$@" > {tmp_path}/started\nexit 7\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    assert resume("claude", OLD).exit_code == 7
    (copy,) = copies(tmp_path)
    assert (tmp_path / "started").read_text(encoding="utf-8") == f"{project} --resume {copy.stem}\n"


def test_without_the_assistant_nothing_is_written(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent / "nowhere"))
    done = resume("claude")
    assert done.exit_code == 127
    assert done.stderr.startswith("autoprune: claude is not installed: npm install")
    assert copies(tmp_path) == []


@each_row(
    ("changed", "said"),
    [
        ({"hours": 0.05}, "the cache of the session lives for 2 minutes more, so a copy would be dearer"),
        ({"model": "<synthetic>"}, UNNAMED),
        ({"count": 2}, "little of the session can be cleared, so a copy would not be cheaper"),
    ],
)
def test_a_session_that_is_cheaper_as_it_is_is_not_copied(
    changed: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    session(logs(tmp_path) / f"{OLD}.jsonl", folder=str(tmp_path), **changed)
    done = resume("claude", OLD, "--print")
    assert (done.exit_code, done.stdout, copies(tmp_path), (tmp_path / ".local").exists()) == (3, "", [], False)
    assert done.stderr == f"autoprune: {said}; `cd {tmp_path} && claude --resume {OLD}` resumes the session as it is\n"


def test_a_session_of_pi_is_copied_without_a_picture_that_was_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".pi" / "agent" / "sessions" / "a" / f"2026_{OLD}.jsonl"
    file.parent.mkdir(parents=True)
    picture = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
    usage = {"input": 9, "cacheRead": 90_000, "cacheWrite": 0, "output": 991}
    entries: list[dict[str, Any]] = [{"role": "user", "content": "Sum up the notes."}]
    for at in range(20):
        for name, given, result in (
            ("read", {"path": f"/notes/{at}.txt"}, [{"type": "text", "text": LONG}, picture]),
            ("write", {"path": f"/out/{at}.md", "content": LONG[:3_000]}, [{"type": "text", "text": "Done."}]),
        ):
            call = {"type": "toolCall", "id": f"{name}{at}", "name": name, "arguments": given}
            entries += [
                {"role": "assistant", "content": [call], "model": "claude-opus-5-5", "usage": usage},
                {"role": "toolResult", "toolCallId": call["id"], "content": result},
            ]
    header = {"type": "session", "version": 3, "id": OLD, "cwd": str(tmp_path)}
    times = {"timestamp": "2026-01-01T00:00:00Z"}
    chain = [
        {"type": "message", "id": str(at), "parentId": str(at - 1) if at else None, "message": each, **times}
        for at, each in enumerate(entries)
    ]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in (header, *chain)), encoding="utf-8")
    done = resume("pi", OLD, "--print")
    assert done.exit_code == 0, done.output
    [copied] = [each for each in file.parent.iterdir() if each != file]
    assert 0 < copied.read_text(encoding="utf-8").count("iVBORw0KGgo=") < 20


def test_a_session_that_ends_with_a_compaction_is_not_copied(project: Path, tmp_path: Path):
    file = logs(tmp_path) / f"{OLD}.jsonl"
    used = file.stat().st_mtime
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    message = {"role": "user", "content": "All notes are summed up."}
    summary = {"type": "user", "uuid": "s", "parentUuid": "b", "isCompactSummary": True, "message": message}
    file.write_text(file.read_text() + "".join(json.dumps(line) + "\n" for line in (boundary, summary)))
    os.utime(file, (used, used))
    assert resume("claude", OLD, "--print").stderr.startswith(f"autoprune: {UNNAMED}; `cd {project} && claude --resume")


def test_a_session_without_a_known_price_is_told_in_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    session(logs(tmp_path) / f"{OLD}.jsonl", folder=str(tmp_path), model="a-model-without-a-price")
    assert "as it is: first request 91,000 tokens" in resume("claude", OLD, "--dry-run").stderr


@each_row(
    ("version", "said"),
    [
        ("2.1.332", ""),
        ("2.0.1", ""),
        ("2.2.0", "the session is of version 2.2.0 of Claude Code, and copies were tried up to version 2.1.332"),
        ("", "the session is of an unknown version of Claude Code, and copies were tried up to version 2.1.332"),
    ],
)
def test_a_version_with_which_copies_were_not_tried_is_told_first(
    version: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    session(logs(tmp_path) / f"{OLD}.jsonl", folder=str(tmp_path), version=version)
    first = resume("claude", OLD, "--dry-run").stderr.splitlines()[0]
    assert first == f"autoprune: {said or 'as it is: first request about $0.45, 91,000 tokens'}"


@each_row(
    ("arguments", "said"),
    [
        (
            ("claude", NEW),
            f"there is no session of Claude Code of this id, or file where Claude Code keeps its sessions: {NEW}",
        ),
        (("claude", OLD[-12:]), "there is no session of Claude Code of this id"),
        (("claude", ""), "there is no session of Claude Code of this id"),
        (("claude", OLD[:7]), "there is no session of Claude Code of this id"),
        (
            ("claude", "elsewhere.jsonl"),
            "elsewhere.jsonl is not named like a session: its name must end with the session's id",
        ),
        (("claude", "\x1b[31mred"), "its sessions: \u00b7[31mred"),
        (("claude", OLD[:30]), "2 sessions of Claude Code begin with 0a6c0c4e-2222-4f6f-9a57-000000: give a whole id"),
        (("codex",), "there is no session of Codex on this machine"),
        (
            ("claude", OLD, "--receipt", "nowhere/receipt.json"),
            "nowhere/receipt.json cannot be written: ",
        ),
        (
            ("claude", OLD, "--receipt", "elsewhere.jsonl"),
            "elsewhere.jsonl is a session file: write the receipt to another file",
        ),
        (("claude", NAMELESS), "000000000003.jsonl is a session file of claude-code, but record 1 is a line of type "),
    ],
)
def test_what_cannot_be_resumed_is_told(arguments: tuple[str, ...], said: str, project: Path):
    session(logs(project.parent) / f"{OTHER}.jsonl", folder="/home/me/elsewhere")
    session(project / "elsewhere.jsonl")
    record = {"type": "user", "parentUuid": None, "message": {}}
    (logs(project.parent) / f"{NAMELESS}.jsonl").write_text(f"{json.dumps(record)}\n" * 2, encoding="utf-8")
    before = {file: file.read_bytes() for file in project.parent.rglob("*.jsonl")}
    done = resume(*arguments, "--dry-run")
    assert (done.exit_code, done.stdout) == (3, "")
    assert said in done.stderr
    assert {file: file.read_bytes() for file in project.parent.rglob("*.jsonl")} == before


def test_a_session_is_known_by_the_beginning_of_its_id_or_by_its_file(project: Path):
    named = (OLD[:8], OLD, str(logs(project.parent) / f"{OLD}.jsonl"), f"../.claude/projects/a/{OLD}.jsonl")
    assert {resume("claude", each, "--dry-run").exit_code for each in named} == {0}


def test_a_folder_that_is_gone_or_cannot_be_typed_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    session(logs(tmp_path) / f"{OLD}.jsonl", folder=str(tmp_path / "gone"))
    done = resume("claude", OLD, "--print")
    assert "the folder of the session does not exist any more" in done.stderr
    assert (done.exit_code, copies(tmp_path), (tmp_path / ".local").exists()) == (3, [], False)


def test_nothing_is_kept_for_recall_if_the_variable_says_so(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AUTOPRUNE_NO_ARCHIVE", "1")
    assert resume("claude", "--print").exit_code == 0
    assert not (tmp_path / ".local").exists()


def test_a_session_cannot_write_to_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    session(logs(tmp_path) / f"{OLD}.jsonl", folder=str(tmp_path), version="9.9.\x1b]0;owned\x07" + "9" * 5_000)
    done = resume("claude", OLD, "--dry-run")
    assert done.exit_code == 0
    assert {"\x1b", "\x07"}.isdisjoint(done.stderr)
