"""Tuning chooses the cheapest setting that keeps enough, and says honestly what that is worth on other sessions."""

import ast
import dataclasses
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

from autoprune import Report, SettingsError
from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode_figures import Bill, Figures, Kept
from autoprune.apps.replay.rows import summarize
from autoprune.apps.replay.tuning import GRID, choice, frontier, snippet, tune
from autoprune.economics import LISTS, Prices, prices
from autoprune.settings.values import budget_tokens, text_setting
from autoprune.strategies.catalog import STRATEGIES

CHEAP, CAREFUL = "low_water(target=0.4) @ 40k", "low_water(target=0.9) @ 80k"


def played(session: str, strategy: str, share: float, kept: int) -> Figures:
    """An unpruned bill of 1,000, and 100 atoms of which some stay in view."""
    evidence = {name: Kept(100, kept, kept) for name in ("code", "edits", "actions", "lag 1-5", "lag 6-20", "lag > 20")}
    bills = {"anthropic": Bill(1_000 * share, 1_000 * share, 1)}
    return Figures(
        session=session,
        episode=session,
        strategy=strategy,
        style="full history",
        requests=30,
        safe_zone=40_000,
        bills=bills,
        evidence=evidence,
        rereads=0,
    )


def corpus(sessions: int, *, cheap_keeps: int = 80, careful: float = 0.9) -> list[Figures]:
    names = [f"{at}.jsonl" for at in range(sessions)]
    settings = {"none": (1.0, 100), CHEAP: (0.6, cheap_keeps), CAREFUL: (careful, 98)}
    return [played(name, strategy, *figures) for name in names for strategy, figures in settings.items()]


def test_a_setting_that_loses_one_of_six_edits_is_not_recommended():
    found = [
        replace(each, evidence={**each.evidence, "edits": Kept(6, 5 if each.strategy == CHEAP else 6)})
        for each in corpus(1, cheap_keeps=98)
    ]
    assert choice(found, "anthropic", 0.95) == CAREFUL
    assert choice(found, "anthropic", 0.8) == CHEAP


@each_row(
    "cheap_keeps, careful, chosen",
    [
        (80, 0.9, CAREFUL),  # the cheapest keeps too little
        (97, 0.9, CHEAP),
        (80, 1.1, "none"),  # what keeps enough costs more than no pruning
    ],
)
def test_the_cheapest_that_keeps_enough_is_recommended(cheap_keeps: int, careful: float, chosen: str):
    found = corpus(10, cheap_keeps=cheap_keeps, careful=careful)
    assert tune(found, "anthropic").recommended == choice(found, "anthropic", 0.95) == chosen


def test_sessions_that_are_alike_choose_alike_and_the_held_out_figures_are_those_of_the_setting():
    tuned = tune(corpus(10), "anthropic")
    assert tuned.picks == ((CAREFUL, 5),)
    assert tuned.bill
    assert tuned.bill.value == pytest.approx(0.9)
    assert tuned.code
    assert tuned.code.value == pytest.approx(0.98)


def test_luck_is_not_sold_as_skill():
    """Each setting of many is good on one session alone; chosen there, it does not keep its promise on the others."""
    names = [f"{at}.jsonl" for at in range(8)]
    lucky = [f"low_water(target=0.{at + 1}) @ 40k" for at in range(8)]
    found = [played(name, "none", 1.0, 100) for name in names]
    found += [
        played(name, strategy, 0.2 if at == own else 1.0 + at / 1_000, 100)
        for own, name in enumerate(names)
        for at, strategy in enumerate(lucky)
    ]
    tuned = tune(found, "anthropic")
    by_its_own = next(row for row in tuned.rows if row.strategy == tuned.recommended)
    assert tuned.bill
    assert tuned.bill.value > by_its_own.bill.value + 0.05


def test_a_single_session_has_nothing_to_be_held_out():
    tuned = tune(corpus(1), "anthropic")
    assert (tuned.bill, tuned.picks, tuned.sessions) == (None, (), 1)


def test_the_frontier_leaves_out_what_another_beats_in_both():
    found = [*corpus(3), *(played(f"{at}.jsonl", "low_water @ 60k", 0.95, 90) for at in range(3))]
    assert [row.strategy for row in frontier(summarize(found, "anthropic"))] == [CHEAP, CAREFUL, "none"]


# The snippet

