"""What a proxy has done, session by session and conversation by conversation: figures for a person, and ledgers.

A session is a client's, as its headers name it; its conversations are told apart by how they begin, so that the side
questions of an assistant do not count as its work.
"""

from collections import OrderedDict
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from autoprune.apps.proxy._figures import UNKNOWN, Figures, Label, product, room_for, timed
from autoprune.apps.proxy._pruning import Account, Cleared, Done, Job
from autoprune.economics import Entry, Ledger, Sent
from autoprune.errors import SettingsError

NAMED_BY = ("x-claude-code-session-id", "session-id", "session_id", "x-session-id", "x-session-affinity")
MOST_SESSIONS = 200
LONGEST_NOTE = 300  # characters
MOST_POINTS, MOST_CLEARED = 2_000, 5_000  # of a conversation


@dataclass(frozen=True)
class Point:
    """One request: the tokens of its prompt without pruning and with it, and what was decided.

    `is_cold` says that the cache had died before.
    """

    request: int
    at: float
    before: int
    after: int
    cleared: int
    seconds: float
    note: str = ""
    is_cold: bool = False


@dataclass(frozen=True)
class Measured:
    """What a ledger takes of a prune."""

    sent: Sent


@dataclass
class Session:
    """One conversation of a client with a provider, as it went through the proxy.

    `ledger` says what pruning has saved, `points` what each request came to; `cleared` are numbered by the request of
    this conversation at which they were. `refused` counts answers with a status of 400 and more, `failed` the requests
    that the upstream did not answer: neither are in the ledger. `life_from` says how the life of the cache is known,
    which is that of the ledger's prices, as in "as its answers say"; "" where it is what is usual for the model.
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
    cleared: list[Cleared] = field(default_factory=list, repr=False)
    decisions: tuple[str, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    life_from: str = ""
    _before: tuple[Ledger, Mapping[str, Any] | None] | None = field(default=None, repr=False)
    _sent: Sent | None = field(default=None, repr=False)  # by the last request
    _is_unanswered: bool = False
    _figures: Figures = field(default=Figures(), repr=False)
    _totals: tuple[Entry, Entry] | None = field(default=None, repr=False)

    @property
    def label(self) -> Label:
        """The client and the model, without what tells sessions of one client apart."""
        return product(self.client), self.model or UNKNOWN

    @property
    def at(self) -> float:
        """When it was gone on with last, in seconds since 1970."""
        return self.points[-1].at if self.points else self.started

    @property
    def total(self) -> Entry:
        """The sum of the ledger."""
        return self._summed[0]

    @property
    def cold(self) -> Entry:
        """The sum of the prunes at cold requests."""
        return self._summed[1]

    @property
    def _summed(self) -> tuple[Entry, Entry]:
        """Both sums. They are made up once for each request, since a page may ask for them often."""
        if self._totals is None:
            self._totals = self.ledger.total, self.ledger.cold
        return self._totals

    @property
    def figures(self) -> Figures:
        """The sums over all requests, also over those of which `points` are not kept any more."""
        return replace(self._figures, saved=self.total.net, saved_cold=self.cold.net)

    def sent(self, account: Account, done: Done, job: Job) -> None:
        """Note a request that is sent now."""
        if not self.requests:
            self.model, self.ledger = account.model, Ledger(account.prices)
        self.requests += 1
        self.safe_zone, self.life_from = account.safe_zone, account.life_from
        self._account(account)
        figures = account.before, account.after, len(account.cleared), done.seconds
        self.points.append(Point(self.requests, job.at, *figures, done.note, account.is_cold))
        is_new = int(self.requests == 1)
        cold = int(account.is_cold)
        self._figures += Figures(is_new, 1, *figures[:3], cold=cold, seconds=done.seconds, times=timed(done.seconds))
        self.cleared += (replace(each, request=self.requests, is_cold=account.is_cold) for each in account.cleared)
        self.decisions = account.decisions
        if done.note:
            self.notes[done.note] = self.notes.get(done.note, 0) + 1
        del self.points[:-MOST_POINTS], self.cleared[:-MOST_CLEARED]

    def take_back(self, request: int) -> None:
        """Take a request out of the ledger that was not answered, and costs nothing, if no other followed it."""
        if request == self.requests and self._before:
            self.ledger, self.usage = self._before
            self._before, self._is_unanswered, self._totals = None, True, None

    def _account(self, account: Account) -> None:
        """Enter a prune into the ledger, with the usage of the answer before, where that can be read."""
        # Of a request that is sent again it is the first prune that tells what it cleared.
        is_again = self._is_unanswered and self._sent and self._sent.sent == account.sent.sent
        self._sent = self._sent if is_again else account.sent
        self._before = copy(self.ledger), self.usage
        self._is_unanswered, self._totals = False, None
        self.ledger.prices = account.prices
        measured, pauses = Measured(self._sent or account.sent), {account.messages: account.pause}
        try:
            self.ledger.add(measured, usage=self.usage, pauses=pauses)
        except SettingsError:
            self.ledger.add(measured, pauses=pauses)
        self.usage = None


class Sessions:
    """The conversations that went through, the newest last; the oldest go where there are too many."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: OrderedDict[str, Session] = OrderedDict()
        self.passed = 0  # requests without a conversation
        self.why = ""  # why the conversation of the last one could not be read
        self.requests = 0
        self.refused = 0
        self.failed = 0
        self._gone: dict[Label, Figures] = {}

    def __iter__(self) -> Any:
        """Iterate over what went through, the newest last; not over those whose first request is still under way."""
        return iter([each for each in list(self._known.values()) if each.requests])

    def pass_on(self, why: str) -> None:
        """Count a request that goes on as it came."""
        self.passed += 1
        self.why = why[:LONGEST_NOTE] or self.why

    def of(self, done: Done, job: Job, client: str) -> Session:
        """Return the conversation that a request goes on with."""
        known = self._known.pop(done.conversation, None)
        found = known or Session(done.conversation, client, job.path, job.at)
        self._known[done.conversation] = found
        while len(self._known) > MOST_SESSIONS:
            _, gone = self._known.popitem(last=False)
            if gone.requests:
                _sum_up(gone, self._gone)
        return found

    def figures(self) -> dict[Label, Figures]:
        """Return the sums by client and model, over the conversations that are kept and those that went."""
        sums = dict(self._gone)
        for session in self:
            _sum_up(session, sums)
        return sums


def _sum_up(session: Session, sums: dict[Label, Figures]) -> None:
    label = room_for(session.label, sums)
    sums[label] = sums.get(label, Figures()) + session.figures


def session_of(headers: Mapping[str, str]) -> str:
    """Return the name of a session, as its client gives it; "" where it gives none."""
    return next((headers[name] for name in NAMED_BY if headers.get(name)), "")
