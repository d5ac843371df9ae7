"""`autoprune replay`: what strategies would have cost on recorded sessions, and what they would have lost.

The calls, from here to the pruner:

    replay_sessions            this module: options, tables, JSON and the page
    spending.read_spending     prices the recorded usage; `savings` draws it
    replaying.replay_all       progress, and results of an earlier run
    corpus.replay_files        an engine runs `corpus.figures_of` for each file, in a worker process
    session.replay_session     reads the file into episodes (`sessions.recordings`, `episode.episode`) and compactions
    session.replay_episode     for each strategy: `play.play` prunes at each request
    episode_figures.figures    the bill and the evidence of that run
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import autoprune.apps.cli.options as options
import autoprune.apps.cli.replaying as replaying
import autoprune.apps.replay.verdict as verdict
from autoprune.apps.cli.console import show, show_json, show_report
from autoprune.apps.cli.input_output import write_output
from autoprune.apps.cli.savings import compactions_text, spending_notes, spending_table
from autoprune.apps.replay import atoms, request_table
from autoprune.apps.replay.choices import BUILT_IN, NO_PRUNING, Policy
from autoprune.apps.replay.compaction_costs import CompactionSum, sum_compactions
from autoprune.apps.replay.detail import SessionDetail
from autoprune.apps.replay.episode_figures import OWN
from autoprune.apps.replay.evidence import PROTECTED_NAMES
from autoprune.apps.replay.page import page
from autoprune.apps.replay.rows import FEW_ATOMS, MAIN, Interval, rounded
from autoprune.apps.replay.session import FED_BACK, FULL, Overview, ReplayArgs, SessionFigures, overview
from autoprune.apps.replay.spending import Outlook, ProjectSpending, outlook, sum_spending, total
from autoprune.economics import Prices
from autoprune.errors import SettingsError, count_noun
from autoprune.pruners.report.drawing import printable
from autoprune.settings.values import budget_tokens, duration
from autoprune.strategies.catalog import RUN_STRATEGY

EXAMPLES = options.examples(
    "replay",
    "replay ~/.claude/projects --model claude-sonnet-4-5",
    "replay logs/ --strategy low_water --strategy 'low_water @ 60k'",
    "replay logs/ --prices anthropic --prices 1,0.02,4 --style both",
    "replay logs/ --html report.html",
    "replay logs/ --parquet requests.parquet",
)
STYLES = {"full": (FULL,), "fed-back": (FED_BACK,), "both": (FULL, FED_BACK)}
LOWEST_BAND = verdict.BANDS[-2]  # strategies that keep less evidence than this share one heading
MOST_NAMED = 5  # paths in the command of the next step
SHARE_WIDTH = 10  # characters of a share with its confidence interval
MORE_MEANINGS = {
    "≈": "no significant difference from the bill of the row above",
    "n": "how many pieces of code, edits or facts were needed, if less than 20; rows are grouped by the lowest share",
    "worst": "the highest cost up to any request of a conversation, without re-reads",
    "breaks": "requests at which a change made the provider's cache useless",
    "shell edits": "the same for the old texts of edits in shell commands",
}
BASIS = (
    "\nThe columns user's words, failure, files last edited and being read for a text are % of requests whose prompt "
    "still held this content as it was. Below a figure is its 95% confidence interval over projects. Simulated costs "
    "rest on our token counts and a model of the cache, so they differ from recorded ones; only their ratio is used."
)
COMPARE = "With session files or folders this command compares strategies."
CHARTS = "With --html FILE it writes a page with charts."


def _needs_pyarrow(path: str | None) -> str | None:
    """Fail at once, not after the replay."""
    if path:
        request_table.check_installed()
    return path


def replay_sessions(
    paths: replaying.Paths = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STRATEGY",
            help="Compare this strategy with no pruning; may be repeated. 'low_water @ 60k' sets its safe zone. "
            f"Default: {RUN_STRATEGY}. With a path all of these: none (no pruning), {', '.join(BUILT_IN[1:])}.",
        ),
    ] = None,
    model: replaying.Model = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--prices",
            metavar="PRICES",
            help="Prices of a token that is written to the cache, read from it, and output, relative to an input "
            "token: 1.25,0.1,5; or a price list: anthropic, openai-old, deepseek, no-cache … May be repeated. "
            "Default: the prices of each session's model.",
        ),
    ] = None,
    cache_life: replaying.CacheLife = None,
    safe_zone: Annotated[
        str | None,
        options.safe_zone(
            "The limit of a prompt, in tokens: 51200, 50k, 50*1024, or 0.7 of the model's window. Default: as in "
            "`autoprune run`, the window of each session's model without room for the reply."
        ),
    ] = None,
    style: Annotated[
        str,
        typer.Option(
            metavar="STYLE",
            help="What the agent loop passes to the pruner: its whole history (full), its last pruned prompt with "
            "the new messages (fed-back), or both in turn.",
        ),
    ] = "full",
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as an HTML page.")] = None,
    parquet: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            callback=_needs_pyarrow,
            help="Write a row for each request under each strategy, for DuckDB or pandas.",
        ),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Include texts of results in the page. They may contain secrets.")
    ] = False,
    as_json: options.AsJson = False,
    jobs: replaying.Jobs = None,
    engine: replaying.EngineName = replaying.ENGINES[0],
    reader: options.Reader = None,
) -> None:
    """Say what sessions cost, and what pruning would have saved.

    Without a path: all sessions that agents have stored on this machine, priced by their recorded usage, and what
    `autoprune run` would have changed. With paths: a comparison of strategies, also by whether what the agent needed
    next would still have been in view. No model is called.
    """
    if style not in STYLES:
        raise SettingsError(f"there is no style {style!r}; there are {', '.join(STYLES)}")
    # Without paths the question is what `autoprune run` would have saved, and a comparison would take minutes.
    compares = bool(paths or strategy)
    usual = BUILT_IN if paths else (NO_PRUNING, RUN_STRATEGY)
    strategies = tuple(dict.fromkeys((NO_PRUNING, *strategy))) if strategy else usual
    for name in strategies:
        Policy(name)  # raises for an unknown strategy
    zone = budget_tokens(safe_zone, model=model) if safe_zone is not None else None
    life = duration(cache_life, "--cache-life")
    prices = replaying.parse_prices(price or (), life)
    args = ReplayArgs(
        strategies=strategies,
        prices=prices,
        safe_zone=zone,
        model=model,
        cache_life=life,
        styles=STYLES[style],
        readers=(reader,) if reader else (),
    )
    files = replaying.find_files(paths or (), reader)
    chosen_engine = replaying.choose_engine(engine, jobs)
    spent = replaying.read_usage(files, args, chosen_engine)
    sums = sum_spending(spent)
    has_usage = any(each.prompt or each.dollars for each in sums)
    if has_usage and not as_json:
        show_report(spending_table(sums, spent))
    sessions = replaying.replay_all(files, args, chosen_engine, spent, with_curves=as_json or bool(html or parquet))
    found = _sum_up(sessions, args, sums)
    given = {"--model": model, "--prices": price and price[0], "--cache-life": cache_life, "--reader": reader}
    steps = _next_steps(found, _tune_line(paths or (), given)) if found.ranking else []
    if html and found.ranking:
        details = replaying.most_expensive_details(sessions, args, chosen_engine, texts=texts)
        notes = spending_notes(sums) if has_usage else ()
        _write(html, _as_page(found, details, steps, notes), ": open it in a browser")
    if parquet and found.ranking:
        _write(parquet, request_table.parquet(sessions))
    if as_json:
        show_json({**_as_json(found), "spending": [asdict(each) for each in sums]})
    else:
        _print_tables(found, hint=COMPARE if html else f"{COMPARE} {CHARTS}", compares=compares)
        for what, line in steps:  # not wrapped, so that the command can be pasted
            show(Text(f"\n{what}:\n    {line}" if line else f"\n{what}."), wraps=False)
    if not found.ranking:
        replaying.end_without_figures(sessions, at_home=not paths)


def _write(path: str, content: str | bytes, hint: str = "") -> None:
    write_output(path, content)
    if path != "-":
        show(Text(f"wrote {path}{hint}"), to_stderr=True, wraps=False)


@dataclass(frozen=True)
class _Replayed:
    """The figures of a replay: those of each session, what they amount to, and the strategies at each of its prices."""

    sessions: Sequence[SessionFigures]
    args: ReplayArgs
    whole: Overview
    ranking: dict[Prices, list[verdict.Standing]]
    likely: Outlook
    compactions: CompactionSum

    @property
    def standings(self) -> list[verdict.Standing]:
        """The strategies at the first of the prices."""
        return self.ranking[self.args.prices[0]]


def _sum_up(sessions: Sequence[SessionFigures], args: ReplayArgs, sums: Sequence[ProjectSpending]) -> _Replayed:
    rows = [row for each in sessions for row in each.figures]
    run, whole = verdict.run_command(args.safe_zone), overview(sessions)
    models = dict.fromkeys((*whole.models, *(model for each in sums for model in each.models)))
    return _Replayed(
        sessions,
        args,
        replace(whole, models=tuple(models)),
        {each: verdict.standings(rows, str(each), run) for each in args.prices} if rows else {},
        outlook(sessions, RUN_STRATEGY, str(args.prices[0]), *total(sums)),
        sum_compactions(compaction for each in sessions for compaction in each.compactions),
    )


def _print_tables(found: _Replayed, *, hint: str, compares: bool) -> None:
    """Print what `autoprune run` would have changed and, if the user compares strategies, all tables, else a hint."""
    run, ranking = verdict.run_command(found.args.safe_zone), found.ranking
    likely = found.likely if found.likely.replayed else None
    if ranking and likely:
        show_report(Group(Text(likely.sentence(f"`{run}`"), style="bold"), Text(likely.basis, style="dim"), ""))
    show_report(compactions_text(found.compactions, run))
    if ranking and compares:
        show_report(overview_table(found.whole))
        for each, rows in ranking.items():
            show_report(verdict_table(each, rows, _unpruned_cost(found, each)))
        show_report(details_table(found.standings))
        show_report(Group(replaying.legend({**verdict.MEANINGS, **MORE_MEANINGS}), Text(BASIS, style="dim")))
    elif ranking:
        show_report(Group(Text(verdict.advice(found.standings)), "", hint))
    skipped = replaying.skipped_files(found.sessions)
    show(replaying.skipped_table(skipped, brief=not compares), to_stderr=True, wraps=False)
    replaying.show_assumptions(found.whole, found.args)


def _as_page(
    found: _Replayed, details: Sequence[SessionDetail], steps: Sequence[tuple[str, str]], notes: Iterable[str]
) -> str:
    todo = " ".join(f"{what}: `{line}`." if line else f"{what}." for what, line in steps)
    return page(
        found.sessions,
        details,
        {str(prices): rows for prices, rows in found.ranking.items()},
        command=replaying.command_line(),
        advice=f"{verdict.advice(found.standings)} {todo}",
        notes=[*replaying.assumptions(found.whole, found.args), *notes],
        paid=found.likely.paid,
        replayed=found.likely.replayed,
    )


def _as_json(found: _Replayed) -> dict[str, Any]:
    """All figures. Two runs differ only in the times that they took."""
    return {
        "command": replaying.command_line(),
        "overview": asdict(found.whole),
        "prices": {str(each): asdict(each) for each in found.args.prices},
        "strategies": {str(each): [asdict(row) for row in rows] for each, rows in found.ranking.items()},
        "advice": {str(each): verdict.advice(rows) for each, rows in found.ranking.items()},
        "forecast": {**asdict(found.likely), "would_pay": asdict(found.likely.would_pay)},
        "notes": list(replaying.assumptions(found.whole, found.args)),
        "compactions": asdict(found.compactions),
        "skipped": replaying.skipped_files(found.sessions),
        "sessions": [asdict(each) for each in found.sessions],
    }


def _next_steps(found: _Replayed, tune: str) -> list[tuple[str, str]]:
    """Return the next steps, each with its command if it has one. `tune` is the command of the search."""
    best, zone, agents = verdict.recommended(found.standings), found.args.safe_zone, found.whole.agents
    if best is None:
        leave = "Leave it as it is: no strategy that can be chosen is shown to be cheaper and to keep enough", ""
        if prevented := found.compactions.prevented:
            run = replaying.run_line(RUN_STRATEGY, zone, agents)
            leave = f"Prune, if you want to avoid compactions ({prevented:,} would not have happened)", run
        return [leave, ("Look for a cheaper setting", tune)]
    bill = f"at {best.rereads.text('.3f')} of the bill"
    lines = [replaying.run_line(best.row.strategy, zone, [agent]) for agent in agents if agent in replaying.PROGRAMS]
    first, *others = dict.fromkeys(lines) or [best.row.strategy]
    where = bill if lines else f"{bill}, in the agent's own loop with the strategy"
    prune = [(f"Prune, {where}", first), *(("or", each) for each in others)]
    return [*prune, ("Look for a cheaper setting", tune)]


def _tune_line(paths: Sequence[str], given: Mapping[str, Any]) -> str:
    """Return the command of the search for a better setting, with those of the options that are given."""
    named = shlex.join(paths) if len(paths) <= MOST_NAMED else "FILE…"  # a shell may have expanded a glob
    options = shlex.join(word for name, value in given.items() if value for word in (name, value))
    return " ".join(filter(None, ("autoprune tune", named, options)))


def _unpruned_cost(found: _Replayed, prices: Prices) -> str:
    """Say what all conversations would have cost without pruning, simulated and, at their own prices, as recorded."""
    rows = (row for each in found.sessions for row in each.figures if row.strategy == NO_PRUNING)
    # An episode has one row for each style, and the unpruned bill is the same in both.
    bills = {row.episode: row.bills[str(prices)] for row in rows}
    tokens = verdict.round_tokens(sum(bill.total for bill in bills.values()))
    simulated = f"simulated without pruning: {tokens} input tokens"
    priced = {name: bill.total * bill.input_price for name, bill in bills.items() if bill.input_price}
    if not priced:
        return simulated
    which = (
        f" for {count_noun(len(priced), 'conversation')} of a known price, which alone count in bills"
        if len(priced) < len(bills)
        else ""
    )
    known = {name: shape.dollars for each in found.sessions for name, shape in each.shapes.items()}
    paid = [cost for name in priced if (cost := known.get(name)) is not None]
    is_comparable = prices == OWN and found.args.cache_life is None and len(paid) == len(priced)
    recorded = f" (recorded: ${sum(paid):,.2f})" if is_comparable else ""
    return f"{simulated}, ${sum(priced.values()):,.2f}{which}{recorded}"


def overview_table(whole: Overview) -> RenderableType:
    """Draw the contents of the sessions."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, value in verdict.overview_rows(whole):
        table.add_row(name, printable(value))
    return Group(table, "")


