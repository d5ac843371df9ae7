"""Read a shell script without running it: its commands, its essence, and whether its exit code can be trusted.

`essence` and `abbreviate` name a script, `split_commands` and `command_words` take it apart, `is_read_only` tells
whether it only reads, and `hides_failures` whether it can fail and still exit with 0.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile

from autoprune.conversation.messages import one_line

LONGEST = 20_000  # characters of a script that are read

# What may stand around a command without changing its meaning: `cd /repo && … 2>&1`.
BEFORE = re.compile(
    r"(?:cd (?:\"[^\"]*\"|'[^']*'|[^ ;&|]+) ?(?:&&|;) ?|source \S+ ?(?:&&|;) ?|sudo (?!-)|time |timeout \S+ "
    r"|[A-Z_]+=[^ \"']* )"
)
AFTER = re.compile(r"(?: \d?>&?\d| 2>/dev/null| ?;| )\Z")
CUT_SHORT = re.compile(r"(?: \| (?:head|tail|cat|less)(?: -[\w=]+| \d+)*)+\Z")
REDIRECTED_ERRORS = re.compile(r" (?:2>&1|2>/dev/null)(?= \|)")
REDIRECTION = re.compile(r"(?:\d|&)?(?:>{1,2}|<{1,3})(?P<known>&\d|…)?")
VARIABLE = re.compile(r"\w+=.*", re.DOTALL)
# Words that run the program after them, some with options or a time of their own: `timeout -k 5 60 pytest`.
BEFORE_PROGRAM = frozenset(
    ("sudo", "time", "env", "timeout", "nice", "nohup", "command", "exec", "stdbuf", "xargs", "then", "do", "!")
)
RUNNER_OPTION = re.compile(r"-.*|\{\}|\d[\d.]*[smhd]?")
RUNNERS = (
    *(("mise", "exec", "--"), ("mise", "x", "--"), ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run")),
    *(("bundle", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("npm", "exec", "--"), ("npx",), ("bunx",)),
    *(("python", "-m"), ("python3", "-m")),
)
NEAR_END = 200  # characters
COMMENT = re.compile(r"^[ \t]*#[^\n]*\n", re.MULTILINE)
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
FOLDER = re.compile(r"\s*cd\s+(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s;&|]+))\s*(?:&&|;|\n)")
HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(?P<quote>[\"']?)(?P<end>[A-Za-z_]\w*)(?P=quote)")
HEREDOC_PLACE = re.compile(r"<<(\d{1,4})(?!\d)")  # in the commands that `split_heredocs` returns
REDIRECTED = re.compile(r"(?<![\d&>=-])>{1,2}\s*([^\s;&|<>()\"']+)|\btee\s+(?:-a\s+)?([^\s;&|<>()\"']+)")
# Programs that edit the files given to them, with the flag that makes them do so.
IN_PLACE = {
    **dict.fromkeys(("sed", "gsed"), re.compile(r"-[a-zA-Z]*i.*|--in-place.*")),
    **dict.fromkeys(("perl", "ruby"), re.compile(r"-[a-zA-Z0-9]*i\S*")),
    **dict.fromkeys(("gofmt", "goimports", "gofumpt", "prettier"), re.compile(r"-w|--write")),
    "yq": re.compile(r"-i|--inplace"),
}
READING = frozenset(("cat", "head", "tail", "nl", "less", "more", "bat"))
# Commands that only read: what they print matters, not that they ran.
READERS = READING | frozenset(
    (
        *("ls", "ll", "pwd", "find", "fd", "wc", "stat", "file", "which", "tree", "du", "df", "type", "test", "["),
        *("grep", "egrep", "rg", "ag", "jq", "yq", "sort", "uniq", "awk", "cut", "tr", "diff", "column"),
        *("env", "printenv", "whoami", "date", "ps", "uname", "id", "hostname", "lsof", "strings", "xxd"),
    )
)
# Commands of PowerShell and cmd.exe, in lower case, with the program above or below that does the same to files.
WINDOWS = {
    **dict.fromkeys(("get-content", "gc", "type"), "cat"),
    **dict.fromkeys(("select-string", "sls", "findstr", "where-object", "select-object"), "grep"),
    **dict.fromkeys(("get-childitem", "gci", "dir", "get-item", "get-location", "format-table"), "ls"),
    **dict.fromkeys(("measure-object", "sort-object", "test-path", "get-command", "get-date", "get-process"), "wc"),
    **dict.fromkeys(("set-content", "add-content", "out-file"), "truncate"),
    **dict.fromkeys(("write-output", "write-host", "set-location"), "echo"),
    **dict.fromkeys(("remove-item", "del"), "rm"),
    **dict.fromkeys(("move-item", "rename-item", "move"), "mv"),
    **dict.fromkeys(("copy-item", "copy"), "cp"),
    "new-item": "touch",
}
CMDLET = re.compile(
    r"(?:^|[|;&({=])\s*(?:get|set|add|remove|move|rename|copy|new|out|select)-(?:content|childitem|item|file|string)\b",
    re.IGNORECASE | re.MULTILINE,
)
HERE_STRING = re.compile(r"(?:^|[=(\s])@[\"']\Z")  # at the end of its first line
# The same for programs with subcommands; those of `gh` have two words, such as `gh pr view`.
READERS_BY = {
    "git": frozenset(
        (
            *("status", "diff", "log", "show", "branch", "blame", "grep", "rev-parse", "ls-files", "remote", "ls-tree"),
            *("ls-remote", "rev-list", "cat-file", "describe", "merge-base", "shortlog", "reflog", "for-each-ref"),
            *("check-ignore", "whatchanged", "name-rev", "count-objects"),
        )
    ),
    "gh": frozenset(("view", "list", "status", "checks", "diff")),
    "npm": frozenset(("view", "ls", "list", "outdated", "info", "whoami", "root", "access", "search")),
    "pip": frozenset(("show", "list", "freeze", "index")),
    "docker": frozenset(("ps", "logs", "images", "inspect")),
    "kubectl": frozenset(("get", "describe", "logs", "top")),
    "go": frozenset(("doc", "list", "env", "version")),
    "cargo": frozenset(("tree", "metadata", "search")),
    "brew": frozenset(("list", "info", "search")),
}
# Words with which `git branch` and `git remote` change something.
CHANGING_WORDS = {
    "branch": re.compile(r"-[dDmMcCfu]+|--(?:delete|move|copy|force|(?:un)?set-upstream).*"),
    "remote": re.compile(r"add|remove|rm|rename|prune|update|set-.*"),
}
EXECUTING = frozenset(("-exec", "-execdir", "-ok", "-okdir"))  # of `find`, before a command
# Subcommands of other programs that only read. Task runners are excluded: a project chooses the names of its tasks.
READING_WORDS = frozenset(
    ("status", "list", "ls", "show", "view", "describe", "logs", "info", "inspect", "capture", "list-windows")
)
RUNS_TASKS = frozenset(("make", "just", "task", "rake", "mise", "nx", "turbo", "gradle", "gradlew", "mvn", "tox"))
# Commands that print, prepare or close a script.
SILENT = frozenset(("echo", "printf", "cd", "pushd", "popd", "export", "set", "source", ".", "sleep", "true", ":"))
HELP = frozenset(("--help", "--version"))
WITH_VALUE = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--prefix", "--cwd", "-R", "--repo", "-n"))
# Options with which `curl` and `gh api` do more than read.
SENDS = re.compile(r"-(?:X|d|f|F|T)\b|--(?:request|data|form|upload|method|field|raw-field|input)")
# Quoted words, brackets, and the joints between two commands of a script.
JOINT = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|(?P<open>\()|(?P<close>\))|(?P<joint>&&|\|\||\|&?|;|\n)", re.DOTALL
)
SPLIT = re.compile(r"(?:\$\([^()]*\)|\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\]|[\"'\\])+", re.DOTALL)
QUOTED_OR_ESCAPED = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)
TRAILING_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
STATEMENT_ENDS = re.compile(r"[;\n]|(?<![&>|])&(?![&>])")  # the next command runs whatever the exit code
OR_ELSE = re.compile(r"\|\|\s*(\S*)")
PIPE = re.compile(r"(?<![|>])\|&?(?!\|)")
ERREXIT = re.compile(r"\bset -\w*e")
ANY_JOINT = re.compile(r"&&|\|\||[;\n|&]")
PROGRAM = re.compile(r"[A-Za-z][\w.+-]{0,30}")
BEFORE_NAME = re.compile(r"(?:(?:sudo|time|command|env|then|do|else|!|\(|\{|timeout \S+|\w+=\S*)\s+)+")
PRINTERS = frozenset(("echo", "printf", "yes", ":", "true"))  # they do not fail
SETUP = SILENT | {"yes", "unset", "wait", "exit"}  # their own failure does not matter
# Commands that print text from files, logs or pages. An error message in their output is not their own.
PRINTS_TEXTS = (READERS - {"test", "[", "uname", "id", "hostname", "lsof"}) | {
    *("sed", "tee", "xargs", "fold", "fgrep", "zgrep", "ack", "cmp", "history", "man", "journalctl", "dmesg"),
    *("curl", "wget"),
}
# The same for programs with subcommands.
PRINTS_TEXTS_BY = {
    "git": frozenset(("status", "diff", "log", "show", "branch", "blame", "grep", "ls-files", "remote", "cat-file")),
    "gh": frozenset(("api", "run", "pr", "issue", "search", "repo", "release")),
    "docker": frozenset(("logs", "ps", "images", "inspect")),
    "kubectl": frozenset(("logs", "get", "describe", "top")),
}


def essence(command: str) -> str:
    """Return the core of a script on one line, without `cd`, variables, redirections and echoes.

    Pipes stay, because the pipe determines the exit code. A commit keeps only the title of its message.
    """
    script = COMMENT.sub("", command[:LONGEST])
    if "commit" in script and "<<" in script:
        script, _, body = script.partition("<<")
        title = next((line for line in body.split("\n")[1:] if line.strip()), "")
        return " ".join(f"{_strip_ends(' '.join(script.split()))} <<… {title}".split())
    script, _ = split_heredocs(script)
    script = HEREDOC_PLACE.sub("<<…", script.replace("\\\n", " ")).strip()
    if "\n" in script:
        script = "; ".join(_join_lines(script))
    return _strip_ends(_without_echoes(" ".join(script.split())))


def _join_lines(script: str) -> Iterator[str]:
    """Yield the lines of a script, each joined with its continuation lines."""
    line = ""
    for joint, part in split_commands(script):
        if joint == "\n" and line.strip():
            yield line.strip()
            line = ""
        line += f" {joint.strip()} {part}"
    yield line.strip()


def _without_echoes(script: str) -> str:
    """Drop commands that only print or prepare, unless the script does nothing else."""
    parts = [(joint, part) for joint, part in split_commands(script) if part.strip()]
    joints_after = [*(joint for joint, _ in parts[1:]), ""]
    kept = [
        (joint, part)
        for (joint, part), after in zip(parts, joints_after, strict=False)
        if joint.startswith("|") or after.startswith("|") or not _is_setup(part)
    ]
    if not kept:
        return script
    shown = " ".join(f"{joint if at else ''} {part.strip()}" for at, (joint, part) in enumerate(kept))
    return shown.replace(" ;", ";").strip()


@lru_cache(maxsize=4_096)
def without_truncation(command: str) -> str:
    """Drop trailing pipes that only truncate the output, such as `| tail -20`."""
    return CUT_SHORT.sub("", command)


def _is_setup(part: str) -> bool:
    program = program_words(command_words(part))[:1]
    return not program or program[0] in SILENT


def abbreviate(command: str, most: int) -> str:
    """Shorten a script to one line of at most `most` characters. The last command, which says most, is kept."""
    if len(command) <= most:
        return command
    *before, (joint, last) = split_commands(command)
    if not before or len(last) > most // 2:
        return one_line(command, most)
    return f"{one_line(command, most - len(joint) - len(last) - 1)} {joint}{last}"


def _strip_ends(text: str) -> str:
    """Drop words around a command that do not change its meaning."""
    while (match := BEFORE.match(text)) and match.end() < len(text):
        text = text[match.end() :]
    text = " ".join(REDIRECTED_ERRORS.sub("", text).split())
    while (tail := AFTER.search(text, max(0, len(text) - NEAR_END))) and tail.start():
        text = text[: tail.start()]
    return text


def split_commands(script: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a script, each with the joint before it: "&&", "|", ";" and so on ("" for the first).

    Text in quotes or brackets is not split.
    """
    joint, start, depth = "", 0, 0
    for match in JOINT.finditer(script):
        depth = max(depth + (match["open"] is not None) - (match["close"] is not None), 0)
        if match["joint"] and not depth:
            yield joint, script[start : match.start()]
            joint, start = match["joint"], match.end()
    yield joint, script[start:]


