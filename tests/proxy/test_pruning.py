"""What pruning remembers between requests: the calibration, pauses, outcomes and payloads."""

import json
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from proxy.conftest import body
from reading_tasks import document
from rounds import WIRE, Step

from autoprune.apps.proxy import Settings
from autoprune.apps.proxy._pruning import Account, Job, Outcome, Payloads, Target, Work

WORDS = ("alpha", "beta", "gamma", "delta", "src/main.py", "error:", "None", "return")
MODEL = "gpt-5"
NUMBERS = count(1)


def conversation(results: int) -> list[Any]:
    """A conversation with this many different results of 570 tokens."""
    random = Random(7)
    found: list[Any] = [{"role": "user", "content": "Mend it."}]
    for at in range(results):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "{at}.py"}}'}}
        text = " ".join(random.choices(WORDS, k=400))
        found.append({"role": "assistant", "content": None, "tool_calls": [call]})
        found.append({"role": "tool", "tool_call_id": f"c{at}", "content": text})
    return found


def pruned(work: Work, results: int, at: float) -> tuple[Outcome, Account]:
    """Prune a conversation with this many results at a time in seconds; return the outcome and its account."""
    known = json.dumps({"model": MODEL, "messages": conversation(results)}).encode()
    done = work.prune(Job("/v1/chat/completions", {}, known, "s", at))
    account = work.account(done.number)
    assert account
    return done, account


def test_the_usage_of_an_answer_calibrates_the_next_prune():
    after = []
    for factor in (1, 2):
        work = Work(Settings(safe_zone="20k", strategy="low_water"))
        done, account = pruned(work, 25, 0.0)
        assert account.before == account.after < 20_480
        work.learn(done.conversation, {"input_tokens": factor * account.after}, done.number)
        after.append(pruned(work, 26, 5.0)[1])
    assert not after[0].cleared
    assert after[1].cleared
    # The account is in the provider's tokens too, as the safe zone is.
    assert after[1].before == 2 * after[0].before
    assert after[1].after <= after[1].safe_zone == 20_480


def test_a_late_answer_calibrates_by_its_own_prompt():
    """While it was on its way, a side question about a part of the conversation was sent."""
    work = Work(Settings(safe_zone="200k"))
    done, account = asked(work, 60)
    side, _ = asked(work, 20)
    work.learn(side.conversation, {"input_tokens": account.after}, done.number)
    _, after = asked(work, 61)
    assert (done.conversation, after.cleared) == (side.conversation, ())
    assert after.before < 1.1 * account.before