def verdict_table(prices: Prices, ranking: Sequence[verdict.Standing], cost: str) -> RenderableType:
    """Draw the strategies at these prices, grouped by evidence, and the advice. `cost` says that of no pruning."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("strategy", overflow="fold", max_width=44)
    for name in ("bill", "spare\nchanged", *MAIN):
        table.add_column(name, justify="right", no_wrap=True)
    for heading, rows in groupby(ranking, _heading):
        table.add_row(Text(heading, style="dim"))
        for each in rows:
            table.add_row(*_verdict_cells(each))
    broken = [f"{verdict.strategy_label(each.row)}: {each.broken}" for each in ranking if each.broken]
    lines = (Text(f"{each}; --json says where", "bold red") for each in broken)
    return Group(_prices_line(prices, cost), table, *lines, "", Text(verdict.advice(ranking), style="bold"), "")


def details_table(ranking: Sequence[verdict.Standing]) -> RenderableType:
    """Draw the worst bill, the cache breaks, and the visible shares of shell edits and protected content."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("in view, %", overflow="fold", max_width=30)
    for name in ("worst", "breaks", atoms.AtomGroup.SHELL_EDITS, *PROTECTED_NAMES.values()):
        table.add_column(name, justify="right", max_width=SHARE_WIDTH)
    for each in ranking:
        strategy = Text(printable(verdict.strategy_label(each.row)), style="dim" if each.is_clairvoyant else "")
        shares = (each.row.protected.get(kind) for kind in PROTECTED_NAMES)
        cells = (figure_cell(*rounded(known, ".1f", 100)) if known else "–" for known in shares)
        shell_edits = share_cell(each.row.shell_edits, each.row.needed[atoms.AtomGroup.SHELL_EDITS])
        table.add_row(strategy, f"{each.row.worst:.2f}", f"{each.row.cache_breaks:,}", shell_edits, *cells)
    return Group(table, "")


