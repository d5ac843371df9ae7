"""`cache_aware`: what is eligible, when clearing pays, how far it goes above the safe zone, and what it leaves."""

import json
import pickle
import re
from typing import Any

import pytest
from rounds import WIRE, Step
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.economics import LISTS
from autoprune.errors import SettingsError
from autoprune.facts.outcomes import is_cleared
from autoprune.strategies import CacheAware
from autoprune.strategies.cache_aware import FETCHED_AGAIN
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

WORDS = "it was a bright cold day in april and the clocks were striking thirteen\n"
NAMED = "".join(f"def read_part_{at}(self): return self.partNumber{at}\n" for at in range(40))
SMALL = Step("list", {"path": "docs"}, "a.md")
HUGE = 10**9


def plain(words: int, path: str = "notes.txt") -> Step:
    return Step("read", {"path": path}, WORDS * words)


def messages(*steps: Step) -> list[Any]:
    return WIRE["openai_chat"]([[step] for step in steps])


def cleared(given: list[Any], strategy: CacheAware, safe_zone: int = HUGE, **more: Any) -> list[int]:
    """The numbers of the results that are cleared before the next request."""
    plan = AgenticConversationPruner(safe_zone).plan(given, strategy, **more)
    known = list(plan.transcript.results)
    return sorted(known.index(edit.part) for edit in plan.edits)


def with_much_behind(*steps: Step, requests: int = 3) -> list[Any]:
    """A large result, or some, and ten times as many tokens of the user's behind them."""
    before = WIRE["openai_chat"]([list(steps) or [plain(60)]])
    return [*before, {"role": "user", "content": WORDS * 600}, *messages(*[SMALL] * requests)[1:]]


def eager(**given: Any) -> CacheAware:
    """The strategy without a floor, and without waiting until the agent has used what it read."""
    return CacheAware(**{"stay": 0, "start_at": 0, "never_dearer": None, **given})


def at_once(threshold: float = 1.5) -> CacheAware:
    """Where reading costs as much as writing a cut costs nothing, so that all that is eligible goes."""
    return eager(threshold=threshold, prices=(1, 1))


def test_large_and_old_results_without_names_are_worth_least():
    given = messages(plain(40), Step("read", {"path": "a.py"}, NAMED), *[SMALL] * 30)
    assert cleared(given, at_once()) == [0]  # the code has about as many tokens, and 80 names that nobody has used
    assert cleared(given, at_once(threshold=0)) == []
    assert cleared(given, at_once(threshold=1_000)) == [0, 1]


def test_prose_is_worth_as_much_in_a_script_without_spaces():
    text = "，".join("".join(chr(0x4E00 + (12 * at + each) * 37 % 5_000) for each in range(12)) for at in range(90))
    words = " ".join("".join(chr(97 + (at * 7 + each * 3) % 26) for each in range(9 + at % 4)) for at in range(400))
    for page in (text, words):
        given = messages(Step("fetch", {"url": "https://a.b"}, page), *[SMALL] * 30)
        assert cleared(given, at_once(threshold=0.05)) == []


def test_names_that_a_call_has_used_no_longer_count():
    code = Step("read", {"path": "a.py"}, NAMED)
    wrote = Step("write", {"path": "b.py", "content": NAMED}, "done")
    assert cleared(messages(code, *[SMALL] * 30), at_once()) == []
    assert cleared(messages(code, wrote, *[SMALL] * 30), at_once()) == [0]


def test_it_waits_until_carrying_has_cost_as_much_as_the_cut_to_the_request():
    """k tokens with S cached ones behind them go when n·r·k reaches 5·((w - r)·S + 0.03·w·k)."""
    given = messages(plain(300))
    given.append({"role": "user", "content": WORDS * 60})
    for _ in range(60):
        given += messages(SMALL)[1:]
    prices = LISTS["anthropic"]
    plan = AgenticConversationPruner(HUGE).plan(given, eager(prices=prices))
    (edit,) = plan.edits
    entries = plan.transcript.entries
    starts = plan.transcript.requests

    standard = AgenticConversationPruner(1).plan(given, "tool_output_cleanup")
    saves = next(each.saved for each in standard.edits if each.part.location == edit.part.location)
    owed = 0.0
    for request in range(2, len(starts)):  # it was called for at request 0, and seen at 1
        sent = starts[request - 1]
        behind = sum(entry.tokens for entry in entries[edit.part.location.message + 1 : sent])
        owed += prices.read * saves
        if owed >= 5 * ((prices.write - prices.read) * behind + FETCHED_AGAIN * prices.write * saves):
            break
    assert edit.request == request
    assert edit.reason.startswith("pays, worth 0.")