def test_a_late_answer_shows_the_cache_life_that_its_own_request_asked_for():
    """A side question without an hour's cache is answered after the conversation's request for an hour."""
    work, hour = Work(Settings(safe_zone="200k")), {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    short, _ = asked(work, 10)
    asked(work, 11, **hour)
    usage = {"input_tokens": 9, "cache_creation": {"ephemeral_5m_input_tokens": 9}}
    work.learn(short.conversation, usage, short.number)
    _, account = asked(work, 12, **hour)
    assert account.prices.life == 3_600


def asked(work: Work, results: int, **others: Any) -> tuple[Outcome, Account]:
    """Prune a request with this many results in Anthropic's format."""
    done = work.prune(Job("/v1/messages", {}, body(results, **others), "s", 0.0))
    account = work.account(done.number)
    assert account
    return done, account


def test_the_fast_mode_has_its_price():
    usual, fast = (
        asked(Work(Settings()), 3, model="claude-opus-4-6", speed=speed)[1] for speed in ("standard", "fast")
    )
    assert (usual.prices.input_price, fast.prices.input_price) == (5e-6, 30e-6)


def test_a_cache_mark_before_a_cut_is_sent_and_noted():
    mark = {"cache_control": {"type": "ephemeral"}}
    work = Work(Settings(safe_zone="20k"))
    known = json.loads(body(30))
    known["messages"][-1]["content"][-1] |= mark
    done = work.prune(Job("/v1/messages", {}, json.dumps(known).encode(), "s", 0.0))
    sent = json.loads(done.body or b"{}")["messages"]
    at = next(at for at, message in enumerate(sent) if "cache_control" in json.dumps(message))
    account = work.account(done.number)
    assert account
    assert (
        account.decisions[-1] == f"a cache mark was added to message {at}, since the client's marks are after the cut"
    )
    assert at < len(sent) - 1
    assert "cache_control" in sent[-1]["content"][-1]


def arms(settings: Settings, count: int = 200) -> list[str]:
    """The arms that a new worker gives to conversations."""
    work, found = Work(settings), []
    for at in range(count):
        request = {"model": MODEL, "messages": [{"role": "user", "content": f"Mend {at}."}]}
        account = work.account(work.prune(Job("/v1/chat/completions", {}, json.dumps(request).encode(), "", 0)).number)
        assert account
        found.append(account.arm)
    return found


@pytest.mark.full
def test_a_holdout_draws_the_same_share_of_conversations_in_every_worker():
    drawn = arms(Settings(holdout=0.2, holdout_seed="a"))
    assert drawn == arms(Settings(holdout=0.2, holdout_seed="a"))
    assert drawn != arms(Settings(holdout=0.2, holdout_seed="b"))
    assert 25 <= drawn.count("unpruned") <= 55
    assert {*arms(Settings(), 5)} == {""}


@pytest.mark.parametrize(("share", "arm"), [(1.0, "unpruned"), (0.0, "")])
def test_a_conversation_that_is_held_out_is_forwarded_as_it_came(share: float, arm: str):
    work = Work(Settings(safe_zone="2k", strategy="low_water", holdout=share))
    for results in (10, 20, 30):  # each asks another model
        request = {"model": f"{MODEL}-{results}", "messages": conversation(results)}
        done = work.prune(Job("/v1/chat/completions", {}, json.dumps(request).encode(), "s", 0.0))
        account = work.account(done.number)
        assert account
        is_whole = done.body is None, account.before == account.after, not account.cleared
        assert (account.arm, *is_whole) == (arm, *[bool(share)] * 3)
    assert ("held out" in done.note) is bool(share)


def test_a_usage_that_cannot_be_true_changes_no_prune():
    after = []
    for factor in (0.1, 1, 4_538):
        work = Work(Settings(safe_zone="20k", strategy="low_water"))
        done, account = pruned(work, 30, 0.0)
        work.learn(done.conversation, {"input_tokens": int(factor * account.after)}, done.number)
        after.append(pruned(work, 40, 5.0)[1].after)
    assert len({*after}) == 1


def test_a_repeated_request_gets_the_same_bytes_and_lists_no_result_again():
    work = Work(Settings(safe_zone="20k"))
    first, again = (work.prune(Job("/v1/messages", {}, body(30), session="s", at=at)) for at in (100.0, 101.0))
    assert first.body
    assert replace(again, number=first.number, seconds=first.seconds) == first
    account = work.account(first.number)
    assert account
    assert account.cleared
    assert work.account(again.number) == replace(account, cleared=())
    assert work.account(again.number) is None


class Raising:
    """A strategy that raises."""

    name = "raising"
    every_request = True

    def step(self, view: object) -> list[Any]:
        return [1 // 0]


def test_an_account_that_fails_is_due_no_more():
    work = Work(Settings(safe_zone="2k"))
    known = work.prune(Job("/v1/messages", {}, body(8), "s", 0.0))
    work._payloads = None
    with pytest.raises(AttributeError):
        work.account(known.number)
    assert work._open == {}


def test_a_number_that_json_cannot_represent_is_sent_unchanged_and_opens_no_account():
    work = Work(Settings(safe_zone="2k"))
    infinite = body(8).replace(b'"model"', b'"temperature": 1e999, "model"')
    outcome = work.prune(Job("/v1/messages", {}, infinite, "s", 0.0))
    assert outcome.body is None
    assert outcome.note.startswith("ValueError")
    assert work._open == {}


def test_if_pruning_raises_the_request_is_sent_unchanged():
    work = Work(Settings(safe_zone="2k"))
    work._strategy = Raising()
    done = work.prune(Job("/v1/messages", {}, body(8), "s", 0.0))
    assert (done.body, done.conversation, done.note.partition(":")[0]) == (None, "", "ZeroDivisionError")


def test_concurrent_requests_of_a_conversation_have_separate_accounts():
    work = Work(Settings(safe_zone="2k"))
    pruned(work, 1, 0.0)
    bodies = [json.dumps({"model": MODEL, "messages": conversation(results)}).encode() for results in range(2, 12)]
    numbers = [work.prune(Job("/v1/chat/completions", {}, each, "s", 0.0)).number for each in bodies]
    accounts = [work.account(number) for number in numbers]
    assert [account and account.messages for account in accounts] == [1 + 2 * results for results in range(2, 12)]
    assert not any(map(work.account, numbers))


def test_all_accounts_are_made_even_for_forgotten_conversations():
    work = Work(Settings(safe_zone="2k"))
    found = [work.prune(Job("/v1/messages", {}, body(8, tag=f" {number}"), "", 0.0)).number for number in range(80)]
    assert all(map(work.account, found))


def test_half_a_surrogate_pair_is_sent_unchanged():
    cut = json.loads(body(8))
    cut["messages"][-1]["content"][0]["content"] = "an emoji that was cut \ud83d"
    done = Work(Settings(safe_zone="2k")).prune(Job("/v1/messages", {}, json.dumps(cut).encode(), "", 0.0))
    assert done.body
    assert json.loads(done.body)["messages"][-1] == cut["messages"][-1]
    assert len(done.body) < len(json.dumps(cut)) / 2


def test_a_history_kept_by_the_provider_is_not_pruned():
    known = {"input": [{"role": "user", "content": "Go on."}], "previous_response_id": "r"}
    done = Work(Settings(safe_zone="2k")).prune(Job("/v1/responses", {}, json.dumps(known).encode(), "", 0.0))
    assert (done.body, done.conversation) == (None, "")
    assert "previous_response_id" in done.note


def test_the_newest_payloads_are_kept_up_to_a_number_of_bytes():
    kept = Payloads(120)
    texts = {id: "".join(map(chr, range(at, at + 40))) for id, at in (("a", 0x40), ("b", 0x400), ("c", 0xD800))}
    for id, text in texts.items():
        kept.put(id, text)
    assert [kept.get(id) for id in texts] == [None, None, texts["c"]]


def zone_of(work: Work, model: str, headers: dict[str, str], **others: Any) -> int:
    """The safe zone of a request of a new conversation."""
    name = str(next(NUMBERS))
    known = json.dumps({"model": model, "messages": [{"role": "user", "content": name}, *conversation(2)], **others})
    done = work.prune(Job("/v1/messages", headers, known.encode(), name, 0.0, upstream="a"))
    account = work.account(done.number)
    assert account
    return account.safe_zone


def test_the_default_safe_zone_follows_the_window_that_a_request_asks_for():
    work, beta = Work(Settings()), "context-1m-2025-08-07"
    assert zone_of(work, "claude-opus-4-6", {}) == 180_000
    assert zone_of(work, "claude-opus-4-6", {"anthropic-beta": f"oauth-2025-04-20,{beta}"}) == 980_000
    assert zone_of(work, "claude-opus-4-6", {}, anthropic_beta=[beta]) == 980_000


def test_a_window_that_a_variable_sets_decides_the_default_safe_zone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AUTOPRUNE_WINDOW", "150000")
    assert zone_of(Work(Settings()), "claude-opus-5-5", {}) == 130_000


@pytest.mark.parametrize(("safe_zone", "before", "after"), [(None, 180_000, 32_000), ("0.5", 100_000, 20_000)])
def test_a_window_that_a_provider_stated_counts_for_its_model_and_host(safe_zone: str | None, before: int, after: int):
    work, name = Work(Settings(safe_zone=safe_zone)), "claude-sonnet-4-5"
    assert zone_of(work, name, {}) == before
    work.learn_window(Target("a", name), 40_000)
    assert zone_of(work, name, {}) == after
    work.learn_window(Target("elsewhere", name), 10_000)
    assert zone_of(work, name, {}) == after
    assert zone_of(work, "claude-opus-4-5", {}) == before


def test_a_request_is_pruned_again_after_the_provider_has_stated_the_window():
    work = Work(Settings())
    known = json.dumps({"model": MODEL, "messages": conversation(9)}).encode()
    job = Job("/v1/chat/completions", {}, known, "s", 0.0, "a")
    assert work.prune(job).body is None
    work.learn_window(Target("a", MODEL), 4_000)
    assert work.prune(job).body


def test_results_of_folded_steps_are_listed_and_can_be_recalled():
    text = "Part {} is made, and nothing else was to be done. " * 4
    steps = [[Step("bash", {"command": f"make part{at}"}, text.format(*[at] * 4))] for at in range(20)]
    big = [[Step("read", {"path": f"{at}.log"}, document("log", at, 9_000))] for at in range(3)]
    report = [Step("write", {"content": "All is well, and nothing else is to be said. " * 900}, "ok")]
    messages = WIRE["openai_chat"]([*steps, *big, report, *steps, *steps, "And now?"])
    work = Work(Settings(safe_zone="1m", strategy="cache_aware(fold_steps=10, start_at=1000)"))
    sent = json.dumps({"model": MODEL, "messages": messages[:-2]}).encode()
    assert work.account(work.prune(Job("/v1/chat/completions", {}, sent, "s", 0.0)).number)
    sent = json.dumps({"model": MODEL, "messages": messages}).encode()
    done = work.prune(Job("/v1/chat/completions", {}, sent, "s", 9_000.0))
    account = work.account(done.number)
    assert account
    assert done.body
    assert len(json.loads(done.body)["messages"]) < len(messages) == account.messages
    folded = [each for each in account.cleared if each.reason == "finished step"]
    assert len(folded) > 10
    originals = {message["content"] for message in messages if message["role"] == "tool"}
    assert {work.recall(each.id) for each in folded} <= originals


def test_a_hundred_conversations_in_turns_are_each_one():
    work = Work(Settings(safe_zone="20k"))
    names = [[work.prune(short(session, end)).conversation for session in range(100)] for end in (1, 3)]
    assert names[0] == names[1]
    assert len({*names[0]}) == 100


def short(session: int, end: int) -> Job:
    """A request with a few messages."""
    messages = [{"role": role, "content": f"{role} {session}"} for role in ("user", "assistant", "user")]
    sent = json.dumps({"model": MODEL, "messages": messages[:end]}).encode()
    return Job("/v1/chat/completions", {}, sent, str(session), float(end))
