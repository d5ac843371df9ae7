"""The safe zone stays below the point where the client compacts, and its own compaction is left alone."""

import json
from itertools import count
from typing import Any

import pytest

from autoprune.apps.clients.compactions import CompactionRule
from autoprune.apps.proxy import Settings
from autoprune.apps.proxy._pruning import COMPACTING, Job, Outcome, Work
from autoprune.apps.proxy._traffic import ClientSession

MODEL = "claude-sonnet-4-5"  # a window of 200,000
CLAUDE = {"user-agent": "claude-cli/2.1.332 (external, sdk-cli)"}
SUMMARIZE = "Your task is to create a detailed summary of the conversation so far."
SIZES = count(1_000)


def conversation(results: int, tokens: int = 100) -> list[Any]:
    """A conversation in which each result has about this many tokens."""
    found: list[Any] = [{"role": "user", "content": "Mend it."}]
    for at in range(results):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read", "input": {"path": f"{at}.log"}}
        found.append({"role": "assistant", "content": [call]})
        text = f"{at} " + "a b " * (tokens // 2)
        found.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": text}]}
        )
    return found


def send(
    work: Work,
    messages: list[Any],
    session: str = "s",
    client: dict[str, str] = CLAUDE,
    at: float = 0.0,
    model: str = MODEL,
) -> Outcome:
    body = {"model": model, "max_tokens": 1, "messages": messages}
    return work.prune(Job("/v1/messages", {}, json.dumps(body).encode(), session, at, upstream="a", client=client))


def zone(work: Work, client: dict[str, str] = CLAUDE, model: str = MODEL) -> int:
    """The safe zone of a request of a new conversation."""
    account = work.account(send(work, conversation(1), str(next(SIZES)), client, model=model).number)
    assert account
    return account.safe_zone


def ask_to_compact(messages: list[Any]) -> list[Any]:
    return [*messages, {"role": "assistant", "content": "Done."}, {"role": "user", "content": SUMMARIZE}]


@pytest.mark.parametrize(
    ("settings", "client", "expected"),
    [
        (Settings(), CLAUDE, 150_300),
        (Settings(), {"user-agent": "curl/8"}, 180_000),
        (Settings(safe_zone="50k"), CLAUDE, 51_200),
        (Settings(safe_zone=175_000), CLAUDE, 150_300),
        (Settings(compaction=CompactionRule(limit=100_000)), {}, 90_000),
        (Settings(compaction=CompactionRule(is_on=False)), CLAUDE, 180_000),
    ],
    ids=["Claude Code", "unknown", "a small zone", "a large zone", "the user's setting", "switched off"],
)
def test_the_safe_zone_stays_below_the_point_of_compaction(settings: Settings, client: dict[str, str], expected: int):
    assert zone(Work(settings), client) == expected


