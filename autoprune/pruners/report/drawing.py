"""Render a report for a terminal or a notebook: a summary, every decision, tables. Needs rich."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoprune.conversation.edits import Reason
from autoprune.pruners.report._figures import FLOOR
from autoprune.pruners.report._report import Report

Row: TypeAlias = Mapping[str, Any]
PAGE_WIDTH = 120  # characters of a line in a notebook


def summary(report: Report) -> RenderableType:
    """Render what a prune saved: a headline, the tools, and the parts of the prompt if it is over the safe zone."""
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
    """Replace characters that would control the terminal, or cannot be printed, by dots."""
    return "".join(character if character.isprintable() else "·" for character in str(text))


def statistics(figures: Mapping[str, int | float]) -> Table:
    """Render the statistics of two conversations."""
    table = table_of(("figure", "left"), ("value", "right"))
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:.3f}" if isinstance(value, float) else f"{value:,}")
    return table


def table_of(*columns: tuple[str, str]) -> Table:
    """Create a table with columns, each a name and "left" or "right"."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return table


def page(report: Report) -> str:
    """Render a report as HTML: its summary, and the folds."""
    console = Console(record=True, file=StringIO(), width=PAGE_WIDTH)
    console.print(summary(report))
    if report.plan.folds:
        console.print(_folds(report, PAGE_WIDTH))
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


RESULT_COLUMNS = (
    *(("message", "right"), ("turn", "right"), ("tool", "left"), ("target", "left"), ("tokens", "right")),
    *(("", "left"), ("why", "left")),
)
FOLD_COLUMNS = ("messages", "left"), ("request", "right"), ("tokens", "right"), ("", "left"), ("why", "left")
# The columns to narrow on a narrow terminal, in this order, each with its minimum width; 0 removes the column.
FLEXIBLE = (
    *(("tool", 16), ("target", 24), ("turn", 0), ("tool", 10), ("target", 16), ("tool", 8), ("target", 12)),
    *(("why", 12), ("messages", 12), ("target", 8), ("tool", 6)),
)
WRAPPED = ("why", "messages")  # columns whose texts are wrapped; others are shortened
STYLES = {
    **dict.fromkeys(("cleared", "cut", "shortened", "summed up", "folded"), "yellow"),
    "dropped": "red",
    "restored": "green",
    "kept": "green",
}
# Short texts for reasons whose names are too long or unclear.
SHORT = {
    Reason.OVER_SAFE_ZONE.value: "oldest first",
    Reason.CLAMPED.value: "giant",
    Reason.SHORTENED.value: "large",
    Reason.TOO_MANY_MESSAGES.value: "too many",
    Reason.LEAST_HARMFUL.value: "least harm",
    Reason.BEGINS_WITH_USER.value: "user first",
    Reason.WITHIN_SAFE_ZONE.value: "not needed",
    Reason.ALREADY_CLEARED.value: "before",
    Reason.IN_TOKEN_WINDOW.value: "newest",
}


@dataclass(frozen=True)
class Explanation:
    """Tables of all folds and tool results with their reasons, oldest first.

    On a narrow terminal, tools and targets are shortened and reasons are wrapped. Lines that differ only in their
    messages and tokens are merged, with their number. A legend explains the short reasons, and the strategy's own
    explanations follow it.
    """

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self.report.plan.folds:
            yield _folds(self.report, options.max_width)
            yield ""
        yield _results(self.report, options.max_width)
        if reasons := _reasons(self.report):
            yield ""
            yield _legend(reasons)
        if decisions := self.report.decisions:
            yield ""
            yield from (Text(each, style="dim") for each in decisions)


def _folds(report: Report, width: int) -> Table:
    lines: list[tuple[str, ...]] = []
    for (request, state, why), rows in groupby(report.fold_rows, _fold_key):
        stretch = [*rows]
        state = "folded" if report.plan.folds_steps else state
        numbers = _ranges(at for row in stretch for at in row["messages"])
        lines.append((numbers, request, f"{_sum(stretch, 'tokens'):,}", _times(state, stretch), why))
    return _fit_table(FOLD_COLUMNS, lines, width)


def _fold_key(row: Row) -> tuple[str, ...]:
    return str(row["request"]), "dropped" if row["dropped"] else "summed up", _short(row)


def _ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges, such as 1–4, 7, 9–12."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)


