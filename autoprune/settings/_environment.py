"""The settings by name, and the AUTOPRUNE_* variables that set them. Reads no other variable."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from autoprune.errors import SettingsError

PREFIX = "AUTOPRUNE_"
SETTINGS = (
    *("safe_zone", "group_size", "model", "provider", "window", "overhead_tokens", "format", "thinking_policy"),
    "strategy",
)
VARIABLES: Mapping[str, str] = MappingProxyType({name: PREFIX + name.upper() for name in SETTINGS})
NOTHING: Mapping[str, str] = MappingProxyType({})


class Source(StrEnum):
    """Who gave a setting; the first one counts."""

    CALL = "call"
    ARGS = "args"
    ENVIRONMENT = "environment"
    DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """A setting's value, and who gave it.

    `where` is the place to change it: the keyword of a call ("safe_zone="), the attribute of the arguments
    ("PruneArgs.model"), or the variable ("AUTOPRUNE_MODEL"); "" for a default.
    """

    name: str
    value: object
    source: Source
    where: str = ""


def variables(environ: Mapping[str, str] | None) -> dict[str, str]:
    """Return the AUTOPRUNE_* variables of an environment that name a setting and are not blank, as they are now.

    None is the environment of this process. It is no default of a function, which `help` would print with every key.
    """
    environ = os.environ if environ is None else environ
    said = {variable: environ.get(variable, "").strip() for variable in VARIABLES.values()}
    return {variable: text for variable, text in said.items() if text}


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the AUTOPRUNE_* variables of an environment that name no setting, sorted: perhaps misspelled."""
    known = VARIABLES.values()
    return tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in known))


def blame_variable(error: SettingsError, variable: str, text: str) -> SettingsError:
    """Return the error that names the variable which a refused value came from."""
    _, is_repeated, rest = str(error).partition(f" is {text!r}: ")
    return SettingsError(f"{variable} is {text!r}: {rest if is_repeated else error}")
