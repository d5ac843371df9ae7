"""Keep two bills of a session, unpruned and pruned, so that clearing never makes the session dearer.

The unpruned bill is that of the requests so far as if nothing had been cleared, and the pruned bill that of the
requests as sent. Clearing is allowed if the pruned bill, with this request, stays at most the unpruned one, or if it
makes this request no dearer. A request without a new cut is never dearer than the unpruned one: its prompt is smaller,
has as few tokens that are not cached, and is in no higher tier. So by induction the pruned bill is at most the unpruned
bill at every request, also if the session ends there, and no forecast is needed.

The premises: a cached token costs no more than a written one, a placeholder has fewer tokens than what it replaces, a
price does not fall with the size of the prompt, all requests go to one model, and a pruned prompt is cached whenever
the unpruned one would be. For the last one, a voluntary cut leaves `LEAST_CACHED` tokens. Answers are left out: a
higher tier only makes them dearer.

Some providers store cache entries only at marks, which agents set at the end of each request. So the cached prefix of a
changed prompt ends at an earlier request, and a change removes the entries after it.

If the caller knows what the provider charged for a request, the invoice replaces the expected cost in the pruned bill.
The unpruned bill gets the same hits and misses: each prefix that was read for the pruned prompt counts as read. So a
cache that forgets or never stores a prompt does not break the promise. One that lives longer than assumed may: a cut
that was expected to cost nothing then did. Until the bills are level, only cuts follow that make their request no
dearer. What was cleared counts at the size of results, which the invoices show too (`TextRatio`): prompts also hold
thinking that is not counted here, and with their ratio the unpruned bill would be too high.

In pruned output that is passed back, placeholders say when they were written and how many tokens they replaced. With
these, both bills are added up as before.

Results that were chosen to be cleared are a mapping to their placeholders, those worth least first.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.transcript import Speaker
from autoprune.economics import WARM, Invoice, Prices, TextRatio
from autoprune.errors import count_noun
from autoprune.planning.view import Candidate, View

# Tokens. Source: Anthropic's and Google's documentation of prompt caching; the largest minimum of any model.
LEAST_CACHED = 4_096
TIER_MARGIN = 0.03  # share by which the estimated size of a prompt may be wrong


@dataclass(frozen=True, slots=True)
class Cut:
    """A change of the prompt at a request: the index of the first message that changes, and the tokens saved."""

    first: float = inf
    saves: int = 0

    def __or__(self, other: "Cut") -> "Cut":
        return Cut(min(self.first, other.first), self.saves + other.saves)


class Bills:
    """The two bills of one walk, in input tokens. `excess` is the share by which the pruned one may be higher."""

    def __init__(self, prices: Prices, excess: float = 0.0) -> None:
        self.reprice(prices)
        self.unpruned = self.pruned = 0.0  # up to the previous request
        self._most = 1 + excess
        self._later: dict[int, list[tuple[int, int]]] = {}  # by request, the messages and savings of placeholders
        self._saved = 0  # tokens, by the cuts of earlier requests
        self._entries: list[int] = []  # cached prefixes of the prompt, by their number of messages
        # This request:
        self._request = 0
        self._is_cold = True
        self._cut = Cut()
        self._tokens = self._new = 0  # of the prompt after the cut, and of the messages that were not sent before
        self._costs = 0.0, 0.0  # unpruned and pruned
        self._without = 0.0  # pruned, without the cut
        self._held = 0.0  # tokens that are read from the cache if it has not expired
        # What prunes remove, in tokens as large as those of the prompt, which has thinking that is not counted:
        self._sizes, self._answers, self._share = TextRatio(), 0, 1.0

    def reprice(self, prices: Prices) -> None:
        """Switch to other prices. Near the beginning of a tier, a request is assumed to gain nothing from it."""
        self._low, self._high = (prices.in_counted_tokens(1 / (1 + sign * TIER_MARGIN)) for sign in (1, -1))

    def expect(self, request: int, message: int, saves: int) -> None:
        """Record a placeholder in pruned output that is passed back: it was written at that request."""
        self._later.setdefault(request, []).append((message, saves))

    def begin(self, view: View, *, is_cold: bool) -> None:
        """Begin a request, or continue it if it is the same as before."""
        if view.request != self._request:
            self._finish(view.sent, view.invoice)
            new = range(view.sent, len(view.entries))
            self._answers += sum(view.weight(at) for at in new if view.entries[at].speaker is Speaker.MODEL)
        self._request, self._is_cold = view.request, is_cold
        for request in [each for each in self._later if each <= view.request]:
            for message, saves in self._later.pop(request):
                self._cut |= Cut(message, saves)
        self._tokens, self._new = view.tokens + self._hidden(0), self._since(view, view.sent)
        self._without = self._cost(self._low, self._tokens, self._tokens - self._new)
        self._costs, self._held = self._with(view, self._cut), self._held_with(view, self._cut)

    def allows(self, view: View, cut: Cut) -> bool:
        """Return whether one more cut at this request leaves the session no dearer than without any."""
        return self._tokens - cut.saves >= LEAST_CACHED and self.may_allow(view, cut)

    def may_allow(self, view: View, cut: Cut) -> bool:
        """Return whether a cut is allowed by its cost. If not, neither is one that starts there and saves less."""
        unpruned, pruned = self._with(view, self._cut | cut)
        return pruned <= self._without or self.pruned + pruned <= self._most * (self.unpruned + unpruned)

    def make(self, view: View, cut: Cut) -> None:
        """Record one more cut at this request, before the view changes."""
        whole = self._cut | cut
        self._costs, self._held = self._with(view, whole), self._held_with(view, whole)
        self._cut = whole
        self._tokens -= cut.saves

    def _with(self, view: View, cut: Cut) -> tuple[float, float]:
        """Compute the unpruned and the pruned cost of this request with a cut."""
        before = self._tokens + self._cut.saves
        whole = before + round(self._share * self._saved)
        unpruned = self._cost(self._low, whole, whole - self._new)
        pruned = self._cost(self._high, before - round(self._share * cut.saves), self._held_with(view, cut))
        return unpruned, pruned if cut.saves else min(unpruned, pruned)

    def _held_with(self, view: View, cut: Cut) -> float:
        """Count the tokens of the pruned prompt that a cache finds after a cut, if it has not expired."""
        if cut.first == inf:
            return self._tokens + self._cut.saves - self._new
        at = bisect_right(self._entries, cut.first)
        return max(0, self._tokens - self._since(view, self._entries[at - 1] if at else 0))

    def _cost(self, prices: Prices, tokens: int, held: float) -> float:
        return prices.request(tokens, 0 if self._is_cold else held)

    def _since(self, view: View, message: int) -> int:
        """Count the tokens of the messages from one on, with the placeholders that are not written yet."""
        return sum(map(view.weight, range(message, len(view.entries)))) + self._hidden(message)

    def _hidden(self, first: int) -> int:
        """Count the tokens that placeholders of later requests have saved, from one message on."""
        return sum(saves for each in self._later.values() for message, saves in each if message >= first)

    def _finish(self, sent: int, invoice: Invoice | None) -> None:
        """Add the request to both bills. Its prompt had `sent` messages."""
        is_lost = self._is_cold if invoice is None else not invoice.read
        if invoice:
            self._sizes.add(self._request, invoice.prompt, self._tokens - self._answers, invoice.output)
            self._share = min(1.0, (self._sizes.value or inf) * self._tokens / max(1, invoice.prompt))
        unpruned, pruned = self._costs if invoice is None else self._charged(invoice)
        self.unpruned += unpruned
        self.pruned += pruned
        self._saved += self._cut.saves
        kept = 0 if is_lost else bisect_right(self._entries, self._cut.first)
        self._entries = [*self._entries[:kept], sent]
        self._cut = Cut()

    def _charged(self, invoice: Invoice) -> tuple[float, float]:
        """Compute the unpruned and the pruned cost of the last request from its invoice.

        What was read for the pruned prompt would have been read for the unpruned one, and what was not read although it
        should have been would not. If only the cut can be the reason, the whole prompt before is taken to be cached.
        """
        share = self._tokens / max(1, invoice.prompt)
        read, unread = share * invoice.read, max(1, invoice.prompt - invoice.read)
        saved = self._share * self._saved
        whole = self._tokens + round(self._share * self._cut.saves + saved)
        held = read + saved if read else 0.0
        if self._cut.saves and (read >= WARM * self._held if self._held else read or not self._is_cold):
            held = max(held, whole - self._new)
        written = min(1.0, invoice.written / unread)
        unpruned, pruned = (
            prices.request(tokens, found) - self._unwritten(prices, tokens, (1 - written) * (tokens - found))
            for prices, tokens, found in ((self._low, whole, held), (self._high, self._tokens, read))
        )
        return unpruned, pruned if self._cut.saves else min(unpruned, pruned)

    def _unwritten(self, prices: Prices, tokens: int, unwritten: float) -> float:
        """Compute how much less than written tokens the tokens of a prompt cost that are not stored in the cache."""
        return prices.tier(tokens).prompt * max(0.0, prices.write - 1) * unwritten


Clearing: TypeAlias = dict[tuple[Candidate, str], int]  # candidates with their placeholders, and the tokens that saves

LATER = 2.0  # above the safe zone, results worth up to 2 times as much may go if that rewrites less of the cache


def total(clearing: Clearing) -> int:
    """Return the tokens that placeholders save."""
    return sum(clearing.values())


def results_text(clearing: Clearing) -> str:
    """Return the number of cleared results and the tokens saved, as text."""
    return f"{count_noun(len(clearing), 'result')} cleared, {total(clearing):,} tokens saved"


def cut_of(clearing: Clearing) -> Cut:
    """Return what placeholders change in the prompt."""
    return Cut(min(map(message_of, clearing), default=inf), total(clearing))


def largest_cut(chosen: Sequence[Candidate]) -> Cut:
    """Return a cut that saves more than any placeholders for these candidates."""
    return Cut(min(each.part.location.message for each in chosen), sum(each.result.tokens for each in chosen))


def message_of(item: tuple[Candidate, str]) -> int:
    """Return the index of the message that a placeholder goes into."""
    return item[0].part.location.message


def until(clearing: Clearing, wanted: float) -> Iterator[tuple[tuple[Candidate, str], int]]:
    """Yield placeholders until they save the wanted tokens."""
    for each, saves in clearing.items():
        if wanted <= 0:
            return
        yield each, saves
        wanted -= saves


def weigh(view: View, texts: Iterable[tuple[Candidate, str]]) -> Clearing:
    """Count the tokens that placeholders save. Placeholders that save nothing are dropped."""
    weighed = ((each, text, view.saves(each, text)) for each, text in texts)
    return {(each, text): saves for each, text, saves in weighed if saves > 0}


def outside(folds: Iterable[Fold], clearing: Clearing) -> Clearing:
    """Return the placeholders that do not stand in messages that are folded."""
    folded = {at for fold in folds for at in fold.messages}
    return {item: saves for item, saves in clearing.items() if message_of(item) not in folded}


def late_in_prompt(clearing: Clearing, worths: Mapping[Candidate, float], wanted: float) -> Clearing:
    """Choose placeholders that save `wanted` tokens: least worth first, as late in the prompt as worth allows."""
    most = LATER * max((worths.get(each, 0.0) for (each, _), _ in until(clearing, wanted)), default=0.0)
    allowed = {item: saves for item, saves in clearing.items() if worths.get(item[0], 0.0) <= most}
    late = {item: allowed[item] for item in sorted(allowed, key=message_of, reverse=True)}
    first = min((message_of(item) for item, _ in until(late, wanted)), default=0)
    return dict(until({item: allowed[item] for item in allowed if message_of(item) >= first}, wanted))


def cached_after(view: View, cut: Iterable[Candidate | Replace]) -> int:
    """Return the cached tokens that clearing results would rewrite: all tokens after the first of them."""
    saved = [(each.part.location.message, each.saves if isinstance(each, Candidate) else each.saved) for each in cut]
    first = min(at for at, _ in saved)
    cached = sum(map(view.weight, range(first + 1, view.sent)))
    return max(0, cached - sum(tokens for at, tokens in saved if first < at < view.sent))
