"""The Typer application with all commands.

To add a command, write a function with arguments from `options` in a module of this package, give it `EXAMPLES`, and
add a line below. `check` is a short example: it reads a session, prints a table or JSON, and sets the exit code.
"""

from typing import Annotated

import typer

from autoprune import __version__
from autoprune.apps.cli import (
    check,
    customizing,
    doctor,
    options,
    proxy,
    prune,
    recalling,
    replay,
    resume,
    run,
    savings,
    tune,
)
from autoprune.apps.cli.console import Commands
from autoprune.apps.cli.run import CLIENT_CONTEXT, ClientCommand

EXIT_CODES = (
    "Exit codes: 0 within the safe zone, 1 still over it, 2 wrong option, 3 unreadable file, 4 broken rule, "
    "5 exception in your code or in autoprune."
)
EXAMPLES = options.examples(
    "prune session.jsonl -s 50k -o pruned.json", "prune session.jsonl -s 50k --explain", "run claude", "prune -h"
)

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Keep an agent's conversation inside its token budget.",
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
    pretty_exceptions_enable=False,
    # Plain help: boxes would take a tenth of 80 columns, and examples in them cannot be copied.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of `--help`.
app.command("prune", cls=options.Command, epilog=prune.EXAMPLES)(prune.prune_session)
app.command("stats", cls=options.Command, epilog=prune.STATS_EXAMPLES)(prune.compare_sessions)
app.command("recall", cls=options.Command, epilog=recalling.EXAMPLES)(recalling.recall_content)
app.command("mcp", cls=options.Command, epilog=recalling.MCP_EXAMPLES)(recalling.serve_tools)
app.command("check", cls=options.Command, epilog=check.EXAMPLES)(check.check_session)
app.command("replay", cls=options.Command, epilog=replay.EXAMPLES)(replay.replay_sessions)
app.command("proxy", cls=options.Command, epilog=proxy.EXAMPLES)(proxy.run_proxy)
app.command("run", cls=ClientCommand, epilog=run.EXAMPLES, context_settings=CLIENT_CONTEXT)(run.run_assistant)
app.command("resume", cls=options.Command, epilog=resume.EXAMPLES)(resume.resume_session)
app.command("doctor", cls=ClientCommand, epilog=doctor.EXAMPLES, context_settings=CLIENT_CONTEXT)(doctor.examine)
app.command("savings", cls=options.Command, epilog=savings.EXAMPLES)(savings.sum_up_savings)
app.command("tune", cls=options.Command, epilog=tune.EXAMPLES)(tune.tune_settings)
app.command("strategies", cls=options.Command, epilog=customizing.STRATEGIES_EXAMPLES)(customizing.list_strategies)
app.command("settings", cls=options.Command, epilog=customizing.SETTINGS_EXAMPLES)(customizing.list_settings)


@app.callback(invoke_without_command=True)
def version(is_asked: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Keep an agent's conversation inside its token budget."""
    if is_asked:
        print(__version__)
        raise typer.Exit
