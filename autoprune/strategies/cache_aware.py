"""Clear what is worth least, and only when that pays: the provider's prompt cache is weighed at each request.

How it works. Three questions are asked at each request.

*What is eligible?* What is worth less than `threshold` to an agent that goes on: what is large and old, holds few names
that no call has used, and is from no file that was touched lately (`_worth` has the formula). But nothing that it is at
work on: the newest failure, and the newest read of each file that it edited in the last 20 requests.

*Does it pay?* To carry eligible results costs their tokens at the price of reading, at each request. To clear them
costs the tokens behind the first of them once, which are written anew. An account is kept of the former: when it
reaches `patience` times the latter, all that is eligible goes. After a pause longer than the cache's life nothing is
cached, and it goes for nothing. What then costs nothing more goes a little sooner: all behind the first that is worth
less than 1.3 times the threshold.

*How far?* Above the safe zone, whatever it costs, what is worth least goes first, until `target` of it is reached, and
further where prices want that: what goes should save, until the conversation has grown to the safe zone again, half of
what it costs to write anew. All of it stands as late as it can without anything that is worth more than twice as much,
since what stands before stays cached. Where placeholders leave no room for that, they lose what they name but the tool.
Where all results together leave none even so, they are not cleared at each request for nothing: those that are worth
most may take three tokens for each that is missing, up to a quarter of the safe zone.

A placeholder names the tool, its target, the result's size, and some of its fresh names. It also tells the request at
which it was written: a walk over pruned output that is fed back clears nothing because it pays at or before the newest
such request, and so comes to the same as one over the full history. Above the safe zone it clears all the
same: what the walk over the full history did there has been done, and a forged placeholder cannot keep it from that.

For a prompt of 30,000 tokens at prices of (1.25, 0.1): a result of 10,000 tokens with 20,000 cached ones behind it adds
1,000 to the account at each request, and goes when that has reached 5 · 1.15 · 20,000 = 115,000; with 2,000 behind it,
after twelve requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf, sqrt
from typing import TypeAlias

from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import CACHE_LIFE, Prices, prices
from autoprune.errors import SettingsError, check_number, is_share
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.view import Candidate, Told, View
from autoprune.strategies._cleared import mark, placeholder, short, shortened
from autoprune.strategies._worth import LEAST_TOKENS, Worth
from autoprune.strategies.at_work import AtWork

SOONER = 1.3  # of the threshold: what goes where that costs nothing more
LATER = 2.0  # times as much may be worth what goes above the safe zone, where less is written anew for it
REGAINED = 0.5  # of what a cut above the safe zone costs, before the next one
ROOM_AT_LEAST = 0.25  # of the safe zone, for results where there is no room
ROOM_FOR_MISSING = 3  # for each token that is missing; no step, so that a few tokens more or less decide nothing

Made: TypeAlias = dict[tuple[Candidate, str], int]  # candidates with their placeholders: what they save


@dataclass(frozen=True)
class CacheAware:
    """Clear what is worth least as soon as the prompt cache makes it pay, and down to `target` above the safe zone."""

    threshold: float = 2.6
    patience: float = 5
    prices: str | tuple[float, ...] | Prices | None = None
    cache_life: float = CACHE_LIFE
    target: float = 0.7
    protect: Protections = NOTHING
    name = "cache_aware"
    every_request = True

    def for_model(self, model: str | None) -> "CacheAware":
        """Return the strategy with a model's prices, where it has none of its own."""
        return self if self.prices is not None else replace(self, prices=prices(None, model))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed: prices that nobody knows."""
        note = prices(self.prices).note
        return (f"{note}; name the model, or give cache_aware(prices=(…, …))",) if note else ()

    def begin(self) -> "Account":
        """Return what one walk remembers."""
        for name in ("threshold", "patience", "cache_life"):
            check_number(name, getattr(self, name), 0, kind=int | float)
        if not is_share(self.target) or not self.target:
            raise SettingsError(f"target is {self.target!r}: give a share of the safe zone, above 0 and at most 1")
        return Account(self, prices(self.prices))

    def step(self, view: View) -> Iterator[Replace]:
        """Return what a walk that begins here clears."""
        return self.begin().step(view)


class Account:
    """What one walk remembers: what results are worth, which were cleared, and what it has cost to wait."""

    def __init__(self, strategy: CacheAware, known: Prices) -> None:
        """Begin before the first request."""
        self.name = strategy.name
        self._strategy = strategy
        self._prices = known
        self._read = 0  # messages
        self._worth, self._at_work = Worth(), AtWork()
        self._held: Mapping[ToolResult, str] = {}
        self._owed = 0.0
        self._newest_mark = -1
        self._gone: dict[int, str] = {}  # by identity, results cleared by this walk or before: the least that may stay
        self._open: Mapping[Candidate, float] = {}  # what may go at this request, and what it is worth
        self._decisions: list[str] = []

    def step(self, view: View) -> Iterator[Replace]:
        """Return nothing, or one batch of edits."""
        self._look(view)
        self._held = self._at_work.held(view.request)
        here = (each for each in view.candidates() if self._is_open(each))
        self._open = {each: self._of(each.result, view.request) for each in here}
        is_decided = self._newest_mark >= view.request
        made, why = ({}, "") if is_decided else self._paying(view)
        if view.tokens - sum(made.values()) > view.limit:
            made, why = self._fitting(view) or (made, why)
        if made:
            self._decisions.append(f"request {view.request}: {why}")
        if made or is_decided:
            self._owed = 0.0
        for candidate, text in made:
            yield candidate.replaced(text, f"{why.partition(':')[0]}, {self._figure(candidate)}")
            self._gone.setdefault(id(candidate.result), self._short(candidate.result, view.request))
            self._worth.forget(candidate.result)

    def told(self) -> Told:
        """Return the decisions with their numbers, and what each result is worth that stays."""
        worth = {each.result: figure for each, figure in self._open.items()}
        meaning = (
            f"what is worth under {self._strategy.threshold:g} may go: large, old, few names that no call has used"
        )
        decisions = (meaning, *self._decisions) if worth or self._decisions else ()
        return Told(decisions, partial(_why_kept, worth, self._held))

    def _look(self, view: View) -> None:
        """Read the messages that are new."""
        for entry in islice(view.entries, self._read, None):
            self._worth.read(entry)
            self._at_work.read(entry)
            for result in entry.results:
                if (known := mark(result)) is not None:
                    self._newest_mark = max(self._newest_mark, int(known[1]))
                    self._gone[id(result)] = shortened(result, known)
        self._read = len(view.entries)

    def _paying(self, view: View) -> tuple[Made, str]:
        """Return all that goes if that pays now, and why."""
        threshold, prices = self._strategy.threshold, self._prices
        eligible = [each for each, worth in self._open.items() if worth < threshold]
        if not eligible:
            return {}, ""
        self._owed += prices.read * sum(each.saves for each in eligible)
        cost = (prices.write - prices.read) * behind(view, eligible)
        is_cold = view.pause > self._strategy.cache_life
        if not is_cold and not (self._owed and self._owed >= self._strategy.patience * cost):
            return {}, ""
        first = 0 if is_cold else eligible[0].part.location.message
        free = (each for each, worth in self._open.items() if worth < SOONER * threshold)
        made = self._made(view, (each for each in free if each.part.location.message >= first))
        if is_cold:
            return (
                made,
                f"cold: after a pause of {view.pause:,.0f} s nothing is cached, so {_results(made)} for nothing",
            )
        return made, (
            f"pays: {_results(made)}; to carry what may go has cost {self._owed:,.0f} input tokens, to write anew what "
            f"is cached behind it costs {cost:,.0f}"
        )

    def _fitting(self, view: View) -> tuple[Made, str] | None:
        """Return what goes above the safe zone, the least worth first; nothing where that would be for nothing."""
        order = sorted(self._open, key=self._open.__getitem__)
        every = self._made(view, order)
        if (floor := view.tokens - sum(every.values())) > view.limit:
            every = self._shortest(view, order)
            floor = view.tokens - sum(every.values())
        missing = max(0, floor - view.limit)
        limit = view.limit + missing + min(ROOM_AT_LEAST * view.limit, ROOM_FOR_MISSING * missing)
        if view.tokens <= limit:
            return None
        wanted = view.tokens - max(self._strategy.target * view.limit, floor)
        made = self._latest(every, wanted)
        if (lasting := min(self._lasting(view, made), view.tokens - floor)) > wanted:
            made = self._latest(every, lasting)
        why = f"over zone: {view.tokens:,} tokens, of {view.limit:,} allowed; {_results(made)}, the least worth first"
        return made, why if floor <= view.limit else f"{why}; with all gone it would be {floor:,}"

    def _latest(self, every: Made, wanted: float) -> Made:
        """Return what saves so many tokens, the least worth first, as late in the prompt as its worth allows."""
        most = LATER * max((self._open.get(each, 0.0) for (each, _), _ in _until(every, wanted)), default=0.0)
        allowed = {made: saves for made, saves in every.items() if self._open.get(made[0], 0.0) <= most}
        late = {made: allowed[made] for made in sorted(allowed, key=_message, reverse=True)}
        first = min((_message(made) for made, _ in _until(late, wanted)), default=0)
        return dict(_until({made: allowed[made] for made in allowed if _message(made) >= first}, wanted))

    def _lasting(self, view: View, made: Made) -> float:
        """Return how much must go so that a cut saves enough before the conversation has grown by that again.

        Tokens that go are not read in as many requests as it takes to grow by them, so they save their square, over the
        growth at each request, at the price of reading.
        """
        cost = REGAINED * (self._prices.write - self._prices.read) * behind(view, [each for each, _ in made])
        growth = view.tokens / max(1, view.request)
        return sqrt(cost * growth / self._prices.read) if self._prices.read else inf

    def _made(self, view: View, chosen: Iterable[Candidate]) -> Made:
        """Return candidates with their placeholders and what these save, where they save anything."""
        fresh, has_failed = self._worth.fresh_names, self._at_work.has_failed
        texts = ((each, placeholder(each, view.request, fresh(each.result), has_failed)) for each in chosen)
        return _saving(view, texts)

    def _shortest(self, view: View, chosen: Iterable[Candidate]) -> Made:
        """Return candidates with placeholders that name the tool alone, those that were cleared before first."""
        again = ((each, known) for each in view.candidates() if (known := self._gone.get(id(each.part))))
        return _saving(view, (*again, *((each, self._short(each.result, view.request)) for each in chosen)))

    def _short(self, result: ToolResult, request: int) -> str:
        """Return the placeholder of a result where there is no room for names."""
        return short(result, request, self._at_work.has_failed)

    def _figure(self, candidate: Candidate) -> str:
        """Return why a candidate may go, in a word or two."""
        if candidate not in self._open:
            return "cleared before"
        return self._held.get(candidate.result) or _figure(self._open[candidate])

    def _of(self, result: ToolResult, request: int) -> float:
        """Return what a result is worth at a request: more than any other while the agent is at work on it."""
        return inf if result in self._held else self._worth.of(result, request)

    def _is_open(self, candidate: Candidate) -> bool:
        return candidate.part is candidate.result and id(candidate.part) not in self._gone


def _figure(worth: float) -> str:
    """Return what a result is worth in words."""
    return f"under {LEAST_TOKENS} tokens" if worth == inf else f"worth {worth:.2g}" if worth < 100 else "worth over 100"


def _why_kept(worth: Mapping[ToolResult, float], held: Mapping[ToolResult, str], result: ToolResult) -> str:
    return held.get(result) or _figure(worth[result]) if result in worth else ""


def _results(made: Made) -> str:
    """Return how much goes, and what that wins."""
    what = f"{len(made):,} results go" if len(made) > 1 else "a result goes"
    return f"{what} ({sum(made.values()):,} tokens less)"


def _message(made: tuple[Candidate, str]) -> int:
    """Return the number of the message in which something goes."""
    return made[0].part.location.message


def _until(made: Made, wanted: float) -> Iterator[tuple[tuple[Candidate, str], int]]:
    """Yield what is made until so many tokens are saved as are wanted."""
    for each, saves in made.items():
        if wanted <= 0:
            return
        yield each, saves
        wanted -= saves


def _saving(view: View, texts: Iterable[tuple[Candidate, str]]) -> Made:
    """Return texts in place of candidates with what they save, where they save anything."""
    weighed = ((each, text, view.saves(each, text)) for each, text in texts)
    return {(each, text): saves for each, text, saves in weighed if saves > 0}


def behind(view: View, cut: Sequence[Candidate]) -> int:
    """Return the cached tokens that would be written anew if some candidates were cleared: those behind the first."""
    first = min(each.part.location.message for each in cut)
    cached = sum(view.weight(at) for at in range(first + 1, view.sent))
    return max(0, cached - sum(each.saves for each in cut if first < each.part.location.message < view.sent))
