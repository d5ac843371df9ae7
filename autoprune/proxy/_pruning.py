"""Prune the body of a request, bytes to bytes, and remember of each conversation what the next request needs.

A `Work` is done in one place at a time: in a thread of the proxy, or in a process of its own (`_lanes`). What it
remembers are memos and pauses; where it is lost, the next request of a conversation is pruned from its first message.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from autoprune.conversation.calls import target
from autoprune.conversation.recall import content_id
from autoprune.conversation.transcript import ToolResult
from autoprune.economics import Prices, Sent, prices
from autoprune.errors import SettingsError
from autoprune.proxy._conversations import Conversation, Conversations
from autoprune.proxy._payloads import Payloads
from autoprune.proxy._settings import SHARE, UNKNOWN_ZONE, Settings
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.result import Result
from autoprune.requests import place, prune_request
from autoprune.settings import PruneArgs, budget_tokens
from autoprune.strategies.by_name import clearing_named

REMEMBERED = 64  # conversations
OPEN = 2  # prunes without an account, of conversations that go on: these hold what is remembered of them once more
KEPT_BYTES = 8_000_000  # of cleared payloads, compressed: the newest


@dataclass(frozen=True)
class Job:
    """A request to prune: its path, the headers that pruning may change, its body, and when it came, in seconds."""

    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    session: str
    at: float


# A model with a price, whose list is loaded too; a text, for which the vocabulary is; a word in it that is no token,
# which takes longest.
WARM_BODY = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Is autoprune warm?"}]}'
WARMING = Job("/v1/messages", {}, WARM_BODY, "autoprune", 0.0)


@dataclass(frozen=True)
class Cleared:
    """A result that was cleared, for a person: `id` recalls it from the proxy as long as that keeps it."""

    request: int
    tool: str
    target: str
    tokens: int
    reason: str
    id: str


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
    """What a prune came to, for people: the tokens before and after, what was cleared and why, what a ledger takes."""

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


@dataclass(frozen=True)
class Open:
    """A prune of which no account was given yet."""

    result: Result
    conversation: Conversation
    model: str | None
    pause: float


class Work:
    """Prunes requests, one at a time."""

    def __init__(self, settings: Settings) -> None:
        """Begin with nothing known."""
        self._settings = settings
        args = PruneArgs() if settings.safe_zone is None else PruneArgs(settings.safe_zone)
        self._strategy = clearing_named(settings.strategy)
        self._pruner = AgenticConversationPruner(args, remember=REMEMBERED)
        self._conversations = Conversations(REMEMBERED)
        self._payloads = Payloads(KEPT_BYTES)
        self._numbers = count(1)
        self._open: dict[int, Open] = {}  # by number, as what follows
        self._accounts: dict[int, Account] = {}

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned; unchanged, with a note, where that cannot be."""
        started = time.perf_counter()
        try:
            body = json.loads(job.body)
            done = self._pruned(job, body) if isinstance(body, dict) else Done(note="the body is no JSON object")
        except Exception as error:  # whatever it is, the client must have its answer
            done = Done(note=f"{type(error).__name__}: {error}")
        return replace(done, seconds=time.perf_counter() - started)

    def account(self, number: int) -> Account | None:
        """Return what a prune came to, by its number, once; None where there was none.

        It takes a while, so it is asked for when the request is on its way.
        """
        prune = self._open.pop(number, None)
        return self._account(prune) if prune else self._accounts.pop(number, None)

    def _account(self, prune: Open) -> Account:
        known, report, sent = prune.conversation, prune.result.report, prune.result.sent
        known.counted = sent.tokens
        return Account(
            prune.model,
            report.safe_zone,
            len(prune.result.conversation),
            prune.pause,
            report.tokens_before,
            report.tokens_after,
            sent,
            prices(None, prune.model),
            tuple(self._cleared(prune.result, known)),
            report.results,
            tuple(report.decisions),
        )

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
        known = self._conversations.of(f"{job.session}/{found.model}", messages)
        pause = 0.0 if found.counts_only else known.waited(len(messages), job.at)
        zone = zone_of(found.model) if self._settings.safe_zone is None else None
        pruned = prune_request(
            self._pruner if zone is None else self._pruner.filled_in(safe_zone=zone),
            body,
            job.path,
            job.headers,
            strategy=self._strategy,
            calibration=known.calibration,
            pauses=known.pauses,
        )
        if pruned.result is None:
            return Done(note=pruned.note)
        number = 0 if pruned.counts_only else self._opened(Open(pruned.result, known, found.model, pause))
        notes = pruned.result.report.fallbacks
        changed = None if pruned.body is body else encoded(pruned.body)
        return Done(pruned.headers, changed, known.name, number, notes[0] if notes else "", pruned.counts_only)

    def _opened(self, prune: Open) -> int:
        """Return the number of a prune whose account will be asked for; where many are not yet, the first is made."""
        number = next(self._numbers)
        self._open[number] = prune
        holding = [each for each, prune in self._open.items() if prune.conversation.counted]
        if len(holding) > OPEN:
            self._accounts[holding[0]] = self._account(self._open.pop(holding[0]))
        return number

    def _cleared(self, result: Result, known: Conversation) -> Iterator[Cleared]:
        """Yield what was cleared and is new, and keep its payload."""
        for part, edit in result.plan.results.items():
            id = content_id(part.text)
            if id not in known.cleared:
                known.cleared.add(id)
                self._payloads.put(id, part.text)
                yield cleared(part, edit.request, str(edit.reason), id)


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


def zone_of(model: str | None) -> int:
    """Return the safe zone for a model: a share of its window, or a number of tokens where that is not known."""
    try:
        return budget_tokens(SHARE, model=model)
    except SettingsError:
        return UNKNOWN_ZONE
