"""Draw a report for a terminal or a notebook: what was saved, every decision, tables. Needs rich."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoprune.conversation.edits import Reason, sentence
from autoprune.pruners.report._figures import FLOOR
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
        text += _html(("messages", "tokens", "", "why"), _fold_rows(report))
    if report.plan.edits or (report.tools and not report.plan.folds):
        tools = [[tool, *(f"{figure:,}" for figure in row.values())] for tool, row in report.tools.items()]
        text += _html(("tool", "results", "tokens", "cleared", "saved"), tools)
    if not report.within_safe_zone:
        left = [[FLOOR[part], f"{tokens:,}"] for part, tokens in report.floor.items() if tokens]
        text += _html(("what is left", "tokens"), left)
    return text


def _fold_rows(report: Report) -> list[list[str]]:
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


RESULT_COLUMNS = (
    *(("message", "right"), ("turn", "right"), ("tool", "left"), ("target", "left"), ("tokens", "right")),
    *(("", "left"), ("why", "left")),
)
FOLD_COLUMNS = ("messages", "left"), ("request", "right"), ("tokens", "right"), ("", "left"), ("why", "left")
# The columns that give way, in this order, and the least that is left of them each time; a column of 0 goes.
FLEXIBLE = (
    *(("tool", 16), ("target", 24), ("turn", 0), ("tool", 10), ("target", 16), ("tool", 8), ("target", 12)),
    *(("why", 12), ("messages", 12), ("target", 8), ("tool", 6)),
)
WRAPPED = ("why", "messages")  # columns whose texts go on in a line below, where others are shortened
STYLES = {
    **dict.fromkeys(("cleared", "cut", "shortened", "summed up"), "yellow"),
    "dropped": "red",
    "kept": "green",
}
# Reasons in a word or two, where their names would be too long or say too little.
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
    """What was folded or dropped, and what became of each tool result, oldest first, a line each.

    Where there is no room, tools and targets are shortened; reasons never are, but go on in a line below. Lines that
    differ in nothing but their messages and tokens are one, with their number. Reasons are short; what they mean stands
    below, and what the strategy says of its decisions.
    """

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Return what is printed."""
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
    for (request, state, why), stretch in _stretches(report.fold_rows, _fold_key):
        numbers = _ranges(at for row in stretch for at in _numbers(row))
        lines.append((numbers, request, f"{sum(map(_number, stretch)):,}", _times(state, stretch), why))
    return _fitted(FOLD_COLUMNS, lines, width)


def _fold_key(row: Mapping[str, object]) -> tuple[str, ...]:
    return str(row["request"]), "dropped" if row["dropped"] else "summed up", _short(row)


def _numbers(row: Mapping[str, object]) -> Sequence[int]:
    found = row["messages"]
    return found if isinstance(found, list) else []


def _number(row: Mapping[str, object], name: str = "tokens") -> int:
    found = row[name]
    return found if isinstance(found, int) else 0


def _ranges(numbers: Iterable[int]) -> str:
    """Write numbers as 1–4, 7, 9–12."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)


def _results(report: Report, width: int) -> Table:
    inputs = ({**row, "target": "(its arguments)", "failed": None} for row in report.input_rows)
    rows = sorted((*report.rows, *inputs), key=itemgetter("message"))
    lines: list[tuple[str, ...]] = []
    for (turn, tool, target, state, why), stretch in _stretches(rows, _result_key):
        first, last = (_number(row, "message") for row in (stretch[0], stretch[-1]))
        messages = str(first) if first == last else f"{first}–{last}"
        lines.append((messages, turn, _times(tool, stretch), target, _tokens(stretch), state, why))
    return _fitted(RESULT_COLUMNS, lines, width)


def _result_key(row: Mapping[str, object]) -> tuple[str, ...]:
    tool = f"{printable(row['tool'])}{' ✗' if row['failed'] else ''}"
    return str(row["turn"]), tool, printable(row["target"]), _state(row), _short(row)


Key = TypeVar("Key")


def _stretches(
    rows: Iterable[Mapping[str, object]], key: Callable[[Mapping[str, object]], Key]
) -> Iterator[tuple[Key, list[Mapping[str, object]]]]:
    """Group neighbors that are equal in what is shown of them."""
    return ((shown, list(stretch)) for shown, stretch in groupby(rows, key))


def _times(what: str, stretch: Sequence[object]) -> str:
    return what if len(stretch) == 1 else f"{what} ×{len(stretch)}"


def _state(row: Mapping[str, object]) -> str:
    if row.get("folded") or row.get("dropped"):
        return "summed up" if row["folded"] else "dropped"
    if not row["cleared"]:
        return "kept"
    return {Reason.CLAMPED.value: "cut", Reason.SHORTENED.value: "shortened"}.get(str(row["reason"]), "cleared")


def _tokens(stretch: Sequence[Mapping[str, object]]) -> str:
    before, after = (sum(_number(row, name) for row in stretch) for name in ("tokens", "tokens_after"))
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"


def _short(row: Mapping[str, object]) -> str:
    """Say a reason in a word or two; one that a strategy words itself as it is."""
    reason = str(row["reason"])
    return SHORT.get(reason, reason.replace("_", " "))


def _reasons(report: Report) -> dict[str, str]:
    """Return what the short reasons mean that were met, without those that say it all themselves."""
    rows = (*report.fold_rows, *report.rows, *report.input_rows)
    return {_short(row): str(row["why"]) for row in rows if row["why"] not in (_short(row), row["reason"])}


def _legend(reasons: Mapping[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for short, said in reasons.items():
        table.add_row(Text(short), Text(said, style="dim"))
    return table


def _fitted(columns: Sequence[tuple[str, str]], lines: Sequence[Sequence[str]], width: int) -> Table:
    """Draw a table whose columns give way as `FLEXIBLE` says until all fit."""
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
        cells = (line[at] if columns[at][0] in WRAPPED else _shortened(line[at], widths[at]) for at in shown)
        table.add_row(*(Text(cell, style=_style(cell)) for cell in cells))
    return table


def _widths(columns: Sequence[tuple[str, str]], lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return how wide each column is."""
    names = [name for name, _ in columns]
    widths = [max(cell_len(text) for text in texts) for texts in zip(names, *lines, strict=True)]
    for name, least in FLEXIBLE:
        if name in names:
            at = names.index(name)
            over = sum(widths) + sum(map(bool, widths)) - 1 - width
            if over > 0 and widths[at] > least:
                widths[at] = max(least, widths[at] - over) if least else 0
    return widths


def _shortened(text: str, width: int) -> str:
    """Shorten a text to at most so many columns: a path to its end, which says most of it, others in the middle."""
    if cell_len(text) <= width:
        return text
    is_path = "/" in text and " " not in text
    tail = width - 1 if is_path else width // 2
    end = set_cell_size(text[::-1], tail)[::-1].strip()
    return f"{set_cell_size(text, width - 1 - cell_len(end)) if not is_path else ''}…{end}"


def _style(cell: str) -> str:
    return STYLES.get(cell.partition(" ×")[0], "")
