"""The cost of a request: prices in units of one input token, by list, by model or from figures, and invoices."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from statistics import median
from typing import Any

from autoprune.errors import SettingsError, did_you_mean, is_number
from autoprune.settings.models import bare_name, find_model
from autoprune.tokens import counts_cached, is_plausible, prompt_tokens, spent_tokens, written_tokens

CACHE_LIFE: float = 300  # seconds. Source: Anthropic's "Prompt caching", default lifetime.
HOUR: float = 3_600  # seconds
HALF_DAY: float = 12 * HOUR
# Vendors with another default. Source: OpenAI's "Prompt caching": 5 to 10 minutes, at most one hour off-peak. In
# recorded Codex sessions 37 of 48 pauses of 5 to 10 minutes were warm, 18 of 46 up to an hour, and none after that.
# DeepSeek's "Context Caching": hours to days. GLM: 8 of 8 recorded pauses of 5 to 30 minutes were warm. Gemini: 57 of
# 99 of these were, and 1 of 22 longer ones.
LIVES: Mapping[str, float] = {"openai": HOUR, "deepseek": HOUR, "google": 1_800, "zhipuai": 1_800}
WARM = 0.5  # least share of the expected tokens that a warm cache holds: counts and blocks are not exact
# OpenAI's models that charge for writing, from GPT-5.6 on. Source: OpenAI's "Prompt caching", cache lifetime.
CHARGED_LIFE: float = 1_800  # seconds
# Input tokens. Source: Anthropic's "Prompt caching", pricing of its two caches.
FIVE_MINUTE_WRITE, ONE_HOUR_WRITE = 1.25, 2.0
HALF_DAY_WRITE = 2.5  # input tokens. Source: OpenAI's "Prompt caching": the 12-hour cache of models that charge writes
LEAST_WRITE, MOST_WRITE = 0.01, HALF_DAY_WRITE  # no provider takes less, unless it is free, or more
FREE = ":free"  # OpenRouter's suffix
MOST_DOLLARS = 0.001  # for an input token, $1,000 for a million: more is a price of something else
UNITS = ((3_600, "h"), (60, "min"))
CALL_TOKENS = 120  # estimate for a call that fetches a cleared result again, as output


@dataclass(frozen=True, slots=True)
class Tier:
    """Prices of a long request: with a prompt of more than `above` tokens, all tokens cost a multiple.

    `prompt` multiplies the price of each token of the prompt, read or written, and `answer` that of the answer.
    """

    above: int
    prompt: float
    answer: float


@dataclass(frozen=True)
class Prices:
    """The costs of a token written to the cache, a token read from it and a token of the answer, in input tokens.

    `input_price` is the price of an input token in dollars, if known, and `note` states what was assumed. `life` is how
    many seconds the cache lives after its last use; a longer life may make writing more expensive. `tiers` are the
    prices of long requests, shortest prompts first; the unit stays an input token of a short request.
    """

    write: float = 1.25
    read: float = 0.1
    output: float = 5.0
    name: str = ""
    input_price: float | None = None
    note: str = ""
    life: float = CACHE_LIFE
    tiers: tuple[Tier, ...] = ()

    def __post_init__(self) -> None:
        """Raise SettingsError for invalid prices."""
        costs = (self.write, self.read, self.output)
        is_right = all(isinstance(each, int | float) and 0 <= each < math.inf for each in costs)
        if not is_right or self.read > self.write or 0 < self.write < LEAST_WRITE or self.write > MOST_WRITE:
            raise SettingsError(
                f"prices of {self.write!r}, {self.read!r}, {self.output!r}: give the cost in input tokens, not dollars,"
                f" of a token written to the cache (at most {MOST_WRITE:g}), of one read from it (at most as much) and "
                "of one of the answer"
            )
        if self.input_price is not None and not (
            is_number(self.input_price, 0, int | float) and self.input_price <= MOST_DOLLARS
        ):
            raise SettingsError(f"input_price is {self.input_price!r}: give dollars for one token, such as 3e-6")
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
        at = self.tier(prompt)
        return at.prompt * (self.read * held + self.write * (prompt - held)) + at.answer * self.output * answer

    def tier(self, prompt: float) -> Tier:
        """Return the tier of a request with a prompt of this many tokens: the provider's, not counted ones."""
        return next((each for each in reversed(self.tiers) if prompt > each.above), SHORT)

    def in_counted_tokens(self, calibration: float) -> "Prices":
        """Return prices whose tiers begin at counted tokens; `calibration` is the provider's tokens for a counted one.

        A calibration above 1 thus puts the tiers lower.
        """
        tiers = tuple(replace(each, above=round(each.above / calibration)) for each in self.tiers)
        return replace(self, tiers=tiers) if tiers else self

    @property
    def with_reads(self) -> "Prices":
        """These prices for a provider that has read from its cache. If the list has no price for that, it is assumed.

        Counting a cached token as a whole one would make cuts seem free that break the cache.
        """
        if self.input_price is None or self.read < self.write:
            return self
        note = f"no price of a cached token is listed, assuming {ASSUMED_READ:g} input tokens"
        return replace(self, read=ASSUMED_READ, note="; ".join(filter(None, (self.note, note))))

    def __str__(self) -> str:
        """Return the name, or the three costs if there is no name."""
        return self.name or f"{self.write:g},{self.read:g},{self.output:g}"


