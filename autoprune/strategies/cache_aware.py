"""Clear the tool results that are worth least, when that pays despite the provider's prompt cache.

The strategy decides at each request, in three steps.

*What may go?* Results that are worth less than `threshold`: large, old, with few names that no call has used, from no
file that a call touched recently (`worth` has the formula). But the agent must have had time to use them: below the
safe zone a result stays until the agent has used it by writing about it, or enough for all that it had read (`worth`
says what counts), and for `stay` requests after that. So twenty documents that are read for one report are all in view
when it is written. A result that was fetched again after it had been cleared is not cleared twice. The newest failure
stays, and so does the newest read of each file that was edited in the last 20 requests. Nothing goes while the prompt
has fewer than `start_at` tokens, because there is little to save.

*Does it pay?* Carrying these results costs their tokens at the price of reading, at each request. Clearing them costs
rewriting the cached tokens after the first of them, and fetching some of them again. An account adds up the cost of
carrying; when the account reaches `patience` times the cost of clearing, all these results are cleared. After a pause
longer than the cache's life nothing is cached, so they go at once, except those of the last `2 * stay` requests and
those that may be a pattern for a file that was edited recently: files in its folder, of its type. Either way, results
worth up to 1.3 times the threshold go along if that rewrites no more of the cache.

*How far, above the safe zone?* The results worth least go first, whatever that costs, until the prompt is down to
`target` of the safe zone, and further if prices ask for it: the cut should regain half of its cost before the
conversation has grown back to the safe zone. The cut is made as late in the prompt as possible without clearing
anything worth more than twice as much, because everything before it stays cached. If that is not enough, results that
arrived in the last `stay` requests go as well, and then those in use, but both only as far as needed, and the latter
only if the prompt then fits. Results under 60 tokens always stay. If placeholders leave no room, they keep only the
tool, the size, and the ids of what a tool made. If the safe zone cannot be reached at all, some results stay: up to
three tokens of results for each token that is missing, at most a quarter of the safe zone. Otherwise the cache would
break at every request, and the prompt would not fit anyway.

*Thinking.* With `clear_thinking`, the thinking of finished turns goes along when results are cleared after such a
pause. It leaves no trace, so it goes only along with placeholders: a walk over pruned output that is passed back
decides nothing before the newest of them.

*Finished steps.* With `fold_steps`, old steps after a cut leave the prompt as one line for each call
(`finished_steps` says which), and with `clear_tool_inputs` long arguments of calls that succeeded are shortened there.

*Below a compaction.* If the safe zone was lowered because the client would compact the conversation (`compact_at`), a
cut goes down to 0.4 of that limit, so that it may be the only one. Only results that the agent has used go, and only
if that is enough to last. Just before the compaction the cut may be smaller, and if even that is not enough, unused
ones go too, because the compaction would leave none. Finished steps fold at half their age. But those of the last
`stay` requests and those in use always stay: then the client had better compact.

*Pruned output that is passed back.* A placeholder names the request at which it was written (`finished_steps` shows
one). All decisions up to the newest such request were made by an earlier walk, so this walk makes none there, except
far above the safe zone, and continues as the earlier one would have. A request that the conversation has not reached
does not count: the placeholder is from before the caller dropped messages, or it is forged.

Example: a prompt of 60,000 tokens at prices of (1.25, 0.1). A result of 10,000 tokens with 20,000 cached ones after it
adds 1,000 to the account at each request. It goes when the account reaches 5 · (1.15 · 20,000 + 0.03 · 1.25 · 10,000).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf, sqrt

from autoprune.conversation.edits import CustomReason, Fold, Replace
from autoprune.conversation.summary import GAP
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.economics import Prices, prices
from autoprune.errors import SettingsError, check_flag, check_number, is_share
from autoprune.planning.protections import DEFAULT_PROTECTIONS, Protections
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import BaseStrategy, Candidate, Rationale, View
from autoprune.strategies.bills import (
    LEAST_CACHED,
    TIER_MARGIN,
    Bills,
    Clearing,
    Cut,
    cached_after,
    cut_of,
    largest_cut,
    late_in_prompt,
    message_of,
    outside,
    results_text,
    total,
    until,
    weigh,
)
from autoprune.strategies.finished_steps import (
    FinishedSteps,
    Gone,
    cut_by,
    fold,
    folds_text,
    line,
    old_inputs,
    placeholder,
    read_placeholder,
    short_placeholder,
)
from autoprune.strategies.worth import EDITED, LATELY, LEAST_TOKENS, NEWEST_FAILURE, InUse, Worth

TIER_RULES = ("auto", "stay", "cross")
COLD_STAY = 2  # times `stay`: the requests for which a result stays although the cache is cold
FETCHED_AGAIN = 0.03  # share of the cleared results that would have been fetched again in 80 recorded sessions
SOONER = 1.3  # times the threshold: results worth up to this go along if that rewrites no more of the cache
LAST_CHANCE = 1.015  # times a limit that is 0.9 of the point of compaction: above it, unused results go too
DEEP = 0.4  # share of the limit to which a cut goes down that avoids a compaction: it should be the only one
SPARED_AGE = 0.5  # times `fold_steps`, at a cut that avoids a compaction: that would leave no step in view
REGAINED = 0.5  # share of its cost that a cut above the safe zone should save before the next one
COMMON = 3  # results folded at once: names that so many share say nothing about one of them
ROOM_AT_LEAST = 0.25  # share of the safe zone that results may take if the safe zone cannot be reached
ROOM_FOR_MISSING = 3  # tokens of room for each one missing: linear, so that there is no cliff

# Reasons in a few words, each with its sentence.
FETCHED, UNUSED, BEFORE, TINY = "fetched again", "not used yet", "cleared before", f"under {LEAST_TOKENS} tokens"
LEAST_FIRST = "those worth least first"
ALONG = CustomReason("along with results", "its arguments are long and old, and behind a cut that was made anyway")
SCORE = "worth is a score: higher for names that no call has used yet, lower for size and age"
TRIGGERS = {
    "above limit": "the prompt was above the safe zone, so the results worth least were cleared",
    "pays": "sending it again with each request costs more than rewriting the prompt cache after it",
    "tier": "all tokens of a larger prompt cost a multiple, so the results worth least were cleared",
    "cold": "after a long pause the prompt cache was empty, so clearing it cost nothing",
}
NOTES = {
    FETCHED: "the agent fetched it again after it had been cleared",
    UNUSED: "the agent has not written about it yet, nor enough for all that it has read",
    BEFORE: "it had been cleared before, and its placeholder is shorter now",
    TINY: f"it has fewer than {LEAST_TOKENS} tokens, so a placeholder would save next to nothing",
    EDITED: f"it is the newest read of a file that was edited in the last {LATELY} requests",
    NEWEST_FAILURE: "it is the newest failed result",
}


@dataclass(frozen=True)
class CacheAware(BaseStrategy):
    """Clear what is worth least as soon as the prompt cache makes it pay, and down to `target` above the safe zone."""

    # The defaults were chosen on recorded sessions: docs/cache_aware.md has the figures and the ablations.
    threshold: float = 4.5
    patience: float = 5
    prices: str | tuple[float, ...] | Prices | None = None
    cache_life: float | None = None
    target: float = 0.7
    stay: int = 5
    start_at: int = 20_000
    never_dearer: float | None = 0.0
    tier: str = "auto"
    clear_thinking: bool = False
    fold_steps: int | None = None
    clear_tool_inputs: ToolInputs | None = None
    protect: Protections = DEFAULT_PROTECTIONS
    name = "cache_aware"
    every_request = True

    def for_prices(self, known: Prices) -> "CacheAware":
        """Return the strategy with these prices and their cache's life, unless the strategy has its own.

        Of two lives the longer one counts: clearing costs nothing only if the cache has surely expired.
        """
        own = known if self.prices is None else prices(self.prices)
        return replace(
            self, prices=own, cache_life=max(known.life, own.life) if self.cache_life is None else self.cache_life
        )

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]  # read-only, since the dataclass is frozen
        """A warning if the prices are unknown."""
        note = prices(self.prices).note
        return (f"{note}; give the name of a listed model, or cache_aware(prices=(…, …))",) if note else ()

    def check_parameters(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        for name in ("threshold", "patience", "cache_life", "stay", "start_at"):
            is_optional = name == "cache_life"
            check_number(f"cache_aware: {name}", getattr(self, name), 0, kind=int | float, optional=is_optional)
        if self.tier not in TIER_RULES:
            raise SettingsError(f"cache_aware: tier is {self.tier!r}: give one of {', '.join(TIER_RULES)}")
        check_number("cache_aware: never_dearer", self.never_dearer, 0, kind=int | float, optional=True)
        check_number("cache_aware: fold_steps", self.fold_steps, 1, optional=True)
        check_flag("cache_aware: clear_thinking", self.clear_thinking)
        if not is_share(self.target) or not self.target:
            raise SettingsError(
                f"cache_aware: target is {self.target!r}: give a share of the safe zone, above 0 and at most 1"
            )
        prices(self.prices, life=self.cache_life)

    def begin(self) -> "CacheAwareState":
        """Return the state of a new walk."""
        return CacheAwareState(self, prices(self.prices, life=self.cache_life))

    def has_written(self, result: ToolResult) -> bool:
        """Return whether a result is a placeholder of this strategy."""
        return read_placeholder(result) is not None

    def step(self, view: View) -> Iterator[Replace | Fold]:
        """Yield the edits for a view without earlier requests; a walk calls `begin` instead."""
        return self.begin().step(view)


class CacheAwareState(BaseStrategy):
    """The state of one walk: the worth of results, the cleared results, and the cost of waiting so far."""

    def __init__(self, strategy: CacheAware, known: Prices) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._prices = known
        excess = strategy.never_dearer
        self._bills = None if excess is None else Bills(known, excess)
        self._read = 0  # messages
        self._worth, self._used = Worth(), InUse()
        self._steps = None if strategy.fold_steps is None else FinishedSteps()
        self._in_use: Mapping[ToolResult, str] = {}
        self._owed = 0.0
        self._past = Gone(folds_steps=strategy.fold_steps is not None)
        self._open: Mapping[Candidate, None] = {}  # the candidates at this request, oldest first
        self._worths: dict[Candidate, float] = {}  # the worth of some of them
        self._request = 0
        self._limit = 0  # the safe zone, or less to stay below a price tier
        self._decisions: list[str] = []
        self.clears_thinking = False  # at this request

    def reprice(self, strategy: CacheAware) -> None:
        """Continue with the prices of a strategy that is otherwise the same."""
        self._charge(prices(strategy.prices, life=strategy.cache_life))

    def _charge(self, known: Prices) -> None:
        self._prices = known
        if self._bills:
            self._bills.reprice(known)

    def step(self, view: View) -> Iterator[Replace | Fold]:
        """Yield one batch of edits, or no edits."""
        self._begin(view)
        is_decided = self._past.newest(view.last_request) >= view.request
        clearing, why = self._choose(view, is_decided=is_decided)
        self.clears_thinking = self._strategy.clear_thinking and bool(clearing) and self._is_cold(view)
        folds = self._fold_along(view, clearing) if clearing else []
        if folds:
            kept = outside(folds, clearing)
            why += f"; {folds_text(folds, total(clearing) - total(kept))}"
            clearing = kept
        shortens = self._strategy.clear_tool_inputs and (clearing or folds)
        first, age = (cut_of(clearing) | cut_by(folds)).first, COLD_STAY * self._strategy.stay
        inputs = [*old_inputs(view, first, age, folds)] if shortens else []
        if clearing or folds:
            self._past.note_decision(view.request)
            self._decisions.append(f"request {view.request}: {why}")
            if self._bills:
                self._bills.make(view, cut_of(clearing) | cut_by(folds) | Cut(saves=sum(each.saves for each in inputs)))
        if clearing or folds or is_decided:
            self._owed = 0.0
        yield from folds
        yield from (each.cleared(ALONG) for each in inputs)
        self._used.clear(each.result for each, _ in clearing)
        for candidate, text in clearing:
            yield candidate.replaced(text, self._why_cleared(candidate, why.partition(":")[0]))
            self._past.gone.setdefault(id(candidate.part), self._shortest_of(candidate.result, view.request))
            self._worth.forget(candidate.result)
            self._past.note_cleared(candidate.result, view.request)
        self._used.clear(self._past.marked_at(view.request))

    def _begin(self, view: View) -> None:
        self._observe(view)
        if view.invoice and view.invoice.read and (known := self._prices.with_reads) is not self._prices:
            self._charge(known)
        if self._bills:
            self._bills.begin(view, is_cold=self._is_cold(view))
        self._in_use = self._used.in_use(view.request)
        here = (_as_sent(each, view) for each in view.candidates(whole=True) if self._is_open(each))
        self._open = dict.fromkeys(here)
        self._worths, self._request, self._limit = {}, view.request, self._limit_of(view)

    def _choose(self, view: View, *, is_decided: bool) -> tuple[Clearing, str]:
        """Choose the results to clear, and explain why. If an earlier prune has decided, only for the limit."""
        clearing, why = ({}, "") if is_decided else self._choose_paying(view)
        if not is_decided and not clearing:
            clearing, why = self._choose_below_tier(view)
        if not self._fits(view, clearing) and (more := self._choose_fitting(view)):
            gone = {each for (each, _) in more[0]}
            clearing = {**more[0], **{each: saves for each, saves in clearing.items() if each[0] not in gone}}
            why = more[1]
        return clearing, why

    def _fold_along(self, view: View, clearing: Clearing) -> list[Fold]:
        """Fold the finished steps after a cut, which rewrites no more of the cache, and whose results may all go."""
        if self._steps is None or view.tokens < self._strategy.start_at:
            return []
        first = -1 if self._is_cold(view) else min(map(message_of, clearing))
        age = (self._strategy.fold_steps or 0) * (SPARED_AGE if self._spares(view) else 1)
        steps = self._steps.choose(view, first, age, self._may_fold(view, clearing))
        results = [result for step in steps for result in step.results]
        counts = Counter(name for result in results for name in self._names(result, view))
        common = {name for name, count in counts.items() if count >= COMMON}
        folds = [*fold(steps, view.request, lambda result: self._line(result, view, common))]
        left = view.tokens - total(outside(folds, clearing)) - cut_by(folds).saves
        if self._bills and left < LEAST_CACHED:
            return []
        for each in folds:
            run = [step for step in steps if step.messages.start in each.messages]
            calls = (call for step in run for call in step.calls)
            self._worth.fold(calls, each.text.partition(GAP)[0], run[-1].request)
            for result in (result for step in run for result in step.results):
                self._past.note_folded(result, view.request)
                self._worth.forget(view.as_sent(result))
        return folds

    def _may_fold(self, view: View, clearing: Clearing) -> Callable[[ToolResult], bool]:
        """Return a function that says whether a result may go: it was cleared, may be cleared, or is small."""
        cleared = {each.part for each, _ in clearing}
        held = {*self._in_use, *(self._used.patterns(view.request) if self._is_cold(view) else ())}

        def may_go(result: ToolResult) -> bool:
            sent = view.as_sent(result)
            if id(result) in self._past.gone or sent in held:
                return id(result) in self._past.gone
            if result in cleared:
                return True
            is_small = sent.tokens < LEAST_TOKENS
            is_worthless = self._worth.worth_of(sent, view.request) < self._strategy.threshold
            return is_small or (is_worthless and not self._may_be_needed(sent, view.request))

        return may_go

    def _line(self, result: ToolResult, view: View, common: Set[str]) -> str:
        """Describe a call whose step is folded, with names from its result that are not `common`."""
        sent = view.as_sent(result)
        names = (name for name in self._names(result, view) if name not in common)
        return line(sent, self._past.size(sent), names, has_failed=self._used.has_failed(sent))

    def _names(self, result: ToolResult, view: View) -> Iterable[str]:
        """Return the fresh names of a result that is in view until now."""
        return () if id(result) in self._past.gone else self._worth.fresh_names(view.as_sent(result))

    def explain(self) -> Rationale:
        """Return the decisions with their figures, and the reason why each result stays."""
        meaning = (
            "A result's worth falls with its size and age, and rises with names in it that no call has used yet. "
            f"Results worth less than {self._strategy.threshold:g} may be cleared."
        )
        decisions = (meaning, *self._decisions) if self._open or self._decisions else ()
        reasons = {each.part: self._why_kept(each) for each in self._open if self._is_open(each)}
        return Rationale(decisions, partial(_reason, reasons))

    def _observe(self, view: View) -> None:
        for at, as_read in enumerate(islice(view.entries, self._read, None), self._read):
            entry = replace(as_read, results=tuple(map(view.as_sent, as_read.results))) if as_read.results else as_read
            self._worth.observe(entry)
            if self._steps:
                self._steps.observe(entry)
            sizes, saved = self._past.observe(entry)
            self._used.observe(entry, sizes)
            if self._bills:
                for request, tokens in saved:
                    self._bills.expect(request, at, tokens)
        self._read = len(view.entries)

    def _may_be_needed(self, result: ToolResult, request: int) -> bool:
        """Return whether the agent may still need a result that it fetched again or has had no time to use."""
        if id(result) in self._past.fetched_again:
            return True
        used_at, stay = self._used.used_at(result), self._strategy.stay
        return stay > 0 and (used_at is None or request - used_at < stay)

    def _without_patterns(self, ready: Mapping[Candidate, float], request: int) -> dict[Candidate, float]:
        """Leave out newer results and patterns of edited files: without a cache, no cost says that it is time."""
        patterns, stay = self._used.patterns(request), COLD_STAY * self._strategy.stay
        return {
            each: worth
            for each, worth in ready.items()
            if request - each.result.sent >= stay and each.result not in patterns
        }

    def _why_cleared(self, candidate: Candidate, trigger: str) -> CustomReason:
        """Explain why a candidate was cleared. `trigger` is one of `TRIGGERS`."""
        what = self._describe(candidate)
        return CustomReason(f"{trigger}, {what}", f"{TRIGGERS[trigger]}; {self._sentence(what)}")

    def _why_kept(self, candidate: Candidate) -> CustomReason:
        result, what = candidate.result, self._describe(candidate)
        if result not in self._in_use and self._worth_of(candidate) != inf:
            is_unused = self._strategy.stay > 0 and self._used.used_at(result) is None
            what = FETCHED if id(result) in self._past.fetched_again else UNUSED if is_unused else what
        return CustomReason(what, self._sentence(what))

    def _sentence(self, what: str) -> str:
        """Write out what `_describe` says in a few words."""
        limit = f"{self._strategy.threshold:g}"
        return NOTES.get(what) or f"it is {what} ({SCORE}), and under {limit} it may go as soon as that pays"

    def _choose_paying(self, view: View) -> tuple[Clearing, str]:
        """Choose the results that it pays to clear now, and explain why."""
        threshold, prices = self._strategy.threshold, self._prices
        if view.tokens < self._strategy.start_at:
            return {}, ""
        ready = {
            each: self._worth_of(each) for each in self._open if not self._may_be_needed(each.result, view.request)
        }
        is_cold = self._is_cold(view)
        if is_cold or prices.write <= prices.read:
            ready = self._without_patterns(ready, view.request)
        eligible = [each for each, worth in ready.items() if worth < threshold]
        if not eligible:
            return {}, ""
        saves = sum(each.saves for each in eligible)
        self._owed += prices.read * saves
        cost = (prices.write - prices.read) * cached_after(view, eligible) + FETCHED_AGAIN * prices.write * saves
        if not is_cold and not (self._owed and self._owed >= self._strategy.patience * cost):
            return {}, ""
        first = 0 if is_cold else eligible[0].part.location.message
        free = (each for each, worth in ready.items() if worth < SOONER * threshold)
        chosen = [each for each in free if each.part.location.message >= first]
        if self._bills and not self._bills.may_allow(view, largest_cut(chosen)):
            return {}, ""
        clearing = self._with_placeholders(view, chosen)
        if self._bills and not (clearing and self._bills.allows(view, cut_of(clearing))):
            return {}, ""
        results = results_text(clearing)
        if is_cold:
            expired = f"the cache had expired after a pause of {view.pause:,.0f} s, so clearing cost nothing"
            return clearing, f"cold: {expired}; {results}"
        return clearing, (
            f"pays: {results}; sending what may be cleared had cost {self._owed:,.0f} input tokens, "
            f"and writing the cache again costs {cost:,.0f}"
        )

    def _is_cold(self, view: View) -> bool:
        """Return whether the cache expired before this request."""
        return view.pause > self._prices.life

    def _limit_of(self, view: View) -> int:
        """Return the safe zone, or the first tier's limit if the prompt is to stay below it."""
        stays = self._strategy.tier == "stay" and self._prices.tiers
        return min(view.limit, round((1 - TIER_MARGIN) * self._prices.tiers[0].above)) if stays else view.limit

    def _fits(self, view: View, clearing: Clearing) -> bool:
        """Return whether the prompt with these placeholders is within the safe zone."""
        return view.tokens - total(clearing) <= self._limit

    def _choose_below_tier(self, view: View) -> tuple[Clearing, str]:
        """Choose the results to clear to get below a price tier, if that makes no request dearer."""
        above = self._prices.tier(view.tokens).above
        if self._strategy.tier != "auto" or not above or not self._bills:
            return {}, ""
        old, _, _ = self._by_use(view.request)
        if sum(each.result.tokens for each in old) < view.tokens - above:
            return {}, ""  # writing the placeholders takes most of the time
        every = self._with_placeholders(view, old)
        clearing: Clearing = {}
        for share in (self._strategy.target, 1 - TIER_MARGIN):
            wanted = view.tokens - share * above
            if wanted <= total(every):
                clearing = late_in_prompt(every, self._worths, wanted)
                if self._bills.allows(view, cut_of(clearing)):
                    return clearing, (
                        f"tier: {view.tokens:,} tokens, and all tokens cost {self._prices.tier(view.tokens).prompt:g} "
                        f"times as much above {above:,}; {results_text(clearing)}"
                    )
        return {}, ""

    def _choose_fitting(self, view: View) -> tuple[Clearing, str] | None:
        """Choose the results to clear above the safe zone, and explain why; None if nothing is cleared."""
        if self._spares(view):
            return self._choose_spared(view)
        is_decided = self._past.newest(view.last_request) > view.request
        old, new, held = self._by_use(view.request)
        most = self._smallest(view, [*old, *new])  # all but the results in use
        missing = max(0, view.tokens - total(most) - self._limit)
        largest = ROOM_AT_LEAST * self._limit
        room = largest if is_decided else min(largest, ROOM_FOR_MISSING * missing)
        least_first = LEAST_FIRST
        if is_decided and view.tokens <= self._limit + missing + room:
            return None  # the walk over the full history left no more than that
        if self._fits(view, every := self._smallest(view, old)):
            clearing = self._to_target(view, every, self._strategy.target)
        elif self._fits(view, most) or self._fits(view, most := self._smallest(view, [*old, *new, *held])):
            clearing = dict(until(most, view.tokens - self._limit))
        elif view.tokens <= self._limit + missing + room:
            return None
        else:
            clearing = self._smallest(view, [*old, *new])
            clearing = {each: saves for each, saves in clearing.items() if each[0] in self._open}
            least_first += f"; that leaves {view.tokens - total(clearing):,}"
        return clearing, self._over_zone(view, clearing, least_first)

    def _spares(self, view: View) -> bool:
        """Return whether a compaction is better than clearing results that are not used yet or in use."""
        return self._limit == view.limit < view.tokens <= view.hard_limit != view.limit

    def _choose_spared(self, view: View) -> tuple[Clearing, str] | None:
        """Choose the results to clear to avoid a compaction; None if only results that must stay could avoid it.

        Those that the agent has used go, if the cut then lasts. Just before the compaction a smaller cut will do, or
        else those go too that it has not used, but has had time to use.
        """
        old, _, _ = self._by_use(view.request)
        every = self._smallest(view, [each for each in old if not self._may_be_needed(each.result, view.request)])
        target = min(DEEP, self._strategy.target)
        if total(every) < view.tokens - target * self._limit:
            if view.tokens <= LAST_CHANCE * self._limit:
                return None
            if not self._fits(view, every):
                every = self._smallest(view, old)
        if not self._fits(view, every):
            self._decisions.append(
                f"request {view.request}: {view.tokens:,} tokens, {self._limit:,} allowed; the conversation will be "
                "compacted, since only results that have just arrived or that are in use could be cleared"
            )
            return None
        clearing = self._to_target(view, every, target)
        return clearing, self._over_zone(view, clearing, LEAST_FIRST)

    def _over_zone(self, view: View, clearing: Clearing, order: str) -> str:
        """Say why results were cleared above the safe zone."""
        return f"above limit: {view.tokens:,} tokens, {self._limit:,} allowed; {results_text(clearing)}, {order}"

    def _by_use(self, request: int) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """Group the results that may go above the safe zone, the least worth first in each group.

        The groups are results that the agent has had time to use, newer results, and results in use.
        """
        old: list[Candidate] = []
        new: list[Candidate] = []
        held: list[Candidate] = []
        for each in sorted(self._open, key=self._worth_of):
            if each.result in self._in_use:
                held.append(each)
            elif self._worth_of(each) < inf:
                (new if request - each.result.sent < self._strategy.stay else old).append(each)
        return old, new, held

    def _to_target(self, view: View, every: Clearing, target: float) -> Clearing:
        """Choose the results to clear to bring the prompt to a share of the limit, or lower if the cut then lasts."""
        wanted = min(view.tokens - target * self._limit, total(every))
        clearing = late_in_prompt(every, self._worths, wanted)
        lasting = min(self._lasting(view, clearing), total(every))
        return late_in_prompt(every, self._worths, lasting) if lasting > wanted else clearing

    def _smallest(self, view: View, order: Sequence[Candidate]) -> Clearing:
        """Give candidates full placeholders, or the shortest placeholders if the full ones leave no room."""
        every = self._with_placeholders(view, order)
        return every if self._fits(view, every) else self._shortest(view, order)

    def _lasting(self, view: View, clearing: Clearing) -> float:
        """Return the tokens to clear so that a cut regains enough of its cost before the prompt has grown back.

        Cleared tokens are not read for as many requests as it takes to grow by them. So n tokens save n² / growth per
        request, at the price of reading.
        """
        cost = REGAINED * (self._prices.write - self._prices.read) * cached_after(view, [each for each, _ in clearing])
        growth = view.tokens / max(1, view.request)
        return sqrt(cost * growth / self._prices.read) if self._prices.read else inf

    def _with_placeholders(self, view: View, chosen: Iterable[Candidate]) -> Clearing:
        """Give candidates their placeholders. Candidates that save nothing are dropped."""
        fresh, has_failed = self._worth.fresh_names, self._used.has_failed
        texts = (
            (each, placeholder(each, view.request, fresh(each.result), has_failed=has_failed(each.result)))
            for each in chosen
        )
        return weigh(view, texts)

    def _shortest(self, view: View, chosen: Iterable[Candidate]) -> Clearing:
        """Give candidates the shortest placeholders. Results that were cleared before come first."""
        again = ((each, text) for each in view.candidates() if (text := self._past.gone.get(id(each.part))))
        return weigh(view, (*again, *((each, self._shortest_of(each.result, view.request)) for each in chosen)))

    def _shortest_of(self, result: ToolResult, request: int) -> str:
        """Return the placeholder of a result without names."""
        return short_placeholder(result, request, has_failed=self._used.has_failed(result))

    def _describe(self, candidate: Candidate) -> str:
        """Say in a few words why a candidate may go."""
        if candidate not in self._open:
            return BEFORE
        return self._in_use.get(candidate.result) or _worth_text(self._worth_of(candidate))

    def _worth_of(self, candidate: Candidate) -> float:
        """Return the worth of a candidate at this request; infinite while it is in use."""
        worth = self._worths.get(candidate)
        if worth is None:
            worth = inf if candidate.result in self._in_use else self._worth.worth_of(candidate.result, self._request)
            self._worths[candidate] = worth
        return worth

    def _is_open(self, candidate: Candidate) -> bool:
        return candidate.part is candidate.result and id(candidate.part) not in self._past.gone


def _worth_text(worth: float) -> str:
    return TINY if worth == inf else f"worth {worth:.2g}" if worth < 100 else "worth over 100"


def _reason(reasons: Mapping[Part, str], result: ToolResult) -> str:
    return reasons.get(result, "")


def _as_sent(candidate: Candidate, view: View) -> Candidate:
    """Return a candidate with its result as the model first saw it."""
    sent = view.as_sent(candidate.result)
    return candidate if sent is candidate.result else replace(candidate, result=sent)
