"""The code blocks of the README and of the pages in docs/, and how its commands are run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from command_line import run_text

ROOT = Path(__file__).parent.parent.parent


def blocks(page: str, language: str) -> list[str]:
    """Return the code of a language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def run_commands(page: str, folder: Path) -> list[str]:
    """Run the commands on a page one after the other in a folder, and return those that were run.

    Commands that set up an environment are not among them.
    """
    for name in ("fixtures", "examples"):
        (folder / name).symlink_to(ROOT / name)
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    commands = [line for line in lines if line.split(" ", 1)[0] in PROGRAMS]
    assert [line for line in lines if line not in commands and not line.startswith(tuple(NOT_RUN))] == []
    for command in commands:
        program, *arguments = shlex.split(command)
        done = PROGRAMS[program](*arguments, folder=folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout or done.stderr, command
    return commands


def bare_clone(folder: Path) -> Path:
    """Clone the repository with an environment whose package is the clone's.

    The dependencies are those of this environment, since `.ci/run` runs pip.
    """
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    packages = next((clone / ".venv").glob("lib/python*/site-packages"))
    (packages / "clone.pth").write_text(
        "\n".join(
            (
                str(clone),
                str(clone / "benchmarks" / "prunebench"),
                *(path for path in sys.path if "site-packages" in path),
            )
        )
    )
    command = clone / ".venv" / "bin" / "autoprune"
    code = "from autoprune.apps.cli import main\n\nif __name__ == '__main__':\n    main()\n"
    command.write_text(f"#!{command.with_name('python')}\n{code}")
    command.chmod(0o755)
    return clone


def run_in_clone(command: str, clone: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with a shell in a clone, with its environment, and with the folder that holds it as home folder."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ |= {"PATH": f"{clone / '.venv' / 'bin'}:{os.environ['PATH']}", "HOME": str(clone.parent)}
    return subprocess.run(["bash", "-c", command], cwd=clone, env=environ, capture_output=True, text=True, check=False)


def _python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, encoding="utf-8", check=False)


PROGRAMS = {"autoprune": run_text, "python": _python}
NOT_RUN = {  # beginnings of lines, and why this function does not run them
    ".venv/bin/pip install": "tests/test_readme.py runs what follows it in a clone",
    "python3 -m venv": "tests/test_readme.py runs what follows it in a clone",
}
