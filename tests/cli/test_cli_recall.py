"""`prune --archive` and `recall`: cleared content is kept and returned."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import XML, run, run_text
from tables import each_row

from autoprune import ArchiveError
from autoprune.conversation.archive import Directory, handle, recall
from autoprune.conversation.edits import ID, content_id

GIVEN = json.loads(Path(XML).read_text(encoding="utf-8"))


def test_cleared_content_is_recalled_by_its_id(tmp_path: Path):
    folder, out = str(tmp_path / "kept"), tmp_path / "out.json"
    assert run("prune", XML, "-s", "20k", "-o", str(out), "--archive", folder).returncode == 0
    ids = list(Directory(folder))
    assert ids
    for id in ids:
        assert f"[autoprune recall {id}]" in out.read_text(encoding="utf-8")
        done = run("recall", id, environ={"AUTOPRUNE_ARCHIVE": folder})
        text = done.stdout.decode()
        assert (done.returncode, content_id(text)) == (0, id)
        assert run("recall", f"[autoprune recall {id}]", "--archive", folder).stdout == done.stdout
        assert any(text in str(message["content"]) for message in GIVEN)


def test_nothing_is_archived_if_no_conversation_is_written(tmp_path: Path):
    folder = tmp_path / "kept"
    assert run("prune", XML, "-s", "20k", "--archive", str(folder), "--explain").returncode == 0
    assert run("prune", XML, "-s", "20k", "--archive", str(folder), "--dry-run", "-o", "-").returncode == 0
    assert not folder.exists()


def test_recall_errors_say_what_to_do(tmp_path: Path):
    unknown = "0" * 15
    assert ID.fullmatch(unknown)
    nobody = {"AUTOPRUNE_ARCHIVE": None, "HOME": str(tmp_path / "nobody"), "XDG_STATE_HOME": None}
    done = run_text("recall", unknown, environ=nobody)
    assert (done.returncode, done.stderr[:46]) == (3, f"autoprune: nothing is kept under {unknown[:13]}")
    done = run_text("recall", "--search", "a", environ=nobody)
    nothing = "autoprune: nothing in what `autoprune run` has kept for this project has any of the words 'a'\n"
    assert (done.returncode, done.stderr) == (3, nothing)
    assert [run_text("recall", *each).returncode for each in ((), (unknown, "--search", "a"))] == [2, 2]
    done = run_text("recall", unknown, "--archive", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"autoprune: nothing is kept under {unknown}: look whether")
    done = run_text("recall", "../x", "--archive", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    os.mkdir(tmp_path / f"{unknown}.txt")
    done = run_text("recall", unknown, "--archive", str(tmp_path))
    said = f"autoprune: {tmp_path}/{unknown}.txt cannot be read (Is a directory): get the content again\n"
    assert (done.returncode, done.stderr) == (3, said)
    for no_folder in (tmp_path / "none", Path(XML)):
        done = run_text("recall", unknown, "--archive", str(no_folder))
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"autoprune: there is no folder {no_folder}: give the --archive with which")


def broken(folder: Path, how: str) -> str:
    """An archive that fails: a file, a folder inside a file, or a folder with the name of one id's file."""
    if how == "one of many":
        folder.mkdir()
        cleared = run("prune", XML, "-s", "20k", "-o", os.devnull, "--archive", str(folder / "whole"))
        assert cleared.returncode == 0
        (folder / f"{[*Directory(folder / 'whole')][3]}.txt").mkdir()
        return str(folder)
    folder.write_text("no folder")
    return str(folder / "inside" if how == "in a file" else folder)


BROKEN = ["a file", "in a file", "one of many"]


@pytest.mark.full
@each_row("how", BROKEN)
def test_if_the_archive_fails_files_are_overwritten_only_with_force(how: str, tmp_path: Path):
    archive, session = broken(tmp_path / "archive", how), tmp_path / "session.json"
    session.write_bytes(Path(XML).read_bytes())
    command = ("prune", str(session), "-s", "20k", "-o", str(session), "--archive", archive)
    done = run(*command)
    assert (done.returncode, session.read_bytes()) == (3, Path(XML).read_bytes())
    assert b"note: the archive failed (" in done.stderr
    said = f"could be saved in {archive} (see the note above): {session} was not overwritten: repair"
    assert said in done.stderr.decode()
    other = tmp_path / "other.json"
    other.write_text("[]")
    assert run(*command[:-3], str(other), *command[-2:]).returncode == 3
    assert other.read_text() == "[]"
    assert run(*command, "--force").returncode == 0
    assert b"[autoprune recall " in session.read_bytes()


@each_row("how", BROKEN)
def test_if_the_archive_fails_new_files_and_standard_output_are_written_and_the_exit_code_is_3(
    how: str, tmp_path: Path
):
    archive, new = broken(tmp_path / "archive", how), tmp_path / "new.json"
    lost = run("prune", XML, "-s", "20k", "-o", "-", "--archive", archive)
    kept = run("prune", XML, "-s", "20k", "-o", "-", "--archive", str(tmp_path / "kept"))
    assert (lost.returncode, kept.returncode, lost.stdout) == (3, 0, kept.stdout)
    assert lost.stderr.decode().endswith("(see the note above): the missing content cannot be recalled\n")
    assert run("prune", XML, "-s", "20k", "-o", str(new), "--archive", archive).returncode == 3
    assert new.read_bytes() == kept.stdout


@pytest.mark.full
@each_row(
    "damage",
    [lambda data: b"\xff" + data[1:], lambda data: data[:40] + b"\xc3", lambda data: b"", lambda data: data[:-9]],
)
def test_a_damaged_archive_file_is_an_error_until_the_next_prune_repairs_it(
    damage: Callable[[bytes], bytes], tmp_path: Path
):
    folder = Directory(tmp_path / "kept")
    command = ("prune", XML, "-s", "20k", "-o", os.devnull, "--archive", folder.path)
    run(*command)
    id = next(iter(folder))
    file = Path(folder.path) / f"{id}.txt"
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    said = f"what is kept under {id} was changed since: get the content again"
    with pytest.raises(ArchiveError, match=said):
        recall(folder, id)
    assert handle(folder, {"id": id}) == f"Error: {said}"
    done = run_text("recall", id, "--archive", folder.path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"autoprune: {said}\n")
    assert run(*command).returncode == 0
    assert file.read_bytes() == whole
    assert recall(folder, id).encode() == whole


def test_the_archive_variable_is_not_reported_as_an_unknown_setting():
    done = run_text("settings", environ={"AUTOPRUNE_ARCHIVE": "kept"})
    assert (done.returncode, done.stderr) == (0, "")
