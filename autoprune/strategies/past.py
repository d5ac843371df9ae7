"""Track what was cleared and folded, by this walk or by an earlier one whose output was passed back."""

from collections.abc import Iterable
from math import inf
from typing import TypeAlias

from autoprune.conversation.folded_steps import FoldedSteps
from autoprune.conversation.transcript import Entry, ToolResult
from autoprune.facts.calls import arguments, is_recall
from autoprune.strategies.cleared_texts import read_placeholder, without_names
from autoprune.strategies.finished_steps import read_line, what

COMMENTS = frozenset(("description", "explanation", "reason"))  # arguments that differ between equal calls
FOLDED = "folded"  # in place of a tool's name, for fetches of which only the line is known
LEAST_CHARACTERS = 2  # of a block, for each token: more tokens than it has

Key: TypeAlias = tuple[str, str]  # a tool and its arguments, which identify a fetch


class Past:
    """What is gone at a point of a walk. Results are known by their identity."""

    def __init__(self, *, folds_steps: bool) -> None:
        """Start before the first message."""
        self.newest = -1  # the newest request at which something was cleared
        self.gone: dict[int, str] = {}  # the shortest placeholders of cleared results
        self.fetched_again: set[int] = set()
        self._sizes: dict[int, int] = {}  # the tokens of results that came back as placeholders
        self._cleared_at: dict[Key, int] = {}  # the request at which the result of a fetch was first cleared
        self._marked: dict[int, list[ToolResult]] = {}  # placeholders of an earlier walk, by the request in them
        self._folds_steps = folds_steps

    def observe(self, entry: Entry) -> tuple[dict[ToolResult, int], list[tuple[int, int]]]:
        """Read one more message. Return the sizes of results that came back as placeholders, and what was saved.

        The latter are requests of the earlier walk, each with the tokens that it saved here.
        """
        saved = [self._read_block(each) for each in entry.folded]
        sizes: dict[ToolResult, int] = {}
        for result in entry.results:
            if match := read_placeholder(result):
                request, size = int(match[1]), int(match[3].replace(",", ""))
                self._marked.setdefault(request, []).append(result)
                self.newest = max(self.newest, request)
                self.gone[id(result)] = without_names(result, match)
                self.note_cleared(result, request)
                self._sizes[id(result)] = sizes[result] = size
                saved.append((request, max(0, size - result.tokens)))
            elif is_recall(result.call) or self._was_fetched(result):
                self.fetched_again.add(id(result))
        return sizes, saved

    def size(self, result: ToolResult) -> int:
        """Return the tokens of a result, also if it came back as a placeholder."""
        return self._sizes.get(id(result), result.tokens)

    def marked_at(self, request: int) -> Iterable[ToolResult]:
        """Return the placeholders that an earlier walk wrote at a request, once."""
        return self._marked.pop(request, ())

    def note_cleared(self, result: ToolResult, request: int) -> None:
        """Remember the fetch whose result was cleared at a request, to recognize a repeated fetch."""
        self._note_fetch(_key(result), request)

    def note_folded(self, result: ToolResult, request: int) -> None:
        """Remember the fetch whose step was folded at a request."""
        self._note_fetch((FOLDED, what(result)), request)
        self.gone[id(result)] = ""

    def _read_block(self, folded: FoldedSteps) -> tuple[int, int]:
        """Read a block of steps that an earlier walk folded. Return its request and at least the tokens it saved."""
        self.newest = max(self.newest, folded.request)
        calls = [*filter(None, map(read_line, folded.lines))]
        for called, _ in calls:
            self._note_fetch((FOLDED, called), folded.request)
        return folded.request, max(0, sum(size for _, size in calls) - len(folded.text) // LEAST_CHARACTERS)

    def _note_fetch(self, key: Key, request: int) -> None:
        self._cleared_at[key] = min(request, self._cleared_at.get(key, request))

    def _was_fetched(self, result: ToolResult) -> bool:
        """Return whether a result was fetched after an equal fetch was cleared, or one with the same line folded."""
        keys = (_key(result), *([(FOLDED, what(result))] if self._folds_steps else []))
        return result.request >= min(self._cleared_at.get(key, inf) for key in keys)


def _key(result: ToolResult) -> Key:
    """Return a key for the call of a result. A repeated call has the same key."""
    if result.call is None:
        return result.tool, str(id(result))
    values = {name: value for name, value in arguments(result.call).items() if name not in COMMENTS}
    return result.tool, repr(values or result.call.arguments)
