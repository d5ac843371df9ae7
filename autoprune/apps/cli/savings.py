"""Print what recorded sessions cost, for `autoprune replay`, and what pruning saved: `autoprune savings`."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.console import show, show_json
from autoprune.apps.cli.ledgers import LedgerFile, ledger_folder, read_ledgers
from autoprune.apps.replay.compaction_costs import CompactionSum
from autoprune.apps.replay.spending import ProjectSpending, Spending, distinct
from autoprune.apps.replay.titles import Title
from autoprune.apps.sessions import LARGEST_PROMPT
from autoprune.conversation.messages import one_line
from autoprune.economics import Ledger, life_text
from autoprune.errors import count_noun
from autoprune.pruners.report.drawing import printable, table_of

EXAMPLES = options.examples("savings", "savings --json")
PRUNED, UNPRUNED = "pruned", "unpruned"  # the arms of a holdout
ENOUGH, ENOUGH_OF_ARM = 30, 5  # conversations: with fewer, one long conversation decides
SHUFFLES, SEED = 1_000, 11  # any fixed seed: the same ledgers give the same interval
NOISE = 9  # decimals: equal costs must not differ by rounding errors
MOST_PROJECTS, MOST_SESSIONS = 12, 5  # rows of the two tables; other projects are summed up in one row
PROJECT, PROMPT = 19, 30  # characters of a project and a prompt, so that both tables fit into 80 columns
LEGEND = """\
saved  input tokens saved by smaller prompts, minus what was rewritten to the
       cache and fetched again; negative if pruning cost more than it saved
share  saved, as a share of what the prompts would have cost"""


@dataclass(frozen=True)
class Saving:
    """The savings in some conversations: `saved` in input tokens, `share` of what their prompts would have cost.

    The share is one of dollars if all prices are known, because tokens of two models are not worth the same. `dollars`
    covers the conversations whose price is known, and `unpriced` counts the others. `cold` is the part of `saved` from
    prunes at cold requests, whose cache had expired. `avoided` counts the compactions that did not happen.
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
    avoided: int


@dataclass(frozen=True)
class Arm:
    """The conversations of one arm of a holdout, and the cost of their prompts."""

    conversations: int
    requests: int
    cost: float

    @property
    def per_request(self) -> float:
        """The cost of a request."""
        return self.cost / self.requests


@dataclass(frozen=True)
class Holdout:
    """Both arms of a holdout: pruned conversations, and those that were forwarded unpruned.

    Costs are in `unit`: dollars if the prices of all conversations are known, else input tokens. `change` is the share
    by which a pruned request costs more, and `low` and `high` are its 95 % interval. They are None until there are
    enough conversations.
    """

    pruned: Arm
    unpruned: Arm
    unit: str
    change: float | None = None
    low: float | None = None
    high: float | None = None


def sum_up_savings(as_json: options.AsJson = False) -> None:
    """Sum up what pruning has saved and cost.

    Each conversation that goes through `autoprune proxy` or `autoprune run` leaves a small file with figures and none
    of its text in ~/.local/state/autoprune/ledgers, or in $XDG_STATE_HOME/autoprune/ledgers. autoprune never deletes
    these files. Delete those that should no longer count.
    """
    files, unread = read_ledgers(ledger_folder())
    if as_json:
        show_json(_as_json(files, unread))
    else:
        show(_table(files))
    for path, why in unread.items():
        show(Text(f"note: {printable(path)} was left out: {why}"), to_stderr=True, wraps=False)


def group_savings(files: Iterable[LedgerFile]) -> list[Saving]:
    """Sum up the savings by client and model, the largest first."""
    groups: dict[tuple[str, str], list[LedgerFile]] = {}
    for each in files:
        groups.setdefault((each.client, each.model), []).append(each)
    return sorted((_sum_up(group, *label) for label, group in groups.items()), key=lambda row: -row.saved)


def _sum_up(files: Sequence[LedgerFile], client: str, model: str) -> Saving:
    totals = [each.ledger.total for each in files]
    dollars = [each.money for each in totals if each.money is not None]
    is_priced = len(dollars) == len(totals)
    worth = [(each.ledger.prices.input_price or 0.0) if is_priced else 1.0 for each in files]  # of an input token
    worth = worth if any(worth) else [1.0] * len(files)  # all are free
    unpruned = sum(each.ledger.unpruned * price for each, price in zip(files, worth, strict=True))
    return Saving(
        client,
        model,
        sessions=len(files),
        requests=sum(each.requests for each in files),
        saved=sum(each.net for each in totals),
        share=sum(each.net * price for each, price in zip(totals, worth, strict=True)) / unpruned if unpruned else 0.0,
        dollars=sum(dollars) if dollars else None,
        unpriced=len(totals) - len(dollars),
        cold=sum(each.ledger.cold.net for each in files),
        avoided=sum(each.avoided for each in files),
    )


