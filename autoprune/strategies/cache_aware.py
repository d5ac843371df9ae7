"""Clear the tool results that are worth least, when that pays despite the provider's prompt cache.

The strategy decides at each request, in three steps.

*What may go?* Results that are worth less than `threshold`: large, old, with few names that no call has used, from no
file that a call touched lately (`_worth` has the formula). But none that the agent has not had time to use: below the
safe zone a result stays until the agent has written something after it saw it (`at_work` says what counts), and for
`stay` requests after that. So twenty documents that are read for one report are all in view when it is written. A
result that was fetched again after it had been cleared is not cleared twice. The newest failure stays, and the newest
read of each file that was edited in the last 20 requests. And nothing goes while the prompt has fewer than `start_at`
tokens, because there is little to win.

*Does it pay?* Carrying what may go costs its tokens at the price of reading, at each request. Clearing it costs writing
the cached tokens behind the first of it again, and fetching some of it again. An account adds up what carrying has
cost; when it reaches `patience` times what clearing costs, everything that may go is cleared. After a pause longer than
the cache's life nothing is cached, so it goes at once. Either way, results worth up to 1.3 times the threshold go along
if that rewrites no more of the cache.

*How far, above the safe zone?* The results worth least go first, whatever that costs, until the prompt is down to
`target` of the safe zone, and further if prices ask for it: the cut should regain half of its cost before the
conversation has grown back to the safe zone. The cut is made as late in the prompt as possible without clearing
anything worth more than twice as much, because what stands before it stays cached. If that is not enough, results that
arrived in the last `stay` requests go as well, and then those that the agent is at work on, but both only as far as
needed, and the latter only if the prompt then fits. Results under 60 tokens always stay. If placeholders leave no room,
they lose everything but the tool and the size. If the safe zone cannot be reached at all, results may take three tokens
for each one that is missing, up to a quarter of the safe zone: otherwise the cache would break at every request, and
the prompt would not fit anyway.

A placeholder names the tool, its target, the result's size, some of its fresh names, and the request at which it was
written. In a walk over pruned output that is passed back, all decisions up to the newest such request were made by an
earlier walk. So this walk makes none there, and continues as the earlier one would have. A forged placeholder cannot
use that to overflow the context: far above the safe zone results are cleared even so.

Example: a prompt of 60,000 tokens at prices of (1.25, 0.1). A result of 10,000 tokens with 20,000 cached ones behind it
adds 1,000 to the account at each request. It goes when the account reaches 5 · (1.15 · 20,000 + 0.03 · 1.25 · 10,000).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf, sqrt
from typing import TypeAlias

from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import Prices, prices
from autoprune.errors import SettingsError, check_number, is_share
from autoprune.facts.calls import arguments
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.view import Candidate, Told, View
from autoprune.strategies._cleared import mark, placeholder, short, shortened
from autoprune.strategies._worth import LEAST_TOKENS, Worth
from autoprune.strategies.at_work import AtWork

COMMENTS = frozenset(("description", "explanation", "reason"))  # arguments that say why, and differ from call to call
FETCHED_AGAIN = 0.03  # share of the cleared results that would have been fetched again in 80 recorded sessions
SOONER = 1.3  # times the threshold: results worth up to this go along if that rewrites no more of the cache
LATER = 2.0  # above the safe zone, results worth up to 2 times as much may go if that rewrites less of the cache
REGAINED = 0.5  # share of its cost that a cut above the safe zone should save before the next one
ROOM_AT_LEAST = 0.25  # share of the safe zone that results may take if the safe zone cannot be reached
ROOM_FOR_MISSING = 3  # tokens of room for each one missing: linear, so that there is no cliff

Made: TypeAlias = dict[tuple[Candidate, str], int]  # candidates with their placeholders, and the tokens that saves
Key: TypeAlias = tuple[str, str]  # a tool and its arguments, by which the same fetch is recognized


@dataclass(frozen=True)
class CacheAware:
    """Clear what is worth least as soon as the prompt cache makes it pay, and down to `target` above the safe zone."""

    threshold: float = 4.5
    patience: float = 5
    prices: str | tuple[float, ...] | Prices | None = None
    cache_life: float | None = None
    target: float = 0.7
    stay: int = 5
    start_at: int = 20_000
    protect: Protections = NOTHING
    name = "cache_aware"
    every_request = True

    def for_prices(self, known: Prices) -> "CacheAware":
        """Return the strategy with these prices and the life of their cache, unless it has its own."""
        own = known if self.prices is None else prices(self.prices)
        return replace(self, prices=own, cache_life=known.life if self.cache_life is None else self.cache_life)

    @property
    def notes(self) -> tuple[str, ...]:
        """A warning if the prices are not known."""
        note = prices(self.prices).note
        return (f"{note}; name the model, or give cache_aware(prices=(…, …))",) if note else ()

    def begin(self) -> "Account":
        """Return the state of a new walk."""
        for name in ("threshold", "patience", "cache_life", "stay", "start_at"):
            is_optional = name == "cache_life"
            check_number(f"cache_aware: {name}", getattr(self, name), 0, kind=int | float, optional=is_optional)
        if not is_share(self.target) or not self.target:
            raise SettingsError(
                f"cache_aware: target is {self.target!r}: give a share of the safe zone, above 0 and at most 1"
            )
        return Account(self, prices(self.prices, life=self.cache_life))

    def step(self, view: View) -> Iterator[Replace]:
        """Return the edits of a walk that begins here."""
        return self.begin().step(view)


class Account:
    """The state of one walk: the worth of results, which ones were cleared, and what waiting has cost."""

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
        self._gone: dict[int, str] = {}  # the shortest placeholders of cleared results, by the results' identity
        self._cleared_at: dict[Key, int] = {}  # the request at which the result of a fetch was first cleared
        self._fetched_again: set[int] = set()  # results by identity
        self._open: Mapping[Candidate, float] = {}  # the candidates at this request, with their worth
        self._decisions: list[str] = []

    def reprice(self, strategy: CacheAware) -> None:
        """Go on with the prices of a strategy that is the same but for them."""
        self._prices = prices(strategy.prices, life=strategy.cache_life)

    def step(self, view: View) -> Iterator[Replace]:
        """Return nothing, or one batch of edits."""
        self._look(view)
        self._held = self._at_work.held(view.request)
        here = (each for each in view.candidates() if self._is_open(each))
        self._open = {each: self._of(each.result, view.request) for each in here}
        is_decided = self._newest_mark >= view.request
        made, why = ({}, "") if is_decided else self._paying(view)
        if not _fits(view, made) and (more := self._fitting(view)):
            gone = {each for (each, _) in more[0]}
            made = {**more[0], **{each: saves for each, saves in made.items() if each[0] not in gone}}
            why = more[1]
        if made:
            self._newest_mark = max(self._newest_mark, view.request)
            self._decisions.append(f"request {view.request}: {why}")
        if made or is_decided:
            self._owed = 0.0
        for candidate, text in made:
            yield candidate.replaced(text, f"{why.partition(':')[0]}, {self._figure(candidate)}")
            self._gone.setdefault(id(candidate.result), self._short(candidate.result, view.request))
            self._worth.forget(candidate.result)
            self._note_cleared(candidate.result, view.request)

    def told(self) -> Told:
        """Return the decisions with their numbers, and why each result stays."""
        meaning = (
            f"results worth under {self._strategy.threshold:g} may go: large, old, few names that no call has used"
        )
        decisions = (meaning, *self._decisions) if self._open or self._decisions else ()
        reasons = {each.result: self._why_kept(each) for each in self._open}
        return Told(decisions, partial(_reason, reasons))

    def _look(self, view: View) -> None:
        """Read the messages that are new."""
        for entry in islice(view.entries, self._read, None):
            self._worth.read(entry)
            self._at_work.read(entry)
            for result in entry.results:
                if (known := mark(result)) is not None:
                    self._newest_mark = max(self._newest_mark, int(known[1]))
                    self._gone[id(result)] = shortened(result, known)
                    self._note_cleared(result, int(known[1]))
                elif result.request >= self._cleared_at.get(_key(result), inf):
                    self._fetched_again.add(id(result))
        self._read = len(view.entries)

    def _note_cleared(self, result: ToolResult, request: int) -> None:
        """Remember the fetch whose result was cleared at a request, to know it if it is made again."""
        self._cleared_at[_key(result)] = min(request, self._cleared_at.get(_key(result), request))

    def _is_in_use(self, result: ToolResult, request: int) -> bool:
        """Return whether the agent may still need a result: it has not had time to use it, or fetched it again."""
        if id(result) in self._fetched_again:
            return True
        used_at, stay = self._at_work.used_at(result), self._strategy.stay
        return stay > 0 and (used_at is None or request - used_at < stay)

    def _why_kept(self, candidate: Candidate) -> str:
        """Return why a candidate stays."""
        result = candidate.result
        if result in self._held or self._open[candidate] == inf:
            return self._figure(candidate)
        if id(result) in self._fetched_again:
            return "fetched again"
        is_unused = self._strategy.stay > 0 and self._at_work.used_at(result) is None
        return "not used yet" if is_unused else self._figure(candidate)

    def _paying(self, view: View) -> tuple[Made, str]:
        """Return what is cleared because that pays now, and why."""
        threshold, prices = self._strategy.threshold, self._prices
        if view.tokens < self._strategy.start_at:
            return {}, ""
        ready = {each: worth for each, worth in self._open.items() if not self._is_in_use(each.result, view.request)}
        eligible = [each for each, worth in ready.items() if worth < threshold]
        if not eligible:
            return {}, ""
        saves = sum(each.saves for each in eligible)
        self._owed += prices.read * saves
        cost = (prices.write - prices.read) * behind(view, eligible) + FETCHED_AGAIN * prices.write * saves
        is_cold = view.pause > prices.life
        if not is_cold and not (self._owed and self._owed >= self._strategy.patience * cost):
            return {}, ""
        first = 0 if is_cold else eligible[0].part.location.message
        free = (each for each, worth in ready.items() if worth < SOONER * threshold)
        made = self._made(view, (each for each in free if each.part.location.message >= first))
        if is_cold:
            return made, (
                f"cold: the rewrite was paid for anyway, after a pause of {view.pause:,.0f} s; {_results(made)}"
            )
        return made, (
            f"pays: {_results(made)}; to carry what may go has cost {self._owed:,.0f} input tokens, to write anew what "
            f"is cached behind it costs {cost:,.0f}"
        )

    def _fitting(self, view: View) -> tuple[Made, str] | None:
        """Return what is cleared above the safe zone, and why; None if nothing is."""
        is_decided = self._newest_mark > view.request
        old, new, held = self._by_use(view.request)
        most = self._smallest(view, [*old, *new])  # short of what the agent is at work on
        missing = max(0, view.tokens - _saved(most) - view.limit)
        largest = ROOM_AT_LEAST * view.limit
        room = largest if is_decided else min(largest, ROOM_FOR_MISSING * missing)
        least_first = "the least worth first"
        if is_decided and view.tokens <= view.limit + missing + room:
            return None  # the walk over the full history left no more than that
        if _fits(view, every := self._smallest(view, old)):
            made = self._to_target(view, every)
        elif _fits(view, most) or _fits(view, most := self._smallest(view, [*old, *new, *held])):
            made = dict(_until(most, view.tokens - view.limit))
        elif view.tokens <= view.limit + missing + room:
            return None
        else:
            made = self._smallest(view, [*old, *new])
            made = {each: saves for each, saves in made.items() if each[0] in self._open}
            least_first += f"; with all gone it would be {view.tokens - _saved(made):,}"
        return made, f"over zone: {view.tokens:,} tokens, of {view.limit:,} allowed; {_results(made)}, {least_first}"

    def _by_use(self, request: int) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """Return what may go above the safe zone in three groups, the least worth first in each.

        They are results that the agent has had time to use, newer ones, and those that it is at work on.
        """
        old: list[Candidate] = []
        new: list[Candidate] = []
        held: list[Candidate] = []
        for each in sorted(self._open, key=self._open.__getitem__):
            if each.result in self._held:
                held.append(each)
            elif self._open[each] < inf:
                (new if request - each.result.sent < self._strategy.stay else old).append(each)
        return old, new, held

    def _to_target(self, view: View, every: Made) -> Made:
        """Return what goes so that the prompt is at the target, or lower if that makes the cut last."""
        wanted = min(view.tokens - self._strategy.target * view.limit, _saved(every))
        made = self._latest(every, wanted)
        lasting = min(self._lasting(view, made), _saved(every))
        return self._latest(every, lasting) if lasting > wanted else made

    def _smallest(self, view: View, order: Sequence[Candidate]) -> Made:
        """Return candidates with placeholders that name what was cleared, or the shortest if these leave no room."""
        every = self._made(view, order)
        return every if _fits(view, every) else self._shortest(view, order)

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


def _key(result: ToolResult) -> Key:
    """Return what identifies the fetch that gave a result."""
    if result.call is None:
        return result.tool, str(id(result))
    given = {name: value for name, value in arguments(result.call).items() if name not in COMMENTS}
    return result.tool, repr(given or result.call.arguments)


def _figure(worth: float) -> str:
    """Return what a result is worth in words."""
    return f"under {LEAST_TOKENS} tokens" if worth == inf else f"worth {worth:.2g}" if worth < 100 else "worth over 100"


def _reason(reasons: Mapping[ToolResult, str], result: ToolResult) -> str:
    return reasons.get(result, "")


def _saved(made: Made) -> int:
    """Return the tokens that some placeholders save."""
    return sum(made.values())


def _fits(view: View, made: Made) -> bool:
    """Return whether the prompt is within the safe zone with some placeholders in it."""
    return view.tokens - _saved(made) <= view.limit


def _results(made: Made) -> str:
    """Return how much goes, and what that wins."""
    what = f"{len(made):,} results go" if len(made) > 1 else "a result goes"
    return f"{what} ({_saved(made):,} tokens less)"


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
