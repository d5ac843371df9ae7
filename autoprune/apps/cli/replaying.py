"""Shared code of `replay` and `tune`: options, finding and replaying session files."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from autoprune.apps.cli.console import Terminal, show, show_report
from autoprune.apps.cli.input_output import load_readers
from autoprune.apps.cli.replay_cache import Cached, cache_folder
from autoprune.apps.clients import CLIENTS
from autoprune.apps.replay.choices import AT, NO_PRUNING, Policy
from autoprune.apps.replay.corpus import (
    Engine,
    Processes,
    details_of_files,
    on_ray,
    replay_files,
    why_skipped,
    without_curves,
)
from autoprune.apps.replay.detail import SessionDetail, most_expensive
from autoprune.apps.replay.episode_figures import OWN
from autoprune.apps.replay.session import TOO_SHORT, Overview, ReplayArgs, SessionFigures
from autoprune.apps.replay.sizes import UNKNOWN_HEAD
from autoprune.apps.replay.spending import Spending, copies, read_spending
from autoprune.apps.replay.tuning import strategy_name
from autoprune.apps.replay.verdict import RUN_COMMAND
from autoprune.apps.sessions import READABLE, Reader, places, plugin_readers
from autoprune.economics import DEFAULT, Prices, model_prices, prices
from autoprune.errors import SessionError, SettingsError, count_noun, near_or_all
from autoprune.pruners.report.drawing import printable
from autoprune.settings.values import UNKNOWN_WINDOW
from autoprune.strategies.catalog import RUN_STRATEGY

T = TypeVar("T")
COPY = "each of its requests is also in a newer session"
ENDINGS = ", ".join(f"*{ending}" for ending in places.ENDINGS)
ENGINES = ("processes", "ray")
OTHER_READERS = "OpenHands, SWE-agent, mini-swe-agent, Trae, Inspect and tau-bench"
MOST_DETAILED = 12  # sessions that the page shows one by one
MOST_SKIPPED = 10  # files that are listed for one reason
# What `autoprune run` starts for the agent of a session.
PROGRAMS = {client.agent: client.name for client in CLIENTS if client.agent}

Paths: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        help="Session files, folders of them, or globs. Default: all sessions that agents have stored on this machine.",
    ),
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="The model of sessions that name none, or one without a known price."),
]
CacheLife: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cache-life",
        metavar="TIME",
        help="How long the prompt cache lives: 5m, 1h, or seconds. Default: as the session's log says, else the "
        "vendor's default.",
    ),
]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Sessions to replay at a time. Default: one for each core.")
]
EngineName: TypeAlias = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Where sessions are replayed: in processes, or with ray.")
]


def parse_prices(given: Sequence[str], life: float | None = None) -> tuple[Prices, ...]:
    """Parse the values of `--prices` and drop duplicates. By default, each session has the prices of its own model."""
    lists = [prices(each, life=life) for each in given] or [OWN]
    return tuple({str(each): each for each in lists}.values())


def _note(line: str) -> None:
    show(Text(f"note: {printable(line)}", style="yellow"), to_stderr=True, wraps=False)


def choose_engine(name: str, jobs: int | None, *, keeps: bool = True) -> Engine:
    """Look up an engine, which `keeps` outcomes in the user's cache. Raises SettingsError for an unknown name."""
    if name not in ENGINES:
        raise SettingsError(f"there is no engine {name!r}{near_or_all(name, ENGINES)}")
    engine: Engine = on_ray if name == "ray" else Processes(jobs)
    return Cached(engine, cache_folder()) if keeps else engine


def find_files(paths: Sequence[str], reader: str | None = None) -> list[str]:
    """Find the session files that paths name or, without any, those that agents have stored on this machine.

    `reader` is the value of `--reader`, whose places are searched too, like those of installed readers. Prints how many
    files of which agent were found, and a note for each path without session files. Raises SettingsError if there is no
    such reader or a path is empty or "-", and SessionError if there are no session files at all.
    """
    named = load_readers(reader)
    if not paths:
        installed = plugin_readers(lambda error: _note(f"{error}; its sessions are left out"))
        return _files_at_home(dict.fromkeys((*named, *installed.values())))
    if not all(paths):
        raise SettingsError("one of the paths is empty: give a session file, a folder or a glob")
    if "-" in paths:  # each session is read in a process of its own
        raise SettingsError("sessions are not read from standard input: give files, folders or globs")
    found = {path: places.expand_names([path]) for path in paths}
    missing = [_why_missing(path) for path, files in found.items() if not files]
    if len(missing) == len(found):
        raise SessionError("; ".join(missing))
    for line in missing:
        _note(line)
    return list(dict.fromkeys(str(file) for files in found.values() for file in files))


