"""Recorded compactions: what they cost, and whether pruning would have prevented them. Counted by hand."""

import json
from dataclasses import replace
from typing import Any

import pytest
from recorded_sessions import LINES
from replayed import ranking

from autoprune.apps.replay import ReplayArgs, replay_session
from autoprune.apps.replay.compaction_costs import Compaction, CompactionSum, Later, sum_compactions
from autoprune.apps.replay.page import page
from autoprune.economics import prices
from autoprune.strategies.catalog import RUN_STRATEGY

ARGS = ReplayArgs(("none", RUN_STRATEGY))
MODEL = "claude-sonnet-4-5"  # a token that is read costs 0.1, written 1.25; $3 for a million input tokens
FIRST, GROWTH, LAST = 3_000, 1_000, 26_000  # tokens: the first prompt, each request, and 24 requests later
COLD, SHARED = 5_000, 2_000  # tokens of the prompt after a compaction: written, and read


def log(*stretches: int, trigger: str = "auto", start: int = 10) -> bytes:
    """A session of Claude Code: in each request of a stretch, the agent reads the next file, from the first one on."""
    lines: list[dict[str, Any]] = [said("Find the slow part.")]
    for number, requests in enumerate(stretches):
        if number:
            boundary = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": trigger}}
            lines += [boundary, {**said("The summary of all before."), "isCompactSummary": True}]
        for request in range(requests):
            fresh, cached = (COLD, SHARED) if number and not request else (GROWTH, FIRST + GROWTH * (request - 1))
            lines += reading(f"{number}-{request}", f"src/{request}.py", fresh, cached)
    for number, line in enumerate(lines):
        minute, second = divmod(number, 60)
        line["timestamp"] = f"2026-01-02T{start}:{minute:02}:{second:02}.000Z"
        line.update(uuid=f"u{number}", parentUuid=f"u{number - 1}" if number else None, sessionId="s")
        if line["type"] == "system":
            line["parentUuid"] = None
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def said(words: str) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": words}}


def reading(name: str, path: str, written: int, cached: int) -> list[dict[str, Any]]:
    usage = {
        "input_tokens": 0,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": 50,
    }
    call = {"type": "tool_use", "id": f"t{name}", "name": "Read", "input": {"file_path": path}}
    answer = {"id": f"m{name}", "role": "assistant", "model": MODEL, "content": [call], "usage": usage}
    text = "\n".join(f"{path}_value_{line} = compute({line}, {line * 7})" for line in range(LINES))
    result = {"type": "tool_result", "tool_use_id": f"t{name}", "content": text}
    return [
        {"type": "assistant", "message": answer},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]


def found_in(data: bytes, args: ReplayArgs = ARGS) -> tuple[Compaction, ...]:
    return replay_session("a.jsonl", data, args).compactions


def test_a_compaction_costs_a_summary_and_a_cold_prompt():
    (found,) = found_in(log(24, 3))
    assert (found.agent, found.prompt, found.by_user) == ("claude-code", LAST, False)
    by_hand = LAST * 0.1 + COLD * (1.25 - 0.1)
    assert by_hand < found.tokens < by_hand + 5 * 100, "the summary has a few words"
    assert found.dollars == pytest.approx(found.tokens * 3 / 1_000_000)


def test_pruning_prevents_a_compaction_if_each_prompt_stays_below_it():
    (found,) = found_in(log(24, 3))
    assert found.is_prevented is True
    (unpruned,) = found_in(log(24, 3), ReplayArgs(("none",)))
    assert unpruned.is_prevented is None


def test_the_requests_after_it_cost_more_without_it_until_they_are_pruned_again():
    (few,) = found_in(log(24, 3))
    assert few.later is not None
    summary = few.tokens - COLD * (1.25 - 0.1)
    fresh, cached = (COLD, GROWTH, GROWTH), (SHARED, FIRST, FIRST + GROWTH)
    by_hand = sum(1.25 * new + 0.1 * old + 5 * 50 for new, old in zip(fresh, cached, strict=True))
    assert few.later.requests == 3
    assert few.later.recorded == pytest.approx((summary + by_hand) * 3 / 1_000_000)
    assert few.later.replayed > few.later.recorded
    before = sum(1.25 * GROWTH + 0.1 * (SHARED + GROWTH * at) + 5 * 50 for at in range(24))
    assert few.later.before == pytest.approx(before * 3 / 1_000_000)
    (many,) = found_in(log(24, 120))
    assert many.later is not None
    assert many.later.replayed < many.later.recorded
    assert many.later.before == few.later.before
    assert many.later.before_replayed == pytest.approx(few.later.before_replayed)


