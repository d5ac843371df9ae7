"""Find the strategy that a text names, such as `low_water(target=0.6)`: a shipped strategy or a plugin's.

An installed package offers a strategy under the entry point group `autoprune.strategies`: a class or a function that
makes one, or a strategy itself. A strategy that ships wins over a plugin of the same name.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import cache, lru_cache
from pkgutil import resolve_name
from typing import Any, TypeVar

from autoprune.errors import SettingsError, did_you_mean
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import Protections, Retention
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import FoldingStrategy, Strategy, folds, folds_steps
from autoprune.settings.plugins import load_plugin, plugin_names
from autoprune.settings.values import parse_number

GROUP = "autoprune.strategies"  # of entry points
# To ship a strategy, write its module in this package and add a line: its name, then "module:maker".
CLEARING = {  # for AgenticConversationPruner; the default first
    "tool_output_cleanup": "clearing:ToolOutputCleanup",
    "low_water": "clearing:LowWater",
    "cache_aware": "cache_aware:CacheAware",
    "observation_masking": "clearing:observation_masking",
}
FOLDING = {  # for ConversationPruner, imported when they are used; the default first
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
RUN_STRATEGY = "cache_aware(fold_steps=10)"  # of `run` and `proxy`, which know the whole history with its pauses
RECOMMENDED = "cache_aware"  # the literal rule breaks the provider's prompt cache at almost every request
# Options of strategies: values with their own parameters. In a text they are written as a dict.
OPTIONS = {"protect": Protections, "clamp": Clamp, "clear_tool_inputs": ToolInputs, "retain": Retention}

Value = TypeVar("Value")


class _WrongValueError(ValueError):
    """A value in a text that cannot be read, or that its parameter does not take."""


def makers(names: Iterable[str] = STRATEGIES) -> dict[str, Callable[..., Any]]:
    """Return the makers of strategies that ship, by name: classes or functions with defaults."""
    return {name: resolve_name(f"autoprune.strategies.{STRATEGIES[name]}") for name in names}


@cache
def available(*, folding: bool = False) -> Mapping[str, Any]:
    """Return the strategies that ship, with their defaults, by name. They are frozen, so all pruners share them."""
    return {name: make() for name, make in makers(FOLDING if folding else CLEARING).items()}


@lru_cache(maxsize=64)
def clearing_named(text: str) -> Strategy:
    """Return the strategy that `low_water` or `low_water(target=0.6)` names. Raises SettingsError for anything else."""
    strategy: Strategy = make_strategy(text, makers(CLEARING))
    if folds(strategy):
        raise SettingsError(f"the strategy {text!r} is for ConversationPruner")
    return strategy


def without_folding(strategy: Any) -> Any:
    """Return a strategy that clears like this one, and folds no finished steps."""
    return dataclasses.replace(strategy, fold_steps=None) if folds_steps(strategy) else strategy


@lru_cache(maxsize=64)
def folding_named(text: str) -> FoldingStrategy:
    """Return the strategy that `keep_last` or `keep_last(n=5)` names. Raises SettingsError for anything else."""
    strategy: FoldingStrategy = make_strategy(text, makers(FOLDING))
    return strategy


def names_folding(text: str) -> bool:
    """Return whether a text names a strategy for ConversationPruner. Imports a plugin to find out."""
    return is_named(text, FOLDING) or (is_plugin(text) and folds(make_strategy(text, makers())))


def is_plugin(text: str) -> bool:
    """Return whether a text names the strategy of an installed plugin. Imports nothing."""
    return is_named(text, plugin_names(GROUP)) and not is_named(text, STRATEGIES)


def _plugin_maker(name: str) -> Callable[..., Any] | None:
    """Return the maker of a plugin's strategy; None if there is no plugin of that name."""
    plugin: Any = load_plugin(GROUP, name) if is_plugin(name) else None
    if plugin is None:
        return None
    is_strategy = not isinstance(plugin, type) and callable(getattr(plugin, "step", None))
    if not is_strategy and not callable(plugin):
        raise SettingsError(f"the plugin {name!r} offers {plugin!r}: give a strategy, or a class that makes one")
    make: Callable[..., Any] = (lambda: plugin) if is_strategy else plugin
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise SettingsError(f"the plugin {name!r} needs a default for each parameter: {error}") from error
    return make


def is_named(text: str, names: Container[str]) -> bool:
    """Return whether a text is one of the names, perhaps with parameters: `low_water(target=0.6)`."""
    return text.partition("(")[0].strip() in names


def description(strategy: object) -> str:
    """Return what a strategy does: the first line of the docstring of its preset, or else of its class."""
    name = str(getattr(strategy, "name", ""))
    source = makers([name])[name] if _is_preset(strategy) and name in STRATEGIES else type(strategy)
    return (source.__doc__ or "").strip().partition("\n")[0]


def _is_preset(strategy: object) -> bool:
    """Return whether a strategy is a `Folding`, of which most presets are made."""
    from autoprune.strategies.folding import Folding

    return type(strategy) is Folding


