"""Prune request bodies, bytes in and bytes out, and remember the state of each conversation for its next request.

A `Work` belongs to one thread or one worker process. Its state (the pruner's memo, pauses, cache lives) can be lost
at any time: the next request of a conversation is then pruned from its first message, by the past that was kept.

Pruning a request and accounting for the prune are two calls, so that the request is sent before its report is computed.
"""

import json
import re
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from autoprune.apps.clients.compactions import (
    CompactionRule,
    has_summarizer_prompt,
    is_compaction_request,
    rule_for_headers,
)
from autoprune.apps.proxy._configuration import Settings
from autoprune.apps.proxy._conversations import UNPRUNED, Cache, Conversations, Prompt, TrackedConversation
from autoprune.apps.proxy._resuming import Past, PastFiles
from autoprune.conversation.edits import Fold, Replace, content_id, text_to_archive
from autoprune.conversation.limited_archive import LimitedDirectory
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import Prices, Sent, prices
from autoprune.facts.calls import target
from autoprune.pruners.requests import Place, PrunedRequest, place, prune_request, requested_betas, requested_life
from autoprune.pruners.result import Result
from autoprune.settings.models import FAST, asks_for_long
from autoprune.settings.values import (
    PruneArgs,
    below_compaction,
    cache_ttl,
    usual_zone,
    variables,
    window_of,
    window_tokens,
)
from autoprune.strategies.catalog import clearing_named, without_folding

REMEMBERED = 64  # conversations whose messages the pruner remembers
MOST_TRACKED = 512  # conversations with the state of each
MOST_MESSAGES = 50_000  # in a conversation: a longer one would occupy a worker for a minute
MOST_OPEN = 2  # prunes in known conversations whose account is due: each copies a conversation's state
LONGEST_NAME = 100  # characters of a name in a message, and of a client
PRODUCT = re.compile(r"[^/(]*[^/\s(](?=/)|[^/\s(]+")  # what is before the version in a User-Agent, or a word
UNKNOWN = "unknown"
PAYLOAD_BYTES = 8_000_000  # of cleared payloads, compressed
COMPACTING = "the client's own compaction: forwarded whole"
# A compaction counts as the client's decision if the prompt is this near to its point: in the model's window, or in the
# short one that clients fall back to without saying so. Any other is the user's own command.
NEAR_POINT, SHORT_WINDOW = 0.75, 200_000
COMPRESS = "/v1/compress"  # as gateways call it
HELD_OUT = "held out: forwarded unpruned, for comparison (--holdout)"
QUICK = 1  # zlib level: source code shrinks to a fifth in 0.1 ms


@dataclass(frozen=True)
class Job:
    """A request to prune.

    `headers` are those that pruning may change, and `at` is when the request came, in seconds. `upstream` is the host
    that the request goes to. `client` are the headers that show the client and the purpose of the request.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    session: str
    at: float
    upstream: str = ""
    client: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """Identifies a context window: a model at a host, and whether the requests ask for the long window."""

    upstream: str = ""
    model: str | None = None
    is_long: bool = False


# Loads everything that a first prune needs: the price list by naming a priced model, the vocabulary by a text, and the
# merge tables by a word in it that is not a single token.
WARM_BODY = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Is autoprune warm?"}]}'
WARMING = Job("/v1/messages", {}, WARM_BODY, "autoprune", 0.0)


@dataclass(frozen=True)
class DisplayedResult:
    """A cleared result for display.

    `id` recalls its payload from the proxy as long as the payload is stored. `is_cold` means that the provider's cache
    had expired before the request, so that the rewrite was paid for anyway.
    """

    request: int
    tool: str
    target: str
    tokens: int
    reason: str
    id: str
    is_cold: bool = False


@dataclass(frozen=True)
class Outcome:
    """A pruned request, ready to send. If `body` is None, the original bytes are sent.

    `conversation` names the conversation within its session; it is "" if no conversation was read, and then `note`
    gives the reason. `number` identifies the prune when its account is requested; 0 means that it has no account.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    conversation: str = ""
    number: int = 0
    note: str = ""
    counts_only: bool = False
    seconds: float = 0.0
    target: Target = Target()


