"""AUTOPRUNE_* variables: the call comes before the arguments, they before the environment, it before the defaults."""

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import conversations
import pytest
from command_line import run_text
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.settings.values import (
    SETTINGS,
    VARIABLES,
    Setting,
    Source,
    effective_settings,
    group_size,
    overhead_tokens,
    resolve,
    safe_zone,
    setting,
    text_setting,
    unknown_variables,
    variables,
)

HELLO = [{"role": "user", "content": "Hello."}]
SAID = {
    "AUTOPRUNE_SAFE_ZONE": "20k",
    "AUTOPRUNE_GROUP_SIZE": "6",
    "AUTOPRUNE_MODEL": "gpt-4o",
    "AUTOPRUNE_PROVIDER": "openai",
    "AUTOPRUNE_WINDOW": "200k",
    "AUTOPRUNE_OVERHEAD_TOKENS": "3_000",
    "AUTOPRUNE_FORMAT": "openai_chat",
    "AUTOPRUNE_THINKING_POLICY": "strip",
    "AUTOPRUNE_CACHE_TTL": "1h",
    "AUTOPRUNE_COMPACT_AT": "150k",
    "AUTOPRUNE_STRATEGY": "low_water",
}


def pruner(environ: dict[str, str], args: object = None) -> AgenticConversationPruner:
    return AgenticConversationPruner(args, environ=environ)


# Who comes first

BY_NAME = [
    ("safe_zone", "conversation_prune_safe_zone_tokens", 20_480, 1_000, 51_200),
    ("group_size", "conversation_prune_group_size", 6, 2, 4),
    ("model", "model", "gpt-4o", "gpt-5", None),
    ("provider", "provider", "openai", "azure", None),
    ("window", "window", 204_800, 100_000, None),
    ("overhead_tokens", "overhead_tokens", 3_000, 7, 0),
    ("cache_ttl", "cache_ttl", 3_600, 300, None),
    ("format", "format", "openai_chat", "anthropic_messages", None),
    ("thinking_policy", "thinking_policy", "strip", "refuse", None),
]


@each_row(("name", "attribute", "said", "given", "default"), BY_NAME)
@each_row("kind", [PruneArgs, SimpleNamespace])
def test_the_call_comes_before_the_arguments_before_the_environment_before_the_default(
    kind: type, name: str, attribute: str, said: object, given: object, default: object
):
    args, where = kind(**{attribute: given}), f"{kind.__name__}.{attribute}"
    assert setting(name, args, SAID, {name: said}) == Setting(name, said, Source.CALL, f"{name}=")
    assert setting(name, args, SAID, {name: None}) == Setting(name, given, Source.ARGS, where)
    empty = kind() if kind is PruneArgs else kind(**{"model" if name == "format" else "format": "openai_chat"})
    assert setting(name, empty, SAID) == Setting(name, said, Source.ENVIRONMENT, VARIABLES[name])
    assert setting(name, empty) == Setting(name, default, Source.DEFAULT)


def test_a_strategy_is_the_calls_or_the_environments():
    args = SimpleNamespace(strategy="of something else")
    assert setting("strategy", args, SAID, {"strategy": "best"}) == Setting("strategy", "best", "call", "strategy=")
    assert setting("strategy", args, SAID) == Setting("strategy", "low_water", "environment", "AUTOPRUNE_STRATEGY")
    assert setting("strategy", args) == Setting("strategy", None, Source.DEFAULT)


