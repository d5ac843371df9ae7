"""Find the reads that later reads of the same file only refer to. Edits nothing.

Some tools show a file once. To a second read of an unchanged file they answer only that it is unchanged, and refer to
the first result. So the prompt needs that result for as long as the newest read refers to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.conversation.transcript import Entry, ToolResult
from autoprune.facts.calls import arguments
from autoprune.facts.file_access import argument_files, refers_to_earlier_read


@dataclass(eq=False)
class Shown:
    """The newest result with a file's text, and the result whose place in the prompt that text has now."""

    whole: ToolResult
    holder: ToolResult


class References:
    """Track in one walk the newest result of each read, and which of them a later answer refers to."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._shown: dict[str, dict[str, Shown]] = {}  # by path and arguments, the newest last
        self._needed: set[Shown] = set()

    def observe(self, entry: Entry) -> Iterator[tuple[ToolResult, Shown]]:
        """Read one more message. Yield each answer in it that refers to an earlier read, with that read."""
        for result in entry.results:
            path = next((path for verb, path in argument_files(result.call, None, result.tool) if verb == "read"), "")
            if not path or result.call is None:
                continue
            shown, key = self._shown.setdefault(path, {}), repr(sorted(arguments(result.call).items(), key=str))
            if not refers_to_earlier_read(result):
                self._needed -= {each for name, each in shown.items() if name == key}
                shown.pop(key, None)
                shown[key] = Shown(result, result)
            elif shown:
                newest = shown.get(key) or next(reversed(shown.values()))
                self._needed.add(newest)
                yield result, newest

    def move(self, shown: Shown, answer: ToolResult) -> None:
        """Record that an answer has the text now. No later answer needs it so far."""
        shown.holder = answer
        self._needed.discard(shown)

    @property
    def needed(self) -> frozenset[ToolResult]:
        """The results with a text that the newest read of a file refers to."""
        return frozenset(shown.holder for shown in self._needed)
