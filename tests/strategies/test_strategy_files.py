"""A strategy in a file is used like one that ships, and the examples work."""

import json
from pathlib import Path

import pytest
from command_line import run_text
from pages import ROOT
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.apps.sessions import load
from autoprune.strategies.files import is_in_file, load_strategy

SESSION = str(ROOT / "fixtures" / "sessions" / "edit_loop_xml.json")


def file(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


# The examples


EXAMPLES = {
    f"{ROOT}/examples/largest_first.py:LargestFirst": AgenticConversationPruner,
    f"{ROOT}/examples/all_but_last.py:AllButLast": ConversationPruner,
}


@each_row(("named", "pruner"), EXAMPLES.items())
def test_an_example_keeps_a_session_within_its_safe_zone_and_changes_nothing_again(
    named: str, pruner: type[AgenticConversationPruner | ConversationPruner]
):
    messages = load(Path(SESSION).read_text(encoding="utf-8"), "s").messages
    tight, strategy = pruner(PruneArgs("20k")), load_strategy(named)
    result = tight.prune(messages, strategy)
    assert result.report.within_safe_zone
    assert tight.prune(result.conversation, strategy).conversation is result.conversation
    assert pruner(PruneArgs("1m")).prune(messages, strategy).conversation is messages


def test_an_example_clears_only_results_of_the_size_that_its_parameter_names(tmp_path: Path):
    named = f"{ROOT}/examples/largest_first.py:LargestFirst(at_least=500)"
    done = run_text("prune", SESSION, "--safe-zone", "20k", "--json", "--strategy", named, folder=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["strategy"], report["within_safe_zone"]) == (0, "largest_first", True)
    assert all(row["tokens"] - row["tokens_after"] >= 500 for row in report["results"] if row["cleared"])


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

def made(keep=9):
    return Mine(keep)

def other(): pass

careful = Mine(keep=5)
number = 5
"""


@each_row(
    ("named", "keep"),
    [
        *(("Mine", 1), ("careful", 5), ("Mine(keep=7)", 7), ("Needs(keep=3)", 3), ("careful()", 5)),
        *(("careful (keep=2)", 2), ("made", 9), ("made(keep=4)", 4)),
    ],
)
def test_a_strategy_in_a_file_is_a_class_a_function_or_a_value_with_parameters(tmp_path: Path, named: str, keep: int):
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
        (MINE, "other", "mine.py:other is not a strategy"),
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
