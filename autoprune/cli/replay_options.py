"""What `autoprune replay` and `autoprune tune` have in common: options, and what they stand for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

import autoprune.cli.options as options
from autoprune.cli.files import readers
from autoprune.cli.output import show
from autoprune.cli.replay_tables import found_here
from autoprune.economics import Prices, of_model, prices
from autoprune.errors import SettingsError, did_you_mean
from autoprune.replay import SessionFigures
from autoprune.replay.corpus import Engine, why_skipped
from autoprune.replay.processes import Processes
from autoprune.replay.ray import on_ray
from autoprune.sessions import places

ENGINES = ("processes", "ray")

Paths: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="PATH", help="Session files, folders of them, globs.")
]
Model: TypeAlias = Annotated[str | None, typer.Option(metavar="MODEL", help="The model whose prices count.")]
Here: TypeAlias = Annotated[
    bool, typer.Option("--here", metavar=options.FLAG, help="All sessions that agents left in the home folder.")
]
Output: TypeAlias = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write each session's figures to a JSONL file; go on from it."),
]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Sessions at a time; one for each core without it.")
]
EngineName: TypeAlias = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Where the work is done: processes or ray.")
]


def prices_of(given: Sequence[str], model: str | None) -> tuple[Prices, ...]:
    """Return the prices that are given and those of a model, each once; the usual ones where there are none."""
    lists = [*map(prices, given), *([of_model(model)] if model else ())] or [prices(None)]
    return tuple({str(each): each for each in lists}.values())


def readers_of(named: str | None) -> tuple[str, ...]:
    """Return the name of the session reader that `--reader` gives, by which each process loads it.

    Raises SettingsError where there is none.
    """
    readers(named)
    return (named,) if named is not None else ()


def engine_of(name: str, jobs: int | None) -> Engine:
    """Return what does the work. Raises SettingsError for a name that there is not."""
    if name not in ENGINES:
        raise SettingsError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)}; there are {', '.join(ENGINES)}")
    return on_ray if name == "ray" else Processes(jobs)


def files_of(paths: Sequence[str], *, here: bool) -> list[str]:
    """Return the files that are named, and with `here` those of agents, which are said first."""
    if not paths and not here:
        raise SettingsError("give session files, folders or globs, or --here for what agents left in the home folder")
    at_home = places.at_home(Path.home()) if here else {}
    if here:
        show(found_here(at_home), to_stderr=True)
    files = [*places.named(paths), *(file for files in at_home.values() for file in files)]
    return list(dict.fromkeys(map(str, files)))


def left_out(sessions: Sequence[SessionFigures]) -> dict[str, str]:
    """Return the files that were not replayed, each with the reason."""
    return {each.path: why for each in sessions if (why := why_skipped(each))}
