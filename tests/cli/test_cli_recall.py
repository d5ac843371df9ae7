"""`prune --archive` and `recall`: what was cleared comes back."""

import json
import os
from pathlib import Path

from command_line import XML, run, run_text

from autoprune.archive import Directory
from autoprune.conversation.recall import ID, content_id

GIVEN = json.loads(Path(XML).read_text(encoding="utf-8"))


def test_what_was_cleared_comes_back_by_its_id(tmp_path: Path):
    folder, out = str(tmp_path / "kept"), tmp_path / "out.json"
    assert run("prune", XML, "-s", "20k", "-o", str(out), "--archive", folder).returncode == 0
    ids = list(Directory(folder))
    assert ids
    for id in ids:
        assert f"[recall id {id}]" in out.read_text(encoding="utf-8")
        done = run("recall", id, environ={"AUTOPRUNE_ARCHIVE": folder})
        text = done.stdout.decode()
        assert (done.returncode, content_id(text)) == (0, id)
        assert any(text in str(message["content"]) for message in GIVEN)


def test_what_is_not_written_is_not_kept(tmp_path: Path):
    folder = tmp_path / "kept"
    assert run("prune", XML, "-s", "20k", "--archive", str(folder), "--explain").returncode == 0
    assert run("prune", XML, "-s", "20k", "--archive", str(folder), "--dry-run", "-o", "-").returncode == 0
    assert not folder.exists()


def test_without_an_archive_the_placeholders_carry_no_id():
    assert b"recall id" not in run("prune", XML, "-s", "20k", "-o", "-").stdout


def test_what_cannot_be_recalled_says_what_to_do(tmp_path: Path):
    unknown = "0" * 16
    assert ID.fullmatch(unknown)
    done = run_text("recall", unknown, environ={"AUTOPRUNE_ARCHIVE": None})
    assert (done.returncode, done.stderr) == (
        2,
        "autoprune: no archive is named: give --archive DIR, or set AUTOPRUNE_ARCHIVE\n",
    )
    done = run_text("recall", unknown, "--archive", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"autoprune: nothing is kept under {unknown}: look whether")
    done = run_text("recall", "../x", "--archive", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    os.mkdir(tmp_path / f"{unknown}.txt")
    done = run_text("recall", unknown, "--archive", str(tmp_path))
    assert (done.returncode, done.stderr) == (3, f"autoprune: {tmp_path} cannot be read: Is a directory\n")


def test_an_archive_that_cannot_be_written_is_reported_and_the_conversation_is_the_same(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    kept, lost = (
        run("prune", XML, "-s", "20k", "-o", "-", "--archive", str(tmp_path / name)) for name in ("kept", "file")
    )
    assert (lost.returncode, lost.stdout) == (0, kept.stdout)
    assert b"the archive failed (FileExistsError" in lost.stderr


def test_the_variable_is_no_misspelled_setting():
    done = run_text("settings", environ={"AUTOPRUNE_ARCHIVE": "kept"})
    assert (done.returncode, done.stderr) == (0, "")