def test_after_a_pause_longer_than_the_cache_lives_clearing_is_free():
    given = with_much_behind()
    here = len(given)
    assert cleared(given, eager()) == []
    assert cleared(given, eager(), pauses={here: 300.0}) == []
    assert cleared(given, eager(), pauses={here: 301.0}) == [0]
    assert cleared(given, eager(cache_life=3_600), pauses={here: 301.0}) == []


def test_above_the_safe_zone_the_least_worth_goes_until_the_target():
    given = messages(*[plain(20, f"{at}.txt") for at in range(10)], Step("read", {"path": "a.py"}, NAMED), *[SMALL] * 2)
    strategy = CacheAware(threshold=0, prices="deepseek")
    result = AgenticConversationPruner(2_000).prune(given, strategy)
    assert result.report.within_safe_zone
    plan = result.plan
    assert {edit.reason.partition(",")[0] for edit in plan.edits} == {"above limit"}
    assert 10 not in {list(plan.transcript.results).index(edit.part) for edit in plan.edits}  # the code stays


def test_a_placeholder_names_the_tool_the_target_the_size_and_names_in_it():
    given = messages(Step("read", {"path": "a.py"}, NAMED), *[SMALL] * 3)
    result = AgenticConversationPruner(HUGE).prune(given, at_once(threshold=HUGE))
    (edit,) = result.plan.edits
    assert edit.text.startswith(
        f"[Cleared at request {edit.request}: read a.py, {edit.part.tokens:,} tokens. Names in it: "
    )
    assert "read_part_0, partNumber0" in edit.text
    assert is_cleared(edit.text)
    assert AgenticConversationPruner(HUGE).prune(result.conversation, at_once(threshold=HUGE)).conversation == (
        result.conversation
    )


@pytest.mark.parametrize("command", ['grep -e "a b"', '"my tool" --all', "echo 'x'", '"'])
def test_a_placeholder_is_recognized_by_its_target_with_quotation_marks(command: str):
    given = messages(Step("run", {"command": command}, NAMED), *[SMALL] * 3)
    pruned = AgenticConversationPruner(HUGE).prune_conversations(given, at_once(threshold=HUGE))
    result = parse(pruned, new_parser(len), 0).results[0]
    assert command in result.text
    assert CacheAware().has_written(result)


def test_out_of_reach_of_the_safe_zone_the_most_worth_results_stay_for_a_while():
    """The user's words alone are over the safe zone: to clear each result as soon as it was seen would win nothing."""
    start = [{"role": "user", "content": WORDS * 200}]
    given = start + messages(*[plain(4, f"{at}.txt") for at in range(30)])
    plan = AgenticConversationPruner(2_000).plan(given, CacheAware(threshold=0))
    batches = {edit.request for edit in plan.edits}
    assert len(plan.edits) > 15
    assert 1 < len(batches) < 8
    assert "; that leaves " in plan.rationale.decisions[-1]


def long_loop() -> list[Any]:
    """Forty reads of files with names, of long paths."""
    names = "".join(f"def read_part_{at}(self): return self.partNumber{at}\n" for at in range(12))
    return messages(*[Step("read", {"path": f"{'folder/' * 8}{at}.py"}, f"{at}: {names}") for at in range(40)])


def test_placeholders_lose_their_names_if_these_leave_no_room():
    given = long_loop()
    least = AgenticConversationPruner(1).prune(given, "tool_output_cleanup").report.tokens_after
    zone = least + 300
    result = AgenticConversationPruner(zone).prune(given, CacheAware())
    assert result.report.within_safe_zone
    texts = [edit.text for edit in result.plan.edits]
    assert any(re.fullmatch(r"\[Cleared at request \d+: read, \d+ tokens\]", text) for text in texts)


def test_the_limit_holds_although_placeholders_name_requests_that_were_dropped():
    """A window of the caller's own, or a summary, takes the first messages of output that is passed back."""
    ours, given = AgenticConversationPruner(4_000), messages(plain(1))[:1]
    for at in range(60):
        step = messages(plain(30, f"{at}.txt"))[1:]
        step[0]["tool_calls"][0]["id"] = step[1]["tool_call_id"] = f"call_{at}"
        result = ours.prune([*given, *step], CacheAware())
        assert result.report.within_safe_zone, at
        given = result.conversation if at != 30 else [given[0], *result.conversation[-30:]]


def test_a_tool_name_of_several_lines_is_put_on_one():
    given = messages(Step("read\nfile", {"path": "a.txt"}, WORDS * 60), *[SMALL] * 3)
    pruned = AgenticConversationPruner(HUGE).prune_conversations(given, at_once(threshold=HUGE))
    assert re.match(r"\[Cleared at request \d: read file a\.txt, ", pruned[2]["content"])


