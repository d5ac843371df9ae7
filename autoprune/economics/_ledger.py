"""The ledger: what each prune has saved and what it has cost, kept request by request. Counts nothing itself.

How it works. Let each request that was sent be compared with the one that would have been sent without any prune. Both
prompts are read from the cache as far as they begin as the one before did, and written behind that. A prune that makes
a prompt smaller by k tokens and has A tokens written anew (those behind the first change, and the placeholders) costs

    (write - read) · A      at its own request, and saves
    read · k                at its own request and at each later one; write · k where the cache is cold

What it removes before it was ever sent saves the price of writing there. The differences of all requests are these sums
of all prunes, to the token. Two costs are not in either prompt and come on top: what a model took to write summaries,
and results that were cleared and fetched again.

For prices of (1.25, 0.1): 1,000 tokens that go in front of 10,000 cached ones cost 1.15 · 10,000 = 11,500, and save 100
at each request, so the prune pays once 115 requests are made with it, which is `Prices.break_even(1_000, 10_000)`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from autoprune.economics._entries import Entry, table, total
from autoprune.economics._prices import CACHE_LIFE, CALL_TOKENS, Prices
from autoprune.economics._prices import prices as prices_of
from autoprune.economics._prompts import Before, Pruned, Sent, Step, checked_pauses, step
from autoprune.errors import SettingsError, is_number, whole
from autoprune.tokens import prompt_tokens


@dataclass(frozen=True, slots=True)
class Reported:
    """The prompt of a request: its counted tokens and the cached ones that are `expected`, and the provider's."""

    request: int
    counted: int
    expected: int
    prompt: int
    cached: int


