"""`autoprune stats`: two conversations compared."""

from typing import Annotated

import typer

import autoprune.apps.cli.options as options
from autoprune.apps.cli.files import read, readers
from autoprune.apps.cli.output import show, show_json
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.report.drawing import statistics
from autoprune.settings import PruneArgs

EXAMPLES = options.examples("stats session.jsonl pruned.json", "stats session.jsonl pruned.json --json")


def stats(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A session file; - reads standard input.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same session, pruned.")],
    conversation: options.ConversationNumber = 1,
    reader: options.Reader = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare a conversation before and after pruning.

    Tokens, cleared results, messages dropped or summarized.
    """
    mine = readers(reader)
    first = read(before, conversation, mine, skip_broken=skip_broken)
    second = read(after, 1, mine, skip_broken=skip_broken)
    if second.conversations > 1:
        second = read(after, conversation, mine, skip_broken=skip_broken)
    figures = AgenticConversationPruner(PruneArgs()).get_cleanup_statistics(first.messages, second.messages)
    if as_json:
        show_json(figures)
    else:
        show(statistics(figures))
