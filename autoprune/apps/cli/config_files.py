"""Defaults for the command line from files: the project's (`autoprune.toml`, or `[tool.autoprune]`) and the user's.

    option > AUTOPRUNE_* variable > the project's file > the user's file > default

The keys are settings, used by `prune`, `run`, `proxy` and `settings`. A project's file arrives with a clone, and nobody
may have read it, so its strategy must not run a file or send the conversation to a model.
"""

import math
import os
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoprune.apps.cli.input_output import user_folder
from autoprune.errors import SettingsError, did_you_mean
from autoprune.settings.values import SETTINGS, VARIABLES, PruneArgs, override, read_count, variables

NAME, PYPROJECT = "autoprune.toml", "pyproject.toml"
# The proxy takes all other settings from variables, or from each request.
OF_REQUESTS = ("safe_zone", "strategy", "cache_ttl", "thinking_policy")
COMMAND_SETTINGS = {"prune": SETTINGS, "settings": SETTINGS, "run": OF_REQUESTS, "proxy": OF_REQUESTS}
TEXTS = ("strategy", "model", "provider", "format", "thinking_policy")
RISKS = (".py:", "summarizer")  # in the name of a strategy: a Python file, or a model that gets the conversation


@dataclass(frozen=True)
class ConfigFile:
    """The content of a file, and whether it is a project's."""

    path: Path
    content: Mapping[str, Any]
    is_project: bool = False


@dataclass(frozen=True)
class Given:
    """A value from a file, and the path of the file."""

    value: Any
    where: str

    @property
    def shown(self) -> str:
        """How errors show the value. A digit alone may be part of other values."""
        return repr(self.value) if isinstance(self.value, str) else f" is {self.value!r}: "


# Finding and reading


def read_files(folder: Path | None, environ: Mapping[str, str]) -> list[ConfigFile]:
    """Read the user's file and that of the project with `folder`; later ones take precedence. Raises SettingsError."""
    path = user_folder("XDG_CONFIG_HOME", "~/.config", environ) / NAME
    content = _read_toml(path)
    found = [] if content is None else [ConfigFile(path, content)]
    project = _project_file(folder) if folder else ()
    return [*found, *(each for each in project if each.path != path)]


def _project_file(folder: Path) -> Iterator[ConfigFile]:
    """Yield the nearest file, upwards from a folder to the root of its repository."""
    for each in (folder, *folder.parents):
        content = _read_toml(each / NAME)
        if content is not None:
            yield ConfigFile(each / NAME, content, is_project=True)
            return
        match _read_toml(each / PYPROJECT, "[tool.autoprune"):
            case {"tool": {"autoprune": dict(content)}}:
                yield ConfigFile(each / PYPROJECT, content, is_project=True)
                return
        if os.path.exists(each / ".git"):
            return


def _read_toml(path: Path, needed: str = "") -> dict[str, Any] | None:
    """Read a file; None if it does not exist or lacks a `needed` text. Raises SettingsError if it cannot be read."""
    if not os.path.isfile(path):  # nor a link to a device, which a clone may contain
        return None
    try:
        data = path.read_bytes()
        return tomllib.loads(data.decode()) if needed.encode() in data else None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f'{path} is not valid TOML: {error}; texts need quotes: strategy = "low_water"') from error
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


# What the files give a command


def find_defaults(files: Iterable[ConfigFile], command: str, environ: Mapping[str, str]) -> dict[str, Given]:
    """Return the settings that files give a command, without those for which there is a variable.

    Raises SettingsError for a key that does not exist, or a value that a project's file may not have. Values are
    checked by the command that uses them.
    """
    found: dict[str, Given] = {}
    for file in files:
        content = {key.replace("-", "_"): value for key, value in file.content.items()}
        for name, value in content.items():
            _check(file, name, value)
        found |= {name: Given(read_count(name, value), str(file.path)) for name, value in content.items()}
    own = COMMAND_SETTINGS.get(command, ())
    set_already = {name for name in own if VARIABLES[name] in variables(environ)}
    return {name: given for name, given in found.items() if name in own and name not in set_already}


def _check(file: ConfigFile, name: str, value: object) -> None:
    """Raise SettingsError for an unknown key, or for a value that is no text or number, or is not allowed."""
    if isinstance(value, dict):
        raise SettingsError(
            f"{file.path} has a table {name!r}, but can hold only settings: give options on the command line, and "
            "AUTOPRUNE_NO_ARCHIVE=1 instead of no_archive"
        )
    if name not in SETTINGS:
        raise SettingsError(f"{file.path} has no key {name!r}{did_you_mean(name, SETTINGS)}")
    is_number = type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
    if not (isinstance(value, str) or (is_number and name not in TEXTS)):
        kinds = "a text" if name in TEXTS else "a number or a text"
        raise SettingsError(f"{file.path}: {name} is {value!r}: give {kinds}")
    # Python reads letters of other alphabets as their plain forms.
    text = unicodedata.normalize("NFKC", str(value))
    if file.is_project and name == "strategy" and any(risk in text for risk in RISKS):
        raise SettingsError(
            f"{file.path}: a project's file cannot set a strategy from a Python file or with a summarizer, since it "
            f"arrives with a clone: use the option, or ~/.config/autoprune/{NAME}"
        )


def load_defaults(command: str) -> dict[str, Given]:
    """Return the settings that files give a command. Raises SettingsError."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # deleted
        folder = None
    return find_defaults(read_files(folder, os.environ), command, os.environ)


def name_file(message: str, found: Mapping[str, Given]) -> str:
    """Add the name of the file to an error that shows a value from it."""
    where = next((each.where for each in found.values() if each.shown in message), "")
    return f"{where}: {message}" if where else message


def without_options(context: Any) -> dict[str, Any]:
    """Return the settings from files for which the command has no option, by name."""
    found: Mapping[str, Given] = context.obj or {}
    return {name: given.value for name, given in found.items() if name not in context.params}


def prune_args(**given: Any) -> PruneArgs:
    """Build the arguments of a pruner from settings by name; variables set those that are None or missing."""
    return override(None, **{name: value for name, value in given.items() if value is not None})
