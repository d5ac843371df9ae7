"""The interface of context policies: the view of a request and the changes that a policy makes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autoprune.conversation.transcript import Entry, Part, ToolCall, ToolResult
from autoprune.settings import UNKNOWN_WINDOW


@dataclass(frozen=True)
class RequestView:
    """A recorded conversation before one of its requests, unedited, with the figures that an agent knows at that time.

    `number` counts the requests from 0. `head` is the number of tokens that are sent before the messages, and
    `last_prompt` that of the previous prompt that was sent, 0 at the first request; both by our count. `window` is the
    context window of the session's model, in the same tokens. `pause` is the time since the previous answer in seconds,
    0 if it is unknown.
    """

    number: int
    messages: Sequence[Any] = field(repr=False)
    entries: Sequence[Entry] = field(repr=False)
    results: Sequence[ToolResult] = field(repr=False)
    calls: Sequence[ToolCall] = field(repr=False)
    head: int = 0
    last_prompt: int = 0
    window: int = UNKNOWN_WINDOW
    pause: float = 0.0

    @property
    def unseen(self) -> Sequence[ToolResult]:
        """The results that no earlier request has sent."""
        return [result for result in self.results if result.sent >= self.number]


@dataclass(frozen=True)
class Changes:
    """All differences between a prompt and the recorded messages, also those that an earlier prompt had.

    `texts` maps results, or the inputs of calls, to their new payloads. `dropped` holds the indexes of messages that
    are not sent. `added` maps the index of a recorded message to the text of a user message that is sent before it.
    `repeated` maps such an index to the indexes of messages that are sent once more before it.
    """

    texts: Mapping[Part, str] = field(default_factory=dict)
    dropped: Collection[int] = frozenset()
    added: Mapping[int, str] = field(default_factory=dict)
    repeated: Mapping[int, Sequence[int]] = field(default_factory=dict)


NOTHING = Changes()


class ContextPolicy(Protocol):
    """Decides what is sent. A policy may remember earlier requests, since each conversation gets a new one."""

    def changes(self, request: RequestView) -> Changes:
        """Return all changes of the prompt of a request. Called once for each request, in order."""
        ...
