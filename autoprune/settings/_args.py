"""The arguments that a caller gives a pruner: `PruneArgs`, or what stands for it. Looks at no variable."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

from autoprune.errors import SettingsError, did_you_mean
from autoprune.settings._environment import SETTINGS

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
