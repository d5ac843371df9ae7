"""What prompts cost: prices in units of one input token, and the bill of a row of requests. Decides nothing.

Providers cache the beginning of a prompt. Where a prompt begins as the one before it did, those tokens are read from
the cache for a fraction of an input token; the others are written, for one token or a little more. A request costs

    read · held + write · (prompt - held) + output · answer

where `held` are the tokens that the cache still holds: the longest common beginning of both prompts, or nothing after a
pause longer than the cache's life. To clear `k` tokens in front of `S` cached ones pays from `break_even` requests on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from time import time
from typing import Any, TypeAlias

from autoprune.errors import SettingsError, did_you_mean

Clock: TypeAlias = Callable[[], float]
CACHE_LIFE: float = 300  # seconds. Source: Anthropic's "Prompt caching", default lifetime; OpenAI says 5 to 10 minutes.


@dataclass(frozen=True)
class Prices:
    """What a token costs, in input tokens: one written to the cache, one read from it, and one of the answer.

    `input_price` is the price of an input token in dollars, where it is known, and `note` says what was made up.
    """

    write: float = 1.25
    read: float = 0.1
    output: float = 5.0
    name: str = ""
    input_price: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Raise SettingsError for prices that cannot be."""
        given = (self.write, self.read, self.output)
        if not all(isinstance(each, int | float) and 0 <= each < math.inf for each in given) or self.read > self.write:
            raise SettingsError(
                f"prices of {self.write!r}, {self.read!r}, {self.output!r}: give what a token costs that is written to "
                "the cache, one that is read from it (no more than that) and one of the answer, in input tokens"
            )

    @property
    def beta(self) -> float:
        """How many requests' reading a written token costs on top: (write - read) / read; infinite for free reading."""
        return (self.write - self.read) / self.read if self.read else math.inf

    def break_even(self, cleared: float, behind: float) -> float:
        """Return after how many more requests it pays to clear tokens in front of `behind` cached ones."""
        if not behind or self.write == self.read:
            return 0.0
        return self.beta * behind / cleared if cleared > 0 else math.inf

    def request(self, prompt: float, held: float, answer: float = 0.0) -> float:
        """Return the cost of a request of whose prompt `held` tokens are in the cache."""
        return self.read * held + self.write * (prompt - held) + self.output * answer

    def __str__(self) -> str:
        """Return the name, or the three figures."""
        return self.name or f"{self.write:g},{self.read:g},{self.output:g}"


USED = "1.25 and 0.1 input tokens are used for a token written and one read, as Anthropic's are"
DEFAULT = Prices(name="unknown", note=f"the prices are not known: {USED}")
# Lists for comparison, by the providers whose prices are like that.
LISTS: Mapping[str, Prices] = {
    each.name: each
    for each in (
        Prices(1.25, 0.1, 5, "anthropic"),
        Prices(1.25, 0.05, 5, "anthropic-0.05"),
        Prices(1.25, 0.025, 5, "anthropic-0.025"),
        Prices(1, 0.25, 4, "openai-0.25"),
        Prices(1, 0.1, 8, "openai-old"),
        Prices(1, 0.5, 4, "openai-0.5"),
        Prices(1, 0.02, 4, "deepseek"),
        Prices(1, 1, 4, "no-cache"),
    )
}


def prices(given: "Prices | str | tuple[float, ...] | None", model: str | None = None) -> Prices:
    """Return prices as they are given: a list's name, figures such as "1.25,0.1", or None for those of a model.

    Raises SettingsError for a name that no list has, and for figures that cannot be prices.
    """
    if isinstance(given, Prices):
        return given
    if given is None:
        return of_model(model) if model else DEFAULT
    if isinstance(given, str):
        if given in LISTS:
            return LISTS[given]
        figures = _figures(given)
        if figures is None:
            raise SettingsError(
                f"there is no price list {given!r}{did_you_mean(given, LISTS)}; there are {', '.join(LISTS)}, or give "
                "the price of a written and a read token in input tokens, such as 1.25,0.1"
            )
        return _of_figures(figures)
    if not 2 <= len(given) <= 3:
        raise SettingsError(f"prices of {given!r}: give (write, read) or (write, read, output)")
    return _of_figures(given)


