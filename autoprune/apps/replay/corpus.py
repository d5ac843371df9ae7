"""Replay many session files, one task each, in processes or on a cluster. Keeps only the figures of each session.

An *engine* runs tasks: `one_by_one`, `Processes`, or `on_ray`. Workers read the files themselves. If one task fails,
the others continue: a file that cannot be read, breaks a strategy or kills its process gives `SessionFigures` with an
`error` message.
"""

import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from autoprune.apps.replay.detail import SessionDetail, session_details
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.session import TOO_SHORT, ReplayArgs, SessionFigures, replay_session
from autoprune.conversation.messages import fields_of
from autoprune.errors import AutopruneError, SettingsError, how_to_install
from autoprune.strategies.files import is_in_file

T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """A file to replay; `texts` asks for the texts of its results, and `found` are its figures, if they are known."""

    path: str
    args: ReplayArgs
    texts: bool = False
    found: tuple[Figures, ...] = ()

    def read_file(self) -> bytes:
        """Read the file. Raises OSError."""
        return Path(self.path).read_bytes()


@dataclass(frozen=True)
class FailedTask:
    """The outcome of a failed task: the reason, as text."""

    why: str


class Engine(Protocol):
    """Calls a function with each task, and yields each task with its outcome as soon as it is done."""

    def __call__(self, do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | FailedTask]]:
        """Run the tasks. `do` is a module-level function, so that it can be pickled."""
        ...


def one_by_one(do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | FailedTask]]:
    """Run the tasks in this process."""
    return ((task, attempt(do, task)) for task in tasks)


def attempt(do: Callable[[Task], T], task: Task) -> T | FailedTask:
    """Run a task, and convert an exception to a `FailedTask`."""
    try:
        return do(task)
    except AutopruneError as error:
        return FailedTask(str(error))
    except OSError as error:
        return FailedTask(f"it cannot be read: {error.strerror or error}")
    except MemoryError:
        return FailedTask("it takes more memory than there is")
    except Exception as error:  # a user's strategy may raise anything
        return FailedTask(f"it cannot be replayed: {type(error).__name__}: {error}")


def replay_files(
    files: Iterable[str], args: ReplayArgs, *, engine: Engine = one_by_one
) -> Iterator[tuple[str, SessionFigures]]:
    """Yield each file with its figures as tasks finish."""
    for task, outcome in engine(figures_of, (Task(file, args) for file in files)):
        found = SessionFigures(task.path, error=outcome.why) if isinstance(outcome, FailedTask) else outcome
        yield task.path, replace(found, reward=reward_beside(task.path))


def reward_beside(path: str) -> float | None:
    """Read the reward of the trial whose trajectory has this path, from Harbor's result two folders above.

    None if there is no such result, or none with a number.
    """
    folder = Path(path).parent
    try:
        result = json.loads((folder.parent / "result.json").read_bytes()) if folder.name == "agent" else {}
        rewards = fields_of(fields_of(fields_of(result).get("verifier_result")).get("rewards"))
        reward = rewards.get("reward", next(iter(rewards.values()), None))
        return float(reward) if isinstance(reward, int | float) and math.isfinite(reward) else None
    except (OSError, ValueError, RecursionError, OverflowError):  # no JSON, or an integer with hundreds of digits
        return None


def details_of_files(
    files: Mapping[str, tuple[Figures, ...]], args: ReplayArgs, *, texts: bool = False, engine: Engine = one_by_one
) -> Iterator[list[SessionDetail]]:
    """Yield the details of each session file as tasks finish; an empty list if a file cannot be replayed.

    `files` have their figures, with those of each request, or () if these are not known.
    """
    for _, outcome in engine(details_of, (Task(file, args, texts, found) for file, found in files.items())):
        yield [] if isinstance(outcome, FailedTask) else outcome


def figures_of(task: Task) -> SessionFigures:
    """Compute the figures of a file."""
    return replay_session(task.path, task.read_file(), task.args)


def details_of(task: Task) -> list[SessionDetail]:
    """Compute the details of a file's episodes."""
    return list(session_details(task.path, task.read_file(), task.args, texts=task.texts, found=task.found))


def why_skipped(found: SessionFigures) -> str:
    """Return the reason why a file was skipped, without its name; "" if it was replayed."""
    if found.figures:
        return ""
    return found.error.removeprefix(found.path).lstrip(" ,:") if found.error else TOO_SHORT


def without_curves(found: SessionFigures) -> SessionFigures:
    """Replace the figures of each request, which take most of the space and only charts need, by their sum."""
    summed = (
        replace(each, prompts=(sum(each.prompts),), held=(sum(each.held),), costs=(), missed=())
        for each in found.figures
    )
    return replace(found, figures=tuple(summed))


