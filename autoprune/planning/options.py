"""What a strategy has the walk do for it: keep parts, cut giants, shorten arguments. Checked when it is first used."""

from typing import TypeVar

from autoprune.errors import SettingsError
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.retention import BY_AGE, Retention
from autoprune.planning.tool_inputs import ToolInputs

Kind = TypeVar("Kind", Protections, Clamp, ToolInputs, Retention)


def protections(strategy: object) -> Protections:
    """What a strategy protects."""
    return _attribute(strategy, "protect", Protections) or NOTHING


def clamp(strategy: object) -> Clamp | None:
    """How a strategy cuts giants, if it does."""
    return _attribute(strategy, "clamp", Clamp)


def tool_inputs(strategy: object) -> ToolInputs | None:
    """Which calls' arguments a strategy shortens, if it does."""
    return _attribute(strategy, "clear_tool_inputs", ToolInputs)


def retention(strategy: object) -> Retention:
    """What a strategy never folds or drops."""
    return _attribute(strategy, "retain", Retention) or BY_AGE


def _attribute(strategy: object, name: str, kind: type[Kind]) -> Kind | None:
    value = getattr(strategy, name, None)
    if value is None:
        return None
    if not isinstance(value, kind):
        raise SettingsError(f"the strategy's {name} is {value!r}: give a {kind.__name__}, such as {kind.__name__}(...)")
    value.check()
    return value
