"""Real assistants, their programs in a folder that ASSISTANTS names, and a session of forty tool calls for each.

    npm install --prefix FOLDER @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai \
        @earendil-works/pi-coding-agent node@24
    ASSISTANTS=FOLDER pytest tests/e2e

Each gets a home and a project of its own, and a clean environment. The model is the strict provider with a script.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strict_provider.exchange import Request
from strict_provider.scripts import Call, Turn
from strict_provider.seals import opened

ROOT = Path(__file__).parents[2]
CALLS = 40
SAFE_ZONE = 40_960
END = "All the notes are read."
TASK = "Read all the notes."
SEALED = ("signature", "encrypted_content", "thoughtSignature")
OPENCODE = {
    "provider": {
        "lab": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "none"},
            "models": {"m": {"name": "m", "limit": {"context": 400_000, "output": 8_000}}},
        }
    }
}
# Its own check for loops, after thirty turns, sends a history that begins with a call of the model's. The strict
# provider refuses that, with the proxy and without it.
GEMINI = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"disableLoopDetection": True}}


@dataclass(frozen=True)
class Assistant:
    """How an assistant works through the script.

    `name` is what `autoprune run` knows it by, `tool` writes a call of its shell, and `files` are in its home.
    `thoughts` are the turns of the script whose thinking it sends back.
    """

    name: str
    arguments: tuple[str, ...]
    tool: Callable[[str], Call]
    environ: Mapping[str, str]
    files: Mapping[str, Any] = field(default_factory=dict)
    thoughts: int = 32


def claude(model: str) -> Assistant:
    """Claude Code with a model."""
    arguments = ("-p", TASK, "--model", model, "--allowedTools", "Bash", "--output-format", "json")
    environ = {"ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return Assistant("claude", arguments, lambda line: Call("Bash", {"command": line, "description": "Read"}), environ)


CODEX = Assistant(
    "codex",
    ("exec", "-m", "gpt-5.1-codex", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
    lambda line: Call("exec_command", {"cmd": line}),
    {"CODEX_API_KEY": "none"},
)
GEMINI_CLI = Assistant(
    "gemini",
    ("-m", "gemini-3.1-pro-preview", "-p", TASK, "--yolo", "-o", "json"),
    lambda line: Call("run_shell_command", {"command": line, "description": "Read"}),
    {"GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
    {".gemini/settings.json": GEMINI},
    thoughts=CALLS,  # this model signs every turn
)
OPENCODE_RUN = Assistant(
    "opencode",
    ("run", "-m", "lab/m", "--format", "json", TASK),
    lambda line: Call("bash", {"command": line, "description": "Read"}),
    {"OPENCODE_DISABLE_MODELS_FETCH": "1"},
    {".config/opencode/opencode.json": OPENCODE},
    thoughts=0,  # Chat Completions have none
)

PI = Assistant(
    "pi",
    ("--provider", "anthropic", "--model", "claude-opus-4-5", "-p", TASK),
    lambda line: Call("bash", {"command": line}),
    {"ANTHROPIC_API_KEY": "none"},
)
PI_OPENAI = replace(
    PI,
    arguments=("--provider", "openai", "--model", "gpt-5.1-codex", "-p", TASK),
    environ={"OPENAI_API_KEY": "none"},
)


def script(assistant: Assistant) -> list[Turn]:
    """Forty turns with a call each, four in five of them with thinking, and the end."""
    turns = [
        Turn(
            text=f"I read note {number}." if number % 2 else "",
            calls=(assistant.tool(f"cat notes/{number:02}.txt && echo {number:02} >> done.txt"),),
            thinking=f"Note {number} comes next." if number % 5 else "",
        )
        for number in range(CALLS)
    ]
    return [*turns, Turn(END)]


def is_aside(request: Request) -> bool:
    """Whether a request is beside the conversation: those of the conversation have tools."""
    declares = (each.get("type") == "additional_tools" for each in request.body.get("input", ()))  # as pi does
    return not request.body.get("tools") and not any(declares)


def notes() -> dict[str, str]:
    """Forty notes of 7 to 10 kB, by their paths."""
    made = {}
    for number in range(CALLS):
        source = random.Random(number)
        lines = (
            f"{line:4}: value_{source.randint(0, 9_999)} = compute({source.randint(0, 99)})" for line in range(220)
        )
        made[f"notes/{number:02}.txt"] = "\n".join((f"Note {number:02}", *lines))
    return made


def project(folder: Path, assistant: Assistant, files: Mapping[str, str]) -> Path:
    """Make a project in a folder with some files in it, and the assistant's home beside it."""
    for name, text in files.items():
        file = folder / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for name, content in assistant.files.items():
        file = folder / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    return folder / "project"


def environment(folder: Path, assistant: Assistant, prefix: Path) -> dict[str, str]:
    """A clean environment: the assistants' programs, those of the system, and the home in a folder."""
    node = shutil.which("node") or "/usr/bin/node"
    places = (prefix / "node_modules" / ".bin", Path(node).parent, "/usr/local/bin", "/usr/bin", "/bin")
    (folder / "home").mkdir(exist_ok=True)
    own = {"PATH": os.pathsep.join(map(str, places)), "HOME": str(folder / "home"), "TERM": "dumb"}
    return {**own, "PYTHONPATH": str(ROOT), **assistant.environ}


def run(
    assistant: Assistant,
    folder: Path,
    prefix: Path,
    options: Sequence[str] | None,
    files: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Let an assistant do its work on some files, the notes by default, through `autoprune run` with these options.

    Without options (None) it runs by itself.
    """
    before = [] if options is None else [sys.executable, "-m", "autoprune", "run", *options]
    command = [*before, assistant.name, *assistant.arguments]
    return subprocess.run(
        command,
        cwd=project(folder, assistant, notes() if files is None else files),
        env=environment(folder, assistant, prefix),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def thoughts(value: Any) -> list[str]:
    """The sealed thoughts of the strict provider in a request, in their order."""
    match value:
        case dict():
            own = [value[name] for name in SEALED if opened(value.get(name)) is not None]
            return [*own, *(each for item in value.values() for each in thoughts(item))]
        case list():
            return [each for item in value for each in thoughts(item)]
    return []
