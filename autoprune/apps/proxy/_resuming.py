"""The state that outlives a proxy: the past of each conversation, so that a resumed one is pruned as before.

A provider has cached a conversation as it was pruned. If the next proxy knew nothing of that, a session that is resumed
within the cache's life would be sent and written whole; and after a longer pause, nobody would know that the cache has
expired, and that clearing is free now:

    stopped and resumed     with its past                         without
    after 1 minute          the same prompt as before, cached     the whole conversation, written again
    after 2 hours           old results cleared, at no cost       the whole conversation, carried on

If the model has answered more than once since, another program has sent requests of the session. The past no longer
describes what the provider has cached, so it is ignored.

Each branch has a file. The files of the branches that begin alike are in one folder, so that a fork finds its
conversation, whichever proxy sent it:

    conversations/          in the folder of the ledgers
      4f0c…/                digest of the messages up to the model's first one
        203…817.txt         a branch
        551…024.txt         a fork of it, by the same session or another one

A file holds times, numbers, digests and settings, and none of the conversation's text.
"""

import json
import os
from collections.abc import Container, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from secrets import token_hex
from typing import Any

from autoprune.conversation.edits import content_id
from autoprune.conversation.limited_archive import LimitedDirectory, Limits
from autoprune.economics import Invoice
from autoprune.errors import ArchiveError
from autoprune.pruners.history import History, check_history, is_from_model

DAYS, MOST_BYTES = 30, 20_000_000  # a file takes some kilobytes
MOST_ENDS = 32  # the newest ones: a request that changes what was sent before is compared with each
MOST_FOLDERS = 64  # that were used last
LEAST_NAME = 8  # characters of a session's name by which its file is found
KEPT = (  # the fields of a `Past` that a file holds
    *("session", "begin", "ends", "seen_at", "calibration", "cuts", "pauses", "invoices", "history"),
    *("asked", "answered"),
)


def new_id() -> str:
    return content_id(token_hex())


