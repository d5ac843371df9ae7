"""What a notebook shows of a report, as HTML. Prints nothing."""

from collections.abc import Iterable, Sequence
from html import escape

from autoprune.floor import FLOOR
from autoprune.report import Report


def page(report: Report) -> str:
    """The line, the tools, and what is left where that is still too much."""
    tools = [[tool, *(f"{figure:,}" for figure in row.values())] for tool, row in report.tools.items()]
    text = f"<p><b>autoprune</b> {escape(str(report))}</p>"
    text += _html(("tool", "results", "tokens", "cleared", "saved"), tools)
    if not report.within_safe_zone:
        left = [[FLOOR[part], f"{tokens:,}"] for part, tokens in report.floor.items() if tokens]
        text += _html(("what is left", "tokens"), left)
    return text


def _html(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
