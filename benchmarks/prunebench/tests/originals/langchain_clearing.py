"""Record what LangChain's ContextEditingMiddleware sends.

    python -m venv original && original/bin/pip install langchain==1.4.7 && original/bin/pip install -e .
    PYTHONPATH=tests/support original/bin/python tests/originals/langchain_clearing.py

The system prompt is passed apart from the messages, and results carry their tools' names, as in `create_agent`.
"""

import json
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from policy_originals import conversations, differences, request_starts, write_recording


def to_langchain(messages: list[dict[str, Any]]) -> list[AnyMessage]:
    names: dict[str, str] = {}
    made: list[AnyMessage] = []
    for message in messages:
        content = message["content"] or ""
        if message["role"] == "user":
            made.append(HumanMessage(content))
        elif message["role"] == "assistant":
            calls = [(each["id"], each["function"]) for each in message.get("tool_calls") or ()]
            names |= {known: function["name"] for known, function in calls}
            made.append(
                AIMessage(
                    content,
                    tool_calls=[
                        {"name": function["name"], "args": json.loads(function["arguments"]), "id": known}
                        for known, function in calls
                    ],
                )
            )
        elif message["role"] == "tool":
            known = message["tool_call_id"]
            made.append(ToolMessage(content, tool_call_id=known, name=names[known]))
    return made


def from_langchain(message: AnyMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not isinstance(message, AIMessage):
        return {"role": "user", "content": message.content}
    calls = [
        {"id": call["id"], "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})}


def sent(middleware: ContextEditingMiddleware[Any, Any], messages: list[dict[str, Any]]) -> list[Any]:
    """Let the middleware edit the messages before a request; the model is never called."""
    system = [message for message in messages if message["role"] == "system"]
    edited: list[AnyMessage] = []

    def model(request: ModelRequest) -> AIMessage:
        edited.extend(request.messages)
        return AIMessage("")

    request = ModelRequest(
        model=None,  # type: ignore[arg-type]
        messages=to_langchain(messages),
        system_message=SystemMessage(system[0]["content"]) if system else None,
    )
    middleware.wrap_model_call(request, model)
    return differences(messages, [*system, *map(from_langchain, edited)])


def record(name: str, **parameters: Any) -> None:
    known = {}
    for key, conversation in conversations().items():
        middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(**parameters)])
        known[key] = [sent(middleware, conversation.messages[:start]) for start in request_starts(conversation)]
    write_recording(name, "langchain 1.4.7", known, **parameters)


if __name__ == "__main__":
    record("langchain_clear_tool_uses")
    record(
        "langchain_clear_tool_uses.inputs",
        trigger=9_000,
        clear_at_least=20_000,
        keep=5,
        clear_tool_inputs=True,
        exclude_tools=["grep"],
    )