def test_the_user_may_let_the_client_compact(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AUTOPRUNE_COMPACT_AT", "10m")
    assert zone(Work(Settings())) == 180_000


@pytest.mark.parametrize(
    ("model", "prompt", "expected"),
    [
        (MODEL, 140_000, 126_000),
        (MODEL, 175_000, 157_500),
        (MODEL, 80_000, 150_300),
        ("claude-opus-5-5", 167_000, 150_300),
        ("claude-opus-5-5", 400_000, 870_300),
    ],
    ids=["earlier", "later", "/compact", "a window of a million that is not used", "/compact in one of a million"],
)
def test_a_compaction_that_is_seen_corrects_the_point(model: str, prompt: int, expected: int):
    """Unless it must have been the user's own command."""
    work, messages = Work(Settings()), conversation(30, prompt // 40)
    done = send(work, messages, model=model)
    work.account(done.number)
    work.learn(done.conversation, {"input_tokens": prompt, "output_tokens": 1}, done.number)
    assert send(work, ask_to_compact(messages), at=5.0, model=model).note == COMPACTING
    assert zone(work, model=model) == expected
    assert zone(work, {"user-agent": "curl/8"}, model) == {MODEL: 180_000}.get(model, 980_000)


def test_a_compaction_goes_through_whole_if_it_fits():
    work = Work(Settings(safe_zone=20_000, strategy="low_water"))
    for size, fits in ((2_000, True), (9_000, False)):
        messages = conversation(25, size)
        cleared = send(work, messages, str(size))
        assert cleared.body
        work.account(cleared.number)
        asked = send(work, ask_to_compact(messages), str(size), at=5.0)
        assert (asked.body is None, asked.note == COMPACTING) == (fits, fits)


def test_the_ledger_has_the_cost_of_a_compaction_that_goes_through_whole():
    """What is behind the first cut is written again, but not in a cold cache, and not when the conversation goes on."""
    for pause, is_cold in ((5.0, False), (9_000.0, True)):
        work = Work(Settings(safe_zone=20_000, strategy="low_water"))
        session = ClientSession("s", "claude-cli/2", "/v1/messages", 0.0)
        messages = conversation(25, 2_000)
        asked = ask_to_compact(messages)
        requests = ((messages, 0.0), (asked, pause), (asked, pause + 1), ([*messages, messages[0]], pause + 2))
        nets, accounts = [], []
        for given, at in requests:
            account = work.account((done := send(work, given, at=at)).number)
            assert account
            session.enter_request(account, done, at)
            session.usage = {"input_tokens": account.sent.tokens}
            work.learn(done.conversation, session.usage, done.number)
            nets.append(session.ledger.total.net)
            accounts.append(account)
        first, compaction, _, last = accounts
        prices, behind = first.prices, sum(tokens for _, tokens in compaction.sent.given[2 : len(messages)])
        expected = (prices.write - prices.read) * behind
        saved = prices.read * (last.before - last.after)
        assert nets[0] - nets[1] == pytest.approx(0.0 if is_cold else expected)
        assert nets[2] == pytest.approx(nets[1])  # the second one finds the first one in the cache
        assert nets[3] - nets[2] == pytest.approx(saved)
        assert session.largest == max(first.after, last.after)
        assert [each.note == COMPACTING for each in session.points] == [False, True, True, False]
        assert not session.ledger.unused


def test_a_summarizer_with_a_prompt_of_its_own_costs_the_same_with_and_without_cuts():
    """Nothing is read from the cache either way, so the ledger has no row for it."""
    work, messages = Work(Settings(safe_zone=20_000, strategy="low_water")), conversation(25, 2_000)
    assert work.account(send(work, messages).number)
    own = "You are a helpful AI assistant tasked with summarizing conversations."
    body = {"model": MODEL, "max_tokens": 1, "system": own, "messages": messages}
    asked = work.prune(Job("/v1/messages", {}, json.dumps(body).encode(), "s", 5.0, upstream="a", client=CLAUDE))
    assert (asked.body, asked.note, asked.number) == (None, COMPACTING, 0)


def test_nothing_is_learned_from_the_usage_of_a_compaction():
    """It looks like a miss of the cache, and like the prompt after which the client compacts."""
    work, messages = Work(Settings(safe_zone=20_000, strategy="low_water")), conversation(25, 12_000 // 2)
    for number in range(3):
        for given, read in ((messages, 0), (ask_to_compact(messages), 100), (ask_to_compact(messages), 100)):
            done = send(work, given, f"{number}", at=5.0 * bool(read))
            account = work.account(done.number)
            assert account
            usage = {"input_tokens": account.sent.tokens, "cache_read_input_tokens": read}
            work.learn(done.conversation, usage, done.number)
    account = work.account(send(work, conversation(1), "new").number)
    assert account
    assert (account.prices.life, account.compact_at) == (300.0, 167_000)


def test_a_compaction_by_the_provider_keeps_the_earlier_cuts_if_the_whole_does_not_fit():
    work, items = Work(Settings(safe_zone=100_000, strategy="low_water")), [{"role": "user", "content": "Mend it."}]
    for at in range(60):
        items.append(
            {"type": "function_call", "call_id": f"c{at}", "name": "read", "arguments": f'{{"path": "{at}.log"}}'}
        )
        items.append({"type": "function_call_output", "call_id": f"c{at}", "output": f"{at} " + "a b " * 4_000})
    asked = [*items, {"type": "compaction_trigger"}]
    sent = [
        work.prune(Job("/v1/responses", {}, json.dumps({"model": "gpt-5", "input": each}).encode(), "s", 0.0))
        for each in (items, asked)
    ]
    before, now = (json.loads(done.body or b"{}")["input"] for done in sent)
    assert now == [*before, {"type": "compaction_trigger"}]
    assert before != items
