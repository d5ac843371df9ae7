"""`autoprune savings`: sum up the savings and costs of pruning in all conversations of the proxies."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.console import show, show_json
from autoprune.apps.cli.ledgers import LedgerFile, Unread, ledger_folder, read_ledgers
from autoprune.economics import lifetime
from autoprune.pruners.report.drawing import printable, table_of

EXAMPLES = options.examples("savings", "savings --since 2026-11-01", "savings --json")
DAY = "%Y-%m-%d"
TOTAL = "total"
LEGEND = """\
saved  input tokens saved by smaller prompts, minus what was rewritten to the
       cache and fetched again; negative if pruning cost more than it saved
share  saved, as a share of the cost without pruning"""


@dataclass(frozen=True)
class Saving:
    """The savings in some conversations: `saved` in input tokens, `share` of their unpruned bill.

    `dollars` covers the conversations whose price is known, and `unpriced` counts the others. `cold` is the part of
    `saved` from prunes at cold requests, whose cache had expired.
    """

    client: str
    model: str
    sessions: int
    requests: int
    saved: float
    share: float
    dollars: float | None
    unpriced: int
    cold: float


def sum_up_savings(
    since: Annotated[
        datetime | None,
        typer.Option(metavar="DATE", formats=[DAY], help="Only conversations active since this date (YYYY-MM-DD)."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Sum up what pruning has saved and cost.

    Each conversation that goes through `autoprune proxy` or `autoprune run` leaves a small file with figures and none
    of its text in ~/.local/state/autoprune/ledgers, or in $XDG_STATE_HOME/autoprune/ledgers. autoprune never deletes
    these files. Delete those that should no longer count.
    """
    files, unread = read_ledgers(ledger_folder(), since.timestamp() if since else 0.0)
    if as_json:
        show_json(_as_json(files, unread))
    else:
        show(_table(files, since))
    for each in unread:
        show(Text(f"note: {printable(each.path)} was left out: {each.why}"), to_stderr=True, wraps=False)


def group_savings(files: Iterable[LedgerFile]) -> list[Saving]:
    """Sum up the savings by client and model, the largest first."""
    groups: dict[tuple[str, str], list[LedgerFile]] = {}
    for each in files:
        groups.setdefault((each.client, each.model), []).append(each)
    return sorted((_sum_up(group, *label) for label, group in groups.items()), key=lambda row: -row.saved)


def _sum_up(files: Sequence[LedgerFile], client: str, model: str) -> Saving:
    totals = [each.ledger.total for each in files]
    saved, unpruned = sum(each.net for each in totals), sum(each.ledger.unpruned for each in files)
    dollars = [each.money for each in totals if each.money is not None]
    return Saving(
        client,
        model,
        sessions=len(files),
        requests=sum(each.requests for each in files),
        saved=saved,
        share=saved / unpruned if unpruned else 0.0,
        dollars=sum(dollars) if dollars else None,
        unpriced=len(totals) - len(dollars),
        cold=sum(each.ledger.cold.net for each in files),
    )


def _as_json(files: Sequence[LedgerFile], unread: Sequence[Unread]) -> dict[str, Any]:
    total = asdict(_sum_up(files, "", ""))
    return {
        "since": _earliest(files).isoformat(timespec="seconds") if files else None,
        "total": {name: value for name, value in total.items() if name not in ("client", "model")},
        "by_client_and_model": [asdict(each) for each in group_savings(files)],
        "cache_lives": [
            {"life": life, "from": known, "sessions": number} for (life, known), number in _cache_lives(files)
        ],
        "left_out": [{"path": str(each.path), "why": each.why} for each in unread],
    }


def _earliest(files: Iterable[LedgerFile]) -> datetime:
    return datetime.fromtimestamp(min(each.started for each in files))


def _table(files: Sequence[LedgerFile], since: datetime | None) -> RenderableType:
    if not files:
        asked = f" since {since:{DAY}}" if since else ""
        return Text(
            f"There are no ledgers{asked} in {printable(ledger_folder())}: `autoprune proxy` and `autoprune run` write "
            "one for each conversation."
        )
    table = table_of(
        *(("client", "left"), ("model", "left"), ("sessions", "right"), ("requests", "right")),
        *(("saved", "right"), ("share", "right"), ("dollars", "right")),
    )
    for row in group_savings(files):
        table.add_row(*map(Text, _cells(row)))
    total = _sum_up(files, TOTAL, "")
    table.add_row(*(Text(cell, style="bold") for cell in _cells(total)))
    notes: list[RenderableType] = [
        Text(f"The cache lives {lifetime(life)} in {_session_count(number)}, {printable(source)}.")
        for (life, source), number in _cache_lives(files)
    ]
    if notes:
        notes.insert(0, "")
    return Group(
        table, "", Text(LEGEND, style="dim"), *notes, "", Text(_conclusion(total, _earliest(files)), style="bold")
    )


def _cache_lives(files: Sequence[LedgerFile]) -> list[tuple[tuple[float, str], int]]:
    """Count the unusual cache lifetimes with their sources."""
    return Counter((each.ledger.prices.life, each.life_from) for each in files if each.life_from).most_common()


def _session_count(number: int) -> str:
    return f"{number:,} session{'' if number == 1 else 's'}"


def _cells(row: Saving) -> tuple[str, ...]:
    dollars = "–" if row.dollars is None else f"{row.dollars:,.2f}"
    figures = f"{row.sessions:,}", f"{row.requests:,}", f"{row.saved:,.0f}", f"{row.share:.0%}", dollars
    return printable(row.client), printable(row.model), *figures


def _conclusion(total: Saving, first: datetime) -> str:
    did = "lost" if total.saved < 0 else "saved"
    priced = "" if total.dollars is None else f" (${abs(total.dollars):,.2f})"
    unpriced = f" The prices of {total.unpriced:,} of them are not known." if total.unpriced else ""
    cold = (
        f" Of this {abs(total.cold):,.0f} were {'lost' if total.cold < 0 else 'saved'} at cold requests: the rewrite "
        "was paid for anyway."
    )
    return (
        f"Since {first:{DAY}} pruning has {did} {abs(total.saved):,.0f} input tokens{priced} in "
        f"{_session_count(total.sessions)}.{unpriced}{cold if total.cold else ''}"
    )
