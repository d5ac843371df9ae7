"""Where session files are: in the folders of the agents, and in what a user names. Lists folders; opens no file."""

import os
from collections.abc import Iterable, Sequence
from glob import glob, has_magic
from pathlib import Path

from autoprune.apps.sessions._loading import READERS
from autoprune.apps.sessions._recording import Reader

ENDINGS = (".json", ".jsonl", ".gz", ".traj")


def at_home(home: Path, readers: Sequence[Reader] = ()) -> dict[str, list[Path]]:
    """Return the session files in a home folder by agent, the newest first; agents without any are left out."""
    found = {reader.name: _newest_first(home, reader.places) for reader in (*readers, *READERS)}
    return {name: files for name, files in found.items() if files}


def _newest_first(home: Path, places: Iterable[str]) -> list[Path]:
    files = {file for place in places for file in home.glob(place)}
    times = [(_modified(file), file) for file in files]
    return [file for time, file in sorted(times, key=lambda timed: (-(timed[0] or 0), timed[1])) if time is not None]


def _modified(file: Path) -> float | None:
    """Return when a file was written last; None where it is gone, or is no file."""
    try:
        return os.path.getmtime(file) if os.path.isfile(file) else None
    except OSError:
        return None


def named(names: Iterable[str]) -> list[Path]:
    """Return the files that names stand for, each once: files, all session files in folders, and what globs match.

    A name of nothing comes back unchanged, so that reading it says that it is not there; a folder without session files
    gives none.
    """
    found = (file for name in names for file in _named(name))
    return list(dict.fromkeys(found))


def _named(name: str) -> list[Path]:
    # The functions of os.path take what nobody may look into for what is not there, where those of Path raise.
    name = os.path.expanduser(name)
    if os.path.isdir(name):
        return sorted(file for file in Path(name).rglob("*") if file.suffix in ENDINGS and os.path.isfile(file))
    if has_magic(name) and not os.path.exists(name):
        matches = sorted(glob(name, recursive=True))
        return [file for match in matches for file in _named(match)] if matches else [Path(name)]
    return [Path(name)]
