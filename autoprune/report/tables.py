"""Tables for a terminal, made from reports. Prints nothing."""

from collections.abc import Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autoprune.providers import Problem, Repair
from autoprune.report.floor import FLOOR
from autoprune.report.report import Report
from autoprune.sessions.files import Session
from autoprune.settings.environment import Setting

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


def summary(report: Report, worded: Callable[[str], str] = str) -> RenderableType:
    """What a prune saved: one line, the tools, and where the safe zone is out of reach what stands in the way.

    `worded` says a note in the names that the reader knows.
    """
    parts: list[RenderableType] = [_headline(report)]
    if report.plan.edits:
        parts.append(_tools(report))
    if not report.within_safe_zone:
        parts.append(_floor(report))
    if report.advice:
        parts.append(Text(f"next: {printable(report.advice)}", style="bold"))
    parts.extend(Text(f"note: {worded(note)}", style="yellow") for note in report.fallbacks)
    return Group(*parts)


def _headline(report: Report) -> Text:
    state = ("within", "bold green") if report.within_safe_zone else ("still over", "bold red")
    saved = 1 - report.compression_ratio
    return Text.assemble(
        (f"{report.tokens_before:,}", "bold"),
        " → ",
        (f"{report.tokens_after:,} tokens", "bold"),
        f" ({saved:.0%} saved), {_done(report)} by {report.strategy}, ",
        state,
        f" the safe zone of {report.safe_zone:,}",
    )


def _done(report: Report) -> str:
    """What was done: to results, to messages."""
    cleared = f"{report.results_cleared} of {report.results} tool results cleared"
    return report.also[2:] if report.plan.folds and not report.plan.edits else f"{cleared}{report.also}"


def _tools(report: Report) -> Table:
    table = _table(
        ("tool", "left"), ("results", "right"), ("tokens", "right"), ("cleared", "right"), ("saved", "right")
    )
    for tool, row in report.tools.items():
        table.add_row(Text(printable(tool)), *(f"{row[name]:,}" for name in ("results", "tokens", "cleared", "saved")))
    return table


def _floor(report: Report) -> Table:
    table = _table(("what is left", "left"), ("tokens", "right"))
    for part, tokens in report.floor.items():
        if tokens:
            table.add_row(FLOOR[part], f"{tokens:,}")
    return table


def printable(text: object) -> str:
    """A text from a conversation without what would steer the terminal or cannot be written."""
    return "".join(character if character.isprintable() else "·" for character in str(text))


def settings(found: Sequence[Setting]) -> Table:
    """The settings with their values and where they come from."""
    table = _table(("setting", "left"), ("value", "left"), ("from", "left"))
    for each in found:
        value = NOBODYS.get(each.name, "none") if each.value is None else each.value
        table.add_row(each.name, Text(f"{value:,}" if isinstance(value, int) else str(value)), each.where or "default")
    return table


def statistics(figures: Mapping[str, int | float]) -> Table:
    """The statistics of two conversations."""
    table = _table(("figure", "left"), ("value", "right"))
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else f"{value:,}")
    return table


def origin(session: Session) -> RenderableType:
    """Whose session file it is, which of its conversations, and what was left out of it or made up."""
    lines = [f"{session.agent} session" if session.agent else "", *session.notes]
    if session.runs > 1:
        lines.insert(1, f"one of {session.runs} conversations in the file (choose with --run)")
    return Group(*(Text(f"note: {printable(line)}", style="dim") for line in lines if line))


def broken_rules(problems: Sequence[Problem]) -> RenderableType:
    """The rules that a conversation breaks."""
    if not problems:
        return Text("no rule is broken", style="green")
    table = _table(("provider", "left"), ("rule", "left"), ("place", "left"), ("what the provider says", "left"))
    for problem in problems:
        place = ".".join(map(str, problem.path))
        table.add_row(problem.provider, problem.rule, Text(printable(place)), Text(printable(problem.message)))
    return table


def repairs(done: Sequence[Repair]) -> RenderableType:
    """What was done to a conversation, one line each."""
    return Group(*(Text(f"repaired: {printable(repair.what)}") for repair in done))


def strategies(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """The strategies: each as it is typed, and below what it does."""
    parts: list[RenderableType] = []
    for typed, does in rows:
        parts += [Text(typed, style="bold"), Padding(Text(does), (0, 0, 0, 4))]
    return Group(*parts, "", Text(COMMON))


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return table
