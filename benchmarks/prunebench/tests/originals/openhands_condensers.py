"""Record what three condensers of OpenHands send, through the code that builds its agent's prompts.

Needs Python 3.12, `pip install openhands-ai==0.62.0` (it is large; the imports below need only a part of its
dependencies), beside autoprune.

    python tests/originals/openhands_condensers.py
"""

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]

from litellm import ModelResponse  # noqa: E402
from openhands.core.config import AgentConfig  # noqa: E402
from openhands.core.message import Message  # noqa: E402
from openhands.events.action import Action, MessageAction  # noqa: E402
from openhands.events.action.mcp import MCPAction  # noqa: E402
from openhands.events.action.message import SystemMessageAction  # noqa: E402
from openhands.events.event import Event, EventSource  # noqa: E402
from openhands.events.observation.mcp import MCPObservation  # noqa: E402
from openhands.events.tool import ToolCallMetadata  # noqa: E402
from openhands.memory.condenser import condenser as condensers  # noqa: E402
from openhands.memory.condenser.impl import (  # noqa: E402
    AmortizedForgettingCondenser,
    ObservationMaskingCondenser,
    RecentEventsCondenser,
)
from openhands.memory.conversation_memory import ConversationMemory  # noqa: E402
from policy_originals import conversations, differences, request_starts, write_recording  # noqa: E402

UNKNOWN = "not recorded"  # the system prompt of most sessions


def events(messages: list[dict[str, Any]]) -> list[Event]:
    """Make the events of an agent that has sent these messages; the system prompt is always the first event."""
    made: list[Event] = []

    def add(event: Event, source: EventSource) -> None:
        event._source = source
        made.append(event)

    if messages[0]["role"] != "system":
        add(SystemMessageAction(content=UNKNOWN), EventSource.AGENT)
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    for at, message in enumerate(messages):
        if message["role"] == "system":
            add(SystemMessageAction(content=message["content"]), EventSource.AGENT)
        elif message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls")):
            source = EventSource.USER if message["role"] == "user" else EventSource.AGENT
            add(MessageAction(content=message["content"]), source)
        elif message["role"] == "assistant":
            response = ModelResponse(id=f"response_{at}", choices=[{"message": message}])
            for call in message["tool_calls"]:
                told = ToolCallMetadata(
                    function_name=call["function"]["name"],
                    tool_call_id=call["id"],
                    model_response=response,
                    total_calls_in_response=len(message["tool_calls"]),
                )
                action = MCPAction(name=told.function_name, arguments=json.loads(call["function"]["arguments"]))
                result = MCPObservation(content=results[call["id"]])
                action.tool_call_metadata = result.tool_call_metadata = told
                add(action, EventSource.AGENT)
                add(result, EventSource.ENVIRONMENT)
    return made


def plain(message: Message) -> dict[str, Any]:
    """Convert a message of OpenHands to Chat Completions form."""
    found: dict[str, Any] = {"role": message.role, "content": "".join(each.text for each in message.content)}
    if message.tool_calls:
        calls = ((each.id, each.function) for each in message.tool_calls)
        found["tool_calls"] = [
            {"id": known, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}
            for known, made in calls
        ]
    return {**found, "tool_call_id": message.tool_call_id} if message.role == "tool" else found


def prompts(condenser: Any, messages: list[dict[str, Any]], starts: tuple[int, ...]) -> list[list[Any]]:
    """Condense before each request, as the agent's step does; condensations become events of the history."""
    memory = ConversationMemory(AgentConfig(), MagicMock())
    history: list[Event] = []
    found, known = [], 0
    for start in starts:
        now = events(messages[:start])
        history += now[known:]
        known = len(now)
        number(history)
        view = condenser.condense(condensers.View.from_events(history))
        while isinstance(view, condensers.Condensation):
            history.append(view.action)
            number(history)
            view = condenser.condense(condensers.View.from_events(history))
        first = next(each for each in history if isinstance(each, MessageAction))
        sent = map(plain, memory.process_events(view.events, initial_user_action=first))
        found.append(
            differences(messages, [without_gap(each, messages) for each in sent if each["content"] != UNKNOWN])
        )
    return found


def without_gap(message: dict[str, Any], recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """Leave out the empty line before a recorded message of the user that follows another one; see `left_out`."""
    whole = {**message, "content": message["content"].removeprefix("\n\n")}
    return whole if message["role"] == "user" and whole in recorded else message


def number(history: list[Action]) -> None:
    """Give new events their ids."""
    for at, event in enumerate(history):
        event._id = at


def record(name: str, new: Any, original: str, **parameters: int) -> None:
    """Write the recording of a condenser."""
    sent = {
        key: prompts(new(), known.messages, request_starts(known))
        for key, known in conversations().items()
        if not key.endswith("with pauses") and known.messages[0]["role"] != "assistant"  # the user begins there
    }
    write_recording(name, f"openhands-ai 0.62.0, {original}", sent, **parameters)


if __name__ == "__main__":
    record("openhands_masking", lambda: ObservationMaskingCondenser(31), "attention_window=31", attention_window=31)
    record("openhands_recent", lambda: RecentEventsCondenser(1, 100), "keep_first=1, max_events=100")
    record("openhands_forgetting", lambda: AmortizedForgettingCondenser(40, 1), "max_size=40", max_size=40)