def test_every_setting_has_a_variable_and_a_place_in_the_list():
    found = effective_settings(PruneArgs("30k", model="gpt-5"), {**SAID, "AUTOPRUNE_FORMAT": " "}, strategy="best")
    assert tuple(each.name for each in found) == SETTINGS == tuple(VARIABLES)
    assert set(VARIABLES.values()) == set(SAID)
    assert [(each.value, each.source.value, each.where) for each in found] == [
        (30_720, "args", "PruneArgs.conversation_prune_safe_zone_tokens"),
        (6, "environment", "AUTOPRUNE_GROUP_SIZE"),
        ("gpt-5", "args", "PruneArgs.model"),
        ("openai", "environment", "AUTOPRUNE_PROVIDER"),
        (204_800, "environment", "AUTOPRUNE_WINDOW"),
        (3_000, "environment", "AUTOPRUNE_OVERHEAD_TOKENS"),
        (None, "default", ""),
        ("strip", "environment", "AUTOPRUNE_THINKING_POLICY"),
        (3_600.0, "environment", "AUTOPRUNE_CACHE_TTL"),
        (153_600, "environment", "AUTOPRUNE_COMPACT_AT"),
        ("best", "call", "strategy="),
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_blank_variable_is_none(blank: str):
    assert variables({"AUTOPRUNE_MODEL": blank, "AUTOPRUNE_SAFE_ZONE": " 20k ", "HOME": "/"}) == {
        "AUTOPRUNE_SAFE_ZONE": "20k"
    }
    assert setting("safe_zone", None, {"AUTOPRUNE_SAFE_ZONE": blank}) == Setting("safe_zone", 51_200, Source.DEFAULT)


def test_variables_that_name_no_setting_are_found():
    assert unknown_variables(
        {**SAID, "AUTOPRUNE_SAFEZONE": "1", "AUTOPRUNE_": "", "PRUNE": "2", "AUTOPRUNE_PROXY": "3"}
    ) == (
        "AUTOPRUNE_",
        "AUTOPRUNE_SAFEZONE",
    )


# Texts


@each_row(
    ("variable", "text", "use", "value"),
    [
        ("AUTOPRUNE_SAFE_ZONE", "50*1024", safe_zone, 51_200),
        ("AUTOPRUNE_SAFE_ZONE", "0.5", safe_zone, 102_400),
        ("AUTOPRUNE_OVERHEAD_TOKENS", "0", overhead_tokens, 0),
        ("AUTOPRUNE_OVERHEAD_TOKENS", "2k", overhead_tokens, 2_048),
        ("AUTOPRUNE_GROUP_SIZE", "1", group_size, 1),
        ("AUTOPRUNE_GROUP_SIZE", "0", group_size, 1),
    ],
)
def test_a_number_may_be_written_as(variable: str, text: str, use, value: int):
    assert use(PruneArgs(), {**SAID, variable: text}) == value


@each_row(
    ("variable", "text", "said"),
    [
        ("AUTOPRUNE_SAFE_ZONE", "abc", "write it as 51200,"),
        ("AUTOPRUNE_SAFE_ZONE", "0", "write it as 51200,"),
        ("AUTOPRUNE_SAFE_ZONE", "0.7", "a safe zone that is a share of the context window needs a model"),
        ("AUTOPRUNE_OVERHEAD_TOKENS", "-1", "give the number of tokens sent beside the messages, 0 or more"),
        ("AUTOPRUNE_OVERHEAD_TOKENS", "0.5", "give the number of tokens sent beside the messages, 0 or more"),
        ("AUTOPRUNE_FORMAT", "claude", "there is no format 'claude'; there are openai_chat,"),
        ("AUTOPRUNE_THINKING_POLICY", "keep", "give one of drop_block, strip, refuse, report"),
        ("AUTOPRUNE_STRATEGY", "best", "there is no strategy 'best'; there are tool_output_cleanup, low_water"),
        (
            "AUTOPRUNE_STRATEGY",
            "low_water(goal=1)",
            "strategy 'low_water(goal=1)' cannot be read (it has no goal); low_water ",
        ),
    ],
)
def test_a_variable_that_cannot_be_used_is_named_when_it_is_used(variable: str, text: str, said: str):
    ours = pruner({variable: text})
    assert ours.get_available_strategies()
    for use in (ours.prune, ours.plan):
        with pytest.raises(SettingsError) as refusal:
            use(HELLO)
        assert str(refusal.value).startswith(f"{variable} is {text!r}: {said}")


@pytest.mark.parametrize("text", ["-1", "1.5", "0.5", "four"])
def test_a_group_size_that_is_no_number_of_messages_is_refused(text: str):
    with pytest.raises(SettingsError) as refusal:
        group_size(None, {"AUTOPRUNE_GROUP_SIZE": text})
    assert str(refusal.value) == f"AUTOPRUNE_GROUP_SIZE is {text!r}: give a number of messages, 1 or more"


def test_an_error_of_the_arguments_names_no_variable():
    with pytest.raises(SettingsError, match=r"^the safe zone is 'abc': write it as"):
        pruner(SAID, PruneArgs("abc")).prune(HELLO)


def test_the_value_of_a_variable_is_told_apart_from_what_is_said_of_it():
    def refuse(model: str) -> None:
        raise SettingsError(f"no such thing as {model}")

    with pytest.raises(SettingsError, match=r"^AUTOPRUNE_MODEL is 'gpt-4o': no such thing as gpt-4o$"):
        resolve("model", refuse, None, SAID)


@pytest.mark.parametrize("ask", [lambda: setting("size", None), lambda: effective_settings(None, {}, size=1)])
def test_a_setting_that_there_is_none_of_is_refused(ask):
    with pytest.raises(SettingsError, match=r"there is no setting 'size' \(did you mean group_size\?\)$"):
        ask()


# In a pruner


def test_a_pruner_without_arguments_goes_by_the_environment():
    messages = conversations.openai_chat([conversations.words(900)], [conversations.words(500)])
    environ = {"AUTOPRUNE_SAFE_ZONE": "1000", "AUTOPRUNE_OVERHEAD_TOKENS": "10", "AUTOPRUNE_STRATEGY": "low_water"}
    ours = pruner(environ, PruneArgs())
    result = ours.prune(messages)
    assert result.conversation == conversations.openai_chat([None], [conversations.words(500)])
    assert (result.report.strategy, result.report.safe_zone, result.report.floor["sent beside"]) == (
        "low_water",
        1_000,
        13,
    )
    assert ours.plan(messages).tokens == result.report.tokens_after
    assert ours.count_tokens(messages) == pruner({}).count_tokens(messages) + 10
    assert ours.prune(messages, "tool_output_cleanup").report.strategy == "tool_output_cleanup"
    ours.args = PruneArgs("1m")
    assert ours.prune_conversations(messages) is messages


def test_a_model_of_the_environment_sets_the_thinking_policy_and_the_window():
    model = {"AUTOPRUNE_MODEL": "claude-opus-5-5"}
    assert text_setting(None, "model", model) == "claude-opus-5-5"
    assert pruner({"AUTOPRUNE_MODEL": "gpt-4o"}, PruneArgs(0.5)).prune(HELLO).report.safe_zone == 64_000


def test_the_environment_is_read_when_a_pruner_is_made_and_never_again():
    environ = {"AUTOPRUNE_SAFE_ZONE": "1000"}
    ours = pruner(environ)
    environ["AUTOPRUNE_SAFE_ZONE"] = "2000"
    assert (ours.prune(HELLO).report.safe_zone, pruner(environ).prune(HELLO).report.safe_zone) == (1_000, 2_000)


# On the command line

SESSION = str(Path(__file__).parents[2] / "fixtures" / "sessions" / "edit_loop_xml.json")


def run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_text(*arguments, environ=environ)


def test_the_settings_are_listed_with_where_they_come_from():
    done = run({"AUTOPRUNE_SAFE_ZONE": "20k", "AUTOPRUNE_STRATEGY": "low_water", "AUTOPRUNE_ZONE": "1"}, "settings")
    of_prune, live, _ = (part.splitlines() for part in done.stdout.split("\n\n"))
    rows = [re.split(r" {2,}", line.rstrip()) for line in of_prune]
    assert rows[0] == ["prune", "value", "from"]
    assert rows[1] == ["safe_zone", "20,480", "AUTOPRUNE_SAFE_ZONE"]
    assert [(name, where) for name, _, where in rows[2:-1]] == [(name, "default") for name in SETTINGS[1:-1]]
    assert rows[-1] == ["strategy", "low_water", "AUTOPRUNE_STRATEGY"]
    assert [line.rstrip() for line in live[:3]] == [
        "run, proxy       value",
        "safe_zone        20k",
        "strategy         low_water",
    ]
    said = "autoprune: there is no setting AUTOPRUNE_ZONE (did you mean AUTOPRUNE_SAFE_ZONE?)\n"
    assert (done.returncode, done.stderr) == (0, said)


def test_the_settings_come_as_json_too():
    rows = json.loads(run({"AUTOPRUNE_COMPACT_AT": "10m"}, "settings", "--json").stdout)
    limit = "the window less the reply, or 0.9 of where the client compacts"
    assert rows[0]["run"] == rows[0]["proxy"] == limit
    (row,) = (row for row in rows if row["name"] == "compact_at")
    assert row.pop("run") == row.pop("proxy") == "10m"
    assert row == {
        "name": "compact_at",
        "value": 10 * 1024**2,
        "source": "environment",
        "where": "AUTOPRUNE_COMPACT_AT",
    }
    assert [row["name"] for row in rows] == list(SETTINGS)


@pytest.mark.parametrize("command", [("settings",), ("prune", SESSION)])
def test_a_variable_that_cannot_be_used_is_a_wrong_option(command: tuple[str, ...]):
    done = run({"AUTOPRUNE_THINKING_POLICY": "keep"}, *command)
    said = "autoprune: AUTOPRUNE_THINKING_POLICY is 'keep': give one of drop_block, strip, refuse, report\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, ("--safe-zone", "0.5", "--window", "40000")),
        ({"AUTOPRUNE_WINDOW": "40_000"}, ("--safe-zone", "0.5", "--model", "no-such-model")),
        ({"AUTOPRUNE_WINDOW": "7", "AUTOPRUNE_SAFE_ZONE": "0.5"}, ("--window", "40000")),
    ],
)
def test_a_window_is_given_on_the_command_line_and_in_the_environment(
    environ: dict[str, str], options: tuple[str, ...]
):
    done = run(environ, "prune", SESSION, "--json", *options)
    assert json.loads(done.stdout)["safe_zone"] == 20_000


@pytest.mark.parametrize("safe_zone", ["4q", "", "-1", "0"])
def test_a_wrong_safe_zone_on_the_command_line_is_a_wrong_option(safe_zone: str):
    done = run({}, "prune", SESSION, f"--safe-zone={safe_zone}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the safe zone is {safe_zone!r}: write it as" in done.stderr
