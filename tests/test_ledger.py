"""The ledger, against bills that are calculated without it."""

import json
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from every_format import requests
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, sample_cases
from rounds import WIRE, Step
from rounds_hypothesis import rounds
from tables import each_row

from autoprune import AgenticConversationPruner, Clamp, ConversationPruner, PruneArgs, SettingsError, ToolInputs
from autoprune.economics import CALL_TOKENS, LISTS, Ledger, Prices, Sent, Tier, Weighed
from autoprune.strategies import CacheAware, LowWater, ToolOutputCleanup, presets

PRICES = Prices(1.25, 0.1, 5, "some", 2e-6)
WORDS = "it was a bright cold day in april and the clocks were striking thirteen\n"


@dataclass(frozen=True)
class Made:
    """The part of a prune's result that a ledger reads."""

    sent: Sent


def messages(*tokens: int, name: str = "m") -> Weighed:
    """Messages with these tokens and different digests."""
    return [(f"{name}{at}", weight) for at, weight in enumerate(tokens)]


def changed(known: Weighed, at: int, tokens: int) -> Weighed:
    """Messages of which one has changed."""
    return [*known[:at], (f"{known[at][0]}'", tokens), *known[at + 1 :]]


def prompt(given: Weighed, sent: Weighed | None = None, **more: Any) -> Made:
    return Made(Sent(given, given if sent is None else sent, **more))


# Closed forms


def cut(ledger: Ledger, removed: int, behind: int, placed: int = 0, *, head: int = 100) -> Weighed:
    """Send a prompt, then one whose second message is cleared; return what was sent."""
    before = messages(head, removed, behind)
    ledger.add(prompt(before))
    after = changed(before, 1, placed)
    ledger.add(prompt(before, after, placeholders=placed))
    return after


def goes_on(ledger: Ledger, sent: Weighed, more: int) -> Weighed:
    """Send what was sent with one more message, as a caller does who stores what was returned."""
    sent = [*sent, (f"new {len(sent)}", more)]
    ledger.add(prompt(sent))
    return sent


@each_row(
    ("prices", "removed", "behind", "placed", "pays"),
    [
        (PRICES, 1_000, 1_000, 0, 12),  # 11.5
        (Prices(1.25, 0.1), 460, 400, 0, 10),
        (Prices(1, 0.1, 8), 95, 35, 5, 4),
        (Prices(1, 0.5, 4), 70, 170, 10, 3),
        (Prices(1, 0.02, 4), 245, 50, 0, 10),
    ],
)
def test_a_prune_pays_exactly_from_its_break_even(prices: Prices, removed: int, behind: int, placed: int, pays: int):
    ledger = Ledger(prices)
    even = prices.break_even(removed - placed, behind + placed)
    sent = cut(ledger, removed, behind, placed)
    nets = []
    for _ in range(pays):
        (entry,) = ledger.entries
        nets.append(entry.net)
        assert entry.net == pytest.approx(prices.read * (removed - placed) * (entry.requests - even), abs=1e-6)
        assert entry.pays_from == max(entry.request + entry.requests, 2 + pays) - 1
        assert ledger.total.pays_from == entry.pays_from
        sent = goes_on(ledger, sent, 50)
    assert [net >= 0 for net in nets] == [False] * (pays - 1) + [True]
    assert (entry.removed, entry.placeholders, entry.rewritten) == (removed, placed, behind + placed)


def test_with_a_cold_cache_a_prune_saves_the_write_price_and_costs_nothing():
    ledger = Ledger(PRICES, cache_life=60)
    before = messages(100, 1_000, 5_000)
    ledger.add(prompt(before))
    ledger.add(prompt(before, changed(before, 1, 50), placeholders=50), pauses={3: 61.0})
    (entry,) = ledger.entries
    assert (entry.rewritten, entry.net) == (0, pytest.approx(1.25 * 950))
    ledger.add(prompt(before, changed(before, 1, 50)), pauses={3: 61.0})
    assert ledger.entries[0].net == pytest.approx(2 * 1.25 * 950)
    ledger.add(prompt(before, changed(before, 1, 50)), pauses={3: 60.0})
    assert ledger.entries[0].net == pytest.approx((2 * 1.25 + 0.1) * 950)


