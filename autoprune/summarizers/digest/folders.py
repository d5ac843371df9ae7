"""The folder that most paths of a ledger are in: it is told once, and left out of the paths. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from autoprune.summarizers.digest.ledger import CHANGED, COMMANDS, LAST, OPEN, READ, RESOLVED, VALUES, Ledger, tally

LEAST_PATHS = 3  # in a folder, for it to be worth a section
LEAST_DEPTH = 2  # names in a folder's path: "/tmp" is none
LONGEST = 300  # characters of a folder's path
SHORTENED = frozenset((CHANGED, READ, COMMANDS, VALUES, OPEN, RESOLVED, LAST))


def relative(ledger: Ledger, worked_in: Sequence[str]) -> Ledger:
    """The ledger with paths relative to its folder; one that has none yet gets the one that most paths are in.

    `worked_in` are the folders that commands were run in.
    """
    folder = ledger.folder or _folder(ledger, worked_in)
    if not folder:
        return ledger
    lists = {
        title: _merged(title, entries, folder) if title in SHORTENED else entries
        for title, entries in ledger.lists.items()
    }
    return replace(ledger, folder=folder, lists=lists)


def shortened(text: str, folder: str) -> str:
    """A text with the paths in a folder relative to it."""
    return _inside(folder).sub("", text) if folder and folder in text else text


@lru_cache(maxsize=64)
def _inside(folder: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.~/-]){re.escape(folder)}/(?=[\w.@\[-])")


def _merged(title: str, entries: Mapping[str, str], folder: str) -> dict[str, str]:
    """Entries with shorter paths; of those that become one the last, or what was done with a file in all of them."""
    found: dict[str, str] = {}
    for key, value in entries.items():
        short = shortened(key, folder)
        before = found.pop(short, "")
        found[short] = tally(before, value) if title in (CHANGED, READ) else value
    return found


def _folder(ledger: Ledger, worked_in: Sequence[str]) -> str:
    """The folder that most commands were run in; else the one that saves most characters, if it saves enough."""
    paths = [path for title in (CHANGED, READ) for path in ledger.lists.get(title, {})]
    around = Counter(folder for path in paths if path[0] == "/" for folder in _around(path))
    found = [(times * len(folder), folder) for folder, times in around.items() if times >= LEAST_PATHS]
    for folder, _ in Counter(folder for folder in worked_in if folder.count("/") >= LEAST_DEPTH).most_common(1):
        if any(path.startswith(f"{folder}/") for path in paths) or (paths and not found):
            return folder
    return max(found, default=(0, ""))[1]


def _around(path: str) -> Iterator[str]:
    """The folders that a path is in, the nearest last."""
    at = path.find("/", 1)
    for depth in range(1, path.count("/")):
        if depth >= LEAST_DEPTH and at <= LONGEST:
            yield path[:at]
        at = path.find("/", at + 1)
