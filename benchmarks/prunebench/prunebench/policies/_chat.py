"""The recorded messages in the form in which agent frameworks hold them, for all formats.

A framework's message has one role. A recorded message with two results and a question becomes three messages here, and
the items of one answer of the model (a thought, two calls) become one:

    recorded   user [result, result, "And now?"]     model "I look."   model call   model call
    here       tool   tool   user                    model with two calls
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autoprune.apps.policies import RequestView
from autoprune.conversation.messages import fields_of, join_texts
from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult

ROLES: Mapping[Speaker, str] = {Speaker.SYSTEM: "system", Speaker.MODEL: "assistant", Speaker.TOOL: "tool"}


@dataclass(frozen=True, slots=True, eq=False)
class ChatMessage:
    """One message: its role, its text without results, and the native calls or the result in it.

    `at` are the indexes of the recorded messages. `calls` in the model's text are part of its text instead.
    """

    role: str
    text: str = field(repr=False)
    at: tuple[int, ...]
    calls: tuple[ToolCall, ...] = ()
    result: ToolResult | None = None


class Chat:
    """The messages of one conversation, which grows from request to request."""

    def __init__(self) -> None:
        """Start with an empty conversation."""
        self._messages: list[ChatMessage] = []
        self._read = 0

    def before(self, request: RequestView) -> Sequence[ChatMessage]:
        """Return the messages before a request."""
        for at in range(self._read, len(request.messages)):
            self._add(at, request.messages[at], request.entries[at])
        self._read = len(request.messages)
        return self._messages

    def _add(self, at: int, message: Any, entry: Entry) -> None:
        text = text_beside_results(message, entry)
        self._messages += [ChatMessage("tool", "", (at,), result=result) for result in entry.results]
        if entry.results and not text:
            return
        role = "user" if entry.results else ROLES.get(entry.speaker, "user")
        calls = tuple(call for call in entry.calls if call.location.start is None)
        last = self._messages[-1] if self._messages else None
        if last and role == last.role == "assistant":
            joined = "\n".join(filter(None, (last.text, text)))
            self._messages[-1] = replace(last, text=joined, at=(*last.at, at), calls=(*last.calls, *calls))
        else:
            self._messages.append(ChatMessage(role, text, (at,), calls))


def text_beside_results(message: object, entry: Entry) -> str:
    """Return the text of a message without the payloads of its results."""
    known = fields_of(message)
    content = known.get("content", known.get("parts"))
    text = content if isinstance(content, str) else join_texts(content) if isinstance(content, list | tuple) else ""
    for result in entry.results:
        # A native result is the whole content, or has a block of its own, which has no text.
        if result.location.start is not None or entry.speaker is Speaker.TOOL:
            text = text.replace(result.text, "", 1)
    return text


def call_arguments(call: ToolCall) -> Any:
    """Return the arguments of a call as a value; None if they are not JSON."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        return json.loads(call.arguments)
    except ValueError:
        return None


def chat_call(call: ToolCall, id: str) -> dict[str, Any]:
    """Return a call in Chat Completions form."""
    return {"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as text, which is JSON unless the model wrote anything else."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, default=str)
