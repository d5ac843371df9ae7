"""Engines of a replay: processes on this machine, or a Ray cluster. If a task kills its process, only it fails."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from autoprune.apps.replay.corpus import Failed, Task, attempt
from autoprune.errors import SettingsError

T = TypeVar("T")
LARGE = 64_000_000  # bytes: larger files are replayed last and one at a time, since each takes much memory
CONTEXT = get_context("spawn")  # forking is not safe beside threads, such as those of a progress bar


class Processes:
    """An engine of `replay_files`: `jobs` processes, by default one for each core."""

    def __init__(self, jobs: int | None = None) -> None:
        """Set the number of processes. They start with the first task."""
        self.jobs = jobs or cores()

    def __call__(self, do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
        """Yield tasks as they finish. Tasks that still run when the caller stops iterating are killed."""
        tasks = list(tasks)
        large = [task for task in tasks if _size(task) > LARGE]
        yield from _run(do, [task for task in tasks if _size(task) <= LARGE], self.jobs)
        yield from _run(do, large, 1)


def cores() -> int:
    """The number of cores that this process may use, or of all cores if the system does not say (macOS, Windows)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _size(task: Task) -> int:
    try:
        return os.path.getsize(task.path)
    except OSError:
        return 0


class _Worker(Generic[T]):
    def __init__(self, do: Callable[[Task], T]) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=serve, args=(do, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._task: Task | None = None

    def start_task(self, task: Task) -> None:
        self._task = task
        self.pipe.send(task)

    def outcome_of(self) -> tuple[Task, T | Failed]:
        assert self._task
        try:
            return self._task, self.pipe.recv()
        except (EOFError, ConnectionError):
            return self._task, Failed(self._why_dead())

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def _why_dead(self) -> str:
        self._process.join()
        code = self._process.exitcode or 0
        how = f"killed by signal {-code}, perhaps because the memory ran out" if code < 0 else f"ended with code {code}"
        return f"its process died ({how})"

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _run(do: Callable[[Task], T], tasks: list[Task], jobs: int) -> Iterator[tuple[Task, T | Failed]]:
    waiting = iter(tasks)
    idle: list[_Worker[T]] = []
    busy: list[_Worker[T]] = []
    try:
        while True:
            while len(busy) < jobs and (task := next(waiting, None)):
                worker = idle.pop() if idle else _Worker(do)
                worker.start_task(task)
                busy.append(worker)
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy])
            for worker in [each for each in busy if each.pipe in ready]:
                done = worker.outcome_of()
                busy.remove(worker)
                if worker.is_alive:
                    idle.append(worker)
                yield done
    finally:
        for worker in (*idle, *busy):
            worker.kill()


def serve(do: Callable[[Task], object], pipe: Connection) -> None:
    """Do tasks until the pipe closes. Only the parent process handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(attempt(do, task))


WAITING = 2  # tasks for each core of the cluster that are submitted at a time


def on_ray(do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
    """Yield tasks as they finish, on the cluster at RAY_ADDRESS or from a new one on this machine.

    Each node reads the files itself, so it needs autoprune and the same paths. If a task's node or process dies, the
    task fails and the others continue. Raises SettingsError if the extra `autoprune[ray]` is not installed.
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
    """Import Ray and connect it to a cluster."""
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise SettingsError("the engine ray is not installed: pip install 'autoprune[ray]'") from error
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
        return Failed(f"its process or node died ({type(error).__name__})")
