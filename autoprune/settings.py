"""What a caller sets: the safe zone and what it depends on. Validated when it is used, never in a constructor."""

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Number
from typing import Any, TypeVar

from autoprune.environment import NOTHING, SETTINGS, VARIABLES, Setting, Source, blamed, variables
from autoprune.errors import SettingsError

Made = TypeVar("Made")

SAFE_ZONE_TOKENS = 51_200
GROUP_SIZE = 4  # messages
UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}
LARGEST = 10**12  # tokens; no window is near
LONGEST_TEXT = 40
AMOUNT = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?)([km]?)")
WRITTEN = 'write it as 51200, "50k" (k = 1024), "1.5m", "50*1024", or 0.7 for that share of the model\'s window'


class Default(int):
    """A number that nobody gave: it equals the default, and the environment may say otherwise."""


@dataclass(frozen=True)
class PruneArgs:
    """The settings of a pruner. Any object with some of these attributes serves as well; these are the defaults.

    `conversation_prune_safe_zone_tokens`: the token budget, `51200`, `"50k"`, `"1.5m"`, `"50*1024"`, or a share of the
    context window of `model`, such as `0.7`. `conversation_prune_group_size`: how many messages are dropped or folded
    together. `overhead_tokens`: system prompt and tool schemas that are sent beside the messages; the safe zone is
    compared with messages + overhead. `format` names the wire format of all messages, where it is not to be found out
    for each. `thinking_policy` says what becomes of thinking blocks behind an edit: one of `thinking.ThinkingPolicy`.

    What is not given here is looked up in the AUTOPRUNE_* variables that the pruner was made with.
    """

    conversation_prune_safe_zone_tokens: int | float | str = Default(SAFE_ZONE_TOKENS)
    conversation_prune_group_size: int = Default(GROUP_SIZE)
    model: str | None = None
    provider: str | None = None
    overhead_tokens: int = Default(0)
    format: str | None = None
    thinking_policy: str | None = None


ATTRIBUTES = {
    **{name: name for name in SETTINGS if name != "strategy"},  # a strategy is the call's or the environment's
    "safe_zone": "conversation_prune_safe_zone_tokens",
    "group_size": "conversation_prune_group_size",
}
DEFAULTS = {**dict.fromkeys(SETTINGS), "safe_zone": SAFE_ZONE_TOKENS, "group_size": GROUP_SIZE, "overhead_tokens": 0}
Call = Mapping[str, object]


