"""A new strategy works as it is written, and a strategy in a file is used like one that ships."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_text
from pages import ROOT
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.apps.sessions import load
from autoprune.strategies.scaffold import is_in_file, load_strategy, names, new_strategy

SESSION = str(ROOT / "fixtures" / "sessions" / "edit_loop_xml.json")


def run(*command: str, folder: Path) -> str:
    """Run a tool of Python's in a folder, which must end well, and return its words."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    called = [sys.executable, "-m", *command]
    done = subprocess.run(called, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def file(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


# A new one


@each_row(
    ("name", "class_name", "module"),
    [
        ("OddOnesOut", "OddOnesOut", "odd_ones_out"),
        ("odd_ones_out", "OddOnesOut", "odd_ones_out"),
        ("odd", "Odd", "odd"),
        ("LRU", "LRU", "lru"),
        ("LRUFirst", "LRUFirst", "lru_first"),
        ("Keep2Newest", "Keep2Newest", "keep_2_newest"),
        ("_mine", "Mine", "mine"),
    ],
)
def test_a_name_may_be_written_as_a_class_or_as_a_module(name: str, class_name: str, module: str):
    assert names(name) == (class_name, module)
    assert list(new_strategy(name)) == [f"{module}.py", f"test_{module}.py"]


@each_row("name", ["", "2nd", "a-b", "a b", "../x", "_", "é", "_2", "class", "None", "lambda", "json", "Dataclasses"])
def test_a_name_that_cannot_be_used_is_refused(name: str):
    with pytest.raises(SettingsError) as refusal:
        new_strategy(name)
    assert str(refusal.value).startswith(f"{name!r} is not a valid name: write it like")


# What is made, with the name of its module.
MADE = {(): "largest_first", ("--folding",): "all_but_last", ("odd_ones_out", "--folding"): "odd_ones_out"}


@each_row(("arguments", "module"), MADE.items())
def test_a_new_strategy_works_on_the_command_line_and_has_a_default_name(
    tmp_path: Path, arguments: tuple[str, ...], module: str
):
    made = run_text("new-strategy", *arguments, folder=tmp_path)
    files = {path.name for path in tmp_path.iterdir()}
    assert (made.returncode, files) == (0, {f"{module}.py", f"test_{module}.py"})
    named = made.stdout.split(" --strategy ")[1].split()[0]
    done = run_text("prune", SESSION, "-s", "20k", "--json", "--strategy", named, folder=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["strategy"], bool(report["folds"])) == (0, module, "--folding" in arguments)


def test_a_new_strategy_takes_its_parameters_on_the_command_line(tmp_path: Path):
    made = run_text("new-strategy", "OddOnesOut", folder=tmp_path)
    assert "odd_ones_out.py:OddOnesOut" in made.stdout
    named = "odd_ones_out.py:OddOnesOut(at_least=500)"
    done = run_text("prune", SESSION, "--safe-zone", "20k", "--json", "--strategy", named, folder=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["strategy"], report["within_safe_zone"]) == (0, "odd_ones_out", True)
    assert all(row["tokens"] - row["tokens_after"] >= 500 for row in report["results"] if row["cleared"])


@pytest.mark.full
def test_the_written_files_pass_their_own_tests_and_the_packages_checks(tmp_path: Path):
    for arguments in MADE:
        run_text("new-strategy", *arguments, folder=tmp_path)
    assert "6 passed" in run("pytest", "-q", "-W", "error", "-p", "no:cacheprovider", folder=tmp_path)
    run("ruff", "check", "--isolated", "--line-length", "120", "--select", "E,F,W,I,B,UP,SIM,RUF", ".", folder=tmp_path)
    run("ruff", "format", "--isolated", "--line-length", "120", "--check", ".", folder=tmp_path)
    # Without the packages installed, which take mypy long to read: only what the files take of autoprune counts.
    alone = ("--no-site-packages", "--follow-imports=silent", "--cache-dir", os.devnull)
    modules = (f"{begin}{module}.py" for module in MADE.values() for begin in ("", "test_"))
    run("mypy", "--strict", *alone, *modules, folder=tmp_path)


def test_the_default_does_not_clear_oldest_first(tmp_path: Path):
    (tmp_path / "odd_ones_out.py").write_text(new_strategy("OddOnesOut")["odd_ones_out.py"], encoding="utf-8")
    strategy = load_strategy(f"{tmp_path / 'odd_ones_out.py'}:OddOnesOut")
    messages = load(Path(SESSION).read_text(encoding="utf-8"), "s").messages
    pruner = AgenticConversationPruner(PruneArgs("20k"))
    largest, oldest = (pruner.prune(messages, each).report for each in (strategy, None))
    assert largest.within_safe_zone
    assert largest.results_cleared < oldest.results_cleared


@pytest.mark.parametrize("there", ["odd_ones_out.py", "test_odd_ones_out.py"])
def test_no_file_is_overwritten(tmp_path: Path, there: str):
    (tmp_path / there).write_text("mine", encoding="utf-8")
    made = run_text("new-strategy", "odd_ones_out", "--folder", str(tmp_path), folder=tmp_path)
    assert (made.returncode, made.stdout) == (3, "")
    assert f"{there} exists already" in made.stderr
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {there: "mine"}


def test_a_missing_folder_and_an_invalid_name_are_errors(tmp_path: Path):
    missing = run_text("new-strategy", "odd_ones_out", "--folder", "nowhere", folder=tmp_path)
    wrong = run_text("new-strategy", "a-b", folder=tmp_path)
    assert (missing.returncode, wrong.returncode, list(tmp_path.iterdir())) == (3, 2, [])
    assert "nowhere/odd_ones_out.py cannot be written: there is no folder nowhere" in missing.stderr
    assert "'a-b' is not a valid name" in wrong.stderr


# One in a file

MINE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True)
class Mine:
    keep: int = 1
    name: ClassVar[str] = "mine"
    def step(self, view): return ()

@dataclass(frozen=True)
class Needs:
    keep: int
    name: ClassVar[str] = "needs"
    def step(self, view): return ()

class Nameless:
    def step(self, view): return ()

careful = Mine(keep=5)
number = 5
"""


@each_row(
    ("named", "keep"),
    [("Mine", 1), ("careful", 5), ("Mine(keep=7)", 7), ("Needs(keep=3)", 3), ("careful()", 5), ("careful (keep=2)", 2)],
)
def test_a_strategy_in_a_file_is_a_class_or_a_value_with_parameters(tmp_path: Path, named: str, keep: int):
    text = f"{file(tmp_path, MINE)}:{named}"
    strategy = load_strategy(text)
    assert (is_in_file(text), strategy.name, strategy.keep) == (True, "needs" if "Needs" in named else "mine", keep)


@each_row("text", ["low_water", "low_water(target=0.5)", "mine.py", "mine.py:", "mine:Mine", ""])
def test_a_text_without_a_file_is_recognized(text: str):
    assert not is_in_file(text)
    with pytest.raises(SettingsError, match=r"write it as path/to/file\.py:Name"):
        load_strategy(text)


@each_row(
    ("code", "named", "said"),
    [
        (MINE, "Yours", "mine.py has no Yours"),
        (MINE, "number", "mine.py:number is not a strategy: it needs a str attribute `name` and a method step(view)"),
        (MINE, "Nameless", "mine.py:Nameless is not a strategy"),
        (MINE, "Needs", "mine.py:Needs cannot be made: "),
        (MINE, "Needs(goal=1)", "mine.py:Needs cannot be made: "),
        (
            MINE,
            "Mine(goal=1)",
            "strategy 'Mine(goal=1)' cannot be read (it has no goal); Mine has the parameters: keep=1",
        ),
        ("class Mine(:", "Mine", "mine.py is not valid Python: invalid syntax at line 1"),
        ("import no_such_module", "Mine", "mine.py cannot be run: No module named 'no_such_module'"),
    ],
)
def test_a_file_that_holds_no_strategy_is_refused_with_the_reason(tmp_path: Path, code: str, named: str, said: str):
    with pytest.raises(SettingsError) as refusal:
        load_strategy(f"{file(tmp_path, code)}:{named}")
    assert said in str(refusal.value)


def test_a_missing_file_is_a_wrong_option(tmp_path: Path):
    done = run_text("prune", SESSION, "--strategy", "gone.py:Mine", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "autoprune: gone.py cannot be read: No such file or directory\n")


def test_exceptions_of_the_files_own_code_are_raised(tmp_path: Path):
    with pytest.raises(ZeroDivisionError):
        load_strategy(f"{file(tmp_path, '1 / 0')}:Mine")
