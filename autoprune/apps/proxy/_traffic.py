"""The conversations of a proxy with their ledgers, and sums over all of them for metrics.

A client's headers name its session. A session's conversations are distinguished by their first messages, so that the
side questions of an assistant do not count as its work.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from autoprune.apps.proxy._pruning import UNKNOWN, Account, DisplayedResult, Job, Outcome, client_name
from autoprune.economics import Ledger
from autoprune.errors import SettingsError

# Headers in which clients name their session; the first one in a request counts.
SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "session_id", "x-session-id", "x-session-affinity")
MOST_SESSIONS = 512
LONGEST_NOTE = 300  # characters
MOST_HIDDEN = 1_000  # tokens of a prompt that a provider may add or leave out without a note
MOST_POINTS, MOST_CLEARED = 2_000, 5_000  # in a conversation
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds of pruning, for a histogram
NO_TIMES = (0,) * (len(BUCKETS) + 1)
OTHERS = "others"
# Labels and their characters: clients can send any User-Agent and any model, and each pair is a time series in
# Prometheus.
MOST_LABELS, LONGEST_LABEL = 100, 100

Label: TypeAlias = tuple[str, str]  # the names of a client and a model


# Sums


@dataclass(frozen=True)
class TrafficSums:
    """Sums over requests.

    `before` and `after` are prompt tokens without pruning and with pruning, and `cleared` counts cleared results.
    `saved` is the net saving in the ledgers in input tokens, and `saved_cold` the part of it from prunes at the `cold`
    requests, before which the provider's cache had expired. `seconds` is the time spent on pruning. `times` is the
    histogram of that time: the number of requests up to each of `BUCKETS`, and above the last.
    """

    sessions: int = 0
    requests: int = 0
    before: int = 0
    after: int = 0
    cleared: int = 0
    saved: float = 0.0
    cold: int = 0
    saved_cold: float = 0.0
    seconds: float = 0.0
    times: tuple[int, ...] = NO_TIMES

    def __add__(self, other: "TrafficSums") -> "TrafficSums":
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in SUMMED}
        return TrafficSums(**sums, times=tuple(map(sum, zip(self.times, other.times, strict=True))))


SUMMED = tuple(each.name for each in fields(TrafficSums) if each.name != "times")


# Conversations


@dataclass(frozen=True)
class Point:
    """The figures of one request: its prompt in tokens before and after pruning, and the number of cleared results.

    `is_cold` means that the provider's cache had expired before the request.
    """

    request: int
    at: float
    before: int
    after: int
    cleared: int
    seconds: float
    note: str = ""
    is_cold: bool = False


@dataclass
class ClientSession:
    """One conversation of a client with a provider.

    `ledger` holds the savings, and `points` the figures of each request. `cleared` are the cleared results, each with
    the number of the request that cleared it. `refused` counts answers with a status of 400 or more, and `failed`
    requests that the upstream did not answer; neither are in the ledger. `life_from` is the source of the cache's life
    in the ledger's prices, such as "as reported in answers"; it is "" for the usual life. `usage_note` says that the
    provider's usage cannot be true, and is not used; "" if it can. `arm` is the arm of the holdout and `compact_at` the
    size at which the client compacts, as in `Account`. `seen` and `largest` are the tokens of the largest prompt,
    without pruning and as sent.
    """

    name: str
    client: str
    path: str
    started: float
    model: str | None = None
    safe_zone: int = 0
    requests: int = 0
    refused: int = 0
    failed: int = 0
    ledger: Ledger = field(default_factory=Ledger, repr=False)
    points: list[Point] = field(default_factory=list, repr=False)
    cleared: list[DisplayedResult] = field(default_factory=list, repr=False)
    decisions: tuple[str, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    life_from: str = ""
    usage_note: str = ""
    arm: str = ""
    compact_at: int | None = None
    seen: int = 0
    largest: int = 0
    _before: tuple[Ledger, Mapping[str, Any] | None] | None = field(default=None, repr=False)
    _entered: Account | None = field(default=None, repr=False)  # in the ledger, for the last request
    _is_unanswered: bool = False
    _sums: TrafficSums = field(default=TrafficSums(), repr=False)

    @property
    def label(self) -> Label:
        """The names of the client and the model, which many sessions share."""
        return client_name(self.client), self.model or UNKNOWN

    @property
    def ended(self) -> float:
        """The time of the last request, in seconds since 1970."""
        return self.points[-1].at if self.points else self.started

    @property
    def avoided(self) -> int:
        """The least number of prevented compactions: how often the conversation would have filled the room."""
        return self.seen // self.compact_at if self.compact_at and self.largest < self.compact_at else 0

    @property
    def sums(self) -> TrafficSums:
        """The sums over all requests, including those that `points` has dropped."""
        total = self.ledger.total
        return replace(self._sums, saved=total.net, saved_cold=self.ledger.cold.net)

    def enter_request(self, account: Account, outcome: Outcome, at: float) -> Point:
        """Record a request that was sent, and that came at `at`. Returns its figures."""
        if not self.requests:
            self.model, self.ledger = account.model, Ledger(account.prices)
        self.requests += 1
        self.safe_zone, self.life_from, self.arm = account.safe_zone, account.life_from, account.arm
        self.compact_at = account.compact_at
        if not account.is_compaction:
            self.seen, self.largest = max(self.seen, account.before), max(self.largest, account.after)
        is_new_cold = account.is_cold and not self._is_retry(account, at)
        self._add_to_ledger(account)
        point = Point(
            request=self.requests,
            at=at,
            before=account.before,
            after=account.after,
            cleared=len(account.cleared),
            seconds=outcome.seconds,
            note=outcome.note[:LONGEST_NOTE],
            is_cold=account.is_cold,
        )
        self._add_to_sums(point, is_new_cold)
        self.cleared += (replace(each, request=self.requests, is_cold=account.is_cold) for each in account.cleared)
        self.decisions = account.decisions
        if point.note:
            self.count_note(point.note)
        self.points.append(point)
        del self.points[:-MOST_POINTS], self.cleared[:-MOST_CLEARED]
        return point

    def count_note(self, note: str) -> None:
        """Count a request that a note is about."""
        self.notes[note] = self.notes.get(note, 0) + 1

    def _add_to_sums(self, point: Point, is_new_cold: bool) -> None:
        bucket = bisect_left(BUCKETS, point.seconds)
        self._sums += TrafficSums(
            sessions=int(self.requests == 1),
            requests=1,
            before=point.before,
            after=point.after,
            cleared=point.cleared,
            cold=int(is_new_cold),
            seconds=point.seconds,
            times=tuple(int(each == bucket) for each in range(len(NO_TIMES))),
        )

    def take_back(self, request: int) -> None:
        """Remove the last request from the ledger if it has the number `request`.

        For unanswered requests, which cost nothing.
        """
        if request == self.requests and self._before:
            self.ledger, self.usage = self._before
            self._before, self._is_unanswered = None, True

    def _is_same_prompt(self, account: Account) -> bool:
        return self._entered is not None and self._entered.sent.sent == account.sent.sent

    def _is_retry(self, account: Account, at: float) -> bool:
        """Return whether a request repeats the last request, before which the same cache had expired.

        A retry has the pause of the request that it repeats. If a cached answer came in between, and expired, the
        retry is a cold request by itself.
        """
        return self._is_same_prompt(account) and (self._is_unanswered or at - self.ended <= account.prices.life)

    def _add_to_ledger(self, account: Account) -> None:
        """Enter a prune in the ledger, with the usage of the previous answer if it can be read."""
        # If a request is sent again after a failure, the ledger uses the first prune, which lists the results cleared
        # then.
        is_again = self._is_unanswered and self._is_same_prompt(account)
        usage = None if self._entered and self._entered.is_compaction else self.usage
        self._entered = entered = self._entered if is_again and self._entered else account
        self._before = copy(self.ledger), self.usage
        self._is_unanswered = False
        self.ledger.prices = account.prices
        pauses = {account.messages: account.pause}
        try:
            self.ledger.add(entered, usage=usage, pauses=pauses, aside=account.is_compaction)
        except SettingsError:  # the usage cannot be read
            self.ledger.add(entered, pauses=pauses, aside=account.is_compaction)
        self.usage = None
        self._note_usage()

    def _note_usage(self) -> None:
        """Note once that the provider's usage cannot be true, and count the requests."""
        unused = self.ledger.unused[-1:]
        if not unused or unused[0].request != self.ledger.requests - 1:
            return
        (last,) = unused
        if not self.usage_note and abs(last.prompt - last.counted) > MOST_HIDDEN:
            self.usage_note = (
                f"the provider reported {last.prompt:,} tokens for a prompt of {last.counted:,}: "
                "its usage is not used, and tokens are counted without it"
            )
        if self.usage_note:
            self.count_note(self.usage_note)


