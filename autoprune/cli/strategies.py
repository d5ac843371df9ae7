"""`autoprune strategies`: what there is to choose from, as it is typed."""

import autoprune.cli.options as options
from autoprune.cli.output import show, show_json
from autoprune.cli.tables import strategies
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.by_name import typed
from autoprune.pruners.conversation import ConversationPruner
from autoprune.settings import PruneArgs

EXAMPLES = options.examples("strategies", "prune session.jsonl --strategy 'keep_last(n=20)'")


def list_strategies(as_json: options.AsJson = False) -> None:
    """List the strategies and their parameters."""
    pruners = AgenticConversationPruner(PruneArgs()), ConversationPruner(PruneArgs())
    rows = [row for pruner in pruners for row in pruner.get_available_strategies()]
    if as_json:
        show_json(rows)
    else:
        show(strategies([(typed(str(row["name"])), str(row["description"])) for row in rows]))
