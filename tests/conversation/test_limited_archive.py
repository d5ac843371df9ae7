"""The archive of `run`: limits on size and age, a folder for each project, and the search by words."""

import os
import stat
import time
from pathlib import Path

import pytest

from autoprune import ArchiveError
from autoprune.conversation.archive import pointer, store_once
from autoprune.conversation.edits import content_id
from autoprune.conversation.limited_archive import (
    DAY_SECONDS,
    LimitedDirectory,
    Limits,
    SearchHit,
    nearest_folder,
    project_folder,
    recall_anywhere,
    search,
)


def store(archive: LimitedDirectory, text: str, what: str = "", days: float = 0) -> str:
    """Store a payload as if that was some days ago, and return its id."""
    id = archive_id = content_id(text)
    archive[id] = text
    archive.describe(id, what)
    for file in Path(archive.path).glob(f"{archive_id}.*"):
        os.utime(file, (0, time.time() - days * DAY_SECONDS))
    return id


def test_files_are_private_and_have_a_description(tmp_path: Path):
    archive = LimitedDirectory(str(tmp_path / "autoprune" / "archive" / "one"))
    id = store(archive, "text", "read a.py\nand more")
    assert (archive[id], archive.description(id), [*archive]) == ("text", "read a.py and more", [id])
    archive.describe("0" * 15, "nothing")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"autoprune": 0o700, "archive": 0o700, "one": 0o700, f"{id}.txt": 0o600, f"{id}.about": 0o600}


def test_what_is_too_old_is_removed_from_all_projects(tmp_path: Path):
    other, archive = (LimitedDirectory(str(tmp_path / name), Limits(days=7)) for name in ("other", "one"))
    store(other, "older", "read a.py", days=7.1)
    old, new = store(archive, "old", days=6.9), store(archive, "new")
    archive.tidy()
    assert sorted(archive) == sorted([old, new])
    assert os.listdir(tmp_path) == ["one"]


def test_archives_that_share_their_limits_check_the_age_once_a_day(tmp_path: Path):
    limits = Limits(days=7)
    one, other = (LimitedDirectory(str(tmp_path / name), limits) for name in ("one", "other"))
    store(one, "older", days=7.1)
    old = store(one, "old", days=7.1)
    store(other, "new")
    assert old in one
    limits.checked -= DAY_SECONDS
    store(other, "newer")
    assert [*one] == []


def test_what_a_resumed_session_stores_again_is_as_new_as_that(tmp_path: Path):
    archive = LimitedDirectory(str(tmp_path / "one"), Limits(days=7))
    id = store(archive, "text", days=6.9)
    assert store_once(LimitedDirectory(archive.path), id, "text") == "text"
    archive.tidy()
    assert Path(archive.path, f"{id}.txt").stat().st_mtime > time.time() - DAY_SECONDS


def test_only_files_of_archives_are_removed(tmp_path: Path):
    others = [tmp_path / "photos" / "2019.txt", tmp_path / "one" / "notes.about"]
    for path in (*others, leftover := tmp_path / "one" / f".{'0' * 16}.tmp"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("others' own")
        os.utime(path, (0, 0))
    (tmp_path / "empty").mkdir()
    archive = LimitedDirectory(str(tmp_path / "one"), Limits(most_bytes=1))
    store(archive, "text")
    archive.tidy()
    assert (*map(Path.exists, others), leftover.exists(), [*archive]) == (True, True, False, [])
    assert (tmp_path / "empty").is_dir()


def test_above_the_limit_the_oldest_are_removed_while_it_is_written_to(tmp_path: Path):
    other, archive = (LimitedDirectory(str(tmp_path / name), Limits(most_bytes=10_000)) for name in ("other", "one"))
    store(other, "first" * 200, days=1)
    kept = [store(archive, f"{at:04}" * 250, days=0.5 - at / 100) for at in range(20)]
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.*"))
    assert 7_000 < size <= 10_000 + 2_000
    assert [*other] == []
    assert sorted(archive) == sorted(kept[-len(archive) :])


def test_each_project_has_a_folder_and_an_id_is_found_in_any(tmp_path: Path):
    parent, project = str(tmp_path / "archive"), tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    archive = LimitedDirectory(project_folder(parent, str(project)))
    assert nearest_folder(parent, str(project)) is None
    id = store(archive, "text")
    assert nearest_folder(parent, str(project / "src")) == archive.path
    assert nearest_folder(parent, str(tmp_path / "other")) is None
    assert recall_anywhere(parent, id) == "text"
    with pytest.raises(ArchiveError, match="nothing is kept under 000000000000000"):
        recall_anywhere(parent, "0" * 15)
    with pytest.raises(ArchiveError, match="is not a recall id"):
        recall_anywhere(parent, "../one")


CONFIG = "import os\n\ndef load_settings(path):\n    return read(path)\n"
LOG = 'INFO started\nERROR E42: load failed; see app.core:load("x")\n'


def test_a_search_gives_the_best_match_first_with_its_line(tmp_path: Path):
    archive = LimitedDirectory(str(tmp_path / "one"))
    config, log = store(archive, CONFIG, "read src/config.py"), store(archive, LOG, "bash make")
    archive["1" * 15] = pointer("1" * 15, log)
    in_config = SearchHit(config, "read src/config.py", 3, "def load_settings(path):")
    in_log = SearchHit(log, "bash make", 2, 'ERROR E42: load failed; see app.core:load("x")')
    assert search(archive, "load_settings") == [in_config]
    assert search(archive, "E42 failed read") == [
        in_log,
        SearchHit(config, "read src/config.py", 4, "return read(path)"),
    ]
    assert search(archive, 'app.core:load("x")') == [in_log]
    assert search(archive, "make") == [SearchHit(log, "bash make", 1, "INFO started")]  # a word of its description
    assert search(archive, "AND nothing*") == []
    assert search(archive, "zz\udcff load_settings\0") == [in_config]
    with pytest.raises(ArchiveError, match="holds no word"):
        search(archive, '" * -')


def test_what_holds_all_words_together_comes_before_short_texts_with_the_same_words(tmp_path: Path):
    archive = LimitedDirectory(str(tmp_path / "one"))
    apart = store(archive, "token, then scope, and then audience")
    lines = [f"{number}\tdef other_{number}(): ..." for number in range(900)]
    lines[500:500] = ["500\t    token = read()", "501\t    scope = token", "502\t    audience = scope"]
    together = store(archive, "\n".join(lines))
    assert [each.id for each in search(archive, "token = read() scope = token audience = scope")] == [together, apart]
    assert [each.id for each in search(archive, "audience read token")] == [apart, together]


def test_of_a_long_line_the_part_around_the_word_is_shown(tmp_path: Path):
    archive = LimitedDirectory(str(tmp_path / "one"))
    store(archive, "a " * 5_000 + "needle" + " b" * 5_000)
    (found,) = search(archive, "needle")
    assert len(found.line) <= 160
    assert "a needle b" in found.line
