"""Work on a Ray cluster: the one that there is, else one on this machine. Needs the extra `autoprune[ray]`.

Each node reads the files itself, so they must have the same paths there, and needs autoprune.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from autoprune.errors import SettingsError
from autoprune.replay.corpus import Done, Task, work
from autoprune.replay.session import SessionFigures

WAITING = 2  # tasks for each core that are handed to the cluster before one comes back


def on_ray(tasks: Iterable[Task]) -> Iterator[Done]:
    """Yield tasks as they are done. A task whose node or process dies gives an error, and the others go on."""
    ray = _connected()
    do = ray.remote(num_cpus=1, max_retries=0)(work)
    waiting = iter(tasks)
    running: dict[Any, Task] = {}
    try:
        while True:
            room = max(1, WAITING * int(ray.cluster_resources().get("CPU", 1))) - len(running)
            running.update((do.remote(task), task) for task in islice(waiting, max(0, room)))
            if not running:
                return
            for done in ray.wait(list(running))[0]:
                yield _done(ray, running.pop(done), done)
    finally:
        ray.shutdown()


def _connected() -> Any:
    """Return Ray, connected to a cluster."""
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise SettingsError("the engine ray is not installed: pip install 'autoprune[ray]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except ConnectionError:  # there is no cluster
            ray.init(log_to_driver=False, include_dashboard=False)
    return ray


def _done(ray: Any, task: Task, reference: Any) -> Done:
    try:
        return task, ray.get(reference)
    except ray.exceptions.RayError as error:
        return task, SessionFigures(task.path, error=f"it took the life of the process that replayed it ({error})")
