"""One module per strategy: what to clear, in which order, how far. A strategy decides; it edits nothing."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Container, Mapping
from functools import lru_cache
from typing import TypeVar

from autoprune.errors import SettingsError, did_you_mean
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import Protections
from autoprune.planning.retention import Retention
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.walk import Strategy
from autoprune.strategies.low_water import LowWater
from autoprune.strategies.tool_output_cleanup import ToolOutputCleanup

DEFAULT = ToolOutputCleanup()
# Of all strategies that ship, those that fold or drop messages too, which are made elsewhere.
NAMES = frozenset(
    (
        *("tool_output_cleanup", "low_water"),
        *("summarize", "truncate", "hybrid", "keep_last", "summarize_older", "symbolize", "chat_summary"),
        *("action_trace", "sliding_window", "per_result", "snapshot"),
    )
)


def available() -> dict[str, Strategy]:
    """The strategies that ship, by name; the default first."""
    return {strategy.name: strategy for strategy in (DEFAULT, LowWater())}


def description(strategy: object) -> str:
    """What a strategy does: the first line of its class's docstring, or what it says of itself as a preset."""
    return str(getattr(strategy, "does", "")) or (type(strategy).__doc__ or "").strip().partition("\n")[0]


def config(strategy: object) -> dict[str, object]:
    """A strategy's parameters; one that has parameters of its own as a dict of those that are not at their default.

    Of a preset, which says itself what it does, only the parameters that are not at their default.
    """
    if not dataclasses.is_dataclass(strategy) or isinstance(strategy, type):
        return {}
    known = {field.name: (getattr(strategy, field.name), field.default) for field in dataclasses.fields(strategy)}
    is_preset = known.pop("does", None) is not None
    known.pop("name", None)
    return {name: _in_words(value) for name, (value, default) in known.items() if not is_preset or value != default}


def _in_words(value: object) -> object:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    known = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
    return {name: given for name, (given, default) in known.items() if given != default}


def is_named(text: str, names: Container[str]) -> bool:
    """Whether a text begins with one of some names: `low_water(target=0.6)` with low_water."""
    return text.partition("(")[0].strip() in names


@lru_cache(maxsize=64)
def written(text: str) -> Strategy:
    """The strategy that `low_water` or `low_water(target=0.6)` names. Raises SettingsError for anything else."""
    return configured(text, makers())


def makers() -> Mapping[str, Callable[..., Strategy]]:
    """What makes the strategies that ship, by name."""
    return {name: type(strategy) for name, strategy in available().items()}


Made = TypeVar("Made")
# Parameters that are values with parameters of their own; in a text they are written as a dict.
WRITTEN_AS_DICT = {"protect": Protections, "clamp": Clamp, "clear_tool_inputs": ToolInputs, "retain": Retention}


def configured(text: str, makers: Mapping[str, Callable[..., Made]]) -> Made:
    """The strategy that a text names, with its parameters in brackets; `makers` make those that there are.

    A parameter is one of the maker's, or a field of what it makes. Raises SettingsError for anything else.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    make = makers.get(match[1]) if match else None
    if match is None or make is None:
        near = "" if is_named(text, makers) else did_you_mean(text.partition("(")[0], makers)
        raise SettingsError(f"there is no strategy {text!r}{near}; there are {', '.join(makers)}")
    try:
        values = _values(match[2] or "")
        own = {name: values.pop(name) for name in inspect.signature(make).parameters if name in values}
        return dataclasses.replace(make(**own), **values)  # type: ignore[type-var]
    except (SyntaxError, ValueError, TypeError) as error:
        known = _parameters(make)
        names = ", ".join(f"{name}={value!r}" for name, value in known.items()) or "none"
        near = _near(match[2] or "", known)
        raise SettingsError(
            f"strategy {text!r} cannot be read{near}; {match[1]} has the parameters: {names}"
        ) from error


def _near(arguments: str, known: Collection[str]) -> str:
    """The known parameter that is nearest to the first unknown one, as a question; "" where all are known."""
    words = (word for word in re.findall(r"(\w+)\s*=(?!=)", arguments) if word not in known)
    return did_you_mean(next(words, ""), known)


def _values(arguments: str) -> dict[str, object]:
    call = ast.parse(f"f({arguments})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError("parameters are given by name")
    values = {str(word.arg): _value(str(word.arg), ast.literal_eval(word.value)) for word in call.keywords}
    if len(values) != len(call.keywords):
        raise ValueError("a parameter is given twice")
    return values


def _value(name: str, value: object) -> object:
    kind = WRITTEN_AS_DICT.get(name)
    return kind(**value) if kind and isinstance(value, dict) else value


def _parameters(make: Callable[..., object]) -> dict[str, object]:
    """The parameters of a maker, and the fields of what it makes."""
    own = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    return {**own, **config(make())}
