"""The promises for what folds and drops: conversations of every format, every preset, summarizers of all kinds.

They are those that `test_every_format.py` and `test_every_format_memo.py` hold for cleared results.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from every_format import again, as_bytes, count, facts, prompt_start, requests, shape
from folding_cases import (
    BY_POSITION,
    KEPT,
    Case,
    Stranger,
    current_request,
    edited,
    every_format_folded,
    places,
    systems,
    words,
)
from profiles import is_full, sample_cases, size
from rounds import WIRE, Round, Step
from rounds_in_texts import CARRIERS, DIALECTS, in_text
from sendable import accepts, rules
from shipped import PRESETS
from tables import each_row

from autoprune import PruneArgs, Result, problems
from autoprune.conversation.edits import Reason
from autoprune.conversation.messages import fields_of, role_of
from autoprune.conversation.summary import find_summary
from autoprune.planning.protections import BY_AGE, Retention
from autoprune.planning.view import FoldingStrategy
from autoprune.pruners.conversation import ConversationPruner
from autoprune.strategies import presets
from autoprune.strategies.catalog import folding_named
from autoprune.strategies.folding import Folding
from autoprune.wire import anthropic, bedrock, gemini

USER_FIRST = (anthropic, bedrock, gemini)
FEW = 3  # examples of what prunes many times
NOT_SMALLER = "nothing was folded: with its summary the conversation would not have been smaller"
# Positions mean other messages in another list.
BY_RULES = tuple(retain for retain in KEPT if retain is not BY_POSITION)


# 1. Nothing of the caller's is changed


@every_format_folded
def test_the_callers_objects_are_not_changed(case: Case):
    messages, before = list(case.messages), shape(case.messages)
    case.pruned()
    assert shape(case.messages) == before
    assert all(now is then for now, then in zip(case.messages, messages, strict=True))


@every_format_folded
def test_what_stays_is_the_same_object_but_for_one_message_that_the_summary_was_joined_with(case: Case):
    result = case.pruned()
    stay = [at for at in range(len(case.messages)) if at not in result.plan.gone]
    same = [at for at in places(case.messages, result.conversation) if at is not None]
    assert same == sorted(set(same))
    assert set(same) <= set(stay)
    joined = sorted(set(stay) - set(same) - edited(result))
    new = len(result.conversation) - len(same)
    assert new >= len(edited(result).intersection(stay))
    if joined:
        assert result.plan.folds
        assert_within_one_message(case.messages, joined, result)
    if case.retain == Retention():
        assert len(joined) <= 2 - result.plan.summarized


def assert_within_one_message(messages: list[Any], joined: Sequence[int], result: Result) -> None:
    """What each of some messages says stands in a message of the user's that came out, in order."""
    said = "\0".join(text for message in result.conversation for text in words(message))
    for at in joined:
        assert all(text in said for text in words(messages[at]))


@every_format_folded
def test_with_nothing_to_do_the_callers_list_itself_comes_back(case: Case):
    result = case.pruned()
    is_idle = not (result.plan.edits or result.plan.folds or result.plan.stripped)
    assert (result.conversation is case.messages) == is_idle
    if count(case.messages) <= case.safe_zone and getattr(case.strategy, "over_messages", None) is None:
        assert is_idle or case.strategy.name == "per_result"


# 3. The provider accepts the result if it accepted the input


def role(message: Any) -> object:
    return message.get("role") if isinstance(message, dict) else getattr(message, "role", None)


@every_format_folded
def test_no_rule_of_the_provider_is_broken_that_was_not_broken_before(case: Case):
    provider = rules(case.messages)
    # A result that is pinned may come to stand before the user's words, which some chat templates refuse.
    by_age = getattr(case.strategy, "retain", BY_AGE) == BY_AGE
    is_strict = by_age and not problems(case.messages, provider, strict_alternation=True)
    before = {problem.rule for problem in problems(case.messages, provider)}
    pruned = case.pruned().conversation
    found = problems(pruned, provider, strict_alternation=is_strict)
    first = next((at for at, message in enumerate(pruned) if role(message) != "system"), 0)
    # What is left of a chat may begin with the assistant.
    may_begin = provider == "openai_chat"
    new = [problem for problem in found if problem.rule not in before]
    assert [problem for problem in new if not (may_begin and problem.path == (first,))] == []


