"""Tuning chooses the cheapest setting that keeps enough, and says honestly what that is worth on other sessions."""

import pytest
from tables import each_row

from autoprune.replay.bill import Bill
from autoprune.replay.figures import Figures, Kept
from autoprune.replay.policies import Policy
from autoprune.replay.summary import summarize
from autoprune.replay.tuning import GRID, choice, frontier, tune

CHEAP, CAREFUL = "low_water(target=0.4) @ 40k", "low_water(target=0.9) @ 80k"


def played(session: str, strategy: str, share: float, kept: int) -> Figures:
    """An unpruned bill of 1,000, and 100 atoms of which some stay in view."""
    evidence = {name: Kept(100, kept, kept) for name in ("all", "edits", "actions", "lag 1-5", "lag 6-20", "lag > 20")}
    bills = {"anthropic": Bill(1_000 * share, 1_000 * share, 1)}
    return Figures(session, session, strategy, "full history", 30, 40_000, bills, evidence, 0)


def corpus(sessions: int, *, cheap_keeps: int = 80, careful: float = 0.9) -> list[Figures]:
    names = [f"{at}.jsonl" for at in range(sessions)]
    settings = {"none": (1.0, 100), CHEAP: (0.6, cheap_keeps), CAREFUL: (careful, 98)}
    return [played(name, strategy, *figures) for name in names for strategy, figures in settings.items()]


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
    assert tuned.evidence
    assert tuned.evidence.value == pytest.approx(0.98)


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


def test_the_snippet_can_be_pasted():
    snippet = tune(corpus(10), "anthropic").snippet
    compile(snippet, "snippet", "exec")
    assert '"80k"' in snippet
    assert "low_water(target=0.9)" in snippet


def test_every_setting_of_the_grid_can_be_made():
    assert len({Policy(name).text for name in GRID}) == len(GRID)
