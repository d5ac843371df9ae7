"""Whether an atom can be seen in a text: in the text itself, without line numbers, or in the JSON that it holds."""

import json
import re
from collections.abc import Iterator
from functools import cached_property

from autoprune.conversation.names import LEAST_NAME
from autoprune.replay.atoms import Atom, Kind

LINE_NUMBER = re.compile(r"^[ \t]*\d+(?:→|\t|:|\s*\|)", re.MULTILINE)
WORD = re.compile(rf"\w{{{LEAST_NAME},}}")
LEAST_BASE_NAME = 7  # characters of a file's name by which a path is known
LONGEST_JSON = 4_000_000  # characters


class Text:
    """A text of the prompt, in every form in which an atom may stand in it."""

    def __init__(self, raw: str) -> None:
        """Take the text as it was sent."""
        self.raw = raw

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The text without carriage returns, then without line numbers and decoded where that differs."""
        plain = self.raw.replace("\r", "")
        without = LINE_NUMBER.sub("", plain)
        decoded = "\n".join(strings(_decoded(plain)))
        return tuple(form for form in dict.fromkeys((plain, without, decoded)) if form)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words that are long enough for a name."""
        return frozenset(word for form in self.forms for word in WORD.findall(form))

    def shows(self, atom: Atom) -> bool:
        """Return whether the atom can be seen."""
        if atom.kind in (Kind.IDENTIFIER, Kind.CODE):
            return atom.text in self.words
        wanted = self.wanted(atom)
        return any(wanted in form for form in self.forms)

    @staticmethod
    def wanted(atom: Atom) -> str:
        """Return what must stand in a text that shows an atom: of a path the base name, if that is long enough."""
        if atom.kind is not Kind.PATH:
            return atom.text.replace("\r", "")
        name = atom.text.rstrip("/").rpartition("/")[2]
        return name if len(name) >= LEAST_BASE_NAME else atom.text


class Texts:
    """Texts in the order in which they came, in which atoms are looked for: each text is looked at once for each atom.

    Names are found by an index of words; of other atoms it is remembered where they were found, since most come again.
    """

    def __init__(self) -> None:
        """Hold no text yet."""
        self._texts: list[Text] = []
        self._by_word: dict[str, list[int]] = {}
        self._found: dict[str, tuple[int, list[int]]] = {}  # the number of texts looked at, and those that show it

    def append(self, raw: str) -> None:
        """Take one more text."""
        text = Text(raw)
        for word in text.words:
            self._by_word.setdefault(word, []).append(len(self._texts))
        self._texts.append(text)

    def showing(self, atom: Atom) -> tuple[int, ...]:
        """Return the numbers of the texts that show an atom, in order."""
        wanted = Text.wanted(atom)
        if atom.kind in (Kind.IDENTIFIER, Kind.CODE):
            return tuple(self._by_word.get(wanted, ()))
        seen, found = self._found.get(wanted, (0, []))
        found += (at for at in range(seen, len(self._texts)) if self._texts[at].shows(atom))
        self._found[wanted] = len(self._texts), found
        return tuple(found)


def _decoded(text: str) -> object:
    if text[:1] not in ("{", "[") or len(text) > LONGEST_JSON:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, with the names of its fields."""
    open_values = [value]
    while open_values:
        each = open_values.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            open_values += reversed([*each, *each.values()])
        elif isinstance(each, list):
            open_values += reversed(each)
