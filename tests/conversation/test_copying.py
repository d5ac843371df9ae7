"""Pruners, results, reports and plans are pickled and copied; caches stay behind."""

import copy
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from operator import methodcaller
from typing import Any

import conversations
import openai
import pytest
from every_format import FORMATS
from every_format import conversations as of_format
from hypothesis import HealthCheck, given
from profiles import examples, sample_cases
from shipped import PRESETS
from tables import each_row

from autoprune import (
    AgenticConversationPruner,
    Chunked,
    Clamp,
    ConversationPruner,
    OpenAISummarizer,
    Protections,
    PruneArgs,
    PruneEvent,
    Retention,
    RuleError,
    ToolInputs,
)
from autoprune.pruners.report import Report
from autoprune.strategies.catalog import available
from autoprune.strategies.clearing import LowWater
from autoprune.strategies.per_result import PerResult
from autoprune.summarizers.action_trace import ActionTrace
from autoprune.summarizers.digest import Digest
from autoprune.summarizers.levels import Levels
from autoprune.summarizers.symbols import Symbols
from autoprune.tokens import ExactCounter, Memo, exact

Copy = Callable[[Any], Any]


def pickled(protocol: int) -> Copy:
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


PROTOCOLS = {f"pickle {protocol}": pickled(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)}
WAYS: dict[str, Copy] = {**PROTOCOLS, "deepcopy": copy.deepcopy, "copy": copy.copy}
MESSAGES = conversations.openai_chat(*([conversations.words(400)] for _ in range(6)))
ARGS = PruneArgs(1_000)


BETWEEN = [f"pickle {protocol}" for protocol in range(1, pickle.HIGHEST_PROTOCOL)]  # the first and the last stand for


@pytest.fixture(params=[pytest.param(way, marks=pytest.mark.full if way in BETWEEN else []) for way in WAYS])
def way(request: pytest.FixtureRequest) -> Copy:
    return WAYS[request.param]


def words(text: str) -> int:
    return len(text.split())


def upper(text: str) -> str:
    return text.upper()[:200]


def summary(brief: object) -> str:
    return "Summary: all went well."


KINDS = [AgenticConversationPruner, ConversationPruner]


# Pruners


def noted(event: PruneEvent) -> None:
    """Look on."""


@pytest.mark.full
@each_row("kind", KINDS)
@each_row("is_used", [False, True])
def test_a_copy_of_a_pruner_prunes_as_the_pruner_does(way: Copy, kind: type, is_used: bool):
    pruner = kind(ARGS, conversation_id="7", on_pruned=noted, environ={"AUTOPRUNE_OVERHEAD_TOKENS": "11"})
    pruner.replacement_message = "Gone."
    if is_used:
        pruner.prune(MESSAGES)
    copied = way(pruner)
    assert type(copied) is kind
    assert (copied.args, copied.conversation_id, copied.replacement_message) == (ARGS, "7", "Gone.")
    for messages in (MESSAGES, MESSAGES[:-2]):
        for strategy in sample_cases((None, *pruner.strategies), 3):
            ours, theirs = pruner.prune(messages, strategy), copied.prune(messages, strategy)
            assert theirs.conversation == ours.conversation
            assert theirs.report.to_dict().keys() == ours.report.to_dict().keys()
            assert (theirs.report.tokens_after, theirs.report.floor) == (ours.report.tokens_after, ours.report.floor)
    assert copied.count_tokens(MESSAGES) == pruner.count_tokens(MESSAGES)


def test_memos_locks_and_vocabularies_stay_behind():
    pruner = AgenticConversationPruner(ARGS)
    empty = len(pickle.dumps(pruner))
    pruner.prune(MESSAGES)
    assert len(pickle.dumps(pruner)) == empty
    assert copy.deepcopy(pruner)._memory is not pruner._memory
    counter = Memo(exact())
    counter("some words")
    assert pickle.loads(pickle.dumps(counter)).count is exact()
    assert copy.deepcopy(ExactCounter("cl100k_base")) is exact("cl100k_base")