SHORT = Tier(0, 1.0, 1.0)
ASSUMED = "assuming Anthropic's 1.25 and 0.1 input tokens for a token written and one read"
ASSUMED_READ = 0.1  # input tokens, as most vendors charge
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
    """Resolve a prices setting: the name of a list or a model, figures such as "1.25,0.1", or None for `model`.

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
        if not figures and not (named := model_prices(given)).note:
            return named
        if not 2 <= len(figures) <= 3:
            raise SettingsError(
                f"there is no price list {given!r}{did_you_mean(given, LISTS)}; there are {', '.join(LISTS)}, or give "
                "a model, or the cost of a written and a read token in input tokens, such as 1.25,0.1"
            )
        given = tuple(figures)
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 3:
        raise SettingsError(f"prices of {given!r}: give (write, read) or (write, read, output)")
    write, read, *output = given
    return Prices(write, read, output[0]) if output else Prices(write, read)


def model_prices(
    model: str, provider: str | None = None, when: datetime | None = None, life: float | None = None
) -> Prices:
    """Look up the prices of a model in genai-prices; return default prices with a note if it does not know them.

    A model that the list does not have is priced like the newest of its family, with a note. If a vendor has no price
    for writing to the cache, a written token costs an input token; if it has no price for reading, there is no cache.
    `life` is how many seconds the cache lives: None is the vendor's default, and a long life costs more to write.
    """
    if not isinstance(model, str):
        raise SettingsError(f"the model is {model!r}: give its name, such as 'claude-sonnet-4-5'")
    try:
        found = find_model(model, provider)
    except LookupError:
        name = bare_name(model)
        return _with_life(Prices(name=name, note=f"the prices of {model!r} are not known, {ASSUMED}"), life)
    listed: Any = found.info.get_prices(when or datetime.now(UTC))
    base = _price(listed.input_mtok)
    if not base:
        return _with_life(Prices(name=found.info.id, note=f"{model!r} has no price for its input, {ASSUMED}"), life)
    written, read = _price(listed.cache_write_mtok) or base, _price(listed.cache_read_mtok)
    usual = CHARGED_LIFE if found.vendor in LIVES and written > base else LIVES.get(found.vendor, CACHE_LIFE)
    result = Prices(
        write=written / base,
        read=(read or written) / base,
        output=_price(listed.output_mtok) / base,
        name=bare_name(model),
        input_price=0.0 if model.endswith(FREE) else base / 1_000_000,
        note=found.note,
        life=usual,
        tiers=tuple(_tiers(listed)),
    )
    return _with_life(result, life)


def _tiers(listed: Any) -> Iterator[Tier]:
    """Yield the tiers of a model. The cache's prices rise like the input's, as in all lists but a few resellers'."""
    base, answer = _price(listed.input_mtok), _price(listed.output_mtok)
    dearer = {each.start: each.price for each in getattr(listed.output_mtok, "tiers", ())}
    for each in getattr(listed.input_mtok, "tiers", ()):
        yield Tier(each.start, _price(each.price) / base, _price(dearer.get(each.start)) / answer if dearer else 1.0)


