"""Budgets as people write them, settings from any object, and errors that say how to write it instead."""

import re
from collections import UserDict
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from unittest.mock import MagicMock

import conversations
import pytest
from tables import each_row

from autoprune import (
    AgenticConversationPruner,
    ConversationPruner,
    PruneArgs,
    SettingsError,
    effective_settings,
    prune_history,
)
from autoprune.settings.values import (
    SAFE_ZONE_TOKENS,
    budget_tokens,
    cache_ttl,
    duration,
    group_size,
    overhead_tokens,
    safe_zone,
    usual_zone,
    window_of,
)

HELLO = [{"role": "user", "content": "Hello."}]


@each_row(
    ("written", "tokens"),
    [
        (51200, 51_200),
        (1, 1),
        (51200.0, 51_200),
        ("51200", 51_200),
        ("51_200", 51_200),
        ("50k", 51_200),
        ("50K", 51_200),
        (" 50 K ", 51_200),
        ("0.5k", 512),
        ("1.5m", 1_572_864),
        ("2M", 2_097_152),
        ("50*1024", 51_200),
        ("50 * 1024", 51_200),
        ("2*25k", 51_200),
        ("0.5*100k", 51_200),
        ("1", 1),
    ],
)
def test_a_budget_may_be_written_as(written: int | float | str, tokens: int):
    assert budget_tokens(written) == tokens
    assert AgenticConversationPruner(PruneArgs(written)).prune(HELLO).report.safe_zone == tokens


@each_row("share", [0.7, "0.7"])
@each_row(
    ("model", "provider", "words"),
    [
        (None, None, r"share of the context window needs a model: name the model, or give the window"),
        ("no-such-model", None, "the context window of 'no-such-model' is not known: .*give the safe zone in tokens"),
        ("gpt-4o", "no-such-provider", "the context window of 'gpt-4o' is not known: .*no-such-provider"),
        ("command-r", None, "the context window of 'command-r' at Cohere is not known; give the safe zone"),
    ],
)
def test_a_share_of_a_window_that_is_not_known_is_refused(
    share: float | str, model: str | None, provider: str | None, words: str
):
    with pytest.raises(SettingsError, match=words):
        budget_tokens(share, model=model, provider=provider)


def shown(value: object) -> str:
    """A parameter as a test's name has it: the same in every process."""
    return type(value).__name__ if isinstance(value, MagicMock) or type(value) is object else repr(value)[:30]


WRONG = [
    *(0, -1, -51_200, 0.0, -0.7, 51_200.5, 1.5, float("nan"), float("inf"), float("-inf")),
    *("", " ", "0", "0k", "0.0", "-1", "abc", "k", "50kb", "50 tokens", "1e3", "nan", "inf", "50,000", "50**2", "2*"),
    *("51200.5", "1.5", "0.7*1", "9" * 5_000, "9" * 400 + ".0"),
    *(1e-6, "0.000001"),  # no token of any window
    *(None, True, False, [], [51_200], {}, b"50k", Decimal(50), MagicMock(), object()),
]


@each_row("value", WRONG, ids=shown)
def test_what_is_no_budget_is_refused_by_its_value_and_with_a_way_to_write_it(value: object):
    with pytest.raises(SettingsError) as refusal:
        budget_tokens(value, model="gpt-4o")
    assert repr(value) in str(refusal.value)
    assert 'write it as 51200, "50k" (k = 1024), "1.5m", "50*1024", or 0.7' in str(refusal.value)


# Settings in other objects


def mock(**settings: object) -> MagicMock:
    """What a test of a caller's passes: every other attribute is a mock too."""
    return MagicMock(**settings)


@pytest.mark.parametrize("kind", [SimpleNamespace, mock, PruneArgs])
def test_any_object_with_a_safe_zone_serves(kind: type):
    args = kind(conversation_prune_safe_zone_tokens=1_000)
    messages = conversations.openai_chat([conversations.words(900)], [conversations.words(500)])
    result = AgenticConversationPruner(args).prune(messages)
    assert (safe_zone(args), overhead_tokens(args), result.report.fallbacks) == (1_000, 0, ())
    assert result.conversation == conversations.openai_chat([None], [conversations.words(500)])


NOBODY = "the safe zone is 51,200, because none was given"


