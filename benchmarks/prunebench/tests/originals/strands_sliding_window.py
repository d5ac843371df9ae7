"""Record what Strands' SlidingWindowConversationManager keeps.

    python -m venv original && original/bin/pip install strands-agents==1.62.0 && original/bin/pip install -e .
    PYTHONPATH=tests/support original/bin/python tests/originals/strands_sliding_window.py

As in `Agent`, the manager applies its window when an invocation has ended, before the next prompt of the user, which
may have several messages. It reduces the context when the provider reports an overflow; here that is more than WINDOW
tokens by autoprune's count.
"""

import json
from types import SimpleNamespace
from typing import Any

from autoprune.tokens import exact
from autoprune.wire import new_parser, parse
from policy_originals import WINDOW, Conversation, conversations, differences, request_starts, write_recording
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.hooks import BeforeModelCallEvent
from strands.types.exceptions import ContextWindowOverflowException


def add(history: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Add a message in Strands' form; the results of one answer are one message."""
    text = [{"text": message["content"]}] if message["content"] else []
    if message["role"] != "tool":
        calls = [
            {"toolUse": {"toolUseId": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}}
            for call in message.get("tool_calls") or ()
            for function in [call["function"]]
        ]
        history.append({"role": message["role"], "content": [*text, *calls]})
        return
    result = {"toolResult": {"toolUseId": message["tool_call_id"], "status": "success", "content": text}}
    if history[-1]["role"] == "user":
        history[-1]["content"].append(result)
    else:
        history.append({"role": "user", "content": [result]})


def chat_messages(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for message in history:
        text = "".join(block["text"] for block in message["content"] if "text" in block)
        results = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        made += [
            {
                "role": "tool",
                "tool_call_id": each["toolUseId"],
                "content": "".join(block["text"] for block in each["content"]),
            }
            for each in results
        ]
        if not results:
            asked = [
                {"id": call["toolUseId"], "function": {"name": call["name"], "arguments": json.dumps(call["input"])}}
                for call in calls
            ]
            made.append({"role": message["role"], "content": text, **({"tool_calls": asked} if asked else {})})
    return made


def is_prompt(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and not any("toolResult" in block for block in message["content"])


def replay(conversation: Conversation, **parameters: Any) -> list[list[Any]]:
    manager = SlidingWindowConversationManager(**parameters)
    agent: Any = SimpleNamespace(messages=[])
    system = [message for message in conversation.messages if message["role"] == "system"]
    known, found = len(system), []
    for start in request_starts(conversation):
        for message in conversation.messages[known:start]:
            is_next = bool(agent.messages) and not is_prompt(agent.messages[-1])
            if message["role"] == "user" and is_next:
                manager.apply_management(agent)
            add(agent.messages, message)
        known = start
        manager._on_before_model_call(BeforeModelCallEvent(agent=agent, invocation_state={}))
        reduce(manager, agent, system)
        found.append(differences(conversation.messages[:start], [*system, *chat_messages(agent.messages)]))
    return found


def reduce(manager: SlidingWindowConversationManager, agent: Any, system: list[dict[str, Any]]) -> None:
    while parse([*system, *chat_messages(agent.messages)], new_parser(exact()), 0).tokens - 3 > WINDOW:
        try:
            manager.reduce_context(agent, e=ContextWindowOverflowException())
        except ContextWindowOverflowException:
            return


def record(name: str, **parameters: Any) -> None:
    known = {key: replay(each, **parameters) for key, each in conversations().items()}
    write_recording(name, "strands-agents 1.62.0", known, **parameters)


if __name__ == "__main__":
    record("strands_sliding_window")
    record("strands_sliding_window.small", window_size=10)
    record("strands_sliding_window.turns", window_size=25, per_turn=3)
