"""The settings by name, and who gives them: `PruneArgs` or what stands for it, and the AUTOPRUNE_* variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from numbers import Number
from types import MappingProxyType
from typing import Any

from autoprune.errors import SettingsError, did_you_mean

PREFIX = "AUTOPRUNE_"
SETTINGS = (
    *("safe_zone", "group_size", "model", "provider", "window", "overhead_tokens", "format", "thinking_policy"),
    *("cache_ttl", "strategy"),
)
VARIABLES: Mapping[str, str] = MappingProxyType({name: PREFIX + name.upper() for name in SETTINGS})
NOTHING: Mapping[str, str] = MappingProxyType({})
OF_COMMANDS = (f"{PREFIX}ARCHIVE", f"{PREFIX}TOKEN")  # of the command line alone


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
    known = {*VARIABLES.values(), *OF_COMMANDS}
    return tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in known))


def blame_variable(error: SettingsError, variable: str, text: str) -> SettingsError:
    """Return the error that names the variable which a refused value came from."""
    _, is_repeated, rest = str(error).partition(f" is {text!r}: ")
    return SettingsError(f"{variable} is {text!r}: {rest if is_repeated else error}")


SAFE_ZONE_TOKENS = 51_200
GROUP_SIZE = 4  # messages


class Default(int):
    """A default that can be told from the same number given by a caller, so that the environment may replace it."""


@dataclass(frozen=True)
class PruneArgs:
    """The settings of a pruner.

    A mapping with some of these keys, or any object with some of these attributes, serves as well, and so does a budget
    by itself; these are the defaults, and an attribute that is None counts as absent.

    `conversation_prune_safe_zone_tokens`: the token budget, `51200`, `"50k"`, `"1.5m"`, `"50*1024"`, or a share of the
    context window of `model`, such as `0.7`. `conversation_prune_group_size`: how many messages are dropped or folded
    together. `overhead_tokens`: system prompt and tool schemas that are sent beside the messages; the safe zone is
    compared with messages + overhead. `format` names the wire format of all messages, where it is not to be found out
    for each. `thinking_policy` says what becomes of thinking blocks behind an edit: one of `thinking.ThinkingPolicy`.
    `window`: the context window in tokens, `200_000` or `"1m"`, where that of `model` is not known or another one.

    `cache_ttl` is how long the provider's prompt cache lives: `"5m"`, `"1h"` or seconds, where the vendor's default
    does not hold. Strategies that weigh the cache use it, with what an hour costs to write.

    What is not given here is looked up in the AUTOPRUNE_* variables that the pruner was made with.

    Nothing is checked here: a setting is validated where it is used.
    """

    conversation_prune_safe_zone_tokens: int | float | str = Default(SAFE_ZONE_TOKENS)
    conversation_prune_group_size: int = Default(GROUP_SIZE)
    model: str | None = None
    provider: str | None = None
    overhead_tokens: int = Default(0)
    format: str | None = None
    thinking_policy: str | None = None
    window: int | str | None = None
    cache_ttl: int | float | str | None = None


ATTRIBUTES = {
    **{name: name for name in SETTINGS if name != "strategy"},  # a strategy is the call's or the environment's
    "safe_zone": "conversation_prune_safe_zone_tokens",
    "group_size": "conversation_prune_group_size",
}
DEFAULTS = {**dict.fromkeys(SETTINGS), "safe_zone": SAFE_ZONE_TOKENS, "group_size": GROUP_SIZE, "overhead_tokens": 0}


def normalize(args: object) -> object:
    """Return what a caller gave as `args` as an object with attributes: a mapping or a bare budget as a `PruneArgs`.

    Raises SettingsError for a mapping with keys that name no setting.
    """
    if isinstance(args, Mapping):
        return PruneArgs(**_by_attribute(args))
    return PruneArgs(args) if isinstance(args, Number | str | bytes) else args  # type: ignore[arg-type]


def _by_attribute(args: Mapping[Any, Any]) -> dict[str, Any]:
    known = ATTRIBUTES.values()
    for key in args:
        if key not in known:
            near = did_you_mean(str(key), known)
            raise SettingsError(f"args has no setting {key!r}{near}; there are {', '.join(known)}")
    return dict(args)


def attribute_values(args: object) -> tuple[object, ...]:
    """Return every setting as `args` has it, None where it is absent."""
    held = normalize(args)
    return tuple(getattr(held, attribute, None) for attribute in ATTRIBUTES.values())