STRATEGY_FILE = """
from dataclasses import dataclass, replace

from autoprune.economics import prices


@dataclass(frozen=True)
class Mine:
    at_least: int = 0
    prices: object = None
    name = "mine"

    def for_prices(self, known):
        return self if self.prices is not None else replace(self, prices=known)

    def step(self, view):
        return [each.cleared("mine") for each in view.candidates()]


@dataclass(frozen=True)
class Folds:
    name = "folds"
    retain = None

    def step(self, view):
        return []
"""
WRITTEN = [
    *STRATEGIES,
    *("window", "window(keep=7)", "polling(keep=5, polling=5)", "keep_newest", " window( keep = 3 ) "),
    "low_water(target=0.6, protect={'last_results': 20})",
    'low_water(protect={"tools": ["a", "b@c"], "paths": [\'d"e\']})',
    "keep_last(n=5, group_size=2)",
    "cache_aware(threshold=1.8,)",
    "cache_aware( )",
    "cache_aware(prices='deepseek')",
    "cache_aware(prices=(1.0, 0.5))",
    'FOLDER/my "file"@home.py:Mine',
    'FOLDER/my "file"@home.py:Mine(at_least=3)',
    'FOLDER/my "file"@home.py:Folds',
]
ZONES = ["", " @ 60k", "@12345", " @ 1.5m "]
MODELS = [None, "gpt-5.5", "claude-sonnet-4-5", "gemini-2.5-pro", 'unheard "of"']
PRICES = [*LISTS, "unknown", "1.3,0.2,5"]


@each_row("written", WRITTEN)
def test_the_snippet_prunes_with_the_setting_its_safe_zone_its_model_and_its_prices(written: str, tmp_path: Path):
    (tmp_path / 'my "file"@home.py').write_text(STRATEGY_FILE, encoding="utf-8")
    written = written.replace("FOLDER", str(tmp_path))
    for zone, model, listed in product(ZONES, MODELS, PRICES):
        code = snippet(f"{written}{zone}", listed, model, 80_000)
        names: dict[str, Any] = {"messages": [{"role": "user", "content": "Go."}]}
        exec(code, names)
        report: Report = names["result"].report
        assert report.safe_zone == budget_tokens(zone.strip(" @") or 80_000)
        assert [note for note in report.fallbacks if "strategy" in note] == []
        assert text_setting(names["pruner"].args, "model", {}) == model
        by_list = "unknown" not in listed and prices(listed)
        assert figures_of(used(code, names)) == figures_of(expected(written, by_list or prices(None, model), model))


def used(code: str, names: dict[str, Any]) -> Any:
    """The strategy that a snippet prunes with."""
    call = next(node for node in ast.walk(ast.parse(code)) if ast.unparse(node).startswith("pruner.prune("))
    assert isinstance(call, ast.Call)
    given = eval(ast.unparse(call.args[1]), names)
    return names["pruner"]._terms(given, 1.0).strategy


def expected(written: str, known: Prices, model: str | None) -> Any:
    """The strategy that was replayed."""
    strategy = Policy(written).strategy()
    if getattr(strategy, "group_size", 0) is None:
        return replace(strategy, group_size=4)  # that of the settings
    if getattr(strategy, "for_prices", None) is None:
        return strategy
    priced = strategy if strategy.prices is not None else replace(strategy, prices=known)
    return priced.for_prices(prices(None, model))


def figures_of(strategy: Any) -> dict[str, Any]:
    """A strategy's fields without its description, which a reference lacks, and with prices as values."""
    fields = {
        field.name: getattr(strategy, field.name) for field in dataclasses.fields(strategy) if field.name != "does"
    }
    return {
        **fields,
        **({"prices": prices(fields["prices"])} if "prices" in fields else {}),
        "kind": type(strategy).__name__,
    }


@each_row("setting", ["cache_aware @ 0.6", "low_water(target=0.6)@0.25"])
def test_a_share_of_a_window_is_refused_before_anything_is_replayed(setting: str):
    with pytest.raises(SettingsError, match=r"a safe zone after @ is in tokens, such as 60k"):
        Policy(setting)


@pytest.mark.parametrize("setting", ["none", "none @ 60k"])
def test_without_a_recommendation_the_snippet_is_a_comment(setting: str):
    assert ast.parse(snippet(setting, "anthropic", "gpt-5.5")).body == []


def test_the_snippet_is_that_of_the_recommended_setting():
    tuned = tune(corpus(10), "anthropic", model="gpt-5.5")
    assert tuned.snippet == snippet(CAREFUL, "anthropic", "gpt-5.5")
    assert tuned.snippet.splitlines()[-2:] == [
        'pruner = AgenticConversationPruner(PruneArgs("80k", model="gpt-5.5"))',
        'result = pruner.prune(messages, "low_water(target=0.9)")',
    ]


def test_a_setting_without_a_safe_zone_gets_the_one_of_most_sessions():
    found = [
        played(f"{at}.jsonl", name, share, 100) for at in range(3) for name, share in (("none", 1), ("low_water", 0.5))
    ]
    assert "pruner = AgenticConversationPruner(40_000)" in tune(found, "anthropic").snippet


def test_every_setting_of_the_grid_can_be_made():
    assert len({Policy(name).text for name in GRID}) == len(GRID)
