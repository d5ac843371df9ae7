"""Without a strategy, `prune`, `prune_history` and the adapters use cache_aware; the classes keep their contract."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import conversations
import httpx
import pytest
from openai import OpenAI
from tables import each_row

import autoprune
from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError, prune
from autoprune.integrations._hooks import FrameworkPruner
from autoprune.integrations.clients import attach
from autoprune.pruners.decorator import prune_history
from autoprune.strategies import CacheAware, LowWater
from autoprune.wire import chat

WORDS = conversations.words(900)
CHAT = conversations.openai_chat([WORDS], [WORDS], [conversations.words(5)])
VARIABLE = "AUTOPRUNE_STRATEGY"


def by_function(**options: Any) -> str:
    return prune(CHAT, 1_000, **options).report.strategy


def by_decorator(**options: Any) -> str:
    names: list[str] = []
    prune_history(args=1_000, on_pruned=lambda event: names.append(event.report.strategy), **options)(len)(CHAT)
    return names[0]


def by_client(**options: Any) -> str:
    """Prune through a client that is attached to a pruner, and answers nothing."""
    names: list[str] = []
    pruner = AgenticConversationPruner(1_000, on_pruned=lambda event: names.append(event.report.strategy), **options)
    refuse = httpx.MockTransport(lambda request: httpx.Response(400, json={}))
    client = OpenAI(api_key="none", base_url="http://test", http_client=httpx.Client(transport=refuse))
    with pytest.raises(Exception, match="400"):
        attach(client, pruner).chat.completions.create(model="gpt-5", messages=CHAT)  # type: ignore[arg-type]
    return names[0]


@each_row("way", [by_function, by_decorator, by_client])
def test_the_strategy_is_cache_aware_unless_a_variable_names_another(way: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert way() == "cache_aware"
    monkeypatch.setenv(VARIABLE, "low_water")
    assert way() == "low_water"


@each_row("way", [by_function, by_client])
def test_a_strategy_that_is_given_takes_precedence(way: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "cache_aware")
    for strategy in ("tool_output_cleanup", "observation_masking(keep=1)", LowWater()):
        assert way(strategy=strategy) == getattr(strategy, "name", str(strategy).partition("(")[0])


def test_the_classes_keep_the_rules_of_their_contract():
    assert AgenticConversationPruner(1_000).prune(CHAT).report.strategy == "tool_output_cleanup"
    assert ConversationPruner(1_000).prune(CHAT).report.strategy == "summarize"


def test_a_pruner_has_a_strategy_for_all_its_calls():
    pruner = AgenticConversationPruner(1_000, strategy="cache_aware", environ={VARIABLE: "low_water"})
    assert pruner.prune(CHAT).report.strategy == "cache_aware"
    assert pruner.prune(CHAT, "low_water").report.strategy == "low_water"
    assert pruner.prune_conversations(CHAT) == pruner.prune(CHAT, CacheAware()).conversation
    # The fallback of the old contract is the pruner's own default.
    assert pruner.prune_conversations(CHAT, strategy_name="nope") == pruner.prune(CHAT).conversation
    folding = ConversationPruner(1_000, strategy="truncate")
    assert folding.prune(CHAT).report.strategy == "truncate"


@each_row(
    ("kind", "strategy", "said"),
    [
        (AgenticConversationPruner, "cache_awre", "did you mean cache_aware"),
        (AgenticConversationPruner, "truncate", "it is for ConversationPruner"),
        (AgenticConversationPruner, CacheAware, "is not a strategy"),
        (ConversationPruner, "trunkate", "did you mean truncate"),
        (ConversationPruner, "cache_aware", "it is for AgenticConversationPruner"),
    ],
)
def test_a_mistyped_strategy_is_an_error_of_the_constructor(kind: Any, strategy: Any, said: str):
    with pytest.raises(SettingsError, match=said):
        kind(1_000, strategy=strategy)


@each_row("call", [lambda name: prune(CHAT, 1_000, strategy=name), lambda name: by_decorator(strategy=name)])
def test_a_mistyped_strategy_is_an_error_of_the_call(call: Any):
    with pytest.raises(SettingsError, match="did you mean cache_aware"):
        call("cache_awre")


@each_row("args", [0.7, {"conversation_prune_safe_zone_tokens": 0.7}, PruneArgs(0.7, model="gpt-4")])
def test_the_model_may_be_a_keyword_of_any_settings(args: Any):
    report = prune(CHAT, args, model="gpt-5").report
    assert report.safe_zone == AgenticConversationPruner(PruneArgs(0.7, model="gpt-5")).prune(CHAT).report.safe_zone
    own = SimpleNamespace(conversation_prune_safe_zone_tokens=0.7)
    for kind in (AgenticConversationPruner, ConversationPruner):
        assert kind(own, model="gpt-5").prune(CHAT).report.safe_zone == report.safe_zone
        with pytest.raises(SettingsError, match="holds no setting"):
            kind(object(), model="gpt-5")


def test_the_function_returns_what_a_pruner_that_is_kept_returns(tmp_path: Path):
    pruner = AgenticConversationPruner(1_000, strategy="cache_aware", model="gpt-5", archive={})
    for length in range(2, len(CHAT) + 1):
        once = prune(CHAT[:length], 1_000, model="gpt-5", archive=tmp_path)
        assert once.conversation == pruner.prune(CHAT[:length]).conversation
    assert {edit.recall_id for edit in once.plan.edits} == {path.stem for path in tmp_path.iterdir()} != set()


def test_the_package_lists_every_public_name():
    assert {"prune", "ConversationPruner", "prune_history"} <= {*autoprune.__all__} <= {*dir(autoprune)}


# The safe zone

ZONE = "AUTOPRUNE_SAFE_ZONE"


def test_without_a_safe_zone_the_window_of_a_known_model_counts(monkeypatch: pytest.MonkeyPatch):
    def zone_of(args: PruneArgs, **options: Any) -> int:
        return prune(CHAT, args, **options).report.safe_zone

    monkeypatch.delenv(ZONE, raising=False)
    assert zone_of(PruneArgs(), model="gpt-4o") == zone_of(PruneArgs(model="gpt-4o")) == 108_000
    assert zone_of(PruneArgs(window=50_000)) == 40_000
    assert zone_of(PruneArgs("20k", model="gpt-4o")) == 20_480
    assert zone_of(PruneArgs(model="a model of nobody's")) == 51_200
    assert zone_of(PruneArgs(model="gpt-4o"), strategy="low_water") == 51_200
    monkeypatch.setenv(ZONE, "30k")
    assert zone_of(PruneArgs(model="gpt-4o")) == 30_720


@each_row(
    ("args", "strategy", "model", "zone"),
    [
        (PruneArgs(), None, "gpt-4o", 108_000),
        (PruneArgs("20k"), None, "gpt-4o", 20_480),
        (PruneArgs(model="gpt-4o"), None, "claude-sonnet-4-5", 108_000),
        (PruneArgs(), "low_water", "gpt-4o", 51_200),
        (PruneArgs(), None, None, 51_200),
    ],
)
def test_adapters_of_frameworks_take_the_model_of_the_request(
    args: PruneArgs, strategy: str | None, model: str | None, zone: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(ZONE, raising=False)

    def keep(message: Any, _: object) -> Any:
        return message

    framework = SimpleNamespace(**vars(chat), strip_unsent=keep, restore_unsent=keep)
    assert FrameworkPruner(framework, args, strategy).prune(CHAT, model).report.safe_zone == zone
    monkeypatch.setenv(ZONE, "30k")
    assert FrameworkPruner(framework, PruneArgs(), strategy).prune(CHAT, model).report.safe_zone == 30_720
