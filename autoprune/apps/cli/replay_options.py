"""What `autoprune replay` and `autoprune tune` have in common: options, and what they stand for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.text import Text

import autoprune.apps.cli.options as options
from autoprune.apps.cli.files import readers
from autoprune.apps.cli.output import show
from autoprune.apps.cli.replay_tables import found_here
from autoprune.apps.replay import SessionFigures
from autoprune.apps.replay.bill import OWN
from autoprune.apps.replay.corpus import Engine, why_skipped
from autoprune.apps.replay.processes import Processes
from autoprune.apps.replay.ray import on_ray
from autoprune.apps.sessions import places
from autoprune.economics import Prices, prices
from autoprune.errors import SessionError, SettingsError, did_you_mean
from autoprune.pruners.report.drawing import printable

ENDINGS = ", ".join(f"*{ending}" for ending in places.ENDINGS)
ENGINES = ("processes", "ray")

Paths: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="PATH", help="Session files, folders of them, globs.")
]
Model: TypeAlias = Annotated[str | None, typer.Option(metavar="MODEL", help="The model of sessions that name none.")]
CacheLife: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cache-life",
        metavar="TIME",
        help="How long each prompt cache lives: 5m, 1h or seconds. Without it: as the session's log tells, else the "
        "vendor's default.",
    ),
]
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


def prices_of(given: Sequence[str], life: float | None = None) -> tuple[Prices, ...]:
    """Return the prices that are given, each once; each session's own where there are none."""
    lists = [prices(each, life=life) for each in given] or [OWN]
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
    """Return the files that are named, and with `here` those of agents, which are said first.

    Raises SettingsError if no path is named, and SessionError if there are no files there. A folder without session
    files beside others is noted.
    """
    if not paths and not here:
        raise SettingsError("give session files, folders or globs, or --here for what agents left in the home folder")
    if not all(paths):
        raise SettingsError("one of the paths is empty: give a session file, a folder or a glob")
    found = {path: places.named([path]) for path in paths}
    at_home = places.at_home(Path.home()) if here else {}
    missing = [f"there are no session files ({ENDINGS}) in {path}" for path, files in found.items() if not files]
    if here and not at_home:
        missing.append(f"no agent left session files in the home folder, {Path.home()}")
    files = [file for files in (*found.values(), *at_home.values()) for file in files]
    if not files:
        raise SessionError("; ".join(missing))
    if at_home:
        show(found_here(at_home), to_stderr=True)
    for words in missing:
        show(Text(f"note: {printable(words)}", style="yellow"), to_stderr=True, wraps=False)
    return list(dict.fromkeys(map(str, files)))


def nothing_replayed(sessions: Sequence[SessionFigures]) -> SessionError:
    """Return the error that no file could be replayed; the reasons were said before."""
    count = len(sessions)
    return SessionError(
        f"nothing was replayed: {'the file was' if count == 1 else f'all {count:,} files were'} skipped"
    )


def left_out(sessions: Sequence[SessionFigures]) -> dict[str, str]:
    """Return the files that were not replayed, each with the reason."""
    return {each.path: why for each in sessions if (why := why_skipped(each))}
