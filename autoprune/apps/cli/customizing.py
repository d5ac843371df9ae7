"""`autoprune strategies` and `settings`: list what can be configured."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from textwrap import fill

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.config_files import Given, load_defaults, prune_args
from autoprune.apps.cli.console import show, show_json
from autoprune.errors import did_you_mean
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.naming import choose_strategy, strategy_text
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.pruners.report.drawing import printable, table_of
from autoprune.settings.plugins import plugin_names
from autoprune.settings.values import (
    VARIABLES,
    PruneArgs,
    Setting,
    Source,
    effective_settings,
    unknown_variables,
    variables,
)
from autoprune.strategies.catalog import GROUP, RECOMMENDED, RUN_STRATEGY

STRATEGIES_EXAMPLES = options.examples("strategies", "prune session.jsonl --strategy 'keep_last(n=20)'")
SETTINGS_EXAMPLES = options.examples("settings", "settings --json")
WIDTH = 80  # columns of a strategy with its parameters
COMMON_OPTIONS = """\
All of them take rules on what to keep, such as
    low_water(protect={'last_results': 5, 'tools': ['TodoWrite']})
    hybrid(retain={'first_request': True, 'turns': 2})
tool_output_cleanup and low_water can also cut huge results; these two and
cache_aware can shorten the arguments of calls:
    low_water(clamp={'max_result_tokens': 4000})
    cache_aware(clear_tool_inputs={'above': 200})"""
# Shown for settings whose default is not a value: those of `prune`, and those of `run` and `proxy`.
UNSET = {
    "strategy": RECOMMENDED,
    "format": "detected for each message",
    "thinking_policy": "by the model",
    "model": "not given",
    "provider": "by the model",
    "window": "by the model",
    "cache_ttl": "by the model",
    "compact_at": "not given",
}
UNSET_LIVE = {
    "safe_zone": "the window less the reply, or 0.9 of where the client compacts",
    "strategy": RUN_STRATEGY,
    "cache_ttl": "what each request asks for",
    "thinking_policy": "by the model",
}
OF_OTHERS = "run and proxy take all else from variables or from each request; replay takes its own options."


def list_strategies(as_json: options.AsJson = False) -> None:
    """List the strategies and their parameters."""
    pruners = AgenticConversationPruner(PruneArgs()), ConversationPruner(PruneArgs())
    rows = [row for pruner in pruners for row in pruner.get_available_strategies()]
    if as_json:
        show_json(rows)
        return
    for row in rows:
        show(Text(fill(strategy_text(str(row["name"])), WIDTH, subsequent_indent=" " * 8), style="bold"))
        show(Padding(Text(str(row["description"])), (0, 0, 0, 4)))
    show(Text(f"\n{COMMON_OPTIONS}"))
    if plugins := plugin_names(GROUP):
        show(Text(f"\nFrom installed packages: {', '.join(plugins)}"))


def list_settings(as_json: options.AsJson = False) -> None:
    """List the settings in effect for `prune`, `run` and `proxy`.

    Each with its source: an AUTOPRUNE_* variable, a file, or the default.
    """
    held = load_defaults("prune")
    known = {name: given.value for name, given in held.items()}
    args, call = prune_args(**{**known, "strategy": None}), {"strategy": known.get("strategy")}
    found = [
        replace(each, source=Source.FILE, where=held[each.name].where) if each.name in held else each
        for each in effective_settings(args, os.environ, **call)
    ]
    choose_strategy(known.get("strategy"), {})
    AgenticConversationPruner(args).check_settings()  # raises the error that a prune would raise
    live = _live_settings(load_defaults("run"))
    if as_json:
        columns = {name: {"run": value, "proxy": value} for name, value in live.items()}
        show_json([asdict(each) | columns.get(each.name, {}) for each in found])
    else:
        for table in (_settings_table(found), _live_table(live)):
            show(table)
            show("")
        show(Text(OF_OTHERS, style="dim"))
    for name in unknown_variables(os.environ):
        print(f"autoprune: there is no setting {name}{did_you_mean(name, VARIABLES.values())}", file=sys.stderr)


def _live_settings(held: Mapping[str, Given]) -> dict[str, str]:
    """Return the settings that `run` and `proxy` use, as text: others come from each request."""
    given = {name: text for name, each in VARIABLES.items() if (text := variables(None).get(each))}
    from_files = {name: str(each.value) for name, each in held.items()}
    return {**UNSET_LIVE, **from_files, **given}


def _settings_table(found: Sequence[Setting]) -> Table:
    table = table_of(("prune", "left"), ("value", "left"), ("from", "left"))
    for each in found:
        value = UNSET.get(each.name, "none") if each.value is None else each.value
        cell = Text(f"{value:,}" if isinstance(value, int) else printable(str(value)))
        table.add_row(each.name, cell, each.where or "default")
    return table


def _live_table(live: Mapping[str, str]) -> Table:
    table = table_of(("run, proxy", "left"), ("value", "left"))
    for name, value in live.items():
        table.add_row(name, Text(printable(value)))
    return table
