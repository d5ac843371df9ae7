"""Bands of evidence, ties and advice, on figures made up for the purpose."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tables import each_row

from autoprune.apps.replay import Figures, Kept
from autoprune.apps.replay.atoms import AtomGroup
from autoprune.apps.replay.episode_figures import Bill
from autoprune.apps.replay.rows import FEW_ATOMS, Interval, interval, rounded
from autoprune.apps.replay.verdict import Standing, advice, run_command, standings
from autoprune.strategies.catalog import RUN_STRATEGY

Outcome = tuple[float, float, int]  # a bill, the same with re-reads, and how many of 100 atoms are kept


def figures(strategies: Mapping[str, Outcome], sessions: int = 10, spread: float = 0.0) -> list[Figures]:
    """Rows for sessions that cost 100 without pruning; of every other one, a strategy's bill is larger by `spread`."""
    return [
        Figures(
            session=f"session-{number}",
            episode=f"session-{number}",
            strategy=strategy,
            style="full history",
            requests=20,
            safe_zone=40_000,
            bills={"p": Bill(100 * (bill + spread * (-1) ** number), 100 * (again + spread * (-1) ** number), 0)},
            evidence=dict.fromkeys(
                ("code", "edits", "actions", "lag 1-5", "lag 6-20", "lag > 20"), Kept(100, kept, kept)
            ),
            rereads=0,
        )
        for number in range(sessions)
        for strategy, (bill, again, kept) in {"none": (1.0 - spread * (-1) ** number, 1.0, 100), **strategies}.items()
    ]


def placed(strategies: Mapping[str, Outcome], sessions: int = 10) -> list[Standing]:
    return standings(figures(strategies, sessions), "p")


def test_strategies_are_sorted_by_band_of_evidence_then_by_bill():
    found = placed(
        {
            "tool_output_cleanup": (0.5, 0.5, 80),
            "low_water": (0.8, 0.8, 98),
            "polling": (0.6, 0.6, 96),
            "window": (0.7, 0.7, 92),
            "clairvoyant": (0.4, 0.4, 100),
        }
    )
    assert [(each.row.strategy, each.band) for each in found] == [
        ("low_water", 0.97),
        ("none", 0.97),
        ("polling", 0.95),
        ("window", 0.9),
        ("tool_output_cleanup", 0.0),
        ("clairvoyant", 0.97),
    ]


def test_only_a_strategy_of_ours_breaks_a_guarantee(tmp_path: Path):
    theirs = tmp_path / "theirs.py"
    theirs.write_text("class Theirs:\n    def changes(self, request): ...\n", encoding="utf-8")
    found = figures({"low_water": (0.7, 0.7, 98), f"{theirs}:Theirs": (0.7, 0.7, 98)}, sessions=1)
    broken = [replace(each, violations=() if each.strategy == "none" else ("a", "b")) for each in found]
    assert {each.row.strategy: each.broken for each in standings(broken, "p")} == {
        "none": "",
        "low_water": "broke a guarantee 2 times",
        f"{theirs}:Theirs": "2 prompts refused",
    }


def test_the_lowest_group_decides_the_band_but_few_shell_edits_do_not():
    for count, group, band in (
        (FEW_ATOMS - 1, AtomGroup.SHELL_EDITS, 0.97),
        (FEW_ATOMS, AtomGroup.SHELL_EDITS, 0.95),
        (6, AtomGroup.EDITS, 0.0),
        (FEW_ATOMS, AtomGroup.FACTS, 0.95),
    ):
        found = [
            replace(each, evidence={**each.evidence, group: Kept(count, count - (each.strategy != "none"))})
            for each in figures({"low_water": (0.7, 0.7, 98)}, sessions=1)
        ]
        assert {each.row.strategy: each.band for each in standings(found, "p")}["low_water"] == band


def test_a_difference_within_the_interval_is_a_tie():
    noisy = figures({"low_water": (0.8, 0.8, 98)}) + [
        each for each in figures({"tool_output_cleanup": (0.81, 0.81, 98)}, spread=0.2) if each.strategy != "none"
    ]
    clear = placed({"low_water": (0.8, 0.8, 98), "tool_output_cleanup": (0.81, 0.81, 98)})
    assert [each.is_tied for each in standings(noisy, "p")] == [False, True, False]
    assert [each.is_tied for each in clear] == [False, False, False]


def test_rows_are_ranked_and_compared_by_the_bill_that_is_shown():
    found = placed({"low_water": (0.70, 0.90, 98), "tool_output_cleanup": (0.75, 0.80, 98)})
    assert [each.row.strategy for each in found] == ["tool_output_cleanup", "low_water", "none"]
    same = placed({"low_water": (0.70, 0.80, 98), "tool_output_cleanup": (0.75, 0.80, 98)})
    assert [each.is_tied for each in same] == [False, True, False]


