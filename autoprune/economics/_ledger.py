"""The ledger: the savings and costs of each prune, updated at each request. Counts no tokens itself.

How it works: compare each sent request with the same request without any prune. Both prompts are read from the cache up
to their first difference from the previous one, and written after it; with cache marks, up to the last stored prefix
before that difference which a mark finds. A prune that makes a prompt smaller by k tokens, and makes the cache store A
tokens again (those after that point, and placeholders)

    costs (write - read) · A    at its own request, and
    saves read · k              at its own request and each later one, or write · k if the cache is cold.

Tokens that it removes before they were ever sent save the price of writing once. The differences of all requests equal
the sums of all prunes, to the token. Two costs are in neither prompt and are added: the usage of models that write
summaries, and results that were cleared and fetched again.

If prices have tiers, all of these are multiplied by the tier of the prompt that was sent. A prompt that would be in a
higher tier without prunes saves the difference, which is divided among the prunes by the tokens that each removed.

A conversation may branch, and its branches may continue in turns. Each request is compared with the earlier one that it
shares most with, and only the prunes of its own branch save tokens at it.

With prices of (1.25, 0.1), clearing 1,000 tokens in front of 10,000 cached ones costs 1.15 · 10,000 = 11,500 and saves
100 at each request. It pays after 115 requests, which is `Prices.break_even(1_000, 10_000)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autoprune.economics._changes import Change, Previous, Pruned, Sent, check_pauses, find_change, shared_prefix
from autoprune.economics._entries import LedgerEntry, Total, sum_up, table
from autoprune.economics._prices import CACHE_LIFE, CALL_TOKENS, Prices, TextRatio, Tier
from autoprune.economics._prices import prices as prices_of
from autoprune.errors import SettingsError, count_noun, is_number, require_keys
from autoprune.tokens import PLAUSIBLE, is_plausible, prompt_tokens, spent_tokens

MOST_BRANCHES = 32  # of a conversation, besides the last one: each request is compared with all of them


@dataclass(frozen=True, slots=True)
class Reported:
    """The tokens of a prompt: counted here, expected to be cached, and reported by the provider.

    `answers` are the counted tokens of the model's messages in it, None if unknown, and `output` those of its answer as
    reported.
    """

    request: int
    counted: int
    expected: int
    prompt: int
    cached: int
    answers: int | None = None
    output: int = 0


class Ledger:
    """Records the savings and costs of each prune in a live loop.

    Call `ledger.add(result)` with the result of `prune` before each request; `str(ledger)` is a report. `to_dict` and
    `from_dict` store the ledger with a conversation that is continued later. Assign to `prices` if the cache's life
    changes; new prices apply from the next request.
    """

    def __init__(
        self,
        prices: Prices | str | tuple[float, ...] | None = None,
        *,
        model: str | None = None,
        cache_life: float | None = None,
    ) -> None:
        """Set prices, or look up a model's; `cache_life` is in seconds. Raises SettingsError for impossible prices."""
        if cache_life is not None and not is_number(cache_life, 0, int | float):
            raise SettingsError(f"cache_life is {cache_life!r}: give the seconds that the cache lives, 0 or more")
        self.prices = prices_of(prices, model, cache_life)
        self.requests = 0
        self.reported: tuple[Reported, ...] = ()
        self.unused: tuple[Reported, ...] = ()  # usage that cannot be true
        self._entries: list[LedgerEntry] = []
        self._scaled: tuple[LedgerEntry, ...] | None = None  # in the provider's tokens, until the next request
        self._bill = 0.0  # the cost of all prompts that were sent, in input tokens
        self._before: Previous | None = None
        self._active: frozenset[int] = frozenset()  # the entries of the branch of the last request
        self._others: tuple[tuple[Previous, frozenset[int]], ...] = ()  # the last prompts of other branches, and theirs
        self._thinking = 0  # tokens that have become invalid
        # By the digest of an answer with valid thinking: its tokens as reported, and as counted.
        self._answers: dict[str, tuple[int, int]] = {}
        self._cleared: dict[str, int] = {}  # digest of a result -> index of the entry that cleared it

    def add(
        self, result: Pruned, *, usage: object = None, pauses: Mapping[int, float] | None = None, aside: bool = False
    ) -> None:
        """Record the result of a prune whose conversation is sent now. Call this once for each request, pruned or not.

        `usage` is the provider's report for the answer to the previous request. `pauses` are the pauses given to
        `prune`; after a pause longer than the cache's life nothing is cached. A usage whose prompt is not between 0.5
        and 4 times the counted tokens is not used: it goes to `unused` and not to `reported`. After a request `aside`,
        such as a client's own compaction, the conversation continues from the request before it.

        Raises SettingsError if `result` is not a result of `prune`, for impossible pauses, and for a usage without
        input tokens.
        """
        now = getattr(result, "sent", None)
        if not isinstance(now, Sent):
            raise SettingsError(f"the ledger was given {type(result).__name__}: give the Result of prune()")
        pause = check_pauses(pauses).get(len(now.given), 0.0)
        self._record_usage(usage)
        self.requests += 1
        before, others = (self._before, self._active, self._cleared, self._thinking), self._others
        is_cold = pause > self.prices.life
        change = find_change(self._find_branch(now), now, is_cold=is_cold)
        if change.is_other:  # the prunes of the previous conversation neither save nor cost anything from now on
            self._entries = [replace(entry, is_over=True) for entry in self._entries]
            self._cleared, self._thinking, self._answers = {}, 0, {}
            self._active, self._others = frozenset(), ()
        self._record_answer(now)
        gained = self._gained
        times = self._times(change.now.tokens)
        # A conversation that an earlier process began is cached without pruning as well, unless its cache has expired.
        is_warm = change.is_warm or (self._before is None and pause > 0 and not is_cold)
        price = times * (self.prices.read if is_warm else self.prices.write)
        self._entries = [
            entry.after_request(price) if at in self._active else entry for at, entry in enumerate(self._entries)
        ]
        self._charge_fetched(now)
        self._record_change(now, change, price, times * (self.prices.write - self.prices.read), is_cold=is_cold)
        self._before = change.now
        cost = times * (self.prices.read * change.now.held + self.prices.write * (change.now.tokens - change.now.held))
        self._bill += cost
        higher = self._times(change.now.tokens + change.now.saved) / times - 1
        self._share_tier_savings(higher * (cost + self._gained - gained))
        if aside:
            self._others = ((change.now, self._active), *others)[:MOST_BRANCHES]
            self._before, self._active, self._cleared, self._thinking = before
        self._scaled = None

    def _find_branch(self, now: Sent) -> Previous | None:
        """Return the earlier prompt that a request shares most with, and switch to its branch.

        If the request does not continue that prompt, it begins another branch.
        """
        if self._before is None:
            return None
        branches = [(self._before, self._active), *self._others]
        best = max(branches, key=lambda each: shared_prefix(each[0], now)[0])
        _, continues = shared_prefix(best[0], now)
        self._others = tuple(each for each in branches if each is not best or not continues)[:MOST_BRANCHES]
        self._active = best[1]
        return best[0]

    @property
    def _gained(self) -> float:
        """The tokens that prunes have saved so far, less the cost of writing the cache again."""
        return sum(entry.saved - entry.rewriting for entry in self._entries)

    def _times(self, prompt: int) -> float:
        """Return the factor by which the tier of a prompt, in counted tokens, raises the price of its tokens."""
        return self.prices.tier(prompt * self.tokens_per_counted).prompt

    def _share_tier_savings(self, saved: float) -> None:
        """Divide what a request saved by being in a lower tier among the prunes, by the tokens that each removed."""
        shares = [max(0, entry.smaller_by) if at in self._active else 0 for at, entry in enumerate(self._entries)]
        whole = sum(shares)
        if not saved or not whole:
            return
        self._entries = [
            replace(entry, saved=entry.saved + saved * share / whole)
            for entry, share in zip(self._entries, shares, strict=True)
        ]

    @property
    def tokens_per_counted(self) -> float:
        """The provider's tokens per counted token, over the requests whose usage is known; 1.0 if there are none."""
        counted = sum(each.counted for each in self.reported)
        return sum(each.prompt for each in self.reported) / counted if counted else 1.0

    @property
    def tokens_per_text(self) -> float:
        """The provider's tokens per counted token of a result, from how prompts grew; that of all tokens if unknown."""
        learned = TextRatio()
        for each in self.reported:
            text = None if each.answers is None else each.counted - each.answers
            learned.add(each.request, each.prompt, text, each.output)
        return learned.value or self.tokens_per_counted

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All prunes, oldest first, in the provider's tokens if its usage was given."""
        if self._scaled is None:
            ratio, text = self.tokens_per_counted, self.tokens_per_text
            self._scaled = tuple(entry.scale(ratio, text) for entry in self._entries)
        return self._scaled

    @property
    def total(self) -> Total:
        """The sum of all prunes, as if they were one prune at the first request."""
        return sum_up(self.entries, self.prices, self.requests)

    @property
    def cold(self) -> Total:
        """The sum of the prunes made after the cache had expired, when the prompt had to be written anyway."""
        return sum_up(tuple(each for each in self.entries if each.is_cold), self.prices, self.requests)

    @property
    def unpruned(self) -> float:
        """The expected cost of all prompts without any prune, in input tokens."""
        total = self.total
        return self._bill * self.tokens_per_counted + total.saved - total.rewriting

    def __str__(self) -> str:
        """Format a table of at most 80 columns, with a legend and a summary in sentences."""
        ratios = self.tokens_per_counted, self.tokens_per_text
        return table(self.total, self.cold, _reconcile(self.reported, self.unused, *ratios))

    def to_dict(self) -> dict[str, object]:
        """Convert the ledger to JSON-compatible values."""
        return {
            "prices": asdict(self.prices) | {"tiers": [asdict(each) for each in self.prices.tiers]},
            "requests": self.requests,
            "entries": [entry.to_dict() for entry in self._entries],
            "cleared": dict(self._cleared),
            "reported": [asdict(each) for each in self.reported],
            "unused": [asdict(each) for each in self.unused],
            "bill": self._bill,
            "thinking": self._thinking,
            "answers": {digest: [*tokens] for digest, tokens in self._answers.items()},
            "before": self._before and self._before.to_dict(),
            "active": sorted(self._active),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Ledger":
        """Create a ledger from the output of `to_dict`. Raises SettingsError if a key is missing."""
        with require_keys("the record of a ledger"):
            life = record.get("cache_life", CACHE_LIFE)  # earlier versions stored it outside the prices
            tiers = tuple(Tier(**each) for each in record["prices"].get("tiers", ()))
            ledger = cls(Prices(**{"life": life, **record["prices"], "tiers": tiers}))
            ledger.requests = record["requests"]
            ledger._entries = [LedgerEntry.from_dict(each, ledger.prices) for each in record["entries"]]
            ledger._cleared = dict(record["cleared"])
            ledger.reported = tuple(Reported(**each) for each in record["reported"])
            ledger.unused = tuple(Reported(**each) for each in record.get("unused", ()))
            ledger._bill = record.get("bill", 0.0)  # like the next one, missing in records of earlier versions
            ledger._thinking = record.get("thinking", 0)
            ledger._answers = {digest: (known, seen) for digest, (known, seen) in record.get("answers", {}).items()}
            ledger._before = record["before"] and Previous.from_dict(record["before"])
            unfinished = (at for at, entry in enumerate(ledger._entries) if not entry.is_over)
            ledger._active = frozenset(record.get("active", unfinished))
        return ledger

    def _record_usage(self, usage: object) -> None:
        """Record the usage of the previous request, beside the tokens that were counted and expected."""
        if usage is None:
            return
        if self._before is None:
            raise SettingsError(
                "usage belongs to the previous request, and there was none: give None for the first request"
            )
        prompt, cached = prompt_tokens(usage)
        before = self._before
        reported = Reported(
            self.requests,
            counted=before.tokens,
            expected=before.held,
            prompt=prompt,
            cached=min(cached, prompt),
            answers=before.answers,
            output=spent_tokens(usage) - prompt,
        )
        if before.tokens and is_plausible(prompt / before.tokens):
            self.reported = (*self.reported, reported)
        else:
            self.unused = (*self.unused, reported)

    def _record_answer(self, now: Sent) -> None:
        """Record the size of the previous request's answer, if there is thinking in it."""
        known = self.reported[-1] if self.reported else None
        if now.thought and known and known.request == self.requests - 1 and known.output:
            digest, counted = now.thought
            self._answers[digest] = known.output, counted

    def _take_withheld(self, lost: Sequence[str]) -> int:
        """Count the thinking without a text in answers that became invalid: their output that is not visible."""
        invalid = [self._answers.pop(each) for each in lost if each in self._answers]
        return round(sum(max(0.0, output / self.tokens_per_text - counted) for output, counted in invalid))

    def _charge_fetched(self, now: Sent) -> None:
        """Charge prunes for cleared results that were fetched again: one more request, and the tokens written."""
        again = {mark: tokens for mark, tokens in now.fetched if mark in self._cleared}
        prompt = self._before.tokens if self._before else 0
        for mark, tokens in again.items():
            # One request fetches all results that arrive together, so they share its cost.
            fetching = self._times(prompt) * self.prices.read * prompt + self.prices.output * CALL_TOKENS
            cost = fetching / len(again) + self._times(prompt) * self.prices.write * tokens
            number = self._cleared[mark]
            self._entries[number] = self._entries[number].after_reread(tokens, cost)
        if again:
            self._cleared = {mark: number for mark, number in self._cleared.items() if mark not in again}

    def _record_change(self, now: Sent, found: Change, price: float, more: float, *, is_cold: bool) -> None:
        """Record a change as a new prune, or add it to the newest prune if no more tokens were removed.

        A token that stays in the prompt costs `price` at this request, and writing it instead of reading it `more`.
        """
        summarizing = self._summarizing(now)
        thinking, self._thinking = max(0, now.thinking - self._thinking), now.thinking
        thinking += self._take_withheld(now.lost)
        # A rewrite is added to the newest open prune. If there is none, it gets a new entry.
        newest = max(self._active, default=None)
        if found.removed or summarizing or (found.rewritten and newest is None):
            entry = LedgerEntry(
                prices=self.prices,
                request=self.requests,
                removed=found.removed + now.placeholders,
                placeholders=now.placeholders,
                rewritten=found.rewritten,
                unsent=found.unsent,
                thinking=thinking,
                saved=price * found.removed + more * found.unsent,
                rewriting=more * found.rewritten,
                summarizing=summarizing,
                is_cold=is_cold,
            )
            # A result that is cleared again is still charged to the prune that cleared it first.
            self._cleared = {**dict.fromkeys(now.cleared, len(self._entries)), **self._cleared}
            self._active |= {len(self._entries)}
            self._entries.append(entry)
        elif newest is not None and (found.rewritten or thinking):
            last = self._entries[newest].after_rewrite(found.rewritten, more)
            self._entries[newest] = replace(last, thinking=last.thinking + thinking)

    def _summarizing(self, now: Sent) -> float:
        """Compute the cost of summarizing models in input tokens, from dollars if both cost and price are known."""
        if now.model_cost is not None and self.prices.input_price:
            return now.model_cost / self.prices.input_price
        return now.model_input + self.prices.output * now.model_output


def _reconcile(reported: tuple[Reported, ...], unused: tuple[Reported, ...], ratio: float, text: float) -> str:
    """Write sentences that compare the provider's usage with the counted tokens; "" if there is no usage."""
    sentences = []
    if reported:
        sentences.append(
            f"{_usage_sums(reported)} {sum(each.cached for each in reported):,} of them from its cache; "
            f"{sum(each.counted for each in reported):,} were counted, and "
            f"{sum(each.expected for each in reported) * ratio:,.0f} expected from the cache. Each counted token is "
            f"taken as {ratio:.3f} of the provider's{'' if text == ratio else f', and one of a result as {text:.3f}'}."
        )
    if unused:
        sentences.append(
            f"{_usage_sums(unused)} and {sum(each.counted for each in unused):,} were counted. This usage is not "
            f"used: it is not between {PLAUSIBLE[0]:g} and {PLAUSIBLE[1]:g} times the count."
        )
    return " ".join(sentences)


def _usage_sums(found: tuple[Reported, ...]) -> str:
    requests = count_noun(len(found), "request")
    return f"For {requests} the provider reported {sum(each.prompt for each in found):,} prompt tokens,"
