"""`autoprune tune`: what it recommends, how far that can be trusted, and what cannot be tuned."""

import json
from pathlib import Path

from command_line import run_text

SESSIONS = str(Path(__file__).parents[2] / "fixtures" / "sessions")
GRID = ("--strategy", "low_water @ 20k", "--strategy", "low_water(target=0.5) @ 30k", "--jobs", "1")


def test_it_shows_the_frontier_what_is_recommended_and_code_to_paste():
    done = run_text("tune", SESSIONS, *GRID, "--floor", "0", "--prices", "no-cache")
    assert done.returncode == 0
    assert "2 settings on 2 sessions" in done.stdout
    assert "recommended: low_water" in done.stdout
    assert "Chosen on the other sessions and judged on those left out, 2 times" in " ".join(done.stdout.split())
    code = done.stdout[done.stdout.index("from autoprune import") :]
    compile(code, "snippet", "exec")
    assert "no safe zone was given" not in done.stderr  # each setting has its own


def test_json_holds_the_rows_and_the_snippet():
    found = json.loads(run_text("tune", SESSIONS, *GRID, "--json").stdout)
    assert {row["strategy"] for row in found["rows"]} == {"none", *GRID[1:4:2]}
    assert found["sessions"] == 2
    assert found["snippet"]


def test_what_knows_the_future_cannot_be_chosen():
    done = run_text("tune", SESSIONS, "--strategy", "clairvoyant")
    assert done.returncode == 2
    assert "nobody can choose it" in done.stderr


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    done = run_text("tune", str(tmp_path), *GRID)
    assert done.returncode == 3
    assert "broken.json" in done.stderr
