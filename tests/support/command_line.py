"""The command line, with sessions to prune: in this process, which is fast, or in one of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner

from autoprune.apps.cli.command_table import app

SESSIONS = Path(__file__).parents[2] / "fixtures" / "sessions"
XML = str(SESSIONS / "edit_loop_xml.json")
OPENAI = str(SESSIONS / "edit_loop_openai.jsonl")
READERS = Path(__file__).parents[2] / "fixtures" / "readers"
SENTENCE = "This message has been cleared."


def run(
    *arguments: str, stdin: bytes = b"", environ: Mapping[str, str | None] | None = None, folder: Path | str = "."
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in this process; `environ` are variables that it has besides, None for one that it has not."""
    with chdir(folder):
        done = CliRunner().invoke(
            app, arguments, input=stdin, env=_besides(environ), catch_exceptions=False, prog_name="autoprune"
        )
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout_bytes, done.stderr_bytes)


def run_process(
    *arguments: str, stdin: bytes = b"", environ: Mapping[str, str | None] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does, in a process of its own."""
    having = {name: value for name, value in {**os.environ, **_besides(environ)}.items() if value is not None}
    command = [sys.executable, "-m", "autoprune", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, env=having)


def run_text(
    *arguments: str, environ: Mapping[str, str | None] | None = None, folder: Path | str = "."
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, and return what it prints as texts."""
    done = run(*arguments, environ=environ, folder=folder)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def _besides(environ: Mapping[str, str | None] | None) -> dict[str, str | None]:
    return {"COLUMNS": None, **(environ or {})}  # pytest-xdist gives its workers one of 80


def number(lines: list[str]) -> int:
    """How many results lines stand for: each for one, or for as many as it says."""
    return sum(int(match[1]) if (match := re.search(r" ×(\d+) ", line)) else 1 for line in lines)