def test_the_table_marks_prunes_at_cold_requests():
    ledger = Ledger(PRICES, cache_life=3_600)
    before = messages(100, 1_000, 5_000, 600)
    ledger.add(prompt(before))
    warm = changed(before, 3, 0)
    ledger.add(prompt(before, warm), pauses={4: 3_600.0})
    ledger.add(prompt(before, changed(warm, 1, 50), placeholders=50), pauses={4: 3_601.0})
    assert [each.is_cold for each in ledger.entries] == [False, True]
    assert (ledger.cold.net, ledger.cold.removed) == (pytest.approx(1.25 * 950), 1_000)
    rows = [line.split() for line in str(ledger).splitlines()[1:4]]
    assert [row[6] for row in rows] == ["0", "cold", "0"]
    words = " ".join(str(ledger).split())
    assert "cold: the cache had expired, so the rewrite was paid for anyway" in words
    assert "the cache is taken to live 1 h." in words
    assert words.endswith("Cold, the rewrite was paid for anyway: 1 prune of these saved 1,188 input tokens ($0.0024).")
    assert max(map(len, str(ledger).splitlines())) <= 80


def test_changed_prices_hold_from_the_next_request():
    ledger = Ledger(PRICES)
    sent = cut(ledger, 1_000, 500)
    ledger.prices = replace(PRICES, write=2, life=3_600)
    ledger.add(prompt(messages(100, 1_000, 500), changed(sent, 0, 40)), pauses={3: 400.0})
    assert [each.rewriting for each in ledger.entries] == [pytest.approx(1.15 * 500), pytest.approx(1.9 * 540)]
    assert not ledger.entries[1].is_cold


def test_a_reread_costs_a_request_and_its_tokens_at_each_later_one():
    ledger = Ledger(PRICES)
    before = messages(100, 1_000)
    ledger.add(prompt(before))
    after = changed(before, 1, 40)
    ledger.add(prompt(before, after, placeholders=40, cleared=["one", "two"]))
    net = ledger.total.net
    again = [*after, ("again", 900)]
    ledger.add(prompt(again, fetched=[("one", 900), ("other", 7)]))
    cost = PRICES.request(140, 140, CALL_TOKENS) + 1.25 * 900
    assert ledger.total.rereading == pytest.approx(cost)
    assert ledger.total.net == pytest.approx(net + 0.1 * 960 - cost)
    ledger.add(prompt(again, fetched=[("one", 900)]))  # it was not cleared again
    (entry,) = ledger.entries
    assert (entry.rereads, entry.refetched) == (1, 900)
    assert entry.net == pytest.approx(net + 2 * 0.1 * 960 - cost - 0.1 * 900)


def test_results_fetched_together_cost_one_request():
    ledger = Ledger(PRICES)
    before = messages(100, 1_000)
    ledger.add(prompt(before))
    ledger.add(prompt(before, changed(before, 1, 40), cleared=["one", "two"]))
    ledger.add(prompt(changed(before, 1, 40), fetched=[("one", 300), ("two", 200)]))
    assert ledger.total.rereading == pytest.approx(PRICES.request(140, 140, CALL_TOKENS) + 1.25 * 500)


@each_row(("cost", "expected"), [(None, 3_000 + 5 * 200), (0.5, 0.5 / 2e-6), (0.0, 0)])
def test_summarizing_is_charged_by_its_cost_or_by_its_tokens(cost: float | None, expected: float):
    ledger = Ledger(PRICES)
    before = messages(100, 1_000, 20)
    ledger.add(prompt(before))
    asked = {"model_input": 3_000, "model_output": 200, "model_cost": cost}
    ledger.add(prompt(before, changed(before, 1, 90), placeholders=90, **asked))
    assert ledger.total.summarizing == pytest.approx(expected)
    assert ledger.total.money == pytest.approx(ledger.total.net * 2e-6)


@each_row("other", [(80, 70), (70, 750, 370)])  # the second is smaller by a little more than a quarter
def test_another_conversation_ends_the_prunes_of_the_previous_one(other: tuple[int, ...]):
    ledger = Ledger(PRICES)
    cut(ledger, 1_000, 500)
    net = ledger.total.net
    ledger.add(prompt(messages(*other, name="other")))
    ledger.add(prompt(messages(*other, 60, name="other")))
    (entry,) = ledger.entries
    assert (entry.net, entry.requests, entry.is_over) == (net, 1, True)
    assert entry.pays_from == ledger.total.pays_from == math.inf
    assert entry.verdict == "The prune at request 2 lost money: 475 input tokens ($0.0009)."