@dataclass(frozen=True)
class Account:
    """The account of a prune, for people and the ledger: tokens before and after, cleared results and their reasons.

    `prices` are the prices for the life of the conversation's cache. `life_from` is the source of that life, such as
    "as reported in answers"; it is "" if the life is the usual one for the model. `compact_at` is the prompt at which
    the client compacts by itself, in the provider's tokens; None if it does not, or is not known. `arm` is the arm of a
    holdout, "pruned" or "unpruned"; "" without a holdout. `is_compaction` is true for the client's own compaction.
    """

    model: str | None
    safe_zone: int
    messages: int
    pause: float
    before: int
    after: int
    sent: Sent = field(repr=False)
    prices: Prices
    cleared: tuple[DisplayedResult, ...]
    decisions: tuple[str, ...]
    life_from: str = ""
    compact_at: int | None = None
    arm: str = ""
    is_compaction: bool = False

    @property
    def is_cold(self) -> bool:
        """Whether the provider's cache had expired before the request."""
        return self.pause > self.prices.life


@dataclass(frozen=True)
class OpenAccount:
    """A prune whose account is due, with the branch of the conversation and the state of its cache at the prune."""

    result: Result[Any]
    conversation: TrackedConversation
    past: Past
    cache: Cache
    model: str | None
    pause: float
    compact_at: int | None
    is_compaction: bool


class Payloads:
    """Stores the newest cleared payloads by id, compressed and in memory only, so that a person can look at them."""

    def __init__(self, most: int) -> None:
        """Store up to `most` bytes."""
        self._most, self._bytes = most, 0
        self._packed: OrderedDict[str, bytes] = OrderedDict()

    def put(self, id: str, text: str) -> None:
        """Store a payload, and drop the oldest payloads if there is no room."""
        if id in self._packed:
            return
        self._packed[id] = packed = zlib.compress(text.encode("utf-8", "surrogatepass"), QUICK)
        self._bytes += len(packed)
        while self._bytes > self._most:
            _, dropped = self._packed.popitem(last=False)
            self._bytes -= len(dropped)

    def get(self, id: str) -> str | None:
        packed = self._packed.get(id)
        return None if packed is None else zlib.decompress(packed).decode("utf-8", "surrogatepass")


class NoEdits:
    """The strategy of conversations that are held out: it plans no edits."""

    name = "held_out"

    def step(self, view: object) -> list[Replace]:
        return []


