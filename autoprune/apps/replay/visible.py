"""Tell whether a text shows an atom: unchanged, without line numbers, or decoded from JSON.

Names, values and the words of quotes are looked up in an index of each text; other atoms are searched.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

from autoprune.apps.replay.atoms import STATED, Atom, Kind
from autoprune.apps.replay.shell_edits import telling_name
from autoprune.apps.replay.stated_values import LEAST_RUN, UNSPACED, all_readings, normalize, squeeze
from autoprune.apps.sessions import try_parse
from autoprune.facts.calls import LEAST_IDENTIFIER as LEAST_NAME

LINE_NUMBER = re.compile(r"^[ \t]*\d+(?:→|\t|:|\s*\|)", re.MULTILINE)
NAME = re.compile(rf"\w{{{LEAST_NAME},}}")
COUNTED = re.compile(r"^[ \t]*(\d{1,9})(→|\t|:|\s*\|)", re.MULTILINE)
LEAST_LETTERS = 4  # of the words in the index that finds names and quotes
LETTERS = re.compile(rf"[^\W\d_]{{{LEAST_LETTERS},}}")
BETWEEN_WORDS = r"[\W_]{1,4}"  # of a name: a space, a line break, a comma
LONGEST_JSON = 4_000_000  # characters
NAMED = frozenset((Kind.IDENTIFIER, Kind.CODE))


class Text:
    """A text of a prompt, in every form that may show an atom."""

    def __init__(self, raw: str) -> None:
        self.raw = raw

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The text without carriage returns, the text without line numbers, and the decoded text, if they differ."""
        whole = self.raw.replace("\r", "")
        without = LINE_NUMBER.sub("", whole)
        return tuple(form for form in dict.fromkeys((whole, without, self._json_value)) if form)

    @cached_property
    def _json_value(self) -> str:
        text = self.raw.replace("\r", "")
        is_json = text[:1] in ("{", "[") and len(text) <= LONGEST_JSON
        return "\n".join(strings(try_parse(text))) if is_json else ""

    @cached_property
    def words(self) -> frozenset[str]:
        """The words that are long enough for a name."""
        return frozenset(word for form in self.forms for word in NAME.findall(form))

    @cached_property
    def plain_forms(self) -> tuple[str, ...]:
        """The forms in which facts are searched: without line numbers, but with the first column of a table."""
        whole = self.raw.replace("\r", "")
        forms = (LINE_NUMBER.sub("", whole) if _is_numbered(whole) else whole, self._json_value)
        return tuple(normalize(form) for form in forms if form)

    @cached_property
    def values(self) -> frozenset[str]:
        """The numbers, dates and codes, in every reading."""
        return frozenset(value for form in self.plain_forms for value in all_readings(form))

    @cached_property
    def letters(self) -> str:
        """The letters and digits only, which quotes are compared with."""
        return "\0".join(map(squeeze, self.plain_forms))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The words of four letters or more, and all runs of characters in scripts without spaces."""
        collected = {word.casefold() for form in self.plain_forms for word in set(LETTERS.findall(form))}
        for form in self.plain_forms:
            if UNSPACED.search(form):
                runs = UNSPACED.findall(squeeze(form))
                collected.update(run[at : at + LEAST_RUN] for run in runs for at in range(len(run) - LEAST_RUN + 1))
        return frozenset(collected)

    def shows(self, atom: Atom) -> bool:
        """Return whether the text shows the atom."""
        if atom.kind in NAMED:
            return atom.text in self.words
        if atom.kind not in STATED:
            wanted = self.search_text(atom)
            return any(wanted in form for form in self.forms)
        if is_value(atom):
            return atom.text in self.values
        name = _name_pattern(atom)
        return any(map(name.search, self.plain_forms)) if name else squeeze(atom.text) in self.letters

    @staticmethod
    def search_text(atom: Atom) -> str:
        """Return the text to search for an atom: for a path its base name, if the base name is long enough."""
        return telling_name(atom.text) if atom.kind is Kind.PATH else atom.text.replace("\r", "")


def is_value(atom: Atom) -> bool:
    """Return whether an atom is a value rather than a name, a run of characters or a quote."""
    return atom.kind is Kind.ROW or (atom.kind is Kind.FACT and (":" in atom.text or any(map(str.isdigit, atom.text))))


@lru_cache(maxsize=4_096)
def _name_pattern(atom: Atom) -> re.Pattern[str] | None:
    """Compile a pattern for a name, whose words may be on two lines or in two columns; None for other atoms."""
    if atom.kind is not Kind.FACT or " " not in atom.text:
        return None
    words = BETWEEN_WORDS.join(map(re.escape, atom.text.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)")


def _index_keys(atom: Atom) -> list[str]:
    """List the words and runs that occur in every text that shows the atom (a name, a run or a quote)."""
    runs = [run[:LEAST_RUN] for run in UNSPACED.findall(squeeze(atom.text)) if len(run) >= LEAST_RUN]
    return runs or [word.casefold() for word in LETTERS.findall(atom.text)]


class Texts:
    """A growing list of texts to search for atoms. Each text is searched only once for each atom.

    Names and values are found by an index. Matches of other atoms are cached, since most are looked up again.
    """

    def __init__(self) -> None:
        self._texts: list[Text] = []
        self._by_word: dict[str, list[int]] = {}
        self._by_value: dict[str, list[int]] = {}
        self._by_key: dict[str, list[int]] = {}
        self._found: dict[object, tuple[int, list[int]]] = {}  # the number of texts searched, and those that show it

    def add_text(self, raw: str) -> None:
        """Add a text."""
        text = Text(raw)
        number = len(self._texts)
        indexes = (self._by_word, text.words), (self._by_value, text.values), (self._by_key, text.keys)
        for index, keys in indexes:
            for each in keys:
                index.setdefault(each, []).append(number)
        self._texts.append(text)

    def find(self, atom: Atom) -> tuple[int, ...]:
        """Find the texts that show an atom: their numbers in ascending order."""
        if atom.kind in NAMED:
            return tuple(self._by_word.get(atom.text, ()))
        if is_value(atom):
            return tuple(self._by_value.get(atom.text, ()))
        wanted = atom if atom.kind in STATED else Text.search_text(atom)
        seen, showing = self._found.get(wanted, (0, []))
        showing += (at for at in self._candidates(atom, seen) if self._texts[at].shows(atom))
        self._found[wanted] = len(self._texts), showing
        return tuple(showing)

    def _candidates(self, atom: Atom, seen: int) -> Sequence[int]:
        """Select the numbers, from `seen` on, of texts that may show an atom."""
        keys = _index_keys(atom) if atom.kind in STATED else []
        if not keys:
            return range(seen, len(self._texts))
        rarest: Sequence[int] = min((self._by_key.get(key, []) for key in keys), key=len)
        return rarest[bisect_left(rarest, seen) :]


def _is_numbered(text: str) -> bool:
    """Return whether the numbers at the start of lines are line numbers: they have an arrow, or increase by one."""
    counted = COUNTED.findall(text)
    if counted and all(mark == "→" for _, mark in counted):
        return True
    steps = sum(int(after) == int(before) + 1 for (before, _), (after, _) in pairwise(counted))
    return steps * 2 >= len(counted) > 1


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, with the names of its fields."""
    return (each for each in _scalars(value) if isinstance(each, str))


def numbers(value: object) -> Iterator[str]:
    """Yield every number in a JSON value."""
    return (str(each) for each in _scalars(value) if isinstance(each, int | float) and not isinstance(each, bool))


def _scalars(value: object) -> Iterator[object]:
    """Yield the values in a JSON value, and the names of fields, in order."""
    open_values = [value]
    while open_values:
        each = open_values.pop()
        if isinstance(each, Mapping):
            open_values += reversed([*each, *each.values()])
        elif isinstance(each, list):
            open_values += reversed(each)
        else:
            yield each