@each_row("keeps_full", [True, False])
def test_the_callers_own_changes_are_not_charged_to_a_prune(keeps_full: bool):
    ledger = Ledger(PRICES)
    before = messages(100, 1_000, 500)
    sent = cut(ledger, 1_000, 500)
    net = ledger.total.net
    for number in range(3):  # a system message that tells the time
        now = [(f"time {number}", 100), *(before if keeps_full else sent)[1:]]
        ledger.add(prompt(now, changed(now, 1, 0) if keeps_full else None))
    (entry,) = ledger.entries
    # Without the prune 1,000 tokens more would have been written at each request.
    assert entry.net == pytest.approx(net + 3 * 1.25 * 1_000)


@each_row(("at", "lost"), [(3, 250), (0, 1_500)])
def test_a_change_before_or_after_dropped_messages_loses_what_the_whole_history_would_lose(at: int, lost: int):
    ledger = Ledger(PRICES)
    whole = messages(100, 600, 300, 50, 200, 150, 100)
    sent = [whole[0], *whole[3:]]
    ledger.add(prompt(whole))
    ledger.add(prompt(whole, sent))
    net = ledger.total.net
    known = changed(sent, at, sent[at][1])
    ledger.add(prompt(known))
    # The prune saves reading what it dropped, or writing it where the change would have had it written anew.
    behind = sum(tokens for _, tokens in sent[at:])
    assert ledger.total.net == pytest.approx(net + 0.1 * 900 + 1.15 * (lost - behind))


@each_row("at", [4, 5, 6])
def test_a_user_who_goes_back_behind_dropped_messages_continues_the_conversation(at: int):
    ledger = Ledger(PRICES)
    whole = messages(100, 600, 300, 50, 200, 150, 300)
    ledger.add(prompt(whole))
    ledger.add(prompt(whole, [whole[0], *whole[3:]]))
    net, known = ledger.total.net, whole[:at]
    for number in range(4):
        known = [*known, (f"again {number}", 120)]
        ledger.add(prompt(known, [known[0], *known[3:]]))
    assert ledger.total.net == pytest.approx(net + 4 * 0.1 * 900)


def test_branches_in_turns_are_compared_with_their_own_prompts_and_save_by_their_own_prunes():
    ledger = Ledger(PRICES)
    whole = messages(100, 600, 300)
    main, fork = ([*whole, *messages(first, 50, 50, name=name)] for name, first in (("main", 50), ("fork", 200)))
    for known in (whole, main[:4], fork[:4]):
        ledger.add(prompt(known))
    ledger.add(prompt(main[:5], changed(main[:5], 1, 0)))
    ledger.add(prompt(fork[:5]))
    ledger.add(prompt(main, changed(main, 1, 0)))
    assert ledger.total.net == pytest.approx(2 * 0.1 * 600 - 1.15 * 350)
    read, written = 1_000 + 1_000 + 1_050 + 1_200 + 1_100, 1_000 + 50 + 200 + 50 + 50 + 50
    assert ledger.unpruned == pytest.approx(0.1 * read + 1.25 * written)


def test_each_of_twenty_branches_in_turns_reads_its_own_prompt_from_the_cache():
    ledger = Ledger(PRICES)
    whole = messages(100, 600, 300)
    branches = [[*whole, *messages(50, 50, name=f"{at} ")] for at in range(20)]
    for known in (whole, *(each[:4] for each in branches), *branches):
        ledger.add(prompt(known))
    assert ledger.unpruned == pytest.approx(0.1 * 20 * (1_000 + 1_050) + 1.25 * (1_000 + 20 * 50 + 20 * 50))


def test_a_changed_newest_message_directly_behind_dropped_ones_loses_only_itself():
    ledger = Ledger(PRICES)
    whole = messages(100, 600, 300, 50)
    ledger.add(prompt(whole))
    ledger.add(prompt(whole, [whole[0], whole[3]]))
    net, now = ledger.total.net, changed(whole, 3, 50)
    ledger.add(prompt(now, [now[0], now[3]]))
    assert ledger.total.net == pytest.approx(net + 0.1 * 900)


