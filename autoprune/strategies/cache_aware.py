"""Clear what is worth least, and only when that pays: the provider's prompt cache is weighed at each request.

How it works. Three questions are asked at each request.

*What is eligible?* A result is worth the more, the more names it holds that no call has used yet, the smaller it is,
and the newer: `1000 · (1 + fresh names) / (tokens^1.2 · √age)`, and four times that for a file that any call touched in
the last 20 requests. What is worth less than `threshold` may go.

*Does it pay?* To carry eligible results costs their tokens at the price of reading, at each request. To clear them
costs the tokens behind the first of them once, which are written anew. An account is kept of the former: when it
reaches `patience` times the latter, all that is eligible goes. After a pause longer than the cache's life nothing is
cached, and it goes for nothing.

*How far?* Above the safe zone, whatever it costs, what is worth least goes first until `target` of it is reached.

A placeholder names the tool, its target, the result's size, and some of its fresh names. It also tells the request at
which it was written: a walk over pruned output that is fed back decides nothing at or before the newest such request,
and so comes to the same as one over the full history. For a prompt of 30,000 tokens at prices of (1.25, 0.1): a result
of 10,000 tokens with 20,000 cached ones behind it adds 1,000 to the account at each request, and goes when that has
reached 4 · 1.15 · 20,000 = 92,000; with 2,000 behind it, after ten requests.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autoprune.conversation.calls import arguments, paths
from autoprune.conversation.commands import command
from autoprune.conversation.edits import Replace
from autoprune.conversation.names import names
from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.economics import CACHE_LIFE, Prices, prices
from autoprune.errors import SettingsError, is_share
from autoprune.planning.clamping import Clamp
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.view import Candidate, View

LEAST_TOKENS = 60  # of a result that may go
TOUCHED_LATELY = 20  # requests
TOUCHED_FACTOR = 4.0
NAMES_SHARE, LEAST_NAMES, MOST_NAMES = 0.03, 8, 150  # tokens for names in a placeholder
CHARACTERS_PER_TOKEN = 3.5  # of names
LONGEST_TARGET = 120  # characters
FILE = re.compile(r"(?<![\w.@$-])[\w./@+-]*[\w@+-]\.[A-Za-z]\w{0,5}(?![\w/])")
MARK = re.compile(r"\[Cleared at request (\d+): ")


@dataclass(frozen=True)
class CacheAware:
    """Clear what is worth least as soon as the prompt cache makes it pay, and down to `target` above the safe zone."""

    threshold: float = 1.5
    patience: float = 4
    prices: str | tuple[float, ...] | Prices | None = None
    cache_life: float = CACHE_LIFE
    target: float = 0.7
    protect: Protections = NOTHING
    clamp: Clamp | None = None
    name = "cache_aware"
    every_request = True

    def for_model(self, model: str | None) -> "CacheAware":
        """Return the strategy with a model's prices, where it has none of its own."""
        return self if self.prices is not None else replace(self, prices=prices(None, model))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed: prices that nobody knows."""
        note = prices(self.prices).note
        return (note,) if note else ()

    def begin(self) -> "Account":
        """Return what one walk remembers."""
        if not is_share(self.target) or not self.target or self.threshold < 0 or self.patience < 0:
            raise SettingsError(f"{self}: target must be above 0 and at most 1, threshold and patience 0 or more")
        return Account(self, prices(self.prices))

    def step(self, view: View) -> Iterator[Replace]:
        """Return what a walk that begins here clears."""
        return self.begin().step(view)


@dataclass(eq=False)
class Known:
    """What is known of a result: its names that no call has used, its paths, its tokens."""

    result: ToolResult

    @cached_property
    def tokens(self) -> int:
        """The tokens of the payload."""
        return self.result.tokens

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths that the call names."""
        return _files(self.result.call) if self.result.call else ()


