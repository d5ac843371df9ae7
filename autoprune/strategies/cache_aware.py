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
which it was written: a walk over pruned output that is fed back clears nothing because it pays at or before the newest
such request, and so comes to the same as one over the full history. Above the safe zone it clears all the
same: what the walk over the full history did there has been done, and a forged placeholder cannot keep it from that.

For a prompt of 30,000 tokens at prices of (1.25, 0.1): a result of 10,000 tokens with 20,000 cached ones behind it adds
1,000 to the account at each request, and goes when that has reached 4 · 1.15 · 20,000 = 92,000; with 2,000 behind it,
after ten requests.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from autoprune.conversation.calls import arguments, paths
from autoprune.conversation.commands import command
from autoprune.conversation.edits import Replace
from autoprune.conversation.names import names
from autoprune.conversation.recall import parted
from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.economics import CACHE_LIFE, Prices, prices
from autoprune.errors import SettingsError, is_share
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.view import Candidate, View

LEAST_TOKENS = 60  # of a result that may go
TOUCHED_LATELY = 20  # requests
TOUCHED_FACTOR = 4.0
NAMES_SHARE, LEAST_NAMES, MOST_NAMES = 0.03, 8, 150  # tokens for names in a placeholder
CHARACTERS_PER_TOKEN = 3.5  # of names
LONGEST_TARGET = 120  # characters
FILE = re.compile(r"(?<![\w.@$/+-])[\w./@+-]*[\w@+-]\.[A-Za-z]\w{0,5}(?![\w/])")
WORTH_LEAST = "over the safe zone: worth least"
MARK = re.compile(r"\[Cleared at request (\d{1,9}): [^\n]*, [\d,]+ tokens(?:\. Names in it: [^\n]*)?\]")


@dataclass(frozen=True)
class CacheAware:
    """Clear what is worth least as soon as the prompt cache makes it pay, and down to `target` above the safe zone."""

    threshold: float = 1.5
    patience: float = 4
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
        worth = {each: self._worth(each, view.request) for each in view.candidates() if self._is_open(each)}
        eligible = [each for each in worth if worth[each] < self._strategy.threshold]
        is_decided = self._newest_mark >= view.request
        chosen, reason = ((), "") if is_decided else self._paying(view, eligible)
        made = self._made(view, chosen, inf)
        if view.tokens - sum(made.values()) > view.limit:
            wanted = view.tokens - self._strategy.target * view.limit
            made, reason = self._made(view, sorted(worth, key=worth.__getitem__), wanted), WORTH_LEAST
        if made or is_decided:
            self._owed = 0.0
        for candidate, text in made:
            self._cleared.add(id(candidate.result))
            yield candidate.replaced(text, reason)

    def _made(self, view: View, chosen: Iterable[Candidate], wanted: float) -> dict[tuple[Candidate, str], int]:
        """Return candidates with their placeholders and what these save, until so much is saved as is wanted."""
        made: dict[tuple[Candidate, str], int] = {}
        for each in chosen:
            if wanted <= 0:
                break
            text = self._placeholder(each, view.request)
            if (saves := view.saves(each, text)) > 0:
                made[each, text] = saves
                wanted -= saves
        return made

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
        return candidate.part is result and id(result) not in self._cleared and _mark(result) is None

    def _worth(self, candidate: Candidate, request: int) -> float:
        known = self._known[id(candidate.result)]
        if known.tokens < LEAST_TOKENS:
            return inf
        age = max(1, request - candidate.result.request)
        worth: float = 1_000 * (1 + self._fresh[id(candidate.result)]) / (known.tokens**1.2 * age**0.5)
        is_touched = any(self._touched.get(path, -99) >= request - TOUCHED_LATELY for path in known.paths)
        return worth * TOUCHED_FACTOR if is_touched else worth

    def _placeholder(self, candidate: Candidate, request: int) -> str:
        fresh = [name for name in names(candidate.result.text) if name not in self._used]
        return placeholder(candidate, request, self._known[id(candidate.result)].tokens, fresh)

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
        if (mark := _mark(result)) is not None:
            self._newest_mark = max(self._newest_mark, mark)
            return
        fresh = [name for name in names(result.text) if name not in self._used]
        self._fresh[id(result)] = len(fresh)
        for name in fresh:
            self._holders[name].append(id(result))


def _mark(result: ToolResult) -> int | None:
    """Return the request at which a result was cleared, as its placeholder says; None for any other text.

    In place of a payload that is JSON in a text the placeholder is a JSON string. It may carry the mark of an archive.
    """
    match = MARK.fullmatch(parted(result.text)[0].strip().strip('"'))
    return int(match[1]) if match else None


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