def test_formats_of_the_callers_own_are_copied(way: Copy):
    from autoprune.wire import chat

    pruner = AgenticConversationPruner(ARGS, formats=[chat])
    assert way(pruner).formats == pruner.formats


# Results, reports, plans, events


def figures(report: Report) -> dict[str, object]:
    return report.to_dict()


CASES: list[tuple[type, dict[str, Any], Any]] = [
    (AgenticConversationPruner, {}, None),
    (AgenticConversationPruner, {}, "low_water(target=0.5)"),
    (AgenticConversationPruner, {"count": words}, LowWater(clamp=Clamp(200), clear_tool_inputs=ToolInputs())),
    (AgenticConversationPruner, {}, LowWater(protect=Protections(tools=("read_*",), last_results=1))),
    *((ConversationPruner, {}, name) for name in PRESETS),
    (ConversationPruner, {"llm": summary}, "summarize"),
    (ConversationPruner, {"llm": summary}, PerResult(mode="custom", function=upper, threshold=100)),
]


@each_row("case, safe_zone, is_read", sample_cases(product(CASES, (1_000, 1_000_000), (False, True)), 3))
def test_a_copy_of_a_result_says_the_same(case: tuple[type, dict[str, Any], Any], safe_zone: int, is_read: bool):
    kind, options, strategy = case
    for way in (pickled(5), copy.deepcopy, copy.copy):
        result = kind(PruneArgs(safe_zone), **options).prune(MESSAGES, strategy)
        if is_read:
            figures(result.report)
        copied = way(result)
        assert copied.conversation == result.conversation
        assert figures(copied.report) == figures(result.report)
        assert (str(copied.report), copied.plan.tokens) == (str(result.report), result.plan.tokens)
        assert way(result.report).rows == result.report.rows
        plan = way(result.plan)
        assert [edit.text for edit in plan.edits] == [edit.text for edit in result.plan.edits]
        assert [*plan.kept.values()] == [*result.plan.kept.values()]
        event = way(PruneEvent(result.report, "id", {"a": 1}))
        assert event.to_dict() == PruneEvent(result.report, "id").to_dict()


@each_row("format", sorted(FORMATS))
def test_results_of_every_format_are_copied(format: str):
    @examples(8, suppress_health_check=[*HealthCheck])
    @given(messages=of_format(format))
    def check(messages: list[Any]) -> None:
        for kind in KINDS:
            result = kind(PruneArgs(200)).prune(messages)
            for way in (pickled(2), pickled(5), copy.deepcopy):
                copied = way(result)
                assert copied.conversation == result.conversation
                assert figures(copied.report) == figures(result.report)

    check()


def test_a_report_that_was_not_read_gives_its_plan_after_the_messages_have_changed():
    messages = copy.deepcopy(MESSAGES)
    report = AgenticConversationPruner(PruneArgs(10**6)).prune(messages).report
    data = pickle.dumps(report)
    tokens = AgenticConversationPruner(ARGS).count_tokens(messages)
    messages.clear()
    assert pickle.loads(data).tokens_before == report.tokens_before == tokens


# Strategies, summarizers, settings, errors


@each_row(
    "value",
    [
        *available().values(),
        *(make() for make in PRESETS.values()),
        LowWater(protect=Protections(pinned=[1]), clamp=Clamp(), clear_tool_inputs=ToolInputs()),
        *(PerResult(mode="custom", function=upper), Retention(), PruneArgs("5k", window=7), Digest(), Symbols()),
        *(ActionTrace(), Levels(Digest()), Chunked(summary, 9_000), OpenAISummarizer(None, "m")),  # type: ignore[arg-type]
    ],
    ids=lambda value: getattr(value, "name", type(value).__name__),
)
def test_strategies_summarizers_and_settings_equal_their_copies(way: Copy, value: object):
    assert way(value) == value


