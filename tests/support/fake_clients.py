"""Assistants that are none: programs on the path, under the names of real ones, that ask a model."""

import os
import stat
import sys
from pathlib import Path

# It runs a model's commands, and reads it files: those that exist, or else a text. With --pause it waits for Ctrl-C in
# the midst of that.
PROGRAM = f"""#!{sys.executable}
import json, os, subprocess, sys, time, urllib.request

def ask(messages):
    body = {{"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages}}
    address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(address, json.dumps(body).encode(), {{"Content-Type": "application/json"}})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"]

def result(call):
    name, command = call["input"].get("path", ""), call["input"].get("command")
    if command:
        text = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    else:
        text = open(name).read() if os.path.exists(name) else "All is well, and nothing is new in this line.\\n" * 150
    return {{"type": "tool_result", "tool_use_id": call["id"], "content": text}}

messages, calls = [{{"role": "user", "content": "Read the logs."}}], []
while "--ask" in sys.argv and (calls or len(messages) == 1):
    content = ask(messages)
    calls = [block for block in content if block["type"] == "tool_use"]
    messages += [{{"role": "assistant", "content": content}}, {{"role": "user", "content": [*map(result, calls)]}}]
    if "--pause" in sys.argv and len(messages) == 11:
        try:
            print("I wait.", flush=True)
            time.sleep(10)
        except KeyboardInterrupt:
            print("I go on.")
print("arguments:", *sys.argv[1:])
sys.exit(int(os.environ.get("FAKE_EXIT", "0")))
"""

# Where each finds its base address, as the real one does, and what it asks below that.
ADDRESSES = {
    "claude": ("environ['ANTHROPIC_BASE_URL']", "/v1/messages"),
    "codex": ("argv[argv.index('-c') + 1].split('\"')[1]", "/responses"),
    "gemini": ("environ['GOOGLE_GEMINI_BASE_URL']", "/v1beta/models/gemini-2.5-pro:generateContent"),
    "opencode": (
        "json.loads(environ['OPENCODE_CONFIG_CONTENT'])['provider']['anthropic']['options']['baseURL']",
        "/messages",
    ),
    "qwen": ("environ['OPENAI_BASE_URL']", "/chat/completions"),
    "copilot": ("environ['COPILOT_PROVIDER_BASE_URL']", "/chat/completions"),
    "cline": (
        "json.load(open(environ['CLINE_PROVIDER_SETTINGS_PATH']))['providers']['openai-native']['settings']['baseUrl']",
        "/chat/completions",
    ),
    "pi": (
        """re.search('"anthropic".*"(http.*)"', open(argv[argv.index('--extension') + 1]).read())[1]""",
        "/v1/messages",
    ),
    "mini": ("environ['OPENAI_API_BASE']", "/chat/completions"),
}


def asking(name: str) -> str:
    """Return a program that asks one question in the way of a client, and says a version."""
    address, path = ADDRESSES[name]
    return f"""#!{sys.executable}
import http.client, json, re, sys
from os import environ
from sys import argv
from urllib.parse import urlsplit

if "--version" in argv:
    sys.exit(print("1.2.3"))
address, said = urlsplit({address}), [{{"role": "user", "content": "Hi."}}]
body = {{"model": "m", "messages": said, "input": said, "contents": [{{"role": "user", "parts": [{{"text": "Hi."}}]}}]}}
connection = http.client.HTTPConnection(address.netloc)
connection.request("POST", address.path + "{path}", json.dumps(body))
connection.getresponse().read()
"""


def install(folder: Path, program: str = PROGRAM, name: str = "claude") -> str:
    """Put a program into a folder under the name of a client, and return a PATH on which it is found."""
    file = folder / name
    file.write_text(program)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
