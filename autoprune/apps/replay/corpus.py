"""Replay many session files, a file a task, in processes or on a cluster. Keeps nothing of a session but its figures.

An *engine* does tasks: `one_by_one` here, `processes.Processes`, or `ray.on_ray`. The files are read where the work is
done. Whatever becomes of one, the others are replayed: what cannot be read, breaks a strategy or takes its process's
life gives `SessionFigures` with an `error` in words.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

from autoprune.apps.replay.detail import SessionDetail, session_details
from autoprune.apps.replay.figures import Figures
from autoprune.apps.replay.session import ReplayArgs, SessionFigures, replay_session
from autoprune.errors import AutopruneError
from autoprune.strategies.scaffold import is_in_file

T = TypeVar("T")
FORMAT = 3  # of figures: another number where what they say of the same session has changed
TOO_SHORT = "no stretch of 20 requests or more without a compaction"


@dataclass(frozen=True)
class Task:
    """A file to replay; `digest` is that of the file whose figures are known already, if there are any."""

    path: str
    args: ReplayArgs
    digest: str = ""
    texts: bool = False


@dataclass(frozen=True)
class Failed:
    """Why a task could not be done, in words."""

    why: str


class Engine(Protocol):
    """Does something with each task, and yields tasks as they are done, each with what came of it."""

    def __call__(self, do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
        """Do the tasks; `do` is a function of a module."""
        ...


def one_by_one(do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
    """Work in this process."""
    return ((task, attempt(do, task)) for task in tasks)


def attempt(do: Callable[[Task], T], task: Task) -> T | Failed:
    """Return what comes of a task. Raises nothing."""
    try:
        return do(task)
    except AutopruneError as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(f"it cannot be read: {error.strerror or error}")
    except MemoryError:
        return Failed("it takes more memory than there is")
    except Exception as error:  # a strategy of the user's own may raise anything
        return Failed(f"it cannot be replayed: {type(error).__name__}: {error}")


def replay_files(
    files: Iterable[str], args: ReplayArgs, *, known: Mapping[str, str] | None = None, engine: Engine = one_by_one
) -> Iterator[tuple[str, SessionFigures | None]]:
    """Yield each file with its figures, as they come; None for one whose digest is the one that `known` has for it."""
    digests = known or {}
    tasks = (Task(file, args, digests.get(file, "")) for file in files)
    for task, found in engine(figures_of, tasks):
        yield task.path, SessionFigures(task.path, error=found.why) if isinstance(found, Failed) else found


def details_of_files(
    files: Iterable[str], args: ReplayArgs, *, texts: bool = False, engine: Engine = one_by_one
) -> Iterator[list[SessionDetail]]:
    """Yield the details of each session file, as they come; nothing for one whose details cannot be had."""
    for _, found in engine(details_of, (Task(file, args, texts=texts) for file in files)):
        yield [] if isinstance(found, Failed) else found


def figures_of(task: Task) -> SessionFigures | None:
    """Return the figures of a file; None where they are known."""
    data = Path(task.path).read_bytes()
    digest = sha256(data).hexdigest()
    if digest == task.digest:
        return None
    return replace(replay_session(task.path, data, task.args), digest=digest)


def details_of(task: Task) -> list[SessionDetail]:
    """Return the details of a file's episodes."""
    return list(session_details(task.path, Path(task.path).read_bytes(), task.args, texts=task.texts))


def why_skipped(found: SessionFigures) -> str:
    """Return why a file was not replayed, without its name; nothing where it was."""
    if found.figures:
        return ""
    return found.error.removeprefix(found.path).lstrip(" ,:") if found.error else TOO_SHORT


def without_curves(found: SessionFigures) -> SessionFigures:
    """Return figures with one sum in place of what each request had, which is most of what they take."""
    return replace(found, figures=tuple(map(_without_curves, found.figures)))


def _without_curves(figures: Figures) -> Figures:
    return replace(figures, prompts=(sum(figures.prompts),), held=(sum(figures.held),))


def key(args: ReplayArgs, version: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what tells the arguments of a replay from others, with the version and the user's files that they name.

    Raises OSError where such a file cannot be read.
    """
    known = os.environ if environ is None else environ
    settings = sorted((name, value) for name, value in known.items() if name.startswith("AUTOPRUNE_"))
    named = {**asdict(args), "readers": [each if isinstance(each, str) else each.name for each in args.readers]}
    files = _own_files((*args.strategies, *(each for each in args.readers if isinstance(each, str))))
    return sha256(repr((FORMAT, version, named, settings, files)).encode()).hexdigest()[:16]


def _own_files(named: Sequence[str]) -> list[str]:
    files = (text.partition(".py:")[0] + ".py" for text in named if is_in_file(text))
    return [sha256(Path(file).read_bytes()).hexdigest() for file in files]
