"""Recorded sessions as conversations over which a policy and its original are compared, in Chat Completions form.

    python tests/support/policy_sessions.py SESSION... > conversations.json

Calls in text become native calls, each call gets its own id, and calls without a result are left out. A system message
after the beginning becomes a message of the user, since most originals keep the system prompt apart. Images, thinking
and the mark of a failed call are not converted, since drivers convert texts.
"""

import json
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from autoprune.apps.policies import RequestView
from autoprune.apps.replay.episode import episode
from autoprune.apps.sessions import recordings
from autoprune.conversation.transcript import Location, Transcript
from autoprune.wire import new_parser, parse
from policy_conversations import Conversation

from prunebench.policies._chat import Chat, call_arguments

MOST_MESSAGES = 500


def recorded_conversations(file: Path) -> dict[str, Conversation]:
    """Convert the conversations in a session file that have calls, each up to its compaction."""
    text = file.read_text(encoding="utf-8", errors="replace")
    found = {}
    stretches = [each for conversation in recordings(text, file.name, skip_broken=True) for each in conversation]
    for number, recording in enumerate(stretches):
        played = episode(recording, file.name, len)
        known = to_chat(parse(played.messages, new_parser(len), 0), played.pauses)
        if any(message["role"] == "tool" for message in known.messages):
            found[f"{file.name}#{number}"] = known
    return found


def to_chat(transcript: Transcript, pauses: Mapping[int, float]) -> Conversation:
    """Convert the messages of a session."""
    view = RequestView(0, transcript.messages, transcript.entries, transcript.results, transcript.calls)
    answered = {result.call.location for result in transcript.results if result.call}
    numbers = count()
    ids: dict[Location, str] = {}
    messages: list[dict[str, Any]] = []
    starts: dict[int, int] = {}
    for said in Chat().before(view):
        starts.update(dict.fromkeys(said.at, len(messages)))
        if said.result:
            known = ids.get(said.result.call.location) if said.result.call else None
            messages.append(
                {"role": "tool", "tool_call_id": known, "content": said.result.text}
                if known
                else {"role": "user", "content": said.result.text}
            )
            continue
        calls = [call for at in said.at for call in transcript.entries[at].calls if call.location in answered]
        ids.update({call.location: f"call_{next(numbers)}" for call in calls})
        made = [
            {"id": ids[call.location], "type": "function", "function": {"name": call.name, "arguments": arguments}}
            for call in calls
            for value in [call_arguments(call)]
            for arguments in [json.dumps(value if isinstance(value, dict) else {"input": str(call.arguments)})]
        ]
        if said.text or made:
            role = "user" if said.role == "system" and messages else said.role
            messages.append({"role": role, "content": said.text, **({"tool_calls": made} if made else {})})
    messages = _whole(messages[:MOST_MESSAGES])
    return Conversation(messages, {starts[at]: pause for at, pause in pauses.items() if at in starts})


def _whole(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut the conversation before the first answer whose results are not all in it."""
    there = {message.get("tool_call_id") for message in messages}
    for at, message in enumerate(messages):
        if any(call["id"] not in there for call in message.get("tool_calls") or ()):
            return messages[:at]
    return messages


if __name__ == "__main__":
    converted = {name: known for file in sys.argv[1:] for name, known in recorded_conversations(Path(file)).items()}
    json.dump(
        {name: {"messages": each.messages, "pauses": each.pauses} for name, each in converted.items()}, sys.stdout
    )
