"""`autoprune savings`: what pruning has saved and lost, over all conversations that went through a proxy."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.ledgers import Account, Unread, read_ledgers, usual_folder
from autoprune.apps.cli.output import show, show_json
from autoprune.economics import lifetime
from autoprune.pruners.report.drawing import printable, table_of

EXAMPLES = options.examples("savings", "savings --since 2026-11-01", "savings --json")
DAY = "%Y-%m-%d"
TOTAL = "total"
LEGEND = """\
saved  input tokens that smaller prompts cost less, minus what was written to
       the cache anew and what was fetched again; below zero, pruning has lost
share  of what the prompts would have cost without pruning"""


@dataclass(frozen=True)
class Saving:
    """What pruning has saved in some conversations: `saved` in input tokens, a `share` of their unpruned bill.

    `dollars` are of the conversations whose price is known, and `unpriced` counts the others. `cold` is the part of
    what was saved that is from prunes at requests before which the cache had died.
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


def savings(
    since: Annotated[
        datetime | None,
        typer.Option(metavar="DATE", formats=[DAY], help="Only what was gone on with since that day, as 2026-11-01."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Sum up what pruning has saved and lost.

    Each conversation that went through `autoprune proxy` or `autoprune run` leaves a small file of figures, without its
    words, in ~/.local/state/autoprune/ledgers, or in autoprune/ledgers in XDG_STATE_HOME. None is ever deleted: you may
    delete any that need not be counted any more.
    """
    accounts, unread = read_ledgers(usual_folder(), since.timestamp() if since else 0.0)
    if as_json:
        show_json(_as_json(accounts, unread))
    else:
        show(_drawn(accounts, since))
    for each in unread:
        show(Text(f"note: {printable(each.path)} is left out: {each.why}"), to_stderr=True, wraps=False)


def summed(accounts: Iterable[Account]) -> list[Saving]:
    """Return the savings by client and model, those that saved most first."""
    groups: dict[tuple[str, str], list[Account]] = {}
    for each in accounts:
        groups.setdefault((each.client, each.model), []).append(each)
    return sorted((_sum(group, *label) for label, group in groups.items()), key=lambda row: -row.saved)


def _sum(accounts: Sequence[Account], client: str, model: str) -> Saving:
    """Return the sum over some conversations."""
    totals = [each.ledger.total for each in accounts]
    saved, unpruned = sum(each.net for each in totals), sum(each.ledger.unpruned for each in accounts)
    dollars = [each.money for each in totals if each.money is not None]
    return Saving(
        client,
        model,
        sessions=len(accounts),
        requests=sum(each.requests for each in accounts),
        saved=saved,
        share=saved / unpruned if unpruned else 0.0,
        dollars=sum(dollars) if dollars else None,
        unpriced=len(totals) - len(dollars),
        cold=sum(each.ledger.cold.net for each in accounts),
    )


def _as_json(accounts: Sequence[Account], unread: Sequence[Unread]) -> dict[str, Any]:
    total = asdict(_sum(accounts, "", ""))
    return {
        "since": _first(accounts).isoformat(timespec="seconds") if accounts else None,
        "total": {name: value for name, value in total.items() if name not in ("client", "model")},
        "by_client_and_model": [asdict(each) for each in summed(accounts)],
        "cache_lives": [
            {"life": life, "from": known, "sessions": number} for (life, known), number in _lives(accounts)
        ],
        "left_out": [{"path": str(each.path), "why": each.why} for each in unread],
    }


def _first(accounts: Iterable[Account]) -> datetime:
    return datetime.fromtimestamp(min(each.started for each in accounts))


def _drawn(accounts: Sequence[Account], since: datetime | None) -> RenderableType:
    if not accounts:
        asked = f" since {since:{DAY}}" if since else ""
        return Text(
            f"There are no ledgers{asked} in {printable(usual_folder())}: `autoprune proxy` and `autoprune run` write "
            "one for each conversation."
        )
    table = table_of(
        *(("client", "left"), ("model", "left"), ("sessions", "right"), ("requests", "right")),
        *(("saved", "right"), ("share", "right"), ("dollars", "right")),
    )
    for row in summed(accounts):
        table.add_row(*map(Text, _cells(row)))
    total = _sum(accounts, TOTAL, "")
    table.add_row(*(Text(cell, style="bold") for cell in _cells(total)))
    told = [_told(total, _first(accounts)), *_cold(total)]
    caches: list[RenderableType] = ["", *map(Text, _caches(accounts))]
    beside = caches if len(caches) > 1 else []
    return Group(table, "", Text(LEGEND, style="dim"), *beside, "", Text(" ".join(told), style="bold"))


def _lives(accounts: Sequence[Account]) -> list[tuple[tuple[float, str], int]]:
    """Return the lives of caches that are not as usual, with how each is known, and in how many conversations."""
    found = Counter((each.ledger.prices.life, each.life_from) for each in accounts if each.life_from)
    return found.most_common()


def _caches(accounts: Sequence[Account]) -> Iterator[str]:
    for (life, known), number in _lives(accounts):
        yield f"The cache lives {lifetime(life)} in {_sessions(number)}, {printable(known)}."


def _sessions(number: int) -> str:
    return f"{number:,} session{'' if number == 1 else 's'}"


def _cells(row: Saving) -> tuple[str, ...]:
    dollars = "–" if row.dollars is None else f"{row.dollars:,.2f}"
    figures = f"{row.sessions:,}", f"{row.requests:,}", f"{row.saved:,.0f}", f"{row.share:.0%}", dollars
    return printable(row.client), printable(row.model), *figures


def _told(total: Saving, first: datetime) -> str:
    """Say what all conversations came to."""
    did = "lost" if total.saved < 0 else "saved"
    priced = "" if total.dollars is None else f" (${abs(total.dollars):,.2f})"
    unpriced = f" The prices of {total.unpriced:,} of them are not known." if total.unpriced else ""
    return (
        f"Since {first:{DAY}} pruning has {did} {abs(total.saved):,.0f} input tokens{priced} in "
        f"{_sessions(total.sessions)}.{unpriced}"
    )


def _cold(total: Saving) -> Iterator[str]:
    """Say what came of prunes at requests that found the cache cold, where there were any."""
    if total.cold:
        did = "lost" if total.cold < 0 else "saved"
        yield f"Of this {abs(total.cold):,.0f} were {did} at cold requests: the rewrite was paid for anyway."