def test_a_changed_newest_message_behind_dropped_ones_loses_only_itself_where_marks_store_prefixes():
    ledger = Ledger(PRICES)
    whole = messages(100, 600, 300, 50, 200, 150, 100)

    def request(given: Weighed, *, dropped: bool = True) -> None:
        sent = [given[0], *given[3:]] if dropped else given
        ledger.add(prompt(given, sent, marks=((0, len(sent)),)))

    request(whole[:6], dropped=False)
    request(whole[:6])
    request(whole)
    net = ledger.total.net
    request(changed(whole, 6, 100))
    assert ledger.total.net == pytest.approx(net + 0.1 * 900)


@each_row(("pause", "price"), [(0.0, 1.25), (60.0, 0.1), (301.0, 1.25)])
def test_what_an_earlier_process_removed_saves_a_read_while_the_cache_lives(pause: float, price: float):
    ledger, whole = Ledger(PRICES), messages(100, 1_000, 500)
    ledger.add(prompt(whole, changed(whole, 1, 0)), pauses={3: pause})
    assert ledger.total.net == pytest.approx(price * 1_000)


# Reconciled with bills


@dataclass
class Loop:
    """A live loop in one calling style; the bills are made up from what it sent, message by message."""

    pruner: Any
    strategy: Any
    feeds_back: bool
    ledger: Ledger
    is_stored: bool = False
    sent: list[Any] = field(default_factory=list)
    read: int = 0
    prompts: list[list[Any]] = field(default_factory=list)

    def play(self, known: Sequence[Any], pauses: dict[int, float]) -> None:
        """Make each request of a conversation; `pauses` are by the number of the request."""
        for number, at in enumerate(requests(list(known))):
            given = [*self.sent, *known[self.read : at]] if self.feeds_back else list(known[:at])
            result = self.pruner.prune(given, self.strategy)
            self.ledger.add(result, pauses={len(given): pauses.get(number, 0.0)})
            if self.is_stored:
                self.ledger = Ledger.from_dict(json.loads(json.dumps(self.ledger.to_dict())))
            self.sent, self.read = result.conversation, at
            self.prompts.append(self.sent)


# With pruners


def bill(pruner: Any, prompts: Sequence[list[Any]], pauses: dict[int, float], prices: Prices) -> float:
    """What prompts cost: each is read from the cache as far as it begins as the one before did."""
    count = pruner.count_tokens
    total = prices.request(count(prompts[0]), 0)
    for number, (before, now) in enumerate(pairwise(prompts), 1):
        same = next((at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), None)
        same = min(len(before), len(now)) if same is None else same
        held = 0 if pauses.get(number, 0.0) > prices.life else count(now[:same]) if same else count([]) or 3
        total += prices.request(count(now), held)
    return total


CLEARING = (
    ToolOutputCleanup(),
    LowWater(0.6),
    CacheAware(prices=(1.25, 0.1)),
    ToolOutputCleanup(clamp=Clamp(60), clear_tool_inputs=ToolInputs(above=20)),
)


FOLDING = (presets.truncate(1), presets.keep_last(3), presets.summarize(), presets.sliding_window(2, keep=1))


PAUSES = st.dictionaries(st.integers(1, 12), st.sampled_from((299.0, 301.0, 3_601.0)), max_size=3)


