"""`autoprune tune`: the setting that is best for somebody's own sessions, with its honest spread."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import autoprune.apps.cli.options as options
import autoprune.apps.cli.replay_options as shared
from autoprune.apps.cli.output import show, show_json
from autoprune.apps.cli.replay_run import replayed
from autoprune.apps.cli.replay_tables import notes, skipped
from autoprune.apps.replay import Interval, Policy, ReplayArgs, Row
from autoprune.apps.replay.overview import overview
from autoprune.apps.replay.tuning import FLOOR, FOLDS, GRID, Tuning, tune
from autoprune.apps.replay.verdict import NONE
from autoprune.errors import SettingsError
from autoprune.pruners.report.drawing import table_of
from autoprune.settings import duration

EXAMPLES = options.examples(
    "tune --here --model claude-sonnet-4-5",
    "tune logs/ --prices deepseek --floor 0.97",
    "tune logs/ --strategy 'low_water @ 60k' --strategy cache_aware",
    "tune logs/ -o figures.jsonl",
)
LEGEND = """\
bill      cost as a share of the unpruned one
re-read   the same with what the agent would fetch again; the lowest is chosen
code      how much of what the recorded actions rested on stays in view, in %
edits     the same for the old texts of edits
facts     the same for figures, names, quotes and keys that the agent stated
Only settings are shown that no other beats in both."""


def tune_settings(
    paths: shared.Paths = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STRATEGY",
            help=f"Try this one, as in 'low_water(target=0.6) @ 60k'; may be repeated. Without it {len(GRID) - 1} "
            "settings are tried.",
        ),
    ] = None,
    model: shared.Model = None,
    price: Annotated[
        str | None, typer.Option("--prices", metavar="PRICES", help="Prices as in replay: 1.25,0.1,5 or anthropic.")
    ] = None,
    cache_life: shared.CacheLife = None,
    floor: Annotated[
        float, typer.Option(metavar="SHARE", min=0, max=1, help="The least evidence of each kind.")
    ] = FLOOR,
    as_json: options.AsJson = False,
    here: shared.Here = False,
    output: shared.Output = None,
    jobs: shared.Jobs = None,
    engine: shared.EngineName = shared.ENGINES[0],
    reader: options.Reader = None,
) -> None:
    """Choose the cheapest setting for your recorded sessions.

    It must keep what they needed. The last lines say how far to trust it.
    """
    grid = tuple(dict.fromkeys(("none", *strategy))) if strategy else GRID
    for name in grid:
        if Policy(name).is_clairvoyant:
            raise SettingsError(f"{name} knows what comes later: nobody can choose it")
    life = duration(cache_life, "--cache-life")
    prices = shared.prices_of((price,) if price else (), life)
    args = ReplayArgs(grid, prices, model=model, cache_life=life, readers=shared.readers_of(reader))
    sessions = replayed(shared.files_of(paths or (), here=here), args, shared.engine_of(engine, jobs), output).sessions
    figures = [row for each in sessions for row in each.figures]
    if figures:
        tuned = tune(figures, str(args.prices[0]), floor, model=model)
        show_json(_as_json(tuned, args)) if as_json else _show(tuned, args)
    show(skipped(shared.left_out(sessions)), to_stderr=True, wraps=False)
    if not figures:
        raise shared.nothing_replayed(sessions)
    show(notes(overview(sessions), args), to_stderr=True)


def _as_json(tuned: Tuning, args: ReplayArgs) -> dict[str, Any]:
    return {"prices": asdict(args.prices[0]), **asdict(tuned)}


def _show(tuned: Tuning, args: ReplayArgs) -> None:
    show(_drawn(tuned, args))
    show(Text(tuned.snippet), wraps=False)  # code whose lines are broken cannot be pasted


def _drawn(tuned: Tuning, args: ReplayArgs) -> RenderableType:
    """Draw the frontier, what is recommended and how far it can be trusted."""
    table = table_of(
        ("setting", "left"),
        ("bill", "right"),
        ("re-read", "right"),
        ("code", "right"),
        ("edits", "right"),
        ("facts", "right"),
    )
    for row in tuned.frontier:
        style = "bold" if row.strategy == tuned.recommended else ""
        table.add_row(*(Text(cell, style=style) for cell in _cells(row)))
    asked = f"at least {tuned.floor:.0%} of each kind of evidence, prices {args.prices[0]}"
    return Group(
        Text(f"{len(tuned.rows) - 1} settings on {_count(tuned.sessions, 'session')}; {asked}", style="bold"),
        table,
        Text(LEGEND, style="dim"),
        "",
        Text(_recommended(tuned), style="bold"),
        Text(_trust(tuned)),
        "",
    )


def _recommended(tuned: Tuning) -> str:
    if tuned.recommended == NONE:
        return "recommended: no pruning; no setting is cheaper and keeps that much"
    return f"recommended: {tuned.recommended}"


def _cells(row: Row) -> tuple[str, ...]:
    shares = (f"{100 * each.value:.1f}" for each in (row.code, row.edits, row.facts))
    return row.strategy, f"{row.bill.value:.3f}", f"{row.with_rereads:.3f}", *shares


def _trust(tuned: Tuning) -> str:
    """Say what the recommended setting brought on sessions by which it was not chosen."""
    if not (tuned.bill and tuned.code and tuned.edits and tuned.facts):
        return "It was chosen and judged on the same session: what it brings on others is not known."
    folds = sum(count for _, count in tuned.picks)
    same = dict(tuned.picks).get(tuned.recommended, 0)
    few = "" if tuned.sessions >= 2 * FOLDS else f" {tuned.sessions} sessions are few: expect other figures on others."
    return (
        f"Chosen on the other sessions and judged on those left out, {folds} times, settings cost "
        f"{_range(tuned.bill, 1, '.3f')} of the unpruned bill and kept {_range(tuned.code, 100, '.1f')} % of the "
        f"evidence of code, {_range(tuned.edits, 100, '.1f')} % of that of edits and "
        f"{_range(tuned.facts, 100, '.1f')} % of that of facts; {same} of {folds} times it was this "
        f"setting.{few}"
    )


def _range(known: Interval, factor: float, form: str) -> str:
    value, low, high = (f"{factor * each:{form}}" for each in (known.value, known.low, known.high))
    return f"{value} ({low}–{high})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
