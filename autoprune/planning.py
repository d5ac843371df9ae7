"""Plan: the walk over a conversation's requests, as if the pruner had been there all along. Reads and calls nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from autoprune.edits import Plan, Reason, Replace
from autoprune.placeholders import Placeholder
from autoprune.transcript import Entry, Speaker, ToolResult, Transcript


@dataclass(frozen=True, slots=True)
class Candidate:
    """A result that could be cleared at a request, what would stand in its place, and the tokens that would go."""

    result: ToolResult
    text: str
    saves: int

    def cleared(self, reason: Reason) -> Replace:
        """The edit that clears it."""
        return Replace(self.result, self.text, reason, self.saves)


class View(Protocol):
    """What a strategy sees at one request: nothing that comes after it."""

    @property
    def request(self) -> int:
        """The number of the request."""

    @property
    def tokens(self) -> int:
        """Tokens of the prompt about to be sent, with all that was cleared before."""

    @property
    def limit(self) -> int:
        """The safe zone, in counted tokens."""

    def candidates(self) -> Iterator[Candidate]:
        """The results that the model has seen and whose placeholders are smaller, oldest first."""


class Strategy(Protocol):
    """Decides what to clear. It is asked at each request whose prompt is over the safe zone.

    Its edits are made of the candidates that the view offers (`candidate.cleared(reason)`); any other is not made.
    """

    @property
    def name(self) -> str:
        """What it is called by."""

    def step(self, view: View) -> Iterable[Replace]:
        """The edits to make at a request; what is cleared stays cleared."""


def plan(transcript: Transcript, strategy: Strategy, limit: int, placeholder: Placeholder) -> Plan:
    """What a strategy clears in a conversation so that its prompt has at most `limit` tokens."""
    walk = Walk(strategy, limit, transcript.fixed_tokens, placeholder)
    for entry in transcript.entries:
        walk.append(entry)
    walk.ask()
    return Plan(transcript, tuple(walk.edits), limit, placeholder)


class Walk:
    """Takes a conversation message by message and asks the strategy wherever a request stands.

    It is itself the view that the strategy gets, so no decision can depend on what comes later.
    """

    def __init__(self, strategy: Strategy, limit: int, fixed_tokens: int, placeholder: Placeholder) -> None:
        """Start before the first message."""
        self.strategy = strategy
        self.limit = limit
        self.placeholder = placeholder
        self.tokens = fixed_tokens
        self.request = 0
        self.entries: list[Entry] = []
        self.edits: list[Replace] = []
        self._unseen: list[ToolResult] = []
        self._seen: dict[ToolResult, Candidate | None] = {}  # oldest first, not cleared; None: not weighed yet
        self._useless: list[ToolResult] = []
        self._asked_at = -1
        self._edits_before = 0

    @property
    def in_run(self) -> bool:
        """Whether the last message is the model's."""
        return bool(self.entries) and self.entries[-1].speaker is Speaker.MODEL

    def append(self, entry: Entry) -> None:
        """Take the next message."""
        if entry.speaker is Speaker.MODEL and not self.in_run:
            self.ask()
            self._seen.update(dict.fromkeys(self._unseen))
            self._unseen.clear()
            self.request += 1
        self.entries.append(entry)
        self.tokens += entry.tokens
        self._unseen.extend(entry.results)

    def ask(self) -> None:
        """The request that stands here: let the strategy clear what it will, once."""
        if self._asked_at == len(self.entries):
            return
        self._asked_at = len(self.entries)
        self._edits_before = len(self.edits)
        if self.tokens > self.limit and self._seen:
            for edit in list(self.strategy.step(self)):
                self._take(edit)
            for result in self._useless:
                self._seen.pop(result, None)
            self._useless.clear()

    def _take(self, edit: Replace) -> None:
        """Make an edit if it is one of the candidates: a strategy cannot clear what was not offered."""
        candidate = self._seen.pop(edit.part, None)
        if candidate and candidate.saves > 0:
            self.tokens -= candidate.saves
            self.edits.append(Replace(edit.part, candidate.text, edit.reason, candidate.saves, self.request))

    def candidates(self) -> Iterator[Candidate]:
        """The results that the model has seen and whose placeholders are smaller, oldest first."""
        for result, known in self._seen.items():
            candidate = known or self._weigh(result)
            if candidate.saves > 0:
                yield candidate
            else:
                self._useless.append(result)

    def _weigh(self, result: ToolResult) -> Candidate:
        text = self.placeholder.text(result)
        candidate = self._seen[result] = Candidate(result, text, self.placeholder.saves(result, text))
        return candidate

    def goes_on_with(self, entry: Entry) -> bool:
        """Whether the last request still stands when `entry` follows. If not, what it cleared was not cleared."""
        stood = entry.speaker is Speaker.MODEL and not self.in_run
        return stood or self._asked_at != len(self.entries) or self._edits_before == len(self.edits)

    def is_settled(self) -> bool:
        """Whether a walk over the conversation with these edits made would come to no edit."""
        return self.tokens <= self.limit or not self._seen

    def settle(self, entries: Mapping[int, Entry]) -> None:
        """Become the walk over the conversation with the edits made; `entries` are the changed messages' new ones."""
        renewed: dict[ToolResult, ToolResult] = {}
        for at, entry in entries.items():
            renewed.update(zip(self.entries[at].results, entry.results, strict=True))
            self.entries[at] = entry
        if len(renewed) > len(self.edits):  # siblings of a cleared result have moved
            self._seen = {renewed.get(old, old): None if old in renewed else known for old, known in self._seen.items()}
        self.edits = []
        self._edits_before = 0
