"""Shorten the paths in a digest by the folder that most of them are in, which the digest names once."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from autoprune.summarizers.digest._contents import (
    CHANGED,
    COMMANDS,
    LAST,
    OPEN,
    READ,
    RESOLVED,
    VALUES,
    Contents,
    tally,
)

LEAST_PATHS = 3  # in a folder, for it to be worth a section
LEAST_DEPTH = 2  # names in a folder's path: "/tmp" has too few
LONGEST = 300  # characters of a folder's path
SHORTENED = frozenset((CHANGED, READ, COMMANDS, VALUES, OPEN, RESOLVED, LAST))


def make_relative(contents: Contents, worked_in: Sequence[str]) -> Contents:
    """Return the contents with paths relative to their folder; without one they get the one that most paths are in.

    `worked_in` are the folders that commands were run in.
    """
    folder = contents.folder or _folder(contents, worked_in)
    if not folder:
        return contents
    lists = {
        title: _merge(title, items, folder) if title in SHORTENED else items for title, items in contents.lists.items()
    }
    return replace(contents, folder=folder, lists=lists)


def relative(text: str, folder: str) -> str:
    """Return a text with the paths in a folder relative to it."""
    return _inside(folder).sub("", text) if folder and folder in text else text


@lru_cache(maxsize=64)
def _inside(folder: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.~/-]){re.escape(folder)}/(?=[\w.@\[-])")


def _merge(title: str, items: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return items with shorter paths; where two become one, the last, or for files what both say together."""
    found: dict[str, str] = {}
    for key, value in items.items():
        short = relative(key, folder)
        before = found.pop(short, "")
        found[short] = tally(before, value) if title in (CHANGED, READ) else value
    return found


def _folder(contents: Contents, worked_in: Sequence[str]) -> str:
    """Return the folder that most commands were run in; else the one that saves most characters, if enough."""
    paths = [path for title in (CHANGED, READ) for path in contents.lists.get(title, {})]
    around = Counter(folder for path in paths if path[0] == "/" for folder in _around(path))
    found = [(times * len(folder), folder) for folder, times in around.items() if times >= LEAST_PATHS]
    for folder, _ in Counter(folder for folder in worked_in if folder.count("/") >= LEAST_DEPTH).most_common(1):
        if any(path.startswith(f"{folder}/") for path in paths) or (paths and not found):
            return folder
    return max(found, default=(0, ""))[1]


def _around(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, the nearest last."""
    at = path.find("/", 1)
    for depth in range(1, path.count("/")):
        if depth >= LEAST_DEPTH and at <= LONGEST:
            yield path[:at]
        at = path.find("/", at + 1)
