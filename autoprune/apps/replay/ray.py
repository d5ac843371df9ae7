"""Work on a Ray cluster: the one that RAY_ADDRESS names, else one on this machine. Needs the extra `autoprune[ray]`.

Each node reads the files itself, so they must have the same paths there, and needs autoprune.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from autoprune.apps.replay.corpus import Failed, Task, attempt
from autoprune.errors import SettingsError

T = TypeVar("T")
WAITING = 2  # tasks for each core that are handed to the cluster before one comes back


def on_ray(do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | Failed]]:
    """Yield tasks as they are done. A task whose node or process dies gives an error, and the others go on."""
    ray = _connected()
    begin = ray.remote(num_cpus=1, max_retries=0)(attempt).remote
    waiting = iter(tasks)
    running: dict[Any, Task] = {}
    try:
        while True:
            room = max(1, WAITING * int(ray.cluster_resources().get("CPU", 1))) - len(running)
            running.update((begin(do, task), task) for task in islice(waiting, max(0, room)))
            if not running:
                return
            for done in ray.wait(list(running))[0]:
                yield running.pop(done), _outcome(ray, done)
    finally:
        ray.shutdown()


def _connected() -> Any:
    """Return Ray, connected to a cluster."""
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise SettingsError("the engine ray is not installed: pip install 'autoprune[ray]'") from error
    if not ray.is_initialized():
        # Without an address Ray would look for a cluster that was started here, and wait for one that has gone.
        if address := os.environ.get("RAY_ADDRESS"):
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(address="local", log_to_driver=False, include_dashboard=False)
    return ray


def _outcome(ray: Any, done: Any) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayError as error:
        return Failed(f"it took the life of the process that replayed it ({type(error).__name__})")
