"""Token budgets and cache lives as people write them, and context windows. Reads no settings."""

import math
import re
from functools import lru_cache
from numbers import Integral

from autoprune.errors import SettingsError, is_number

UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}
SHARE = 0.6  # of the window of a model: the safe zone that `run` and the proxy use where nobody gives one
UNKNOWN_ZONE = 100_000  # tokens: the same where the window is not known
LARGEST = 10**12  # tokens; no window is near
LONGEST_TEXT = 40
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smh]?)")
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600}
AMOUNT = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?)([km]?)")
FORMS = 'write it as 51200, "50k" (k = 1024), "1.5m", "50*1024", or 0.7 for that share of the model\'s window'


def budget_tokens(
    value: object, *, model: str | None = None, provider: str | None = None, window_tokens: int | None = None
) -> int:
    """Return a token budget in tokens. A share such as 0.7 is one of `window_tokens`, else of the model's window.

    Raises SettingsError for anything that is no positive budget.
    """
    tokens = amount = parse_number(value)
    if isinstance(amount, float) and 0 < amount <= 1:
        tokens = math.floor(amount * (window_tokens or context_window(model, provider)))
    if tokens is None or not 1 <= tokens <= LARGEST or tokens != math.floor(tokens):
        kind = "" if isinstance(value, int | float | str) else f", a {type(value).__name__}"
        raise SettingsError(f"the safe zone is {value!r}{kind}: {FORMS}")
    return int(tokens)


def parse_number(value: object) -> int | float | None:
    """Return the number that a budget stands for, a float for a share of a window; None where it is none."""
    if isinstance(value, str):
        return _parse_text(value.replace(" ", "").lower())
    if isinstance(value, bool) or not isinstance(value, int | float | Integral):
        return None
    return value if isinstance(value, float) else int(value)


def _parse_text(text: str) -> int | float | None:
    """Return the number in a text: factors with units, or one fraction without."""
    matches = [AMOUNT.fullmatch(factor) for factor in text.split("*")]
    if len(text) > LONGEST_TEXT or not all(matches):
        return None
    factors = [float(match[1].replace("_", "")) * UNITS[match[2]] for match in matches if match]
    product = math.prod(factors)
    is_share = len(factors) == 1 and "." in text and text[-1].isdigit()
    return product if is_share else int(product) if product > 1 or product == math.floor(product) else None


def usual_zone(model: str | None) -> int:
    """Return the safe zone in tokens that `run` and the proxy use for a model where nobody gives one."""
    try:
        return budget_tokens(SHARE, model=model)
    except SettingsError:
        return UNKNOWN_ZONE


def duration(value: object, name: str = "cache_ttl") -> float | None:
    """Return a time such as "5m", "1h", "90s" or 300 in seconds; None for None.

    Raises SettingsError for anything else, in which it has a `name`.
    """
    if value is None:
        return None
    match = DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    seconds = float(match[1]) * SECONDS[match[2]] if match else value
    if not is_number(seconds, 0, int | float) or seconds == math.inf:
        raise SettingsError(f'{name} is {value!r}: write it as "5m", "1h", or a number of seconds')
    return float(seconds)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def context_window(model: str | None, provider: str | None = None) -> int:
    """Return the context window of a model in tokens, from genai-prices. Raises SettingsError where it is not known.

    Some models have another window with each provider: name it, as `provider` or as in "github-copilot/gpt-5"; without
    one, it is the window with the model's own vendor.
    """
    if model is None:
        raise SettingsError(
            "a safe zone that is a share of the context window needs a model: name the model, or give the window "
            "by hand (window=200_000)"
        )
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
    raise SettingsError(
        f"{said[0]}; give the safe zone in tokens, or the window by hand (window=200_000), or name another model or "
        "the provider"
    )
