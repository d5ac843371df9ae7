"""What a prune depends on is looked up once, and never taken for what another prune depends on."""

import asyncio
import random
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import conversations
import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError, prune_history, repair
from autoprune.conversation.edits import Fold
from autoprune.integrations._hooks import FrameworkPruner, RequestPruner
from autoprune.pruners._base import RESTORED
from autoprune.pruners.naming import pruner_for
from autoprune.pruners.requests import prune_request
from autoprune.strategies.catalog import FOLDING, folding_named
from autoprune.strategies.clearing import LowWater
from autoprune.strategies.presets import keep_last
from autoprune.wire import chat

MESSAGES = conversations.openai_chat(*([conversations.words(300)] for _ in range(8)))
ARGS = PruneArgs(1_500)
KINDS = {
    AgenticConversationPruner: [
        *(None, "tool_output_cleanup", "low_water", "low_water(target=0.5)", " low_water ", "low_water(target=0.3)"),
        LowWater(target=0.4),
    ],
    ConversationPruner: [
        *(None, "summarize", "keep_last", "keep_last(n=2)", "hybrid(buffer=0.5)", "keep_last(n=4)", "truncate"),
        keep_last(3),
    ],
}


def said(pruner: Any, strategy: object) -> tuple[object, ...]:
    result = pruner.prune(MESSAGES, strategy)
    notes = [note for note in result.report.fallbacks if RESTORED not in note]
    return result.conversation, result.report.strategy, notes, result.report.safe_zone


# What a strategy of one's own returns


@pytest.mark.parametrize("kind", KINDS)
@each_row(
    ("returned", "what"),
    [
        *((each, f"returned {each!r}: give its edits in a list") for each in (None, 5, True)),
        *(([each], f"returned {each!r}: return edits, such as candidate") for each in (None, 5, "clear it")),
        ("abc", "returned 'a': return edits, such as candidate"),
    ],
)
def test_what_a_strategy_returns_must_be_edits(kind: type, returned: Any, what: str):
    """A forgotten `return` or `yield` is not a TypeError of the pruner's."""
    own = SimpleNamespace(name="own", step=lambda view: returned)
    with pytest.raises(SettingsError) as refusal:
        kind(ARGS).prune(MESSAGES, own)
    assert str(refusal.value).startswith(f"step of the strategy own {what}")


def test_a_strategy_that_clears_cannot_fold():
    own = SimpleNamespace(name="own", step=lambda view: [Fold((1,), "own", 5)])
    with pytest.raises(SettingsError, match=r"step of the strategy own returned Fold\("):
        AgenticConversationPruner(ARGS).prune(MESSAGES, own)


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
    assert pruner.prune(MESSAGES).report.strategy == "tool_output_cleanup"


@pytest.mark.parametrize("kind", KINDS)
def test_changes_to_a_pruner_apply_at_once(kind: type):
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


# A framework whose messages are those of Chat Completions.
MINE: Any = SimpleNamespace(**{**vars(chat), "strip_unsent": lambda message, at: message})
NEAR_MISSES = [
    (AgenticConversationPruner, "low-water", " (did you mean low_water?)"),
    (AgenticConversationPruner, "LowWater(target=0.5)", " (did you mean low_water?)"),
    (AgenticConversationPruner, "cleanup", " (did you mean tool_output_cleanup?)"),
    (AgenticConversationPruner, "hybrid", " (it is for ConversationPruner)"),
    (AgenticConversationPruner, "hybird", " (did you mean hybrid?)"),
    (AgenticConversationPruner, "", ""),
    (ConversationPruner, "keep last", " (did you mean keep_last?)"),
    (ConversationPruner, "low_water", " (it is for AgenticConversationPruner)"),
    (ConversationPruner, "cache_awear", " (did you mean cache_aware?)"),
    (ConversationPruner, "nope", ""),
]


