"""Ledgers on disk: a private file for each conversation of a proxy, with figures and none of its text.

    with running(settings) as proxy, keep_ledgers(lambda: proxy.sessions):
        ...  # changed ledgers are written every 30 seconds and at the end

A file has the client, the model, the times of the first and the last request, the number of requests, and the ledger.
The digests of messages, which a ledger needs to continue, are left out. Each file is replaced in one step, so readers
never see an incomplete one.
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

from autoprune.apps.cli.input_output import read_or_create_private, replace_private, user_folder
from autoprune.conversation.archive import remove_leftovers
from autoprune.economics import Ledger
from autoprune.errors import SessionError

if TYPE_CHECKING:
    from autoprune.apps.proxy import ClientSession

PRIVATE = 0o700
INTERVAL_SECONDS = 30.0
VERSION = 1  # of the file format
DIGEST_BYTES = 8
SEED_NAME, SEED_BYTES = "holdout-seed", 16
STAMP = "%Y%m%d-%H%M%S"
# Replaces a ledger's digests, which would reveal something about the text.
NO_DIGESTS: Mapping[str, object] = {"cleared": {}, "before": None}


@dataclass(frozen=True)
class LedgerFile:
    """The content of a ledger file. `started` is a Unix time in seconds.

    `life_from` is the source of its cache lifetime, if that is not the usual one of the model. `arm` is "pruned" or
    "unpruned" if the conversation took part in a holdout, or "". `avoided` counts the compactions that did not happen.
    """

    client: str
    model: str
    started: float
    requests: int
    ledger: Ledger
    life_from: str = ""
    arm: str = ""
    avoided: int = 0


class Ledgers:
    """Writes the ledgers of conversations in progress to `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or ledger_folder()
        # Another proxy may have a conversation with the same name that started in the same second.
        self._suffix = token_hex(4)
        self._written: dict[Path, tuple[int, int]] = {}  # requests and refusals at the last write

    def write_changed(self, sessions: Iterable["ClientSession"]) -> None:
        """Write the ledgers that have changed since the last call. Raises SessionError if a file cannot be written."""
        for session in sessions:
            # The start of the conversation, a digest of its name, and the proxy's suffix.
            digest = blake2b(session.name.encode("utf-8", "replace"), digest_size=DIGEST_BYTES).hexdigest()
            path = self.folder / f"{datetime.fromtimestamp(session.started):{STAMP}}-{digest}-{self._suffix}.json"
            now = session.requests, session.refused + session.failed
            if self._written.get(path) != now:
                self._write_file(path, json.dumps(_record(session)))
                self._written[path] = now

    def _write_file(self, path: Path, text: str) -> None:
        try:
            self.folder.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            self.folder.mkdir(mode=PRIVATE, exist_ok=True)
            if not self._written:
                remove_leftovers(self.folder)
            replace_private(path, text)
        except OSError as error:
            raise SessionError(f"the ledger {path} cannot be written: {error.strerror}") from error


@contextmanager
def keep_ledgers(sessions: Callable[[], Iterable["ClientSession"]], every: float = INTERVAL_SECONDS) -> Iterator[None]:
    """Write ledgers every `every` seconds within the context, and at its end.

    Errors are printed at the end only: until then an assistant may be using the terminal.
    """
    ledgers, is_over = Ledgers(), threading.Event()

    def write_regularly() -> None:
        while not is_over.wait(every):
            with suppress(SessionError):
                ledgers.write_changed(sessions())

    thread = threading.Thread(target=write_regularly, name="autoprune-ledgers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        try:
            ledgers.write_changed(sessions())
        except SessionError as error:
            print(f"note: {error}", file=sys.stderr)


def ledger_folder() -> Path:
    """Return the default folder, shared by all proxies of this user."""
    return user_folder("XDG_STATE_HOME", "~/.local/state", os.environ) / "ledgers"


def holdout_seed() -> str:
    """Read this user's seed, by which all proxies draw the same arms, or create it first. Raises SessionError."""
    path = ledger_folder().parent / SEED_NAME
    try:
        path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        return read_or_create_private(path, token_hex(SEED_BYTES))
    except (OSError, ValueError) as error:
        raise SessionError(f"the seed of the holdout cannot be stored in {path}: {error}") from error


def _record(session: "ClientSession") -> dict[str, Any]:
    client, model = session.label
    ledger = {**session.ledger.to_dict(), **NO_DIGESTS}
    return {
        "autoprune_ledger": VERSION,
        "client": client,
        "model": model,
        "started": session.started,
        "ended": session.ended,
        "requests": session.requests - session.refused,
        "life_from": session.life_from,
        "arm": session.arm,
        "compactions_avoided": session.avoided,
        "ledger": ledger,
    }


def read_ledgers(folder: Path) -> tuple[list[LedgerFile], dict[Path, str]]:
    """Read the ledgers in a folder, and say why the other files cannot be read."""
    found = {path: _read_file(path) for path in sorted(folder.glob("*.json"))}
    files = [each for each in found.values() if isinstance(each, LedgerFile)]
    return files, {path: why for path, why in found.items() if isinstance(why, str)}


def _read_file(path: Path) -> LedgerFile | str:
    try:
        return _parse_file(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        return str(error.strerror)
    except SessionError as error:
        return str(error)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return "it is not a ledger of autoprune"


def _parse_file(record: Any) -> LedgerFile:
    """Parse the content of a ledger file. Raises one of the errors that `_read_file` catches."""
    if record["autoprune_ledger"] != VERSION:
        raise SessionError(f"it was written by another version of autoprune ({record['autoprune_ledger']!r})")
    ledger = Ledger.from_dict(record["ledger"])
    float(ledger.unpruned)  # raises if an entry holds anything but numbers
    datetime.fromtimestamp(record["started"])  # raises if it is out of range
    return LedgerFile(
        client=str(record["client"]),
        model=str(record["model"]),
        started=float(record["started"]),
        requests=int(record["requests"]),
        ledger=ledger,
        life_from=str(record.get("life_from", "")),
        arm=str(record.get("arm", "")),
        avoided=int(record.get("compactions_avoided", 0)),
    )
