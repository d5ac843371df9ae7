"""The benchmark's page is written from its figures, has a card for each policy, and its example works."""

import json
import subprocess
import sys
from pathlib import Path

import benchmark_page as page
import pytest
from bench_command import run_text
from pages import ROOT, blocks
from recorded_sessions import write_sessions

from prunebench.policies import POLICIES

DOCS = ROOT / "docs"
PAGE = DOCS / "benchmark.md"
PROGRAM = ROOT / "benchmarks" / "prunebench" / "docs" / "benchmark_page.py"
MOST = 300_000  # bytes of the figures


def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_page_and_its_charts_are_written_from_the_figures(tmp_path: Path):
    """If this fails, run `python benchmarks/prunebench/docs/benchmark_page.py`."""
    subprocess.run([sys.executable, PROGRAM, tmp_path], check=True)
    written = {path.relative_to(tmp_path): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.*")}
    assert len(written) > 2
    assert {path: (DOCS / path).read_text(encoding="utf-8") for path in written} == written


def test_each_policy_has_a_card_that_says_when_it_does_nothing():
    cards = text().partition("## The policies")[2].partition("## Add a policy")[0].split("\n### ")[1:]
    assert {card.split("\n")[0] for card in cards} == set(POLICIES), "run docs/benchmark_page.py"
    for said in ("*Before → after:*", "*It loses:*", "*It does nothing:*", "*Checked:*", "*Source:*"):
        assert [card for card in cards if said not in card] == []


def test_the_figures_are_small_and_of_known_policies():
    data = (DOCS / "benchmark.json").read_bytes()
    assert len(data) < MOST
    assert set(json.loads(data)["policies"]) <= {"none", "cache_aware", "low_water", "clairvoyant", *POLICIES}


def test_rows_are_added_to_those_of_the_same_sessions_and_to_no_others():
    known = json.loads((DOCS / "benchmark.json").read_text(encoding="utf-8"))
    less = json.loads(json.dumps(known))
    for corpus in less["corpora"]:
        for rows in (corpus["effects"], *corpus["bills"].values()):
            rows[:] = [each for each in rows if each["policy"] in ("none", "headroom")]
    less["policies"] = {name: less["policies"][name] for name in ("none", "headroom")}
    assert page.page(page.with_rows(known, less)) == page.page(known)
    less["corpora"][0]["requests"] += 1
    with pytest.raises(ValueError, match="assistants differs in requests: replay all policies again"):
        page.with_rows(known, less)


def test_rows_are_sorted_by_bill_and_marked_if_idle_or_outdated():
    rows = text().partition("### assistants")[2].partition("<details")[0].split("\n| ")[2:]
    bills = [float(row.split(" | ")[1].strip("* ")[:5]) for row in rows]
    assert (len(bills), bills) == (28, sorted(bills))
    (microcompact,) = (row for row in rows if row.startswith("[claude_code_microcompact]"))
    assert microcompact.split(" | ")[0].endswith("§\u00a0○")


def test_the_policy_of_the_page_has_ten_lines_and_can_be_replayed(tmp_path: Path):
    (snippet,) = blocks(text(), "python")
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
