"""`autoprune settings`: what counts here, and who said so."""

import os
import sys
from dataclasses import asdict

from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.output import show, show_json
from autoprune.errors import did_you_mean
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.report.drawing import table_of
from autoprune.settings import VARIABLES, PruneArgs, effective_settings, unknown_variables

EXAMPLES = options.examples("settings", "settings --json")
# What counts where nobody gave a setting that has no default value.
NOBODYS = {"strategy": "tool_output_cleanup", "format": "found out for each message", "thinking_policy": "by the model"}


def list_settings(as_json: options.AsJson = False) -> None:
    """List the settings as they count here.

    Each with where it comes from: an AUTOPRUNE_* variable, or the default.
    """
    found = effective_settings(environ=os.environ)
    AgenticConversationPruner(PruneArgs()).plan([])  # refuses what a prune would
    if as_json:
        show_json([asdict(each) for each in found])
    else:
        table = table_of(("setting", "left"), ("value", "left"), ("from", "left"))
        for each in found:
            value = NOBODYS.get(each.name, "none") if each.value is None else each.value
            shown = Text(f"{value:,}" if isinstance(value, int) else str(value))
            table.add_row(each.name, shown, each.where or "default")
        show(table)
    for name in unknown_variables(os.environ):
        print(f"autoprune: there is no setting {name}{did_you_mean(name, VARIABLES.values())}", file=sys.stderr)
