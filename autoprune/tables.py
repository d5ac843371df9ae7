"""Tables for a terminal, made from reports. Prints nothing."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoprune.environment import Setting
from autoprune.floor import FLOOR
from autoprune.reasons import Reason, sentence
from autoprune.repair import Repair
from autoprune.report import Report
from autoprune.rules.problem import Problem
from autoprune.sessions import Session

# What counts where nobody gave a setting that has no default value.
NOBODYS = {"strategy": "tool_output_cleanup", "format": "found out for each message", "thinking_policy": "by the model"}
LONGEST_TARGET = 36  # so that a row fits in 140 columns


def summary(report: Report) -> RenderableType:
    """What a prune saved: one line, the tools, and where the safe zone is out of reach what stands in the way."""
    parts: list[RenderableType] = [_headline(report)]
    if report.plan.edits:
        parts.append(_tools(report))
    if not report.within_safe_zone:
        parts.append(_floor(report))
    if report.advice:
        parts.append(Text(f"next: {_printable(report.advice)}", style="bold"))
    parts.extend(Text(f"note: {note}", style="yellow") for note in report.fallbacks)
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
        table.add_row(Text(_printable(tool)), *(f"{row[name]:,}" for name in ("results", "tokens", "cleared", "saved")))
    return table


def _floor(report: Report) -> Table:
    table = _table(("what is left", "left"), ("tokens", "right"))
    for part, tokens in report.floor.items():
        if tokens:
            table.add_row(FLOOR[part], f"{tokens:,}")
    return table


def explanation(report: Report) -> RenderableType:
    """What was folded or dropped, and per tool result, oldest first, its turn, tool, target, tokens, state, and why."""
    return Group(_folds(report), "", _results(report)) if report.plan.folds else _results(report)


def _folds(report: Report) -> Table:
    columns = (("messages", "left"), ("request", "right"), ("tokens", "right"), ("", "left"), ("why", "left"))
    table = _table(*columns)
    for fold in report.plan.folds:
        state = Text("dropped", style="red") if fold.is_drop else Text("summed up", style="yellow")
        why = Text(sentence(fold.reason), style="dim")
        table.add_row(_ranges(fold.messages), str(fold.request), f"{fold.saved:,}", state, why)
    return table


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers as 1–4, 7, 9–12."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _results(report: Report) -> Table:
    columns = (("message", "right"), ("turn", "right"), ("tool", "left"), ("target", "left"), ("tokens", "right"))
    table = _table(*columns, ("", "left"), ("why", "left"))
    inputs = ({**row, "target": "(its arguments)", "failed": None} for row in report.input_rows)
    for row in sorted((*report.rows, *inputs), key=itemgetter("message")):
        table.add_row(
            str(row["message"]),
            str(row["turn"]),
            Text.assemble(_printable(row["tool"]), (" ✗" if row["failed"] else "", "red")),
            Text(_shortened(_printable(row["target"]))),
            _tokens(row),
            _state(row),
            Text(str(row["why"]), style="dim"),
        )
    return table


def _state(row: Mapping[str, object]) -> Text:
    if row.get("folded") or row.get("dropped"):
        return Text("summed up" if row["folded"] else "dropped", style="yellow")
    if not row["cleared"]:
        return Text("kept", style="green")
    words = {Reason.CLAMPED.value: "cut", Reason.SHORTENED.value: "shortened"}
    return Text(words.get(str(row["reason"]), "cleared"), style="yellow")


def _tokens(row: Mapping[str, object]) -> str:
    is_changed = row["tokens"] != row["tokens_after"]
    return f"{row['tokens']:,} → {row['tokens_after']:,}" if is_changed else f"{row['tokens']:,}"


def _printable(text: object) -> str:
    """A text from a conversation without what would steer the terminal or cannot be written."""
    return "".join(character if character.isprintable() else "·" for character in str(text))


def _shortened(target: str) -> str:
    """The start of a long command, the end of a long path."""
    if len(target) <= LONGEST_TARGET:
        return target
    return target[: LONGEST_TARGET - 1] + "…" if " " in target else "…" + target[1 - LONGEST_TARGET :]


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
    return Group(*(Text(f"note: {_printable(line)}", style="dim") for line in lines if line))


def broken_rules(problems: Sequence[Problem]) -> RenderableType:
    """The rules that a conversation breaks."""
    if not problems:
        return Text("no rule is broken", style="green")
    table = _table(("provider", "left"), ("rule", "left"), ("place", "left"), ("what the provider says", "left"))
    for problem in problems:
        place = ".".join(map(str, problem.path))
        table.add_row(problem.provider, problem.rule, Text(_printable(place)), Text(_printable(problem.message)))
    return table


def repairs(done: Sequence[Repair]) -> RenderableType:
    """What was done to a conversation, one line each."""
    return Group(*(Text(f"repaired: {_printable(repair.what)}") for repair in done))


def strategies(rows: Sequence[Mapping[str, object]]) -> Table:
    """The strategies with their parameters."""
    table = _table(("strategy", "left"), ("parameters", "left"), ("what it does", "left"))
    for row in rows:
        config = row["config"] if isinstance(row["config"], Mapping) else {}
        parameters = ", ".join(f"{name}={value!r}" for name, value in config.items())
        table.add_row(Text(str(row["name"])), Text(parameters), Text(str(row["description"])))
    return table


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return table