@given(st.data())
@examples(80)
def test_the_differences_of_all_requests_equal_the_sums_of_all_prunes(data: st.DataObject):
    made = [each for _ in range(3) for each in data.draw(rounds())]
    known = WIRE[data.draw(st.sampled_from(sorted(WIRE)))](made)
    strategy = data.draw(st.sampled_from((*CLEARING, *FOLDING)))
    prices, share, pauses = (
        LISTS[data.draw(st.sampled_from(sorted(LISTS)))],
        data.draw(st.integers(10, 90)),
        data.draw(PAUSES),
    )
    kind = ConversationPruner if strategy in FOLDING else AgenticConversationPruner
    zone = max(1, kind(None).count_tokens(known) * share // 100)
    if data.draw(st.booleans()):
        prices = replace(prices, tiers=(Tier(zone // 2, 1.5, 1.5), Tier(zone, 5, 5)))
    found = []
    for feeds_back in (False, True):
        loop = Loop(kind(PruneArgs(zone)), strategy, feeds_back, Ledger(prices), is_stored=feeds_back)
        loop.play(known, pauses)
        unpruned = bill(loop.pruner, [list(known[:at]) for at in requests(known)], pauses, prices)
        saved = unpruned - bill(loop.pruner, loop.prompts, pauses, prices)
        total = loop.ledger.total
        assert total.saved - total.rewriting == pytest.approx(saved, abs=1e-4)
        assert total.net == pytest.approx(saved - total.rereading - total.summarizing, abs=1e-4)
        assert loop.ledger.unpruned == pytest.approx(unpruned, abs=1e-4)
        assert loop.ledger.requests == len(loop.prompts)
        found.append({**loop.ledger.to_dict(), "cleared": None})  # a result that was cut reads otherwise
    assert found[0] == found[1]


def reading(*texts: str) -> list[Any]:
    """A conversation in which a file is read at each request."""
    steps = [Step("read", {"path": f"{at}.py"}, text) for at, text in enumerate(texts)]
    return WIRE["openai_chat"]([[step] for step in steps])


def played(known: list[Any], zone: int, **more: Any) -> Ledger:
    loop = Loop(AgenticConversationPruner(zone, **more), ToolOutputCleanup(), False, Ledger(PRICES))
    loop.play(known, {})
    return loop.ledger


@each_row(("text", "rereads"), [(WORDS * 20, 1), (WORDS * 19, 0)])
def test_only_the_same_call_with_the_same_result_is_a_reread(text: str, rereads: int):
    known = reading(WORDS * 20, *[f"{at}\n" + WORDS * 20 for at in range(6)])
    again = WIRE["openai_chat"]([[Step("read", {"path": "0.py"}, text)], "Go on."])[1:]
    assert played([*known, *again], 1_000).total.rereads == rereads


def test_a_prunes_result_holds_the_given_and_the_sent_prompt():
    known = reading(WORDS * 20, WORDS)
    pruner = AgenticConversationPruner(PruneArgs(300, overhead_tokens=50))
    found = pruner.prune(known).sent
    assert found.tokens == pruner.count_tokens(pruner.prune_conversations(known))
    assert sum(tokens for _, tokens in found.given) + found.beside == pruner.count_tokens(known)
    assert (
        [one == other for one, other in zip(found.given, found.sent, strict=True)].count(False)
        == len(found.cleared)
        == 1
    )
    assert 0 < found.placeholders < 40
    cut = AgenticConversationPruner(10_000).prune(known, ToolOutputCleanup(clamp=Clamp(10))).sent
    assert (cut.placeholders, len(cut.fetched)) == (0, 1)  # what was never sent has no placeholder that is written anew


# What the provider reports


class Details:
    """A part of a usage, as SDKs have it."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


@each_row(
    "usage",
    [
        {"prompt_tokens": 1_200, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 700}},
        Details(prompt_tokens=1_200, prompt_tokens_details=Details(cached_tokens=700)),
        {"input_tokens": 1_200, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 700}},
        {"input_tokens": 100, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 400},
        Details(input_tokens=500, cache_read_input_tokens=700, cache_creation_input_tokens=None),
        {"inputTokens": 100, "cacheReadInputTokens": 700, "cacheWriteInputTokens": 400},
        {"promptTokenCount": 1_200, "cachedContentTokenCount": 700},
        {"prompt_tokens": 1_200, "prompt_cache_hit_tokens": 700, "prompt_cache_miss_tokens": 500},
    ],
)
def test_with_usage_figures_are_in_the_providers_tokens(usage: object):
    plain, reconciled = Ledger(PRICES), Ledger(PRICES)
    first, second = messages(400, 600), messages(400, 600, 500)
    for ledger in (plain, reconciled):
        ledger.add(prompt(first))
    plain.add(prompt(second, changed(second, 0, 100), placeholders=100))
    reconciled.add(prompt(second, changed(second, 0, 100), placeholders=100), usage=usage)
    (known,) = reconciled.reported
    assert (known.counted, known.expected, known.prompt, known.cached) == (1_000, 0, 1_200, 700)
    assert reconciled.total.net == pytest.approx(1.2 * plain.total.net)
    assert reconciled.unpruned == pytest.approx(1.2 * plain.unpruned)
    assert (reconciled.total.removed, reconciled.total.rewritten) == (480, 840)
    assert "reported 1,200 prompt tokens, 700 of them from its cache" in " ".join(str(reconciled).split())


@each_row(
    "usage",
    [
        *({}, {"prompt_tokens": 0}, 5, Details(total=3), {"prompt_tokens": True}),
        *({"prompt_tokens": -5}, {"prompt_tokens": 10**400}, {"prompt_tokens": 5.0}, {"prompt_tokens": math.inf}),
    ],
)
def test_a_usage_without_tokens_raises_and_changes_nothing(usage: object):
    ledger = Ledger(PRICES)
    ledger.add(prompt(messages(400)))
    before = ledger.to_dict()
    with pytest.raises(SettingsError, match="names no input tokens"):
        ledger.add(prompt(messages(400, 10)), usage=usage)
    assert ledger.to_dict() == before


def test_what_was_removed_counts_at_the_size_of_results_and_not_with_the_thinking_of_answers():
    """A counted token of a result is 1.5 of the provider's, and each answer has 900, of which 100 are counted."""
    ledger, known, usage = Ledger(PRICES), [("ask", 1_000)], None
    for at in range(5):
        ledger.add(prompt(list(known), answers=100 * at), usage=usage)
        usage = {"input_tokens": 1_500 + at * (1_500 + 900), "output_tokens": 900}
        known += [(f"answer {at}", 100), (f"result {at}", 1_000)]
    sent = changed(known, 2, 50)
    ledger.add(prompt(known, sent, placeholders=50, answers=500), usage=usage)
    counted = sum(1_000 + at * 1_100 for at in range(5))
    whole = sum(1_500 + at * 2_400 for at in range(5)) / counted
    assert (ledger.tokens_per_text, ledger.tokens_per_counted) == (pytest.approx(1.5), pytest.approx(whole))
    (entry,) = ledger.entries
    assert (entry.removed, entry.placeholders) == (1_500, 75)
    assert entry.saved == pytest.approx(1.5 * 0.1 * 950)
    assert entry.rewriting == pytest.approx(whole * 1.15 * ledger._entries[0].rewritten)
    assert f"{whole:.3f} of the provider's, and one of a result as 1.500." in " ".join(str(ledger).split())


def thinking_session(results: int) -> list[dict[str, Any]]:
    """Calls after thinking whose text the provider withholds, each answered by a long result."""
    known: list[dict[str, Any]] = [{"role": "user", "content": "Find it."}]
    for at in range(results):
        thought = {"type": "thinking", "thinking": "", "signature": f"c2lnbmVk{at}"}
        call = {"type": "tool_use", "id": f"t{at}", "name": "read", "input": {"path": f"{at}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": f"{at} {WORDS * 40}"}
        known += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    return known


@each_row("stored", [False, True])
def test_thinking_that_the_provider_withholds_counts_where_an_edit_makes_it_invalid(stored: bool):
    """Each answer has 300 tokens, of which a call is visible; a prune invalidates the thinking since the last one."""
    pruner = AgenticConversationPruner(2_000, model="claude-opus-5-5")
    ledger, known, usage = Ledger(model="claude-opus-5-5"), thinking_session(9), None
    lost = []
    for at in range(10):
        result = pruner.prune(known[: 1 + 2 * at], LowWater(target=0.5))
        ledger.add(result, usage=usage)
        hidden = 0 if result.sent.thought is None else 300 - result.sent.thought[1]
        usage = {"input_tokens": result.sent.tokens + at * hidden, "output_tokens": 300}
        lost.append(ledger.total.thinking / hidden if hidden else 0.0)
        if stored:
            ledger = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert [round(each, 1) for each in lost] == [0, 0, 0, 0, 3, 3, 3, 6, 6, 8]
    assert "thought: tokens of thinking that the prune made invalid" in str(ledger)


@each_row(
    ("prompt_tokens", "is_used"),
    [(1, False), (499, False), (500, True), (4_000, True), (4_001, False), (10**12, False)],
)
def test_a_usage_that_cannot_be_true_is_not_used(prompt_tokens: int, is_used: bool):
    plain, told = Ledger(PRICES), Ledger(PRICES)
    first, second = messages(400, 600), messages(400, 600, 500)
    for ledger in (plain, told):
        ledger.add(prompt(first))
    plain.add(prompt(second, changed(second, 0, 100), placeholders=100))
    usage = {"prompt_tokens": prompt_tokens, "prompt_tokens_details": {"cached_tokens": 10**9}}
    told.add(prompt(second, changed(second, 0, 100), placeholders=100), usage=usage)
    known = [(each.counted, each.prompt, each.cached) for each in (told.reported if is_used else told.unused)]
    assert known == [(1_000, prompt_tokens, min(10**9, prompt_tokens))]
    assert (len(told.reported), len(told.unused)) == (is_used, not is_used)
    ratio = prompt_tokens / 1_000 if is_used else 1.0
    assert told.total.net == pytest.approx(ratio * plain.total.net)
    assert told.unpruned == pytest.approx(ratio * plain.unpruned)
    said = f"provider reported {prompt_tokens:,} prompt tokens, and 1,000 were counted. This usage is not used"
    assert (said in " ".join(str(told).split())) is not is_used
    assert str(Ledger.from_dict(json.loads(json.dumps(told.to_dict())))) == str(told)


def test_impossible_arguments_raise_a_clear_error():
    with pytest.raises(SettingsError, match=r"the ledger was given list: give the Result of prune\(\)"):
        Ledger().add([])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="there was none"):
        Ledger(PRICES).add(prompt(messages(400)), usage={"prompt_tokens": 5})
    with pytest.raises(SettingsError, match="by the index of a message"):
        Ledger(PRICES).add(prompt(messages(400)), pauses={1: -1.0})
    with pytest.raises(SettingsError, match="did you mean anthropic"):
        Ledger("antropic")
    for life in (-1, True, "5"):
        with pytest.raises(SettingsError, match="cache_life"):
            Ledger(cache_life=life)  # type: ignore[arg-type]


# Marks for the cache that move from request to request

MARK = {"cache_control": {"type": "ephemeral"}}


def on_the_last_blocks(messages: list[Any]) -> None:
    """Mark the last block of each of the last two messages, as Claude Code does."""
    for message in messages[-2:]:
        if isinstance(message["content"], list):
            message["content"][-1] |= MARK


def on_texts_made_blocks(messages: list[Any]) -> None:
    """Mark the last message, for which a text becomes a block, also inside a result."""
    blocks = messages[-1]["content"]
    held = blocks[-1] if isinstance(blocks, list) else messages[-1]
    held["content"] = [{"type": "text", "text": held["content"], **MARK}]


def on_the_last_message(messages: list[Any]) -> None:
    messages[-1] |= MARK


def behind_the_last_block(messages: list[Any]) -> None:
    """Put Bedrock's mark, a block of its own, behind the last one."""
    messages[-1]["content"].append({"cachePoint": {"type": "default"}})


@pytest.mark.full
@pytest.mark.parametrize("strategy", sample_cases(["tool_output_cleanup", "low_water", "cache_aware"], 2))
@pytest.mark.parametrize(
    ("wire", "mark"),
    [
        ("anthropic", on_the_last_blocks),
        ("anthropic", on_texts_made_blocks),
        ("anthropic", on_the_last_message),
        ("openai_chat", on_the_last_message),
        ("openai_chat", on_texts_made_blocks),
        ("bedrock", behind_the_last_block),
    ],
)
def test_moving_cache_control_marks_changes_nothing_in_a_ledger_but_what_a_cut_rewrote(
    wire: str, mark: Callable[[list[Any]], None], strategy: str
):
    steps = [[Step("read", {"path": f"{at}.py"}, f"{at} {WORDS * 40}")] for at in range(24)]
    whole = WIRE[wire](steps)
    plain, marked = Ledger(PRICES), Ledger(PRICES)
    pruners = [AgenticConversationPruner("6k") for _ in range(2)]
    ends = [at for at in range(1, len(whole) + 1) if at == len(whole) or whole[at].get("role") == "assistant"]
    for at in ends:
        given, moved = deepcopy(whole[:at]), deepcopy(whole[:at])
        mark(moved)
        for ledger, pruner, messages in ((plain, pruners[0], given), (marked, pruners[1], moved)):
            ledger.add(pruner.prune(messages, strategy))
    assert len(plain.entries) > 2
    assert marked.unpruned == pytest.approx(plain.unpruned)
    pairs = [*zip(plain.entries, marked.entries, strict=True)]
    assert [replace(one, rewritten=0, rewriting=0) for one, _ in pairs] == [
        replace(other, rewritten=0, rewriting=0) for _, other in pairs
    ]
    assert all(other.rewritten >= one.rewritten for one, other in pairs)


# For people, and for files


def test_a_ledger_prints_losses_and_when_prunes_pay():
    ledger = Ledger(PRICES)
    cut(ledger, 12_000, 8_000, 240)
    assert str(ledger) == (
        " request removed  placed rewrote  lasted   saved   cache re-read   model     net\n"
        "       2  12,000     240   8,000       1   1,176   9,476       0       0  -8,300\n"
        "   total  12,000     240   8,000       2   1,176   9,476       0       0  -8,300\n"
        "\n"
        "request: number of the request that was pruned; removed: tokens taken out\n"
        "placed: tokens of placeholders, or of a summary, in their place\n"
        "rewrote: tokens after the first change, which the cache had to store again\n"
        "lasted: requests since then, including the first\n"
        "In input tokens, each at its price -- saved: tokens that are no longer sent\n"
        "cache: cost of writing placed and rewrote, beyond that of reading them\n"
        "re-read: cost of fetching removed results again; model: cost of summaries\n"
        "net: saved - cache - re-read - model; below zero, the prune lost money\n"
        "Prices in input tokens: 1.25 for one written to the cache, 0.1 for one read.\n"
        "\n"
        "The prune at request 2 has so far lost money: 8,300 input tokens ($0.0166); it\n"
        "pays from request 10 on.\n"
        "In 2 requests, 1 prune lost 8,300 input tokens ($0.0166) in all."
    )
    assert str(ledger.total) == "In 2 requests, 1 prune lost 8,300 input tokens ($0.0166) in all."


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)), max_size=9), st.sampled_from(sorted(LISTS)))
@examples(80)
def test_the_table_is_80_columns_wide_and_names_all_losses(sizes: list[tuple[int, int]], name: str):
    ledger = Ledger(name)
    sent: Weighed = messages(10)
    ledger.add(prompt(sent))
    for behind, removed in sizes:
        sent = [*sent, *messages(removed, behind, name=f"{len(sent)} ")]
        ledger.add(prompt(sent))
        ledger.add(prompt(sent, changed(sent, len(sent) - 2, 0)))
        sent = changed(sent, len(sent) - 2, 0)
    shown = str(ledger)
    assert max(map(len, shown.splitlines())) <= 80
    assert {len(line.split()) for line in shown.partition("\n\n")[0].splitlines() if ledger.entries} <= {10}
    losers = [each.request for each in ledger.entries if each.net < 0]
    assert [number for number in losers if str(number) not in " ".join(shown.split("Prices")[1].split())] == []
    assert ("lost money:" in shown) == bool(losers)
    assert [each.verdict != "" for each in ledger.entries] == [each.net < 0 for each in ledger.entries]


