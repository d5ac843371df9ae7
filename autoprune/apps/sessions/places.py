"""Find session files: in the agents' folders, or by names, folders and globs. Lists folders; opens no file."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import glob, has_magic
from itertools import takewhile
from pathlib import Path

from autoprune.apps.sessions._loading import READERS
from autoprune.apps.sessions._recording import Reader

ENDINGS = (".json", ".jsonl", ".gz", ".traj")  # of session files in a folder
HARBOR, TRAJECTORY = ("config.json", "result.json"), "trajectory.json"
# The variables that name an agent's folder, by its usual place in the home folder.
FOLDERS: Mapping[str, str] = {
    ".claude/": "CLAUDE_CONFIG_DIR",
    ".codex/": "CODEX_HOME",
    ".copilot/": "COPILOT_HOME",
    ".pi/agent/": "PI_CODING_AGENT_DIR",
}
HOMES: Mapping[str, str] = {".gemini/": "GEMINI_CLI_HOME"}  # variables that replace the home folder of one agent


def at_home(
    home: Path, readers: Sequence[Reader] = (), environ: Mapping[str, str] | None = None
) -> dict[str, list[Path]]:
    """Find the session files of agents, by agent, the newest first; agents without files are left out.

    Looks in the home folder, and in the folders that the agents' variables name, such as `CLAUDE_CONFIG_DIR`.
    """
    variables = os.environ if environ is None else environ
    by_agent = {reader.name: _newest_first(home, reader.places, variables) for reader in (*readers, *READERS)}
    return {name: files for name, files in by_agent.items() if files}


def searched(home: Path, readers: Sequence[Reader] = ()) -> list[str]:
    """Return the folders in which `at_home` looks, as a user would write them."""
    found = (
        folder.joinpath(*takewhile(lambda part: not has_magic(part), Path(glob).parent.parts))
        for reader in (*readers, *READERS)
        for place in reader.places
        for folder, glob in _globs(home, place, os.environ)
    )
    return [f"~/{each.relative_to(home)}" if each.is_relative_to(home) else str(each) for each in dict.fromkeys(found)]


def _newest_first(home: Path, places: Iterable[str], environ: Mapping[str, str]) -> list[Path]:
    files = {file for place in places for folder, glob in _globs(home, place, environ) for file in folder.glob(glob)}
    times = [(_modification_time(file), file) for file in files]
    return [file for time, file in sorted(times, key=lambda timed: (-(timed[0] or 0), timed[1])) if time is not None]


def _globs(home: Path, place: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the folders in which to look for files of a place, each with a glob."""
    yield home, place
    for usual, variable in (*FOLDERS.items(), *HOMES.items()):
        folder = environ.get(variable, "").strip()
        if folder and place.startswith(usual):
            yield Path(folder).expanduser(), place if usual in HOMES else place.removeprefix(usual)


def _modification_time(file: Path) -> float | None:
    """Return the time of a file's last change; None if it is gone or not a file."""
    try:
        return os.path.getmtime(file) if os.path.isfile(file) else None
    except OSError:
        return None


def expand_names(names: str | Iterable[str]) -> list[Path]:
    """Expand a name, or several, to distinct files: files, all session files in folders, and matches of globs.

    A name that matches nothing is returned unchanged, so that reading it fails; a folder may have no session files.
    """
    files = (file for name in ([names] if isinstance(names, str) else names) for file in _expand_name(name))
    return list(dict.fromkeys(files))


def _expand_name(name: str) -> list[Path]:
    # If access is denied, the functions of os.path report a missing file, while those of Path raise.
    name = os.path.expanduser(name)
    if os.path.isdir(name):
        found = (file for file in Path(name).rglob("*") if file.suffix in ENDINGS and os.path.isfile(file))
        return _without_results(sorted(found))
    if has_magic(name) and not os.path.exists(name):
        matches = sorted(glob(name, recursive=True))
        return [file for match in matches for file in _expand_name(match)] if matches else [Path(name)]
    return [Path(name)]


def _without_results(files: Sequence[Path]) -> list[Path]:
    """Leave out what Harbor writes beside its trials and jobs, and the logs of which it made trajectories."""
    trials = {file.parent.parent for file in files if file.parent.name == "agent"}
    beside = {*trials, *(trial.parent for trial in trials)}
    told = {file.parent for file in files if file.parent.name == "agent" and file.name == TRAJECTORY}
    logs = {file for file in files if told.intersection(file.parents) and not file.name.startswith("trajectory")}
    return [file for file in files if file not in logs and (file.parent not in beside or file.name not in HARBOR)]
