"""The commands by their names."""

from typing import Annotated

import typer

import autoprune.apps.cli.check as check
import autoprune.apps.cli.doctor as doctor
import autoprune.apps.cli.new_strategy as new_strategy
import autoprune.apps.cli.options as options
import autoprune.apps.cli.proxy as proxy
import autoprune.apps.cli.prune as prune
import autoprune.apps.cli.recall as recall
import autoprune.apps.cli.replay as replay
import autoprune.apps.cli.run as run
import autoprune.apps.cli.savings as savings
import autoprune.apps.cli.settings as settings
import autoprune.apps.cli.stats as stats
import autoprune.apps.cli.strategies as strategies
import autoprune.apps.cli.tune as tune
from autoprune import __version__
from autoprune.apps.cli.exits import Commands
from autoprune.apps.cli.launching import Leading

EXIT_CODES = "Exit codes: 0 within the safe zone, 1 still over it, 2 wrong option, 3 unreadable file, 4 broken rule."
EXAMPLES = options.examples(
    "prune session.jsonl -s 50k -o pruned.json", "prune session.jsonl -s 50k --explain", "run claude", "prune -h"
)

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    help="Keep an agent's conversation inside its token budget.",
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
    pretty_exceptions_enable=False,
    # Plain help: no boxes, which take a tenth of 80 columns, and what can be copied.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=options.Command, epilog=prune.EXAMPLES)(prune.prune)
app.command(cls=options.Command, epilog=stats.EXAMPLES)(stats.stats)
app.command(cls=options.Command, epilog=recall.EXAMPLES)(recall.recall)
app.command(cls=options.Command, epilog=check.EXAMPLES)(check.check)
app.command(cls=options.Command, epilog=replay.EXAMPLES)(replay.replay)
app.command(cls=options.Command, epilog=proxy.EXAMPLES)(proxy.proxy)
app.command(cls=Leading, epilog=run.EXAMPLES, context_settings=run.CONTEXT)(run.run)
app.command(cls=Leading, epilog=doctor.EXAMPLES, context_settings=run.CONTEXT)(doctor.doctor)
app.command(cls=options.Command, epilog=savings.EXAMPLES)(savings.savings)
app.command("tune", cls=options.Command, epilog=tune.EXAMPLES)(tune.tune_settings)
app.command("strategies", cls=options.Command, epilog=strategies.EXAMPLES)(strategies.list_strategies)
app.command("settings", cls=options.Command, epilog=settings.EXAMPLES)(settings.list_settings)
app.command("new-strategy", cls=options.Command, epilog=new_strategy.EXAMPLES)(new_strategy.start_strategy)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", metavar=options.FLAG, help="Print the version.")] = False,
) -> None:
    """Keep an agent's conversation inside its token budget."""
    if show:
        print(__version__)
        raise typer.Exit
