"""An assistant that is none: a program on the path, under the name of a real one, that reads files through a model."""

import os
import stat
import sys
from pathlib import Path

PROGRAM = f"""#!{sys.executable}
import json, os, sys, urllib.request

def ask(messages):
    body = {{"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages}}
    address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(address, json.dumps(body).encode(), {{"Content-Type": "application/json"}})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"]

def result(call):
    text = "All is well, and nothing is new in this line.\\n" * 150
    return {{"type": "tool_result", "tool_use_id": call["id"], "content": text}}

messages, calls = [{{"role": "user", "content": "Read the logs."}}], []
while "--ask" in sys.argv and (calls or len(messages) == 1):
    content = ask(messages)
    calls = [block for block in content if block["type"] == "tool_use"]
    messages += [{{"role": "assistant", "content": content}}, {{"role": "user", "content": [*map(result, calls)]}}]
print("arguments:", *sys.argv[1:])
sys.exit(int(os.environ.get("FAKE_EXIT", "0")))
"""


def install(folder: Path, program: str = PROGRAM, name: str = "claude") -> str:
    """Put a program into a folder under the name of a client, and return a PATH on which it is found."""
    file = folder / name
    file.write_text(program)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
