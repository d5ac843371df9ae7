"""The shell command that a call runs, and how far its exit code tells how it went. Runs nothing."""

import re
from functools import lru_cache

from autoprune.conversation.transcript import ToolCall
from autoprune.facts.calls import arguments

COMMANDS = ("command", "cmd", "commands", "script")  # arguments that hold a shell's command
SHELLS = frozenset(("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "-c", "-lc", "-l"))
LONGEST = 20_000  # characters of a command that are looked at
# Arguments that name a command which was started before: Codex; Claude Code; Copilot CLI.
SESSIONS = ("session_id", "bash_id", "shell_id", "task_id", "shellId")
STILL_RUNNING = "still running as"  # what digests say of a command that has not ended, before what it is known by

# One that is not closed goes on to the end, as in a shell.
HEREDOC = re.compile(
    r"<<-?[ \t]*([\"']?)(\w+)\1([^\n]*)(?:\n[ \t]*\2(?=\W|\Z)|\n.*?(?:\n[ \t]*\2(?=\W|\Z)|\Z))", re.DOTALL
)
QUOTED = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)
COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
ENDS = re.compile(r"[;\n]|(?<![&>|])&(?![&>])")  # of commands that do not wait for each other's success
OR = re.compile(r"\|\|\s*(\S*)")
PIPE = re.compile(r"(?<![|>])\|&?(?!\|)")
ERREXIT = re.compile(r"\bset -\w*e")
ANY = re.compile(r"&&|\|\||[;\n|&]")
PROGRAM = re.compile(r"[A-Za-z][\w.+-]{0,30}")
BEFORE = re.compile(r"(?:(?:sudo|time|command|env|then|do|else|!|\(|\{|timeout \S+|\w+=\S*)\s+)+")

PRINTING = frozenset(("echo", "printf", "yes", ":", "true"))
# What prepares or closes a script, and whose own failure does not matter.
AROUND = PRINTING | frozenset(("cd", "pushd", "popd", "export", "set", "source", ".", "unset", "sleep", "wait", "exit"))
# Commands whose output is somebody's text: lines of files, logs, pages. An error message in it is not theirs.
SHOWING = frozenset(
    (
        *("cat", "head", "tail", "nl", "less", "more", "bat", "sed", "awk", "cut", "tr", "tee", "xargs", "fold"),
        *("ls", "ll", "pwd", "find", "fd", "tree", "du", "df", "stat", "file", "which", "type", "wc", "sort", "uniq"),
        *("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "jq", "yq", "diff", "cmp", "strings", "xxd", "column"),
        *("env", "printenv", "whoami", "date", "ps", "history", "man", "journalctl", "dmesg", "curl", "wget"),
    )
)
# The same of programs with many commands.
SHOWN_BY = {
    "git": frozenset(("status", "diff", "log", "show", "branch", "blame", "grep", "ls-files", "remote", "cat-file")),
    "gh": frozenset(("api", "run", "pr", "issue", "search", "repo", "release")),
    "docker": frozenset(("logs", "ps", "images", "inspect")),
    "kubectl": frozenset(("logs", "get", "describe", "top")),
}


def command(call: ToolCall | None) -> str:
    """Return the shell command that a call runs; "" where it runs none."""
    known = arguments(call) if call else {}
    if any(name in known for name in ("path", "file_path", "file_text")):
        return ""
    found = next((value for name in COMMANDS if (value := known.get(name))), "")
    if isinstance(found, list | tuple):
        found = "\n".join(word for word in found if isinstance(word, str) and word not in SHELLS)
    return found if isinstance(found, str) else ""


def continues(call: ToolCall | None) -> str:
    """Return what the command is known by whose output a call waits for; "" for any other call."""
    known = arguments(call) if call else {}
    found = next((value for name in SESSIONS if (value := known.get(name)) is not None), "")
    return str(found) if isinstance(found, str | int) else ""


@lru_cache(maxsize=1_024)
def hides_failures(text: str) -> bool:
    """Return whether a command can fail and still exit with 0.

    The exit code is that of the last command: `pytest | tail`, `pytest || true` and `pytest; ls` exit with 0 whatever
    the tests say, unless the script asked for `pipefail` or `set -e`.
    """
    plain = _plain(text)
    if OR.search(plain):
        return True
    if "pipefail" not in plain and any(map(_is_hidden, _split(ENDS, plain))):
        return True
    if ERREXIT.search(plain):
        return False
    commands = _split(ENDS, plain)
    before = commands if plain.rstrip().endswith("&") else commands[:-1]
    return any(_program(each) not in AROUND for each in before)


def _is_hidden(line: str) -> bool:
    """Return whether what stands before a pipe can fail unseen; what only prints does not fail."""
    *before, _ = PIPE.split(line)
    return any(_program(each.rpartition("&&")[2].strip()) not in PRINTING for each in before)


@lru_cache(maxsize=1_024)
def has_other_way(text: str) -> bool:
    """Return whether a command does something else where its first part fails, so that a failure may be made up for."""
    return any(other not in (*PRINTING, "exit", "") for other in OR.findall(_plain(text)))


@lru_cache(maxsize=1_024)
def shows(text: str) -> bool:
    """Return whether a command does nothing but show texts: files, logs, pages."""
    commands = _split(ANY, _plain(text).replace("2>&1", "").replace(">&2", ""))
    named = [(name, each) for each in commands if (name := _program(each)) not in AROUND]
    return bool(named) and all(name in SHOWING or _second(each) in SHOWN_BY.get(name, ()) for name, each in named)


@lru_cache(maxsize=1_024)
def programs(text: str) -> tuple[str, ...]:
    """Return the names of the programs that a script runs, each once, without those that prepare or close it."""
    found = map(_program, _split(ANY, _plain(text)))
    return tuple(dict.fromkeys(name for name in found if name not in AROUND and PROGRAM.fullmatch(name)))


def _plain(text: str) -> str:
    """Return a script without what is only text in it: here-documents, quoted words, comments, broken lines."""
    script = HEREDOC.sub(r"\3", text[:LONGEST].replace("\\\n", " "))
    return COMMENT.sub("", QUOTED.sub("''", script))


def _split(ends: re.Pattern[str], text: str) -> list[str]:
    """Return the commands of a script, which end as a pattern says."""
    return [each.strip() for each in ends.split(text) if each.strip()]


def _program(each: str) -> str:
    """Return the program that a command of a script runs."""
    words = BEFORE.sub("", f"{each} ", count=1).split()
    return words[0].rpartition("/")[2] if words else ""


def _second(each: str) -> str:
    """Return the subcommand of a program: its first word that is no option."""
    words = BEFORE.sub("", f"{each} ", count=1).split()[1:]
    return next((word for word in words if word[:1] != "-"), "")