@dataclass(eq=False)
class Past:
    """The facts besides its messages that decide which results of a branch of a conversation are cleared.

    `pauses` are the seconds before its requests, by their number of messages, and `invoices` what was charged for the
    one before. `history` are the settings of its requests, and `cleared` the ids of payloads cleared so far. `cuts` are
    the first messages that requests edited, by the number of messages of these requests. `arm` is that of the holdout;
    None before it is drawn. `seen_at` is when the last request of the conversation came, for any model, and
    `calibration` is that of this request. `is_resumed` tells whether an earlier proxy or another session sent requests
    of it. `begin` are the `prefix_digests` of the messages, and `ends` the digests of the last messages of each
    request, by its number of messages. `session` is a digest of the name that the client gives in its headers, and `id`
    names the branch's file. `asked` is the number of messages of the last request, and `answered` that of the last one
    with an answer, and its invoice.
    """

    pauses: dict[int, float] = field(default_factory=dict)
    invoices: dict[int, Invoice] = field(default_factory=dict)
    history: History = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)
    cuts: dict[int, int] = field(default_factory=dict)
    arm: str | None = None
    seen_at: float | None = None
    is_resumed: bool = False
    calibration: float = 1.0
    begin: tuple[str, str] = ("", "")
    session: str = ""
    id: str = field(default_factory=new_id)
    ends: dict[int, str] = field(default_factory=dict)
    asked: int = 0
    answered: tuple[int, Invoice] | None = None

    def branch(self) -> "Past":
        """Return a copy for a conversation that continues differently from here."""
        return replace(self, id=new_id(), pauses={**self.pauses}, ends={**self.ends}, cleared={*self.cleared})

    @property
    def is_answered(self) -> bool:
        """Whether the model has spoken."""
        return self.begin[0] != self.begin[1]

    def note_request(self, messages: int, end: str = "") -> None:
        """Record a request with the digest of its last messages, and the answer to the one before if it has come."""
        ends = {before: each for before, each in self.ends.items() if before < messages} | {messages: end}
        self.ends = dict(sorted(ends.items())[-MOST_ENDS:])
        self.invoices = {before: each for before, each in self.invoices.items() if before <= messages}
        if self.answered and self.answered[0] == self.asked < messages:
            self.invoices.setdefault(messages, self.answered[1])
        self.asked = messages

    def last_before(self, request: int | None) -> float | None:
        """When the last request before the one with this many messages came; the last of all if it is None."""
        if request is None or self.seen_at is None:
            return self.seen_at
        return self.seen_at - sum(pause for at, pause in self.pauses.items() if at >= request)

    def note_answer(self, usage: object, messages: int) -> None:
        """Record the usage in the answer to the request with this many messages."""
        if invoice := Invoice.from_usage(usage):
            self.answered = messages, invoice

    @property
    def has_reads(self) -> bool:
        """Whether the provider has read from its cache."""
        return any(each.read for each in (*self.invoices.values(), *(self.answered or ())[1:]))

    def is_continued_by(self, messages: Sequence[object]) -> bool:
        """Return whether the model has answered at most once since the last request."""
        new = [is_from_model(each) for each in messages[self.asked :]]
        return sum(now and not before for before, now in zip([False, *new], new, strict=False)) <= 1

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that are kept in a file."""
        return {name: getattr(self, name) for name in KEPT}

    @classmethod
    def from_dict(cls, id: str, record: Mapping[str, Any]) -> "Past":
        """Create a past from the output of `to_dict` as JSON. Raises any error if it is something else."""
        answered = record["answered"]
        start, head = map(str, record["begin"])
        return cls(
            id=id,
            is_resumed=True,
            session=str(record["session"]),
            begin=(start, head),
            ends={int(at): str(each) for at, each in record["ends"].items()},
            seen_at=float(record["seen_at"]),
            calibration=float(record["calibration"]),
            cuts={int(at): int(each) for at, each in record["cuts"].items()},
            pauses={int(at): float(each) for at, each in record["pauses"].items()},
            invoices={int(at): Invoice(**each) for at, each in record["invoices"].items()},
            history=check_history(record["history"]),
            asked=int(record["asked"]),
            answered=answered and (int(answered[0]), Invoice(**answered[1])),
        )


class PastFiles:
    """Keeps the past of conversations in the folders of a folder.

    `written` are the times at which the client has last written its own session files, by their names without a suffix:
    for sessions that no proxy has seen. Without a folder nothing is kept; a file that cannot be read or written counts
    as missing.
    """

    def __init__(self, folder: str | None = None, written: Mapping[str, float] | None = None) -> None:
        self._folder = folder
        self._written = written or {}
        self._files = lru_cache(MOST_FOLDERS)(partial(LimitedDirectory, limits=Limits(MOST_BYTES, DAYS)))

    def load(self, begin: tuple[str, str], known: Container[str] = ()) -> list[Past]:
        """Return the branches that begin with these `prefix_digests`, the newest last, without those of `known` ids."""
        files, found = self._files_of(begin), []
        for id in files:
            with suppress(
                ArchiveError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError
            ):
                found += [Past.from_dict(id, json.loads(files[id]))] if id not in known else []
        return sorted(found, key=lambda past: past.seen_at or 0.0)

    def save(self, past: Past) -> None:
        """Keep the past of a conversation in which the model has answered."""
        if self._folder and past.is_answered:
            with suppress(OSError, TypeError, ValueError):
                self._files_of(past.begin)[past.id] = json.dumps(past.to_dict(), default=asdict)

    def remove(self, past: Past) -> None:
        with suppress(OSError, KeyError):
            del self._files_of(past.begin)[past.id]

    def last_written(self, session: str) -> float | None:
        """Return when the client has last written its own file of a session; None if nobody knows."""
        if len(session) < LEAST_NAME:
            return None
        return max((time for name, time in self._written.items() if name.endswith(session)), default=None)

    def _files_of(self, begin: tuple[str, str]) -> MutableMapping[str, str]:
        return self._files(os.path.join(self._folder, begin[1])) if self._folder else {}