def test_evidence_is_judged_as_it_is_shown():
    (found,) = (each for each in placed({"low_water": (0.7, 0.7, 95)}) if each.row.strategy == "low_water")
    for share, is_enough in ((0.9496, True), (0.9494, False)):
        row = replace(found.row, code=Interval(share, share, share))
        assert (replace(found, row=row).keeps_enough, row.least >= 0.95) == (is_enough, is_enough)


def test_a_figure_and_its_bounds_are_rounded_alike():
    assert rounded(Interval(0.9984, 0.9961, 1.0), ".1f", 100) == ("99.8", "99.6–100.0")
    assert rounded(Interval(0.5, 0.5, 0.5), ".3f") == ("0.500", "")


@each_row(
    "strategies, sessions, said",
    [
        (
            {"low_water": (0.7, 0.75, 97), "polling": (0.5, 0.5, 99)},  # nobody can choose a reference
            10,
            "Use low_water: its bill, re-reads of cleared results included, is 0.750 of the bill without pruning, and "
            "it keeps in view 97.0% of the code and 97.0% of the edits that the agent used later. It changed 0 of 10 "
            "sessions, and breaks even if the agent needs 33.3 more requests for each 100. polling (a "
            "baseline) has a bill of 0.500 and keeps 99.0% of the code and 99.0% of the edits that the agent used "
            "later.",
        ),
        (
            {"low_water": (0.7, 0.75, 97)},
            1,
            "Use low_water: its bill, re-reads of cleared results included, is 0.750 of the bill without pruning, and "
            "it keeps in view 97.0% of the code and 97.0% of the edits that the agent used later. It changed 0 of 1 "
            "session, and breaks even if the agent needs 33.3 more requests for each 100. That is 1 session: too few "
            "to say much about others.",
        ),
        (
            {"low_water": (0.7, 1.02, 97)},
            10,
            "Do not prune: no strategy that can be chosen is cheaper and keeps what is needed. low_water comes "
            "closest: its bill, re-reads of cleared results included, is 1.020 of the bill without pruning, and it "
            "keeps in view 97.0% of the code and 97.0% of the edits that the agent used later.",
        ),
        (
            {"low_water": (0.7, 1.02, 97), "polling": (0.9, 0.9, 99)},
            10,
            "Do not prune: no strategy that can be chosen is cheaper and keeps what is needed. low_water comes "
            "closest: its bill, re-reads of cleared results included, is 1.020 of the bill without pruning, and it "
            "keeps in view 97.0% of the code and 97.0% of the edits that the agent used later. polling (a baseline) "
            "has a bill of 0.900 and keeps 99.0% of the code and 99.0% of the edits that the agent used later.",
        ),
        (
            {"low_water": (0.7, 0.75, 94), "tool_output_cleanup": (0.8, 0.8, 90)},
            10,
            "Do not prune: no strategy that can be chosen is cheaper and keeps what is needed. low_water comes "
            "closest: its bill, re-reads of cleared results included, is 0.750 of the bill without pruning, but it "
            "keeps in view only 94.0% of the code and 94.0% of the edits that the agent used later; 95% of each is "
            "required.",
        ),
        (
            {"clairvoyant": (0.5, 0.5, 100)},
            10,
            "No strategy that can be chosen was replayed: there is nothing to advise.",
        ),
    ],
)
def test_advice_names_a_strategy_or_what_keeps_it_from_that(
    strategies: Mapping[str, Outcome], sessions: int, said: str
):
    assert advice(placed(strategies, sessions)) == said


def test_a_bill_that_may_be_lower_by_chance_is_not_called_dearer():
    (first, *others) = placed({"low_water": (0.7, 0.9, 97)})
    noisy = replace(first, row=replace(first.row, with_rereads=Interval(0.9, 0.82, 1.0)))
    said = advice([noisy, *others])
    assert said.startswith(
        "No strategy that can be chosen is shown to be cheaper: the interval of its bill reaches 1, so it may be "
        "chance. low_water "
    )
    assert "is 0.900 (0.820–1.000) of the bill" in said


def test_advice_names_the_command_with_the_safe_zone_of_the_replay():
    found = figures({RUN_STRATEGY: (0.7, 0.75, 97)}, 10)
    assert ", as `autoprune run` does: " in advice(standings(found, "p", run_command(None)))
    assert ", as `autoprune run --safe-zone 20480` does: " in advice(standings(found, "p", run_command(20_480)))


def test_an_interval_is_that_of_a_ratio_of_sums_and_the_same_for_many_sessions():
    few = interval([[(1.0, 2.0)], [(3.0, 2.0)]])
    assert (few.value, few.low, few.high) == (1.0, 0.5, 1.5)
    assert interval([]) == interval([[(0.0, 0.0)]]) == Interval(1.0, 1.0, 1.0)
    many = [(float(number % 7), 10.0) for number in range(1_000)]
    alone = interval([[each] for each in many])
    for grouped in interval([[each] for each in many * 20]), interval([many * 20]):
        assert grouped.value == alone.value
        assert 3 < (alone.high - alone.low) / (grouped.high - grouped.low) < 6  # as the square root of 20
