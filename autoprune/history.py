"""A conversation that grows: what was read and decided before is not read and decided again. A memo, never a state.

Whatever is remembered is compared first with what the caller passes: the messages by equality, and the objects that
were passed before with a copy of their containers, so that a change made in place is noticed.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import TypeAlias

from autoprune.media import is_media
from autoprune.parsing import Parser, checked
from autoprune.planning import Walk
from autoprune.rewriting import by_message, rewrite
from autoprune.tokens import MESSAGE_TOKENS
from autoprune.transcript import Entry

REMEMBERED = 8  # conversations per pruner
Container: TypeAlias = Mapping[str, object] | list[object]


class History:
    """One conversation, read and walked as far as the caller has passed it."""

    def __init__(self, parser: Parser, walk: Walk, bound: float) -> None:
        """Start before the first message. `bound`: tokens sent beside the messages; infinite: count from the start."""
        self.parser = parser
        self.walk = walk
        self.given: list[object] = []
        self.returned: list[object] = []
        self.rewritten: dict[int, object] = {}
        self._live: list[object] = []
        self._frozen: list[object] = []
        self._bound = bound
        self._edits_made = 0
        self._is_fed_back = False

    @property
    def is_read(self) -> bool:
        """Whether the messages had to be read: not while their bytes are fewer than the budget's tokens."""
        return bool(self.walk.entries)

    def matches(self, messages: list[object]) -> bool:
        """Whether `messages` goes on from what was given, or from what was returned, and nothing has changed since."""
        if messages[: len(self.given)] == self.given:
            self._is_fed_back = False
        elif self.walk.edits and self.walk.is_settled() and messages[: len(self.returned)] == self.returned:
            self._is_fed_back = True
        else:
            return False
        return self._live == self._frozen

    def extend(self, messages: list[object]) -> bool:
        """Take the messages that are new, and decide. False where the memo does not hold for this continuation."""
        if self._is_fed_back:
            self._settle()
        for at in range(len(self.given), len(messages)):
            checked(messages[at], at)
            self._watch(messages[at])
        self.given = list(messages)
        return self._bound <= self.walk.limit or self._read(messages)

    def output(self, conversation: list[object]) -> list[object]:
        """The pruned conversation: the caller's list itself where there is nothing to do."""
        walk = self.walk
        if not walk.edits:
            self.returned = self.given
            return conversation
        self._rewrite(conversation)
        output = list(conversation)
        for at, message in self.rewritten.items():
            output[at] = message
        self.returned = list(output)
        return output

    def _rewrite(self, conversation: list[object]) -> None:
        """Make the edits that are new; a message is always rewritten from the caller's own."""
        walk = self.walk
        touched = {edit.part.location.message for edit in walk.edits[self._edits_made :]}
        if touched:
            several = any(len(walk.entries[at].results) > 1 for at in touched)
            edits = walk.edits if several else walk.edits[self._edits_made :]
            groups = by_message(edits)
            for at in touched:
                self.rewritten[at] = rewrite(conversation[at], groups[at])
                self._watch(self.rewritten[at])
            self._edits_made = len(walk.edits)

    def _read(self, messages: list[object]) -> bool:
        walk, parser = self.walk, self.parser
        for at in range(len(walk.entries), len(messages)):
            entry = parser.read(messages[at], at)
            if not walk.goes_on_with(entry):
                return False
            walk.append(entry)
        walk.ask()
        return True

    def _settle(self) -> None:
        """Go on from what was returned: its changed messages are read anew, in place of the caller's."""
        entries: dict[int, Entry] = {}
        for at, message in self.rewritten.items():
            entries[at] = self.parser.read_again(message, at, self.walk.entries[at])
        self.walk.settle(entries)
        self.given, self.rewritten, self._edits_made = self.returned, {}, 0

    def _watch(self, message: object) -> None:
        """Remember what a message's containers hold, and bound its tokens by its bytes."""
        self._bound += MESSAGE_TOKENS
        for container, bound in containers(message):
            self._live.append(container)
            self._frozen.append(dict(container) if isinstance(container, Mapping) else list(container))
            self._bound += bound


def containers(message: object) -> Iterator[tuple[Container, float]]:
    """Every list and mapping in a message, each with an upper bound of the tokens that its own texts have."""
    open_values: list[object] = [message]
    while open_values:
        value = open_values.pop()
        if isinstance(value, Mapping | list):
            yield value, _bound(value, value is message, open_values)
        elif isinstance(value, tuple):
            open_values.extend(value)
        else:  # an SDK's object: its fields, and those that its class does not know
            own = (getattr(value, "__dict__", None), getattr(value, "__pydantic_extra__", None))
            open_values.extend(held for held in own if held)


def _bound(held: Container, is_message: bool, inner: list[object]) -> float:
    """An upper bound of the tokens of the texts directly in a container; its other values are added to `inner`."""
    total: float = 0
    values: Iterable[object] = held
    if isinstance(held, Mapping):
        values = held.values()
        if not is_message:
            total = math.inf if is_media(held) else sum(utf8_bytes(str(name)) for name in held)
    for value in values:
        if isinstance(value, str):
            total += utf8_bytes(value)
        elif isinstance(value, bool | int | float):
            total += len(str(value))
        elif value is not None:
            inner.append(value)
    return total


def utf8_bytes(text: str) -> int:
    """The length of a text in UTF-8, which its tokens never exceed."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Memory:
    """The histories of a pruner. Safe to share between threads: a history is in one call's hands at a time."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._kept: list[tuple[object, History]] = []
        self._lock = Lock()

    def take(self, key: object, messages: list[object]) -> History | None:
        """A history that `messages` goes on from, made with the same settings."""
        with self._lock:
            for index, (known, history) in enumerate(self._kept):
                if known == key and history.given and history.matches(messages):
                    return self._kept.pop(index)[1]
        return None

    def keep(self, key: object, history: History) -> None:
        """Remember a history; the oldest one goes."""
        with self._lock:
            self._kept.insert(0, (key, history))
            del self._kept[REMEMBERED:]
