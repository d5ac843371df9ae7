"""RESULTS.md is written from its figures and names each policy, and the README's example works."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bench_command import run_text
from pages import blocks
from recorded_sessions import write_sessions

import results
from prunebench.figures import OURS
from prunebench.policies import POLICIES

PROJECT = Path(__file__).parent.parent
MOST = 300_000  # bytes of the figures


def known() -> dict[str, Any]:
    return json.loads(results.FIGURES.read_text(encoding="utf-8"))


def test_the_page_is_written_from_the_figures():
    """If this fails, run `python benchmarks/prunebench/results.py`."""
    assert results.PAGE.read_text(encoding="utf-8") == results.page(known())


def test_the_page_describes_each_policy():
    described = results.page(known()).partition("## The policies")[2]
    assert set(re.findall(r"^- `(\w+)` ", described, re.MULTILINE)) == set(POLICIES)


def test_the_figures_are_small_and_of_known_policies():
    assert results.FIGURES.stat().st_size < MOST
    assert set(known()["policies"]) <= {"none", "clairvoyant", *OURS, *POLICIES}


def test_rows_are_added_to_those_of_the_same_sessions_and_to_no_others():
    whole = known()
    less = known()
    for corpus in less["corpora"]:
        for rows in (corpus["effects"], *corpus["bills"].values()):
            rows[:] = [each for each in rows if each["policy"] in ("none", "opencode_dcp")]
    less["policies"] = {name: less["policies"][name] for name in ("none", "opencode_dcp")}
    assert results.page(results.with_rows(whole, less)) == results.page(whole)
    less["corpora"][0]["requests"] += 1
    with pytest.raises(ValueError, match="assistants differs in requests: replay all policies again"):
        results.with_rows(whole, less)


def test_rows_are_sorted_by_bill_and_marked_if_idle_or_outdated():
    rows = [row.split(" | ") for row in results.leaderboard(known())][2:]
    bills = [float(row[1].strip("* ")[:5]) for row in rows]
    assert (len(bills), bills) == (28, sorted(bills))
    assert [row[:2] for row in rows if "microcompact" in row[0]] == [
        ["| `claude_code_microcompact`§", "**0.986**, 99% ○"]
    ]


def test_the_policy_of_the_readme_has_ten_lines_and_can_be_replayed(tmp_path: Path):
    (snippet,) = blocks((PROJECT / "README.md").read_text(encoding="utf-8"), "python")
    assert len([line for line in snippet.splitlines() if line]) <= 10
    (tmp_path / "mine.py").write_text(snippet, encoding="utf-8")
    logs = tmp_path / "logs"
    logs.mkdir()
    write_sessions(logs, "one")
    options = ("--policy", "mine.py:KeepNewest", "--policy", "mine.py:KeepNewest(keep=20)", "--prices", "no-cache")
    done = run_text("logs", *options, "--json", "--jobs", "1", folder=tmp_path)
    (corpus,) = json.loads(done.stdout)["corpora"]
    bills = {each["policy"]: each["without_rereads"][0] for each in corpus["bills"]["no-cache"]}
    assert bills["mine.py:KeepNewest"] < bills["mine.py:KeepNewest(keep=20)"] < bills["none"] == 1.0
