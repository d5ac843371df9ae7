"""`autoprune run` finds the session that an assistant resumes, and says what its first request costs."""

import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recorded_notes import HOUR, session
from tables import each_row

from autoprune.apps.cli.resumed import describe_cost, find_resumed, session_files, session_times
from autoprune.apps.clients import User, find_client

OLD, NEW = "0a6c0c4e-2222-4f6f-9a57-000000000001", "0a6c0c4e-2222-4f6f-9a57-000000000002"


def user(folder: Path, *arguments: str) -> User:
    return User({}, arguments, folder, folder, lambda path: None)


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


def test_a_session_file_that_was_copied_is_as_old_as_its_newest_line(tmp_path: Path):
    file = session(tmp_path / "s.jsonl", hours=30)
    os.utime(file)
    assert round((time.time() - session_times([file])["s"]) / HOUR) == 30
    long = '{"timestamp": "2026-01-02T10:00:00Z"}, ' * 20_000
    file.write_text(f'{{"timestamp": "{datetime.now(UTC).isoformat()}", "rows": [{long}]}}\n', encoding="utf-8")
    assert time.time() - session_times([file])["s"] < HOUR
    unknown = tmp_path / "no_times.jsonl"
    unknown.write_text('{"text": "\\"timestamp\\": \\"2026-01-02T10:00:00Z\\""}')
    assert time.time() - session_times([unknown])["no_times"] < HOUR


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


@each_row("text", ["", "[]", "not a session", '{"role": "user"}', "[" * 5_000])
def test_nothing_is_said_about_a_file_that_cannot_be_read(text: str, tmp_path: Path):
    (tmp_path / "s.jsonl").write_text(text, encoding="utf-8")
    os.utime(tmp_path / "s.jsonl", (0, 0))
    assert describe_cost(tmp_path / "s.jsonl", "cache_aware") == ""
    assert describe_cost(tmp_path / "missing.jsonl", "cache_aware") == ""
