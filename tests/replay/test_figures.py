"""The figures of a session as JSON and back, and rows of many with their intervals."""

import json
from dataclasses import replace
from typing import Any

import pytest
from episodes import episode, in_words, reading
from tables import each_row

from autoprune import AgenticConversationPruner, SettingsError
from autoprune.apps.replay import Figures, Kept, Policy, ReplayArgs, SessionFigures, replay_session, summarize
from autoprune.apps.replay.choices import NoPruning
from autoprune.apps.replay.episode_figures import Bill, figures
from autoprune.apps.replay.play import play
from autoprune.apps.replay.rows import interval
from autoprune.apps.replay.titles import project_of
from autoprune.economics import LISTS, Prices
from autoprune.strategies import ObservationMasking

SOURCE = "def first_of(rows):\n    return rows[0]\n" + "other words " * 40
ANTHROPIC, DEEPSEEK = LISTS["anthropic"], LISTS["deepseek"]


def some(strategy: Any, name: str, *, pauses: dict[int, float] | None = None) -> Figures:
    known = episode(reading(SOURCE, "x " * 60, "y " * 60, old_string="return rows[0]"), head=10, pauses=pauses)
    run = play(known, lambda: AgenticConversationPruner(10**9), strategy, count=in_words)
    return figures(run, name, [ANTHROPIC, DEEPSEEK], style="full history")


def test_a_row_has_shares_of_the_protected_content_that_exists():
    none, window = (some(NoPruning(), "none"), some(ObservationMasking(1), "window"))
    assert none.protected == {"words": Kept(4, 4, 4), "failure": Kept(), "files": Kept(), "material": Kept()}
    half = replace(window, protected={"words": Kept(4, 2, 2), "failure": Kept(), "files": Kept(1, 0, 0)})
    rows = {row.strategy: row.protected for row in summarize([none, half], "anthropic")}
    assert {kind: known.value for kind, known in rows["none"].items()} == {"words": 1.0}
    assert {kind: known.value for kind, known in rows["window"].items()} == {"words": 0.5, "files": 0.0}


def test_no_pruning_is_exactly_the_whole_bill_and_all_evidence():
    rows = summarize([some(NoPruning(), "none"), some(ObservationMasking(1), "window")], "anthropic")
    (row,) = [row for row in rows if row.strategy == "none"]
    assert (row.bill.value, row.bill.low, row.bill.high) == (1.0, 1.0, 1.0)
    assert (row.with_rereads.value, row.worst, row.dearer) == (1.0, 1.0, 0.0)
    assert (row.code.value, row.edits.value, row.in_results, row.far) == (1.0, 1.0, 1.0, 1.0)
    assert (row.cache_breaks, row.rereads, row.violations) == (0, 0, 0)


def test_evidence_is_counted_by_group():
    found = some(ObservationMasking(1), "window")
    lost = Kept(1, 0, 0)
    assert found.evidence == {
        "code": lost,
        "edits": lost,
        "shell edits": Kept(),
        "facts": Kept(),
        "lag > 20": Kept(),
        "paths": Kept(),
    }
    assert (Kept(3, 2, 1) + Kept(1, 1, 1), Kept(4, 1, 0).share, Kept().share) == (Kept(4, 3, 2), 0.25, 1.0)


def made(session: str, strategy: str, bill: float, kept: int = 10, number: str = "", worst: float = 1.0) -> Figures:
    return Figures(
        session=session,
        episode=f"{session}{number}",
        strategy=strategy,
        style="full history",
        requests=20,
        safe_zone=40_000,
        bills={"p": Bill(bill, bill, 0, worst)},
        evidence={name: Kept(10, kept, kept) for name in ("code", "edits", "lag > 20")},
        rereads=0,
    )


def test_a_corpus_bill_is_the_sum_over_sessions_and_the_worst_is_one_session():
    found = [made("a", "none", 100), made("b", "none", 300), made("a", "s", 150, 5, worst=1.5), made("b", "s", 150, 10)]
    (row,) = [row for row in summarize(found, "p") if row.strategy == "s"]
    assert (row.bill.value, row.worst, row.dearer) == (300 / 400, 1.5, 0.5)
    assert (row.code.value, row.episodes) == (15 / 20, 2)


def test_episodes_without_a_price_count_in_no_bill_unless_no_price_is_known():
    def priced(*known: Figures) -> list[Figures]:
        return [
            replace(each, bills={name: replace(bill, input_price=3e-6) for name, bill in each.bills.items()})
            for each in known
        ]

    mine, other = [made("a", "none", 100), made("a", "s", 80, 5)], [made("b", "none", 900), made("b", "s", 900, 10)]
    (row,) = [row for row in summarize([*priced(*mine), *other], "p") if row.strategy == "s"]
    assert (row.bill.value, row.bill.low, row.bill.high) == pytest.approx((0.8, 0.8, 0.8))
    assert (row.episodes, row.code.value) == (2, 15 / 20)
    (row,) = [row for row in summarize([*mine, *other], "p") if row.strategy == "s"]
    assert row.bill.value == 980 / 1_000


def test_an_episode_without_an_unpruned_replay_is_skipped():
    assert [row.strategy for row in summarize([made("a", "none", 100), made("b", "s", 1)], "p")] == ["none"]