@each_row(
    "args",
    [
        *(PruneArgs(), None, {}, {"model": "gpt-4o"}, {"conversation_prune_safe_zone_tokens": None}, PruneArgs(None)),
        *(SimpleNamespace(model="gpt-4o"), SimpleNamespace(overhead_tokens=0), SimpleNamespace(format="")),
        SimpleNamespace(conversation_prune_safe_zone_tokens=None, conversation_prune_group_size=2),
    ],
    ids=shown,
)
@each_row("kind", [AgenticConversationPruner, ConversationPruner])
def test_the_safe_zone_is_51200_where_none_is_set_and_the_report_says_so(kind: type, args: object):
    assert SAFE_ZONE_TOKENS == 51_200
    report = kind(args).prune(HELLO).report
    assert (report.safe_zone, report.fallbacks) == (SAFE_ZONE_TOKENS, (NOBODY,))
    assert kind(args, environ={"AUTOPRUNE_SAFE_ZONE": "51200"}).prune(HELLO).report.fallbacks == ()


class Tool:
    """An object of something else: its attribute of a known name is a method."""

    def format(self) -> str:
        return "openai_chat"


WITHOUT = [
    *(object(), SimpleNamespace(), [], ["50k"], {"50k"}, Tool(), Tool, SimpleNamespace(model=None), print),
    *(SimpleNamespace(conversation_prune_safe_zone_tokens=None), MagicMock(conversation_prune_safe_zone_tokens=None)),
]


def uses(args: object) -> list[Callable[..., object]]:
    """Every way to a pruner with these arguments."""
    kinds = AgenticConversationPruner, ConversationPruner
    attached = prune_history(args=args)(lambda messages: messages)
    ways = [use for kind in kinds for use in (kind(args).prune, kind(args).prune_conversations, kind(args).plan)]
    return [*ways, attached, lambda _: effective_settings(args, {})]


@each_row("args", WITHOUT, ids=shown)
def test_what_holds_no_setting_is_refused_and_the_error_says_what_to_give(args: object):
    said = (
        rf"args is an? {type(args).__name__} and holds no setting: give PruneArgs\(\"50k\"\), a mapping like it, a safe"
    )
    for use in uses(args):
        with pytest.raises(SettingsError, match=said):
            use(HELLO)
    assert AgenticConversationPruner(args, environ={"AUTOPRUNE_SAFE_ZONE": "2k"}).prune(HELLO).report.safe_zone == 2_048
    assert effective_settings(args, {}, safe_zone="2k")[0].value == 2_048


def test_a_misspelled_attribute_of_what_holds_no_setting_is_named():
    with pytest.raises(
        SettingsError, match=r"but 'safe_zone' \(did you mean conversation_prune_safe_zone_tokens\?\): give"
    ):
        AgenticConversationPruner(SimpleNamespace(size=1, safe_zone=4_096)).prune(HELLO)


@each_row("args", [True, False, b"50k", Decimal(50), 0, -1, 1.5, float("nan"), 2j], ids=shown)
def test_what_is_no_budget_by_itself_is_refused(args: object):
    for use in uses(args):
        with pytest.raises(SettingsError, match=f"the safe zone is {re.escape(repr(args))}.*: write it as 51200"):
            use(HELLO)


@pytest.mark.parametrize("kind", [dict, UserDict, lambda held: MappingProxyType(dict(held))])
def test_a_mapping_is_read(kind: Callable[[object], object]):
    held = {"conversation_prune_safe_zone_tokens": "1k", "overhead_tokens": 7, "conversation_prune_group_size": 2}
    args, same = kind(held), PruneArgs("1k", overhead_tokens=7, conversation_prune_group_size=2)
    messages = conversations.openai_chat([conversations.words(900)], [conversations.words(500)])
    for pruner in (AgenticConversationPruner, ConversationPruner):
        assert pruner(args).prune(messages).conversation == pruner(same).prune(messages).conversation != messages
        assert pruner(args).count_tokens(HELLO) == pruner(same).count_tokens(HELLO)
    assert [(each.name, each.value) for each in effective_settings(args, {})] == [
        (each.name, each.value) for each in effective_settings(same, {})
    ]
    assert effective_settings(args, {})[0].where == "args['conversation_prune_safe_zone_tokens']"


