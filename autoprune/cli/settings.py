"""`autoprune settings`: what counts here, and who said so."""

import os
import sys
from dataclasses import asdict

import autoprune.cli.options as options
from autoprune.cli.output import show, show_json
from autoprune.cli.tables import settings
from autoprune.errors import did_you_mean
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.settings import VARIABLES, PruneArgs, effective_settings, unknown_variables

EXAMPLES = options.examples("settings", "settings --json")


def list_settings(as_json: options.AsJson = False) -> None:
    """List the settings as they count here, and where each comes from: an AUTOPRUNE_* variable, or the default."""
    found = effective_settings(environ=os.environ)
    AgenticConversationPruner(PruneArgs()).plan([])  # refuses what a prune would
    if as_json:
        show_json([asdict(each) for each in found])
    else:
        show(settings(found))
    for name in unknown_variables(os.environ):
        print(f"autoprune: there is no setting {name}{did_you_mean(name, VARIABLES.values())}", file=sys.stderr)