def test_an_interval_is_the_same_at_every_run_and_holds_its_figure():
    values = [(float(value), 1.0) for value in range(40)]
    found = interval([[each] for each in values])
    assert found == interval([[each] for each in values])
    assert found.low < found.value == 19.5 < found.high
    # 1.96 standard errors of the mean, by the textbook
    error = 1.96 * (sum((value - 19.5) ** 2 for value, _ in values) / 40) ** 0.5 / 40**0.5
    assert found.high - found.value == pytest.approx(error, rel=0.15)


@each_row("name", ["a", "runs#1/a", "a#1"])
def test_sessions_are_drawn_whole(name: str):
    """Two episodes of one file are no two witnesses, whatever the file is called."""
    one = [made(name, "none", 100, number="#1"), made(name, "none", 100, number="#2")]
    found = [*one, made(name, "s", 50, number="#1"), made(name, "s", 150, number="#2")]
    (row,) = [row for row in summarize(found, "p") if row.strategy == "s"]
    assert (row.bill.low, row.bill.value, row.bill.high) == (1.0, 1.0, 1.0)


def test_sessions_of_one_project_are_drawn_together():
    """Two projects, one of which saves in all of its sessions: a sample without the other one is likely."""
    names = [f"{project}{number}" for project in "ab" for number in range(10)]
    found = [made(name, "none", 100) for name in names]
    found += (made(name, "s", 50 if name[0] == "a" else 100) for name in names)
    apart, (together,) = (
        [row.bill for row in summarize(known, "p") if row.strategy == "s"]
        for known in (found, [replace(each, project=each.session[0]) for each in found])
    )
    assert (together.low, together.value, together.high) == (0.5, 0.75, 1.0)
    assert [0.6 < each.low < each.high < 0.9 for each in apart] == [True]


def test_the_sessions_of_a_single_project_are_drawn_one_by_one():
    values = [(float(value), 1.0) for value in range(40)]
    one, many = interval([values]), interval([[each] for each in values])
    assert one.value == many.value == 19.5
    assert one.high - one.low == pytest.approx(many.high - many.low, rel=0.05)


def test_a_row_has_the_share_of_sessions_in_which_anything_was_done():
    found = [made(name, "none", 100) for name in "abcd"]
    found += (replace(made(name, "s", 90), is_changed=name == "a") for name in "abcd")
    rows = {row.strategy: (row.changed, round(row.spare, 1)) for row in summarize(found, "p")}
    assert rows == {"none": (0.0, 0.0), "s": (0.25, 11.1)}


@each_row(
    ("folder", "project"),
    [
        ("", ""),
        ("/home/ann/shop", "shop"),
        ("D:\\shop", "shop"),
        ("/home/ann/shop/.worktrees/3", "shop"),
        ("D:\\shop\\.claude\\worktrees\\fix-it", "shop"),
        ("/home/ann/.codex/worktrees/91e1/shop", "shop"),
    ],
)
def test_work_trees_belong_to_the_project_of_their_repository(folder: str, project: str):
    assert project_of(folder) == project


# A session file


def log(requests: int) -> bytes:
    """Plain messages of OpenAI's format, as a file holds them."""
    texts = [f"value_{at} = {at}\n" + "line of a file\n" * 60 for at in range(requests - 1)]
    return json.dumps({"messages": reading(*texts, old_string="value_1 = 1")}).encode()


def test_the_figures_of_a_session_are_the_same_at_every_run():
    args = ReplayArgs(prices=(ANTHROPIC, DEEPSEEK), styles=("full history", "fed back"))
    first, second = (timeless(replay_session("a.json", log(30), args)) for _ in range(2))
    assert first == second
    assert first.error == ""
    assert len(first.figures) == (len(args.strategies) - 1) * 2 + 1
    styles: dict[str, list[Figures]] = {}
    for each in first.figures:
        styles.setdefault(each.strategy, []).append(replace(each, style=""))
    assert all(each == pair[0] for pair in styles.values() for each in pair)
    assert all(each.violations == () for each in first.figures)


def timeless(found: SessionFigures) -> SessionFigures:
    rows = tuple(replace(each, seconds=0.0, slowest=0.0) for each in found.figures)
    return replace(found, figures=rows)


def test_a_session_of_few_requests_says_nothing():
    found = replay_session("a.json", log(19), ReplayArgs())
    assert (found.figures, found.error) == ((), "")
    assert found.notes == ("fewer than 20 requests between compactions",)


@each_row("data", [b"", b"\xff\xfe\x00", b"{}", b"[1, 2", b"%PDF-1.4"])
def test_a_file_that_is_no_session_gives_an_error_message(data: bytes):
    found = replay_session("a.json", data, ReplayArgs())
    assert found.figures == ()
    assert found.error or found.notes


@each_row(
    ("text", "words"),
    [
        ("window @ 0.6", "a safe zone after @ is in tokens, such as 60k"),
        ("windw", "did you mean window"),
        ("", "'' names no strategy; there are none,"),
        (" @ 60k", "' @ 60k' names no strategy"),
        ("window(keeep=3)", "keep"),
        ("clairvoyant(3)", "clairvoyant"),
    ],
)
def test_an_unknown_strategy_is_a_clear_error(text: str, words: str):
    with pytest.raises(SettingsError) as refusal:
        Policy(text)
    assert words in str(refusal.value)


def test_prices_keep_the_name_that_the_bill_has():
    assert (str(Prices(1.25, 0.1, 5)), str(ANTHROPIC)) == ("1.25,0.1,5", "anthropic")
