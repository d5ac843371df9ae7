"""`autoprune check`: what a provider would refuse, and how it is mended."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.exits import RULE_BROKEN
from autoprune.apps.cli.files import read, readers, refuse_log, write
from autoprune.apps.cli.output import origin, show, show_json
from autoprune.providers import Problem, Provider, Repair, problems, repair
from autoprune.pruners.report.drawing import printable, table_of
from autoprune.strategies.scaffold import value_in_file

EXAMPLES = options.examples("check session.jsonl", "check pruned.json --provider anthropic --repair mended.json")


def check(
    session: options.SessionFile,
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose rules: anthropic, openai, gemini, bedrock …; one in a file is mine.py:MINE."
        ),
    ] = None,
    fixed: Annotated[
        str | None, typer.Option("--repair", metavar="FILE", help="Write a repaired conversation here.")
    ] = None,
    force: options.Force = False,
    conversation: options.ConversationNumber = 1,
    reader: options.Reader = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """List the provider's rules that a conversation breaks. Exit code 4 where there are any left."""
    if as_json and fixed == "-":
        raise typer.BadParameter("--json and --repair - both want standard output")
    mine = readers(reader)
    refuse_log(fixed, mine, force=force)
    loaded = read(session, conversation, mine, skip_broken=skip_broken)
    rules = _rules(provider)
    found = problems(loaded.messages, rules)
    mended = repair(loaded.messages, rules) if fixed else None
    if fixed and mended:  # first of all, since whoever reads what is printed may have had enough
        write(fixed, loaded.write(list(mended.conversation)))
    if as_json:
        show_json([asdict(problem) for problem in found])
    else:
        show(_broken_rules(found), to_stderr=fixed == "-")
    if mended:
        show(_repairs(mended.repairs), to_stderr=True)
        found = problems(mended.conversation, rules)
        if found:
            show("still broken:", to_stderr=True)
            show(_broken_rules(found), to_stderr=True)
    show(origin(loaded), to_stderr=True)
    raise typer.Exit(RULE_BROKEN if found else 0)


def _rules(named: str | None) -> str | Provider | None:
    """Return a provider of one's own where a file is named, any other name as it is."""
    if named is None or ":" not in named:
        return named
    return value_in_file(named, Provider, "Provider(name, problems)")


def _broken_rules(found: Sequence[Problem]) -> RenderableType:
    """Draw the rules that a conversation breaks."""
    if not found:
        return Text("no rule is broken", style="green")
    table = table_of(("provider", "left"), ("rule", "left"), ("place", "left"), ("what the provider says", "left"))
    for problem in found:
        place = ".".join(map(str, problem.path))
        table.add_row(problem.provider, problem.rule, Text(printable(place)), Text(printable(problem.message)))
    return table


def _repairs(done: Sequence[Repair]) -> RenderableType:
    """Say what was done to a conversation, one line each."""
    return Group(*(Text(f"repaired: {printable(repair.what)}") for repair in done))
