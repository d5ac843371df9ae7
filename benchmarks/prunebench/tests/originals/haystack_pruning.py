"""Record what Haystack's CompactionHook with its ToolResultPruningCompactor sends.

    python -m venv original && original/bin/pip install haystack-ai==3.4.0 && original/bin/pip install -e .
    PYTHONPATH=tests/support original/bin/python tests/originals/haystack_pruning.py

The hook runs before each call of the model. As in `Agent`, `context_tokens` are those of the last prompt and reply as
the provider counts them, here by autoprune's count, and 0 at the start of each run, when the user writes.
"""

import json
from types import SimpleNamespace
from typing import Any

from autoprune.tokens import exact
from autoprune.wire import new_parser
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.hooks.compaction import CompactionHook, ToolResultPruningCompactor
from policy_originals import WINDOW, Conversation, conversations, differences, request_starts, write_recording


class State(SimpleNamespace):
    """The part of an agent's state that the hook needs."""

    def set(self, key: str, value: Any, handler_override: Any = None) -> None:
        self.data[key] = value


def to_haystack(message: dict[str, Any], calls: dict[str, ToolCall]) -> ChatMessage:
    if message["role"] == "tool":
        return ChatMessage.from_tool(message["content"], origin=calls[message["tool_call_id"]])
    if message["role"] != "assistant":
        return getattr(ChatMessage, f"from_{message['role']}")(message["content"])
    made = [
        ToolCall(each["function"]["name"], json.loads(each["function"]["arguments"]), id=each["id"])
        for each in message.get("tool_calls") or ()
    ]
    calls.update({each.id: each for each in made})
    return ChatMessage.from_assistant(message["content"] or None, tool_calls=made)


def from_haystack(message: ChatMessage) -> dict[str, Any]:
    if result := message.tool_call_result:
        return {"role": "tool", "tool_call_id": result.origin.id, "content": result.result}
    calls = [
        {"id": call.id, "function": {"name": call.tool_name, "arguments": json.dumps(call.arguments)}}
        for call in message.tool_calls
    ]
    return {"role": message.role.value, "content": message.text, **({"tool_calls": calls} if calls else {})}


def tokens(messages: list[dict[str, Any]]) -> int:
    return sum(new_parser(exact()).read(message, 0).tokens for message in messages)


def replay(conversation: Conversation, **parameters: Any) -> list[list[Any]]:
    sizes = {key: parameters[key] for key in ("compact_at", "compact_to") if key in parameters}
    limits = {key: parameters[key] for key in ("min_keep_steps", "min_tokens") if key in parameters}
    window = parameters.get("context_window", WINDOW)
    hook = CompactionHook(ToolResultPruningCompactor(**limits), context_window=window, **sizes)
    state = State(data={"messages": [], "context_tokens": 0})
    known, calls, prompt, found = 0, {}, 0, []
    for start in request_starts(conversation):
        for message in conversation.messages[known:start]:
            state.data["messages"].append(to_haystack(message, calls))
            if message["role"] == "assistant":
                state.data["context_tokens"] = prompt + tokens([message])
            elif message["role"] == "user":
                state.data["context_tokens"] = 0
        known = start
        hook.run(state)
        sent = [from_haystack(message) for message in state.data["messages"]]
        recorded = {str(message.get("tool_call_id")): message for message in conversation.messages}
        prompt = tokens([{**recorded[m["tool_call_id"]], **m} if "tool_call_id" in m else m for m in sent])
        found.append(differences(conversation.messages[:start], sent))
    return found


def record(name: str, **parameters: Any) -> None:
    known = {key: replay(each, **parameters) for key, each in conversations().items()}
    write_recording(name, "haystack-ai 3.4.0", known, **parameters)


if __name__ == "__main__":
    record("haystack_pruning")
    record("haystack_pruning.small", context_window=30_000, compact_to=0.5, min_keep_steps=3)
