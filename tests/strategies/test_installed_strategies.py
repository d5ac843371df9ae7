"""Strategies and summarizers of installed packages are found by name, in Python and on the command line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from plugins import install
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.pruners.naming import choose_strategy, pruner_for
from autoprune.settings.plugins import _find_entry_points
from autoprune.strategies.catalog import clearing_named, folding_named, is_plugin, names_folding
from autoprune.summarizers.selection import summarizer_named, summarizer_names

ROOT = Path(__file__).parent.parent.parent
SESSION = str(ROOT / "fixtures" / "sessions" / "edit_loop_xml.json")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    caches = _find_entry_points, clearing_named, folding_named
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()
    sys.modules.pop("plugin_of_tests", None)


def test_a_plugin_is_found_by_name_with_its_parameters():
    found = clearing_named("zebra_first(at_least=500)")
    assert (type(found).__name__, getattr(found, "at_least", None)) == ("ZebraFirst", 500)
    assert (
        clearing_named("zebra_first")
        == choose_strategy("zebra_first", {})
        == choose_strategy(None, {"AUTOPRUNE_STRATEGY": "ready_made"})
    )


def test_a_strategy_that_ships_wins_over_a_plugin_of_its_name():
    assert not is_plugin("low_water")
    assert type(clearing_named("low_water")).__name__ == "LowWater"


def test_pruners_take_the_name_of_a_plugin():
    large = [{"role": "tool", "tool_call_id": "c", "content": "word " * 2_000}]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": None, "tool_calls": [call]}, *large]
    chat = [*chat, {"role": "assistant", "content": "Done."}]
    result = AgenticConversationPruner(PruneArgs(500)).prune(chat, "zebra_first")
    assert (result.report.strategy, result.report.results_cleared) == ("zebra_first", 1)
    assert ConversationPruner(PruneArgs(500)).prune(chat, "fold_nothing").report.strategy == "fold_nothing"


def test_the_environment_may_name_a_plugin_for_the_other_pruner():
    environ = {"AUTOPRUNE_STRATEGY": "fold_nothing"}
    pruner = AgenticConversationPruner(PruneArgs(500), environ=environ)
    report = pruner.prune([{"role": "user", "content": "Go."}]).report
    assert report.strategy == "tool_output_cleanup"
    assert any("fold_nothing" in note for note in report.notes)


def test_a_plugin_is_for_the_pruner_of_its_kind():
    assert names_folding("fold_nothing")
    assert not names_folding("zebra_first")
    with pytest.raises(SettingsError, match="is for ConversationPruner"):
        clearing_named("fold_nothing")


@each_row(
    ("name", "error"),
    [
        ("zebra_frist", "(did you mean zebra_first?)"),
        ("needs", "the plugin 'needs' needs a default for each parameter: missing a required argument: 'keep'"),
        ("number", "the plugin 'number' offers 5: give a strategy, or a class that makes one"),
        ("zebra_first(at_most=1)", "zebra_first has the parameters: at_least=0"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error(name: str, error: str):
    with pytest.raises(SettingsError, match=re.escape(error)):
        choose_strategy(name, {})


def test_a_summarizer_of_a_plugin_is_found_by_name():
    assert summarizer_names()[-2:] == ["number", "terse"]
    assert getattr(summarizer_named("terse(words=5)"), "words", None) == 5
    pruner = pruner_for(folding_named("summarize"), PruneArgs(500), "terse")
    chat = [{"role": "assistant" if at % 2 else "user", "content": f"m{at} " * 100} for at in range(30)]
    assert "Much was done." in str(pruner.prune(chat).conversation)


@each_row(
    ("name", "error"),
    [
        ("tersee", "(did you mean terse?)"),
        ("number", "the plugin 'number' offers 5: give a summarizer, or a class that makes one"),
    ],
)
def test_a_summarizer_of_a_plugin_that_cannot_be_used_is_an_error(name: str, error: str):
    with pytest.raises(SettingsError, match=re.escape(error)):
        summarizer_named(name)


@pytest.mark.full
def test_the_command_line_finds_plugins(installed: Path):
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{installed}"}
    command = [sys.executable, "-m", "autoprune", "prune", SESSION, "-s", "20k", "--json", "--strategy"]
    named = {"zebra_first": ["zebra_first(at_least=300)"], "summarize": ["summarize", "--summarizer", "terse"]}
    for name, arguments in named.items():
        done = subprocess.run([*command, *arguments], env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, json.loads(done.stdout)["strategy"]) == (0, name), done.stderr