@every_format_folded
def test_the_strict_provider_still_accepts_the_conversation(case: Case):
    provider = rules(case.messages)
    if not problems(case.messages, provider) and accepts(case.messages, provider) is None:
        assert accepts(case.pruned().conversation, provider) is None


# 4. It never grows


@every_format_folded
def test_there_are_never_more_tokens_than_before_and_the_report_is_exact(case: Case):
    result = case.pruned()
    before, after = count(case.messages), count(result.conversation)
    assert (result.report.tokens_before, result.report.tokens_after) == (before, after)
    assert after <= before
    assert after < before or result.conversation is case.messages


# 5. Pruning twice is pruning once; the same bytes everywhere


@every_format_folded
def test_pruning_twice_is_pruning_once(case: Case):
    if case.retain is not BY_POSITION:
        ours = case.pruner()
        result = ours.prune(case.messages, case.strategy)
        # Where the calls were dropped by which one could tell that a pasted log is no result, nobody can any more.
        if any(fold.is_drop for fold in result.plan.folds) and "is no result" in str(result.report):
            return
        once = result.conversation
        assert ours.prune(once, case.strategy).conversation is once
        assert case.pruner().prune(once, case.strategy).conversation is once


# 6. What was folded stays folded, and between two prunes the prompt's start stays


ROOT = Path(__file__).parents[2]


OTHER_PROCESS = """
import json, sys
from autoprune import PruneArgs
from autoprune.planning.view import FoldingStrategy
from autoprune.pruners.conversation import ConversationPruner
pruner = ConversationPruner(PruneArgs(400))
given = json.load(sys.stdin)
print(json.dumps([pruner.prune_conversations(messages, name) for messages in given for name in pruner.strategies]))
"""


def fixed_examples() -> list[list[Any]]:
    """The same work in every format, and in every dialect in every kind of message."""
    long = Step("read_file", {"path": "見.md"}, "漢字 🎉 text\n" * 90)
    failed = Step("run", {"command": "ls"}, "Error: a < b\n" * 60, failed=True)
    made: list[Round] = [[long, failed], "And now?", [failed], [long, long], [long], [failed], [long], [long], [failed]]
    texts = [in_text(made, dialect, carrier) for dialect, carrier in zip(DIALECTS, CARRIERS, strict=False)]
    return [*(write(made) for write in WIRE.values()), *texts]


@pytest.mark.full
def test_the_same_bytes_come_from_any_process():
    given = fixed_examples()
    ours = [
        ConversationPruner(PruneArgs(400)).prune_conversations(messages, name) for messages in given for name in PRESETS
    ]
    assert sum(as_bytes(messages).count("[Summary of ") for messages in ours) >= 5 * len(given)
    for seed in ("1", "2")[: size(2)]:
        done = subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
        )
        assert done.stdout == json.dumps(ours) + "\n"


@every_format_folded(number=FEW)
def test_folded_messages_stay_folded_and_the_prefix_is_stable(case: Case):
    ours = case.pruner()
    gone: set[int] = set()
    changed: dict[Any, str] = {}
    sent: list[Any] = []
    start = 0
    for at in requests(case.messages):
        result = ours.prune(case.messages[:at], case.strategy)
        if prompt_start(case.messages[:at]) != start:  # with a compaction by the provider a new prompt begins
            gone, changed, sent, start = set(), {}, [], prompt_start(case.messages[:at])
        texts = {edit.part.location: edit.text for edit in result.plan.edits}
        assert gone <= result.plan.gone.keys()
        assert {place for place in changed if place.message not in result.plan.gone} <= texts.keys()
        if gone == result.plan.gone.keys() and changed == texts:
            assert as_bytes(result.conversation[: len(sent)]) == as_bytes(sent)
        gone, changed, sent = set(result.plan.gone), texts, result.conversation