@each_row(("kind", "name", "near"), NEAR_MISSES)
def test_an_unknown_strategy_is_an_error_that_names_the_near_one(kind: type, name: str, near: str):
    pruner = kind(ARGS)
    calls: list[Callable[[], object]] = [
        lambda: pruner.prune(MESSAGES, name),
        lambda: pruner.prune(MESSAGES, strategy=name),
        lambda: pruner.prune([], name),
        lambda: pruner.plan(MESSAGES, name),
        lambda: asyncio.run(pruner.aprune(MESSAGES, name)),
        lambda: pruner.prune_conversations(MESSAGES, strategy=name),
        lambda: pruner.prune_conversations(MESSAGES, strategy_name=name, strategy=name),
        lambda: asyncio.run(pruner.aprune_conversations(MESSAGES, strategy=name)),
        lambda: prune_request(pruner, {"messages": MESSAGES}, "/v1/chat/completions", strategy=name),
        lambda: prune_history(pruner=pruner, strategy=name)(len)(MESSAGES),
        lambda: RequestPruner(pruner, name),
        lambda: FrameworkPruner(MINE, pruner, name),
    ]
    rest = f"{near}; `autoprune strategies` lists all" if near else f"; there are {', '.join(pruner.strategies)}"
    said = f"there is no strategy {name!r}{rest}"
    for call in calls:
        with pytest.raises(SettingsError) as refusal:
            call()
        assert str(refusal.value) == said


@each_row("name", [*FOLDING, "keep_last(n=3)"])
def test_a_strategy_that_folds_is_an_error_for_the_pruner_that_clears(name: str):
    strategy = folding_named(name)
    with pytest.raises(SettingsError, match=f"the strategy {strategy.name} is one of ConversationPruner: give it to"):
        AgenticConversationPruner(ARGS).prune(MESSAGES, strategy)
    assert isinstance(pruner_for(strategy, ARGS), ConversationPruner)


@pytest.mark.parametrize("name", ["low_water(targt=0.5)", "low_water(0.5)", "low_water("])
def test_parameters_that_cannot_be_read_are_an_error_through_strategy_name_too(name: str):
    with pytest.raises(SettingsError, match="low_water"):
        AgenticConversationPruner(ARGS).prune_conversations(MESSAGES, strategy_name=name)


@each_row(
    ("options", "said"),
    [
        ({"formats": ["anthropic"]}, "formats holds 'anthropic', which is no format"),
        ({"formats": chat}, None),
        ({"formats": 5}, "formats holds 5"),
        ({"remember": "8"}, "remember is '8': give a number, 0 or more"),
        ({"count": 5}, "count is 5: give a function, or None"),
        ({"on_pruned": "log"}, "on_pruned is 'log': give a function, or None"),
    ],
)
def test_options_of_a_constructor_that_cannot_be_used_are_an_error_at_once(options: Any, said: str | None):
    with pytest.raises(SettingsError, match=said) if said else nullcontext():
        AgenticConversationPruner("50k", **options)


@each_row(("pruner", "path"), [("4k", "/v1/messages"), (AgenticConversationPruner("4k"), 5), (None, "/v1/messages")])
def test_a_request_without_a_pruner_or_a_path_is_an_error(pruner: Any, path: Any):
    with pytest.raises(SettingsError, match="give a pruner, the request's body and a path"):
        prune_request(pruner, {"messages": MESSAGES}, path)


def test_an_attribute_of_a_strategy_that_is_named_check_is_its_own():
    class Mine:
        name = "mine"

        def check(self, view: Any) -> bool:
            return True

        def step(self, view: Any) -> list[Any]:
            return []

    assert AgenticConversationPruner(10, strategy=Mine()).prune(MESSAGES).conversation is MESSAGES


def test_an_adapter_takes_settings_that_are_filled_in_later():
    args = SimpleNamespace()
    adapter = RequestPruner(args, None)  # type: ignore[arg-type]
    args.conversation_prune_safe_zone_tokens = "2k"
    adapter.prune({"messages": MESSAGES}, "/v1/chat/completions")


def test_advice_needs_no_safe_zone_that_is_larger_than_any_window():
    result = AgenticConversationPruner(10).prune(MESSAGES, calibration=1e9)
    assert "over" in str(result) or "above" in str(result)


def test_a_reason_that_is_no_text_is_an_error():
    with pytest.raises(SettingsError, match="reason is 5: give a text"):
        repair(MESSAGES, reason=5)  # type: ignore[arg-type]