def safe_zone(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """The safe zone in tokens. Raises SettingsError where it is no positive budget."""

    def tokens(value: object) -> int:
        if type(value) is int and value > 0:
            return value
        model, provider = (text_setting(args, name, environ, call) for name in ("model", "provider"))
        return budget(value, model=model, provider=provider)

    return used("safe_zone", tokens, args, environ, call)


def overhead(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """The tokens that are sent beside the messages. Raises SettingsError for a number below zero or none at all."""
    return used("overhead_tokens", _tokens_beside, args, environ, call)


def group_size(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """How many messages go together, at least 1: so 0 is 1. Raises SettingsError for any less, or no number at all."""
    return used("group_size", _messages, args, environ, call)


def text_setting(args: object, name: str, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> str | None:
    """A setting that is a string; None where it is absent, empty or something else."""
    value = _found(name, args, environ, call)[0]
    return value if isinstance(value, str) and value else None


def used(
    name: str,
    use: Callable[[Any], Made],
    args: object,
    environ: Mapping[str, str] = NOTHING,
    call: Call = NOTHING,
) -> Made:
    """What `use` makes of a setting's value as it was given: by the call, else `args`, else `environ`, else nobody.

    `name` is one of `environment.SETTINGS`. A variable's value is a text; one that is blank is none. Where `use` raises
    SettingsError for it, the error names the variable.
    """
    value, source = _found(name, args, environ, call)
    if source is not Source.ENVIRONMENT:
        return use(value)
    try:
        return use(_read(name, value))
    except SettingsError as error:
        raise blamed(error, VARIABLES[name], value) from error


def setting(name: str, args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> Setting:
    """A setting as it counts, checked, and who gave it: the call, else `args`, else `environ`, else the default.

    `name` is one of `environment.SETTINGS`, as are the keys of `call`; None there is "not given". The safe zone and the
    overhead come in tokens, a group's size in messages, all else as it was given: None for a model that nobody named, a
    format or a policy that is found out, and the pruner's own default strategy. Raises SettingsError for a value that
    cannot be used, and for a name that is none.
    """
    if name not in VARIABLES:
        raise SettingsError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}")
    value, source = _found(name, args, environ, call)
    checked = NUMBERS[name](args, environ, call) if name in NUMBERS else value
    return Setting(name, checked, source, _where(name, source, args))


def effective_settings(
    args: object = None, environ: Mapping[str, str] = os.environ, **call: object
) -> tuple[Setting, ...]:
    """Every setting as a pruner with these arguments uses it, and who gave it.

    `call` are settings by name, as in `effective_settings(args, safe_zone="20k")`. Raises SettingsError for one that
    cannot be used or is none.
    """
    for name in call:
        setting(name, args, call=call)
    said = variables(environ)
    return tuple(setting(name, args, said, call) for name in SETTINGS)


NUMBERS = {"safe_zone": safe_zone, "group_size": group_size, "overhead_tokens": overhead}
MISSING = object()


def _found(name: str, args: object, environ: Mapping[str, str], call: Call) -> tuple[Any, Source]:
    """A setting as it was given, and by whom."""
    value = call.get(name)
    if value is not None:
        return value, Source.CALL
    value = getattr(args, ATTRIBUTES[name], MISSING) if name in ATTRIBUTES else MISSING
    if _is_given(name, value, args):
        return value, Source.ARGS
    text = environ.get(VARIABLES[name], "").strip()
    return (text, Source.ENVIRONMENT) if text else (DEFAULTS[name], Source.DEFAULT)


def _is_given(name: str, value: object, args: object) -> bool:
    if value is MISSING or isinstance(value, Default):
        return False
    if name not in NUMBERS:
        return isinstance(value, str) and value != ""
    # A mock answers every attribute with another mock; an object that is no PruneArgs need not know this one.
    return name == "safe_zone" or isinstance(args, PruneArgs) or isinstance(value, Number | str)


def _where(name: str, source: Source, args: object) -> str:
    places = {
        Source.CALL: f"{name}=",
        Source.ARGS: f"{type(args).__name__}.{ATTRIBUTES.get(name)}",
        Source.ENVIRONMENT: VARIABLES[name],
    }
    return places.get(source, "")


def _read(name: str, text: str) -> object:
    """A variable's text as the value that it is in `args`: a number of tokens or messages may have a unit."""
    if name not in ("overhead_tokens", "group_size"):
        return text
    number = _number(text)
    return number if isinstance(number, int) else text


def _tokens_beside(value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
        return int(value)
    raise SettingsError(f"overhead_tokens is {value!r}: give the number of tokens sent beside the messages, 0 or more")


def _messages(value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
        return max(int(value), 1)
    raise SettingsError(f"conversation_prune_group_size is {value!r}: give a number of messages, 1 or more")


def budget(value: object, *, model: str | None = None, provider: str | None = None) -> int:
    """A token budget as it may be written, in tokens. Raises SettingsError for anything that is no positive budget."""
    number = _number(value)
    tokens: float | None = number
    if isinstance(number, float) and 0 < number <= 1:
        tokens = math.floor(number * window(model, provider))
    if tokens is None or not 1 <= tokens <= LARGEST or tokens != math.floor(tokens):
        kind = "" if isinstance(value, int | float | str) else f", a {type(value).__name__}"
        raise SettingsError(f"the safe zone is {value!r}{kind}: {WRITTEN}")
    return int(tokens)


def _number(value: object) -> int | float | None:
    """The number that a budget stands for, a float for a share of a window; None where it is none."""
    if isinstance(value, str):
        return _written(value.replace(" ", "").lower())
    if isinstance(value, bool) or not isinstance(value, int | float | Integral):
        return None
    return value if isinstance(value, float) else int(value)


def _written(text: str) -> int | float | None:
    """The number in a text: factors with units, or one fraction without."""
    matches = [AMOUNT.fullmatch(factor) for factor in text.split("*")]
    if len(text) > LONGEST_TEXT or not all(matches):
        return None
    factors = [float(match[1].replace("_", "")) * UNITS[match[2]] for match in matches if match]
    product = math.prod(factors)
    is_share = len(factors) == 1 and "." in text and text[-1].isdigit()
    return product if is_share else int(product) if product > 1 or product == math.floor(product) else None


@lru_cache(maxsize=64)
def window(model: str | None, provider: str | None = None) -> int:
    """The context window of a model in tokens, from genai-prices. Raises SettingsError where it is not known.

    Some models have another window with each provider: name it, as `provider` or as in "github-copilot/gpt-5"; without
    one, it is the window with the model's own vendor.
    """
    if model is None:
        raise SettingsError("a safe zone that is a share of the context window needs a model: PruneArgs(model=...)")
    from genai_prices.data_snapshot import get_snapshot

    prefix, _, name = model.rpartition("/")
    said: list[str] = []
    for wanted, vendor in dict.fromkeys(((model, provider), (name, provider or prefix or None), (name, provider))):
        try:
            found, info = get_snapshot().find_provider_model(wanted, None, vendor, None)
        except LookupError as error:
            said.append(f"the context window of {model!r} is not known: {error}")
            continue
        if info.context_window is not None:
            return int(info.context_window)
        said.append(f"the context window of {model!r} at {found.name} is not known")
    raise SettingsError(f"{said[0]}; give the safe zone in tokens, or name another model or PruneArgs(provider=...)")