def key(args: ReplayArgs, version: str, environ: Mapping[str, str] | None = None) -> str:
    """Compute a digest of a replay's arguments, the version, and the user's files in the arguments. Raises OSError."""
    variables = os.environ if environ is None else environ
    # AUTOPRUNE_* variables change what strategies do, so figures under other ones are not the same.
    settings = sorted((name, value) for name, value in variables.items() if name.startswith("AUTOPRUNE_"))
    named = {**asdict(args), "readers": [each if isinstance(each, str) else each.name for each in args.readers]}
    texts = (*args.strategies, *(each for each in args.readers if isinstance(each, str)))
    own = (Path(text.partition(".py:")[0] + ".py") for text in texts if is_in_file(text))
    files = [sha256(file.read_bytes()).hexdigest() for file in own]
    return sha256(repr((version, named, settings, files)).encode()).hexdigest()[:16]


# Engines: processes on this machine, or a Ray cluster. If a task kills its process, only this task fails.

LARGE = 64_000_000  # bytes: larger files are replayed last and one at a time, since each takes much memory
CONTEXT = get_context("spawn")  # forking is not safe beside threads, such as those of a progress bar


class Processes:
    """An engine of `replay_files`: `jobs` processes, by default one for each core."""

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or cores()

    def __call__(self, do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | FailedTask]]:
        """Yield tasks as they finish."""
        tasks = list(tasks)
        large = [task for task in tasks if _size(task) > LARGE]
        yield from _run(do, [task for task in tasks if _size(task) <= LARGE], self.jobs)
        yield from _run(do, large, 1)


def cores() -> int:
    """Count the cores that this process may use, or all cores if the system does not say (macOS, Windows)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(task: Task) -> int:
    try:
        return os.path.getsize(task.path)
    except OSError:
        return 0


def _run(do: Callable[[Task], T], tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, T | FailedTask]]:
    """Yield tasks as they finish. Each process has its own pool, so that its death fails only its task."""
    waiting = iter(tasks)
    idle: list[ProcessPoolExecutor] = []
    busy: dict[Future[T | FailedTask], tuple[Task, ProcessPoolExecutor]] = {}
    try:
        while True:
            while len(busy) < jobs and (task := next(waiting, None)):
                pool = idle.pop() if idle else _new_pool()
                busy[_submit(pool, do, task)] = task, pool
            if not busy:
                return
            for done in wait(busy, return_when=FIRST_COMPLETED).done:
                task, pool = busy.pop(done)
                if isinstance(done.exception(), BrokenProcessPool):
                    yield task, FailedTask("its process died, perhaps because the memory ran out")
                else:
                    idle.append(pool)
                    yield task, done.result()
    finally:
        for _, pool in busy.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in idle:  # one that still shuts down when Python exits may print a stack trace
            pool.shutdown()


def _new_pool() -> ProcessPoolExecutor:
    """Create a pool of one process, which Ctrl-C ends at once and without a stack trace."""
    return ProcessPoolExecutor(1, CONTEXT, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))


def _submit(pool: ProcessPoolExecutor, do: Callable[[Task], T], task: Task) -> "Future[T | FailedTask]":
    """Submit a task. While the process starts, it ignores Ctrl-C as this one does, and prints no stack trace."""
    if threading.current_thread() is not threading.main_thread():
        return pool.submit(attempt, do, task)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return pool.submit(attempt, do, task)
    finally:
        signal.signal(signal.SIGINT, handler)


WAITING = 2  # tasks for each core of the cluster that are submitted at a time


def on_ray(do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | FailedTask]]:
    """Yield tasks as they finish, on the cluster at RAY_ADDRESS or on a new cluster on this machine.

    Each node reads the files itself, so it needs autoprune and the same paths. If a task's node or process dies, the
    task fails and the others continue. Raises SettingsError if Ray is not installed.
    """
    ray = _connect()
    start_task = ray.remote(num_cpus=1, max_retries=0)(attempt).remote
    waiting = iter(tasks)
    running: dict[Any, Task] = {}
    try:
        while True:
            room = max(1, WAITING * int(ray.cluster_resources().get("CPU", 1))) - len(running)
            running.update((start_task(do, task), task) for task in islice(waiting, max(0, room)))
            if not running:
                return
            for done in ray.wait(list(running))[0]:
                yield running.pop(done), _outcome(ray, done)
    finally:
        ray.shutdown()


def _connect() -> Any:
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise SettingsError(f"the engine ray is not installed: {how_to_install('ray')}") from error
    if not ray.is_initialized():
        # Without an address, Ray looks for a cluster that was started here before, and waits for it if it is gone.
        if address := os.environ.get("RAY_ADDRESS"):
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(address="local", log_to_driver=False, include_dashboard=False)
    return ray


def _outcome(ray: Any, done: Any) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayError as error:
        return FailedTask(f"its process or node died ({type(error).__name__})")