class ClientSessions:
    """The conversations of a proxy, the newest last. The oldest are dropped, but stay in the sums.

    `passed` counts requests that were not pruned, and `why` is why the last unreadable request could not be read.
    `refused` and `failed` are counted as in `ClientSession`, over all requests.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, ClientSession] = OrderedDict()
        self.passed = 0
        self.why = ""
        self.requests = 0
        self.refused = 0
        self.failed = 0
        self._dropped: dict[Label, TrafficSums] = {}

    def __iter__(self) -> Iterator[ClientSession]:
        """Iterate over conversations, the newest last, except those without the account of their first request."""
        return iter([each for each in list(self._known.values()) if each.requests])

    def count_passed(self, why: str) -> None:
        self.passed += 1
        self.why = why[:LONGEST_NOTE] or self.why

    def find(self, outcome: Outcome, job: Job) -> ClientSession:
        """Find the conversation that a request continues, or start a new conversation."""
        client, known = job.client.get("user-agent", ""), self._known.pop(outcome.conversation, None)
        found = known or ClientSession(outcome.conversation, client, job.path, job.at)
        self._known[outcome.conversation] = found
        while len(self._known) > MOST_SESSIONS:
            _, dropped = self._known.popitem(last=False)
            if dropped.requests:
                _add_up(dropped, self._dropped)
        return found

    @property
    def has_dropped(self) -> bool:
        """Whether conversations were dropped, of which only sums are left."""
        return bool(self._dropped)

    def sums_by_label(self) -> dict[Label, TrafficSums]:
        """Compute the sums by client and model, including dropped conversations."""
        sums = dict(self._dropped)
        for session in self:
            _add_up(session, sums)
        return sums


def _add_up(session: ClientSession, sums: dict[Label, TrafficSums]) -> None:
    """Add a conversation to the sums, under a shared label if there are too many labels."""
    client, model = session.label
    label = client[:LONGEST_LABEL], model[:LONGEST_LABEL]
    if label not in sums and len(sums) >= MOST_LABELS:
        label = OTHERS, OTHERS
    sums[label] = sums.get(label, TrafficSums()) + session.sums


def session_name(headers: Mapping[str, str]) -> str:
    """Return the session's name that the client sends in a header; "" if it sends none."""
    return next((headers[name] for name in SESSION_HEADERS if headers.get(name)), "")