def both_styles(case: Case, policy: str) -> None:
    """Assert that the full history and pruned output that is fed back lead to the same prompts."""
    keeping, feeding = case.pruner(), case.pruner()
    keeping.args = feeding.args = PruneArgs(case.safe_zone, thinking_policy=policy)
    fed: list[Any] = []
    given = 0
    for at in requests(case.messages):
        full = keeping.prune_conversations(case.messages[:at], case.strategy)
        result = feeding.prune([*fed, *case.messages[given:at]], case.strategy)
        # A summary that is shorter than it may be can grow by more than a few small messages win. Of a prompt that is
        # fed back that is known, and nothing is done; the full history, which is far larger, does not show it.
        # And what a model wrote in place of a result is counted as long as it may be, until it is read.
        was_shortened = any(edit.reason is Reason.SHORTENED for edit in result.plan.edits)
        if NOT_SMALLER in str(result.report) or was_shortened:
            break
        given, fed = at, result.conversation
        # Where all messages went by which one could tell that the provider wants the user's first, or that results are
        # not in texts, nobody can any more.
        if not shows_format(fed) and shows_format(case.messages):
            break
        assert as_bytes(fed[prompt_start(fed) :]) == as_bytes(full[prompt_start(full) :])


def shows_format(messages: list[Any]) -> bool:
    """Whether a message with a content shows a format whose conversations begin with the user."""
    own = [dict(fields_of(each)) for each in messages]
    return any(known.seen(each) for each in own if each.get("content") != [] for known in USER_FIRST)


@every_format_folded(kept=BY_RULES, number=FEW)
def test_the_full_history_and_the_pruned_one_fed_back_lead_to_the_same_prompts(case: Case):
    both_styles(case, "report")


def chat(random: Random) -> list[dict[str, Any]]:
    """A conversation of messages of any length."""

    def words(*lengths: int) -> str:
        return " ".join(f"word{random.randrange(99)}" for _ in range(random.choice(lengths)))

    messages = [{"role": "user", "content": words(5, 20, 40, 100)}]
    for _ in range(random.choice((4, 10, 25))):
        if random.random() < 0.6:
            answer = {"name": "read_file", "arguments": json.dumps({"path": words(1)})}
            call = {"id": f"c{len(messages)}", "type": "function", "function": answer}
            messages += (
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": words(1, 5, 20, 80, 200)},
            )
        else:
            answer = {"role": "assistant", "content": words(1, 5, 30)}
            messages += (answer, {"role": "user", "content": words(1, 5, 30, 60)})
    return messages


@pytest.mark.full
@pytest.mark.parametrize("name", sample_cases(PRESETS, 4))
def test_full_and_fed_back_history_agree_if_a_summary_has_little_room(name: str):
    preset = folding_named(name)
    for seed in range(20 if is_full() else 5):
        messages, random = chat(Random(seed)), Random(seed)
        drawn = random.choice((150, 200, 300, 600)), random.choice((None, 64, 100, 150, 400))
        for safe_zone, room in ((100, None), drawn):
            strategy = replace(preset, summary_tokens=room) if isinstance(preset, Folding) else preset
            assert_fed_back_alike(messages, strategy, safe_zone)


def assert_fed_back_alike(messages: list[Any], strategy: FoldingStrategy, safe_zone: int) -> None:
    """Both histories give the same bytes at every request."""
    keeping, feeding = (ConversationPruner(PruneArgs(safe_zone)) for _ in range(2))
    fed: list[Any] = []
    given = 0
    for at in requests(messages):
        full = keeping.prune_conversations(messages[:at], strategy)
        fed = feeding.prune_conversations([*fed, *messages[given:at]], strategy)
        given = at
        assert as_bytes(fed) == as_bytes(full)


# 7. Decisions are a pure function of the conversation and the arguments; a model's words are looked up


