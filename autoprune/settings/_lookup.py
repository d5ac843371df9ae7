"""Which value of a setting counts: the call's, else that of the arguments, else of a variable, else the default.

setting("safe_zone", PruneArgs(model="gpt-5"), {"AUTOPRUNE_SAFE_ZONE": "20k"})
# Setting(name="safe_zone", value=20480, source=Source.ENVIRONMENT, where="AUTOPRUNE_SAFE_ZONE")
"""

from collections.abc import Callable, Mapping
from numbers import Integral, Number
from typing import Any, TypeVar

from autoprune.errors import SettingsError, did_you_mean
from autoprune.settings._args import (
    ATTRIBUTES,
    DEFAULTS,
    NOTHING,
    SAFE_ZONE_TOKENS,
    SETTINGS,
    VARIABLES,
    Default,
    PruneArgs,
    Setting,
    Source,
    attribute_values,
    blame_variable,
    normalize,
    variables,
)
from autoprune.settings._budgets import LARGEST, budget_tokens, duration, parse_number

Made = TypeVar("Made")
Call = Mapping[str, object]
GIVE = 'give PruneArgs("50k"), a mapping like it, a budget by itself, or an object with ' + ATTRIBUTES["safe_zone"]


def missing_safe_zone(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> str | None:
    """Return a note that nobody gave a safe zone; None where somebody did.

    Raises SettingsError where `args` is an object that holds no setting at all: it is hardly meant to be one.
    """
    if _found("safe_zone", args, environ, call)[1] is not Source.DEFAULT:
        return None
    if args is not None and not any(value is not None and not callable(value) for value in attribute_values(args)):
        wanted = ATTRIBUTES["safe_zone"]
        misspelled = ((name, did_you_mean(name, [wanted])) for name in getattr(args, "__dict__", ()) if name != wanted)
        near = next((f" but {name!r}{question}" for name, question in misspelled if question), "")
        raise SettingsError(f"args is a {type(args).__name__} and holds no setting{near}: {GIVE}")
    return f"the safe zone is {SAFE_ZONE_TOKENS:,}: nobody gave a safe zone"


def safe_zone(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """Return the safe zone in tokens. Raises SettingsError where it is no positive budget."""

    def tokens(value: object) -> int:
        if type(value) is int and value > 0:
            return value
        model, provider = (text_setting(args, name, environ, call) for name in ("model", "provider"))
        return budget_tokens(value, model=model, provider=provider, window_tokens=window_tokens(args, environ, call))

    missing_safe_zone(args, environ, call)
    return resolve("safe_zone", tokens, args, environ, call)


def overhead_tokens(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """Return the tokens that are sent beside the messages. Raises SettingsError for anything but a number from 0 on."""
    return resolve("overhead_tokens", _tokens_beside, args, environ, call)


def group_size(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """Return how many messages go together; 0 means 1. Raises SettingsError for anything but a number from 0 on."""
    return resolve("group_size", _messages, args, environ, call)


def window_tokens(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int | None:
    """Return the context window in tokens; None where nobody gave it. Raises SettingsError for what is no window."""
    return resolve("window", _window_tokens, args, environ, call)


def cache_ttl(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> float | None:
    """Return how many seconds the prompt cache lives; None where nobody said. Raises SettingsError for what is none."""
    return resolve("cache_ttl", duration, args, environ, call)


def text_setting(args: object, name: str, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> str | None:
    """Return a setting that is a string; None where it is absent, empty or something else."""
    value = _found(name, args, environ, call)[0]
    return value if isinstance(value, str) and value else None


def filled_in(args: object, environ: Mapping[str, str] = NOTHING, **known: Any) -> object:
    """Return `args` with values for the settings that neither they nor a variable give; themselves where all do."""
    is_open = {name: _found(name, args, environ, NOTHING)[1] is Source.DEFAULT for name in known}
    missing = {ATTRIBUTES[name]: value for name, value in known.items() if is_open[name]}
    if not missing:
        return args
    given = zip(ATTRIBUTES.values(), attribute_values(args), strict=True)
    values: dict[str, Any] = {name: value for name, value in given if value is not None}
    return PruneArgs(**{**values, **missing})


def resolve(
    name: str,
    make: Callable[[Any], Made],
    args: object,
    environ: Mapping[str, str] = NOTHING,
    call: Call = NOTHING,
) -> Made:
    """Return what `make` makes of a setting's value, given by the call, else `args`, else `environ`, else the default.

    `name` is one of `SETTINGS`. A variable's value is a text; one that is blank is none. Where `make` raises
    SettingsError for it, the error names the variable.
    """
    value, source = _found(name, args, environ, call)
    if source is not Source.ENVIRONMENT:
        return make(value)
    try:
        return make(_from_text(name, value))
    except SettingsError as error:
        raise blame_variable(error, VARIABLES[name], value) from error


def setting(name: str, args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> Setting:
    """Return a setting, checked, and who gave it: the call, else `args`, else `environ`, else the default.

    `name` is one of `SETTINGS`, as are the keys of `call`; None there is "not given". The safe zone and the
    overhead come in tokens, a group's size in messages, all else as it was given: None for a model that nobody named, a
    format or a policy that is found out, and the pruner's own default strategy. Raises SettingsError for a value that
    cannot be used, and for a name that is none.
    """
    if name not in VARIABLES:
        near = did_you_mean(name, SETTINGS)
        raise SettingsError(f"there is no setting {name!r}{near}; there are {', '.join(SETTINGS)}")
    value, source = _found(name, args, environ, call)
    checked = NUMBERS[name](args, environ, call) if name in NUMBERS else value
    return Setting(name, checked, source, _where(name, source, args))


def effective_settings(
    args: object = None, environ: Mapping[str, str] | None = None, **call: object
) -> tuple[Setting, ...]:
    """Return every setting as a pruner with these arguments uses it, and who gave it.

    `call` are settings by name, as in `effective_settings(args, safe_zone="20k")`. `environ` is the environment of this
    process where none is given. Raises SettingsError for one that cannot be used or is none.
    """
    for name in call:
        setting(name, args, call=call)
    said = variables(environ)
    return tuple(setting(name, args, said, call) for name in SETTINGS)


NUMBERS: Mapping[str, Callable[..., float | None]] = {
    "safe_zone": safe_zone,
    "group_size": group_size,
    "overhead_tokens": overhead_tokens,
    "window": window_tokens,
    "cache_ttl": cache_ttl,
}


def _found(name: str, args: object, environ: Mapping[str, str], call: Call) -> tuple[Any, Source]:
    """Return a setting as it was given, and who gave it."""
    value = call.get(name)
    if value is not None:
        return value, Source.CALL
    held = normalize(args)
    value = getattr(held, ATTRIBUTES[name], None) if name in ATTRIBUTES else None
    if _is_given(name, value, held):
        return value, Source.ARGS
    text = environ.get(VARIABLES[name], "").strip()
    return (text, Source.ENVIRONMENT) if text else (DEFAULTS[name], Source.DEFAULT)


def _is_given(name: str, value: object, args: object) -> bool:
    if value is None or isinstance(value, Default):
        return False
    if name not in NUMBERS:
        return isinstance(value, str) and value != ""
    # A mock answers every attribute with another mock; an object that is no PruneArgs need not know this one.
    return name == "safe_zone" or isinstance(args, PruneArgs) or isinstance(value, Number | str)


def _where(name: str, source: Source, args: object) -> str:
    attribute = ATTRIBUTES.get(name)
    place = f"{type(args).__name__}.{attribute}" if normalize(args) is args else "args"
    places = {
        Source.CALL: f"{name}=",
        Source.ARGS: f"args[{attribute!r}]" if isinstance(args, Mapping) else place,
        Source.ENVIRONMENT: VARIABLES[name],
    }
    return places.get(source, "")


def _from_text(name: str, text: str) -> object:
    """Return a variable's text as the value that it is in `args`: a number of tokens or messages may have a unit."""
    if name not in ("overhead_tokens", "group_size"):
        return text
    amount = parse_number(text)
    return amount if isinstance(amount, int) else text


def _tokens_beside(value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
        return int(value)
    raise SettingsError(f"overhead_tokens is {value!r}: give the number of tokens sent beside the messages, 0 or more")


def _messages(value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0:
        return max(int(value), 1)
    raise SettingsError(f"conversation_prune_group_size is {value!r}: give a number of messages, 1 or more")


def _window_tokens(value: object) -> int | None:
    if value is None:
        return None
    tokens = parse_number(value)
    if isinstance(tokens, int) and 1 <= tokens <= LARGEST:
        return tokens
    raise SettingsError(f'window is {value!r}: give the context window in tokens, such as 200_000 or "200k" (k = 1024)')
