"""Settings of pruners: the safe zone, the model and so on, and where each value came from.

`PruneArgs` holds the settings of a pruner. `effective_settings` lists the values in use and their sources: the call,
the arguments, an AUTOPRUNE_* variable or the default. A function with the name of a setting returns its checked value.

setting("safe_zone", PruneArgs(model="gpt-5"), {"AUTOPRUNE_SAFE_ZONE": "20k"})
# Setting(name="safe_zone", value=20480, source=Source.ENVIRONMENT, where="AUTOPRUNE_SAFE_ZONE")
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from numbers import Integral, Number
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

from autoprune.errors import SettingsError, did_you_mean, is_number, near_or_all, type_of
from autoprune.settings.models import find_model, listed_window, requested_window

PREFIX = "AUTOPRUNE_"
SETTINGS = (
    *("safe_zone", "group_size", "model", "provider", "window", "overhead_tokens", "format", "thinking_policy"),
    *("cache_ttl", "compact_at", "strategy"),
)
VARIABLES: Mapping[str, str] = MappingProxyType({name: PREFIX + name.upper() for name in SETTINGS})
NOTHING: Mapping[str, str] = MappingProxyType({})
# Used by the command line or a plugin only.
COMMAND_VARIABLES = (f"{PREFIX}ARCHIVE", f"{PREFIX}NO_ARCHIVE", f"{PREFIX}TOKEN", f"{PREFIX}PROXY")


class Source(StrEnum):
    """The source of a setting. Earlier members take precedence."""

    CALL = "call"
    ARGS = "args"
    ENVIRONMENT = "environment"
    FILE = "file"  # read by the command line only
    DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """The value of a setting and its source.

    `where` is the place to change it: the keyword of a call ("safe_zone="), the attribute of the arguments
    ("PruneArgs.model"), the variable ("AUTOPRUNE_MODEL"), or the file's path; "" for a default.
    """

    name: str
    value: object
    source: Source
    where: str = ""


def variables(environ: Mapping[str, str] | None) -> dict[str, str]:
    """Return the AUTOPRUNE_* variables of an environment that name a setting and are not blank.

    None means the environment of this process. `os.environ` is not a default argument, since `help` would print it.
    """
    environ = os.environ if environ is None else environ
    notes = {variable: environ.get(variable, "").strip() for variable in VARIABLES.values()}
    return {variable: text for variable, text in notes.items() if text}


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the AUTOPRUNE_* variables that name no setting, sorted. They may be misspelled."""
    known = {*VARIABLES.values(), *COMMAND_VARIABLES}
    return tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in known))


SAFE_ZONE_TOKENS = 51_200  # "50k", with k = 1024 as in `UNITS`
GROUP_SIZE = 4  # messages


class Default(int):
    """A default value. Unlike the same number from a caller, it can be overridden by the environment."""


