"""Find the strategy that a text names, such as `low_water(target=0.6)`. Every strategy that ships has a line here."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from autoprune.errors import SettingsError, did_you_mean
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import Protections
from autoprune.planning.retention import Retention
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import FoldingStrategy, Strategy

# To ship a strategy, write its module in this package and add a line: its name, and what makes it in which module.
CLEARING = {  # of AgenticConversationPruner; the default first
    "tool_output_cleanup": "clearing:ToolOutputCleanup",
    "low_water": "clearing:LowWater",
    "cache_aware": "cache_aware:CacheAware",
    "observation_masking": "masking:observation_masking",
    "like_opencode": "masking:like_opencode",
    "like_claude_code": "masking:like_claude_code",
    "like_langchain": "masking:like_langchain",
    "like_swe_agent": "masking:like_swe_agent",
}
FOLDING = {  # of ConversationPruner, loaded when they are used; the default first
    "summarize": "presets:summarize",
    "truncate": "presets:truncate",
    "hybrid": "presets:hybrid",
    "keep_last": "presets:keep_last",
    "summarize_older": "presets:summarize_older",
    "symbolize": "presets:symbolize",
    "chat_summary": "presets:chat_summary",
    "action_trace": "presets:action_trace",
    "sliding_window": "presets:sliding_window",
    "per_result": "presets:per_result",
    "snapshot": "presets:snapshot",
}
STRATEGIES = {**CLEARING, **FOLDING}
# The options of strategies, which are values with parameters of their own; in a text they are written as a dict.
OPTIONS = {"protect": Protections, "clamp": Clamp, "clear_tool_inputs": ToolInputs, "retain": Retention}

Made = TypeVar("Made")


class WrongValueError(ValueError):
    """A value in a text that is none, or that its parameter does not take."""


def makers(names: Iterable[str] = STRATEGIES) -> dict[str, Callable[..., Any]]:
    """Return what makes each of some strategies that ship: a class or a function with defaults, by name."""
    return {name: _maker(*STRATEGIES[name].split(":")) for name in names}


def _maker(module: str, made_by: str) -> Callable[..., Any]:
    maker: Callable[..., Any] = getattr(import_module(f"autoprune.strategies.{module}"), made_by)
    return maker


def available(names: Iterable[str] = CLEARING) -> dict[str, Any]:
    """Return some strategies that ship with their defaults, by name."""
    return {name: make() for name, make in makers(names).items()}


@lru_cache(maxsize=64)
def clearing_named(text: str) -> Strategy:
    """Return the strategy that `low_water` or `low_water(target=0.6)` names. Raises SettingsError for anything else."""
    strategy: Strategy = configured(text, makers(CLEARING))
    return strategy


@lru_cache(maxsize=64)
def folding_named(text: str) -> FoldingStrategy:
    """Return the strategy that `keep_last` or `keep_last(n=5)` names. Raises SettingsError for anything else."""
    strategy: FoldingStrategy = configured(text, makers(FOLDING))
    return strategy


def is_named(text: str, names: Container[str]) -> bool:
    """Return whether a text begins with one of some names, as `low_water(target=0.6)` with low_water."""
    return text.partition("(")[0].strip() in names


def description(strategy: object) -> str:
    """Return what a strategy does: what it says itself as a preset, or the first line of its class's docstring."""
    return str(getattr(strategy, "does", "")) or (type(strategy).__doc__ or "").strip().partition("\n")[0]


def config(strategy: object) -> dict[str, object]:
    """Return a strategy's parameters; of a preset only those that are not at their default.

    An option, such as `protect`, is a dict of those of its parameters that are not at their default.
    """
    if not dataclasses.is_dataclass(strategy) or isinstance(strategy, type):
        return {}
    known = {field.name: (getattr(strategy, field.name), field.default) for field in dataclasses.fields(strategy)}
    is_preset = known.pop("does", None) is not None
    known.pop("name", None)
    return {name: _as_dict(value) for name, (value, default) in known.items() if not is_preset or value != default}


def _as_dict(value: object) -> object:
    """Return an option as a dict, and any other value as it is."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    known = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
    return {name: given for name, (given, default) in known.items() if given != default}


def configured(text: str, makers: Mapping[str, Callable[..., Made]]) -> Made:
    """Return the strategy that a text names with its parameters in brackets; `makers` are those to choose from.

    A parameter is one of the maker's, or a field of what it makes. Raises SettingsError for anything else.
    """
    name, bracket, behind = text.strip().partition("(")
    make = makers.get(name.rstrip())
    if make is None:
        raise SettingsError(f"there is no strategy {text!r}{hint(text, makers)}; there are {', '.join(makers)}")
    try:
        if bracket and not behind.endswith(")"):
            raise WrongValueError("the bracket is not closed at its end")
        values = _values(behind.removesuffix(")"))
        own = {name: values.pop(name) for name in inspect.signature(make).parameters if name in values}
        return dataclasses.replace(make(**own), **values)  # type: ignore[type-var]
    except (SyntaxError, ValueError, TypeError) as error:
        known = _parameters(make)
        names = ", ".join(f"{name}={value!r}" for name, value in known.items()) or "none"
        why = _near(behind, known) or _why(error)
        raise SettingsError(
            f"strategy {text!r} cannot be read{why}; {name.rstrip()} has the parameters: {names}"
        ) from error


def hint(text: str, names: Collection[str]) -> str:
    """Return what may be meant by a text that names none of some strategies: whose strategy it is, or the nearest."""
    name = text.partition("(")[0].strip()
    if name in STRATEGIES:
        return f" (it is one of {'AgenticConversationPruner' if name in CLEARING else 'ConversationPruner'})"
    return did_you_mean(name, names) or did_you_mean(name, STRATEGIES)


def _near(arguments: str, known: Collection[str]) -> str:
    """Return the known parameter that is nearest to the first unknown one, as a question; "" if all are known."""
    words = (word for word in re.findall(r"(\w+)\s*=(?!=)", arguments) if word not in known)
    return did_you_mean(next(words, ""), known)


def _why(error: Exception) -> str:
    """Return what is wrong with a value, in brackets; "" if the list of the parameters shows it."""
    return f" ({error})" if isinstance(error, WrongValueError) else ""


def _values(arguments: str) -> dict[str, object]:
    """Return the parameters in a text such as "target=0.6, protect={'last_results': 3}", by name."""
    call = ast.parse(f"f({arguments})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError("parameters are given by name")
    called = [each.func for each in ast.walk(call) if isinstance(each, ast.Call)]
    for each in ast.walk(call):
        if isinstance(each, ast.Name) and each not in called:
            raise WrongValueError(f"{each.id} is no value: write a number, or a text in quotes")
    values = {str(word.arg): _value(str(word.arg), ast.literal_eval(word.value)) for word in call.keywords}
    if len(values) != len(call.keywords):
        raise ValueError("a parameter is given twice")
    return values


def _value(name: str, value: object) -> object:
    """Return a parameter's value; an option is made of its dict."""
    kind = OPTIONS.get(name)
    if kind is None or not isinstance(value, dict):
        return value
    known = [field.name for field in dataclasses.fields(kind)]
    for each in value:
        if each not in known:
            raise WrongValueError(f"{name} has no {each!r}, but {', '.join(known)}")
    return kind(**value)


def _parameters(make: Callable[..., object]) -> dict[str, object]:
    """Return the parameters of a maker, and the fields of what it makes, with their defaults."""
    own = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    return {**own, **config(make())}
