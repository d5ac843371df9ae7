"""The tool loop with the plain clients, synchronous and asynchronous, as a user writes it without pruning."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import reading_loop

Messages = list[Any]
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@dataclass(frozen=True)
class Loop:
    """The loop over one API: its method, the other arguments of a request, and what an answer adds to the messages.

    `field` is where the messages go.
    """

    method: Callable[[Any], Callable[..., Any]]
    field: str
    request: dict[str, Any]
    added: Callable[[Any], Messages]

    def run(self, client: Any) -> Messages:
        messages = start()
        while is_asking(messages):
            messages += self.added(self.method(client)(**self.request, **{self.field: messages}))
        return messages

    async def run_async(self, client: Any) -> Messages:
        messages = start()
        while is_asking(messages):
            messages += self.added(await self.method(client)(**self.request, **{self.field: messages}))
        return messages


def start() -> Messages:
    return [{"role": "user", "content": reading_loop.TASK}]


def is_asking(messages: Messages) -> bool:
    """Whether the model must be asked again: the last message is not its own."""
    return messages[-1].get("role") != "assistant"


def is_kept(messages: Messages) -> bool:
    """Whether every result is in the caller's messages as the tool returned it."""
    texts = json.dumps(messages)
    return all(json.dumps(reading_loop.read_file(path)) in texts for path in reading_loop.PATHS)


def of_chat(answer: Any) -> Messages:
    message = answer.choices[0].message
    calls = message.tool_calls or ()
    results = [{"role": "tool", "tool_call_id": call.id, "content": _run(call.function.arguments)} for call in calls]
    return [message.model_dump(include={"role", "content", "tool_calls"}), *results]


def of_responses(answer: Any) -> Messages:
    calls = [item for item in answer.output if item.type == "function_call"]
    said = [item.model_dump(exclude_none=True, mode="json") for item in answer.output]
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": _run(call.arguments)} for call in calls
    ]
    return [*said, *results]


def of_messages(answer: Any) -> Messages:
    calls = [block for block in answer.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": reading_loop.read_file(**call.input)}
        for call in calls
    ]
    said = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}
    return [said, {"role": "user", "content": results}] if results else [said]


def _run(arguments: str) -> str:
    return reading_loop.read_file(**json.loads(arguments))


CHAT = Loop(
    lambda client: client.chat.completions.create,
    "messages",
    {
        "model": "gpt-4.1",
        "tools": [{"type": "function", "function": {"name": "read_file", "parameters": PARAMETERS}}],
    },
    of_chat,
)
RESPONSES = Loop(
    lambda client: client.responses.create,
    "input",
    {
        "model": "gpt-5.5",
        "tools": [{"type": "function", "name": "read_file", "parameters": PARAMETERS, "strict": False}],
    },
    of_responses,
)
MESSAGES = Loop(
    lambda client: client.messages.create,
    "messages",
    {
        "model": "claude-opus-4-8",
        "max_tokens": 1_000,
        "tools": [{"name": "read_file", "input_schema": PARAMETERS}],
    },
    of_messages,
)
LOOPS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
