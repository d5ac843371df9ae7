"""What has gone before, as far as a format needs it to read the next message."""

from collections.abc import Mapping
from typing import Protocol

from autoprune.conversation.transcript import (
    Location,
    Path,
    ToolCall,
    ToolInput,
    ToolResult,
    as_text,
    new_call,
    new_location,
    new_result,
)
from autoprune.formats.payloads import Payload, as_json, written_json
from autoprune.formats.standing import Standing
from autoprune.tokens import Count

UNKNOWN = "unknown"  # the tool of a result that does not say which made it


class Dialogue(Protocol):
    """A conversation as far as it has been read: its counter, its requests, its open calls."""

    count: Count
    sent: int
    begins_run: bool  # whether the message being read is the first of the model's run
    wants_inputs: bool  # whether calls are to say where their arguments stand
    heading: tuple[Path, str] | None  # the block that a block of text before it is the heading of, and its tool
    standing: Standing  # whether texts can hold results here

    @property
    def request(self) -> int:
        """The request that the model answers, or has answered last."""

    def miss(self, what: str, why: str) -> None:
        """Note that something in the message being read looks like a result and was not taken, and why."""

    def is_tool_result(self, text: str) -> bool:
        """Whether a user's text can hold XML results."""

    def tool_name(self, tag: str) -> str:
        """The tool that a start tag names."""

    def answered(self, call_id: object) -> ToolCall | None:
        """The open call with an id; it is open no longer."""

    def answered_by_name(self, tool: str) -> ToolCall | None:
        """The first open call of a tool in the model's last run, whatever its id; it is open no longer."""

    def answered_in_text(self, tool: str) -> ToolCall | None:
        """The open call of a tool in the model's text; it is open no longer."""

    def next_in_text(self) -> ToolCall | None:
        """The first open call in the model's text, whatever its tool; it is open no longer."""


def native_call(
    dialogue: Dialogue, path: Path, call_id: object, tool: object, arguments: object, inside: Path
) -> ToolCall:
    """A call at `path`; its arguments stand below it at `inside`."""
    name = tool if isinstance(tool, str) else UNKNOWN
    inputs: tuple[ToolInput, ...] = ()
    if dialogue.wants_inputs and (found := _input(dialogue, (*path, *inside), name, arguments)):
        inputs = (found,)
    known_id = call_id if isinstance(call_id, str) else None
    return new_call(new_location(path), dialogue.request, known_id, name, arguments, inputs)


def _input(dialogue: Dialogue, path: Path, tool: str, arguments: object) -> ToolInput | None:
    """The arguments as a part: JSON text, a mapping, or the free text of a custom tool."""
    if not isinstance(arguments, str | Mapping):
        return None
    piece = arguments if isinstance(arguments, str) else written_json(arguments)
    return ToolInput(
        location=Location(path),
        request=dialogue.request,
        tool=tool,
        piece=piece,
        start=0,
        stop=len(piece),
        piece_tokens=dialogue.count(piece),
        count=dialogue.count,
        put=as_text if isinstance(arguments, str) else as_json,
        is_json=piece.lstrip()[:1] == "{",
    )


def native_result(
    dialogue: Dialogue,
    path: Path,
    payload: Payload,
    call: ToolCall | None,
    *,
    kind: str,
    tool: object = None,
    is_error: bool | None = None,
) -> ToolResult:
    """A result whose payload stands at `path`; `tool` is its name where no call says so."""
    name = tool if isinstance(tool, str) else UNKNOWN
    text, tokens, put, is_fixed, is_plain = payload
    return new_result(
        new_location(path),
        call.request if call else dialogue.request,
        call.name if call else name,
        text,
        0,
        len(text),
        tokens,
        dialogue.count,
        dialogue.sent,
        kind,
        is_error,
        call,
        put,
        is_fixed,
        is_plain,
    )
