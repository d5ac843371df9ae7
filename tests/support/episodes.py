"""Small conversations as episodes, written by hand and counted in words: a message has its words and three more."""

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from autoprune.apps.replay.episode import Billing, Episode, answers_of
from autoprune.apps.replay.sizes import Sizes
from autoprune.conversation.transcript import Location, ToolCall
from autoprune.economics import Prices
from autoprune.wire import new_parser, parse

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "Fix it."}
DONE: Message = {"role": "assistant", "content": "Done."}


def in_words(text: str) -> int:
    """The words of a text, as its tokens."""
    return len(text.split())


def called(arguments: object, tool: str = "tool") -> ToolCall:
    """A call with these arguments."""
    return ToolCall(Location((0,)), 0, None, tool, arguments)


def call(id: str, arguments: object, tool: str = "tool", words: str | None = None) -> Message:
    """The model's message with one call; perhaps with words."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": tool, "arguments": text}
    return {
        "role": "assistant",
        "content": words,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def result(id: str, text: str) -> Message:
    """The message with a call's result."""
    return {"role": "tool", "tool_call_id": id, "content": text}


def reading(*texts: str, **last: object) -> list[Message]:
    """A conversation in which a result is read at each request; at the last one the model makes a call of its own."""
    messages = [USER]
    for number, text in enumerate(texts):
        messages += [call(f"c{number}", {}, "read"), result(f"c{number}", text)]
    return [*messages, call("end", last, "edit") if last else DONE]


def episode(
    messages: Sequence[Message], head: int = 0, pauses: Mapping[int, float] | None = None, safe_zone: int = 40_000
) -> Episode:
    """A conversation as it is replayed, of which the log records no usage."""
    known = list(messages)
    transcript = parse(known, new_parser(in_words), 0)
    requests = transcript.requests[:-1]
    billed = tuple(Billing(Prices(), answer) for answer in answers_of(transcript, requests, 1.0))
    sizes = Sizes(1.0, tuple(float(entry.tokens) for entry in transcript.entries), (float(head),) * len(requests))
    return Episode("small", known, transcript, requests, sizes, head, pauses or {}, safe_zone, billings=billed)


class Sends:
    """A pruner that sends what a function makes of what it is given; it counts its calls."""

    def __init__(self, makes: Any) -> None:
        self.makes = makes
        self.calls = 0

    def prune(self, given: list[Any], strategy: object = None, **told: object) -> SimpleNamespace:
        """The outcome as a pruner returns it."""
        self.calls += 1
        return SimpleNamespace(conversation=self.makes(given, self.calls))