def _with_life(known: Prices, life: float | None) -> Prices:
    """Adjust prices to a cache lifetime.

    Writing a cache of an hour costs more at Anthropic, one of twelve hours at OpenAI, if the model charges for writes.
    """
    if life is None:
        return known
    long, dearer = (HALF_DAY, HALF_DAY_WRITE) if known.life == CHARGED_LIFE else (HOUR, ONE_HOUR_WRITE)
    is_dearer = known.write > 1 and life >= long
    return replace(known, life=life, write=max(known.write, dearer) if is_dearer else known.write)


def life_text(seconds: float) -> str:
    """Format the lifetime of a cache: 5 min, 1 h, 90 s. One that was observed has fractions, and is rounded."""
    if 1 < seconds < math.inf and seconds % 1:
        seconds = 60 * round(seconds / 60) if seconds >= 600 else round(seconds)
    size, unit = next((each for each in UNITS if seconds >= each[0] and not seconds % each[0]), (1, "s"))
    return f"{seconds / size:g} {unit}"


def _price(value: Any) -> float:
    """Return a price per million tokens, 0 if there is none. Tiered prices are read from their `base`."""
    price = getattr(value, "base", value)
    return float(price) if isinstance(price, int | float | Decimal) else 0.0


# What the provider charged

LEAST_TEXT, LEAST_GROWTHS = 200, 3  # tokens by which a prompt grew, and the number of such growths


@dataclass(frozen=True, slots=True)
class Invoice:
    """The provider's charge for a prompt, in its tokens: all of them, those read from its cache, and those written.

    `output` are the tokens of the answer. Pruners get it with the next request, by that one's number of messages.
    """

    prompt: int
    read: int
    written: int
    output: int = 0

    @classmethod
    def from_usage(cls, usage: object) -> "Invoice | None":
        """Return the invoice in the usage of an answer; None if it does not count what was read from the cache.

        Raises SettingsError if the usage has no input tokens.
        """
        prompt, read = prompt_tokens(usage)
        written = written_tokens(usage)
        fresh = max(0, prompt - read)
        if not read and not counts_cached(usage):
            return None
        written = fresh if written is None else min(written, fresh)
        return cls(prompt, min(read, prompt), written, spent_tokens(usage) - prompt)


class TextRatio:
    """The provider's tokens for a counted token of results and of the user's words, learned from how prompts grow.

    Logs and counts miss the thinking in answers, which later prompts hold. So the answer counts by its output:

        growth of a prompt = ratio · growth of its text + output of the answer
    """

    def __init__(self) -> None:
        self._found: list[float] = []
        self._before = (0, 0, 0, 0)

    def add(self, request: int, prompt: int, text: int | None, output: int) -> None:
        """Add the prompt of a request with its counted text, and its answer's output; None or 0 if unknown."""
        before, known, so_far, answer = self._before
        if text is not None and answer and request == before + 1 and text - so_far >= LEAST_TEXT:
            ratio = (prompt - known - answer) / (text - so_far)
            self._found += [ratio] if is_plausible(ratio) else []
        self._before = (request, prompt, text or 0, 0 if text is None else output)

    @property
    def value(self) -> float | None:
        """The ratio; None if too few growths are known. A median, since prompts also grow by images and reminders."""
        return median(self._found) if len(self._found) >= LEAST_GROWTHS else None


def check_invoices(invoices: Mapping[int, Invoice | None]) -> Mapping[int, Invoice]:
    """Return invoices by the index of the message that follows the next request, without None. Raises SettingsError."""
    if not isinstance(invoices, Mapping) or not all(isinstance(each, Invoice | None) for each in invoices.values()):
        raise SettingsError(f"invoices is {invoices!r}: give values of Invoice.from_usage by the index of a message")
    return {at: each for at, each in invoices.items() if each is not None}