def config(strategy: object) -> dict[str, object]:
    """Return a strategy's parameters; for a preset, only parameters that differ from their defaults.

    An option, such as `protect`, becomes a dict of its parameters that differ from their defaults.
    """
    if not dataclasses.is_dataclass(strategy) or isinstance(strategy, type):
        return {}
    parameters = {field.name: (getattr(strategy, field.name), field.default) for field in dataclasses.fields(strategy)}
    is_preset = _is_preset(strategy)
    parameters.pop("name", None)
    return {name: _as_dict(value) for name, (value, default) in parameters.items() if not is_preset or value != default}


def _as_dict(value: object) -> object:
    """Turn an option into a dict; other values stay unchanged."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    parameters = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
    return {name: own for name, (own, default) in parameters.items() if own != default}


def make_strategy(text: str, makers: Mapping[str, Callable[..., Value]]) -> Value:
    """Make the strategy that a text names, with its parameters in brackets, by one of `makers` or by a plugin.

    A parameter belongs to the maker or is a field of the strategy. Raises SettingsError for anything else.
    """
    name, bracket, rest = text.strip().partition("(")
    make = makers.get(name.rstrip()) or _plugin_maker(name.rstrip())
    if make is None:
        raise SettingsError(no_strategy(text, (*makers, *plugin_names(GROUP))))
    try:
        if bracket and not rest.endswith(")"):
            raise _WrongValueError("the bracket is not closed at its end")
        values = _values(rest.removesuffix(")"))
        own = {name: values.pop(name) for name in inspect.signature(make).parameters if name in values}
        made: Value = make(**own)
        return dataclasses.replace(made, **values) if values else made  # type: ignore[type-var]
    except (SyntaxError, ValueError, TypeError) as error:
        parameters = _parameters(make)
        names = ", ".join(f"{name}={value!r}" for name, value in parameters.items()) or "none"
        why = _near(rest, parameters) or _why(error)
        raise SettingsError(
            f"strategy {text!r} cannot be read{why}; {name.rstrip()} has the parameters: {names}"
        ) from error


def no_strategy(text: str, names: Collection[str]) -> str:
    """Say that there is no such strategy, with the nearest name or else all names."""
    near = hint(text, names)
    listed = f"{near}; `autoprune strategies` lists all" if near else f"; there are {', '.join(names)}"
    return f"there is no strategy {text!r}{listed}"


def hint(text: str, names: Collection[str]) -> str:
    """Suggest what an unknown name may mean: the other pruner's strategy, or the nearest name, plugins included."""
    name = text.partition("(")[0].strip()
    if name in STRATEGIES:
        return f" (it is for {'AgenticConversationPruner' if name in CLEARING else 'ConversationPruner'})"
    if parse_number(text) is not None:
        return " (pass a safe zone to the constructor of the pruner)"
    return did_you_mean(name, names) or did_you_mean(name, (*STRATEGIES, *plugin_names(GROUP)))


def _near(arguments: str, known: Collection[str]) -> str:
    """Suggest the parameter nearest to the first unknown parameter; "" if all are known."""
    words = (word for word in re.findall(r"(\w+)\s*=(?!=)", arguments) if word not in known)
    return did_you_mean(next(words, ""), known)


def _why(error: Exception) -> str:
    """Return what is wrong, in brackets; "" if the list of parameters shows it."""
    if unknown := re.search(r"unexpected keyword argument '(\w+)'", str(error)):
        return f" (it has no {unknown[1]})"
    return f" ({error})" if isinstance(error, _WrongValueError) else ""


def _values(arguments: str) -> dict[str, object]:
    """Parse the parameters in a text such as "target=0.6, protect={'last_results': 3}"."""
    call = ast.parse(f"f({arguments})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise _WrongValueError("parameters are given by name")
    called = [each.func for each in ast.walk(call) if isinstance(each, ast.Call)]
    for each in ast.walk(call):
        if isinstance(each, ast.Name) and each not in called:
            raise _WrongValueError(f"{each.id} is not a value: write a number, or a text in quotes")
    values = {str(word.arg): _value(str(word.arg), ast.literal_eval(word.value)) for word in call.keywords}
    if len(values) != len(call.keywords):
        raise ValueError("a parameter is given twice")
    return values


def _value(name: str, value: object) -> object:
    """Return the value of a parameter. A dict becomes an option if the parameter is one."""
    kind = OPTIONS.get(name)
    if kind is None or not isinstance(value, dict):
        return value
    parameters = [field.name for field in dataclasses.fields(kind)]
    for each in value:
        if each not in parameters:
            raise _WrongValueError(f"{name} has no {each!r}, but {', '.join(parameters)}")
    return kind(**value)


def _parameters(make: Callable[..., object]) -> dict[str, object]:
    """Return the parameters of a maker and the fields of its strategy, with their defaults."""
    own = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    return {**own, **config(make())}
