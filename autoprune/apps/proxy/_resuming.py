"""The state that outlives a proxy: the past of each conversation, so that a resumed one is pruned as before.

A provider has cached a conversation as it was pruned. If the next proxy knew nothing of that, a session that is resumed
within the cache's life would be sent and written whole; and after a longer pause, nobody would know that the cache has
expired, and that clearing is free now:

    stopped and resumed     with its past                         without
    after 1 minute          the same prompt as before, cached     the whole conversation, written again
    after 2 hours           old results cleared, at no cost       the whole conversation, carried on

If the model has answered more than once since, somebody else has sent requests of the session, and the past is no
longer what the provider has cached: it is forgotten.

A file holds times, numbers and settings, and none of the conversation's text. Its name is a digest.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autoprune.conversation.limited_archive import LimitedDirectory
from autoprune.conversation.placeholders import content_id
from autoprune.economics import Invoice
from autoprune.errors import ArchiveError
from autoprune.pruners.history import History, check_history, is_from_model

DAYS, MOST_BYTES = 30, 20_000_000  # a file takes some kilobytes
MOST_ENDS = 32  # the newest ones: a request that changes what was sent before is compared with each
LEAST_NAME = 8  # characters of a session's name by which its file is found


@dataclass
class Past:
    """The facts besides its messages that decide which results of a conversation are cleared.

    `pauses` are the seconds before its requests, by their number of messages, and `invoices` what was charged for the
    one before. `history` are the settings of its requests, and `cleared` the ids of payloads cleared so far. `arm` is
    that of the holdout; None before it is drawn. `asked_at` is when an earlier proxy, or the client without one, sent
    the last request, and `calibration` that of an earlier proxy; both are None if nobody knows. `seen_at` is when this
    proxy got the last request, for any model. `head` is the digest of the messages up to the model's first one, and
    `ends` are digests of the last messages of the requests that this proxy got, by their number of messages.
    """

    pauses: dict[int, float] = field(default_factory=dict)
    invoices: dict[int, Invoice] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)
    arm: str | None = None
    asked_at: float | None = None
    calibration: float | None = None
    seen_at: float | None = None
    head: str = ""
    ends: dict[int, str] = field(default_factory=dict)
    _asked: int = 0
    _answered: tuple[int, Invoice] | None = None

    def branch(self) -> "Past":
        """Return a copy for a conversation that continues differently from here."""
        return replace(self, pauses={**self.pauses}, ends={**self.ends})

    def note_request(self, messages: int, end: str = "") -> None:
        """Record a request with the digest of its last messages.

        The answer to the one before is known from here on, if it has come.
        """
        ends = {before: each for before, each in self.ends.items() if before < messages} | {messages: end}
        self.ends = dict(sorted(ends.items())[-MOST_ENDS:])
        self.invoices = {before: each for before, each in self.invoices.items() if before <= messages}
        if self._answered and self._answered[0] == self._asked < messages:
            self.invoices.setdefault(messages, self._answered[1])
        self._asked = messages

    def note_answer(self, usage: object, messages: int) -> None:
        """Record the usage in the answer to the request with this many messages; 0 is the last one."""
        if invoice := Invoice.from_usage(usage):
            self._answered = messages or self._asked, invoice

    @property
    def has_reads(self) -> bool:
        """Whether the provider has read from its cache."""
        return any(each.read for each in (*self.invoices.values(), *(self._answered or ())[1:]))

    def is_continued_by(self, messages: Sequence[object]) -> bool:
        """Whether the model has answered at most once since the last request."""
        new = [is_from_model(each) for each in messages[self._asked :]]
        return sum(now and not before for before, now in zip([False, *new], new, strict=False)) <= 1

    def to_dict(self, asked_at: float, calibration: float) -> dict[str, Any]:
        """Convert the past to JSON-compatible values, with the time and the calibration of its last request."""
        return {
            "asked_at": asked_at,
            "calibration": calibration,
            "pauses": self.pauses,
            "invoices": {at: asdict(each) for at, each in self.invoices.items()},
            "history": self.history,
            "asked": self._asked,
            "answered": self._answered and [self._answered[0], asdict(self._answered[1])],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Past":
        """Create a past from the output of `to_dict`. Raises any error if it is something else."""
        answered = record["answered"]
        return cls(
            pauses={int(at): float(each) for at, each in record["pauses"].items()},
            invoices={int(at): Invoice(**each) for at, each in record["invoices"].items()},
            history=check_history({int(at): dict(each) for at, each in record["history"].items()}),
            asked_at=float(record["asked_at"]),
            calibration=float(record["calibration"]),
            _asked=int(record["asked"]),
            _answered=answered and (int(answered[0]), Invoice(**answered[1])),
        )


class PastFiles:
    """Keeps the past of conversations in a folder, by their names.

    `written` are the times at which the client has last written its own session files, by their names without a suffix:
    for sessions that no proxy has seen. Without a folder nothing is kept; a file that cannot be read or written counts
    as missing.
    """

    def __init__(self, folder: str | None = None, written: Mapping[str, float] | None = None) -> None:
        self._files = LimitedDirectory(folder, most_bytes=MOST_BYTES, days=DAYS) if folder else None
        self._written = written or {}

    def load(self, name: str) -> Past:
        """Return the past of a conversation; an empty one if none was kept."""
        if self._files is not None:
            with suppress(ArchiveError, KeyError, ValueError, TypeError, AttributeError, RecursionError):
                return Past.from_dict(json.loads(self._files[content_id(name)]))
        return Past()

    def save(self, name: str, past: Past, asked_at: float, calibration: float) -> None:
        """Keep the past of a conversation, with the time and the calibration of its last request."""
        if self._files is not None:
            with suppress(OSError, TypeError, ValueError):
                self._files[content_id(name)] = json.dumps(past.to_dict(asked_at, calibration))

    def last_written(self, session: str) -> float | None:
        """Return when the client has last written its own file of a session; None if nobody knows."""
        if len(session) < LEAST_NAME:
            return None
        return max((time for name, time in self._written.items() if name.endswith(session)), default=None)