@each_row(
    ("key", "said"),
    [
        (
            "conversation_prune_safe_zone_token",
            " (did you mean conversation_prune_safe_zone_tokens?)",
        ),
        (
            "safe_zone",
            " (did you mean conversation_prune_safe_zone_tokens?)",
        ),
        (
            "group-size",
            " (did you mean conversation_prune_group_size?)",
        ),
        ("Model", " (did you mean model?)"),
        ("temperature", "; there are conversation_prune_safe_zone_tokens, conversation_prune_group_size, model,"),
        (7, "; there are conversation_prune_safe_zone_tokens, "),
    ],
)
def test_a_key_that_names_no_setting_is_refused_and_the_near_one_offered(key: object, said: str):
    for use in uses({"conversation_prune_safe_zone_tokens": 1_000, key: 1}):
        with pytest.raises(SettingsError, match=re.escape(f"args has no setting {key!r}{said}")):
            use(HELLO)


# The window by hand


@each_row("window", [0, -1, 0.5, "0.5", 1.5, "abc", "", True, 10**13])
def test_a_window_that_is_none_is_refused(window: object):
    with pytest.raises(
        SettingsError, match=f"^window is {window!r}: give the context window in tokens, such as 200_000"
    ):
        safe_zone(PruneArgs(0.7, window=window))
    if str(window):
        said = f"AUTOPRUNE_WINDOW is '{window}': give the context window"
        with pytest.raises(SettingsError, match=said):
            safe_zone(PruneArgs(0.7), {"AUTOPRUNE_WINDOW": str(window)})


@pytest.mark.parametrize("model", [None, "no-such-model", "command-r"])
def test_an_error_about_a_window_names_the_way_to_give_it(model: str | None):
    with pytest.raises(SettingsError, match=r"the window by hand \(window=200_000\)"):
        safe_zone(PruneArgs(0.7, model=model))


@pytest.mark.parametrize("kind", [SimpleNamespace, mock])
def test_the_settings_of_any_object_are_read(kind: type):
    args = kind(conversation_prune_safe_zone_tokens=0.5, model="gpt-4o", provider="openai", overhead_tokens=100)
    assert (safe_zone(args), overhead_tokens(args)) == (64_000, 100)


@pytest.mark.parametrize("model", [None, "", 7, MagicMock()], ids=shown)
def test_a_model_that_is_no_name_is_none(model: object):
    for args in (
        PruneArgs(1_000, model=model),
        SimpleNamespace(model=model, conversation_prune_safe_zone_tokens=1_000),
    ):
        assert AgenticConversationPruner(args).prune(HELLO).report.fallbacks == ()
    with pytest.raises(SettingsError, match="a share of the context window needs"):
        safe_zone(PruneArgs(0.7, model=model))


@pytest.mark.parametrize("kind", [SimpleNamespace, mock])
def test_a_safe_zone_that_is_no_budget_is_refused_in_any_object(kind: type):
    with pytest.raises(SettingsError, match=r"the safe zone is \[\], a list"):
        AgenticConversationPruner(kind(conversation_prune_safe_zone_tokens=[])).prune(HELLO)


def test_a_mock_without_a_safe_zone_is_refused():
    with pytest.raises(SettingsError, match=r"the safe zone is <MagicMock .*>, a MagicMock: write it as"):
        AgenticConversationPruner(MagicMock()).prune(HELLO)


# What is sent beside the messages


def test_overhead_is_counted():
    plain, beside = (AgenticConversationPruner(PruneArgs(overhead_tokens=tokens)) for tokens in (0, 1_500))
    for messages in ([], HELLO):
        assert beside.count_tokens(messages) == plain.count_tokens(messages) + 1_500
    assert beside.prune(HELLO).report.floor["sent beside"] == plain.prune(HELLO).report.floor["sent beside"] + 1_500


def test_a_prompt_that_its_overhead_takes_above_the_safe_zone_is_pruned():
    messages = conversations.openai_chat([conversations.words(900)], ["ok"])
    result = AgenticConversationPruner(PruneArgs(7_500, overhead_tokens=7_000)).prune(messages)
    assert result.conversation == conversations.openai_chat([None], ["ok"])


@each_row("kind", [PruneArgs, SimpleNamespace])
@each_row("value", [-1, 1.5, 1_500.0, "1500", "", True, 10**400])
def test_an_overhead_that_is_no_number_of_tokens_is_refused(kind: type, value: object):
    pruner = AgenticConversationPruner(kind(overhead_tokens=value))
    for use in (pruner.prune, pruner.count_tokens):
        with pytest.raises(SettingsError, match=f"overhead_tokens is {value!r}: give the number of tokens"):
            use(HELLO)


