"""What an agent is at work on: the newest failure, files that it edits, and results that it has not used yet.

An agent reads until it knows enough, and then it writes: it edits files, runs a long script, answers the user. So a
result counts as used once the agent has written something after it saw it, and then turned to something else. Before
that, nobody can tell its worth: one report may follow another, and the user may ask for a second one.
"""

from collections.abc import Iterator, Mapping

from autoprune.conversation.transcript import Entry, Speaker, ToolResult
from autoprune.facts.actions import Action

LATELY = 20  # requests in which a file was edited
CHANGING = frozenset(("created", "written", "edited"))  # as `Action.files` says it
LEAST_WRITING = 1_000  # characters of arguments that are a text of the agent's own: a message, a report, a script


class AtWork:
    """Reads messages, and knows which results an agent is likely to look back at, whatever is in them."""

    def __init__(self) -> None:
        """Begin before the first message."""
        self.failure: ToolResult | None = None  # the newest one that the user did not cause by a refusal
        self._failed: set[int] = set()  # results by identity
        self._edited: dict[str, int] = {}  # paths, with the newest request that changed each
        self._reads: dict[str, dict[str, ToolResult]] = {}  # by base name and path, the newest last
        self._unused: list[ToolResult] = []  # oldest first
        self._used_at: dict[int, int] = {}  # by identity, the request at which the agent turned to something else
        self._written = -1  # the newest request at which the agent wrote something, if it did nothing else since

    def read(self, entry: Entry) -> None:
        """Take one more message."""
        if entry.speaker is Speaker.USER and not entry.results and self._unused:
            self._written = max(self._written, self._unused[-1].sent)  # the agent has answered
        for result in entry.results:
            action = Action(result.call, result)
            if _has_written(action):
                self._written = result.request
            elif 0 <= self._written < result.request:
                self._use(self._written, self._written)
                self._written = -1
            self._unused.append(result)
            if action.failed:
                self._failed.add(id(result))
                self.failure = self.failure if action.is_refused else result
            for does, path in action.files():
                if does in CHANGING:
                    self._edited[_plain(path)] = result.request
                elif does == "read" and not action.failed:
                    reads = self._reads.setdefault(_base(path), {})
                    reads.pop(_plain(path), None)
                    reads[_plain(path)] = result

    def _use(self, written: int, request: int) -> None:
        """Note that the agent has used, at a request, all that was in the prompt when it wrote something."""
        self._used_at.update((id(result), request) for result in self._unused if result.sent <= written)
        self._unused = [result for result in self._unused if result.sent > written]

    def used_at(self, result: ToolResult) -> int | None:
        """Return the request at which the agent had written something after it saw a result; None if not yet."""
        return self._used_at.get(id(result))

    def has_failed(self, result: ToolResult) -> bool:
        """Return whether the call of a result that was read has certainly failed."""
        return id(result) in self._failed

    def held(self, request: int) -> Mapping[ToolResult, str]:
        """Return the results that it looks back at, at a request, each with the reason in a word or two."""
        held = dict.fromkeys(self.files(request), "file being edited")
        return {self.failure: "newest failure", **held} if self.failure else held

    def files(self, request: int) -> Iterator[ToolResult]:
        """Yield of each file that was edited in the last 20 requests the newest result that read it, each once."""
        self._edited = {path: when for path, when in self._edited.items() if when >= request - LATELY}
        newest = (self._newest(path) for path in self._edited)
        yield from dict.fromkeys(result for result in newest if result)

    def _newest(self, path: str) -> ToolResult | None:
        """Return the newest read of a file, by the same path or one that ends as it does."""
        reads = self._reads.get(_base(path), {})
        return next((reads[each] for each in reversed(reads) if _may_be_one(each, path)), None)


def _has_written(action: Action) -> bool:
    """Return whether a call changed a file, or carried a text of the agent's own."""
    given = action.call.arguments if action.call else ""
    return len(str(given)) >= LEAST_WRITING or any(does in CHANGING for does, _ in action.files())


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _base(path: str) -> str:
    return _plain(path).rpartition("/")[2]


def _may_be_one(one: str, other: str) -> bool:
    """Return whether two paths may be those of one file: one of them may be relative to a folder."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