def _why_missing(path: str) -> str:
    """Say why a folder gives no session files: a folder in it that cannot be read, or else that it has none."""
    errors: list[OSError] = []
    folder = os.path.expanduser(path)
    for _ in os.walk(folder, onerror=errors.append) if os.path.isdir(folder) else ():
        pass
    if errors:
        return f"{errors[0].filename} cannot be read: {errors[0].strerror}"
    return f"there are no session files ({ENDINGS}) in {path}"


def _files_at_home(readers: Iterable[Reader]) -> list[str]:
    found = places.at_home(Path.home(), tuple(readers))
    if not found:
        folders = ", ".join(places.searched(Path.home(), tuple(readers)))
        raise SessionError(
            f"no agent has stored sessions in {folders}: give files, folders or globs, or try a recorded session: in a "
            "clone of the repository, `autoprune replay fixtures/demo.jsonl`"
        )
    counts = (f"{agent} {count_noun(len(files), 'session')}" for agent, files in found.items())
    show(Text(f"found: {', '.join(counts)}"), to_stderr=True)
    return list(dict.fromkeys(str(file) for files in found.values() for file in files))


def read_usage(files: Sequence[str], args: ReplayArgs, engine: Engine) -> list[Spending]:
    """Read the recorded usage of session files with a progress bar, the newest session first."""
    # The usage is sorted at the end, so the bar is drawn around the engine.
    return read_spending(
        files, args, engine=lambda do, tasks: with_progress(engine(do, tasks), "reading usage", len(files))
    )


def replay_all(
    files: Sequence[str], args: ReplayArgs, engine: Engine, spent: Sequence[Spending] = (), *, with_curves: bool = False
) -> list[SessionFigures]:
    """Replay session files with a progress bar, except for those that are copies by their usage, `spent`.

    Figures of each request, which are large, are returned only `with_curves`. Ctrl-C leaves a line on what is kept.
    """
    found = {path: SessionFigures(path, error=COPY) for path in copies(spent)}
    files = [each for each in files if each not in found]
    try:
        for path, figures in with_progress(replay_files(files, args, engine=engine), "replaying", len(files)):
            found[path] = figures if with_curves else without_curves(figures)
    except KeyboardInterrupt:
        left = "kept; the same command continues from there" if isinstance(engine, Cached) else "lost"
        said = f"{len(found):,} of {len(files):,} sessions are finished and {left}"
        print(f"autoprune: {said}", file=sys.stderr)
        raise
    return [found[path] for path in sorted(found)]


