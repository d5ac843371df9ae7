"""Record what an original that runs in Node sends.

    PYTHONPATH=tests/support python tests/originals/by_node.py DRIVER.mjs FOLDER

The driver reads {name: {"messages", "pauses", "starts", "kinds"}} from stdin and prints, last, {"original", "policies":
{name: {"parameters", "sent": {conversation: [changes of each request]}}}}. The changes of a request map the index of a
message to its new content, or to {"arguments": {call id: the new arguments}}. `kinds` say what each call does, by its
id: drivers rename the tools that policies recognize by kind, such as a shell, to those of the original.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from policy_conversations import Conversation
from policy_originals import arguments, conversations, differences, request_starts, write_recording

from prunebench.policies._tool_kinds import call_kind


def main(driver: str, folder: str) -> None:
    """Run a driver, and write the recordings of its policies."""
    known = conversations()
    given = {
        name: {"messages": each.messages, "pauses": each.pauses, "starts": request_starts(each), "kinds": kinds(each)}
        for name, each in known.items()
    }
    path = Path(__file__).parent / driver
    ran = subprocess.run(["node", path, folder], input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(ran.stdout.strip().rpartition("\n")[2])  # packages print too
    for policy, recorded in told["policies"].items():
        sent = {name: changed(known[name], requests) for name, requests in recorded["sent"].items()}
        write_recording(policy, told["original"], sent, **recorded["parameters"])


def kinds(known: Conversation) -> dict[str, str]:
    """Return the kind of each call, by its id."""
    calls = [call for message in known.messages for call in message.get("tool_calls") or ()]
    return {
        call["id"]: call_kind(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls
    }


def changed(known: Conversation, requests: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the differences of each request."""
    starts = request_starts(known)
    return [
        differences(known.messages, [apply(message, changes.get(str(at))) for at, message in enumerate(shown)])
        for changes, shown in zip(requests, (known.messages[:start] for start in starts), strict=True)
    ]


def apply(message: dict[str, Any], change: Any) -> dict[str, Any]:
    """Return a message with its changes."""
    if change is None:
        return message
    if isinstance(change, str):
        return {**message, "content": change}
    calls = []
    for call in message["tool_calls"]:
        arguments = change["arguments"].get(call["id"])
        function = call["function"] if arguments is None else {**call["function"], "arguments": json.dumps(arguments)}
        calls.append({**call, "function": function})
    return {**message, "tool_calls": calls}


if __name__ == "__main__":
    main(*arguments())
