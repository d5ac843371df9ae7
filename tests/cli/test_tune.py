"""`autoprune tune`: what it recommends, how far that can be trusted, and what cannot be tuned."""

import json
from pathlib import Path

import pytest
from command_line import run_text
from recorded_sessions import write_sessions

GRID = ("--strategy", "low_water @ 5k", "--strategy", "low_water(target=0.5) @ 6k", "--jobs", "1")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    write_sessions(folder, "one", "two", "three")
    return folder


def test_it_shows_the_frontier_what_is_recommended_and_code_to_paste(sessions: Path):
    done = run_text("tune", str(sessions), *GRID, "--floor", "0", "--prices", "no-cache")
    assert done.returncode == 0
    assert "2 settings on 3 sessions" in done.stdout
    assert "recommended: low_water" in done.stdout
    assert "Chosen on the other sessions and judged on those left out, 3 times" in " ".join(done.stdout.split())
    code = done.stdout[done.stdout.index("from autoprune import") :]
    compile(code, "snippet", "exec")
    assert "no safe zone was given" not in done.stderr  # each setting has its own


def test_json_holds_the_rows_and_the_snippet(sessions: Path):
    found = json.loads(run_text("tune", str(sessions), *GRID, "--json").stdout)
    assert {row["strategy"] for row in found["rows"]} == {"none", *GRID[1::2][:2]}
    assert found["sessions"] == 3
    assert found["snippet"]


def test_what_knows_the_future_cannot_be_chosen(sessions: Path):
    done = run_text("tune", str(sessions), "--strategy", "clairvoyant")
    assert done.returncode == 2
    assert "nobody can choose it" in done.stderr


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    done = run_text("tune", str(tmp_path), *GRID)
    assert done.returncode == 3
    assert "broken.json" in done.stderr