def test_a_strategy_that_was_used_equals_its_copy(way: Copy):
    strategy = PerResult(mode="custom", function=upper, threshold=100)
    pruner = ConversationPruner(PruneArgs(500))
    pruned = pruner.prune(MESSAGES, strategy).conversation
    assert way(strategy) == strategy
    assert pruner.prune(MESSAGES, way(strategy)).conversation == pruned


def test_errors_are_pickled():
    error = pickle.loads(pickle.dumps(RuleError("no", [1])))
    assert (str(error), error.problems) == ("no", (1,))


# What is not copied


def test_a_function_that_cannot_be_pickled_is_shared_by_copies():
    pruner = AgenticConversationPruner(ARGS, on_pruned=lambda event: None)
    for way in (copy.copy, copy.deepcopy):
        assert way(pruner).on_pruned is pruner.on_pruned
        assert way(pruner).prune(MESSAGES).conversation == pruner.prune(MESSAGES).conversation


def client() -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url="http://localhost:1")


@pytest.mark.parametrize(
    ("create", "place"),
    [
        (lambda llm: llm, "client"),
        (lambda llm: ConversationPruner(ARGS, llm), "llm.client"),
        (lambda llm: ConversationPruner(ARGS, Chunked(llm, 9)), "llm.inner.client"),
    ],
)
def test_a_client_is_shared_by_deep_copies(create: Callable[[OpenAISummarizer], Any], place: str):
    shared = create(OpenAISummarizer(client(), "m"))
    copied = copy.deepcopy(shared)
    for name in place.split("."):
        copied, shared = getattr(copied, name), getattr(shared, name)
    assert copied is shared


def test_a_client_that_cannot_be_pickled_hinders_no_report():
    pruner = ConversationPruner(ARGS, OpenAISummarizer(client(), "m", retries=0), max_calls=0)
    result = pruner.prune(MESSAGES)
    assert figures(pickle.loads(pickle.dumps(result)).report) == figures(result.report)


# In other processes


@pytest.mark.full
def test_pruners_and_results_pass_between_processes():
    pruners = [kind(ARGS) for kind in KINDS]
    ours = [pruner.prune(MESSAGES) for pruner in pruners]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        theirs = pool.map(methodcaller("prune", MESSAGES), pruners)
    for one, other in zip(ours, theirs, strict=True):
        assert one.conversation == other.conversation
        assert one.report.rows == other.report.rows


# What `help` prints


PAGES = """
import importlib, pkgutil, pydoc, autoprune
for found in pkgutil.walk_packages(autoprune.__path__, "autoprune."):
    try:
        module = not found.name.endswith("__main__") and importlib.import_module(found.name)
    except ModuleNotFoundError:  # an adapter whose framework is not installed
        assert found.name.startswith("autoprune.integrations.")
    else:
        print(pydoc.plain(pydoc.render_doc(module)))
for name in autoprune.__all__:
    print(name, pydoc.plain(pydoc.render_doc(getattr(autoprune, name))))
print(pydoc.plain(pydoc.render_doc(autoprune.AgenticConversationPruner(None))))
print(autoprune.AgenticConversationPruner(None), autoprune.ConversationPruner(None))
"""


@pytest.mark.full
def test_help_prints_nothing_of_the_environment():
    secrets = {"SOME_API_KEY": "sk-0123456789", "AUTOPRUNE_MODEL": "model-of-mine", "HOME": "/home/nobody-at-all"}
    environ = {**secrets, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PAGES], env=environ, capture_output=True, text=True, check=True)
    assert "class ConversationPruner" in done.stdout
    assert "effective_settings" in done.stdout
    for text in (*secrets.values(), "SOME_API_KEY", "environ("):
        assert text not in done.stdout


def test_no_default_is_the_environment():
    assert [*defaults_that_are_mappings(ConversationPruner)] == []


def defaults_that_are_mappings(kind: type) -> Iterator[object]:
    import os

    for name in ("__init__", "prune", "plan"):
        for default in (getattr(kind, name).__kwdefaults__ or {}).values():
            if default is os.environ:
                yield default
