"""The command line in a process of its own, with sessions to prune."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SESSIONS = Path(__file__).parents[2] / "fixtures" / "sessions"
XML = str(SESSIONS / "edit_loop_xml.json")
OPENAI = str(SESSIONS / "edit_loop_openai.jsonl")
READERS = Path(__file__).parents[2] / "fixtures" / "readers"
SENTENCE = "This message has been cleared."


def run(
    *arguments: str, stdin: bytes = b"", environ: Mapping[str, str | None] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command; `environ` are variables that it has besides, None for one that it has not."""
    known = {**os.environ, "COLUMNS": None, **(environ or {})}  # pytest-xdist gives its workers one of 80
    having = {name: value for name, value in known.items() if value is not None}
    command = [sys.executable, "-m", "autoprune", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env=having)


def number(lines: list[str]) -> int:
    """How many results lines stand for: each for one, or for as many as it says."""
    return sum(int(match[1]) if (match := re.search(r" ×(\d+) ", line)) else 1 for line in lines)
