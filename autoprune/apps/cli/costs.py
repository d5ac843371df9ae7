"""Print what recorded sessions cost by agent and project, and what they would have cost with a strategy."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoprune.apps.replay.compaction_costs import CompactionSum
from autoprune.apps.replay.spending import Outlook, ProjectSpending, Spending
from autoprune.apps.replay.titles import Title
from autoprune.apps.replay.verdict import count_noun
from autoprune.apps.sessions import LARGEST_PROMPT
from autoprune.facts.plain_text import one_line
from autoprune.pruners.report.drawing import printable

MOST_PROJECTS, MOST_SESSIONS = 12, 5  # rows of the two tables; other projects are summed up in one row
PROJECT, PROMPT = 22, 37  # characters of a project and a prompt, so that both tables fit into 80 columns


def spending_table(sums: Sequence[ProjectSpending], sessions: Sequence[Spending]) -> RenderableType:
    """Draw the cost of sessions by agent and project, and the newest sessions. Both lists start with the newest."""
    return Group(
        _headline(sums),
        *_others_note(sums, sessions),
        "",
        _projects(sums),
        "",
        _newest(sessions),
        *_unpriced_note(sums),
        *_low_note(sums),
        *_tier_note(sums),
        "",
    )


def _headline(sums: Sequence[ProjectSpending]) -> Text:
    sessions = count_noun(sum(each.sessions for each in sums), "session")
    dollars = sum(each.dollars for each in sums)
    if not dollars:
        return Text(f"{sessions} with recorded usage, but without a known price of the model: give --model")
    cost = f"${dollars:,.2f}"
    return Text.assemble(f"{sessions} cost ", (cost, "bold"), " by the recorded usage and the models' prices")


def _others_note(sums: Sequence[ProjectSpending], sessions: Sequence[Spending]) -> Iterator[Text]:
    if others := len(sessions) - sum(each.sessions for each in sums):
        yield Text(
            f"{count_noun(others, 'other session')} recorded no requests, or only those of another session", "dim"
        )


def _projects(sums: Sequence[ProjectSpending]) -> Table:
    table = _table("agent", "project", "newest", "sessions", "requests", "cached", "cost")
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
    yield f"{sum(each.requests for each in sums):,}"
    yield f"{cached / prompt:.0%}" if prompt else "–"
    yield _dollars(sum(each.dollars for each in sums))


def _newest(sessions: Sequence[Spending]) -> Table:
    table = _table("newest", "project", "first prompt of the five newest", "cost")
    for each in sessions[:MOST_SESSIONS]:
        cost = sum(charge.dollars or 0.0 for charge in each.charges)
        project, prompt = _cell(each.title.project, PROJECT), _cell(each.title.prompt, PROMPT)
        table.add_row(each.title.date, project, prompt, _dollars(cost))
    return table


def _cell(words: str, most: int) -> Text:
    """Create a cell of a user's words. As a plain string, rich would read "[red]" in them as markup."""
    return Text(one_line(printable(words), most))


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in names:
        is_number = name in ("sessions", "requests", "cached", "cost")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    return table


def _unpriced_note(sums: Sequence[ProjectSpending]) -> Iterator[Text]:
    if count := sum(each.unpriced for each in sums):
        reason = (
            f"their usage is not recorded, or impossible (over {LARGEST_PROMPT:,} tokens), or the price of their model "
            "is not known"
        )
        yield Text(f"\nnote: {count_noun(count, 'request')} without a cost: {reason}", style="yellow")


def _low_note(sums: Sequence[ProjectSpending]) -> Iterator[Text]:
    if count := sum(each.low for each in sums):
        lack = f"the logs of {count_noun(count, 'request')} lack most of the output: they cost more than is shown"
        yield Text(f"\nnote: {lack}", style="yellow")


def _tier_note(sums: Sequence[ProjectSpending]) -> Iterator[Text]:
    if count := sum(each.tiered for each in sums):
        extra = _dollars(sum(each.extra for each in sums))
        yield Text(
            f"\n{count_noun(count, 'request')} cost {extra} more, because all tokens of a prompt of that size have a "
            "higher price: see `autoprune run --tier`"
        )


def outlook_text(found: Outlook, run: str) -> RenderableType:
    """Say in dollars what the command `run` would have changed, and which part of the sessions that rests on."""
    return Group(Text(found.sentence(f"`{run}`"), style="bold"), Text(found.basis, style="dim"), "")


def compactions_text(found: CompactionSum, run: str) -> RenderableType:
    """Say what compactions cost, how many the command `run` would have prevented, and this by agent if several had any.

    Nothing is said if there were none.
    """
    if not found.count:
        return Group()
    agents = {name: each for name, each in found.agents.items() if each.count}
    lines = [each.in_words(f"`{run}`", f"{printable(name or 'plain messages')}:") for name, each in agents.items()]
    return Group(
        Text(found.in_words(f"`{run}`"), style="bold"),
        *(Text(line) for line in lines if len(lines) > 1),
        Text(found.basis, style="dim"),
        "",
    )


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost else "–"
