"""Defaults for the command line from files: the project's (`autoprune.toml`, or `[tool.autoprune]`) and the user's.

    option > AUTOPRUNE_* variable > the project's file > the user's file > default

Keys at the top of a file are settings, used by `prune`, `run`, `proxy` and `settings`. A table such as `[replay]` holds
options of that command and takes precedence over the top of the same file.

A project's file arrives with a clone, and nobody may have read it. So it can set figures and names, but nothing that
runs code, writes files, opens the proxy to other machines, or says where requests and keys go.
"""

import os
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoprune.errors import SettingsError, did_you_mean
from autoprune.settings import SETTINGS, VARIABLES, PruneArgs, override, variables

NAME, PYPROJECT = "autoprune.toml", "pyproject.toml"
# The proxy takes all other settings from each request.
OF_REQUESTS = ("safe_zone", "strategy", "cache_ttl", "thinking_policy")
COMMAND_SETTINGS: Mapping[str, Sequence[str]] = {
    "prune": SETTINGS,
    "settings": SETTINGS,
    "run": OF_REQUESTS,
    "proxy": OF_REQUESTS,
}
# The options that a project's file may set, besides settings.
HARMLESS = frozenset(("cache_life", "floor", "port", "prices", "style"))
# What a value holds that runs a Python file, or sends the conversation to a model.
RISKS = {"strategy": (".py:", "summarizer"), "provider": (":",)}
RENAMED = {"overhead": "overhead_tokens"}  # options whose setting has another name


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


# Finding and reading


def read_files(folder: Path | None, environ: Mapping[str, str]) -> list[ConfigFile]:
    """Read the user's file and that of the project which contains `folder`; later ones take precedence.

    Raises SettingsError for a file that cannot be read.
    """
    base = environ.get("XDG_CONFIG_HOME", "").strip()
    path = Path(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "autoprune", NAME)
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


def find_defaults(
    files: Iterable[ConfigFile], command: str, options: Mapping[str, Sequence[str]], environ: Mapping[str, str]
) -> dict[str, Given]:
    """The values that files give a command by key, without settings for which there is a variable.

    `options` are the keys of the options of all commands. Raises SettingsError for a key that does not exist, or that a
    project's file may not have. Values are checked by the command that uses them.
    """
    found: dict[str, Given] = {}
    own = COMMAND_SETTINGS.get(command, ())
    for file in files:
        tables = {key: value for key, value in file.content.items() if isinstance(value, dict)}
        top = _renamed({key: value for key, value in file.content.items() if key not in tables})
        _check_keys(file, top, SETTINGS, "", options)
        for table, content in tables.items():
            if table not in options:
                raise SettingsError(f"{file.path} has no table {table!r}{did_you_mean(table, options)}")
            known = {*options[table], *COMMAND_SETTINGS.get(table, ())}
            _check_keys(file, _renamed(content), known, f" in [{table}]")
        chosen = {key: value for key, value in top.items() if key in own} | _renamed(tables.get(command, {}))
        found |= {key: Given(value, str(file.path)) for key, value in chosen.items()}
    set_already = {name for name in own if VARIABLES[name] in variables(environ)}
    return {key: given for key, given in found.items() if key not in set_already}


def _check_keys(
    file: ConfigFile,
    content: Mapping[str, Any],
    known: Iterable[str],
    place: str,
    elsewhere: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Raise SettingsError for a key that is not `known` or not allowed, or a value that is no text, number or flag."""
    for name, value in content.items():
        if name not in known:
            tables = " or ".join(f"[{table}]" for table, names in (elsewhere or {}).items() if name in names)
            near = f": it is an option, for the table {tables}" if tables else did_you_mean(name, known)
            raise SettingsError(f"{file.path} has no key {name!r}{place}{near}")
        values = value if isinstance(value, list) and place else [value]
        if not all(isinstance(each, str | int | float) for each in values):
            raise SettingsError(f"{file.path}: {name}{place} is {value!r}: give a text, a number, true or false")
        # Python reads letters of other alphabets as their plain forms.
        texts = [unicodedata.normalize("NFKC", str(each)) for each in values]
        is_risky = any(risk in text for text in texts for risk in RISKS.get(name, ()))
        if file.is_project and (is_risky or name not in {*SETTINGS, *HARMLESS}):
            what = f"a {name} from a Python file or with a summarizer" if is_risky else f"{name}{place}"
            raise SettingsError(
                f"{file.path}: a project's file cannot set {what}, since it arrives with a clone: use the option, or "
                f"~/.config/autoprune/{NAME}"
            )


def _renamed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the names of settings, in which words are joined by underscores."""
    names = {key: key.replace("-", "_") for key in content}
    return {RENAMED.get(name, name): content[key] for key, name in names.items()}


# As defaults of click's options


def option_key(parameter: Any) -> str:
    """The key of an option in a file: its long name, with underscores; "" for an argument."""
    if parameter.param_type_name != "option":
        return ""
    name = next((each for each in parameter.opts if each.startswith("--")), "")
    key = name.removeprefix("--").replace("-", "_")
    return RENAMED.get(key, key)


def option_keys(group: Any) -> dict[str, list[str]]:
    """The keys of the options of each command in a group."""
    return {
        name: [key for each in command.params if (key := option_key(each)) and key not in ("help", "version")]
        for name, command in group.commands.items()
    }


def load_defaults(context: Any, command: str | None = None) -> dict[str, Given]:
    """The values that files give the command of a click context, or another command. Raises SettingsError."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # deleted
        folder = None
    files = read_files(folder, os.environ)
    if not files:
        return {}
    return find_defaults(files, command or context.command.name, option_keys(context.parent.command), os.environ)


def default_map(context: Any, found: Mapping[str, Given]) -> dict[str, Any]:
    """The values in `found` for click's parameters, by name."""
    known = {each: found[key].value for each in context.command.params if (key := option_key(each)) in found}
    return {
        each.name: [value] if each.multiple and not isinstance(value, list) else value for each, value in known.items()
    }


def name_file(message: str, found: Mapping[str, Given]) -> str:
    """Add the name of the file to an error that shows a value from it."""
    where = next((each.where for each in found.values() if repr(each.value) in message), "")
    return f"{where}: {message}" if where else message


def without_options(context: Any) -> dict[str, Any]:
    """The settings from files for which the command has no option, by name."""
    options = {option_key(each) for each in context.command.params}
    found: Mapping[str, Given] = context.obj or {}
    return {key: given.value for key, given in found.items() if key not in options}


def prune_args(**given: Any) -> PruneArgs:
    """Build the arguments of a pruner from settings by name; variables set those that are None or missing."""
    return override(None, **{name: value for name, value in given.items() if value is not None})
