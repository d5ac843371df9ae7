"""Prune the body of a request, bytes to bytes, and remember of each conversation what the next request needs.

A `Work` is done in one place at a time: in a thread of the proxy, or in a process of its own (`_lanes`). What it
remembers are memos and pauses; where it is lost, the next request of a conversation is pruned from its first message.
"""

import json
import pickle
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from typing import Any

from autoprune.apps.proxy._caches import Cache, asked
from autoprune.apps.proxy._conversations import Conversation, Conversations
from autoprune.apps.proxy._payloads import QUICK, Payloads
from autoprune.apps.proxy._settings import Settings
from autoprune.conversation.recall import content_id
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import Prices, Sent, prices
from autoprune.facts.calls import target
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.requests import Place, place, prune_request
from autoprune.pruners.result import Result
from autoprune.settings import PruneArgs, cache_ttl, usual_zone, variables
from autoprune.strategies.catalog import clearing_named

REMEMBERED = 64  # conversations
MOST_MESSAGES = 50_000  # of a conversation: of more, a lane would do nothing else for a minute
OPEN = 2  # prunes without an account, of conversations that go on: these hold what is remembered of them once more
LONGEST_NAME = 100  # characters, of one that is shown
KEPT_BYTES = 8_000_000  # of cleared payloads, compressed: the newest


@dataclass(frozen=True)
class Job:
    """A request to prune: its path, the headers that pruning may change, its body, and when it came, in seconds.

    By its `mark` it is recognized when it is sent again.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    session: str
    at: float
    mark: bytes = b""


# A model with a price, whose list is loaded too; a text, for which the vocabulary is; a word in it that is no token,
# which takes longest.
WARM_BODY = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Is autoprune warm?"}]}'
WARMING = Job("/v1/messages", {}, WARM_BODY, "autoprune", 0.0)


@dataclass(frozen=True)
class Cleared:
    """A result that was cleared, for a person: `id` recalls it from the proxy as long as that keeps it.

    `is_cold` says that the cache had died before, so that the rewrite was paid for anyway.
    """

    request: int
    tool: str
    target: str
    tokens: int
    reason: str
    id: str
    is_cold: bool = False


@dataclass(frozen=True)
class Done:
    """A pruned request, ready to be sent. `body` is None where nothing was done: then the bytes that came are sent.

    `conversation` names the conversation within its session; "" where none was read, and then `note` says why. By
    `number` the account of the prune is asked for.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    conversation: str = ""
    number: int = 0
    note: str = ""
    counts_only: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Account:
    """What a prune came to, for people: the tokens before and after, what was cleared and why, what a ledger takes.

    `prices` are those for the life of this conversation's cache, and `life_from` says how that is known, as in "as its
    answers say"; "" where it is what is usual for the model.
    """

    model: str | None
    safe_zone: int
    messages: int
    pause: float
    before: int
    after: int
    sent: Sent = field(repr=False)
    prices: Prices
    cleared: tuple[Cleared, ...]
    results: int
    decisions: tuple[str, ...]
    life_from: str = ""

    @property
    def is_cold(self) -> bool:
        """Whether the cache had died before the request."""
        return self.pause > self.prices.life


@dataclass(frozen=True)
class Open:
    """A prune of which no account was given yet."""

    result: Result
    conversation: Conversation
    model: str | None
    pause: float
    life: float
    life_from: str


@dataclass
class Last:
    """The last request of a conversation. `made` is what was made of it, with its account, as compressed bytes.

    Bytes, because many small objects that stay among those of a prune would keep its memory from being given back.
    """

    mark: bytes
    done: Done | None
    made: bytes = b""

    def close(self, account: Account) -> None:
        """Keep what was made, now that there is an account."""
        self.made = zlib.compress(pickle.dumps((self.done, account), pickle.HIGHEST_PROTOCOL), QUICK)
        self.done = None

    def again(self) -> tuple[Done, Account] | None:
        """Return what was made; None while there is no account."""
        known: tuple[Done, Account] | None = pickle.loads(zlib.decompress(self.made)) if self.made else None
        return known


