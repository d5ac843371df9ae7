"""The promises about more than one prune, for every format: once more, as the conversation grows, by any pruner."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from every_format import SENTENCE, Case, again, as_bytes, every_format, facts, fields, prompt_start, requests, shape
from profiles import size
from pydantic import BaseModel
from rounds import WIRE, Round, Step
from rounds_in_texts import CARRIERS, DIALECTS, in_text

from autoprune import AgenticConversationPruner, PruneArgs, Result
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Location

ROOT = Path(__file__).parents[2]


# 5. Pruning twice is pruning once; the same bytes everywhere


@every_format
def test_pruning_twice_is_pruning_once(case: Case):
    ours = case.pruner
    once = ours.prune(case.messages, case.strategy).conversation
    assert ours.prune(once, case.strategy).conversation is once
    assert case.pruner.prune(once, case.strategy).conversation is once


OTHER_PROCESS = """
import json, sys
from autoprune import AgenticConversationPruner, PruneArgs
pruner = AgenticConversationPruner(PruneArgs(400))
print(json.dumps([pruner.prune_conversations(messages) for messages in json.load(sys.stdin)]))
"""


def fixed_examples() -> list[list[Any]]:
    """The same work in every format, and in every dialect in every kind of message."""
    long = Step("read_file", {"path": "見.md"}, "漢字 🎉 text\n" * 90)
    failed = Step("run", {"command": "ls"}, "Error: a < b\n" * 60, failed=True)
    made: list[Round] = [[long, failed], "And now?", [failed], [long, long], [long]]
    texts = [in_text(made, dialect, carrier) for dialect in DIALECTS for carrier in CARRIERS]
    return [*(write(made) for write in WIRE.values()), *texts]


@pytest.mark.full
def test_the_same_bytes_come_from_any_process():
    given = fixed_examples()
    ours = [AgenticConversationPruner(PruneArgs(400)).prune_conversations(messages) for messages in given]
    assert [as_bytes(messages).count(SENTENCE[:40]) for messages in ours] == [5] * len(given)
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


# 6. A cleared result stays cleared, and between two prunes the prompt's start stays


def cleared(result: Result) -> set[int]:
    """Which results were cleared, by their number; those that were only cut are not."""
    texts = {edit.part: edit.text for edit in result.plan.edits}
    placeholder = result.plan.placeholder
    results = enumerate(result.plan.transcript.results)
    return {number for number, part in results if texts.get(part, part.text) == placeholder.text(part)}


@every_format
def test_a_cleared_result_stays_cleared_and_the_start_of_the_prompt_stays(case: Case):
    ours = case.pruner
    earlier: set[int] = set()
    edited: dict[Location, str] = {}
    sent: list[Any] = []
    stable = start = 0
    for at in requests(case.messages):
        result = ours.prune(case.messages[:at], case.strategy)
        if prompt_start(case.messages[:at]) != start:  # with a compaction by the provider a new prompt begins
            earlier, edited, sent, stable, start = set(), {}, [], 0, prompt_start(case.messages[:at])
        texts = {edit.part.location: edit.text for edit in result.plan.edits}
        assert earlier <= cleared(result)
        assert edited.keys() <= texts.keys()
        assert as_bytes(result.conversation[:stable]) == as_bytes(sent[:stable])
        if {place: text for place, text in texts.items() if place.message < len(sent)} == edited:
            assert as_bytes(result.conversation[: len(sent)]) == as_bytes(sent)
        earlier, edited, sent = cleared(result), texts, result.conversation
        boundary = result.report.stable_boundary
        stable = 0 if boundary is None else boundary + 1


@every_format
def test_the_full_history_and_the_pruned_one_fed_back_lead_to_the_same_prompts(case: Case):
    keeping, feeding = case.pruner, case.pruner
    fed: list[Any] = []
    for at in requests(case.messages):
        full = keeping.prune_conversations(case.messages[:at], case.strategy)
        fed = feeding.prune_conversations(fed + case.messages[len(fed) : at], case.strategy)
        start = prompt_start(fed)
        assert shape(fed[start:]) == shape(full[start:])


# 7. Decisions are a pure function of the conversation and the arguments


@every_format
def test_a_pruner_with_a_past_decides_as_a_new_one(case: Case):
    warm = case.pruner
    for at in range(1, len(case.messages) + 1):
        given = again(case.messages[:at]) if at % 3 == 0 else case.messages[:at]
        got, wanted = warm.prune(given, case.strategy), case.pruner.prune(given, case.strategy)
        assert shape(got.conversation) == shape(wanted.conversation)
        assert facts(got) == facts(wanted)
        own = [[new is old for new, old in zip(one.conversation, given, strict=True)] for one in (got, wanted)]
        assert own[0] == own[1]
        assert (got.conversation is given) == (wanted.conversation is given)


@every_format
def test_where_clients_move_their_marks_for_the_cache_a_pruner_decides_as_a_new_one(case: Case):
    warm, feeding = case.pruner, case.pruner
    fed: list[Any] = []
    for at in requests(case.messages):
        given = marked(case.messages[:at])
        got, wanted = warm.prune(given, case.strategy), case.pruner.prune(given, case.strategy)
        assert shape(got.conversation) == shape(wanted.conversation)
        assert facts(got) == facts(wanted)
        fed = feeding.prune_conversations(marked(fed + case.messages[len(fed) : at]), case.strategy)
        start = prompt_start(fed)
        assert shape(unmarked(fed[start:])) == shape(unmarked(got.conversation[start:]))


def test_a_conversation_whose_marks_move_is_remembered_once():
    pruner = AgenticConversationPruner(PruneArgs(400))
    long = Step("read_file", {"path": "a.md"}, "some text\n" * 90)
    messages = WIRE["anthropic"]([[long]] * 12)
    for at in range(2, len(messages) + 1, 2):
        pruner.prune(marked(messages[:at]))
    assert len(pruner._memory._kept) == 1


def marked(messages: list[Any]) -> list[Any]:
    """A copy of messages with marks for the cache in the last two, and in no other."""
    copied = unmarked(again(messages))
    for message in copied[-2:]:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and content and isinstance(content[-1], dict):
            content[-1]["cache_control"] = {"type": "ephemeral"}
        elif isinstance(content, str):
            message["cache_control"] = {"type": "ephemeral"}
    return copied


def unmarked(value: Any) -> Any:
    """JSON-like data without marks for the cache."""
    if isinstance(value, dict):
        return {name: unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


@every_format
def test_a_change_in_place_is_noticed(case: Case):
    messages = copy.deepcopy(case.messages)
    warm = case.pruner
    for message in messages[:: len(messages) // 3 + 1]:
        warm.prune(messages, case.strategy)
        lengthen(message)
        got, wanted = warm.prune(messages, case.strategy), case.pruner.prune(messages, case.strategy)
        assert shape(got.conversation) == shape(wanted.conversation)
        assert facts(got) == facts(wanted)


def lengthen(value: Any) -> None:
    """Make the texts that a message holds longer, wherever they stand in it."""
    for name, held in fields(value).items() if isinstance(value, dict | BaseModel) else ():
        if name in ("text", "content", "output", "stdout") and isinstance(held, str):
            put(value, name, held + " and more" * 40)
        for item in held if isinstance(held, list) else [held]:
            lengthen(item)


def put(holder: Any, name: str, value: object) -> None:
    if isinstance(holder, dict):
        holder[name] = value
    else:
        setattr(holder, name, value)


@every_format
def test_a_conversation_that_is_loaded_again_is_pruned_alike_and_a_plan_is_what_is_done(case: Case):
    result, loaded = case.pruned(), case.pruner.prune(again(case.messages), case.strategy)
    assert shape(loaded.conversation) == shape(result.conversation)
    assert facts(loaded) == facts(result)
    planned = case.pruner.plan(case.messages, case.strategy)
    assert list(map(described, planned.edits)) == list(map(described, result.plan.edits))
    assert [*planned.kept.values()] == [*result.plan.kept.values()]


def described(edit: Replace) -> tuple[object, ...]:
    return edit.part.location, edit.text, edit.reason, edit.saved, edit.request