@pytest.mark.parametrize("others", [{"cache_life": 300.0}, {"prices": (prices("deepseek"),)}])
def test_what_was_paid_says_nothing_of_them_at_other_prices_or_with_another_cache(others: dict[str, Any]):
    (found,) = found_in(log(24, 3), replace(ARGS, **others))
    assert (found.is_prevented, found.later) == (True, None)
    assert sum_compactions([found]).basis.endswith("and of the cold prompt after it.")


def test_requests_between_two_prevented_ones_count_once():
    first, second = found_in(log(24, 24, 24))
    assert first.later is not None
    assert second.later is not None
    assert first.later.before > 0
    assert second.later.recorded > 0
    assert (second.later.before, second.later.before_replayed) == (0.0, 0.0)


def test_a_compaction_is_only_postponed_if_a_later_prompt_must_be_as_large():
    data = log(24, 3)
    (found,) = found_in(data)
    assert found.is_prevented
    assert not found.is_postponed
    lines = [json.loads(line) for line in data.splitlines()]
    *_, before, answer, _ = lines
    before["message"]["content"][0]["content"] = "\n".join(f"value_{at} = compute({at})" for at in range(5_000))
    answer["message"]["usage"]["cache_creation_input_tokens"] = 50_000
    (found,) = found_in("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert found.is_prevented
    assert found.is_postponed


def test_the_paths_of_fifteen_requests_are_compared_with_those_before():
    (few,) = found_in(log(24, 3))
    assert (few.known_paths, few.paths) == (3, 3)
    (many,) = found_in(log(10, 30))
    assert (many.known_paths, many.paths) == (10, 15)


def test_paths_in_shell_commands_count():
    (found,) = found_in(log(24, 3).replace(b'"input": {"file_path": "', b'"input": {"command": "cat '))
    assert (found.known_paths, found.paths) == (3, 3)


def test_a_short_stretch_counts_but_is_not_judged():
    (found,) = found_in(log(10, 3))
    assert (found.prompt, found.is_prevented) == (FIRST + 9 * GROWTH, None)


def test_a_compaction_at_the_end_of_a_log_counts_too():
    (found,) = found_in(log(24, 0))
    assert (found.paths, found.is_prevented) == (0, True)
    assert LAST * 0.1 < found.tokens < LAST * 0.1 + 5 * 100


@pytest.mark.parametrize(("trigger", "by_user"), [("manual", True), ("auto", False), ("", True)])
def test_the_log_says_who_compacted_or_else_the_size_does(trigger: str, by_user: bool):
    (found,) = found_in(log(24, 3, trigger=trigger))
    assert (found.by_user, found.is_prevented is None) == (by_user, by_user)


def test_each_stretch_but_the_last_ended_in_a_compaction():
    assert [each.prompt for each in found_in(log(24, 22, 3))] == [LAST, FIRST + 21 * GROWTH]
    assert found_in(log(24)) == ()
    assert found_in(log(0, 3)) == ()
    (joined,) = found_in(log(24, 0, 3))
    assert (joined.prompt, joined.paths) == (LAST, 3)


def test_a_compaction_in_two_files_counts_once():
    first, second = found_in(log(24, 3)), found_in(log(24, 3, 2))[:1]
    assert sum_compactions([*first, *second]).count == 1
    assert sum_compactions([*first, *found_in(log(24, 3, start=12))]).count == 2


def test_the_prompts_before_it_are_kept_for_a_chart():
    (found,) = found_in(log(24, 3))
    assert found.unpruned == tuple(range(FIRST, LAST + 1, GROWTH))
    assert len(found.pruned) == 24
    assert max(found.pruned) < LAST
    (long,) = found_in(log(130, 3), ReplayArgs(("none",)))
    assert long.unpruned == (*range(FIRST + 2 * GROWTH, FIRST + 130 * GROWTH, 3 * GROWTH), FIRST + 129 * GROWTH)
    assert long.pruned == ()


def compaction(agent: str = "codex", **changed: Any) -> Compaction:
    return Compaction(
        **{
            "agent": agent,
            "requests": 90,
            "prompt": 200_000,
            "tokens": 80_000.0,
            "dollars": 0.25,
            "paths": 4,
            "known_paths": 1,
            "is_prevented": True,
            **changed,
        }
    )


def sentence(*found: Compaction) -> str:
    return sum_compactions(found).in_words("`run`")


def test_the_sentence_says_what_they_cost_and_how_many_would_not_have_happened():
    one, kept = compaction(), compaction(is_prevented=False)
    short, unpriced = compaction(is_prevented=None), compaction(dollars=None)
    by_user = compaction(by_user=True, is_prevented=None)
    assert sentence(one, kept, compaction(), by_user) == (
        "Your 3 compactions cost about $0.75; with `run` 2 of them would not have happened."
    )
    assert sentence(one, compaction()) == (
        "Your 2 compactions cost about $0.50; with `run` none of them would have happened."
    )
    assert sentence(one) == "Your 1 compaction cost about $0.25; with `run` it would not have happened."
    assert sentence(kept) == "Your 1 compaction cost about $0.25; with `run` it would have happened."
    assert sentence(one, short) == (
        "Your 2 compactions cost about $0.50; with `run` 1 of the 1 with 20 requests or more before them would not "
        "have happened."
    )
    assert sentence(short) == "Your 1 compaction cost about $0.25."
    assert (
        sentence(unpriced) == "Your 1 compaction cost about 80,000 input tokens; with `run` it would not have happened."
    )


def test_what_the_requests_after_prevented_ones_cost_is_said():
    one = compaction(later=Later(50, 4.0, 4.2, 7.0, 6.0))
    assert sum_compactions([one, compaction(is_prevented=None)]).afterwards == (
        "The 50 requests after it cost $4.00, the summary included; without compaction, with longer prompts, they "
        "would have cost $4.20. With the requests before it, $11.00 would have been $10.20."
    )
    two = compaction(later=Later(1_000, 90.0, 80.0, 10.0, 10.0), is_postponed=True)
    assert sum_compactions([one, two]).afterwards == (
        "The 1,050 requests after them cost $94.00, summaries included; without compaction, with longer prompts, they "
        "would have cost $84.20. With the requests before them, $111.00 would have been $100.20. At a later request 1 "
        "would have been due all the same."
    )
    unpriced = compaction(dollars=None, later=Later(50, 0.0, 0.0))
    assert sum_compactions([unpriced]).afterwards == sum_compactions([compaction()]).afterwards == ""


def test_they_are_summed_up_by_agent():
    found = sum_compactions([compaction(), compaction("pi"), compaction(by_user=True, is_prevented=None)])
    codex = CompactionSum(1, 1, 1, 1, 80_000.0, 0.25, 0, 4, 1)
    assert found.agents == {"codex": codex, "pi": CompactionSum(1, 1, 1, 0, 80_000.0, 0.25, 0, 4, 1)}
    assert (found.count, found.by_user, found.dollars) == (2, 1, 0.5)
    assert found.basis.endswith("Those that you asked for are not counted: 1.")


def test_the_page_says_it():
    found = [replay_session("a.jsonl", log(24, 3), ARGS)]
    text = page(found, [], ranking(found), command="", advice="")
    assert "Your 1 compaction cost about $0.03; with <code>autoprune run</code> it would not have happened." in text
    assert "The 3 requests after it cost $0.04, the summary included; without compaction, with" in text
    assert '<span class="size">24 of 27</span>' in text
    assert text.count('class="compared compactions"') == 1
    assert 'aria-label="Prompts before 1 compaction, up to 26,000 tokens"' in text
    assert "Compacted at 26,000 tokens (about $0.03, not with autoprune run)." in text
