"""What a caller sets: the safe zone and what it depends on. Validated when it is used, never in a constructor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Number
from typing import Any, TypeVar

from autoprune.errors import SettingsError, did_you_mean
from autoprune.settings.budgets import LARGEST, budget, number
from autoprune.settings.environment import NOTHING, SETTINGS, VARIABLES, Setting, Source, blamed, variables

Made = TypeVar("Made")

SAFE_ZONE_TOKENS = 51_200
GROUP_SIZE = 4  # messages


class Default(int):
    """A number that nobody gave: it equals the default, and the environment may say otherwise."""


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
Call = Mapping[str, object]
GIVE = 'give PruneArgs("50k"), a mapping like it, a budget by itself, or an object with ' + ATTRIBUTES["safe_zone"]


def read(args: object) -> object:
    """What a caller gives as `args`, as an object with attributes: a mapping and a budget by itself as a `PruneArgs`.

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


def given(args: object) -> tuple[object, ...]:
    """Every setting as `args` has it, None where it is absent."""
    held = read(args)
    return tuple(getattr(held, attribute, None) for attribute in ATTRIBUTES.values())


def unasked(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> str | None:
    """Say that nobody gave a safe zone; None where somebody did.

    Raises SettingsError where `args` is an object that holds no setting at all: it is hardly meant to be one.
    """
    if _found("safe_zone", args, environ, call)[1] is not Source.DEFAULT:
        return None
    if args is not None and not any(value is not None and not callable(value) for value in given(args)):
        wanted = ATTRIBUTES["safe_zone"]
        misspelled = ((name, did_you_mean(name, [wanted])) for name in getattr(args, "__dict__", ()) if name != wanted)
        near = next((f" but {name!r}{question}" for name, question in misspelled if question), "")
        raise SettingsError(f"args is a {type(args).__name__} and holds no setting{near}: {GIVE}")
    return f"the safe zone is {SAFE_ZONE_TOKENS:,}: nobody gave a safe zone"


def safe_zone(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """The safe zone in tokens. Raises SettingsError where it is no positive budget."""

    def tokens(value: object) -> int:
        if type(value) is int and value > 0:
            return value
        model, provider = (text_setting(args, name, environ, call) for name in ("model", "provider"))
        return budget(value, model=model, provider=provider, window_tokens=window_by_hand(args, environ, call))

    unasked(args, environ, call)
    return used("safe_zone", tokens, args, environ, call)


def overhead(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """The tokens that are sent beside the messages. Raises SettingsError for a number below zero or none at all."""
    return used("overhead_tokens", _tokens_beside, args, environ, call)


def group_size(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int:
    """How many messages go together, at least 1: so 0 is 1. Raises SettingsError for any less, or no number at all."""
    return used("group_size", _messages, args, environ, call)


def window_by_hand(args: object, environ: Mapping[str, str] = NOTHING, call: Call = NOTHING) -> int | None:
    """The context window in tokens, as it was given; None where it was not. Raises SettingsError for no such number."""
    return used("window", _window_tokens, args, environ, call)


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
        near = did_you_mean(name, SETTINGS)
        raise SettingsError(f"there is no setting {name!r}{near}; there are {', '.join(SETTINGS)}")
    value, source = _found(name, args, environ, call)
    checked = NUMBERS[name](args, environ, call) if name in NUMBERS else value
    return Setting(name, checked, source, _where(name, source, args))


def effective_settings(
    args: object = None, environ: Mapping[str, str] | None = None, **call: object
) -> tuple[Setting, ...]:
    """Every setting as a pruner with these arguments uses it, and who gave it.

    `call` are settings by name, as in `effective_settings(args, safe_zone="20k")`. `environ` is the environment of this
    process where none is given. Raises SettingsError for one that
    cannot be used or is none.
    """
    for name in call:
        setting(name, args, call=call)
    said = variables(environ)
    return tuple(setting(name, args, said, call) for name in SETTINGS)


NUMBERS: Mapping[str, Callable[..., int | None]] = {
    "safe_zone": safe_zone,
    "group_size": group_size,
    "overhead_tokens": overhead,
    "window": window_by_hand,
}


def _found(name: str, args: object, environ: Mapping[str, str], call: Call) -> tuple[Any, Source]:
    """A setting as it was given, and by whom."""
    value = call.get(name)
    if value is not None:
        return value, Source.CALL
    held = read(args)
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
    place = f"{type(args).__name__}.{attribute}" if read(args) is args else "args"
    places = {
        Source.CALL: f"{name}=",
        Source.ARGS: f"args[{attribute!r}]" if isinstance(args, Mapping) else place,
        Source.ENVIRONMENT: VARIABLES[name],
    }
    return places.get(source, "")


def _read(name: str, text: str) -> object:
    """A variable's text as the value that it is in `args`: a number of tokens or messages may have a unit."""
    if name not in ("overhead_tokens", "group_size"):
        return text
    amount = number(text)
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
    tokens = number(value)
    if isinstance(tokens, int) and 1 <= tokens <= LARGEST:
        return tokens
    raise SettingsError(f'window is {value!r}: give the context window in tokens, such as 200_000 or "200k" (k = 1024)')
