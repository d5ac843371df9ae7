"""`autoprune tune`: the recommendation, its cross-validation, and errors."""

import json
import re
from pathlib import Path
from typing import Any

from command_line import run_text
from tables import each_row

from autoprune import Report

SESSIONS = str(Path(__file__).parents[2] / "fixtures" / "sessions")
GRID = ("--strategy", "low_water @ 20k", "--strategy", "low_water(target=0.5) @ 30k", "--jobs", "1")


def test_tune_prints_the_frontier_a_recommendation_and_code():
    done = run_text("tune", SESSIONS, *GRID, "--floor", "0", "--prices", "no-cache")
    assert done.returncode == 0
    assert "2 settings on 2 sessions" in done.stdout
    assert "recommended: low_water" in done.stdout
    assert "chosen on some sessions and judged on the others, 2 times" in " ".join(done.stdout.split())
    assert prunes(done.stdout).safe_zone in (20 * 1024, 30 * 1024)
    command = re.fullmatch(r"autoprune run --strategy (.*) --safe-zone (20k|30k) claude", done.stdout.splitlines()[-1])
    assert command
    assert command[1] in ("low_water", "'low_water(target=0.5)'")
    assert "the limit is that of" not in done.stderr  # each setting has its own


def prunes(printed: str) -> Report:
    """Run the printed code on one message and return its report."""
    names: dict[str, Any] = {"messages": [{"role": "user", "content": "Go."}]}
    exec(printed[printed.index("from autoprune import") : printed.index("Or, for an assistant")], names)
    report: Report = names["result"].report
    return report


@each_row(
    "strategy",
    [
        "cache_aware",
        "cache_aware @ 20k",
        "low_water(target=0.6, protect={'last_results': 10}) @ 20k",
        "hybrid @ 20k",
        "window",
    ],
)
def test_the_printed_code_runs_even_from_a_narrow_terminal(strategy: str):
    options = ("--strategy", strategy, "--model", "gpt-5.5", "--floor", "0", "--prices", "no-cache", "--jobs", "1")
    done = run_text("tune", SESSIONS, *options, environ={"COLUMNS": "40"})
    assert done.returncode == 0
    assert strategy.partition("(")[0].partition(" ")[0] in done.stdout
    assert prunes(done.stdout).safe_zone == (20_480 if "@" in strategy else 852_000)


def test_json_holds_the_rows_and_the_snippet():
    found = json.loads(run_text("tune", SESSIONS, *GRID, "--json").stdout)
    assert {row["strategy"] for row in found["rows"]} == {"none", *GRID[1:4:2]}
    assert found["sessions"] == 2
    assert found["snippet"]


def test_a_clairvoyant_cannot_be_tuned():
    done = run_text("tune", SESSIONS, "--strategy", "clairvoyant")
    assert done.returncode == 2
    assert "cannot be used in practice" in done.stderr


def test_unreadable_files_are_named(tmp_path: Path):
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    done = run_text("tune", str(tmp_path), *GRID)
    assert done.returncode == 3
    assert "broken.json" in done.stderr