@dataclass(frozen=True)
class PruneArgs:
    """The settings of a pruner.

    Pruners also accept a mapping with some of these keys, any object with some of these attributes, or just a budget.
    A value of None means that the setting is not given.

    `conversation_prune_safe_zone_tokens`: the token budget, `51200`, `"50k"`, `"1.5m"`, `"50*1024"`, or a share of the
    context window of `model`, such as `0.7`. `conversation_prune_group_size`: how many messages are dropped or folded
    together. `overhead_tokens`: tokens of the system prompt and tool schemas, which are sent beside the messages; they
    count toward the safe zone. `format`: the wire format of all messages; by default it is detected for each message.
    `thinking_policy`: what to do with thinking blocks after an edit, one of `thinking.ThinkingPolicy`. `window`: the
    context window in tokens, `200_000` or `"1m"`, if that of `model` is unknown or wrong.

    `cache_ttl`: the lifetime of the provider's prompt cache, `"5m"`, `"1h"` or seconds, if it is not the vendor's
    default. Strategies that weigh the cost of the cache use it.

    `compact_at`: the tokens of a prompt at which the client or the agent compacts the conversation by itself. The safe
    zone is then at most 0.9 of it, so that this does not happen.

    Settings that are not given here come from the AUTOPRUNE_* variables. Values are checked when they are used.
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
    compact_at: int | str | None = None


class HasSafeZone(Protocol):
    """An object with a safe zone, such as the settings of your own program. Its other settings are optional."""

    @property
    def conversation_prune_safe_zone_tokens(self) -> Any:
        """The safe zone, as in `PruneArgs`."""


Args: TypeAlias = PruneArgs | Mapping[str, Any] | HasSafeZone | str | int | float | None

ATTRIBUTES = {
    **{name: name for name in SETTINGS if name != "strategy"},  # only a call or a variable names a strategy
    "safe_zone": "conversation_prune_safe_zone_tokens",
    "group_size": "conversation_prune_group_size",
}
DEFAULTS = {**dict.fromkeys(SETTINGS), "safe_zone": SAFE_ZONE_TOKENS, "group_size": GROUP_SIZE, "overhead_tokens": 0}


def normalize(args: object) -> object:
    """Convert `args` to an object with attributes: a mapping or a bare budget becomes a `PruneArgs`.

    Raises SettingsError for a mapping with keys that name no setting.
    """
    if not isinstance(args, Mapping):
        return PruneArgs(args) if isinstance(args, Number | str | bytes) else args  # type: ignore[arg-type]
    known = ATTRIBUTES.values()
    for key in args:
        if key not in known:
            raise SettingsError(f"args has no setting {key!r}{near_or_all(str(key), known)}")
    return PruneArgs(**args)


def given_attributes(args: object) -> dict[str, Any]:
    """Return the settings in `args` by attribute, without those that are None."""
    held = normalize(args)
    values = {attribute: getattr(held, attribute, None) for attribute in ATTRIBUTES.values()}
    return {attribute: value for attribute, value in values.items() if value is not None}


UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}
# Tokens that the default safe zone of `run` and the proxy leaves for the reply, as Claude Code does; a small window has
# less room.
REPLY_RESERVE, LARGEST_RESERVE = 20_000, 0.2  # the second is a share of the window
BELOW_COMPACTION = 0.9  # of the point where the client compacts: the largest safe zone
UNKNOWN_WINDOW = 200_000  # tokens: taken for the window of an unknown model, as assistants do
LARGEST = 10**12  # tokens, far above any context window
LONGEST_TEXT = 40  # characters of a budget, so that a product of many factors is not computed
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smh]?)")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600}
AMOUNT = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?)([km]?)")
FORMS = 'write it as 51200, "50k" (k = 1024), "1.5m", "50*1024", or 0.7 for that share of the model\'s window'


def budget_tokens(
    value: object, *, model: str | None = None, provider: str | None = None, window_tokens: int | None = None
) -> int:
    """Convert a token budget to tokens. A share such as 0.7 is one of `window_tokens`, else of the model's window.

    Raises SettingsError for anything that is no positive budget.
    """
    tokens = amount = parse_number(value)
    if isinstance(amount, float) and 0 < amount <= 1:
        window = window_tokens or requested_window(model or "", context_window(model, provider))
        tokens = math.floor(amount * window)
    if tokens is None or not 1 <= tokens <= LARGEST or tokens != math.floor(tokens):
        kind = "" if isinstance(value, int | float | str) else f", {type_of(value)}"
        raise SettingsError(f"the safe zone is {value!r}{kind}: {FORMS}")
    return int(tokens)


def parse_number(value: object) -> int | float | None:
    """Parse a budget to a number, a float for a share of a window; None if it is not one.

    A string holds factors with units, such as "50*1k", or one fraction without a unit.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Integral | str):
        return None
    if not isinstance(value, str):
        return value if isinstance(value, float) else int(value)
    text = value.replace(" ", "").lower()
    factors, product = text.split("*"), 1.0
    for factor in factors:
        match = AMOUNT.fullmatch(factor)
        if match is None or len(text) > LONGEST_TEXT:
            return None
        product *= float(match[1].replace("_", "")) * UNITS[match[2]]
    is_share = len(factors) == 1 and "." in text and text[-1].isdigit()
    return product if is_share else int(product) if product > 1 or product == math.floor(product) else None