def command_words(part: str) -> list[str]:
    """Return the words of one command, without quotes and redirections."""
    words: list[str] = []
    skips = False
    for match in SPLIT.finditer(part):
        word = match[0]
        redirection = None if skips else REDIRECTION.match(word)
        if not (skips or redirection):
            words.append(word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word)
        skips = bool(redirection and redirection.end() == len(word) and not redirection["known"])
    return words


def program_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command, beginning with its program.

    Variables and runners before the program (`sudo`, `timeout 60`, `uv run`) are left out.
    """
    left = [words[0].lstrip("({"), *words[1:]] if words else []
    while left:
        runner = next((prefix for prefix in RUNNERS if tuple(left[: len(prefix)]) == prefix), ())
        if not (runner or not left[0] or left[0] in BEFORE_PROGRAM or VARIABLE.fullmatch(left[0])):
            break
        options = left[0] in BEFORE_PROGRAM
        left = left[max(len(runner), 1) :]
        while options and left and RUNNER_OPTION.fullmatch(left[0]):
            left = left[1:]
    return left


@lru_cache(maxsize=1_024)
def is_read_only(command: str) -> bool:
    """Return whether a script only reads and lists."""
    script = command[:LONGEST].replace("/dev/null", "")
    if HEREDOC.search(script) or REDIRECTED.search(QUOTED.sub("''", script)):
        return False
    return all(is_read_only_command(command_words(part)) for _, part in split_commands(script.strip()) if part.strip())


def is_read_only_command(words: Sequence[str]) -> bool:
    """Return whether one command, given by its words, only reads or lists."""
    words = program_words(words)
    program = posix_name(words[0].rpartition("/")[2]) if words else ""
    if not program or program in SILENT or HELP.intersection(words):
        return True
    if program == "sed" or edits_in_place(words):
        return not edits_in_place(words)
    if program == "find":
        executed = (words[at + 1 :] for at, word in enumerate(words) if word in EXECUTING)
        return "-delete" not in words and all(map(is_read_only_command, executed))
    if program in READERS:
        return True
    if words[1:2] == ["api"] or program == "curl":
        return not any(SENDS.match(word) for word in words)
    if words[1:2] == ["config"]:
        return any(word.startswith("--get") or word in ("--list", "-l", "get", "list") for word in words[2:])
    readers = READERS_BY.get(program.rstrip("3"), frozenset() if program in RUNS_TASKS else READING_WORDS)
    subcommands = [word for before, word in pairwise(words) if word[:1] != "-" and before not in WITH_VALUE]
    if program == "git" and (changes := CHANGING_WORDS.get(subcommands[0] if subcommands else "")):
        return not any(map(changes.fullmatch, words[words.index(subcommands[0]) :]))
    return any(word in readers for word in subcommands[: 2 if program == "gh" else 1])


def posix_name(program: str) -> str:
    """Return the program that does the same to files as one of Windows; any other program itself."""
    return WINDOWS.get(program.lower(), program)


def as_posix(script: str) -> str:
    """Return a script of PowerShell with slashes in its paths and without its here-strings; any other script itself."""
    if not CMDLET.search(script):
        return script
    lines: list[str] = []
    end = ""
    for line in script.split("\n"):
        if end and not line.startswith(end):
            continue
        line = line.removeprefix(end).rstrip()
        end = f"{line[-1]}@" if HERE_STRING.search(line) else ""
        lines.append(line.removesuffix(end[::-1]))
    return "\n".join(lines).replace("\\", "/")


def start_folder(command: str) -> str:
    """Return the folder that a script changes to first; "" if it does not begin with `cd`."""
    match = FOLDER.match(command)
    return (match[1] or match[2] or match[3]) if match else ""


def split_heredocs(command: str) -> tuple[str, list[str]]:
    """Split a script into its commands, where `<<0` marks the place of the first heredoc, and the heredocs' bodies.

    An unclosed heredoc continues to the end, as in a shell.
    """
    script: list[str] = []
    bodies: list[str] = []
    lines = iter(command.split("\n"))
    for line in lines:
        match = HEREDOC.search(line)
        if match:
            line = f"{line[: match.start()]} <<{len(bodies)} {line[match.end() :]}"
            bodies.append(_read_body(lines, match["end"]))
        script.append(line)
    return "\n".join(script), bodies


def _read_body(lines: Iterator[str], end: str) -> str:
    return "\n".join(takewhile(lambda line: line.strip() != end, lines))


def edits_in_place(words: Sequence[str]) -> bool:
    """Return whether a command edits its files in place, as `sed -i` does."""
    flag = IN_PLACE.get(words[0])
    return bool(flag) and any(flag.fullmatch(word) for word in words[1:] if flag)


@lru_cache(maxsize=1_024)
def hides_failures(text: str) -> bool:
    """Return whether a script can fail and still exit with 0.

    The exit code is that of the last command: `pytest | tail`, `pytest || true` and `pytest; ls` exit with 0 whatever
    the tests say, unless the script asked for `pipefail` or `set -e`.
    """
    plain = _without_text(text)
    if OR_ELSE.search(plain):
        return True
    if "pipefail" not in plain and any(map(_hides_before_pipe, _split_at(STATEMENT_ENDS, plain))):
        return True
    if ERREXIT.search(plain):
        return False
    commands = _split_at(STATEMENT_ENDS, plain)
    before = commands if plain.rstrip().endswith("&") else commands[:-1]
    return any(_program_name(each) not in SETUP for each in before)


def _hides_before_pipe(line: str) -> bool:
    """Return whether a command before a pipe can fail unseen; `echo` and the like do not fail."""
    *before, _ = PIPE.split(line)
    return any(_program_name(each.rpartition("&&")[2].strip()) not in PRINTERS for each in before)


@lru_cache(maxsize=1_024)
def has_fallback(text: str) -> bool:
    """Return whether a script does something else if its first part fails, as in `a || b`."""
    return any(other not in (*PRINTERS, "exit", "") for other in OR_ELSE.findall(_without_text(text)))


@lru_cache(maxsize=1_024)
def only_prints_texts(text: str) -> bool:
    """Return whether a script only prints text that is not its own: files, logs, pages."""
    commands = _split_at(ANY_JOINT, _without_text(text).replace("2>&1", "").replace(">&2", ""))
    named = [(name, each) for each in commands if (name := posix_name(_program_name(each))) not in SETUP]
    return bool(named) and all(
        name in PRINTS_TEXTS or _subcommand(each) in PRINTS_TEXTS_BY.get(name, ()) for name, each in named
    )


@lru_cache(maxsize=1_024)
def program_names(text: str) -> tuple[str, ...]:
    """Return the programs that a script runs, each once, without programs that only print, prepare or exit."""
    names = map(_program_name, _split_at(ANY_JOINT, _without_text(text)))
    return tuple(dict.fromkeys(name for name in names if name not in SETUP and PROGRAM.fullmatch(name)))


def _without_text(text: str) -> str:
    """Drop the parts of a script that are only text: heredocs, quoted words, comments, line continuations."""
    script = HEREDOC_PLACE.sub("", split_heredocs(text[:LONGEST].replace("\\\n", " "))[0])
    return TRAILING_COMMENT.sub("", QUOTED_OR_ESCAPED.sub("''", script))


def _split_at(ends: re.Pattern[str], text: str) -> list[str]:
    """Split a script at a pattern; blank commands are dropped."""
    return [each.strip() for each in ends.split(text) if each.strip()]


def _words(each: str) -> list[str]:
    """Return the words of a command, beginning with its program. Quotes are not parsed."""
    text = f"{each.lstrip()} "
    before = BEFORE_NAME.match(text)
    return text[before.end() if before else 0 :].split()


def _program_name(each: str) -> str:
    words = _words(each)
    return words[0].rpartition("/")[2] if words else ""


def _subcommand(each: str) -> str:
    """Return the first word after the program that is not an option."""
    return next((word for word in _words(each)[1:] if word[:1] != "-"), "")
