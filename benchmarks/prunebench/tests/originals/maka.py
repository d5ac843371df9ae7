"""Record what maka sends: its archive of tool results, run by maka.mts.

Needs Node 20 with tsx (`npm install tsx`), and a checkout of github.com/maka-agent/maka-agent (recorded at f19eede):

    python tests/originals/maka.py maka-agent
"""

import json
import subprocess
import sys
import tempfile
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]

from policy_conversations import Conversation  # noqa: E402
from policy_originals import arguments, conversations, differences, request_starts, write_recording  # noqa: E402


def identifier(name: str) -> str:
    """Make the id that the policy makes; maka's are random."""
    return str(uuid5(NAMESPACE_URL, name))


def described(known: Conversation) -> dict[str, Any]:
    """Describe a conversation, with the turn of each message."""
    calls = [call for message in known.messages for call in message.get("tool_calls") or ()]
    turns = list(accumulate(message["role"] == "user" for message in known.messages))
    return {
        "messages": known.messages,
        "starts": request_starts(known),
        "turns": turns,
        "turnIds": [identifier(f"turn {turn}") for turn in range(turns[-1] + 1)],
        "eventIds": {call["id"]: identifier(f"event {call['id']}") for call in calls},
        "tools": {call["id"]: call["function"]["name"] for call in calls},
    }


def main(checkout: str) -> None:
    """Write the recording."""
    known = {name: each for name, each in conversations().items() if not name.endswith("with pauses")}
    told = {
        "sessionId": identifier("session"),
        "conversations": {name: described(each) for name, each in known.items()},
    }
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "conversations.json"
        given.write_text(json.dumps(told))
        script = Path(__file__).with_suffix(".mts")
        made = subprocess.run(
            ["npx", "tsx", str(script), str(Path(checkout).resolve()), str(given)], check=True, capture_output=True
        )
    prompts = json.loads(made.stdout)
    sent = {name: [differences(known[name].messages, each) for each in prompts[name]] for name in known}
    write_recording("maka_archive", "maka at f19eede", sent)


if __name__ == "__main__":
    main(*arguments())
