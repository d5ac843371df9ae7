"""What a message says, for a reader who knows no wire format. Reads alone: changes nothing, counts nothing."""

from dataclasses import dataclass, field

from autoprune.transcript import Speaker, ToolCall, ToolResult


@dataclass(frozen=True)
class Utterance:
    """One message in plain words: who speaks, the words, the calls and the results.

    `words` are the texts of the message without its results, calls and thinking, blank-line separated; each image,
    audio, document or other medium is a line such as "[image]". Results know their call (`result.call`).
    """

    speaker: Speaker
    words: str
    calls: tuple[ToolCall, ...] = field(default=())
    results: tuple[ToolResult, ...] = field(default=())