# The holdout


def compare_arms(files: Iterable[LedgerFile]) -> Holdout | None:
    """Compare the cost per request of both arms of a holdout; None if no conversation took part in one.

    A request counts if its usage is in the ledger: all but the last of each conversation.

    Conversations were assigned to the arms at random, so the interval comes from assigning them again: it contains zero
    in 95 % of comparisons of two equal arms, however unequal the conversations are. (A bootstrap of a few conversations
    whose cost per request grows with their length misses zero in 20 %.)
    """
    taking_part = [each for each in files if each.arm in (PRUNED, UNPRUNED)]
    if not taking_part:
        return None
    counting = [each for each in taking_part if prompt_cost(each.ledger) > 0]
    is_priced = all(each.ledger.prices.input_price for each in counting)
    costs = [prompt_cost(each.ledger) * ((is_priced and each.ledger.prices.input_price) or 1.0) for each in counting]
    known = [(cost, len(each.ledger.reported)) for cost, each in zip(costs, counting, strict=True)]
    pruned, unpruned = _arms(known, {at for at, each in enumerate(counting) if each.arm == PRUNED})
    found = Holdout(pruned, unpruned, "dollars" if is_priced else "input tokens")
    if len(known) < ENOUGH or min(pruned.conversations, unpruned.conversations) < ENOUGH_OF_ARM:
        return found
    change, draw = _log_ratio(pruned, unpruned), Random(SEED)
    drawn = (set(draw.sample(range(len(known)), pruned.conversations)) for _ in range(SHUFFLES))
    by_chance = sorted(_log_ratio(*_arms(known, each)) for each in drawn)
    low, high = change - by_chance[round(0.975 * SHUFFLES) - 1], change - by_chance[round(0.025 * SHUFFLES)]
    return replace(found, change=math.expm1(change), low=math.expm1(low), high=math.expm1(high))


def prompt_cost(ledger: Ledger) -> float:
    """Compute the cost of the prompts whose usage the provider reported, in input tokens at the ledger's prices."""
    return sum(ledger.prices.request(each.prompt, each.cached) for each in ledger.reported)


def _arms(known: Sequence[tuple[float, int]], pruned: Container[int]) -> tuple[Arm, Arm]:
    """Sum up the costs and requests of the conversations whose numbers are in `pruned`, and of the others."""
    arms = (
        [each for at, each in enumerate(known) if at in pruned],
        [each for at, each in enumerate(known) if at not in pruned],
    )
    first, second = (Arm(len(arm), sum(number for _, number in arm), sum(cost for cost, _ in arm)) for arm in arms)
    return first, second


def _log_ratio(pruned: Arm, unpruned: Arm) -> float:
    return round(math.log(pruned.per_request / unpruned.per_request), NOISE)


def describe_holdout(found: Holdout) -> str:
    """Say what a pruned request costs beside an unpruned one, or how many conversations are missing to know it."""
    if found.change is None or found.low is None or found.high is None:
        return f"Holdout: whether pruned requests cost less is not yet known ({_missing(found)})."
    costs = [_cost(each.per_request, found.unit) for each in (found.pruned, found.unpruned)]
    zero = "; it contains zero, so a difference is not shown" if found.low <= 0 <= found.high else ""
    return (
        f"Holdout: the prompt of a request cost {costs[0]} in {found.pruned.conversations:,} pruned conversations and "
        f"{costs[1]} in {found.unpruned.conversations:,} unpruned ones: {_percent(found.change)} (95% interval "
        f"{_percent(found.low)} to {_percent(found.high)}{zero})."
    )


def _missing(found: Holdout) -> str:
    sizes = {PRUNED: found.pruned.conversations, UNPRUNED: found.unpruned.conversations}
    if sum(sizes.values()) < ENOUGH:
        return f"{sum(sizes.values())} of {ENOUGH} conversations"
    arm = min(sizes, key=lambda name: sizes[name])
    return f"{sizes[arm]} of {ENOUGH_OF_ARM} {arm} conversations"


def _cost(cost: float, unit: str) -> str:
    return f"${cost:,.4f}" if unit == "dollars" else f"{cost:,.0f} input tokens"


def _percent(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}%"


# What is printed


