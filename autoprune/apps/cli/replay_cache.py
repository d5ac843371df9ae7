"""Outcomes of a replay's tasks, kept in the user's cache folder, so that the next replay of the same files is fast.

Nothing is kept of tasks whose outcomes hold texts of results, which may be secret.
"""

import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import autoprune
from autoprune.apps.cli.input_output import replace_private, user_folder
from autoprune.apps.replay.corpus import Engine, FailedTask, Task, key

T = TypeVar("T")
KEPT = 30 * 86_400  # seconds after which an outcome is deleted
# What unpickling a damaged file raises.
UNREADABLE = (OSError, EOFError, ValueError, LookupError, AttributeError, ImportError, pickle.UnpicklingError)


def cache_folder() -> Path:
    """Return the folder of this user."""
    return user_folder("XDG_CACHE_HOME", "~/.cache", os.environ) / "replay"


@dataclass(frozen=True)
class Cached:
    """An engine that runs only tasks whose outcome is not in a folder, and keeps the outcomes of those there."""

    engine: Engine
    folder: Path

    def __call__(self, do: Callable[[Task], T], tasks: Iterable[Task]) -> Iterator[tuple[Task, T | FailedTask]]:
        """Yield each task with its outcome, those with a known outcome first."""
        self._clean()
        waiting: list[Task] = []
        files: dict[str, Path] = {}  # named before a session is read: it may grow meanwhile
        for task in tasks:
            if name := "" if task.texts else _name(do, task):
                files[task.path] = self.folder / name
            outcome = _load(files[task.path]) if name else None
            if outcome is None:
                waiting.append(task)
            else:
                yield task, outcome
        for task, outcome in self.engine(do, waiting):
            if task.path in files and not isinstance(outcome, FailedTask):
                _store(files[task.path], outcome)
            yield task, outcome

    def _clean(self) -> None:
        with suppress(OSError):
            for file in self.folder.iterdir():
                if file.stat().st_mtime < time.time() - KEPT:
                    file.unlink()


def _name(do: Callable[[Task], object], task: Task) -> str:
    """Return the name of an outcome's file, a digest of all that it depends on; "" if there is no such session."""
    with suppress(OSError):
        status = os.stat(task.path)
        file = os.path.abspath(task.path), task.path, status.st_size, status.st_mtime_ns
        known = do.__qualname__, key(task.args, _code()), file
        return sha256(repr(known).encode()).hexdigest()
    return ""


def installed_code() -> str:
    """Return a digest of the files of autoprune and of what extends it: a checkout may change without a new version."""
    groups = [group for group in entry_points().groups if group.startswith("autoprune.")]
    modules = {point.module for group in groups for point in entry_points(group=group)}
    packages = {"autoprune", *(module.partition(".")[0] for module in modules)}
    files = (file for package in sorted(packages) for file in _files_of(package))
    known = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return sha256(repr((autoprune.__version__, known)).encode()).hexdigest()


_code = cache(installed_code)  # the code of this process, which stays the same


def _files_of(package: str) -> list[Path]:
    spec = find_spec(package)
    if spec is None:
        return []
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    own = [Path(spec.origin)] if spec.origin and not folders else []
    return own + [file for folder in folders for file in sorted(folder.rglob("*.py"))]


def _load(file: Path) -> Any:
    with suppress(*UNREADABLE):
        return pickle.loads(file.read_bytes())
    return None


def _store(file: Path, outcome: object) -> None:
    """Write a file in one step, so that no other process reads a part of it; nothing if the folder is not writable."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_private(file, pickle.dumps(outcome))
