"""Tables of a report: for a terminal, and as HTML for a notebook. Prints nothing."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoprune.conversation.reasons import sentence
from autoprune.pruners.report._breakdown import FLOOR
from autoprune.pruners.report._report import Report


def summary(report: Report) -> RenderableType:
    """Draw what a prune saved: a line, the tools, and where the safe zone is out of reach what stands in the way."""
    parts: list[RenderableType] = [_headline(report)]
    if report.plan.edits:
        parts.append(_tools(report))
    if not report.within_safe_zone:
        parts.append(_floor(report))
    if report.advice:
        parts.append(Text(f"next: {printable(report.advice)}", style="bold"))
    parts.extend(Text(f"note: {note}", style="yellow") for note in report.notes)
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
    """Say what was done to results and to messages."""
    cleared = f"{report.results_cleared} of {report.results} tool results cleared"
    return report.also[2:] if report.plan.folds and not report.plan.edits else f"{cleared}{report.also}"


def _tools(report: Report) -> Table:
    table = table_of(
        ("tool", "left"), ("results", "right"), ("tokens", "right"), ("cleared", "right"), ("saved", "right")
    )
    for tool, row in report.tools.items():
        table.add_row(Text(printable(tool)), *(f"{row[name]:,}" for name in ("results", "tokens", "cleared", "saved")))
    return table


def _floor(report: Report) -> Table:
    table = table_of(("what is left", "left"), ("tokens", "right"))
    for part, tokens in report.floor.items():
        if tokens:
            table.add_row(FLOOR[part], f"{tokens:,}")
    return table


def printable(text: object) -> str:
    """Return a text from a conversation without what would steer the terminal or cannot be written."""
    return "".join(character if character.isprintable() else "·" for character in str(text))


def statistics(figures: Mapping[str, int | float]) -> Table:
    """Draw the statistics of two conversations."""
    table = table_of(("figure", "left"), ("value", "right"))
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else f"{value:,}")
    return table


def table_of(*columns: tuple[str, str]) -> Table:
    """Return an empty table with columns, each a name and "left" or "right"."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return table


def page(report: Report) -> str:
    """Return a report as HTML: its line, the folds, the tools, and what is left where that is still too much."""
    text = f"<p><b>autoprune</b> {escape(str(report))}</p>"
    if report.plan.folds:
        text += _html(("messages", "tokens", "", "why"), _folds(report))
    if report.plan.edits or (report.tools and not report.plan.folds):
        tools = [[tool, *(f"{figure:,}" for figure in row.values())] for tool, row in report.tools.items()]
        text += _html(("tool", "results", "tokens", "cleared", "saved"), tools)
    if not report.within_safe_zone:
        left = [[FLOOR[part], f"{tokens:,}"] for part, tokens in report.floor.items() if tokens]
        text += _html(("what is left", "tokens"), left)
    return text


def _folds(report: Report) -> list[list[str]]:
    """Count the messages that went, and their tokens, by what became of them and why: a long session has many folds."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for fold in report.plan.folds:
        key = "dropped" if fold.is_drop else "summed up", sentence(fold.reason)
        messages, tokens = sums.get(key, (0, 0))
        sums[key] = messages + len(fold.messages), tokens + fold.saved
    return [[f"{messages:,}", f"{tokens:,}", *key] for key, (messages, tokens) in sums.items()]


def _html(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