def window_of(model: str | None, betas: Iterable[str] = ()) -> int | None:
    """Return the context window that a request with these betas gets, in tokens; None if it is not known.

    `context_window` is the largest one that the model has.
    """
    try:
        return requested_window(model, context_window(model), betas) if model else None
    except SettingsError:
        return None


def usual_zone(model: str | None, window: int | None = None) -> int:
    """Return the usual safe zone of strategies that weigh prices: the model's window without room for the reply.

    `run` and the proxy lower it to stay below a compaction (`compact_at`). What is below is up to the strategy, which
    clears if that makes the session cheaper. `window` is that of the request if more is known about it than its model.
    """
    window = window or window_of(model) or UNKNOWN_WINDOW
    return window - min(REPLY_RESERVE, math.floor(LARGEST_RESERVE * window))


SHORTEST_TTL, LONGEST_TTL = 60.0, 86_400.0  # seconds: with a life of 0, every request would seem cold


def ttl_seconds(ttl: object) -> float | None:
    """Convert a time to live such as "1h" to seconds; None for anything else, and for a life that no provider has."""
    try:
        life = duration(ttl) if isinstance(ttl, str) else None
    except SettingsError:
        return None
    return None if life is None or not SHORTEST_TTL <= life <= LONGEST_TTL else life


def duration(value: object, name: str = "cache_ttl") -> float | None:
    """Convert a duration such as "5m", "1h", "90s" or 300 to seconds; None for None.

    Raises SettingsError for anything else; `name` is the setting that the error names.
    """
    if value is None:
        return None
    match = DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    seconds = float(match[1]) * SECONDS[match[2]] if match else value
    if not is_number(seconds, 0, int | float) or seconds > LARGEST:  # type: ignore[operator]
        raise SettingsError(f'{name} is {value!r}: write it as "5m", "1h", or a number of seconds')
    return float(seconds)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def context_window(model: str | None, provider: str | None = None) -> int:
    """Return the context window of a model for prompts, from genai-prices. Raises SettingsError if it is not known.

    The window of some models depends on the provider: name it, as `provider` or as in "github-copilot/gpt-5". Without a
    provider, the window is that of the model's vendor.
    """
    if model is None:
        raise SettingsError(
            "a safe zone that is a share of the context window needs a model: name the model, or give the window "
            "by hand (window=200_000)"
        )
    prefix, _, name = model.rpartition("/")
    notes: list[str] = []
    # The whole name first, then the part after the slash with its prefix as the provider, then without.
    for wanted, vendor in dict.fromkeys(((model, provider), (name, provider or prefix or None), (name, provider))):
        try:
            window = listed_window(wanted, vendor)
        except LookupError as error:
            notes.append(f"the context window of {model!r} is not known: {error}")
            continue
        if window is not None:
            return window
        notes.append(f"the context window of {model!r} at {find_model(wanted, vendor).vendor_name} is not known")
    raise SettingsError(
        f"{notes[0]}; give the safe zone in tokens, or the window by hand (window=200_000), or name another model or "
        "the provider"
    )


Value = TypeVar("Value")
Call = Mapping[str, object]
GIVE = 'give PruneArgs("50k"), a mapping like it, a safe zone, or an object with ' + ATTRIBUTES["safe_zone"]


