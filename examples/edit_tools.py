"""Six tools for a coding agent in one folder: (folder, **arguments) -> text. Paths outside the folder are refused.

The model sees their signatures and docstrings. Commands run with your permissions: use a temporary folder.
"""

import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

COMMAND_SECONDS = 60
LAST_LINE = 1_000_000_000

Tool = Callable[..., str]


class ToolError(Exception):
    """A call failed. The first line says why; what follows is output."""


def list_files(folder: Path, path: str = ".") -> str:
    """List all files below a folder."""
    return "\n".join(_files(folder, path))


def read_file(folder: Path, path: str, start_line: int = 1, end_line: int = LAST_LINE) -> str:
    """Read a file, or some lines of it, the first one and the last one included."""
    lines = _text(folder, path).splitlines(keepends=True)
    return "".join(lines[max(start_line, 1) - 1 : end_line])


def search_files(folder: Path, path: str, regex: str) -> str:
    """Search a file, or all files below a folder, line by line, for a regular expression."""
    texts = {name: _text(folder, name, errors="replace") for name in _files(folder, path)}
    lines = ((name, number, line) for name, text in texts.items() for number, line in enumerate(text.splitlines(), 1))
    return "\n".join(f"{name}:{number}: {line}" for name, number, line in lines if re.search(regex, line))


def write_to_file(folder: Path, path: str, content: str) -> str:
    """Write a file, over what was there before."""
    file = _inside(folder, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode())
    return f"{len(content.splitlines())} lines written to {path}"


def replace_in_file(folder: Path, path: str, search: str, replace: str) -> str:
    """Replace a text that occurs exactly once in a file."""
    text = _text(folder, path)
    if (count := text.count(search)) != 1:
        raise ToolError(f"the text must occur once in {path}, it occurs {count} times")
    return write_to_file(folder, path, text.replace(search, replace))


def execute_command(folder: Path, command: str) -> str:
    """Run a shell command in the folder; standard output and errors come back in one text."""
    # A session of its own, so that a time-out also ends what the shell has started.
    process = subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=COMMAND_SECONDS)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise ToolError(f"stopped after {COMMAND_SECONDS} seconds") from None
    if process.returncode:
        raise ToolError(f"exit status {process.returncode}\n{output}")
    return output


TOOLS: dict[str, Tool] = {
    tool.__name__: tool
    for tool in (list_files, read_file, search_files, write_to_file, replace_in_file, execute_command)
}


def parameters(tool: Tool) -> dict[str, type]:
    """The arguments of a tool except the folder, with their types, str or int."""
    return {name: value.annotation for name, value in inspect.signature(tool).parameters.items() if name != "folder"}


def required(tool: Tool) -> list[str]:
    """The required parameters of a tool."""
    known = inspect.signature(tool).parameters
    return [name for name in parameters(tool) if known[name].default is inspect.Parameter.empty]


def _inside(folder: Path, path: str) -> Path:
    file = (folder / path.strip()).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ToolError(f"{path} lies outside the folder")
    return file


def _text(folder: Path, path: str, errors: str = "strict") -> str:
    file = _inside(folder, path)
    if not file.is_file():
        raise ToolError(f"there is no file {path}")
    return file.read_bytes().decode(errors=errors)


def _files(folder: Path, path: str) -> list[str]:
    """The file itself, or the files below a folder, sorted. Leaves out links, caches and hidden files."""
    root = _inside(folder, path)
    if not root.exists():
        raise ToolError(f"there is no file or folder {path}")
    found = [root] if root.is_file() else [file for file in root.rglob("*") if file.is_file() and not file.is_symlink()]
    names = (file.relative_to(folder.resolve()).as_posix() for file in found)
    return sorted(name for name in names if not re.search(r"(^|/)(\.|__pycache__/)", name))


def _environment() -> dict[str, str]:
    """The environment of a command: `python` is the interpreter of the agent, and the agent's API key is removed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    inherited = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    return {**inherited, "PATH": path, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
