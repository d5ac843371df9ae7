"""`autoprune check`: what a provider would refuse, and how it is mended."""

from dataclasses import asdict
from typing import Annotated

import typer

import autoprune.cli.options as options
from autoprune.cli.exits import RULE_BROKEN
from autoprune.cli.files import read, refuse_log, write
from autoprune.cli.output import show, show_json
from autoprune.cli.readers import readers
from autoprune.cli.tables import broken_rules, origin, repairs
from autoprune.providers import problems, repair

EXAMPLES = options.examples("check session.jsonl", "check pruned.json --provider anthropic --repair mended.json")


def check(
    session: options.SessionFile,
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose rules: anthropic, openai, gemini, bedrock …")
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
    found = problems(loaded.messages, provider)
    if as_json:
        show_json([asdict(problem) for problem in found])
    else:
        show(broken_rules(found), to_stderr=fixed == "-")
    if fixed:
        mended = repair(loaded.messages, provider)
        write(fixed, loaded.write(list(mended.conversation)))
        show(repairs(mended.repairs), to_stderr=True)
        found = problems(mended.conversation, provider)
        if found:
            show("still broken:", to_stderr=True)
            show(broken_rules(found), to_stderr=True)
    show(origin(loaded), to_stderr=True)
    raise typer.Exit(RULE_BROKEN if found else 0)
