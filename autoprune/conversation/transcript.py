"""A conversation as pruning sees it: results, calls, requests, tokens. Holds no format, changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

Path = tuple[int | str, ...]


class Speaker(StrEnum):
    """Who a message comes from. What the model produced begins a request; the rest is what it is given."""

    SYSTEM = "system"
    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Location:
    """A place: the JSON path from the conversation's root, and inside a text also a slice of the string there."""

    path: Path
    start: int | None = None
    stop: int | None = None

    @property
    def message(self) -> int:
        """Return the index of the message."""
        return int(self.path[0])


def as_text(value: object, text: str) -> object:
    """Return the text itself: it takes the place of a payload that is a string."""
    return text


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Part:
    """A part of the prompt that a text can stand in for. Its identity is its place: call ids are reused in the wild.

    `piece` is the counted string that the payload stands in, from `start` to `stop`; its tokens are `piece_tokens`. Of
    a payload of blocks the piece is their text, and the tokens count all of them. `put` makes the payload with a text
    in it, in the shape that it had; `is_fixed` marks a payload that no text can stand in for, and one that is not
    `is_plain` holds more than the text: an image, say.
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

    @property
    def tokens(self) -> int:
        """Return the tokens that the payload adds to the prompt."""
        is_whole = self.start == 0 and self.stop == len(self.piece)
        return self.piece_tokens - (0 if is_whole else self.count(self.with_text("")))

    @property
    def text(self) -> str:
        """Return the payload as the model reads it."""
        return self.piece[self.start : self.stop]

    def with_text(self, text: str) -> str:
        """Return the piece with another payload in it."""
        return self.piece[: self.start] + text + self.piece[self.stop :]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolInput(Part):
    """The input of a call: a JSON object of arguments (`is_json`), or one argument as it stands in the model's text."""

    is_json: bool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made in a request. `arguments` is a mapping, or JSON as the model wrote it.

    `inputs` are the parts of the prompt that hold the arguments, where the parser was asked for them.
    """

    location: Location
    request: int
    id: str | None
    name: str
    arguments: object
    inputs: tuple[ToolInput, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolResult(Part):
    """The result of a call.

    `request` made the call; `sent` is the first request whose prompt holds the result. `kind` is the format or dialect
    that it is written in.
    """

    sent: int
    kind: str
    is_error: bool | None
    call: ToolCall | None


@dataclass(frozen=True, slots=True)
class Thought:
    """A block of the model's thinking that is bound to what precedes it; `is_alone` where its message holds no other.

    Messages cannot be empty, so one that is alone cannot be taken out. `kind` is the format that it is written in.
    """

    location: Location
    tokens: int
    is_alone: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message: who speaks, its tokens, the calls and results in it, and the model's thinking.

    `begins_request` says that a request stands before it though it is not the model's, as where a conversation begins
    with results. `words` is its format's own way to read its texts for a summarizer, where the format has one.
    """

    speaker: Speaker
    tokens: int
    results: tuple[ToolResult, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[Thought, ...] = ()
    begins_request: bool = False
    words: "Words | None" = field(default=None, repr=False)


Words: TypeAlias = Callable[[Any, Entry], Sequence[str]]  # reads the texts of a message that was read to an entry


@dataclass(frozen=True)
class Transcript:
    """A parsed conversation. `fixed_tokens` are sent beside the messages: overhead, and what primes the reply."""

    messages: Sequence[object] = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)
    fixed_tokens: int

    @cached_property
    def tokens(self) -> int:
        """Return the tokens of the next prompt, without any edit."""
        return self.fixed_tokens + sum(entry.tokens for entry in self.entries)

    @cached_property
    def results(self) -> tuple[ToolResult, ...]:
        """Return every tool result, oldest first."""
        return tuple(result for entry in self.entries for result in entry.results)

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return every tool call, oldest first."""
        return tuple(call for entry in self.entries for call in entry.calls)

    @cached_property
    def requests(self) -> tuple[int, ...]:
        """Return the index of the message before which each request stands; the next request stands at the end."""
        model = [entry.speaker is Speaker.MODEL for entry in self.entries]
        starts = [
            at
            for at, is_model in enumerate(model)
            if (is_model and not (at and model[at - 1])) or self.entries[at].begins_request
        ]
        return (*starts, len(self.entries))

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """Return the user's turn of each message, from 1; 0 before the first. Results begin no turn."""
        turns, turn = [], 0
        for entry in self.entries:
            turn += entry.speaker is Speaker.USER and not entry.results
            turns.append(turn)
        return tuple(turns)