def _as_json(files: Sequence[LedgerFile], unread: Mapping[Path, str]) -> dict[str, Any]:
    total = asdict(_sum_up(files, "", ""))
    holdout = compare_arms(files)
    return {
        "since": _earliest(files).isoformat(timespec="seconds") if files else None,
        "total": {name: value for name, value in total.items() if name not in ("client", "model")},
        "by_client_and_model": [asdict(each) for each in group_savings(files)],
        "cache_lives": [
            {"life": life, "from": known, "sessions": number} for (life, known), number in _cache_lives(files)
        ],
        "holdout": holdout and asdict(holdout),
        "left_out": [{"path": str(path), "why": why} for path, why in unread.items()],
    }


def _earliest(files: Iterable[LedgerFile]) -> datetime:
    return datetime.fromtimestamp(min(each.started for each in files))


def _table(files: Sequence[LedgerFile]) -> RenderableType:
    if not files:
        return Text(
            f"There are no ledgers in {printable(ledger_folder())}: `autoprune proxy` and `autoprune run` write "
            "one for each conversation."
        )
    table = table_of(
        *(("client", "left"), ("model", "left"), ("sessions", "right"), ("requests", "right")),
        *(("saved", "right"), ("share", "right"), ("dollars", "right")),
    )
    for row in group_savings(files):
        table.add_row(*map(Text, _cells(row)))
    total = _sum_up(files, "total", "")
    table.add_row(*(Text(cell, style="bold") for cell in _cells(total)))
    notes: list[RenderableType] = [
        Text(f"The cache lives {life_text(life)} in {count_noun(number, 'session')}, {printable(source)}.")
        for (life, source), number in _cache_lives(files)
    ]
    if holdout := compare_arms(files):
        notes.append(Text(describe_holdout(holdout)))
    if notes:
        notes.insert(0, "")
    return Group(
        table, "", Text(LEGEND, style="dim"), *notes, "", Text(_conclusion(total, _earliest(files)), style="bold")
    )


def _cache_lives(files: Sequence[LedgerFile]) -> list[tuple[tuple[float, str], int]]:
    """Count the unusual cache lifetimes with their sources."""
    return Counter((each.ledger.prices.life, each.life_from) for each in files if each.life_from).most_common()


def _cells(row: Saving) -> tuple[str, ...]:
    dollars = "–" if row.dollars is None else f"{row.dollars:,.2f}"
    figures = f"{row.sessions:,}", f"{row.requests:,}", f"{row.saved:,.0f}", f"{row.share:z.0%}", dollars
    return printable(row.client), printable(row.model), *figures


def _conclusion(total: Saving, first: datetime) -> str:
    unpriced = f" The prices of {total.unpriced:,} of them are not known." if total.unpriced else ""
    cold = (
        f" Of this {abs(total.cold):,.0f} were {_verb(total.cold)} at cold requests: the rewrite was paid for anyway."
    )
    avoided = f" {count_noun(total.avoided, 'compaction')} did not happen, at least." if total.avoided else ""
    return (
        f"Since {first.date()} pruning has {_gain(total)} in {count_noun(total.sessions, 'session')}.{unpriced}"
        f"{cold if total.cold else ''}{avoided}"
    )


def _gain(total: Saving) -> str:
    """Say what was saved. Tokens may be saved and dollars lost, since tokens of two models are not worth the same."""
    tokens = f"{abs(total.saved):,.0f} input tokens"
    if total.dollars is None:
        return f"{_verb(total.saved)} {tokens}"
    money = f"${abs(total.dollars):,.2f}"
    if not total.dollars or (total.saved < 0) == (total.dollars < 0):
        return f"{_verb(total.saved)} {tokens} ({money})"
    return f"{_verb(total.dollars)} {money}, although it {_verb(total.saved)} {tokens} of several models"


def _verb(gain: float) -> str:
    return "lost" if gain < 0 else "saved"


# What recorded sessions cost


def spending_table(sums: Sequence[ProjectSpending], sessions: Sequence[Spending]) -> RenderableType:
    """Draw the cost of sessions by agent and project, and the newest sessions. Both lists start with the newest."""
    others = sum(not each.error for each in sessions) - sum(each.sessions for each in sums)
    left = f"{count_noun(others, 'other session')} recorded no requests, or only those of another session"
    return Group(
        _headline(sums),
        *([Text(left, "dim")] if others else []),
        "",
        _projects(sums),
        "",
        _newest([*distinct(sessions)]),
        "",
        Text(
            "replayed: the requests of each conversation's longest stretch between compactions, if it has 20 or more",
            "dim",
        ),
        *(Text(f"\nnote: {each}", style="yellow") for each in spending_notes(sums)),
        "",
    )


