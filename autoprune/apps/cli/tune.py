"""`autoprune tune`: recommend a setting for the user's own sessions, cross-validated."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import autoprune.apps.cli.options as options
import autoprune.apps.cli.replaying as replaying
from autoprune.apps.cli.console import show, show_json, show_report
from autoprune.apps.cli.replay import share_cell
from autoprune.apps.replay.choices import NO_PRUNING, Policy
from autoprune.apps.replay.rows import MAIN
from autoprune.apps.replay.session import ReplayArgs, overview
from autoprune.apps.replay.tuning import FLOOR, FOLDS, GRID, Tuning, tune
from autoprune.apps.replay.verdict import MEANINGS
from autoprune.errors import SettingsError, count_noun
from autoprune.pruners.report.drawing import table_of
from autoprune.settings.values import duration

EXAMPLES = options.examples(
    "tune --model claude-sonnet-4-5",
    "tune logs/ --prices deepseek --floor 0.97",
    "tune logs/ --strategy 'low_water @ 60k' --strategy cache_aware",
)
FEWER = {
    "n": "how many such pieces there are, if fewer than 20; they count too",
    "below": "the 95% confidence interval over projects",
    "rows": "settings that cost more than another one and keep less are not shown",
}


def tune_settings(
    paths: replaying.Paths = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STRATEGY",
            help="Try this setting, such as 'low_water(target=0.6) @ 60k'; may be repeated. Default: "
            f"{len(GRID) - 1} settings.",
        ),
    ] = None,
    model: replaying.Model = None,
    price: Annotated[
        str | None, typer.Option("--prices", metavar="PRICES", help="Prices as in replay: 1.25,0.1,5 or anthropic.")
    ] = None,
    cache_life: replaying.CacheLife = None,
    floor: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="The smallest share of what the agent used later that must stay in view: code, edits and facts.",
        ),
    ] = FLOOR,
    as_json: options.AsJson = False,
    jobs: replaying.Jobs = None,
    engine: replaying.EngineName = replaying.ENGINES[0],
    reader: options.Reader = None,
) -> None:
    """Find the cheapest setting for your recorded sessions.

    A setting qualifies if what the agent needed stays in view. The last lines say how far to trust the result.
    """
    grid = tuple(dict.fromkeys((NO_PRUNING, *strategy))) if strategy else GRID
    for name in grid:
        if Policy(name).is_clairvoyant:
            raise SettingsError(f"{name} knows the rest of the session, so it cannot be used in practice")
    life = duration(cache_life, "--cache-life")
    prices = replaying.parse_prices((price,) if price else (), life)
    args = ReplayArgs(grid, prices, model=model, cache_life=life, readers=(reader,) if reader else ())
    files = replaying.find_files(paths or (), reader)
    chosen_engine = replaying.choose_engine(engine, jobs)
    spent = replaying.read_usage(files, args, chosen_engine)
    sessions = replaying.replay_all(files, args, chosen_engine, spent)
    figures = [row for each in sessions for row in each.figures]
    if figures:
        names = overview(sessions).models
        tuned = tune(figures, str(args.prices[0]), floor, model=model or (names[0] if len(names) == 1 else None))
        if as_json:
            show_json({"prices": asdict(args.prices[0]), **asdict(tuned)})
        else:
            show_report(_frontier_table(tuned, args))
            lines = [tuned.snippet]
            if tuned.recommended != NO_PRUNING:
                run = replaying.run_line(tuned.recommended, agents=overview(sessions).agents)
                lines += ["", "Or, for an assistant:", run]
            show(Text("\n".join(lines)), wraps=False)  # wrapped, it cannot be pasted
    show(replaying.skipped_table(replaying.skipped_files(sessions)), to_stderr=True, wraps=False)
    if figures:
        replaying.show_assumptions(overview(sessions), args)
    else:
        replaying.end_without_figures(sessions, at_home=not paths)


def _frontier_table(tuned: Tuning, args: ReplayArgs) -> RenderableType:
    """Draw the Pareto frontier, the recommendation, and its reliability."""
    figures = ("bill", "spare", *MAIN)
    table = table_of(("setting", "left"), *((name, "right") for name in figures))
    for row in tuned.frontier:
        style = "bold" if row.strategy == tuned.recommended else ""
        bill = f"{row.with_rereads.value:.3f}", f"{row.spare:+.1f}"
        cells = row.strategy, *bill, *(share_cell(row.evidence[group], row.needed[group]) for group in MAIN)
        table.add_row(*(Text(cell, style=style) for cell in cells))
    condition = f"at least {tuned.floor:.0%} of each kind kept, prices {args.prices[0]}"
    nothing = "no pruning; no setting is cheaper and keeps enough evidence"
    recommended = nothing if tuned.recommended == NO_PRUNING else tuned.recommended
    return Group(
        Text(
            f"{count_noun(len(tuned.rows) - 1, 'setting')} on {count_noun(tuned.sessions, 'session')}; {condition}",
            style="bold",
        ),
        table,
        replaying.legend({name: MEANINGS[name] for name in figures} | FEWER),
        "",
        Text(f"recommended: {recommended}", style="bold"),
        Text(_cross_validation(tuned)),
        "",
    )


def _cross_validation(tuned: Tuning) -> str:
    """Describe the settings' figures on sessions that were not used to choose them."""
    if not tuned.bill:
        return "It was chosen and judged on the same session, so nothing is known about other sessions."
    groups = ((tuned.code, "code"), (tuned.edits, "edits"), (tuned.facts, "facts"))
    shares = [f"{share.text('.1f', 100, '%')} of the {name}" for share, name in groups if share]
    kept = f" and kept {', '.join(shares)}" if shares else ""
    folds = sum(count for _, count in tuned.picks)
    same = dict(tuned.picks).get(tuned.recommended, 0)
    # With fewer than two sessions per fold, each added session changes the figures.
    few = "" if tuned.sessions >= 2 * FOLDS else f" {tuned.sessions} sessions are few: expect other figures on others."
    return (
        f"Cross-validation: chosen on some sessions and judged on the others, {folds} times, settings had a bill of "
        f"{tuned.bill.text('.3f')}{kept}. The recommended setting "
        f"was chosen {same} of {folds} times.{few}"
    )