def _results(report: Report, width: int) -> Table:
    inputs = ({**row, "target": "(its arguments)", "failed": None} for row in report.input_rows)
    lines: list[tuple[str, ...]] = []
    by_message = sorted((*report.rows, *inputs), key=itemgetter("message"))
    for (turn, tool, target, state, why), rows in groupby(by_message, _result_key):
        stretch = [*rows]
        state = "folded" if state == "summed up" and report.plan.folds_steps else state
        first, last = stretch[0]["message"], stretch[-1]["message"]
        messages = str(first) if first == last else f"{first}–{last}"
        lines.append((messages, turn, _times(tool, stretch), target, _tokens(stretch), state, why))
    return _fit_table(RESULT_COLUMNS, lines, width)


def _result_key(row: Row) -> tuple[str, ...]:
    tool = f"{printable(row['tool'])}{' ✗' if row['failed'] else ''}"
    return str(row["turn"]), tool, printable(row["target"]), _state(row), _short(row)


def _times(what: str, stretch: Sequence[object]) -> str:
    return what if len(stretch) == 1 else f"{what} ×{len(stretch)}"


def _state(row: Row) -> str:
    if row.get("folded") or row.get("dropped"):
        return "summed up" if row["folded"] else "dropped"
    if not row["cleared"]:
        return "kept"
    states = {Reason.CLAMPED.value: "cut", Reason.SHORTENED.value: "shortened", Reason.RESTORED.value: "restored"}
    return states.get(str(row["reason"]), "cleared")


def _tokens(stretch: Sequence[Row]) -> str:
    before, after = _sum(stretch, "tokens"), _sum(stretch, "tokens_after")
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"


def _sum(stretch: Sequence[Row], name: str) -> int:
    return sum(row[name] for row in stretch)


def _short(row: Row) -> str:
    """Return the short text of a row's reason; a strategy's own text is unchanged."""
    reason = str(row["reason"])
    return SHORT.get(reason, reason.replace("_", " "))


def _reasons(report: Report) -> dict[str, str]:
    """Map each short reason in a report to its meaning, without reasons that need no explanation."""
    rows = (*report.fold_rows, *report.rows, *report.input_rows)
    meanings = {_short(row): str(row["why"]) for row in rows if row["why"] not in (_short(row), row["reason"])}
    # Reasons with a figure differ in each row: the strategy's own explanations say what the figure means.
    return {short: why for short, why in meanings.items() if not any(map(str.isdigit, short))}


def _legend(reasons: Mapping[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for short, said in reasons.items():
        table.add_row(Text(short), Text(said.removeprefix(f"{short}: "), style="dim"))
    return table


def _fit_table(columns: Sequence[tuple[str, str]], lines: Sequence[Sequence[str]], width: int) -> Table:
    """Render a table in at most `width` columns, narrowing its columns in the order of `FLEXIBLE`."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    widths = _widths(columns, lines, width)
    shown = [at for at, wide in enumerate(widths) if wide]
    for at in shown:
        name, justify = columns[at]
        table.add_column(
            name,
            justify="right" if justify == "right" else "left",
            width=widths[at],
            no_wrap=name not in WRAPPED,
            overflow="fold" if name in WRAPPED else "ellipsis",
        )
    for line in lines:
        cells = (line[at] if columns[at][0] in WRAPPED else _shorten(line[at], widths[at]) for at in shown)
        table.add_row(*(Text(cell, style=STYLES.get(cell.partition(" ×")[0], "")) for cell in cells))
    return table


def _widths(columns: Sequence[tuple[str, str]], lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Compute the width of each column; 0 if the column is removed."""
    names = [name for name, _ in columns]
    widths = [max(cell_len(text) for text in texts) for texts in zip(names, *lines, strict=True)]
    for name, least in FLEXIBLE:
        if name in names:
            at = names.index(name)
            # The columns that are left, with one character between each two.
            over = sum(widths) + sum(map(bool, widths)) - 1 - width
            if over > 0 and widths[at] > least:
                widths[at] = max(least, widths[at] - over) if least else 0
    return widths


def _shorten(text: str, width: int) -> str:
    """Shorten a text to at most `width` columns: a path to its end, which says most, other texts in the middle."""
    if cell_len(text) <= width:
        return text
    is_path = "/" in text and " " not in text
    tail = width - 1 if is_path else width // 2
    # Reversed, since `set_cell_size` cuts at the end; it respects wide characters.
    end = set_cell_size(text[::-1], tail)[::-1].strip()
    return f"{set_cell_size(text, width - 1 - cell_len(end)) if not is_path else ''}…{end}"
