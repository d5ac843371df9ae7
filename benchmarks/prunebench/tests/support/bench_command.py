"""The command `prunebench`: in this process, which is fast, or in one of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner

from prunebench.command import app


def run_text(
    *arguments: str, environ: Mapping[str, str] | None = None, folder: Path | str = "."
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process; `environ` are variables that it has besides."""
    having: dict[str, str | None] = {"COLUMNS": None, **(environ or {})}
    with chdir(folder):
        done = CliRunner().invoke(
            app, ("bench", *arguments), env=having, catch_exceptions=False, prog_name="prunebench"
        )
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def run_process(*arguments: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "prunebench", *arguments]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **environ})