def test_its_rationale_has_the_decisions_and_the_worth_of_each_result():
    code = Step("read", {"path": "a.py"}, NAMED)
    given = with_much_behind(*[plain(60, f"{at}.txt") for at in range(4)], code)
    result = AgenticConversationPruner(HUGE).prune(given, eager(prices="anthropic"), pauses={len(given): 1_200.0})
    (edit, *_), rationale = result.plan.edits, result.plan.rationale
    assert edit.reason.startswith("cold, worth 0.")
    assert rationale.decisions[0].endswith("Results worth less than 4.5 may be cleared.")
    saved = sum(edit.saved for edit in result.plan.edits)
    assert rationale.decisions[-1].endswith(
        "cold: the cache had expired after a pause of 1,200 s, so clearing cost nothing; "
        f"4 results cleared, {saved:,} tokens saved"
    )
    assert json.loads(result.report.to_json())["decisions"] == [*result.report.decisions] == [*rationale.decisions]
    kept = [str(row["why"]) for row in result.report.rows if not row["cleared"]]
    assert [why.partition(" ")[0] for why in kept] == ["it", "a", "a", "the"]


def test_the_sentence_of_a_reason_says_what_its_figure_means():
    given = with_much_behind(*[plain(60, f"{at}.txt") for at in range(4)])
    plan = AgenticConversationPruner(HUGE).plan(given, eager(prices="anthropic"), pauses={len(given): 1_200.0})
    reason = pickle.loads(pickle.dumps(plan.edits[0].reason))
    assert reason.sentence == (
        f"after a long pause the prompt cache was empty, so clearing it cost nothing; it is {reason[6:]} "
        "(worth is a score: higher for names that no call has used yet, lower for size and age), and under 4.5 it may "
        "go as soon as that pays"
    )


def test_prices_come_from_the_model_of_the_settings_and_unknown_ones_are_reported():
    given = messages(plain(60), *[SMALL] * 3)
    known = AgenticConversationPruner(PruneArgs("50k", model="claude-sonnet-4-5")).prune(given, "cache_aware")
    assert not any("prices" in note for note in known.report.fallbacks)
    unknown = AgenticConversationPruner(PruneArgs("50k")).prune(given, "cache_aware")
    assert ["prices are not known" in note for note in unknown.report.fallbacks] == [True]
    listed = AgenticConversationPruner("50k").prune(given, "cache_aware(prices='deepseek')")
    assert not listed.report.fallbacks


@each_row(
    "strategy, said",
    [
        (CacheAware(target=0), "target is 0: give a share of the safe zone, above 0"),
        (CacheAware(threshold=-1), "threshold is -1: give a number, 0 or more"),
        (CacheAware(patience="5"), "patience is '5': give a number"),  # type: ignore[arg-type]
        (CacheAware(cache_life=-1), "cache_life is -1: give a number"),
        (CacheAware(prices=5), "prices of 5: give"),  # type: ignore[arg-type]
        (CacheAware(prices="deepsek"), "did you mean deepseek?"),
        (CacheAware(prices=(0.1, 1)), "at most as much"),
    ],
)
def test_invalid_parameters_are_errors(strategy: CacheAware, said: str):
    with pytest.raises(SettingsError, match=said.replace("?", r"\?")):
        AgenticConversationPruner("50k").prune(messages(plain(60), SMALL, SMALL), strategy)


def test_a_long_loop_costs_less_than_no_pruning_and_than_oldest_first():
    """The reason for all this, at prices of Anthropic's: an agent that reads files, and takes notes of them."""
    note = Step("edit", {"path": "notes.md", "new": "All parts are described. " * 40}, "done")
    given = messages(*[note if at % 4 == 3 else plain(120 + at % 7, f"{at}.txt") for at in range(80)])
    unpruned = bill(given, "tool_output_cleanup", HUGE)
    assert bill(given, "cache_aware", 60_000) < 0.9 * unpruned < 0.9 * bill(given, "tool_output_cleanup", 60_000)


def bill(given: list[Any], strategy: str, safe_zone: int) -> float:
    """What the requests of a loop cost, with a token for four characters."""
    ours, total = AgenticConversationPruner(safe_zone), 0.0
    before: list[Any] = []
    for stop in range(1, len(given), 2):
        sent = ours.prune(given[:stop], strategy).conversation
        pairs = enumerate(zip(before, sent, strict=False))
        same = next((at for at, (old, new) in pairs if old != new), len(before))
        sizes = [len(str(message)) // 4 for message in sent]
        total += LISTS["anthropic"].request(sum(sizes), sum(sizes[:same]))
        before = sent
    return total
