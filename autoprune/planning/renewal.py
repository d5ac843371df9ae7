"""Parts of messages that were read again: the same places, with what stands there now. Decides nothing."""

from collections.abc import Mapping
from dataclasses import replace

from autoprune.conversation.transcript import Entry, Part, ToolResult


def as_now(old: ToolResult, known: Mapping[Part, Part]) -> ToolResult:
    """A result as it is after a message was read again; itself where it was not."""
    new = known.get(old, old)
    return new if isinstance(new, ToolResult) else old


def parts(entry: Entry) -> list[Part]:
    """What can be edited in a message: its results, and what its calls were given."""
    return [*entry.results, *(part for call in entry.calls for part in call.inputs)]


def with_requests(entry: Entry) -> Entry:
    """An entry that was read out of its place; what its calls were given belongs to their requests."""
    given = ((call, (replace(part, request=call.request) for part in call.inputs)) for call in entry.calls)
    return replace(entry, calls=tuple(replace(call, inputs=tuple(inputs)) for call, inputs in given))


def with_text(result: ToolResult, text: str, tokens: int) -> ToolResult:
    """A result with another payload, and the tokens of its piece with that."""
    return replace(result, piece=result.with_text(text), stop=result.start + len(text), piece_tokens=tokens)