@each_row("retain", [Retention(), Retention(first_request=True), Retention(roles=("tool", "assistant"))])
@each_row("write", WIRE.values(), ids=WIRE)
def test_no_two_messages_of_the_users_become_neighbors(write: Any, retain: Retention):
    step = Step("read_file", {"path": "a.py"}, "a line of text\n" * 30)
    messages = write([word for turn in range(6) for word in ([step], f"Now part {turn}.")])
    for name in ("summarize", "truncate", "keep_last(n=3)", "hybrid"):
        strategy = replace(folding_named(name), retain=retain)
        gone = pruned(messages, strategy, count(messages) // 2).plan.gone
        kept = [at for at in range(len(messages)) if at not in gone]
        assert gone
        across = [pair for pair in pairwise(kept) if pair[1] > pair[0] + 1]
        assert [pair for pair in across if all(role_of(messages[at]) == "user" for at in pair)] == []


@pytest.mark.full
@every_format_folded(number=FEW)
def test_a_new_pruner_with_the_same_store_gives_the_same_bytes_and_asks_no_model(case: Case):
    store: dict[str, str] = {}
    warm = case.pruner(store)
    for at in requests(case.messages):
        got = warm.prune(case.messages[:at], case.strategy)
        if any("failed" in note or "was only cut" in note for note in got.report.fallbacks):
            return  # what stands in a model's place is not kept for others
        cold = case.pruner(dict(store))
        wanted = cold.prune(again(case.messages[:at]), case.strategy)
        assert as_bytes(got.conversation) == as_bytes(wanted.conversation)
        assert wanted.report.tokens_after == got.report.tokens_after
        if case.summarizer and find_summary(got.conversation):
            assert cold.llm.asked == 0


@pytest.mark.full
@every_format_folded(number=FEW)
def test_a_summary_that_needs_no_model_is_the_same_without_any_memory(case: Case):
    if case.summarizer is None:
        warm = case.pruner()
        for at in requests(case.messages):
            got, wanted = (one.prune(case.messages[:at], case.strategy) for one in (warm, case.pruner()))
            assert as_bytes(got.conversation) == as_bytes(wanted.conversation)


@every_format_folded(number=FEW)
def test_a_plan_is_what_is_done_and_the_asynchronous_twin_does_the_same(case: Case):
    result, planned = case.pruned(), case.pruner().plan(case.messages, case.strategy)
    if planned.folds and result.plan.folds:
        assert planned.folds == result.plan.folds
        assert result.plan.tokens <= planned.tokens
    awaited = asyncio.run(case.pruner().aprune(case.messages, case.strategy))
    assert as_bytes(awaited.conversation) == as_bytes(result.conversation)
    assert {**facts(awaited), "fallbacks": None} == {**facts(result), "fallbacks": None}


# 9. The budget is met, or the report says why not


@every_format_folded
def test_the_budget_is_met_or_the_floor_says_what_stands_in_the_way(case: Case):
    result = case.pruned()
    report = result.report
    assert report.within_safe_zone == (count(result.conversation) <= case.safe_zone)
    assert sum(report.floor.values()) == report.tokens_after
    assert min(report.floor.values()) >= 0
    assert report.within_safe_zone == ("within the safe zone" in str(report))


@every_format_folded
def test_a_conversation_is_never_empty_and_system_and_current_request_stay_in_order(case: Case):
    result = case.pruned()
    stay = [*(systems(result) if case.retain.system else ()), current_request(result)]
    assert result.conversation
    assert {at for at in stay if at is not None}.isdisjoint(result.plan.gone)
    assert holds_in_order(result.conversation, [words(case.messages[at]) for at in stay if at is not None])


def holds_in_order(conversation: Sequence[Any], wanted: Sequence[list[str]]) -> bool:
    """Whether texts stand in messages in this order, each at the end of one of the texts there."""
    left = list(wanted)
    for held in map(words, conversation):
        while left and all(any(one.endswith(text) for one in held) for text in left[0]):
            del left[0]
    return not left


@every_format_folded
def test_retained_messages_stay(case: Case):
    plan, retain = case.pruned().plan, case.retain
    turns = plan.transcript.turns
    for at, message in enumerate(case.messages):
        is_pinned = retain.pinned(message) if callable(retain.pinned) else at in retain.pinned
        is_of_last_turns = retain.turns and turns and turns[-1] and turns[at] > max(0, turns[-1] - retain.turns)
        is_first = retain.first_request and turns[at] == 1 and (at == 0 or turns[at - 1] == 0)
        if is_pinned or is_of_last_turns or is_first:
            assert at not in plan.gone


# 10. Nothing is lost silently


@every_format_folded
def test_every_message_is_kept_or_in_exactly_one_fold(case: Case):
    result = case.pruned()
    folded = [at for fold in result.plan.folds for at in fold.messages]
    assert len(folded) == len(set(folded))
    assert set(folded) <= set(range(len(case.messages)))
    report = result.report
    assert report.messages_summarized + report.messages_removed == len(folded)
    stay = [at for at in range(len(case.messages)) if at not in folded]
    assert len(result.conversation) <= len(stay) + result.plan.summarized
    said = "\0".join(text for message in result.conversation for text in words(message))
    for at in set(stay) - edited(result):
        assert all(text in said for text in words(case.messages[at]))


@every_format_folded
def test_a_summary_stands_behind_the_systems_messages_and_says_for_how_many_it_stands(case: Case):
    result = case.pruned()
    known = find_summary(result.conversation)
    if known:
        assert known.messages == result.report.messages_summarized
        head = [at for at in systems(result) if at < result.plan.place and at not in result.plan.gone]
        assert known.at == len(head)
    else:
        assert not result.plan.summarized or any("dropped" in note for note in result.report.fallbacks)


@every_format_folded
def test_a_model_is_not_asked_more_often_than_it_may_be_and_the_report_counts_its_calls(case: Case):
    for max_calls in (0, 1, 3):
        ours = case.pruner(max_calls=max_calls)
        result = ours.prune(case.messages, case.strategy)
        asked = ours.llm.asked if isinstance(ours.llm, Stranger) else 0
        assert asked <= max_calls
        assert result.report.spent.calls == asked


# Cases in view


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def pruned(messages: list[Any], strategy: Any, safe_zone: int = 1, **args: Any) -> Result:
    return ConversationPruner(PruneArgs(safe_zone, **args)).prune(messages, strategy)


def gemini_words() -> list[Any]:
    return [{"role": role, "parts": [{"text": "a word " * 40}]} for role in ("model", "model")]


@pytest.mark.parametrize(
    ("messages", "strategy"),
    [
        ([model("I begin."), model("I go on.")], presets.keep_last(0)),
        ([{"type": "compaction", "id": "cmp_1", "encrypted_content": "c2lnbmVk"}], presets.keep_last(0)),
        (gemini_words(), presets.truncate(1)),
    ],
    ids=["assistant", "compaction", "gemini"],
)
def test_of_a_conversation_without_a_request_something_stays(messages: list[Any], strategy: Folding):
    assert pruned(messages, strategy).conversation


def anthropic_turn(number: int) -> list[Any]:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "a line\n" * 40}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def thinking_turn(number: int) -> list[Any]:
    call, answer = anthropic_turn(number)
    thought = {"type": "thinking", "thinking": "Hm.", "signature": f"sig{number}"}
    return [{"role": "assistant", "content": [thought, *call["content"]]}, answer]


