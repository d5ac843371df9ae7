"""What a context policy of another tool sees at a request, and what it answers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autoprune.conversation.transcript import Entry, Part, ToolCall, ToolResult

NO_ROOM = 200_000  # tokens: the context window of sessions whose model is unknown


@dataclass(frozen=True)
class RequestView:
    """A recorded conversation before one of its requests, unedited, and what an agent knows at that time.

    `number` counts the requests from 0. `head` are the tokens that are sent before the messages, and `last_prompt` the
    tokens of the previous prompt that was sent, 0 at the first request; both by our count. `window` is the context
    window of the session's model, in the same tokens. `pause` are the seconds since the previous answer, 0 if unknown.
    """

    number: int
    messages: Sequence[Any] = field(repr=False)
    entries: Sequence[Entry] = field(repr=False)
    results: Sequence[ToolResult] = field(repr=False)
    calls: Sequence[ToolCall] = field(repr=False)
    head: int = 0
    last_prompt: int = 0
    window: int = NO_ROOM
    pause: float = 0.0

    @property
    def unseen(self) -> Sequence[ToolResult]:
        """The results that no earlier request has sent."""
        return [result for result in self.results if result.sent >= self.number]


@dataclass(frozen=True)
class Changes:
    """How a prompt differs from the recorded messages: everything that is changed, not only what is new.

    `texts` are new payloads of results, or of the inputs of calls. `dropped` are indexes of messages that are not sent.
    `added` are user messages, by the index of the recorded message before which they are sent. `repeated` are indexes
    of messages that are sent once more, by the same index.
    """

    texts: Mapping[Part, str] = field(default_factory=dict)
    dropped: Collection[int] = frozenset()
    added: Mapping[int, str] = field(default_factory=dict)
    repeated: Mapping[int, Sequence[int]] = field(default_factory=dict)


NOTHING = Changes()


class ContextPolicy(Protocol):
    """Decides what is sent. It may remember earlier requests: each conversation gets a policy of its own."""

    def changes(self, request: RequestView) -> Changes:
        """Return all changes of the prompt of a request. Called once for each request, in order."""
        ...


@dataclass(frozen=True)
class Published:
    """A context policy of another tool, with its source.

    `new` creates the policy with the defaults of its original. `source` names the repository or package, the file, the
    version and its date. `decides`, `defaults`, `left_out` and `idle` (when it does nothing) are sentences. `checked`
    names the original and its version whose recorded prompts a test compares with this policy's, request by request; ""
    if they cannot be compared, and then `unchecked` says why. A policy that `is_arrival` shortens results before the
    model has seen them.
    """

    name: str
    new: Callable[..., ContextPolicy]
    tool: str
    source: str
    decides: str
    defaults: str
    left_out: str
    idle: str
    checked: str = ""
    unchecked: str = ""
    is_arrival: bool = False
