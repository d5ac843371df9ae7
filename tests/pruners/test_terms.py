"""What a prune depends on is looked up once, and never taken for what another prune depends on."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import conversations
import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.strategies.clearing import LowWater
from autoprune.strategies.presets import keep_last

MESSAGES = conversations.openai_chat(*([conversations.words(300)] for _ in range(8)))
ARGS = PruneArgs(1_500)
KINDS = {
    AgenticConversationPruner: [
        *(None, "tool_output_cleanup", "low_water", "low_water(target=0.5)", " low_water ", "low_water(target=0.3)"),
        *("low-water", "nope", "summarize", "", LowWater(target=0.4)),
    ],
    ConversationPruner: [
        *(None, "summarize", "keep_last", "keep_last(n=2)", "hybrid(buffer=0.5)", "keep_last(n=4)", "truncate"),
        *("keep-last", "nope", "low_water", "", keep_last(3)),
    ],
}


def said(pruner: Any, strategy: object) -> tuple[object, ...]:
    result = pruner.prune(MESSAGES, strategy)
    return result.conversation, result.report.strategy, result.report.fallbacks, result.report.safe_zone


# The memo


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("environ", [{}, {"AUTOPRUNE_STRATEGY": "low_water(target=0.6)"}])
def test_a_first_prune_changes_no_later_one(kind: type, environ: dict[str, str]):
    alone = {str(each): said(kind(ARGS, environ=environ), each) for each in KINDS[kind]}
    pruner = kind(ARGS, environ=environ)
    for first in KINDS[kind]:
        for then in KINDS[kind]:
            assert said(pruner, first) == alone[str(first)]
            assert said(pruner, then) == alone[str(then)]


def test_the_example_of_a_first_prune_that_named_nothing():
    pruner = AgenticConversationPruner(ARGS)
    pruner.prune(MESSAGES)
    assert pruner.prune(MESSAGES, "low_water(target=0.5)").report.strategy == "low_water"
    assert pruner.prune(MESSAGES, "nope").report.fallbacks == (
        "there is no strategy 'nope': tool_output_cleanup was used",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_on_a_pruner_counts_at_once(kind: type):
    pruner, generator = kind(ARGS), random.Random(3)
    strategies = list(pruner.strategies.values())
    for _ in range(60):
        generator.choice(CHANGES)(pruner, generator, strategies)
        fresh = kind(pruner.args)
        fresh.default, fresh.strategies = pruner.default, pruner.strategies
        fresh.replacement_message = pruner.replacement_message
        strategy = generator.choice([None, "mine", *KINDS[kind]])
        assert said(pruner, strategy) == said(fresh, strategy)


def set_default(pruner: Any, generator: random.Random, strategies: list[Any]) -> None:
    pruner.default = generator.choice(strategies)


def set_mine(pruner: Any, generator: random.Random, strategies: list[Any]) -> None:
    pruner.strategies["mine"] = generator.choice(strategies)


def set_args(pruner: Any, generator: random.Random, strategies: list[Any]) -> None:
    pruner.args = generator.choice([PruneArgs(1_200), PruneArgs(900), {"overhead_tokens": 5}, "1k", None, PruneArgs()])


def set_message(pruner: Any, generator: random.Random, strategies: list[Any]) -> None:
    pruner.replacement_message = generator.choice(["Gone.", "It was cleared."])


CHANGES: list[Callable[[Any, random.Random, list[Any]], None]] = [set_default, set_mine, set_args, set_message]


# One name for one thing


@pytest.mark.parametrize("kind", KINDS)
def test_a_strategy_is_given_by_either_keyword(kind: type):
    for strategy in KINDS[kind]:
        pruned = kind(ARGS).prune(MESSAGES, strategy).conversation
        for keywords in (
            {"strategy_name": strategy},
            {"strategy": strategy},
            {"strategy_name": strategy, "strategy": strategy},
        ):
            assert kind(ARGS).prune_conversations(MESSAGES, **keywords) == pruned
            assert asyncio.run(kind(ARGS).aprune_conversations(MESSAGES, **keywords)) == pruned
        assert kind(ARGS).prune_conversations(MESSAGES, strategy) == pruned
        assert asyncio.run(kind(ARGS).aprune(MESSAGES, strategy=strategy)).conversation == pruned
        assert kind(ARGS).plan(MESSAGES, strategy=strategy).transcript.messages == MESSAGES


@pytest.mark.parametrize("kind", KINDS)
def test_two_strategies_in_one_call_are_refused(kind: type):
    with pytest.raises(SettingsError, match="strategy_name is 'a' and strategy is 'b': give one of them"):
        kind(ARGS).prune_conversations(MESSAGES, "a", strategy="b")
    with pytest.raises(SettingsError, match="give one of them"):
        asyncio.run(kind(ARGS).aprune_conversations(MESSAGES, strategy_name="a", strategy="b"))


# Near misses


@each_row(
    ("kind", "name", "note"),
    [
        (AgenticConversationPruner, "low-water", " (did you mean low_water?): tool_output_cleanup was used"),
        (AgenticConversationPruner, "LowWater(target=0.5)", " (did you mean low_water?): tool_output_cleanup was used"),
        (AgenticConversationPruner, "cleanup", " (did you mean tool_output_cleanup?): tool_output_cleanup was used"),
        (AgenticConversationPruner, "hybrid", " (it is one of ConversationPruner): tool_output_cleanup was used"),
        (ConversationPruner, "keep last", " (did you mean keep_last?): summarize was used"),
        (ConversationPruner, "low_water", " (it is one of AgenticConversationPruner): summarize was used"),
        (ConversationPruner, "nope", ": summarize was used"),
    ],
)
def test_the_note_on_an_unknown_strategy_offers_the_near_one(kind: type, name: str, note: str):
    assert kind(ARGS).prune(MESSAGES, name).report.fallbacks == (f"there is no strategy {name!r}{note}",)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (PruneArgs(format="openai-chat"), "there is no format 'openai-chat' (did you mean openai_chat?)"),
        (PruneArgs(format="anthropic_messages"), "there is no format 'anthropic_messages' (did you mean anthropic?)"),
        (PruneArgs(thinking_policy="drop-block"), "thinking_policy is 'drop-block' (did you mean drop_block?)"),
    ],
)
def test_settings_that_name_something_offer_the_near_one(args: PruneArgs, said: str):
    with pytest.raises(SettingsError) as refusal:
        AgenticConversationPruner(args).prune(MESSAGES)
    assert said in str(refusal.value)