def missing_safe_zone(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> str | None:
    """Return a note if no safe zone was given, else None. Raises SettingsError for an object without any setting."""
    if _lookup("safe_zone", args, environ, call)[1] is not Source.DEFAULT:
        return None
    # Methods do not count: an object may have one named `format`.
    if args is not None and all(map(callable, given_attributes(args).values())):
        wanted = ATTRIBUTES["safe_zone"]
        misspelled = ((name, did_you_mean(name, [wanted])) for name in getattr(args, "__dict__", ()) if name != wanted)
        near = next((f" but {name!r}{question}" for name, question in misspelled if question), "")
        raise SettingsError(f"args is {type_of(args)} and holds no setting{near}: {GIVE}")
    return f"the safe zone is {SAFE_ZONE_TOKENS:,}, because none was given"


def safe_zone(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """Return the safe zone in tokens. Raises SettingsError if it is no positive budget."""

    def convert(value: object) -> int:
        number = parse_number(value)
        if isinstance(number, int) and 1 <= number <= LARGEST:
            return number
        model, provider = (text_setting(args, name, environ, call) for name in ("model", "provider"))
        return budget_tokens(value, model=model, provider=provider, window_tokens=window_tokens(args, environ, call))

    missing_safe_zone(args, environ, call)  # raises an error for an object without any setting
    return resolve("safe_zone", convert, args, environ, call)


def below_compaction(zone: int, args: object, environ: Mapping[str, str] = NOTHING) -> int:
    """Lower a safe zone to stay below the point where the client compacts. Raises SettingsError if that is no size."""
    point = compact_at(args, environ)
    return zone if point is None else min(zone, max(1, math.floor(BELOW_COMPACTION * point)))


def compact_at(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int | None:
    """Return the tokens at which the client compacts, else None. Raises SettingsError if that is no size."""
    return resolve(
        "compact_at", partial(_check_tokens, "compact_at", "prompt at which the client compacts"), args, environ, call
    )


def overhead_tokens(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """Return the tokens that are sent beside the messages. Raises SettingsError unless it is a number, 0 or more."""
    form = "give the number of tokens sent beside the messages, 0 or more"
    return resolve("overhead_tokens", partial(_check_count, "overhead_tokens", form), args, environ, call)


def group_size(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """Return the number of messages that are dropped or folded together: 0 means 1. Raises SettingsError below 0."""
    check = partial(_check_count, ATTRIBUTES["group_size"], "give a number of messages, 1 or more")
    return max(resolve("group_size", check, args, environ, call), 1)


def _check_count(name: str, form: str, value: object) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) <= LARGEST:
        return int(value)
    raise SettingsError(f"{name} is {value!r}: {form}")


def window_tokens(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int | None:
    """Return the given context window in tokens, else None. Raises SettingsError if it is no window."""
    return resolve("window", partial(_check_tokens, "window", "context window"), args, environ, call)


def _check_tokens(name: str, what: str, value: object) -> int | None:
    if value is None:
        return None
    tokens = parse_number(value)
    if isinstance(tokens, int) and 1 <= tokens <= LARGEST:
        return tokens
    raise SettingsError(f'{name} is {value!r}: give the {what} in tokens, such as 200_000 or "200k" (k = 1024)')


def cache_ttl(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> float | None:
    """Return the lifetime of the cache in seconds; None if not given. Raises SettingsError for any other value."""
    return resolve("cache_ttl", duration, args, environ, call)


def text_setting(args: object, name: str, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> str | None:
    """Return the value of a setting that is a string; None if it is absent, empty or of another type."""
    value = _lookup(name, args, environ, call)[0]
    return value if isinstance(value, str) and value else None


def fill_in(args: object, environ: Mapping[str, str] = NOTHING, **known: Any) -> object:
    """Add values for settings that neither `args` nor a variable gives; return `args` itself if none is missing."""
    missing = {
        name: value for name, value in known.items() if _lookup(name, args, environ, NOTHING)[1] is Source.DEFAULT
    }
    return override(args, environ, **missing) if missing else args


def override(args: object, environ: Mapping[str, str] = NOTHING, **settings: Any) -> PruneArgs:
    """Copy `args` with other values for some settings. Raises SettingsError if `args` is an object without any."""
    missing_safe_zone(args, environ)
    return PruneArgs(**{**given_attributes(args), **{ATTRIBUTES[name]: value for name, value in settings.items()}})


def resolve(
    name: str, make: Callable[[Any], Value], args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING
) -> Value:
    """Apply `make` to a setting's value, from the call, else `args`, else `environ`, else the default.

    `name` is one of `SETTINGS`. The value of a variable is a string; a blank variable counts as absent. If `make`
    raises SettingsError for a variable's value, the error names the variable.
    """
    value, source = _lookup(name, args, environ, call)
    if source is Source.DEFAULT and name in NUMBERS:  # defaults need no check
        default: Value = value
        return default
    if source is not Source.ENVIRONMENT:
        return make(value)
    try:
        return make(read_count(name, value))
    except SettingsError as error:
        _, is_repeated, rest = str(error).partition(f" is {value!r}: ")
        raise SettingsError(f"{VARIABLES[name]} is {value!r}: {rest if is_repeated else error}") from error


def read_count(name: str, value: Any) -> Any:
    """Read the unit of a count from a variable or a file; in `args` it has none. All other values are returned."""
    amount = parse_number(value) if name in ("overhead_tokens", "group_size") else None
    return amount if isinstance(amount, int) else value


def setting(name: str, args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> Setting:
    """Return the checked value of a setting and its source: the call, else `args`, else `environ`, else the default.

    `name` is one of `SETTINGS`, as are the keys of `call`; None there means "not given". The safe zone and the overhead
    are in tokens, the group size in messages. All other values are returned as given, None if absent, and so is a safe
    zone that is a share if neither a model nor a window is given. Raises SettingsError for a value that cannot be used,
    and for an unknown name.
    """
    if name not in VARIABLES:
        raise SettingsError(f"there is no setting {name!r}{near_or_all(name, SETTINGS)}")
    value, source = _lookup(name, args, environ, call)
    is_share = name == "safe_zone" and isinstance(share := parse_number(value), float) and 0 < share <= 1
    is_unknown = is_share and not (text_setting(args, "model", environ, call) or window_tokens(args, environ, call))
    checked = NUMBERS[name](args, environ, call) if name in NUMBERS and not is_unknown else value
    return Setting(name, checked, source, _where(name, source, args))


def effective_settings(
    args: object = None, environ: Mapping[str, str] | None = None, **call: object
) -> tuple[Setting, ...]:
    """Every setting as a pruner with these arguments uses it, and its source.

    `call` are settings by name, as in `effective_settings(args, safe_zone="20k")`. `environ` defaults to the
    environment of this process. Raises SettingsError for an unknown setting, or a value that cannot be used.
    """
    for name in call:
        setting(name, args, call=call)
    notes = variables(environ)
    return tuple(setting(name, args, notes, call) for name in SETTINGS)


NUMBERS: Mapping[str, Callable[..., float | None]] = {
    "safe_zone": safe_zone,
    "group_size": group_size,
    "overhead_tokens": overhead_tokens,
    "window": window_tokens,
    "compact_at": compact_at,
    "cache_ttl": cache_ttl,
}


def _lookup(name: str, args: object, environ: Mapping[str, str], call: Call) -> tuple[Any, Source]:
    """Return the unchecked value of a setting, and its source."""
    value = call.get(name)
    if value is not None:
        return value, Source.CALL
    held = args if isinstance(args, PruneArgs) else normalize(args)
    value = getattr(held, ATTRIBUTES[name], None) if name in ATTRIBUTES else None
    if name not in NUMBERS:
        is_given = isinstance(value, str) and value != ""
    else:
        # A mock returns another mock for any attribute, so only numbers and strings count, except for the safe zone.
        is_known = name == "safe_zone" or isinstance(held, PruneArgs) or isinstance(value, Number | str)
        is_given = is_known and value is not None and not isinstance(value, Default)
    if is_given:
        return value, Source.ARGS
    text = environ.get(VARIABLES[name], "").strip()
    return (text, Source.ENVIRONMENT) if text else (DEFAULTS[name], Source.DEFAULT)


def _where(name: str, source: Source, args: object) -> str:
    match source:
        case Source.CALL:
            return f"{name}="
        case Source.ENVIRONMENT:
            return VARIABLES[name]
        case Source.DEFAULT:
            return ""
    if isinstance(args, Mapping):
        return f"args[{ATTRIBUTES[name]!r}]"
    return f"{type(args).__name__}.{ATTRIBUTES[name]}" if normalize(args) is args else "args"
