"""Which pruner and strategy a text names: of either class, in a file, by the environment; and who writes summaries."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.planning.view import folds
from autoprune.pruners.naming import choose_strategy, pruner_for
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup
from autoprune.strategies.per_result import PerResult
from autoprune.strategies.presets import hybrid, keep_last
from autoprune.summarizers.openai_summarizer import OpenAISummarizer

ARGS = PruneArgs(100)
OWN = """
from autoprune.planning.protections import Retention


class Folds:
    name = "mine"
    retain = Retention()

    def step(self, view):
        return []


class Clears:
    name = "clears"

    def step(self, view):
        return []
"""


@each_row(
    ("text", "strategy"),
    [
        ("tool_output_cleanup", ToolOutputCleanup()),
        ("low_water(target=0.5)", LowWater(target=0.5)),
        ("hybrid", hybrid()),
        (" keep_last( n = 3 ) ", keep_last(3)),
        ("keep_last(n=3, group_size=2)", replace(keep_last(3), group_size=2)),
        ("per_result(threshold=100)", PerResult(threshold=100)),
    ],
)
def test_a_text_names_a_strategy_of_either_pruner(text: str, strategy: Any):
    assert choose_strategy(text, {}) == strategy
    assert choose_strategy(None, {"AUTOPRUNE_STRATEGY": text}) == strategy
    assert choose_strategy(text, {"AUTOPRUNE_STRATEGY": "nope"}) == strategy


@pytest.mark.parametrize("environ", [{}, {"AUTOPRUNE_STRATEGY": ""}, {"AUTOPRUNE_STRATEGY": "  "}])
def test_a_strategy_may_be_unnamed(environ: dict[str, str]):
    assert choose_strategy(None, environ) is None
    assert isinstance(pruner_for(None, ARGS), AgenticConversationPruner)


@each_row(
    ("text", "said"),
    [
        (
            "hybrids",
            "there is no strategy 'hybrids' (did you mean hybrid?); `autoprune strategies` lists all",
        ),
        (
            "keep_last(5)",
            "strategy 'keep_last(5)' cannot be read (parameters are given by name); keep_last has the parameters: n=10",
        ),
        (
            "keep_last(m=5)",
            "strategy 'keep_last(m=5)' cannot be read (it has no m); keep_last has the parameters: n=10",
        ),
        ("keep_last(n=)", "strategy 'keep_last(n=)' cannot be read"),
        ("missing.py:Mine", "missing.py"),
        ("mine.py", "'mine.py' does not name a strategy in a file: write it as path/to/file.py:Name"),
    ],
)
def test_an_unknown_strategy_is_reported(text: str, said: str):
    with pytest.raises(SettingsError) as refusal:
        choose_strategy(text, {})
    assert said in str(refusal.value)
    with pytest.raises(SettingsError) as refusal:
        choose_strategy(None, {"AUTOPRUNE_STRATEGY": text})
    assert str(refusal.value).startswith(f"AUTOPRUNE_STRATEGY is {text!r}: ")


def test_one_in_a_file_goes_to_the_pruner_that_it_is_written_for(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(OWN, encoding="utf-8")
    folding, clearing = (choose_strategy(f"{file}:{name}", {}) for name in ("Folds", "Clears"))
    assert (folds(folding), folds(clearing)) == (True, False)
    assert isinstance(pruner_for(folding, ARGS), ConversationPruner)
    assert isinstance(pruner_for(clearing, ARGS), AgenticConversationPruner)


def test_the_digest_is_the_default_summarizer():
    pruner = pruner_for(hybrid(), ARGS, "digest", "gpt-5-mini")
    assert pruner.llm is None


def test_a_model_sums_up_if_it_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    llm: Any = pruner_for(hybrid(), ARGS, "openai", "gpt-5-mini").llm
    assert (type(llm), llm.model) == (OpenAISummarizer, "gpt-5-mini")


@each_row(
    ("strategy", "summarizer", "model", "said"),
    [
        (hybrid(), "claude", None, "there is no summarizer 'claude'; there are digest, openai"),
        (LowWater(), "digest", None, "a summarizer needs a strategy that folds messages: one of summarize, truncate"),
        (None, "openai", "gpt-5-mini", "a summarizer needs a strategy that folds messages: one of summarize"),
        (hybrid(), "openai", None, "the summarizer openai needs a model: --model gpt-5-mini"),
        (hybrid(), "openai", "gpt-5-mini", "the summarizer openai cannot be used: "),
    ],
)
def test_an_unavailable_choice_is_reported(
    strategy: Any, summarizer: str, model: str | None, said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingsError) as refusal:
        pruner_for(strategy, ARGS, summarizer, model)
    assert str(refusal.value).startswith(said)