class Ledger:
    """Records what each prune of a live loop has saved and what it has cost.

    `ledger.add(result)` before each request takes what `prune` returned; `str(ledger)` is the account for a person.
    `as_json` and `of_json` keep it with a conversation that is stored and taken up again. `prices` may be set to others
    where the cache's life changes: they hold from the next request on.
    """

    def __init__(
        self,
        prices: Prices | str | tuple[float, ...] | None = None,
        *,
        model: str | None = None,
        cache_life: float | None = None,
    ) -> None:
        """Begin with the prices that are given, or those of a model; `cache_life` is in seconds, where it is known.

        Raises SettingsError for prices that cannot be.
        """
        if cache_life is not None and not is_number(cache_life, 0, int | float):
            raise SettingsError(f"cache_life is {cache_life!r}: give the seconds that the cache lives, 0 or more")
        self.prices = prices_of(prices, model, cache_life)
        self.requests = 0
        self.reported: tuple[Reported, ...] = ()
        self._entries: list[Entry] = []
        self._bill = 0.0  # of the prompts as they were sent
        self._before: Before | None = None
        self._cleared: dict[str, int] = {}  # digests of results, each with the number of the entry that cleared it

    def add(self, result: Pruned, *, usage: object = None, pauses: Mapping[int, float] | None = None) -> None:
        """Take the result of a prune, whatever it did, whose conversation is sent now. Call it once for each request.

        `usage` is what the provider reported with the answer to the previous request, where it is known. `pauses` are
        those that `prune` takes; after one longer than the cache's life nothing is cached. Raises SettingsError for
        what is no result, for pauses that cannot be, and for a usage that names no input tokens.
        """
        now = getattr(result, "sent", None)
        if not isinstance(now, Sent):
            raise SettingsError(f"the ledger takes the Result of prune(), and was given {type(result).__name__}")
        pause = checked_pauses(pauses).get(len(now.given), 0.0)
        self._report(usage)
        self.requests += 1
        is_cold = pause > self.prices.life
        found = step(self._before, now, is_cold=is_cold)
        if found.is_other:
            self._close()
        price = self.prices.read if found.is_warm else self.prices.write
        self._entries = [entry.after_request(price) for entry in self._entries]
        self._charge_fetched(now)
        self._enter(now, found, price, is_cold=is_cold)
        self._before = found.now
        self._bill += self.prices.request(found.now.tokens, found.now.held)

    @property
    def tokens_per_counted(self) -> float:
        """The provider's tokens for each counted one, over the requests whose usage was given; 1.0 without any."""
        counted = sum(each.counted for each in self.reported)
        return sum(each.prompt for each in self.reported) / counted if counted else 1.0

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every prune, oldest first, in the provider's tokens where its usage was given."""
        ratio = self.tokens_per_counted
        return tuple(entry if ratio == 1.0 else entry.scale(ratio) for entry in self._entries)

    @property
    def total(self) -> Entry:
        """The sum of all prunes, as of one at the first request."""
        return total(self.entries, self.prices, self.requests)

    @property
    def cold(self) -> Entry:
        """The sum of the prunes at requests before which the cache had died: the rewrite was paid for anyway."""
        return total(tuple(each for each in self.entries if each.is_cold), self.prices, self.requests)

    @property
    def unpruned(self) -> float:
        """What all prompts would have cost without any prune, in input tokens, with the cache as it is expected."""
        known = self.total
        return self._bill * self.tokens_per_counted + known.saved - known.rewriting

    def __str__(self) -> str:
        """Return a table of at most 80 columns, what its columns mean, and what came of it in words."""
        return table(self.entries, self.total, _reconciled(self.reported, self.tokens_per_counted))

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON takes it."""
        return {
            "prices": asdict(self.prices),
            "requests": self.requests,
            "entries": [entry.as_json() for entry in self._entries],
            "cleared": dict(self._cleared),
            "reported": [asdict(each) for each in self.reported],
            "bill": self._bill,
            "before": self._before and self._before.as_json(),
        }

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> "Ledger":
        """Return the record that `as_json` wrote. Raises SettingsError where a key is missing."""
        with whole("the record of a ledger"):
            older = record.get("cache_life", CACHE_LIFE)  # stood beside the prices before it was one of them
            made = cls(Prices(**{"life": older, **record["prices"]}))
            made.requests = record["requests"]
            made._entries = [Entry.of_json(each, made.prices) for each in record["entries"]]
            made._cleared = dict(record["cleared"])
            made.reported = tuple(Reported(**each) for each in record["reported"])
            made._bill = record.get("bill", 0.0)  # older records have none
            made._before = record["before"] and Before.of_json(record["before"])
        return made

    # What a request does

    def _report(self, usage: object) -> None:
        """Keep what the provider reported of the previous request beside what is expected."""
        if usage is None:
            return
        if self._before is None:
            raise SettingsError("usage is that of the answer to the previous request, and there was none: give None")
        prompt, cached = prompt_tokens(usage)
        known = Reported(self.requests, self._before.tokens, self._before.held, prompt, cached)
        self.reported = (*self.reported, known)

    def _close(self) -> None:
        """End the conversation so far: no prune of it saves or costs any more."""
        self._entries = [replace(entry, is_over=True) for entry in self._entries]
        self._cleared = {}

    def _charge_fetched(self, now: Sent) -> None:
        """Charge the results that were cleared and are fetched again: one more request, and what is written anew."""
        again = {mark: tokens for mark, tokens in now.fetched if mark in self._cleared}
        prompt = self._before.tokens if self._before else 0
        for mark, tokens in again.items():
            # Those that were fetched together were so by one request.
            cost = self.prices.request(prompt, prompt, CALL_TOKENS) / len(again) + self.prices.write * tokens
            number = self._cleared[mark]
            self._entries[number] = self._entries[number].after_reread(tokens, cost)
        if again:
            self._cleared = {mark: number for mark, number in self._cleared.items() if mark not in again}

    def _enter(self, now: Sent, found: Step, price: float, *, is_cold: bool) -> None:
        """Enter what this request changed: as a prune, or with the newest one where nothing more was removed."""
        more = self.prices.write - self.prices.read
        summarizing = self._summarizing(now)
        is_open = bool(self._entries) and not self._entries[-1].is_over
        if found.removed or summarizing or (found.rewritten and not is_open):
            made = Entry(
                prices=self.prices,
                request=self.requests,
                removed=found.removed + now.placeholders,
                placeholders=now.placeholders,
                rewritten=found.rewritten,
                unsent=found.unsent,
                saved=price * found.removed + more * found.unsent,
                rewriting=more * found.rewritten,
                summarizing=summarizing,
                is_cold=is_cold,
            )
            self._cleared = {**dict.fromkeys(now.cleared, len(self._entries)), **self._cleared}
            self._entries.append(made)
        elif found.rewritten:
            self._entries[-1] = self._entries[-1].after_rewrite(found.rewritten, more)

    def _summarizing(self, now: Sent) -> float:
        """Return what was asked of a model, in input tokens: by its cost in dollars if that is known."""
        if now.model_cost is not None and self.prices.input_price:
            return now.model_cost / self.prices.input_price
        return now.model_input + self.prices.output * now.model_output


def _reconciled(reported: tuple[Reported, ...], ratio: float) -> str:
    """Say what the provider reported, and what was expected; "" where its usage is not known."""
    if not reported:
        return ""
    prompt, cached, counted, expected = (
        sum(getattr(each, name) for each in reported) for name in ("prompt", "cached", "counted", "expected")
    )
    return (
        f"For {len(reported):,} requests the provider reported {prompt:,} prompt tokens, {cached:,} of them from its "
        f"cache; {counted:,} were counted, and {expected * ratio:,.0f} expected from the cache. Each counted token is "
        f"taken as {ratio:.3f} of the provider's."
    )