def _headline(sums: Sequence[ProjectSpending]) -> Text:
    sessions = count_noun(sum(each.sessions for each in sums), "session")
    dollars = sum(each.dollars for each in sums)
    if all(each.unpriced == each.requests for each in sums):
        return Text(f"{sessions} whose cost is not known: the notes below say why")
    cost = f"${dollars:,.2f}"
    return Text.assemble(f"{sessions} cost ", (cost, "bold"), " at API list prices, by the recorded usage")


def _projects(sums: Sequence[ProjectSpending]) -> Table:
    table = _cost_table("agent", "project", "newest", "sessions", "replayed", "cached", "cost")
    shown, others = sums[:MOST_PROJECTS], sums[MOST_PROJECTS:]
    for each in shown:
        project = _cell(each.project, PROJECT)
        table.add_row(printable(each.agent) or "–", project, Title(time=each.newest).date, *_figures([each]))
    if others:
        table.add_row("", f"{len(others):,} more", "", *_figures(others))
    return table


def _figures(sums: Sequence[ProjectSpending]) -> Iterator[str]:
    prompt, cached = sum(each.prompt for each in sums), sum(each.cached for each in sums)
    yield f"{sum(each.sessions for each in sums):,}"
    yield _replayed(sum(each.replayed for each in sums), sum(each.requests for each in sums))
    yield f"{cached / prompt:.0%}" if prompt else "–"
    yield _dollars(sum(each.dollars for each in sums))


def _newest(sessions: Sequence[Spending]) -> Table:
    table = _cost_table("newest", "project", "first prompt of the five newest", "replayed", "cost")
    for each in sessions[:MOST_SESSIONS]:
        cost = sum(charge.dollars or 0.0 for charge in each.charges)
        project, prompt = _cell(each.title.project, PROJECT), _cell(each.title.prompt, PROMPT)
        replayed = _replayed(sum(charge.is_replayed for charge in each.charges), len(each.charges))
        table.add_row(each.title.date, project, prompt, replayed, _dollars(cost))
    return table


def _replayed(replayed: int, requests: int) -> str:
    return f"{replayed:,}/{requests:,}"


def _cell(words: str, most: int) -> Text:
    """Create a cell of a user's words. As a plain string, rich would read "[red]" in them as markup."""
    return Text(one_line(printable(words), most))


def _cost_table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in names:
        is_number = name in ("sessions", "requests", "replayed", "cached", "cost")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    return table


def spending_notes(sums: Sequence[ProjectSpending]) -> Iterator[str]:
    """Yield remarks on the costs: requests that they lack, answers that they count in part, and higher prices."""
    unlisted = sum((Counter(each.unlisted) for each in sums), Counter())
    for model, count in unlisted.most_common():
        why = f"the price of {printable(model)} is not known; give a similar one with --model"
        yield f"{count_noun(count, 'request')} without a cost: {why}"
    if count := sum(each.unpriced for each in sums) - unlisted.total():
        yield (
            f"{count_noun(count, 'request')} without a cost: their usage is not recorded, or impossible (over "
            f"{LARGEST_PROMPT:,} tokens), or their model is not named"
        )
    if count := sum(each.low for each in sums):
        yield (
            f"the logs of {count_noun(count, 'request')} lack most of the output: they cost more than is shown. The "
            "replay counts the texts of these answers, but no thinking that is not in the log, so the percentage saved "
            "may be a little too high"
        )
    if count := sum(each.tiered for each in sums):
        extra = _dollars(sum(each.extra for each in sums))
        yield (
            f"{count_noun(count, 'request')} cost {extra} more, because all tokens of a prompt of that size have a "
            "higher price: see `autoprune run --tier`"
        )


def compactions_text(found: CompactionSum, run: str) -> RenderableType:
    """Say what compactions cost, how many the command `run` would have prevented, and this by agent if several had any.

    Nothing is said if there were none.
    """
    if not found.count:
        return Group()
    agents = {name: each for name, each in found.agents.items() if each.count}
    by_agent = [each.in_words(f"`{run}`", f"{printable(name or 'plain messages')}:") for name, each in agents.items()]
    lines = [*(by_agent if len(by_agent) > 1 else ()), found.afterwards]
    return Group(
        Text(found.in_words(f"`{run}`"), style="bold"),
        *(Text(line) for line in lines if line),
        Text(found.basis, style="dim"),
        "",
    )


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost else "–"
