"""Session files replayed one after the other, with a bar, and what is kept of their figures."""

import heapq
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autoprune import __version__
from autoprune.apps.cli.output import Terminal
from autoprune.apps.cli.replay_results import Results, results
from autoprune.apps.replay import ReplayArgs, SessionFigures
from autoprune.apps.replay.corpus import Engine, details_of_files, key, replay_files, without_curves
from autoprune.apps.replay.detail import SessionDetail, most_expensive
from autoprune.apps.replay.verdict import NONE
from autoprune.errors import SessionError

T = TypeVar("T")
ON_PAGE = 12  # sessions that a page shows one by one


class Collected:
    """The figures of sessions, by path; those of all requests are kept of the `most` dearest ones alone."""

    def __init__(self, most: float) -> None:
        """Begin with none."""
        self._found: dict[str, SessionFigures] = {}
        self._most = most
        self._whole: list[tuple[float, str]] = []

    def add(self, found: SessionFigures) -> None:
        """Take the figures of a session."""
        self._found[found.path] = found
        heapq.heappush(self._whole, (_unpruned(found), found.path))
        if len(self._whole) > self._most:
            _, path = heapq.heappop(self._whole)
            self._found[path] = without_curves(self._found[path])

    @property
    def sessions(self) -> list[SessionFigures]:
        """All sessions in the order of their paths."""
        return [self._found[path] for path in sorted(self._found)]


def _unpruned(found: SessionFigures) -> float:
    bills = (bill.total for row in found.figures if row.strategy == NONE for bill in list(row.bills.values())[:1])
    return max(bills, default=0.0)


def replayed(files: Sequence[str], args: ReplayArgs, engine: Engine, output: str | None, most: float = 0) -> Collected:
    """Return the figures of session files. Those that `output` holds are taken from there; new ones are added.

    On Ctrl-C the file holds what is done. Raises SessionError where it is no such file.
    """
    found = Collected(most)
    with results(output, _key(args)) if output else nullcontext() as known:
        try:
            digests = known.digests if known else None
            done = replay_files(files, args, known=digests, engine=engine)
            for path, figures in _with_bar(done, "replaying", len(files)):
                if known and figures:
                    known.add(figures)
                found.add(figures or _known(known, path))
        except KeyboardInterrupt:
            print(f"autoprune: {_left(found, files, output)}", file=sys.stderr)
            raise
    return found


def _key(args: ReplayArgs) -> str:
    try:
        return key(args, __version__)
    except OSError as error:
        raise SessionError(f"{error.filename} cannot be read: {error.strerror}") from error


def _with_bar(done: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield what is done, with a bar on standard error where that is a terminal."""
    console = Terminal(stderr=True)
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("left:"), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(done, total=total)


def _known(known: Results | None, path: str) -> SessionFigures:
    assert known  # only a file whose digest it gave is known
    return known.figures(path)


def _left(found: Collected, files: Sequence[str], output: str | None) -> str:
    """Say what an interrupted run leaves."""
    done = f"{len(found.sessions):,} of {len(files):,} sessions are done"
    if output is None:
        return f"{done}; with --output FILE they are kept, and the same command goes on from there"
    return f"{done} and stand in {output}; the same command goes on from there"


def dearest(
    sessions: Sequence[SessionFigures], args: ReplayArgs, engine: Engine, *, texts: bool
) -> list[SessionDetail]:
    """Return the details of the episodes whose unpruned bills are the largest, the largest first."""
    rows = [row for each in sessions for row in each.figures]
    names = most_expensive(rows, str(args.prices[0]), ON_PAGE)
    files = dict.fromkeys(row.session for row in rows if row.episode in names)
    done = _with_bar(details_of_files(files, args, texts=texts, engine=engine), "opening the dearest", len(files))
    found = {each.episode: each for details in done for each in details}
    return [found[name] for name in names if name in found]
