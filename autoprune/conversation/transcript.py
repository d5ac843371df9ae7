"""A parsed conversation: results, calls, requests, tokens. Knows no format, changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from autoprune.conversation.folded_steps import FoldedSteps

Path = tuple[int | str, ...]  # indexes of lists and names of fields, from the conversation's root


class Speaker(StrEnum):
    """The sender of a message. The model's output begins a request; all other messages are the model's input."""

    SYSTEM = "system"
    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a conversation: the JSON path from the root and, inside a text, a slice of the string there."""

    path: Path
    start: int | None = None
    stop: int | None = None

    @property
    def message(self) -> int:
        """The index of the message."""
        return int(self.path[0])


class Label(str):
    """A text such as "[image]" in place of a block that holds more than words."""


def as_text(value: object, text: str) -> object:
    """Return `text` as the new payload, for payloads that are strings."""
    return text


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Part:
    """A part of the prompt that a text can replace. Its location is its identity, since call ids may be reused.

    `piece` is the counted string that contains the payload, from `start` to `stop`; the piece has `piece_tokens`
    tokens. For a payload of blocks, the piece is the text of the blocks, and the tokens count all blocks. `put` builds
    the payload with another text, keeping its shape. `is_fixed` marks a payload that no text can replace. A payload
    that is not `is_plain` holds more than text, such as an image; `value` is then the payload itself.
    """

    location: Location
    request: int
    tool: str
    piece: str = field(repr=False)
    start: int
    stop: int
    piece_tokens: int
    count: Callable[[str], int] = field(repr=False)
    put: Callable[[object, str], object] = field(default=as_text, repr=False)
    is_fixed: bool = False
    is_plain: bool = True
    value: object = field(default=None, repr=False)

    @property
    def tokens(self) -> int:
        """The tokens that the payload adds to the prompt."""
        is_whole = self.start == 0 and self.stop == len(self.piece)
        return self.piece_tokens - (0 if is_whole else self.count(self.with_text("")))

    @property
    def text(self) -> str:
        """The payload as the model reads it."""
        return self.piece[self.start : self.stop]

    def with_text(self, text: str) -> str:
        """Return the piece with another payload in it."""
        return self.piece[: self.start] + text + self.piece[self.stop :]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolInput(Part):
    """The input of a call: a JSON object of arguments (`is_json`), or one argument in the model's text."""

    is_json: bool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made in a request. `arguments` is a mapping, or JSON as the model wrote it.

    `inputs` are the parts of the prompt that hold the arguments, if the parser was asked for them. The result of a call
    that `is_programmatic` goes to the program that made the call, and never to the model.
    """

    location: Location
    request: int
    id: str | None
    name: str
    arguments: object
    inputs: tuple[ToolInput, ...] = ()
    is_programmatic: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolResult(Part):
    """The result of a call.

    `request` made the call; `sent` is the first request whose prompt holds the result. `kind` is the format or dialect
    of the result.
    """

    sent: int
    kind: str
    is_error: bool | None
    call: ToolCall | None


@dataclass(frozen=True, slots=True)
class Thought:
    """A block of thinking that the provider binds to the messages before it.

    `is_alone` says that its message holds only thinking. Such a block cannot be removed, since messages cannot be
    empty. `kind` is the block's format.
    """

    location: Location
    tokens: int
    is_alone: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One parsed message: its speaker, its tokens, the calls and results in it, and the model's thinking.

    `texts` are the words of the message: its texts without thinking, calls and results. `role` is the role of the
    message, which may be "user" if it holds results; items of the Responses API other than messages have none. `format`
    is the name of its format, and `message` the caller's message itself, which only the caller's own functions get.

    `begins_request` says that a request precedes the message: the message is the model's first one after others, or a
    later message with results in a conversation that begins with results.

    `compaction` is the summary by which the provider replaced all earlier messages, "" if only the provider can read
    it, and None if the message holds none. `loads_tools` says that the model can call some tools only while the
    messages include this one. `pairs` are ids that the message shares with the messages that it must stay with, besides
    those of calls and results. `is_replaced` says that the provider ignores the message, because of a later compaction.
    `asks_to_compact` says that the message asks the provider to compact the conversation, so all of it must be sent.
    `folded` are the blocks of steps in a message of the user that an earlier prune folded; `texts` leave them out.
    `has_others` says that the message has blocks besides texts, thinking, calls and results. `is_directive` says that
    it only sets options of the answers after it, such as the model's effort.
    """

    speaker: Speaker
    tokens: int
    results: tuple[ToolResult, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Thought, ...] = ()
    begins_request: bool = False
    texts: tuple[str, ...] = ()
    role: str | None = None
    format: str = ""
    message: object = field(default=None, repr=False, compare=False)
    compaction: str | None = None
    loads_tools: bool = False
    pairs: tuple[str, ...] = ()
    is_replaced: bool = False
    asks_to_compact: bool = False
    folded: tuple[FoldedSteps, ...] = ()
    has_others: bool = False
    is_directive: bool = False

    @property
    def is_users(self) -> bool:
        """Whether the message is the user's own, and holds no results and not only folded steps."""
        return self.speaker is Speaker.USER and not self.results and bool(self.texts or not self.folded)

    @property
    def skipped(self) -> int:
        """The number of requests whose answers the message replaces."""
        return sum(each.last - each.first + 1 for each in self.folded)


def newest_compaction(entries: Sequence[Entry]) -> int | None:
    """Return the index of the newest message whose compaction makes the provider ignore all earlier messages."""
    return next((at for at in range(len(entries) - 1, -1, -1) if entries[at].compaction), None)


def without_replaced(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries with nothing left in the messages that the provider ignores, which are not in the prompt."""
    start = newest_compaction(entries)
    return [*map(_emptied, entries[:start]), *entries[start:]] if start else entries


def _emptied(entry: Entry) -> Entry:
    return replace(entry, tokens=0, results=(), calls=(), thinking=(), loads_tools=False, pairs=(), is_replaced=True)


@dataclass(frozen=True)
class Transcript:
    """A parsed conversation. `fixed_tokens` are sent beside the messages: overhead, and tokens that prime the reply."""

    messages: Sequence[object] = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)
    fixed_tokens: int

    @cached_property
    def tokens(self) -> int:
        """The tokens of the next prompt, without any edit."""
        return self.fixed_tokens + sum(entry.tokens for entry in self.entries)

    @cached_property
    def results(self) -> tuple[ToolResult, ...]:
        """All tool results, oldest first."""
        return tuple(result for entry in self.entries for result in entry.results)

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """All tool calls, oldest first."""
        return tuple(call for entry in self.entries for call in entry.calls)

    @cached_property
    def requests(self) -> tuple[int, ...]:
        """The index of the message that each request precedes. The last item is the next request, at the end.

        Consecutive messages of the model belong to one request. Requests whose answers were folded precede the block.
        """
        counts = (int(entry.begins_request) + entry.skipped for entry in self.entries)
        starts = [at for at, count in enumerate(counts) for _ in range(count)]
        return (*starts, len(self.entries))

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """The turn number of each message, counted from 1; 0 before the user's first message.

        Messages with results do not start a turn.
        """
        turns, turn = [], 0
        for entry in self.entries:
            turn += entry.is_users
            turns.append(turn)
        return tuple(turns)
