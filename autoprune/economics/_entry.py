"""One prune in a ledger: what it has saved so far and what it has cost, and that in words."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

from autoprune.economics._prices import Prices

NOISE = 6  # decimals of an input token: sums of floating point numbers are no more exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A prune. `saved`, `rewriting`, `rereading`, `summarizing` and `net` are in input tokens, others in plain tokens.

    `request` is the number of the request that it was made at, from 1, and `requests` how many it has lasted for, that
    one included. `removed` are the tokens that it took out, and `placeholders` those that took their place.
    `rewritten` are tokens written to the cache anew, placeholders among them, which costs `rewriting` more than to read
    them. `unsent` are removed tokens that had never been sent. Of what was removed `rereads` results were fetched
    again, which are `refetched` tokens. `is_over` says that the conversation has not gone on. `is_cold` says that the
    cache had died before the request, so that the rewrite was paid for anyway.
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
        """The tokens that it saves at each request to come; none once the conversation is over."""
        return 0 if self.is_over else self.smaller_by - self.refetched

    @property
    def net(self) -> float:
        """What was saved so far, less all costs."""
        return round(self.saved - self.rewriting - self.rereading - self.summarizing, NOISE)

    @property
    def money(self) -> float | None:
        """The net in dollars; None where the price of an input token is not known."""
        price = self.prices.input_price
        return None if price is None else self.net * price

    @property
    def pays_from(self) -> float:
        """The number of the request from which on it pays; infinite where it never will."""
        now = self.request + self.requests - 1
        if self.net >= 0:
            return now
        each = self.prices.read * self.lasting
        return math.inf if each <= 0 else now + math.ceil(round(-self.net / each, NOISE))

    @property
    def verdict(self) -> str:
        """Say of a prune that lost money how much, and from when on it pays; "" of any other."""
        if self.net >= 0:
            return ""
        lost = f"{'' if self.is_over else 'so far '}lost money: {amount(-self.net, self.prices)}"
        if self.is_over:
            return f"The prune at request {self.request} {lost}."
        pays = "it never pays" if self.pays_from == math.inf else f"it pays from request {self.pays_from:,} on"
        return f"The prune at request {self.request} has {lost}; {pays}."

    def gone_on(self, price: float) -> "Entry":
        """Return it after one more request, at which a token that stays in the prompt costs `price`."""
        if self.is_over:
            return self
        saved, rereading = self.saved + price * self.smaller_by, self.rereading + price * self.refetched
        return replace(self, requests=self.requests + 1, saved=saved, rereading=rereading)

    def fetched_again(self, tokens: int, cost: float) -> "Entry":
        """Return it after a result that it cleared was fetched again, which costs so many input tokens at once."""
        refetched, rereading = self.refetched + tokens, self.rereading + cost
        return replace(self, rereads=self.rereads + 1, refetched=refetched, rereading=rereading)

    def rewritten_by(self, tokens: int, price: float) -> "Entry":
        """Return it with tokens that are written anew because of it, for `price` each; below zero, that need not be."""
        if tokens < 0:
            return replace(self, saved=self.saved - price * tokens)
        return replace(self, rewritten=self.rewritten + tokens, rewriting=self.rewriting + price * tokens)

    def scaled(self, ratio: float) -> "Entry":
        """Return it in tokens of the provider's, which are `ratio` for each counted one. Summaries are in them."""
        tokens = {name: round(getattr(self, name) * ratio) for name in TOKENS}
        costs = {name: getattr(self, name) * ratio for name in COSTS}
        return replace(self, **tokens, **costs)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON takes it, without prices."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def of_json(cls, record: dict[str, Any], prices: Prices) -> "Entry":
        """Return what `as_json` wrote."""
        known = (name for name in NAMES if name in record or name not in ADDED)
        return cls(prices=prices, **{name: record[name] for name in known})


NAMES = tuple(each.name for each in fields(Entry) if each.name != "prices")
ADDED = ("is_cold",)  # which older records lack
TOKENS = ("removed", "placeholders", "rewritten", "unsent", "refetched")
COSTS = ("saved", "rewriting", "rereading")
SUMS = (*TOKENS, "rereads", *COSTS, "summarizing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Total(Entry):
    """The sum of prunes, as of one at the first request. `entries` are those that it is the sum of."""

    entries: tuple[Entry, ...] = field(default=(), repr=False)

    @property
    def lasting(self) -> int:
        """The tokens that they save at each request to come: those of conversations that are not over."""
        return sum(each.lasting for each in self.entries)


def total(entries: tuple[Entry, ...], prices: Prices, requests: int) -> Total:
    """Return the sum of prunes, as of a prune at the first of so many requests."""
    sums: dict[str, Any] = {name: sum(getattr(each, name) for each in entries) for name in SUMS}
    return Total(prices=prices, request=1, requests=requests, entries=entries, **sums)


def amount(tokens: float, prices: Prices) -> str:
    """Return input tokens in words, with their price where it is known."""
    price = prices.input_price
    return f"{tokens:,.0f} input tokens" + ("" if price is None else f" (${tokens * price:,.4f})")
