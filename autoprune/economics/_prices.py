"""Prices in units of one input token, by list, by model or from figures, and the cost of a request. Decides nothing."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from autoprune.errors import SettingsError, did_you_mean, is_number

CACHE_LIFE: float = 300  # seconds. Source: Anthropic's "Prompt caching", default lifetime.
HOUR: float = 3_600  # seconds
# Vendors with another default. Source: OpenAI's "Prompt caching": 5 to 10 minutes, at most one hour off-peak. In
# recorded Codex sessions 37 of 48 pauses of 5 to 10 minutes were warm, 18 of 46 up to an hour, and none after that.
# DeepSeek's "Context Caching": hours to days. GLM: 8 of 8 recorded pauses of 5 to 30 minutes were warm.
LIVES: Mapping[str, float] = {"openai": HOUR, "deepseek": HOUR, "zhipuai": 1_800}
# OpenAI's models that charge for writing, from GPT-5.6 on. Source: OpenAI's "Prompt caching", cache lifetime.
CHARGED_LIFE: float = 1_800  # seconds
ONE_HOUR_WRITE = 2.0  # input tokens. Source: Anthropic's "Prompt caching", pricing of the 1-hour cache
UNITS = ((3_600, "h"), (60, "min"))
CALL_TOKENS = 120  # estimate for a call that fetches a cleared result again, as output


@dataclass(frozen=True)
class Prices:
    """The costs of a token written to the cache, a token read from it and a token of the answer, in input tokens.

    `input_price` is the price of an input token in dollars, if known, and `note` states what was assumed. `life` is how
    many seconds the cache lives after its last use; a longer life may make writing more expensive.
    """

    write: float = 1.25
    read: float = 0.1
    output: float = 5.0
    name: str = ""
    input_price: float | None = None
    note: str = ""
    life: float = CACHE_LIFE

    def __post_init__(self) -> None:
        """Raise SettingsError for invalid prices."""
        costs = (self.write, self.read, self.output)
        if not all(isinstance(each, int | float) and 0 <= each < math.inf for each in costs) or self.read > self.write:
            raise SettingsError(
                f"prices of {self.write!r}, {self.read!r}, {self.output!r}: give the cost in input tokens of a token "
                "written to the cache, of one read from it (at most as much) and of one of the answer"
            )
        if not is_number(self.life, 0, int | float):
            raise SettingsError(f"the cache's life is {self.life!r}: give seconds, 0 or more")

    @property
    def beta(self) -> float:
        """The extra cost of writing a token, in reads: (write - read) / read; infinite if reading is free."""
        return (self.write - self.read) / self.read if self.read else math.inf

    def break_even(self, cleared: float, behind: float) -> float:
        """Compute after how many later requests it pays to clear tokens in front of `behind` cached ones."""
        if not behind or self.write == self.read:
            return 0.0
        return self.beta * behind / cleared if cleared > 0 else math.inf

    def request(self, prompt: float, held: float, answer: float = 0.0) -> float:
        """Compute the cost of a request with a prompt of which `held` tokens are in the cache."""
        return self.read * held + self.write * (prompt - held) + self.output * answer

    def __str__(self) -> str:
        """Return the name, or the three costs if there is no name."""
        return self.name or f"{self.write:g},{self.read:g},{self.output:g}"


# Prefixes of model names at Bedrock: "us.anthropic.claude-sonnet-4-5-20250929-v1:0".
PREFIXES = re.compile(r"^(?:(?:us|eu|apac|jp|au|ca|global)\.)?(?:anthropic|amazon|meta|deepseek|openai|qwen|mistral)\.")
ASSUMED = "assuming Anthropic's 1.25 and 0.1 input tokens for a token written and one read"
DEFAULT = Prices(name="unknown", note=f"the prices are not known, {ASSUMED}")
# Lists for comparison, each named after a provider with such prices.
LISTS: Mapping[str, Prices] = {
    each.name: each
    for each in (
        Prices(1.25, 0.1, 5, "anthropic"),
        Prices(ONE_HOUR_WRITE, 0.1, 5, "anthropic-1h", life=HOUR),
        Prices(1.25, 0.05, 5, "anthropic-0.05"),
        Prices(1.25, 0.025, 5, "anthropic-0.025"),
        Prices(1, 0.25, 4, "openai-0.25"),
        Prices(1.25, 0.1, 5, "openai", life=CHARGED_LIFE),  # GPT-5.6
        Prices(1, 0.1, 8, "openai-old"),  # GPT-5
        Prices(1, 0.5, 4, "openai-0.5"),
        Prices(1, 0.02, 4, "deepseek"),
        Prices(1, 0.1, 6, "gemini"),  # Gemini 3 Pro
        Prices(1, 1, 4, "no-cache"),
    )
}


def prices(
    given: "Prices | str | tuple[float, ...] | None", model: str | None = None, life: float | None = None
) -> Prices:
    """Resolve a prices setting: a list's name, figures such as "1.25,0.1", or None for the prices of `model`.

    `life` is how many seconds the cache lives; it does not change the costs of a list or of figures. Raises
    SettingsError for an unknown list, and for invalid figures.
    """
    if given is None:
        return model_prices(model, life=life) if model else _with_life(DEFAULT, life)
    parsed = _parse(given)
    return parsed if life is None else replace(parsed, life=life)


def _parse(given: Prices | str | tuple[float, ...]) -> Prices:
    if isinstance(given, Prices):
        return given
    if isinstance(given, str):
        if given in LISTS:
            return LISTS[given]
        try:
            figures = [float(each) for each in given.split(",")]
        except ValueError:
            figures = []
        if not 2 <= len(figures) <= 3:
            raise SettingsError(
                f"there is no price list {given!r}{did_you_mean(given, LISTS)}; there are {', '.join(LISTS)}, or give "
                "the cost of a written and a read token in input tokens, such as 1.25,0.1"
            )
        return _from_figures(figures)
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
        raise SettingsError(f"prices of {given!r}: give (write, read) or (write, read, output)")
    return _from_figures(given)


def _from_figures(figures: Sequence[float]) -> Prices:
    """Create prices from the costs of a written token, a read token and, optionally, a token of the answer."""
    write, read, *output = figures
    return Prices(write, read, output[0]) if output else Prices(write, read)


def model_prices(
    model: str, provider: str | None = None, when: datetime | None = None, life: float | None = None
) -> Prices:
    """Look up the prices of a model in genai-prices; return default prices with a note if it does not know them.

    For prices that rise with the size of the prompt, the lowest tier is used. If a vendor has no price for writing to
    the cache, a written token costs an input token; if it has no price for reading, there is no cache. `life` is how
    many seconds the cache lives: None is the vendor's default, and an hour costs more to write at Anthropic.
    """
    from genai_prices.data_snapshot import get_snapshot

    if not isinstance(model, str):
        raise SettingsError(f"the model is {model!r}: give its name, such as 'claude-sonnet-4-5'")

    # Gateways prefix a model's name with the provider: "anthropic/claude-sonnet-4-5".
    name = PREFIXES.sub("", model.rpartition("/")[2])
    try:
        vendor, info = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        return _with_life(Prices(name=model, note=f"the prices of {model!r} are not known, {ASSUMED}"), life)
    listed: Any = info.get_prices(when or datetime.now(UTC))
    base = _price(listed.input_mtok)
    if not base:
        return _with_life(Prices(name=model, note=f"{model!r} has no price for its input, {ASSUMED}"), life)
    written, read = _price(listed.cache_write_mtok) or base, _price(listed.cache_read_mtok)
    answer = _price(listed.output_mtok)
    is_charged = vendor.id in LIVES and written > base
    usual = CHARGED_LIFE if is_charged else LIVES.get(vendor.id, CACHE_LIFE)
    result = Prices(
        write=written / base,
        read=(read or written) / base,
        output=answer / base,
        name=model,
        input_price=base / 1_000_000,
        life=usual,
    )
    return _with_life(result, life) if vendor.id not in LIVES or life is None else replace(result, life=life)


def _with_life(known: Prices, life: float | None) -> Prices:
    """Adjust prices to a cache lifetime.

    Writing a one-hour cache costs more, if the provider charges for cache writes at all.
    """
    if life is None:
        return known
    is_dear = life >= HOUR and known.write > 1
    return replace(known, life=life, write=max(known.write, ONE_HOUR_WRITE) if is_dear else known.write)


def lifetime(seconds: float) -> str:
    """Format the lifetime of a cache: 5 min, 1 h, 90 s."""
    size, unit = next((each for each in UNITS if seconds >= each[0] and not seconds % each[0]), (1, "s"))
    return f"{seconds / size:g} {unit}"


def _price(value: Any) -> float:
    """Return a price per million tokens, 0 if there is none. Tiered prices are read from their `base`."""
    price = getattr(value, "base", value)
    return float(price) if isinstance(price, int | float | Decimal) else 0.0