def test_a_setting_that_is_none_counts_as_absent():
    args = PruneArgs(1_000, None, overhead_tokens=None)
    assert (overhead_tokens(args), group_size(args), safe_zone(args)) == (0, 4, 1_000)


@pytest.mark.parametrize("value", [[], MagicMock()], ids=shown)
def test_an_overhead_that_is_nothing_like_a_number_is_refused_in_prune_args_only(value: object):
    assert overhead_tokens(SimpleNamespace(overhead_tokens=value)) == 0
    with pytest.raises(SettingsError, match="overhead_tokens is"):
        overhead_tokens(PruneArgs(overhead_tokens=value))


# The life of the cache


@each_row(
    ("given", "seconds"),
    [("5m", 300), ("1h", 3_600), ("90s", 90), ("90", 90), (300, 300), (0.5, 0.5), ("1.5 H", 5_400), (None, None)],
)
def test_a_cache_life_is_a_number_of_seconds(given: object, seconds: float | None):
    assert cache_ttl(PruneArgs(cache_ttl=given)) == seconds


@each_row("given", ["long", "", "5d", "-5m", -1, True, float("nan"), float("inf"), 10**400])
def test_what_is_no_time_is_refused(given: object):
    with pytest.raises(SettingsError, match=r'cache_ttl is .*: write it as "5m", "1h", or a number of seconds'):
        duration(given)


def test_the_strategy_is_told_of_the_life_of_the_cache_and_of_what_it_costs():
    args = PruneArgs("50k", model="claude-sonnet-4-5", cache_ttl="1h")
    plain, hour = (AgenticConversationPruner(each) for each in (replace(args, cache_ttl=None), args))
    known = [each._terms("cache_aware", 1.0).strategy for each in (plain, hour)]
    assert [(each.prices.write, each.cache_life) for each in known] == [(1.25, 300), (2.0, 3_600.0)]


def test_a_budget_as_text_is_checked_at_once():
    for budget in ("50x", "abc", "", "-1k"):
        for pruner in (AgenticConversationPruner, ConversationPruner):
            with pytest.raises(SettingsError, match=f"the safe zone is {budget!r}: write it as 51200"):
                pruner(budget)
    assert AgenticConversationPruner("0.7").args == "0.7"  # the window is looked up when it is used


@each_row(
    ("model", "betas", "window"),
    [
        ("claude-opus-4-6", [], 200_000),
        ("claude-opus-4-6", ["oauth-2025-04-20", "context-1m-2025-08-07"], 1_000_000),
        ("claude-opus-4-6[1m]", [], 1_000_000),
        ("us.anthropic.claude-sonnet-4-6-v1:0", [], 200_000),
        ("claude-sonnet-4-5", ["context-1m-2025-08-07"], 1_000_000),
        ("claude-sonnet-4-5[1m]", [], 1_000_000),
        ("claude-sonnet-4-20250514", [" context-1m-2025-08-07"], 1_000_000),
        ("claude-haiku-4-5-20251001", [], 200_000),
        ("claude-opus-4-7", [], 1_000_000),
        ("claude-opus-5-5", [], 1_000_000),
        ("claude-opus-6", [], 1_000_000),
        ("gemini-3-pro-preview", [], 1_000_000),
        ("gpt-4o", ["context-1m-2025-08-07"], 128_000),
        ("gpt-5", [], 272_000),
        ("azure/gpt5", [], 272_000),  # taken to be like it
        ("gpt-5.4", [], 922_000),
        ("a model of nobody's", [], None),
        (None, [], None),
    ],
)
def test_a_request_gets_the_long_window_of_an_older_claude_only_if_it_asks(
    model: str | None, betas: list[str], window: int | None
):
    assert window_of(model, betas) == window
    if model and window and not betas:
        assert budget_tokens(0.5, model=model) == window // 2
    assert usual_zone(model, window) == (window or 200_000) - 20_000


def test_only_the_windows_that_openai_lists_include_the_answers():
    assert budget_tokens(1.0, model="gpt-5-mini") == 272_000
    assert budget_tokens(1.0, model="gpt-5-mini", provider="github-copilot") == 264_000