class Work:
    """Prunes requests, one at a time."""

    def __init__(self, settings: Settings) -> None:
        """Begin with nothing known."""
        self._settings = settings
        self._args = PruneArgs() if settings.safe_zone is None else PruneArgs(settings.safe_zone)
        self._environ = variables(None)
        self._strategy = clearing_named(settings.strategy)
        self._pruner = AgenticConversationPruner(self._args, remember=REMEMBERED)
        self._conversations = Conversations(REMEMBERED)
        self._payloads = Payloads(KEPT_BYTES)
        self._numbers = count(1)
        self._open: dict[int, Open] = {}  # by number, as what follows
        self._accounts: dict[int, Account] = {}
        self._last: OrderedDict[str, Last] = OrderedDict()  # by the names of conversations

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned; unchanged, with a note, where that cannot be."""
        started = time.perf_counter()
        try:
            done = self._read(job)
        except Exception as error:  # whatever it is, the client must have its answer
            done = Done(note=f"{type(error).__name__}: {error}")
        if done.number and job.mark:
            self._last.pop(done.conversation, None)
            self._last[done.conversation] = Last(job.mark, done)
            while len(self._last) > REMEMBERED:
                self._last.popitem(last=False)
        return replace(done, seconds=time.perf_counter() - started)

    def again(self, mark: bytes, at: float) -> Done | None:
        """Return what was made of a request that is sent again; None if it has to be pruned."""
        started = time.perf_counter()
        found = next((item for item in self._last.items() if item[1].mark == mark), None)
        known = self._conversations.named(found[0]) if found else None
        made = found[1].again() if found and known and not known.is_cold(at) else None
        if made is None or known is None:
            return None
        done, account = made
        number = next(self._numbers)
        self._accounts[number] = replace(account, pause=known.waited(account.messages, at))
        return replace(done, number=number, seconds=time.perf_counter() - started)

    def _read(self, job: Job) -> Done:
        try:
            body = json.loads(job.body, object_pairs_hook=unambiguous, parse_constant=no_number)
        except RecursionError:
            return Done(note="the body is nested too deeply to be read")
        except ValueError as error:
            return Done(note=f"the body cannot be read: {error}")
        return self._pruned(job, body) if isinstance(body, dict) else Done(note="the body is no JSON object")

    def account(self, number: int) -> Account | None:
        """Return what a prune came to, by its number, once; None where there was none.

        It takes a while, so it is asked for when the request is on its way.
        """
        try:
            return self._account(number) if number in self._open else self._accounts.pop(number, None)
        except Exception:  # it would end this process, with all that it remembers
            return None

    def _account(self, number: int) -> Account:
        prune = self._open.pop(number)
        known, report, sent = prune.conversation, prune.result.report, prune.result.sent
        known.counted = sent.tokens
        account = Account(
            prune.model,
            report.safe_zone,
            len(prune.result.conversation),
            prune.pause,
            report.tokens_before,
            report.tokens_after,
            sent,
            prices(None, prune.model, prune.life),
            tuple(self._cleared(prune.result, known)),
            report.results,
            tuple(report.decisions),
            prune.life_from,
        )
        last = self._last.get(known.name)
        if last and last.done and last.done.number == number:
            last.close(replace(account, cleared=()))
        return account

    def answered(self, conversation: str, usage: object) -> None:
        """Note the usage that the provider reported with an answer to a conversation."""
        if known := self._conversations.named(conversation):
            known.answered(usage)

    def recall(self, id: str) -> str | None:
        """Return a cleared payload; None where it is not kept any more."""
        return self._payloads.get(id)

    def _pruned(self, job: Job, body: dict[str, Any]) -> Done:
        found = place(job.path, body)
        messages = found.messages(body) if found else None
        if found is None or not isinstance(messages, list):
            return Done(note=prune_request(self._pruner, body, job.path).note)
        if len(messages) > MOST_MESSAGES:
            return Done(note=f"the conversation has more than {MOST_MESSAGES:,} messages: it goes on unread")
        known = self._conversations.of(f"{job.session}/{found.model}", messages)
        cache = self._cache(known, found, body, len(messages))
        pause = known.waited(len(messages), job.at, counts_only=found.counts_only)
        zone = usual_zone(found.model) if self._settings.safe_zone is None else None
        told: dict[str, Any] = {"cache_ttl": cache.first} | ({} if zone is None else {"safe_zone": zone})
        pruned = prune_request(
            self._pruner.filled_in(**told),
            body,
            job.path,
            job.headers,
            strategy=self._strategy,
            calibration=known.calibration,
            pauses=known.pauses,
            cache_ttls=cache.changes,
        )
        if pruned.result is None:
            return Done(note=pruned.note)
        notes = pruned.result.report.fallbacks
        changed = None if pruned.body is body else encoded(pruned.body)
        prune = Open(pruned.result, known, found.model, pause, cache.life, cache.known_from)
        number = 0 if pruned.counts_only else self._opened(prune)
        return Done(pruned.headers, changed, known.name, number, notes[0] if notes else "", pruned.counts_only)

    def _cache(self, known: Conversation, found: Place, body: Mapping[str, Any], messages: int) -> Cache:
        """Return the cache of a conversation, once it is known what a request asks for."""
        if not found.counts_only:
            usual = usual_prices(found.model)
            known.cache.usual = usual.life
            known.cache.given = cache_ttl(self._args, self._environ)
            known.cache.ask(asked(found, body, is_charged=usual.write > 1), messages)
        return known.cache

    def _opened(self, prune: Open) -> int:
        """Return the number of a prune whose account will be asked for; where many are not yet, the first is made."""
        number = next(self._numbers)
        self._open[number] = prune
        holding = [each for each, prune in self._open.items() if prune.conversation.counted]
        if len(holding) > OPEN:
            self._accounts[holding[0]] = self._account(holding[0])
        return number

    def _cleared(self, result: Result, known: Conversation) -> Iterator[Cleared]:
        """Yield what was cleared and is new, and keep its payload."""
        for part, edit in result.plan.results.items():
            id = content_id(part.text)
            if id not in known.cleared:
                known.cleared.add(id)
                self._payloads.put(id, part.text)
                yield cleared(part, edit.request, str(edit.reason), id)


def unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError for a name that comes twice: readers differ in which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"an object has the name {names.most_common(1)[0][0][:LONGEST_NAME]!r} twice")
    return found


def no_number(text: str) -> Any:
    """Raise ValueError for NaN and Infinity, which are no JSON."""
    raise ValueError(f"{text} is no number of JSON")


def encoded(body: object) -> bytes:
    """Return JSON-like data as bytes; half a surrogate pair, as of an emoji that was cut, as an escape.

    Raises ValueError for a number that JSON has no word for: 1e999 is read as infinite.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False).encode()


def cleared(part: ToolResult, request: int, reason: str, id: str) -> Cleared:
    """Return what is told of a cleared result."""
    return Cleared(request, part.tool, target(part.call), part.tokens, reason, id)


@lru_cache(maxsize=64)
def usual_prices(model: str | None) -> Prices:
    """Return the prices of a model with the life that its vendor's cache has where nobody says anything."""
    return prices(None, model)