def _prices_line(prices: Prices, cost: str) -> Text:
    relative = f"{prices.write:g} written, {prices.read:g} read, {prices.output:g} of the answer"
    own = ("prices: each session's own", " (by request: of its model and its cache)")
    name, meaning = own if prices == OWN else (f"prices: {printable(prices)}", f" (a token {relative})")
    return Text.assemble((name, "bold"), f"{meaning}; {cost}")


def _heading(each: verdict.Standing) -> str:
    if each.is_clairvoyant:
        return "knows the future:"
    if each.run:
        return f"{each.run}:"
    return f"keeps ≥ {each.band:.0%}:" if each.band else f"keeps < {LOWEST_BAND:.0%}:"


def _verdict_cells(each: verdict.Standing) -> tuple[Text | str, ...]:
    row = each.row
    style = "dim" if each.is_clairvoyant else "red" if each.rereads.value > 1 else ""
    bill = f"{'≈' if each.is_tied else ''}{figure_cell(*rounded(each.rereads, '.3f'))}"
    return (
        Text(printable(verdict.strategy_label(row))),
        Text(bill, style=style),
        figure_cell(f"{row.spare:+.1f}", f"{row.changed:.0%}"),
        *(share_cell(row.evidence[group], row.needed[group]) for group in MAIN),
    )


def figure_cell(value: str, bounds: str) -> str:
    """Return a figure above its bounds, so that the table fits 80 columns."""
    return f"{value}\n{bounds}" if bounds else value


def share_cell(known: Interval, needed: int) -> str:
    """Return a share in percent with its interval, or the number of atoms if they are few; a dash if there are none."""
    share, bounds = rounded(known, ".1f", 100)
    return figure_cell(share, f"n = {needed}" if needed < FEW_ATOMS else bounds) if needed else "–"
