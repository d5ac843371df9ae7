"""The entries of a ledger, one for each prune, and the table for its report. Prints nothing."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from textwrap import fill
from typing import Any

from autoprune.economics._prices import CACHE_LIFE, Prices, life_text
from autoprune.errors import count_noun

NOISE = 6  # decimals of an input token: floating-point sums are not exact beyond these


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A prune. `saved`, `rewriting`, `rereading`, `summarizing` and `net` are in input tokens, others in plain tokens.

    `request` is the number of the request at which the prune was made, from 1, and `requests` the number of requests it
    has lasted for, including that request. `removed` are the tokens that the prune took out, and `placeholders` the
    tokens in their place. `rewritten` are tokens that were written to the cache again because of the prune, including
    placeholders; `rewriting` is the extra cost of writing them instead of reading them. `unsent` are removed tokens
    that had never been sent. `rereads` counts the removed results that were fetched again, and `refetched` their
    tokens. `thinking` are the tokens of thinking that the prune made invalid, which is part of no cost. `is_over` means
    that the conversation has ended. `is_cold` means that the cache had expired before the request, so that the prompt
    had to be written anyway.
    """

    prices: Prices = field(repr=False)
    request: int
    requests: int = 1
    removed: int = 0
    placeholders: int = 0
    rewritten: int = 0
    unsent: int = 0
    rereads: int = 0
    refetched: int = 0
    thinking: int = 0
    saved: float = 0.0
    rewriting: float = 0.0
    rereading: float = 0.0
    summarizing: float = 0.0
    is_over: bool = False
    is_cold: bool = False

    @property
    def smaller_by(self) -> int:
        """The tokens by which each later prompt is smaller."""
        return self.removed - self.placeholders

    @property
    def lasting(self) -> int:
        """The tokens that the prune saves at each future request; 0 if the conversation is over."""
        return 0 if self.is_over else self.smaller_by - self.refetched

    @property
    def net(self) -> float:
        """The savings so far minus all costs."""
        return round(self.saved - self.rewriting - self.rereading - self.summarizing, NOISE)

    @property
    def money(self) -> float | None:
        """The net savings in dollars; None if the price of an input token is not known."""
        price = self.prices.input_price
        return None if price is None else self.net * price

    @property
    def pays_from(self) -> float:
        """The number of the first request at which the prune pays; infinite if it never does."""
        now = self.request + self.requests - 1
        if self.net >= 0:
            return now
        each = self.prices.read * self.lasting
        return math.inf if each <= 0 else now + math.ceil(round(-self.net / each, NOISE))

    @property
    def verdict(self) -> str:
        """A sentence about a prune that lost money: how much, and when it pays; "" for any other prune."""
        if self.net >= 0:
            return ""
        lost = f"{'' if self.is_over else 'so far '}lost money: {amount(-self.net, self.prices)}"
        if self.is_over:
            return f"The prune at request {self.request} {lost}."
        pays = "it never pays" if self.pays_from == math.inf else f"it pays from request {self.pays_from:,} on"
        return f"The prune at request {self.request} has {lost}; {pays}."

    def after_request(self, price: float) -> "LedgerEntry":
        """Return the entry after one more request, at which each token that stays in the prompt costs `price`."""
        if self.is_over:
            return self
        saved, rereading = self.saved + price * self.smaller_by, self.rereading + price * self.refetched
        return replace(self, requests=self.requests + 1, saved=saved, rereading=rereading)

    def after_reread(self, tokens: int, cost: float) -> "LedgerEntry":
        """Return the entry after a cleared result of `tokens` was fetched again, at a cost of `cost` input tokens."""
        refetched, rereading = self.refetched + tokens, self.rereading + cost
        return replace(self, rereads=self.rereads + 1, refetched=refetched, rereading=rereading)

    def after_rewrite(self, tokens: int, price: float) -> "LedgerEntry":
        """Return the entry after the prune caused `tokens` to be written to the cache, for `price` each.

        Negative `tokens` mean that the prune avoided a rewrite.
        """
        if tokens < 0:
            return replace(self, saved=self.saved - price * tokens)
        return replace(self, rewritten=self.rewritten + tokens, rewriting=self.rewriting + price * tokens)

    def scale(self, ratio: float, text: float) -> "LedgerEntry":
        """Convert the entry to the provider's tokens: `ratio` per counted token, and `text` for one of a result.

        Prunes remove and fetch results, and rewrite messages of all kinds. The cost of summaries needs no conversion.
        """
        ratios = {name: ratio if name in REWRITING else text for name in (*TOKENS, *COSTS)}
        tokens: dict[str, Any] = {name: round(getattr(self, name) * ratios[name]) for name in TOKENS}
        return replace(self, **tokens, **{name: getattr(self, name) * ratios[name] for name in COSTS})

    def to_dict(self) -> dict[str, object]:
        """Convert the entry to JSON-compatible values, without prices."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def from_dict(cls, record: dict[str, Any], prices: Prices) -> "LedgerEntry":
        """Create an entry from the output of `to_dict`."""
        values = {"is_cold": False, "thinking": 0, **record}  # earlier versions did not record these
        return cls(prices=prices, **{name: values[name] for name in NAMES})


NAMES = tuple(each.name for each in fields(LedgerEntry) if each.name != "prices")
TOKENS = ("removed", "placeholders", "rewritten", "unsent", "refetched", "thinking")
REWRITING = ("rewritten", "rewriting")
COSTS = ("saved", "rewriting", "rereading")
SUMS = (*TOKENS, "rereads", *COSTS, "summarizing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(LedgerEntry):
    """The sum of `entries`, as if they were one prune at the first request."""

    entries: tuple[LedgerEntry, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        """Say what all prunes together saved or lost."""
        return f"In {count_noun(self.requests, 'request')}, {self.summary()} in all."

    def summary(self, of: str = "") -> str:
        """Say how many prunes there were, of which ones, and what they saved or lost together."""
        did = "lost" if self.net < 0 else "saved"
        return f"{count_noun(len(self.entries), 'prune')} {of}{did} {amount(abs(self.net), self.prices)}"

    @property
    def lasting(self) -> int:
        """The tokens that the prunes save at each future request, in conversations that are not over."""
        return sum(each.lasting for each in self.entries)


def sum_up(entries: tuple[LedgerEntry, ...], prices: Prices, requests: int) -> Total:
    """Add up prunes as if they were one prune at the first of `requests` requests."""
    sums: dict[str, Any] = {name: sum(getattr(each, name) for each in entries) for name in SUMS}
    return Total(prices=prices, request=1, requests=requests, entries=entries, **sums)


def amount(tokens: float, prices: Prices) -> str:
    """Format a number of input tokens, with their price if it is known."""
    price = prices.input_price
    return f"{tokens:,.0f} input tokens" + ("" if price is None else f" (${tokens * price:,.4f})")


WIDTH = 80  # columns of a terminal
NAMED = 3  # prunes that lost the most, each with a sentence; the others share one
COLD = "cold"
COLUMNS: Mapping[str, Callable[[LedgerEntry], str]] = {  # ten columns of eight characters fill the width
    "removed": lambda each: short(each.removed),
    "placed": lambda each: short(each.placeholders),
    "rewrote": lambda each: short(max(0, each.rewritten - each.placeholders)),
    "lasted": lambda each: f"{each.requests:,}",
    "saved": lambda each: short(each.saved),
    "cache": lambda each: COLD if each.is_cold and not round(each.rewriting) else short(each.rewriting),
    "re-read": lambda each: short(each.rereading),
    "model": lambda each: short(each.summarizing),
    "net": lambda each: short(each.net),
}
LEGEND = """\
request: number of the request that was pruned; removed: tokens taken out
placed: tokens of placeholders, or of a summary, in their place
rewrote: tokens after the first change, which the cache had to store again
lasted: requests since then, including the first
In input tokens, each at its price -- saved: tokens that are no longer sent
cache: cost of writing placed and rewrote, beyond that of reading them
re-read: cost of fetching removed results again; model: cost of summaries
net: saved - cache - re-read - model; below zero, the prune lost money"""
THINKING_LEGEND = "thought: tokens of thinking that the prune made invalid"
COLD_LEGEND = "cold: the cache had expired, so the rewrite was paid for anyway"


def table(total: Total, cold: Total, reconciled: str) -> str:
    """Format a table of prunes and their sum, a legend of its columns, and sentences about the result.

    `cold` is the sum of the prunes made after the cache had expired.
    """
    prices = total.prices
    if not total.entries:
        sentences = [f"Nothing was pruned in {count_noun(total.requests, 'request')}.", reconciled]
        return "\n".join(fill(each, WIDTH) for each in sentences if each)
    columns = dict(COLUMNS)
    if total.thinking:
        columns["thought"] = lambda each: short(each.thinking)
        if not total.summarizing:  # to stay within the width
            del columns["model"]
    rows = [("request", [*columns])]
    rows += [(str(each.request), [cell(each) for cell in columns.values()]) for each in total.entries]
    rows += [("total", [cell(total) for cell in columns.values()])]
    lines = ["".join(f"{cell:>8}" for cell in (name, *cells)) for name, cells in rows]
    price_list = fill(f"Prices in input tokens: {_describe(prices)}.", WIDTH)
    notes = [text for text, holds in ((THINKING_LEGEND, total.thinking), (COLD_LEGEND, cold.entries)) if holds]
    lines += ["", LEGEND, *notes, price_list, ""]
    balance = f"Cold, the rewrite was paid for anyway: {cold.summary('of these ')}." if cold.entries else ""
    sentences = [*_losses(total), reconciled, str(total), balance]
    return "\n".join((*lines, *(fill(each, WIDTH, break_on_hyphens=False) for each in sentences if each)))


def short(number: float) -> str:
    """Format a number in at most seven characters: 99,999, then 100k, 10.0M, 1.0B."""
    size = abs(round(number))
    if size < 100_000:
        return f"{round(number):,}"
    if size < 9_999_500:
        return f"{number / 1_000:,.0f}k"
    return f"{number / 10**6:,.1f}M" if size < 999_950_000 else f"{number / 10**9:,.1f}B"


def _losses(total: Total) -> Iterator[str]:
    """Yield a sentence for each of the prunes that lost the most, and one sentence for all others that lost money."""
    losers = sorted((each for each in total.entries if each.net < 0), key=lambda each: each.net)
    yield from (each.verdict for each in sorted(losers[:NAMED], key=lambda each: each.request))
    if others := losers[NAMED:]:
        numbers = ", ".join(map(str, sorted(each.request for each in others)))
        lost = amount(-sum(each.net for each in others), total.prices)
        yield f"So did {len(others):,} more, {lost} together: at request{'s' if others[1:] else ''} {numbers}."


def _describe(prices: Prices) -> str:
    description = f"{prices.write:g} for one written to the cache, {prices.read:g} for one read"
    if prices.life != CACHE_LIFE:
        description += f"; the cache is taken to live {life_text(prices.life)}"
    return f"{description}{f' ({prices.note})' if prices.note else ''}"