def _of_figures(figures: Sequence[float]) -> Prices:
    """Return the prices of a written and a read token, and perhaps one of the answer."""
    write, read, *output = figures
    return Prices(write, read, output[0]) if output else Prices(write, read)


def _figures(text: str) -> tuple[float, ...] | None:
    try:
        found = tuple(float(each) for each in text.split(","))
    except ValueError:
        return None
    return found if 2 <= len(found) <= 3 else None


def of_model(model: str, provider: str | None = None, when: datetime | None = None) -> Prices:
    """Return the prices of a model by genai-prices; the default ones, with a note, where it does not know them.

    Of prices that rise with the prompt's size the first are taken. A vendor that names no price for a token written to
    the cache takes that of an input token, and one that names none for reading has no cache.
    """
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, info = get_snapshot().find_provider_model(model.rpartition("/")[2], None, provider, None)
    except LookupError:
        return Prices(name=model, note=f"the prices of {model!r} are not known: {USED}")
    found: Any = info.get_prices(when or datetime.now(UTC))
    base = _price(found.input_mtok)
    if not base:
        return Prices(name=model, note=f"{model!r} has no price for its input: {USED}")
    written, read = _price(found.cache_write_mtok) or base, _price(found.cache_read_mtok)
    answer = _price(found.output_mtok)
    return Prices(written / base, (read if read else written) / base, answer / base, model, base / 1_000_000)


def _price(value: Any) -> float:
    """Return a price for a million tokens; 0 for none."""
    known = getattr(value, "base", value)
    return float(known) if isinstance(known, int | float | Decimal) else 0.0


# Pauses: how long a provider's cache was left alone.


NUMBERS = (int, float)


def checked_pauses(pauses: Mapping[int, float] | None) -> Mapping[int, float]:
    """Return pauses in seconds, by the index of the message before which they lie. Raises SettingsError for others."""
    if pauses is not None and not isinstance(pauses, Mapping):
        raise SettingsError(f"pauses is {pauses!r}: give seconds by the index of a message, as Pauses does")
    for at, seconds in (pauses or {}).items():
        is_pause = isinstance(seconds, NUMBERS) and type(seconds) is not bool and 0 <= seconds < math.inf
        if type(at) is not int or at < 0 or not is_pause:
            raise SettingsError(
                f"a pause of {seconds!r} before message {at!r}: give seconds, 0 or more, by the index of a message"
            )
    return pauses or {}


class Pauses:
    """Records the pauses of a live loop: the seconds between a request and the one before it.

    `pauses.before(messages)` in each call of `prune` notes that a request is about to be sent, and returns what is
    known so far. `as_json` and `of_json` keep the record with a conversation that is stored and taken up again.
    """

    def __init__(
        self, known: Mapping[int, float] | None = None, last: float | None = None, clock: Clock = time
    ) -> None:
        """Begin with pauses that are known, and with the time of the last request; `clock` gives seconds."""
        self._known = dict(checked_pauses(known))
        self._last = last
        self._clock = clock

    def before(self, messages: Sequence[object]) -> Mapping[int, float]:
        """Note a request that is sent now, with these messages, and return the pauses before it and earlier ones."""
        now = self._clock()
        if self._last is not None:
            self._known[len(messages)] = max(0.0, now - self._last)
        self._last = now
        return dict(self._known)

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON takes it."""
        return {"pauses": {str(at): seconds for at, seconds in self._known.items()}, "last": self._last}

    @classmethod
    def of_json(cls, record: Mapping[str, Any], clock: Clock = time) -> "Pauses":
        """Return the record that `as_json` wrote."""
        return cls({int(at): seconds for at, seconds in record["pauses"].items()}, record["last"], clock)
