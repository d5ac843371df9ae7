"""Record how Codex shortens outputs: its program, a scripted model, and commands that print our results.

    npm install --prefix FOLDER @openai/codex@0.169.0
    PYTHONPATH=tests/support python tests/originals/codex.py FOLDER

Each recorded result becomes the output of one `cat` by its tool exec_command. Codex writes some lines before an output,
such as the time that the command took; they are left out, since recorded results have those of their own agents.
"""

import json
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from policy_conversations import Conversation
from policy_originals import arguments, conversations, differences, request_starts, write_recording

VERSION = "0.169.0"
HEADING = "\nOutput:\n"


class Model(BaseHTTPRequestHandler):
    """A model that makes the scripted calls, one in each answer, and keeps the outputs that it is sent."""

    calls: list[dict[str, Any]]
    outputs: dict[str, str]

    def do_POST(self) -> None:
        """Answer with the first call whose output is not there."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for item in body["input"]:
            if item["type"] == "function_call_output":
                seen = self.outputs.setdefault(item["call_id"], item["output"])
                assert seen == item["output"], "an output was changed later"
        here = {item.get("call_id") for item in body["input"]}
        done = {
            "type": "message",
            "role": "assistant",
            "id": "msg",
            "content": [{"type": "output_text", "text": "Done."}],
        }
        item = next((call for call in self.calls if call["call_id"] not in here), done)
        usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
        events = [
            {"type": "response.created", "response": {"id": "resp"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp", "usage": usage}},
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def do_GET(self) -> None:
        """There is no list of models."""
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def outputs(known: Conversation, folder: str) -> dict[str, str]:
    """Let Codex run a command for each result, and return the outputs that it sends, by the ids of the calls."""
    with tempfile.TemporaryDirectory() as home:
        results = [message for message in known.messages if message["role"] == "tool"]
        calls = []
        for number, result in enumerate(results):
            (Path(home) / f"{number}.txt").write_text(result["content"])
            arguments = json.dumps({"cmd": f"cat {home}/{number}.txt"})
            call = {"type": "function_call", "name": "exec_command", "arguments": arguments}
            calls.append({**call, "id": f"fc_{number}", "call_id": result["tool_call_id"]})
        model = type("Scripted", (Model,), {"calls": calls, "outputs": {}})
        server = ThreadingHTTPServer(("127.0.0.1", 0), model)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run(folder, home, server.server_port)
        server.shutdown()
    return {known: text.partition(HEADING)[2] for known, text in model.outputs.items()}


def run(folder: str, home: str, port: int) -> None:
    """Run Codex with a provider on this machine."""
    provider = f'{{name="lab", base_url="http://127.0.0.1:{port}/v1", wire_api="responses"}}'
    command = [f"{folder}/node_modules/.bin/codex", "exec", "-m", "gpt-5.5", "--skip-git-repo-check"]
    command += ["--dangerously-bypass-approvals-and-sandbox", "-c", 'model_provider="lab"']
    command += ["-c", f"model_providers.lab={provider}", "Read the files."]
    environ = {"HOME": home, "CODEX_HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}
    subprocess.run(
        command, cwd=home, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=300
    )


def main(folder: str) -> None:
    """Record all conversations."""
    sent = {}
    for name, known in conversations().items():
        shown = outputs(known, folder)
        changed = [
            {**message, "content": shown[message["tool_call_id"]]} if message["role"] == "tool" else message
            for message in known.messages
        ]
        sent[name] = [differences(known.messages, changed[:start]) for start in request_starts(known)]
    write_recording("codex_truncation", f"@openai/codex {VERSION}", sent)


if __name__ == "__main__":
    main(*arguments())