class Work:
    """Prunes requests, one at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._environ = variables(None)
        self._strategy = clearing_named(settings.strategy)
        self._unfolding = without_folding(self._strategy)
        self._archive = LimitedDirectory(settings.archive) if settings.archive else None
        self._pruner = settings.new_pruner(remember=REMEMBERED, archive=self._archive)
        self._args = self._pruner.args
        kept = PastFiles(settings.memory, settings.written)
        self._conversations = Conversations(MOST_TRACKED, kept, settings.holdout, settings.holdout_seed)
        self._payloads = Payloads(PAYLOAD_BYTES)
        self._numbers = count(1)
        self._open: dict[int, OpenAccount] = {}  # by number, like the next one
        self._accounts: dict[int, Account] = {}
        self._windows: dict[Target, int] = {}  # that providers stated
        self._points: dict[tuple[str, Target], int] = {}  # where clients were seen to compact

    def warm(self) -> None:
        """Load everything that a first prune needs, so that no request waits for it."""
        self.prune(WARMING)

    def prune(self, job: Job) -> Outcome:
        """Prune the conversation in a request.

        If that is impossible, the outcome has no body, and a note with the reason.
        """
        started = time.perf_counter()
        try:
            outcome = self._prune_bytes(job)
        except Exception as error:  # the client must get its answer, whatever the fault
            outcome = Outcome(note=f"{type(error).__name__}: {error}")
        return replace(outcome, seconds=time.perf_counter() - started)

    def account(self, number: int) -> Account | None:
        """Return the account of a prune the first time it is requested; None after that or if there is none."""
        return self._make_account(number) if number in self._open else self._accounts.pop(number, None)

    def learn(self, conversation: str, usage: object, number: int) -> None:
        """Record the usage that a provider reported for a prune of a conversation."""
        if (known := self._conversations.get(conversation)) and (past := known.learn(usage, number)):
            self._conversations.keep(past, known.calibration)

    def learn_window(self, target: Target, tokens: int) -> None:
        """Record the context window that a provider stated for a model."""
        self._windows[target] = tokens

    def recall(self, id: str) -> str | None:
        return self._payloads.get(id)

    # Pruning

    def _prune_bytes(self, job: Job) -> Outcome:
        try:
            body = json.loads(job.body, object_pairs_hook=reject_duplicates, parse_constant=reject_constant)
        except RecursionError:
            return Outcome(note="the body nests too deeply")
        except ValueError as error:
            return Outcome(note=f"the body cannot be read: {error}")
        return self._prune_json(job, body) if isinstance(body, dict) else Outcome(note="the body is not a JSON object")

    def _prune_json(self, job: Job, body: dict[str, Any]) -> Outcome:
        found = place(job.path, body)
        messages = found.messages(body) if found else None
        if found is None or not isinstance(messages, list):
            return Outcome(note=prune_request(self._pruner, body, job.path).note)
        if len(messages) > MOST_MESSAGES:
            return Outcome(note=f"the conversation has more than {MOST_MESSAGES:,} messages: it was sent unpruned")
        known = self._conversations.match(job.session, messages, job.at, found.model, counts_only=found.counts_only)
        cache = self._update_cache(known, found, body, job.upstream)
        pause = known.note_request(len(messages), job.at, counts_only=found.counts_only)
        betas = requested_betas(job.headers, found.inside(body))
        target = Target(job.upstream, found.model, asks_for_long(found.model, betas))
        options = {"cache_ttl": cache.life} | self._zone(target, betas, job.client)
        prune = partial(
            prune_request,
            self._pruner.fill_in(**options),
            path=job.path,
            headers=job.headers,
            calibration=known.calibration,
            pauses=known.past.pauses,
            invoices=known.past.invoices,
            history=known.past.history,
        )
        trigger: list[Any] = []
        whole_because = HELD_OUT if known.past.arm == UNPRUNED else ""
        if is_compaction := is_compaction_request(job.client, body):
            self._learn_point(job.client, target, known.before)
            if fits(prune(body=body, strategy=NoEdits()), options.get("window")):
                if has_summarizer_prompt(body):  # pruned or not, its whole prompt is written: nothing to account for
                    return Outcome(note=COMPACTING)
                whole_because = COMPACTING
            body, trigger = without_trigger(body)  # a pruner leaves a conversation with a trigger unchanged
        strategy = self._unfolding if job.path == COMPRESS and body.get("fold") is False else self._strategy
        pruned = prune(body=body, strategy=NoEdits() if whole_because else strategy)
        known.past.history = pruned.history
        if pruned.result is None:
            return Outcome(note=pruned.note)
        notes = (whole_because,) if whole_because else pruned.result.report.fallbacks
        changed = None if pruned.body is body or whole_because else to_json(with_items(pruned.body, trigger))
        model = f"{found.model}{FAST}" if found.model and body.get("speed") == "fast" else found.model  # as billed
        point = options.get("compact_at")
        due = OpenAccount(pruned.result, known, known.past, copy(cache), model, pause, point, is_compaction)
        return Outcome(
            headers=pruned.headers,
            body=changed,
            conversation=known.name,
            number=0 if pruned.counts_only else self._open_account(due),
            note=notes[-1] if notes else "",  # this request's notes follow those of the settings
            counts_only=pruned.counts_only,
            target=target,
        )

    def _zone(self, target: Target, betas: Iterable[str], client: Mapping[str, str]) -> dict[str, Any]:
        """Return the options for the zone: window, point of compaction, and the usual zone unless one is given."""
        given = window_tokens(self._args, self._environ)
        window = self._windows.get(target) or given or window_of(target.model, betas)
        rule = self._rule(client)
        point = self._points.get((client_name(client.get("user-agent", "")), target))
        point = point or (rule.end(window, target.model) if rule else None)
        zone = None if self._settings.safe_zone is not None else usual_zone(target.model, window)
        if rule and point and not rule.is_on:  # it would not compact there, but end the session
            zone, point = zone and below_compaction(zone, PruneArgs(compact_at=point)), None
        options = {"safe_zone": zone, "window": window, "compact_at": point}
        return {name: value for name, value in options.items() if value is not None}

    def _rule(self, client: Mapping[str, str]) -> CompactionRule | None:
        """Return when the client compacts, by the user's settings or else by its headers; None if nobody knows."""
        return self._settings.compaction or rule_for_headers(client)

    def _learn_point(self, client: Mapping[str, str], target: Target, prompt: int) -> None:
        """Record that a client compacts after a prompt of this size, if it was the client that decided."""
        rule, windows = self._rule(client), (window_of(target.model), SHORT_WINDOW)
        points = [rule.point(size, target.model) for size in windows] if rule else []
        if any(point and NEAR_POINT <= prompt / point <= 1 / NEAR_POINT for point in points):
            self._points[client_name(client.get("user-agent", "")), target] = prompt

    def _update_cache(self, known: TrackedConversation, found: Place, body: Mapping[str, Any], upstream: str) -> Cache:
        """Update the cache of a conversation with the life that a request asks for."""
        if not found.counts_only:
            usual = prices(None, found.model)
            requested = requested_life(found, body, charges_writes=usual.write > 1)
            known.cache.usual = usual.life
            known.cache.given = cache_ttl(self._args, self._environ)
            known.cache.reads = self._conversations.reads(upstream, found.model, requested)
            known.cache.note_request(requested)
        return known.cache

    # Accounts

    def _open_account(self, due: OpenAccount) -> int:
        """Assign a number to a new prune. If too many accounts are due, compute the oldest account now."""
        number = next(self._numbers)
        self._open[number] = due
        holding = [each for each, prune in self._open.items() if prune.conversation.counted]
        if len(holding) > MOST_OPEN:
            self._accounts[holding[0]] = self._make_account(holding[0])
        return number

    def _make_account(self, number: int) -> Account:
        prune = self._open.pop(number)
        known, report, sent = prune.conversation, prune.result.report, prune.result.sent
        cleared = tuple(self._newly_cleared(prune.result, prune.past))
        listed = prices(None, prune.model, prune.cache.life)
        messages = len(report.plan.transcript.messages)
        if not prune.is_compaction:  # later prompts do not continue it, and are not like it
            prune.past.cuts = cuts_of(prune.result)
            prompt = Prompt(prune.past, messages, sent.tokens, prune.cache.requested, sent.beside)
            known.note_prompt(number, prompt, is_edited=bool(cleared))
        self._conversations.keep(prune.past, known.calibration)
        return Account(
            model=prune.model,
            safe_zone=report.safe_zone,
            messages=messages,
            pause=prune.pause,
            before=report.tokens_before,
            after=report.tokens_after,
            sent=sent,
            prices=listed.with_reads if prune.past.has_reads else listed,
            cleared=cleared,
            decisions=(*report.decisions, *filter(None, (report.mark_note,))),
            life_from=prune.cache.unusual_source,
            compact_at=prune.compact_at,
            arm=prune.past.arm or "",
            is_compaction=prune.is_compaction,
        )

    def _newly_cleared(self, result: Result[Any], past: Past) -> Iterator[DisplayedResult]:
        """Yield the results that were not cleared or folded before, and store their payloads."""
        plan = result.plan
        entries = plan.transcript.entries
        changed: list[tuple[ToolResult, Replace | Fold]] = [*plan.results.items()]
        changed += ((part, fold) for at, fold in plan.gone.items() for part in entries[at].results)
        for part, edit in changed:
            id = content_id(part.text)
            if id not in past.cleared:
                past.cleared.add(id)
                self._payloads.put(id, part.text)
                if self._archive:
                    with suppress(OSError):  # it only lacks a name in searches
                        what = f"{part.tool} {target(part.call)}".strip()
                        self._archive.describe(content_id(text_to_archive(part)), what)
                yield DisplayedResult(
                    request=edit.request,
                    tool=part.tool,
                    target=target(part.call),
                    tokens=part.tokens,
                    reason=str(edit.reason),
                    id=id,
                )