def test_after_messages_were_dropped_the_provider_is_told_that_thinking_is_bound_to_another_conversation():
    ours = ConversationPruner(PruneArgs(1_000, model="claude-opus-5-5"))
    messages = [user("Fix it."), *(message for at in range(20) for message in thinking_turn(at))]
    first = ours.prune(messages, "truncate")
    again = ours.prune(first.conversation, "truncate")
    assert first.report.messages_removed
    assert first.request_parameters
    assert again.request_parameters == first.request_parameters


def test_a_question_that_is_not_asked_is_no_call_of_a_model():
    messages = [user("Fix it."), *(message for at in range(12) for message in anthropic_turn(at))]
    ours = ConversationPruner(PruneArgs(500), lambda brief: "They read.", max_calls=0)
    assert ours.prune(messages).report.spent.calls == 0


def test_an_open_call_at_the_end_stays_with_what_was_said_at_once():
    messages = [user("Fix it."), *anthropic_turn(0), *anthropic_turn(1)[:1]]
    for strategy in (presets.keep_last(0), presets.truncate(1), presets.chat_summary(1, keep=0)):
        assert pruned(messages, strategy).conversation[-1] is messages[-1]


def test_a_summary_is_joined_with_the_message_of_an_sdk():
    types = pytest.importorskip("google.genai.types")
    said = [types.Part(text="a word " * 30)]
    contents = [types.Content(role="user" if at % 2 == 0 else "model", parts=said) for at in range(9)]
    result = pruned(contents, presets.summarize(1, buffer=0.0), 200)
    first = result.conversation[0]
    assert result.report.messages_summarized
    assert find_summary(result.conversation)
    assert isinstance(first, dict) or types.Content.model_validate(first.model_dump(exclude_none=True)).role == "user"
