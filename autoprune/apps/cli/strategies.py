"""`autoprune strategies`: what there is to choose from, as it is typed."""

from textwrap import fill

from rich.padding import Padding
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.output import show, show_json
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.naming import typed
from autoprune.settings import PruneArgs

WIDTH = 80  # columns of a strategy with its parameters
EXAMPLES = options.examples("strategies", "prune session.jsonl --strategy 'keep_last(n=20)'")
# What every strategy takes, as it is typed.
COMMON = """\
Each takes what is to be kept besides, such as
    low_water(protect={'last_results': 5, 'tools': ['TodoWrite']})
    hybrid(retain={'first_request': True, 'turns': 2})
and those that clear results also cut giants and shorten calls' arguments:
    low_water(clamp={'max_result_tokens': 4000})
    low_water(clear_tool_inputs={'above': 200})"""


def list_strategies(as_json: options.AsJson = False) -> None:
    """List the strategies and their parameters."""
    pruners = AgenticConversationPruner(PruneArgs()), ConversationPruner(PruneArgs())
    rows = [row for pruner in pruners for row in pruner.get_available_strategies()]
    if as_json:
        show_json(rows)
    else:
        for row in rows:
            show(Text(fill(typed(str(row["name"])), WIDTH, subsequent_indent=" " * 8), style="bold"))
            show(Padding(Text(str(row["description"])), (0, 0, 0, 4)))
        show(Text(f"\n{COMMON}"))
