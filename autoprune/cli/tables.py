"""The tables that only commands show: settings, strategies, broken rules, repairs, where a session came from."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autoprune.providers import Problem, Repair
from autoprune.report.tables import printable, table_of
from autoprune.sessions import Session
from autoprune.settings import Setting

# What counts where nobody gave a setting that has no default value.
NOBODYS = {"strategy": "tool_output_cleanup", "format": "found out for each message", "thinking_policy": "by the model"}


# What every strategy takes, as it is typed.
COMMON = """\
Each takes what is to be kept besides, such as
    low_water(protect={'last_results': 5, 'tools': ['TodoWrite']})
    hybrid(retain={'first_request': True, 'turns': 2})
and those that clear results also cut giants and shorten calls' arguments:
    low_water(clamp={'max_result_tokens': 4000})
    low_water(clear_tool_inputs={'above': 200})"""


def settings(found: Sequence[Setting]) -> Table:
    """Draw the settings with their values and where they come from."""
    table = table_of(("setting", "left"), ("value", "left"), ("from", "left"))
    for each in found:
        value = NOBODYS.get(each.name, "none") if each.value is None else each.value
        table.add_row(each.name, Text(f"{value:,}" if isinstance(value, int) else str(value)), each.where or "default")
    return table


def origin(session: Session) -> RenderableType:
    """Say whose session file it is, which of its conversations, and what was left out of it or made up."""
    lines = [f"{session.agent} session" if session.agent else "", *session.notes]
    if session.conversations > 1:
        lines.insert(1, f"one of {session.conversations} conversations in the file (choose with --conversation)")
    return Group(*(Text(f"note: {printable(line)}", style="dim") for line in lines if line))


def broken_rules(problems: Sequence[Problem]) -> RenderableType:
    """Draw the rules that a conversation breaks."""
    if not problems:
        return Text("no rule is broken", style="green")
    table = table_of(("provider", "left"), ("rule", "left"), ("place", "left"), ("what the provider says", "left"))
    for problem in problems:
        place = ".".join(map(str, problem.path))
        table.add_row(problem.provider, problem.rule, Text(printable(place)), Text(printable(problem.message)))
    return table


def repairs(done: Sequence[Repair]) -> RenderableType:
    """Say what was done to a conversation, one line each."""
    return Group(*(Text(f"repaired: {printable(repair.what)}") for repair in done))


def strategies(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Draw the strategies: each as it is typed, and below what it does."""
    parts: list[RenderableType] = []
    for typed, does in rows:
        parts += [Text(typed, style="bold"), Padding(Text(does), (0, 0, 0, 4))]
    return Group(*parts, "", Text(COMMON))
