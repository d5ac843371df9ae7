"""Replay many session files, one task each, in processes or on a cluster. Keeps only the figures of a session.

An *engine* runs tasks: `one_by_one` here, `engines.Processes`, or `engines.on_ray`. Workers read the files themselves.
If one task fails, the others continue: a file that cannot be read, breaks a strategy or kills its process gives
`SessionFigures` with an `error` message.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

from autoprune.apps.replay.detail import SessionDetail, session_details
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.session import TOO_SHORT, ReplayArgs, SessionFigures, replay_session
from autoprune.errors import AutopruneError
from autoprune.strategies.scaffold import is_in_file

T = TypeVar("T")
FORMAT = 3  # of figures: increased when the figures of the same session change


@dataclass(frozen=True)
class Task:
    """A file to replay. `digest` identifies the version of the file whose figures are already known, if any."""

    path: str
    args: ReplayArgs
    digest: str = ""
    texts: bool = False


@dataclass(frozen=True)
class Failed:
    """Why a task failed, as text."""

    why: str


class Engine(Protocol):
    """Calls a function with each task, and yields tasks with their outcomes as they are done."""

    def __call__(self, do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
        """Run the tasks. `do` is a module-level function, so that it can be pickled."""
        ...


def one_by_one(do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
    """Run the tasks in this process."""
    return ((task, attempt(do, task)) for task in tasks)


def attempt(do: Callable[[Task], T], task: Task) -> T | Failed:
    """Run a task. Exceptions become a `Failed`."""
    try:
        return do(task)
    except AutopruneError as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(f"it cannot be read: {error.strerror or error}")
    except MemoryError:
        return Failed("it takes more memory than there is")
    except Exception as error:  # a user's strategy may raise anything
        return Failed(f"it cannot be replayed: {type(error).__name__}: {error}")


def replay_files(
    files: Iterable[str], args: ReplayArgs, *, known: Mapping[str, str] | None = None, engine: Engine = one_by_one
) -> Iterator[tuple[str, SessionFigures | None]]:
    """Yield each file with its figures as tasks finish; None if the file's digest in `known` has not changed."""
    digests = known or {}
    tasks = (Task(file, args, digests.get(file, "")) for file in files)
    for task, found in engine(figures_of, tasks):
        yield task.path, SessionFigures(task.path, error=found.why) if isinstance(found, Failed) else found


def details_of_files(
    files: Iterable[str], args: ReplayArgs, *, texts: bool = False, engine: Engine = one_by_one
) -> Iterator[list[SessionDetail]]:
    """Yield the details of each session file as tasks finish; an empty list if a file cannot be replayed."""
    for _, found in engine(details_of, (Task(file, args, texts=texts) for file in files)):
        yield [] if isinstance(found, Failed) else found


def figures_of(task: Task) -> SessionFigures | None:
    """The figures of a file; None if its digest is the task's."""
    data = Path(task.path).read_bytes()
    if task.digest and task.digest == sha256(data).hexdigest():
        return None
    return replay_session(task.path, data, task.args)


def details_of(task: Task) -> list[SessionDetail]:
    """The details of a file's episodes."""
    return list(session_details(task.path, Path(task.path).read_bytes(), task.args, texts=task.texts))


def why_skipped(found: SessionFigures) -> str:
    """The reason why a file was skipped, without its name; "" if it was replayed."""
    if found.figures:
        return ""
    return found.error.removeprefix(found.path).lstrip(" ,:") if found.error else TOO_SHORT


def without_curves(found: SessionFigures) -> SessionFigures:
    """Replace the figures of each request, which take most of the space, by their sum."""
    return replace(found, figures=tuple(map(_without_curves, found.figures)))


def _without_curves(figures: Figures) -> Figures:
    # Sums suffice for tables; only charts need each request.
    return replace(figures, prompts=(sum(figures.prompts),), held=(sum(figures.held),))


def key(args: ReplayArgs, version: str, environ: Mapping[str, str] | None = None) -> str:
    """A digest of a replay's arguments, the version, and the user's files that the arguments name.

    Raises OSError if such a file cannot be read.
    """
    known = os.environ if environ is None else environ
    # AUTOPRUNE_* variables change what strategies do, so figures under other ones are not the same.
    settings = sorted((name, value) for name, value in known.items() if name.startswith("AUTOPRUNE_"))
    named = {**asdict(args), "readers": [each if isinstance(each, str) else each.name for each in args.readers]}
    files = _own_files((*args.strategies, *(each for each in args.readers if isinstance(each, str))))
    return sha256(repr((FORMAT, version, named, settings, files)).encode()).hexdigest()[:16]


def _own_files(named: Sequence[str]) -> list[str]:
    files = (text.partition(".py:")[0] + ".py" for text in named if is_in_file(text))
    return [sha256(Path(file).read_bytes()).hexdigest() for file in files]