class Account:
    """What one walk remembers: which names were used, which files touched, and what it has cost to wait."""

    def __init__(self, strategy: CacheAware, known: Prices) -> None:
        """Begin before the first request."""
        self.name = strategy.name
        self._strategy = strategy
        self._prices = known
        self._owed = 0.0
        self._newest_mark = -1
        self._read = 0  # messages
        self._used: set[str] = set()
        self._holders: dict[str, list[int]] = defaultdict(list)  # results that hold a name, by identity
        self._fresh: dict[int, int] = {}
        self._known: dict[int, Known] = {}
        self._touched: dict[str, int] = {}
        self._cleared: set[int] = set()

    def step(self, view: View) -> Iterator[Replace]:
        """Return nothing, or one batch of edits."""
        self._look(view)
        if self._newest_mark >= view.request:
            self._owed = 0.0
            return
        open_ones = [each for each in view.candidates() if self._is_open(each)]
        worth = {id(each): self._worth(each, view.request) for each in open_ones}
        eligible = [each for each in open_ones if worth[id(each)] < self._strategy.threshold]
        chosen, reason = self._paying(view, eligible)
        excess = view.tokens - sum(each.saves for each in chosen) - view.limit
        if excess > 0:
            wanted = view.tokens - self._strategy.target * view.limit
            chosen, reason = _least(open_ones, worth, wanted), "over the safe zone: worth least"
        if chosen:
            self._owed = 0.0
            yield from (self._cleared_now(each, view.request, reason) for each in chosen)

    def _paying(self, view: View, eligible: Sequence[Candidate]) -> tuple[Sequence[Candidate], str]:
        """Return all that is eligible if that pays now, and why."""
        if not eligible:
            return (), ""
        saved = sum(each.saves for each in eligible)
        self._owed += self._prices.read * saved
        cost = self._strategy.patience * (self._prices.write - self._prices.read) * behind(view, eligible)
        if view.pause > self._strategy.cache_life:
            return eligible, "the cache is cold"
        return (eligible, "it pays") if self._owed and self._owed >= cost else ((), "")

    def _is_open(self, candidate: Candidate) -> bool:
        result = candidate.result
        return candidate.part is result and id(result) not in self._cleared and not MARK.match(result.text)

    def _worth(self, candidate: Candidate, request: int) -> float:
        known = self._known[id(candidate.result)]
        if known.tokens < LEAST_TOKENS:
            return float("inf")
        age = max(1, request - candidate.result.request)
        worth: float = 1_000 * (1 + self._fresh[id(candidate.result)]) / (known.tokens**1.2 * age**0.5)
        is_touched = any(self._touched.get(path, -99) >= request - TOUCHED_LATELY for path in known.paths)
        return worth * TOUCHED_FACTOR if is_touched else worth

    def _cleared_now(self, candidate: Candidate, request: int, reason: str) -> Replace:
        result = candidate.result
        self._cleared.add(id(result))
        fresh = [name for name in names(result.text) if name not in self._used]
        size = self._known[id(result)].tokens
        return candidate.replaced(placeholder(candidate, request, size, fresh), reason)

    # Reading what is new

    def _look(self, view: View) -> None:
        entries = view.entries
        for at in range(self._read, len(entries)):
            for call in entries[at].calls:
                self._use(call)
            for result in entries[at].results:
                self._take(result)
        self._read = len(entries)

    def _use(self, call: ToolCall) -> None:
        for path in _files(call):
            self._touched[path] = call.request
        for name in _names_of(call):
            if name not in self._used:
                self._used.add(name)
                for holder in self._holders.pop(name, ()):
                    self._fresh[holder] -= 1

    def _take(self, result: ToolResult) -> None:
        self._known[id(result)] = Known(result)
        if match := MARK.match(result.text):
            self._newest_mark = max(self._newest_mark, int(match[1]))
            return
        fresh = [name for name in names(result.text) if name not in self._used]
        self._fresh[id(result)] = len(fresh)
        for name in fresh:
            self._holders[name].append(id(result))


def _files(call: ToolCall) -> tuple[str, ...]:
    """Return the names of the files that a call touches: in arguments, in a patch, in a shell command."""
    words = (*paths(call), *FILE.findall(command(call)))
    return tuple(dict.fromkeys(name for word in words if (name := word.rstrip("/").rpartition("/")[2])))


def _names_of(call: ToolCall) -> Iterable[str]:
    """Return the names in the arguments of a call."""
    known = arguments(call)
    texts: list[str] = []
    values: list[object] = [known or call.arguments]
    while values:
        value = values.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
    return names("\n".join(texts))


def _least(candidates: Sequence[Candidate], worth: dict[int, float], wanted: float) -> list[Candidate]:
    """Return the candidates that are worth least, so many that they save the tokens that are wanted."""
    chosen: list[Candidate] = []
    for each in sorted(candidates, key=lambda each: worth[id(each)]):
        if wanted <= 0:
            break
        wanted -= each.saves
        chosen.append(each)
    return chosen


def behind(view: View, cut: Sequence[Candidate]) -> int:
    """Return the cached tokens that would be written anew if some candidates were cleared: those behind the first."""
    first = min(each.part.location.message for each in cut)
    cached = sum(view.weight(at) for at in range(first + 1, view.sent))
    return max(0, cached - sum(each.saves for each in cut if first < each.part.location.message < view.sent))


def placeholder(candidate: Candidate, request: int, tokens: int, fresh: Sequence[str]) -> str:
    """Return what stands in place of a result: the tool, its target, its size, and some names in it."""
    target = candidate.target
    shown = target if len(target) <= LONGEST_TARGET else f"{target[: LONGEST_TARGET - 1]}…"
    what = " ".join((candidate.result.tool, shown)).strip()
    room = CHARACTERS_PER_TOKEN * min(max(NAMES_SHARE * tokens, LEAST_NAMES), MOST_NAMES)
    kept: list[str] = []
    for name in fresh:
        room -= len(name) + 2
        if room < 0:
            break
        kept.append(name)
    named = f". Names in it: {', '.join(kept)}" if kept else ""
    return f"[Cleared at request {request}: {what}, {tokens:,} tokens{named}]"