def with_progress(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Yield the items, with a progress bar on standard error if that is a terminal."""
    console = Terminal(stderr=True)
    columns = TextColumn(description), BarColumn(), MofNCompleteColumn(), TextColumn("left:"), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, total=total)


def most_expensive_details(
    sessions: Sequence[SessionFigures], args: ReplayArgs, engine: Engine, *, texts: bool
) -> list[SessionDetail]:
    """Find the details of the episodes with the largest unpruned bills. The largest comes first.

    The sessions' figures have those of each request.
    """
    rows = [row for each in sessions for row in each.figures]
    names = most_expensive(rows, str(args.prices[0]), MOST_DETAILED)
    asked = {row.session for row in rows if row.episode in names}
    files = {each.path: each.figures for each in sessions if each.path in asked}
    details = details_of_files(files, args, texts=texts, engine=engine)
    found = {each.episode: each for some in with_progress(details, "reading details", len(files)) for each in some}
    return [found[name] for name in names if name in found]


def skipped_files(sessions: Sequence[SessionFigures]) -> dict[str, str]:
    """Return the files that were not replayed, each with the reason."""
    return {each.path: why for each in sessions if (why := why_skipped(each))}


def end_without_figures(sessions: Sequence[SessionFigures], *, at_home: bool) -> None:
    """Say that all sessions were skipped: an error, unless they are the user's sessions and some are just short."""
    if not at_home or TOO_SHORT not in skipped_files(sessions).values():
        raise nothing_replayed(sessions)
    said = "Leave it as it is: no session here has 20 requests between compactions, so there is little to win."
    show_report(Text(said), to_stderr=True)


def nothing_replayed(sessions: Sequence[SessionFigures]) -> SessionError:
    """Return the error if all sessions were skipped, with the most frequent reason."""
    count = len(sessions)
    (why, _), *others = Counter(skipped_files(sessions).values()).most_common()
    more = f" and {count_noun(len(others), 'other reason')}" if others else ""
    return SessionError(
        f"nothing was replayed: {'the session was' if count == 1 else f'all {count:,} sessions were'} skipped "
        f"({printable(why)}{more})"
    )


def skipped_table(skipped: Mapping[str, str], *, brief: bool = False) -> RenderableType:
    """List skipped files by reason: the first ones of each unless `brief`, and the number of others."""
    reasons: dict[str, list[str]] = {}
    for path, why in skipped.items():
        reasons.setdefault(why.replace(f": give {READABLE}", ""), []).append(path)
    most = 0 if brief else MOST_SKIPPED
    lines: list[Text] = []
    for why, paths in reasons.items():
        lines.append(Text(f"skipped {count_noun(len(paths), 'session')}: {printable(why)}", style="yellow"))
        lines += (Text(f"  {printable(path)}") for path in paths[:most])
        if len(paths) > most > 0:
            lines.append(Text(f"  and {len(paths) - most:,} more; --json names all"))
    if any(READABLE in why for why in skipped.values()):
        lines.append(Text(f"benchmarks/prunebench has readers of {OTHER_READERS}"))
    return Group(*lines)


def legend(meanings: Mapping[str, str]) -> RenderableType:
    """Explain the columns of a table."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, meaning in meanings.items():
        table.add_row(name, meaning, style="dim")
    return table


def show_assumptions(whole: Overview, args: ReplayArgs) -> None:
    """Print the assumptions of the figures on standard error."""
    lines = (Text(f"note: {printable(each)}", style="yellow") for each in assumptions(whole, args))
    show_report(Group(*lines), to_stderr=True)


def assumptions(whole: Overview, args: ReplayArgs) -> Iterator[str]:
    """Yield the assumptions of the figures about data that the logs lack."""
    if whole.unnamed and OWN in args.prices:
        yield f"{count_noun(whole.unnamed, 'conversation')} without the name of a model: {DEFAULT.note}; give --model"
    if OWN in args.prices:
        known = map(model_prices, whole.models)
        yield from (each.note for each in known if each.note and (each.input_price or not args.model))
    if whole.damaged:
        yield f"broken lines of {count_noun(whole.damaged, 'session')} are left out, with what they said"
    if whole.unknown_heads:
        where = count_noun(whole.unknown_heads, "conversation")
        yield f"no prompt size is recorded in {where}: system prompt and tools are taken to be {UNKNOWN_HEAD:,} tokens"
    hour = whole.lives.get("1 h recorded", 0)  # what others' logs or lists say of an hour is no subscription
    if hour and "claude-code" in whole.agents:
        yield (
            f"{count_noun(hour, 'conversation')} with a cache of one hour, which Claude Code has with a subscription: "
            "then you do not pay these dollars, but their tokens fill your limits, and pruning saves after pauses of "
            "more than an hour"
        )
    if not whole.episodes:
        return
    compares = args.strategies != (NO_PRUNING, RUN_STRATEGY)
    if compares and args.safe_zone is None and any(AT not in name for name in args.strategies if name != NO_PRUNING):
        default = f"the model's window ({UNKNOWN_WINDOW:,} tokens if unknown) without room for the reply"
        yield f"the limit is that of `autoprune run` where no compaction is near: {default}"
    if len(args.prices) > 1:
        yield f"the clairvoyant and cache_aware decide by the prices {args.prices[0]}"


def run_line(strategy: str, safe_zone: int | None = None, agents: Iterable[str] = ()) -> str:
    """Return the command that runs an assistant with a strategy: the first of these agents, else Claude Code."""
    policy = Policy(strategy)
    name, zone = strategy_name(policy), policy.zone or safe_zone
    chosen = "" if name == RUN_STRATEGY else f" --strategy {shlex.quote(name)}"
    program = next((PROGRAMS[each] for each in agents if each in PROGRAMS), "claude")
    return f"{RUN_COMMAND}{chosen}{f' --safe-zone {zone}' if zone else ''} {program}"


def command_line() -> str:
    """Return the command as the user typed it, which a page shows."""
    return f"autoprune {shlex.join(sys.argv[1:])}"
