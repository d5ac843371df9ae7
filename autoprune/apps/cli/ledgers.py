"""The ledgers of a proxy's conversations on disk: a private file each, with figures and no word of a conversation.

    with running(settings) as proxy, keeping(lambda: proxy.sessions):
        ...  # every half minute, and at the end, what has gone on is written

A file has the client, the model, when the conversation began and was gone on with, its requests, and the ledger without
the digests of messages that it would need to go on. It is replaced in one step, and so is whole whenever it is read.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from autoprune.apps.cli.files import replace_private
from autoprune.economics import Ledger
from autoprune.errors import SessionError

if TYPE_CHECKING:
    from autoprune.apps.proxy import Session

PRIVATE = 0o700
EVERY_SECONDS = 30.0
VERSION = 1  # of a file
DIGEST_BYTES = 8
STAMP = "%Y%m%d-%H%M%S"
WITHOUT: Mapping[str, object] = {"cleared": {}, "before": None}  # in the place of a ledger's digests


@dataclass(frozen=True)
class Account:
    """What a file says of a conversation. `started` and `ended` are in seconds since 1970.

    `life_from` says how the life of its cache is known, where that is not what is usual for the model.
    """

    client: str
    model: str
    started: float
    ended: float
    requests: int
    ledger: Ledger
    life_from: str = ""


@dataclass(frozen=True)
class Unread:
    """A file that cannot be read as an account, and why."""

    path: Path
    why: str


class Ledgers:
    """The files of conversations that are under way. `folder` is where they are."""

    def __init__(self, folder: Path | None = None) -> None:
        """Take the folder; without one, the usual one."""
        self.folder = folder or usual_folder()
        self._own = token_hex(4)  # another proxy may have a conversation that began alike, in the same second
        self._written: dict[Path, tuple[int, int]] = {}  # the requests and refusals when it was written last

    def write(self, sessions: Iterable["Session"]) -> None:
        """Write the conversations that have gone on since the last time. Raises SessionError where that cannot be."""
        for session in sessions:
            path = self.folder / _name(session, self._own)
            now = session.requests, session.refused + session.failed
            if self._written.get(path) != now:
                self._put(path, json.dumps(_record(session)))
                self._written[path] = now

    def _put(self, path: Path, text: str) -> None:
        try:
            self.folder.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            self.folder.mkdir(mode=PRIVATE, exist_ok=True)
            replace_private(path, text)
        except OSError as error:
            raise SessionError(f"the ledger {path} cannot be written: {error.strerror}") from error


@contextmanager
def keeping(sessions: Callable[[], Iterable["Session"]], every: float = EVERY_SECONDS) -> Iterator[None]:
    """Write ledgers every so many seconds while the context lasts, and at its end.

    Nothing is printed while it lasts, since the terminal may be somebody else's; what could not be written is said at
    the end.
    """
    ledgers, is_over = Ledgers(), threading.Event()

    def write() -> None:
        while not is_over.wait(every):
            with suppress(SessionError):
                ledgers.write(sessions())

    thread = threading.Thread(target=write, name="autoprune-ledgers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        try:
            ledgers.write(sessions())
        except SessionError as error:
            print(f"note: {error}", file=sys.stderr)


def usual_folder() -> Path:
    """Return the folder of the ledgers of all proxies of this user."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # A path that is not absolute does not count. Source: XDG Base Directory Specification, version 0.8.
    state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return state / "autoprune" / "ledgers"


def _name(session: "Session", own: str) -> str:
    """Return the name of a file: when the conversation began, a digest of its name, and a word of the proxy's own."""
    digest = blake2b(session.name.encode("utf-8", "replace"), digest_size=DIGEST_BYTES).hexdigest()
    return f"{datetime.fromtimestamp(session.started):{STAMP}}-{digest}-{own}.json"


def _record(session: "Session") -> dict[str, Any]:
    client, model = session.label
    ledger = {**session.ledger.as_json(), **WITHOUT}
    return {
        "autoprune_ledger": VERSION,
        "client": client,
        "model": model,
        "started": session.started,
        "ended": session.at,
        "requests": session.requests,
        "life_from": session.life_from,
        "ledger": ledger,
    }


def read_ledgers(folder: Path, since: float = 0.0) -> tuple[list[Account], list[Unread]]:
    """Return the accounts in a folder of conversations that were gone on with since then, and the unreadable files."""
    found = [_read(path) for path in sorted(folder.glob("*.json"))]
    accounts = [each for each in found if isinstance(each, Account) and each.ended >= since]
    return accounts, [each for each in found if isinstance(each, Unread)]


def _read(path: Path) -> Account | Unread:
    try:
        return _account(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        return Unread(path, str(error.strerror))
    except SessionError as error:
        return Unread(path, str(error))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return Unread(path, "it is no ledger of autoprune")


def _account(record: Any) -> Account:
    """Return the account in a record. Raises one of the errors above for any other."""
    if record["autoprune_ledger"] != VERSION:
        raise SessionError(f"it was written by another version of autoprune ({record['autoprune_ledger']!r})")
    times = float(record["started"]), float(record["ended"])
    datetime.fromtimestamp(times[0])  # here it shows where it is no time
    ledger = Ledger.of_json(record["ledger"])
    names = str(record["client"]), str(record["model"])
    account = Account(*names, *times, int(record["requests"]), ledger, str(record.get("life_from", "")))
    float(account.ledger.unpruned)  # here it shows where an entry holds what is no number
    return account
