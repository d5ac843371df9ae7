"""The archive that `autoprune run` keeps: private folders with limits on size and age, and a search by words.

Each project has a folder of its own, so that a search in one project shows nothing of another. Beside each payload
stands a file that says what it was, such as `read src/app.py`.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256

from autoprune.conversation.archive import LEFTOVER, SUFFIX, Directory, bare_id, pointer_target, recall
from autoprune.conversation.edits import ID
from autoprune.errors import ArchiveError

MOST_BYTES = 200_000_000  # of all projects together
DAYS = 7  # a resumed session stores its content again, so this need not be long
DAY_SECONDS = 86_400
CHECKED = 20_000_000  # bytes written between two checks of the limits
ABOUT = ".about"
OWN = re.compile(rf"(?:{ID.pattern})(?:{re.escape(SUFFIX)}|{re.escape(ABOUT)})|{LEFTOVER.pattern}")  # names of files
MOST_FOUND = 10
LONGEST_LINE = 160  # characters of a line that is shown
WORD = re.compile(r"\w+")


@dataclass
class Limits:
    """The limits of all archives beside each other. Storing checks them, at first and then now and then.

    `unchecked` are the bytes that were stored since they were checked, at the time `checked`.
    """

    most_bytes: int = MOST_BYTES
    days: float = DAYS
    unchecked: int = 0
    checked: float = 0.0


class LimitedDirectory(Directory):
    """An archive in a folder beside others. The limits apply to all of them; what was stored first is removed first.

    Other files in these folders stay, and so do empty folders of others.
    """

    def __init__(self, path: str, limits: Limits | None = None) -> None:
        """Use the folder `path` within the limits. Archives beside each other that share them check them less often."""
        super().__init__(path)
        self._limits = limits or Limits()

    def __setitem__(self, key: str, text: str) -> None:
        """Store a payload, and remove old ones if there is no room. Raises KeyError if `key` is not an id."""
        parent = os.path.dirname(self.path)
        for folder in (os.path.dirname(parent), parent):  # a mode holds only for the last folder of a path
            os.makedirs(folder, mode=0o700, exist_ok=True)
        super().__setitem__(key, text)
        limits, now = self._limits, time.time()
        limits.unchecked += len(text)
        if limits.unchecked > min(CHECKED, limits.most_bytes // 10) or abs(now - limits.checked) > DAY_SECONDS:
            limits.unchecked, limits.checked = 0, now
            self.tidy()

    def setdefault(self, key: str, default: str) -> str:
        """Store a payload unless it is stored; then it counts as stored now, since a session needs it again."""
        stored = super().setdefault(key, default)
        with suppress(OSError):
            os.utime(self._file(key))
        return stored

    def describe(self, id: str, what: str) -> None:
        """Record what a payload was, in one line. Raises OSError if that cannot be written."""
        if os.path.exists(self._file(id)):
            self._write(os.path.join(self.path, id + ABOUT), " ".join(what.split())[:LONGEST_LINE])

    def description(self, id: str) -> str:
        """Return what a payload was; "" if that is not recorded."""
        try:
            return self._read(os.path.join(self.path, id + ABOUT)).decode("utf-8", "replace")
        except OSError:
            return ""

    def tidy(self) -> None:
        """Remove what is older than the limit, then the oldest payloads of all folders until the rest fits."""
        room, oldest = self._limits.most_bytes, time.time() - self._limits.days * DAY_SECONDS
        thinned = set()
        for path, when, size in sorted(_files(os.path.dirname(self.path)), key=lambda each: -each[1]):
            room -= size
            if when < oldest or room < 0:
                thinned.add(os.path.dirname(path))
                with suppress(OSError):  # another process may remove it, too
                    os.unlink(path)
        for folder in thinned:
            with suppress(OSError):  # it is not empty
                os.rmdir(folder)


def _files(parent: str) -> Iterator[tuple[str, float, int]]:
    """Yield the files of archives in the folders of `parent`: path, time of the last change, and size."""
    for folder in project_folders(parent):
        with suppress(OSError), os.scandir(folder) as found:
            for each in filter(lambda each: OWN.fullmatch(each.name), found):
                with suppress(OSError):
                    known = each.stat(follow_symlinks=False)
                    yield each.path, known.st_mtime, known.st_size


def project_folders(parent: str) -> list[str]:
    """List the folders of all projects."""
    with suppress(OSError), os.scandir(parent) as found:
        return sorted(each.path for each in found if each.is_dir(follow_symlinks=False))
    return []


def project_folder(parent: str, folder: str) -> str:
    """Return the folder for what is cleared while an agent works in `folder`."""
    return os.path.join(parent, sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:16])


def nearest_folder(parent: str, folder: str) -> str | None:
    """Return the existing folder of the project that contains `folder`; None if nothing was kept there."""
    at = os.path.realpath(folder)
    while not os.path.isdir(found := project_folder(parent, at)):
        if at == (at := os.path.dirname(at)):
            return None
    return found


def recall_anywhere(parent: str, id: str) -> str:
    """Return the payload with an id from the folder of any project. Raises ArchiveError as `recall` does."""
    folders = project_folders(parent)
    return recall(Directory(next((each for each in folders if bare_id(id) in Directory(each)), parent)), id)


# Searching


@dataclass(frozen=True)
class SearchHit:
    """A payload that a search found: its id, what it was, and the line with most of the words, numbered from 1."""

    id: str
    what: str
    number: int
    line: str


def search(archive: LimitedDirectory, words: str) -> list[SearchHit]:
    """Return the payloads that match any of some words: those first that hold all of them together, then by rank.

    A word such as `app.load_settings` is found as it is written. Raises ArchiveError without a word, and if this
    Python's SQLite cannot search texts.
    """
    readable = words.replace("\0", " ").encode("utf-8", "replace").decode()  # SQLite takes neither NUL nor surrogates
    asked = [each for each in readable.split() if WORD.search(each)]
    if not asked:
        raise ArchiveError(f"{words!r} holds no word to search for")
    with closing(sqlite3.connect(":memory:")) as index:
        try:
            index.execute("CREATE VIRTUAL TABLE kept USING fts5(id UNINDEXED, what, text)")
        except sqlite3.OperationalError as error:
            raise ArchiveError(f"this Python's SQLite cannot search texts: {error}") from error
        index.executemany("INSERT INTO kept VALUES (?, ?, ?)", _rows(archive))
        quoted = ['"{}"'.format(each.replace('"', '""')) for each in asked]
        # As many words may stand between them: line numbers, say.
        queries = (f"NEAR({' '.join(quoted)}, {len(quoted)})", " OR ".join(quoted))
        ranked = "SELECT id, what, text FROM kept WHERE kept MATCH ? ORDER BY rank LIMIT ?"
        rows = {row[0]: row for query in queries for row in index.execute(ranked, (query, MOST_FOUND))}
        return [SearchHit(id, what, *_best_line(text, asked)) for id, what, text in [*rows.values()][:MOST_FOUND]]


def _rows(archive: LimitedDirectory) -> Iterator[tuple[str, str, str]]:
    for id in archive:
        with suppress(KeyError, ArchiveError):  # removed meanwhile, or unreadable
            text = archive[id]
            if pointer_target(text, id) is None:
                yield id, archive.description(id), text.encode("utf-8", "replace").decode()


def _best_line(text: str, words: Iterable[str]) -> tuple[int, str]:
    """Return the line of a text that has most of some words, and its number."""
    asked = [each.casefold() for each in words]
    lines = text.split("\n")
    folded = [line.casefold() for line in lines]
    at = max(range(len(lines)), key=lambda each: sum(word in folded[each] for word in asked))
    first = min((place for word in asked if (place := folded[at].find(word)) >= 0), default=0)
    start = max(0, first - LONGEST_LINE // 2) if len(lines[at]) > LONGEST_LINE else 0
    return at + 1, " ".join(lines[at][start : start + LONGEST_LINE].split())
