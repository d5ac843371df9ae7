"""`autoprune replay`: what strategies would have cost on recorded sessions, and what they would have lost."""

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

import autoprune.apps.cli.options as options
import autoprune.apps.cli.replay_options as shared
from autoprune.apps.cli.files import write
from autoprune.apps.cli.output import show, show_json
from autoprune.apps.cli.replay_run import ON_PAGE, dearest, replayed
from autoprune.apps.cli.replay_tables import (
    Unpruned,
    details_table,
    legend,
    noted,
    notes,
    shape,
    skipped,
    verdict_table,
)
from autoprune.apps.replay import BUILT_IN, FED_BACK, FULL, Policy, ReplayArgs, SessionFigures
from autoprune.apps.replay.page import page
from autoprune.apps.replay.session import Overview, overview
from autoprune.apps.replay.verdict import NONE, Standing, advice, standings
from autoprune.economics import Prices
from autoprune.errors import SettingsError
from autoprune.settings import budget_tokens, duration

EXAMPLES = options.examples(
    "replay --here",
    "replay ~/.claude/projects --model claude-sonnet-4-5",
    "replay logs/ --strategy low_water --strategy 'low_water @ 60k'",
    "replay logs/ --prices anthropic --prices 1,0.02,4 --style both",
    "replay logs/ --output figures.jsonl --html report.html",
)
STYLES = {"full": (FULL,), "fed-back": (FED_BACK,), "both": (FULL, FED_BACK)}
Placed = dict[Prices, list[Standing]]


def replay(
    paths: shared.Paths = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STRATEGY",
            help="Replay this one beside no pruning; may be repeated. With a safe zone of its own: 'low_water @ 60k'. "
            f"Without it: {', '.join(BUILT_IN)}.",
        ),
    ] = None,
    model: shared.Model = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--prices",
            metavar="PRICES",
            help="What a token costs that is written to the cache, one that is read and one of the answer, in input "
            "tokens: 1.25,0.1,5; or a list: anthropic, openai-old, deepseek, no-cache … May be repeated. Without it: "
            "those of the model that each session names.",
        ),
    ] = None,
    cache_life: shared.CacheLife = None,
    safe_zone: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--safe-zone",
            metavar="TOKENS",
            help="The token budget of a prompt: 51200, 50k, 50*1024, or 0.7 of the model's window. Without it: the one "
            "that `autoprune run` uses, 0.6 of the window of each session's model.",
        ),
    ] = None,
    style: Annotated[
        str,
        typer.Option(
            metavar="STYLE",
            help="What the loop passes: its whole history (full), what was sent before (fed-back), or both.",
        ),
    ] = "full",
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as a page.")] = None,
    texts: Annotated[
        bool, typer.Option("--texts", metavar=options.FLAG, help="With texts of results in the page: mind secrets.")
    ] = False,
    as_json: options.AsJson = False,
    here: shared.Here = False,
    output: shared.Output = None,
    jobs: shared.Jobs = None,
    engine: shared.EngineName = shared.ENGINES[0],
    reader: options.Reader = None,
) -> None:
    """Say what strategies would have cost on recorded sessions.

    Also whether what the agent needed next was still there. No model is called.
    """
    args = _args(strategy or (), price or (), model, cache_life, safe_zone, style)
    args = replace(args, readers=shared.readers_of(reader))
    files = shared.files_of(paths or (), here=here)
    work = shared.engine_of(engine, jobs)
    found = replayed(files, args, work, output, _most(as_json=as_json, html=html))
    sessions = found.sessions
    rows = [row for each in sessions for row in each.figures]
    placed = {each: standings(rows, str(each)) for each in args.prices} if rows else {}
    whole = overview(sessions)
    if html and rows:  # first of all, since whoever reads what is printed may have had enough
        details = dearest(sessions, args, work, texts=texts)
        write(html, page(sessions, details, **_said(args, whole, placed)))
    if as_json:
        show_json(_as_json(sessions, args, whole, placed))
    else:
        _show(sessions, args, whole, placed)
    if not rows:
        raise shared.nothing_replayed(sessions)


def _args(
    strategies: Sequence[str],
    price: Sequence[str],
    model: str | None,
    cache_life: str | None,
    safe_zone: str | None,
    style: str,
) -> ReplayArgs:
    """Return what is replayed and how. Raises SettingsError for what cannot be."""
    if style not in STYLES:
        raise SettingsError(f"there is no style {style!r}; there are {', '.join(STYLES)}")
    named = dict.fromkeys((NONE, *strategies)) if strategies else BUILT_IN
    for name in named:
        Policy(name)
    zone = budget_tokens(safe_zone, model=model) if safe_zone is not None else None
    life = duration(cache_life, "--cache-life")
    return ReplayArgs(tuple(named), shared.prices_of(price, life), zone, model, life, STYLES[style])


def _most(*, as_json: bool, html: str | None) -> float:
    """Return of how many sessions the figures of each request are needed."""
    return math.inf if as_json else ON_PAGE if html else 0


def _show(sessions: Sequence[SessionFigures], args: ReplayArgs, whole: Overview, placed: Placed) -> None:
    if placed:
        show(shape(whole))
        for each, rows in placed.items():
            show(verdict_table(each, rows, _unpruned(sessions, str(each))))
        show(details_table(placed[args.prices[0]]))
        show(legend())
    show(skipped(shared.left_out(sessions)), to_stderr=True, wraps=False)
    if placed:
        show(notes(whole, args), to_stderr=True)


def _unpruned(sessions: Sequence[SessionFigures], prices: str) -> Unpruned:
    rows = (row for each in sessions for row in each.figures if row.strategy == NONE)
    return Unpruned.of({row.episode: row.bills[prices] for row in rows}.values())


def _said(args: ReplayArgs, whole: Overview, placed: Placed) -> dict[str, Any]:
    """Return the words of the page."""
    first = args.prices[0]
    return {
        "prices": str(first),
        "command": _command(),
        "advice": advice(placed[first]),
        "notes": list(noted(whole, args)),
    }


def _command() -> str:
    return f"autoprune {shlex.join(sys.argv[1:])}"


def _as_json(sessions: Sequence[SessionFigures], args: ReplayArgs, whole: Overview, placed: Placed) -> dict[str, Any]:
    """Return all that was found out; what differs between two runs are times alone."""
    return {
        "command": _command(),
        "overview": asdict(whole),
        "prices": {str(each): asdict(each) for each in args.prices},
        "strategies": {str(each): [asdict(row) for row in rows] for each, rows in placed.items()},
        "advice": {str(each): advice(rows) for each, rows in placed.items()},
        "notes": list(noted(whole, args)),
        "skipped": shared.left_out(sessions),
        "sessions": [each.as_json() for each in sessions],
    }
