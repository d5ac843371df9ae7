"""The HTML that a notebook shows of a report. Prints nothing."""

from collections.abc import Iterable, Sequence
from html import escape

from autoprune.conversation.reasons import sentence
from autoprune.report._breakdown import FLOOR
from autoprune.report._report import Report


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