def cuts_of(result: Result[Any]) -> dict[int, int]:
    """Return the first message that each request edited, by the number of messages of the request."""
    plan = result.plan
    found: dict[int, int] = {}
    edited = [(edit.request, edit.part.location.message) for edit in plan.edits]
    for request, at in [*edited, *((fold.request, min(fold.messages)) for fold in plan.folds)]:
        messages = plan.transcript.requests[request]
        found[messages] = min(at, found.get(messages, at))
    return found


def fits(pruned: PrunedRequest, window: int | None) -> bool:
    """Return whether a prompt fits the context window; True if the window is unknown."""
    result = pruned.result
    return window is None or not result or result.report.tokens_after <= usual_zone(None, window)


def without_trigger(body: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Split the items after the conversation, by which Codex asks for a compaction, from a body."""
    match body.get("input"):
        case [*items, {"type": "compaction_trigger"} as trigger]:
            return {**body, "input": items}, [trigger]
    return body, []


def with_items(body: dict[str, Any] | None, items: list[Any]) -> dict[str, Any] | None:
    return {**body, "input": [*body["input"], *items]} if items and body else body


def client_name(user_agent: str) -> str:
    """Return the name of a client from its User-Agent, without version and platform."""
    found = PRODUCT.match(user_agent.strip())
    return found[0][:LONGEST_NAME] if found else UNKNOWN


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object. Raises ValueError for a duplicate name, since parsers differ in which value counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"duplicate name {names.most_common(1)[0][0][:LONGEST_NAME]!r} in an object")
    return found


def reject_constant(text: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python parses but JSON does not allow."""
    raise ValueError(f"{text} is not valid JSON")


def to_json(body: object) -> bytes:
    """Serialize a body. Raises ValueError for an infinite number, which Python makes of 1e999 for example."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, as in an emoji that a tool cut: only escapes can encode it
        return json.dumps(body, allow_nan=False).encode()
