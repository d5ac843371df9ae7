"""What recorded sessions cost, by project, and what a strategy would have saved of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded_sessions import write_claude_log
from session_texts import lines
from tables import each_row

from autoprune.apps.replay import ReplayArgs
from autoprune.apps.replay.compaction_costs import Compaction, Later
from autoprune.apps.replay.episode_figures import OWN, Bill, Figures
from autoprune.apps.replay.session import EpisodeShape, SessionFigures
from autoprune.apps.replay.spending import changes, distinct, outlook, read_spending, sum_spending
from autoprune.apps.replay.titles import place_of
from autoprune.strategies.catalog import RUN_STRATEGY

# 3 dollars for a million input tokens, 15 for the answer; twice and 1.5 times as much above 200,000 tokens.
MODEL = "claude-sonnet-4-5"
MILLION = 1_000_000


def answer(hour: int, model: str = MODEL, **usage: Any) -> tuple[str, str, dict[str, Any]]:
    counts = {"input_tokens": 0, "output_tokens": 0, **usage}
    return f"2026-01-02T{hour}:00:00.000Z", model, counts


def test_each_request_is_priced_by_its_model_and_its_cache(tmp_path: Path):
    path = write_claude_log(
        tmp_path / "a.jsonl",
        answer(11, input_tokens=MILLION, output_tokens=100_000),
        answer(12, cache_read_input_tokens=MILLION),
        answer(13, "claude-opus-4-5", cache_creation_input_tokens=MILLION),
        answer(14, "codestral", cache_read_input_tokens=MILLION),  # the list has no price for these
    )
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert found.dollars == pytest.approx(2 * 3 + 1.5 * 1.5 + 2 * 0.3 + 6.25 + 0.1 * 0.3)
    assert (found.agent, found.project, found.sessions, found.requests) == ("claude-code", "shop", 1, 4)
    assert (found.prompt, found.cached, found.unpriced) == (4 * MILLION, 2 * MILLION, 0)


def test_a_request_costs_what_its_model_cost_at_that_time(tmp_path: Path):
    written = (answer(11, "gpt-5.6-luna", input_tokens=MILLION), answer(11, "gpt-5.6-luna", input_tokens=MILLION))
    dates = ("2026-07-01T11", "2026-11-20T11")  # before and after the price fell
    then = [(time.replace("2026-01-02T11", date), *rest) for date, (time, *rest) in zip(dates, written, strict=True)]
    path = write_claude_log(tmp_path / "a.jsonl", *then)
    (read,) = read_spending([path], ReplayArgs())
    assert [each.dollars for each in read.charges] == pytest.approx([2 * 1.0, 2 * 0.2])


@each_row("model", [None, "claude-opus-4-6"])
def test_a_free_model_costs_nothing(model: str | None, tmp_path: Path):
    path = write_claude_log(tmp_path / "a.jsonl", answer(11, "deepseek/deepseek-r1:free", input_tokens=MILLION))
    (found,) = sum_spending(read_spending([path], ReplayArgs(model=model)))
    assert (found.dollars, found.unpriced) == (0.0, 0)


def test_the_life_of_a_given_cache_does_not_change_what_was_paid(tmp_path: Path):
    path = write_claude_log(
        tmp_path / "a.jsonl", answer(11, cache_creation={"ephemeral_1h_input_tokens": 9_000}, input_tokens=1)
    )
    paid = [read_spending([path], ReplayArgs(cache_life=life))[0].charges[0].dollars for life in (None, 300.0)]
    assert paid == pytest.approx([3e-6 + 9_000 * 6e-6] * 2)


def test_what_a_higher_tier_cost_and_what_a_log_lacks_is_counted(tmp_path: Path):
    """The answers in the log have some hundred characters."""
    path = write_claude_log(
        tmp_path / "a.jsonl",
        answer(11, "claude-haiku-5-5", input_tokens=100_000, output_tokens=1_000),
        answer(12, "claude-haiku-5-5", input_tokens=200_000, output_tokens=1_000),
        answer(13, "claude-haiku-5-5", input_tokens=9, output_tokens=1),
    )
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert (found.tiered, found.low) == (1, 1)
    assert found.extra == pytest.approx(0.8 * (found.dollars - _below_the_tier(tmp_path)))


def _below_the_tier(folder: Path) -> float:
    """The cost of the two requests that are in no higher tier."""
    path = write_claude_log(
        folder / "b.jsonl",
        answer(14, "claude-haiku-5-5", input_tokens=100_000, output_tokens=1_000),
        answer(15, "claude-haiku-5-5", input_tokens=9, output_tokens=1),
    )
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    return found.dollars


def test_a_request_in_two_files_counts_once(tmp_path: Path):
    first, second = answer(11, input_tokens=MILLION), answer(12, input_tokens=MILLION)
    files = [
        write_claude_log(tmp_path / "old.jsonl", first),
        write_claude_log(tmp_path / "resumed.jsonl", first, second),
    ]
    read = read_spending(files, ReplayArgs())
    (found,) = sum_spending(read)
    assert (found.requests, found.dollars) == (2, pytest.approx(2 * 2 * 3))
    assert [len(each.charges) for each in distinct(read)] == [2]


def test_a_request_that_writes_both_caches_pays_for_each(tmp_path: Path):
    both = {"ephemeral_5m_input_tokens": 100_000, "ephemeral_1h_input_tokens": 50_000}
    path = write_claude_log(tmp_path / "a.jsonl", answer(11, cache_creation_input_tokens=150_000, cache_creation=both))
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert found.dollars == pytest.approx((1.25 * 100_000 + 2 * 50_000) * 3e-6)


def test_each_prompt_that_the_api_sends_within_a_response_is_priced_by_itself(tmp_path: Path):
    """Their sum would be in a higher tier, and does not hold those of compactions and of another model."""
    rounds = [
        {"type": "compaction", "input_tokens": 150_000, "output_tokens": 0},
        {"type": "message", "input_tokens": 110_000, "output_tokens": 0},
        {"type": "message", "input_tokens": 120_000, "output_tokens": 0},
        {"type": "advisor_message", "model": "claude-opus-4-5", "input_tokens": 20_000, "output_tokens": 0},
    ]
    (read,) = read_spending(
        [write_claude_log(tmp_path / "a.jsonl", answer(11, input_tokens=230_000, iterations=rounds))], ReplayArgs()
    )
    assert [each.dollars for each in read.charges] == pytest.approx([0.36, 0.45, 0.33, 0.1])


USED = {"model": "claude-opus-4-1", "usage": {"input_tokens": 100_000, "output_tokens": 0}}  # 1.5 dollars


def said(role: str, uuid: str, parent: str | None, **more: object) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": uuid}], **(USED if role == "assistant" else {})}
    clock = f"2026-01-02T11:00:{ord(uuid[0]) - 87}.000Z"
    of_claude = {"uuid": uuid, "parentUuid": parent, "timestamp": clock, "message": {"id": f"msg_{uuid}", **message}}
    return {"type": role, "sessionId": "s", "cwd": "/shop", **of_claude, **more}


@each_row(
    ("question", "more"),
    [(None, {"isSidechain": True}), ("a", {})],
)
def test_requests_of_sub_agents_and_of_abandoned_branches_are_paid(
    question: str | None, more: dict[str, object], tmp_path: Path
):
    first = [said("user", "a", None), said("assistant", "b", "a")]
    second = [said("user", "c", question, **more), said("assistant", "d", "c", **more)]
    path = tmp_path / "a.jsonl"
    path.write_text(lines(*first, *second), encoding="utf-8")
    (read,) = read_spending([str(path)], ReplayArgs())
    assert [charge.dollars for charge in read.charges] == [pytest.approx(1.5)] * 2
    assert [charge.is_low for charge in read.charges] == [True] * 2  # no output tokens, although they have a text


def test_a_fork_whose_lines_have_new_ids_is_not_paid_again(tmp_path: Path):
    """Claude Code 2.1.45 gave each copied line a new id, but kept that of the request."""
    ids = {"old.jsonl": ("msg_1", "msg_1"), "fork.jsonl": ("0d0a", "1e3b"), "second fork.jsonl": ("2c4f", "77d0")}
    for name, (first, second) in ids.items():
        log = [said("user", "a", None), said("assistant", "b", "a"), said("assistant", "c", "b")]
        for line, id in zip(log[1:], (first, second), strict=True):
            line |= {"requestId": "req_1", "message": {**line["message"], "id": id}}
        (tmp_path / name).write_text(lines(*log), encoding="utf-8")
    paths = [str(tmp_path / name) for name in ids]
    for given in (paths, paths[1:], paths[1:2]):
        (found,) = sum_spending(read_spending(given, ReplayArgs()))
        assert (found.sessions, found.requests, found.dollars) == (1, 1, pytest.approx(1.5))


def test_a_response_whose_stream_broke_is_paid_beside_the_one_that_replaced_it(tmp_path: Path):
    log = [said("user", "a", None), said("assistant", "b", "a"), said("assistant", "c", "a")]
    log[1]["message"]["usage"] = {"input_tokens": 100_000, "output_tokens": 1}
    whole = [{**line, "requestId": "req_1"} for line in log]
    for name, own in {"a.jsonl": whole, "fork.jsonl": [whole[0], whole[2]]}.items():
        (tmp_path / name).write_text(lines(*own), encoding="utf-8")
    for names in (("a.jsonl",), ("a.jsonl", "fork.jsonl"), ("fork.jsonl", "a.jsonl")):
        (found,) = sum_spending(read_spending([str(tmp_path / name) for name in names], ReplayArgs()))
        assert (found.requests, found.dollars) == (2, pytest.approx(3.0, rel=1e-3))


def test_requests_of_sub_agents_that_are_only_reported_are_paid_once(tmp_path: Path):
    """Some versions of Claude Code repeat a sub-agent's lines in its caller's log, with less usage than in its own."""
    line = said("assistant", "d", "c")
    line["message"]["usage"] = {**USED["usage"], "output_tokens": 20_000}  # as dear as the prompt
    reported = {**line, "message": {**line["message"], "usage": {**USED["usage"], "output_tokens": 1}}}
    report = {
        "type": "progress",
        "uuid": "p",
        "parentUuid": "b",
        "data": {"type": "agent_progress", "message": reported},
    }
    log = [said("user", "a", None), said("assistant", "b", "a"), report]
    files = {
        "main.jsonl": log,
        "agent.jsonl": [said("user", "c", None, isSidechain=True), {**line, "isSidechain": True}],
    }
    for name, own in files.items():
        (tmp_path / name).write_text(lines(*own), encoding="utf-8")
    paths = [str(tmp_path / name) for name in files]
    for given, dollars in ((paths, 4.5), (paths[::-1], 4.5), (paths[:1], 3.0)):
        (found,) = sum_spending(read_spending(given, ReplayArgs()))
        assert (found.requests, found.dollars) == (2, pytest.approx(dollars, rel=1e-3))


def test_a_response_without_an_id_is_paid_once(tmp_path: Path):
    """Claude Code writes a line for each block, with the usage of the whole response."""
    log = [said("user", "a", None), said("assistant", "b", "a"), said("assistant", "c", "b")]
    for line in log:
        del line["message"]["id"]
    path = tmp_path / "a.jsonl"
    path.write_text(lines(*log), encoding="utf-8")
    (read,) = read_spending([str(path)], ReplayArgs())
    assert [charge.dollars for charge in read.charges] == [pytest.approx(1.5)]


def test_requests_of_abandoned_branches_of_pi_are_paid(tmp_path: Path):
    def entry(id: str, parent: str | None, **message: object) -> dict[str, object]:
        clock = f"2026-01-02T11:00:{ord(id) - 87}.000Z"
        return {"type": "message", "id": id, "parentId": parent, "timestamp": clock, "message": message}

    asked = {"role": "user", "content": "Go."}
    used = {"input": 9, "output": 1, "cost": {"total": 0.5}}
    answered = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done."}],
        "stopReason": "stop",
        "usage": used,
    }
    header = {"type": "session", "version": 3, "id": "s", "cwd": "/shop"}
    path = tmp_path / "a.jsonl"
    tree = (entry("a", None, **asked), entry("b", "a", **answered), entry("c", "a", **answered))
    path.write_text(lines(header, *tree), encoding="utf-8")
    (found,) = sum_spending(read_spending([str(path)], ReplayArgs()))
    assert (found.requests, found.dollars) == (2, pytest.approx(1.0))


def test_a_request_whose_prompt_is_not_counted_has_no_cost(tmp_path: Path):
    path = write_claude_log(tmp_path / "a.jsonl", answer(11, output_tokens=400), answer(12, input_tokens=MILLION))
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert (found.requests, found.unpriced, found.dollars) == (2, 1, pytest.approx(2 * 3))


def test_projects_are_listed_by_their_newest_session(tmp_path: Path):
    old = write_claude_log(tmp_path / "old.jsonl", answer(11, input_tokens=1), folder="C:\\work\\old")
    new = write_claude_log(tmp_path / "new.jsonl", answer(12, input_tokens=1))
    assert [each.project for each in sum_spending(read_spending([old, new], ReplayArgs()))] == ["shop", "old"]


def test_a_project_with_a_short_or_ambiguous_name_is_shown_with_its_parent(tmp_path: Path):
    folders = ("/me/cli/.worktrees/1", "/me/api/backend", "/me/web/backend", "/me/shop")
    files = [
        write_claude_log(tmp_path / f"{hour}.jsonl", answer(hour, input_tokens=1), folder=folder)
        for hour, folder in enumerate(folders, 11)
    ]
    found = sum_spending(read_spending(files, ReplayArgs()))
    assert [each.project for each in found] == ["shop", "web/backend", "api/backend", ".worktrees/1"]


def test_the_project_of_a_log_of_gemini_cli_is_the_folder_of_its_chats():
    assert place_of("/home/ann/.gemini/tmp/shop/chats/session-1.json", []) == "tmp/shop"


def test_an_answer_that_names_no_model_has_the_price_of_the_others(tmp_path: Path):
    path = write_claude_log(tmp_path / "a.jsonl", answer(11, "", input_tokens=MILLION), answer(12, input_tokens=1))
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert (found.unpriced, found.dollars) == (0, pytest.approx(2 * 3, rel=1e-3))


def test_a_count_that_no_window_holds_is_not_priced(tmp_path: Path):
    path = write_claude_log(
        tmp_path / "a.jsonl",
        answer(11, input_tokens=10**12),
        answer(12, output_tokens=10**12),
        answer(13, input_tokens=9),
    )
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert (found.prompt, found.unpriced) == (9, 2)


def test_an_unknown_model_has_no_price_unless_one_is_given(tmp_path: Path):
    path = write_claude_log(
        tmp_path / "a.jsonl", answer(11, "", input_tokens=MILLION), answer(12, "my-model", input_tokens=9)
    )
    (found,) = sum_spending(read_spending([path], ReplayArgs()))
    assert (found.dollars, found.unpriced, found.unlisted) == (0, 2, {"my-model": 2})
    (found,) = sum_spending(read_spending([path], ReplayArgs(model=MODEL)))
    assert (found.dollars, found.unpriced) == (pytest.approx(3 + 3 * 1.000009), 0)


def test_a_file_that_cannot_be_read_is_no_failure(tmp_path: Path):
    (tmp_path / "bad.json").write_text("{")
    (found,) = read_spending([str(tmp_path / "bad.json")], ReplayArgs())
    assert found.error
    assert sum_spending([found]) == []


def test_a_title_has_the_project_the_date_and_the_first_words(tmp_path: Path):
    (found,) = read_spending([write_claude_log(tmp_path / "a.jsonl", answer(11, input_tokens=1))], ReplayArgs())
    assert str(found.title) == "shop · 2026-01-02 · Fix the cart, please"


def figures(session: str, share: float) -> SessionFigures:
    own = str(OWN)
    none = Figures(session, session, "none", "full history", 20, 100_000, {own: Bill(100, 100, 0)}, {}, 0)
    pruned = replace(none, strategy="cache_aware", bills={own: Bill(0, 100 * share, 0)})
    return SessionFigures(session, shapes={session: EpisodeShape(dollars=10.0)}, figures=(none, pruned))


def test_the_saving_applies_to_the_part_that_was_replayed():
    found = outlook([figures("a", 0.5), figures("b", 0.7)], "cache_aware", str(OWN), paid=30.0)
    assert (found.replayed, found.share.value) == (20.0, pytest.approx(0.6))
    assert found.would_pay.value == pytest.approx(10 + 12)
    assert (found.would_pay.low, found.would_pay.high) == (pytest.approx(20), pytest.approx(24))
    assert not found.is_noise
    assert outlook([figures("a", 0.9), figures("b", 1.1)], "cache_aware", str(OWN), paid=30.0).is_noise


LATER = Later(7, recorded=2.0, replayed=6.0, before=9.0, before_replayed=8.0)  # costs 3 dollars more
PREVENTED = Compaction("claude-code", 20, 90_000, 1.0, 0.1, 0, 0, is_prevented=True, later=LATER, time=1.0)


@each_row(
    ("strategy", "episode", "dollars", "replayed"),
    [
        (RUN_STRATEGY, "a", 26.0 + 14.0, 11.0),  # the replayed stretch is beside the compaction
        (RUN_STRATEGY, "", 16.0 + 5.0 + 14.0, 21.0),  # it is another one
        ("cache_aware", "a", 27.0 + 5.0, 10.0),  # another strategy prevents none
    ],
)
def test_prevented_compactions_count_in_the_dollars_with_autoprune_run(
    strategy: str, episode: str, dollars: float, replayed: float
):
    whole = figures("a", 0.5)
    played = tuple(replace(each, strategy=each.strategy.replace("cache_aware", strategy)) for each in whole.figures)
    session = replace(whole, figures=played, compactions=(replace(PREVENTED, episode=episode),))
    for sessions in ([session], [session, SessionFigures("fork", figures=played, compactions=session.compactions)]):
        found = outlook(sessions, strategy, str(OWN), paid=37.0)
        assert (found.replayed, found.would_pay.value) == (replayed, pytest.approx(dollars))
        assert ("prevented" in found.basis) == (strategy == RUN_STRATEGY)


def test_what_was_paid_says_nothing_about_other_prices_or_caches():
    whole = figures("a", 0.5)
    listed = replace(
        whole, figures=tuple(replace(each, bills={"deepseek": each.bills["own"]}) for each in whole.figures)
    )
    short_lived = replace(whole, shapes={"a": replace(whole.shapes["a"], life_from="given")})
    for session, prices_name in ((listed, "deepseek"), (short_lived, "own")):
        session = replace(session, compactions=(replace(PREVENTED, episode="a"),))
        assert outlook([session], "cache_aware", prices_name, paid=30.0).replayed == 0
        (change,) = changes(session, "cache_aware", prices_name)
        assert (change.paid, change.pruned) == (None, pytest.approx(0.5 * change.unpruned))


def test_sessions_without_a_recorded_cost_are_left_out():
    unknown = replace(figures("a", 0.5), shapes={"a": EpisodeShape(dollars=None)})
    assert outlook([unknown], "cache_aware", str(OWN), paid=1.0).would_pay.value == 1.0


def test_the_sentence_has_an_interval_only_if_there_are_several_sessions():
    one = outlook([figures("a", 0.5)], "cache_aware", str(OWN), paid=10.0)
    assert one.sentence("autoprune") == "At API list prices $10.00 would have been $5.00 with autoprune: 50% less."
    for share in (0.997, 1.003):
        close = outlook([figures("a", share)], "cache_aware", str(OWN), paid=10.0)
        assert close.sentence("autoprune").endswith(" with autoprune: about the same.")
    two = outlook([figures("a", 0.5), figures("b", 0.7)], "cache_aware", str(OWN), paid=20.0)
    assert "$12.00 (10.00–14.00)" in two.sentence("`autoprune run`")
    forks = outlook([figures("a", 0.5), figures("b", 0.7)], "cache_aware", str(OWN), paid=20.0, replayed=15.0)
    assert (forks.replayed, forks.would_pay.value) == (15.0, pytest.approx(5.0 + 15.0 * two.share.value))
    same = outlook([figures("a", 1.0), figures("b", 1.0)], "cache_aware", str(OWN), paid=20.0)
    assert same.sentence("autoprune") == "At API list prices $20.00 would have been the same with autoprune."
    noise = outlook([figures("a", 0.9), figures("b", 1.1)], "cache_aware", str(OWN), paid=20.0)
    assert noise.sentence("autoprune") == (
        "At API list prices $20.00 would have been $20.00 (18.00–22.00) with autoprune; "
        "the difference is not significant."
    )