def test_a_ledger_without_prunes_says_so():
    ledger = Ledger(model="claude-sonnet-4-5")
    assert str(ledger) == "Nothing was pruned in 0 requests."
    ledger.add(prompt(messages(5)))
    assert str(ledger) == "Nothing was pruned in 1 request."
    assert (ledger.entries, ledger.total.net, ledger.total.money) == ((), 0, 0)


def test_records_of_earlier_versions_are_read():
    ledger = Ledger(PRICES)
    cut(ledger, 1_000, 500, 20)
    older = json.loads(json.dumps(ledger.to_dict()))
    del older["prices"]["life"], older["entries"][0]["is_cold"]
    for life, expected in (({}, 300), ({"cache_life": 60}, 60)):
        again = Ledger.from_dict({**older, **life})
        assert (again.prices.life, again.entries[0].is_cold) == (expected, False)
        assert again.total.net == ledger.total.net


def test_an_incomplete_record_raises_an_error_that_names_the_key():
    ledger = Ledger(PRICES)
    cut(ledger, 1_000, 500, 20)
    stored = json.loads(json.dumps(ledger.to_dict()))
    del stored["entries"][0]["saved"]
    for record, name in (({}, "prices"), (stored, "saved")):
        with pytest.raises(SettingsError, match=f"the record of a ledger has no '{name}': give all that to_dict"):
            Ledger.from_dict(record)
