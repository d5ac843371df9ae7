"""`autoprune stats`: two conversations compared."""

from typing import Annotated

import typer

import autoprune.cli.options as options
from autoprune.cli.files import read
from autoprune.cli.output import show, show_json
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.report.tables import statistics
from autoprune.settings.args import PruneArgs

EXAMPLES = options.examples("stats session.jsonl pruned.json", "stats session.jsonl pruned.json --json")


def stats(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A session file; - reads standard input.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same session, pruned.")],
    run: options.RunNumber = 1,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare two conversations: tokens, cleared results, messages dropped or summarized."""
    first = read(before, run, skip_broken=skip_broken)
    second = read(after, skip_broken=skip_broken)
    sessions = first, second if second.runs == 1 else read(after, run, skip_broken=skip_broken)
    figures = AgenticConversationPruner(PruneArgs()).get_cleanup_statistics(*(each.messages for each in sessions))
    if as_json:
        show_json(figures)
    else:
        show(statistics(figures))
