"""What a result is worth to an agent that goes on, as far as names and files can tell: a figure, and nothing decided.

An agent acts by names: it looks for them, writes them, opens the files that it has read. A result is worth the more,
the more of its names no call has used yet, the smaller it is, the newer, and the more lately any call touched its file:

    1000 · (1 + fresh names + long words / 10) / (tokens^1.2 · √age) · (1 + 6 · 2^(-requests since the touch / 40))

Long words are for prose, which holds few names. The figures come from replaying recorded sessions.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from autoprune.conversation.transcript import Entry, ToolCall, ToolResult
from autoprune.facts.calls import arguments, command, paths
from autoprune.facts.plain_text import identifiers

LEAST_TOKENS = 60  # of a result that may go because it is worth little
TOUCHED_FACTOR, TOUCHED_HALF = 6.0, 40  # a touch counts for half of that after so many requests
NEVER = -(10**6)  # a request long before the first
LONG_WORD, LONG_WORDS = 9, 0.1  # letters, and what each counts beside a name
FILE = re.compile(r"(?<![\w.@$/+-])[\w./@+-]*[\w@+-]\.[A-Za-z]\w{0,5}(?![\w/])")


@dataclass(eq=False)
class Known:
    """What is known of a result; `fresh` are its names that no call has used, each once, as they come."""

    result: ToolResult
    fresh: dict[str, None]

    @cached_property
    def tokens(self) -> int:
        """The tokens of the payload."""
        return self.result.tokens

    @cached_property
    def size(self) -> float:
        """What the worth is divided by for the tokens of the payload."""
        return float(self.tokens**1.2)

    @cached_property
    def prose(self) -> float:
        """What the long words in the text count beside names."""
        return LONG_WORDS * len(
            {word for word in self.result.text.split() if len(word) >= LONG_WORD and word.isalpha()}
        )

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The names of the files that the call touches."""
        return files(self.result.call) if self.result.call else ()


@dataclass
class Worth:
    """What one walk has read: results with their names, the names that calls have used, the files they touched."""

    _known: dict[int, Known] = field(default_factory=dict)  # by the identity of results
    _used: set[str] = field(default_factory=set)
    _touched: dict[str, int] = field(default_factory=dict)  # the newest request that touched a file

    def read(self, entry: Entry) -> None:
        """Take one more message."""
        for call in entry.calls:
            self._touched.update(dict.fromkeys(files(call), call.request))
            self._use(set(_names_of(call)) - self._used)
        for result in entry.results:
            self._known[id(result)] = Known(result, self._fresh(result))

    def forget(self, result: ToolResult) -> None:
        """Forget a result that is gone."""
        self._known.pop(id(result), None)

    def fresh_names(self, result: ToolResult) -> Iterable[str]:
        """Return the names in a result that no call has used so far, each once, as they come."""
        return self._known[id(result)].fresh

    def _fresh(self, result: ToolResult) -> dict[str, None]:
        return dict.fromkeys(name for name in identifiers(result.text) if name not in self._used)

    def _use(self, names: set[str]) -> None:
        """Note names that a call has used for the first time."""
        self._used |= names
        for known in self._known.values():
            for name in names:
                known.fresh.pop(name, None)

    def of(self, result: ToolResult, request: int) -> float:
        """Return what a result is worth at a request; infinite for one that is small."""
        known = self._known[id(result)]
        if known.tokens < LEAST_TOKENS:
            return inf
        age = max(1, request - result.request)
        since = request - max((self._touched.get(file, NEVER) for file in known.files), default=NEVER)
        touched = 1 + TOUCHED_FACTOR * float(0.5 ** (since / TOUCHED_HALF))
        return 1_000 * (1 + len(known.fresh) + known.prose) / float(known.size * age**0.5) * touched


def files(call: ToolCall) -> tuple[str, ...]:
    """Return the names of the files that a call touches: in arguments, in a patch, in a shell command."""
    words = (*paths(call), *FILE.findall(command(call)))
    return tuple(dict.fromkeys(name for word in words if (name := word.rstrip("/").rpartition("/")[2])))


def _names_of(call: ToolCall) -> Iterable[str]:
    """Return the names in the arguments of a call."""
    known = arguments(call)
    texts: list[str] = []
    values: list[object] = [known or call.arguments]
    while values:
        value = values.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
    return identifiers("\n".join(texts))
