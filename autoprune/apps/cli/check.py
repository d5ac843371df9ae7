"""`autoprune check`: find what a provider would refuse in a conversation, and repair it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.console import RULE_BROKEN, session_notes, show, show_json
from autoprune.apps.cli.input_output import load_readers, read_session, refuse_agent_log, write_output
from autoprune.pruners.report.drawing import printable, table_of
from autoprune.strategies.files import value_in_file
from autoprune.wire import Problem, Provider, problems, repair

EXAMPLES = options.examples("check session.jsonl", "check pruned.json --provider anthropic --repair mended.json")


def check_session(
    session: options.SessionFile,
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Whose rules to check: anthropic, openai, gemini, bedrock …, or your own as mine.py:MINE. Default: "
            "those of the messages' format.",
        ),
    ] = None,
    repair_to: Annotated[
        str | None, typer.Option("--repair", metavar="FILE", help="Write a repaired conversation to this file.")
    ] = None,
    force: options.Force = False,
    conversation: options.ConversationNumber = 1,
    reader: options.Reader = None,
    skip_broken: options.SkipBroken = False,
    as_json: options.AsJson = False,
) -> None:
    """List the provider's rules that a conversation breaks.

    Exits with 4 if any rule is broken; with --repair, if any is still broken after the repair.
    """
    if as_json and repair_to == "-":
        raise typer.BadParameter("--json and --repair - cannot both write to standard output")
    custom_readers = load_readers(reader)
    refuse_agent_log(repair_to, custom_readers, force=force)
    loaded = read_session(session, conversation, custom_readers, skip_broken=skip_broken)
    is_own = ":" in (provider or "")
    rules = value_in_file(str(provider), Provider, "Provider(name, problems)") if is_own else provider
    found = problems(loaded.messages, rules)
    repaired = repair(loaded.messages, rules) if repair_to else None
    if repair_to and repaired:  # before anything is printed: `| head` may end the program
        write_output(repair_to, loaded.write(list(repaired.conversation)))
    if as_json:
        show_json([asdict(problem) for problem in found])
    else:
        show(_problem_table(found), to_stderr=repair_to == "-")
    if repaired:
        for what, count in Counter(each.what for each in repaired.repairs).items():
            show(Text(f"repaired: {printable(what)}{f', {count:,} times' if count > 1 else ''}"), to_stderr=True)
        found = problems(repaired.conversation, rules)
        if found:
            show("still broken:", to_stderr=True)
            show(_problem_table(found), to_stderr=True)
    show(session_notes(loaded), to_stderr=True)
    raise typer.Exit(RULE_BROKEN if found else 0)


def _problem_table(found: Sequence[Problem]) -> RenderableType:
    if not found:
        return Text("no rule is broken", style="green")
    table = table_of(("provider", "left"), ("rule", "left"), ("place", "left"), ("what the provider says", "left"))
    for problem in found:
        place = ".".join(map(str, problem.path))
        table.add_row(problem.provider, problem.rule, Text(printable(place)), Text(printable(problem.message)))
    return table
