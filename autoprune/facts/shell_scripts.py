"""Read a shell command: which files it reads or changes, whether it only looks, and what it is about."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from autoprune.facts.utterances import one_line

LONGEST = 20_000  # characters of a command that are looked at
LONGEST_WORD = 200
# Words before and behind a command that do not change what it is about.
BEFORE = re.compile(
    r"(?:cd (?:\"[^\"]*\"|'[^']*'|[^ ;&|]+) ?(?:&&|;) ?|source \S+ ?(?:&&|;) ?|sudo |time |timeout \S+ "
    r"|[A-Z_]+=[^ \"']* )"
)
AFTER = re.compile(r"(?: \d?>&?\d| 2>/dev/null| ?;| )\Z")
CUT_SHORT = re.compile(r"(?: \| (?:head|tail|cat|less)(?: -[\w=]+| \d+)*)+\Z")
UNSEEN = re.compile(r" (?:2>&1|2>/dev/null)(?= \|)")
REDIRECTION = re.compile(r"(?:\d|&)?(?:>{1,2}|<{1,3})(?P<known>&\d|…)?")
VARIABLE = re.compile(r"\w+=.*", re.DOTALL)
# Words before a program that run it: some with options, a time, or a word of their own.
BEFORE_PROGRAM = frozenset(
    ("sudo", "time", "env", "timeout", "nice", "nohup", "command", "exec", "stdbuf", "then", "do", "!")
)
OF_PROGRAM = re.compile(r"-.*|\d[\d.]*[smhd]?")
RUNNERS = (
    *(("mise", "exec", "--"), ("mise", "x", "--"), ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run")),
    *(("bundle", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("npm", "exec", "--"), ("npx",), ("bunx",)),
    *(("python", "-m"), ("python3", "-m")),
)
NEAR_END = 200  # characters
PART = re.compile(r"&&|\|\||[;\n|]")
COMMENT = re.compile(r"^[ \t]*#[^\n]*\n", re.MULTILINE)
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
WORD = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s\"']+)")
PATH = re.compile(r"[\w@+.~/\[\]-]+")
NAME_OF_FILE = re.compile(r"[\w@+\[\]-][\w@+.\[\]-]*\.[A-Za-z][A-Za-z0-9]{0,9}")
SCRIPT = re.compile(r"s/.*|/.*/[dp]")  # of sed
FOLDER = re.compile(r"\s*cd\s+(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s;&|]+))\s*(?:&&|;|\n)")
HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
REDIRECTED = re.compile(r"(?<![\d&>=-])>{1,2}\s*([^\s;&|<>()\"']+)|\btee\s+(?:-a\s+)?([^\s;&|<>()\"']+)")
# Programs that change the files that they are given, with the flag that makes them do so.
IN_PLACE = {
    **dict.fromkeys(("sed", "gsed"), re.compile(r"-[a-zA-Z]*i.*|--in-place.*")),
    **dict.fromkeys(("perl", "ruby"), re.compile(r"-[a-zA-Z0-9]*i\S*")),
    **dict.fromkeys(("gofmt", "goimports", "gofumpt", "prettier"), re.compile(r"-w|--write")),
}
GIT_DOES = {"rm": "deleted", "mv": "moved", "restore": "restored"}
# Python that writes files: open("a", "w"), Path("a").write_text(…), p = Path("a") with p.write_text(…).
ASSIGNED = re.compile(
    r"^[ \t]*(\w+)\s*=\s*(?:(?:pathlib\.)?Path\(\s*)?([\"'])([^\"'\n]{1,200})\2\s*\)?[ \t]*;?[ \t]*$", re.MULTILINE
)
PYTHON_WRITES = re.compile(
    r"\bopen\(\s*(?:[\"'](?P<opened>[^\"'\n]{1,200})[\"']|(?P<name>\w+))\s*,\s*(?:mode\s*=\s*)?[\"'](?:[wax]|r\+)"
    r"|\bPath\(\s*[\"'](?P<path>[^\"'\n]{1,200})[\"']\s*\)\.write_(?:text|bytes)\("
    r"|\b(?P<variable>\w+)\.write_(?:text|bytes)\("
)
DIFFING = re.compile(r"\bgit\s+apply\b|\bpatch\s+-")
DIFFED = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n ]+)", re.MULTILINE)
READING = frozenset(("cat", "head", "tail", "nl", "less", "more", "bat"))
DOES = {
    **dict.fromkeys((*READING, "sed"), "read"),
    **dict.fromkeys(("touch", "ln"), "created"),
    "rm": "deleted",
    "mv": "moved",
    "truncate": "written",
}
# Commands that only look: what they print matters, not that they ran.
LOOKING = READING | frozenset(
    (
        *("ls", "ll", "pwd", "find", "fd", "wc", "stat", "file", "which", "tree", "du", "df", "type", "test", "["),
        *("grep", "egrep", "rg", "ag", "jq", "yq", "sort", "uniq", "awk", "cut", "tr", "diff", "column"),
        *("env", "printenv", "whoami", "date", "ps", "uname", "id", "hostname", "lsof", "strings", "xxd"),
    )
)
# The same of programs with many commands; of some with two words, such as `gh pr view`.
LOOKING_BY = {
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
# What programs that are not listed call it when they look, unless what they run is named in a project.
LOOKING_WORDS = frozenset(
    ("status", "list", "ls", "show", "view", "describe", "logs", "info", "inspect", "capture", "list-windows")
)
RUNS_TASKS = frozenset(("make", "just", "task", "rake", "mise", "nx", "turbo", "gradle", "gradlew", "mvn", "tox"))
# What prints, prepares or closes a script.
SILENT = frozenset(("echo", "printf", "cd", "pushd", "popd", "export", "set", "source", ".", "sleep", "true", ":"))
HELP = frozenset(("--help", "--version"))
WITH_VALUE = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--prefix", "--cwd", "-R", "--repo", "-n"))
# Options of `curl` and `gh api` that do more than to look.
SENDS = re.compile(r"-(?:X|d|f|F|T)\b|--(?:request|data|form|upload|method|field|raw-field|input)")
# Quoted words, brackets, and what stands between two commands of a script.
JOINT = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|(?P<open>\()|(?P<close>\))|(?P<joint>&&|\|\||\|&?|;|\n)", re.DOTALL
)
SPLIT = re.compile(r"(?:\$\([^()]*\)|\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\]|[\"'\\])+", re.DOTALL)


def essence(command: str) -> str:
    """Return a command on one line without what stands around it: changes of folder, variables, redirections, echoes.

    What its output is piped to stays: the exit code is that of the pipe.
    """
    script = COMMENT.sub("", command[:LONGEST])
    if "commit" in script and "<<" in script:
        script, _, body = script.partition("<<")
        title = next((line for line in body.split("\n")[1:] if line.strip()), "")
        return " ".join(f"{_stripped(' '.join(script.split()))} <<… {title}".split())
    script, _ = _split_heredocs(script)
    script = HEREDOC.sub("<<…", script.replace("\\\n", " ")).strip()
    if "\n" in script:
        script = "; ".join(_rejoined(script))
    return _stripped(_without_echoes(" ".join(script.split())))


def _rejoined(script: str) -> Iterator[str]:
    """Yield the lines of a script, with those that continue the line before them behind it."""
    line = ""
    for joint, part in split(script):
        if joint == "\n" and line.strip():
            yield line.strip()
            line = ""
        line += f" {'' if joint == chr(10) else joint} {part}"
    yield line.strip()


def _without_echoes(script: str) -> str:
    """Return a script without what only prints or prepares, if it does anything else."""
    parts = [(joint, part) for joint, part in split(script) if part.strip()]
    kept = [
        (joint, part)
        for at, (joint, part) in enumerate(parts)
        if joint.startswith("|")
        or (parts[at + 1][0][:1] == "|" if at + 1 < len(parts) else False)
        or not _is_silent(part)
    ]
    if not kept:
        return script
    shown = " ".join(f"{joint if at else ''} {part.strip()}" for at, (joint, part) in enumerate(kept))
    return shown.replace(" ;", ";").strip()


@lru_cache(maxsize=4_096)
def uncut(command: str) -> str:
    """Return a command without what only cuts its output short."""
    return CUT_SHORT.sub("", command)


def _is_silent(part: str) -> bool:
    program = bare(words(part))[:1]
    return not program or program[0] in SILENT


def in_short(command: str, most: int) -> str:
    """Return a command on one line of at most `most` characters; what comes last in it tells what it is about."""
    if len(command) <= most:
        return command
    *before, (joint, last) = split(command)
    if not before or len(last) > most // 2:
        return one_line(command, most)
    return f"{one_line(command, most - len(joint) - len(last) - 1)} {joint}{last}"


def _stripped(text: str) -> str:
    """Return a command without the words before and behind it that do not change what it is about."""
    while (match := BEFORE.match(text)) and match.end() < len(text):
        text = text[match.end() :]
    text = " ".join(UNSEEN.sub("", text).split())
    while (tail := AFTER.search(text, max(0, len(text) - NEAR_END))) and tail.start():
        text = text[: tail.start()]
    return text


def split(script: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a script, each behind what joins it to the one before: "&&", "|", ";" and so on.

    What stands in quotes or in brackets is not split.
    """
    joint, start, depth = "", 0, 0
    for match in JOINT.finditer(script):
        depth = max(depth + (match["open"] is not None) - (match["close"] is not None), 0)
        if match["joint"] and not depth:
            yield joint, script[start : match.start()]
            joint, start = match["joint"], match.end()
    yield joint, script[start:]


def words(part: str) -> list[str]:
    """Return the words of one command, without quotes and redirections."""
    found: list[str] = []
    skips = False
    for match in SPLIT.finditer(part):
        word = match[0]
        redirection = None if skips else REDIRECTION.match(word)
        if not (skips or redirection):
            found.append(word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word)
        skips = bool(redirection and redirection.end() == len(word) and not redirection["known"])
    return found


def bare(words: Sequence[str]) -> list[str]:
    """Return the words of a command from its program on: without variables, `sudo`, `timeout 60`, `uv run` and such."""
    left = [words[0].lstrip("({"), *words[1:]] if words else []
    while left:
        runner = next((known for known in RUNNERS if tuple(left[: len(known)]) == known), ())
        if not (runner or not left[0] or left[0] in BEFORE_PROGRAM or VARIABLE.fullmatch(left[0])):
            break
        options = left[0] in BEFORE_PROGRAM
        left = left[max(len(runner), 1) :]
        while options and left and OF_PROGRAM.fullmatch(left[0]):
            left = left[1:]
    return left


@lru_cache(maxsize=1_024)
def only_looks(command: str) -> bool:
    """Return whether a command reads and lists, and does nothing else."""
    script = command[:LONGEST].replace("/dev/null", "")
    if HEREDOC.search(script) or REDIRECTED.search(QUOTED.sub("''", script)):
        return False
    return all(looks(words(part)) for _, part in split(script.strip()) if part.strip())


def looks(words: Sequence[str]) -> bool:
    """Return whether one command, given by its words, reads or lists, and does nothing else."""
    words = bare(words)
    program = words[0].rpartition("/")[2] if words else ""
    if not program or program in LOOKING or program in SILENT or HELP.intersection(words):
        return True
    if program == "sed":
        return not _edits(list(words))
    if words[1:2] == ["api"] or program == "curl":
        return not any(SENDS.match(word) for word in words)
    if words[1:2] == ["config"]:
        return any(word.startswith("--get") or word in ("--list", "-l", "get", "list") for word in words[2:])
    known = LOOKING_BY.get(program.rstrip("3"), frozenset() if program in RUNS_TASKS else LOOKING_WORDS)
    named = [word for before, word in pairwise(words) if word[:1] != "-" and before not in WITH_VALUE]
    return any(word in known for word in named[: 2 if program == "gh" else 1])


def folder(command: str) -> str:
    """Return the folder that a command begins by going to; "" where it goes nowhere."""
    match = FOLDER.match(command)
    return (match[1] or match[2] or match[3]) if match else ""


def files(command: str) -> Iterator[tuple[str, str]]:
    """Yield what a command plainly does with files: ("read", path), ("edited", path) and so on."""
    script, bodies = _split_heredocs(command[:LONGEST])
    text = QUOTED.sub(_unquote, script)
    for match in REDIRECTED.finditer(text):
        if _is_path(path := match[1] or match[2]):
            yield "written", path
    for part in PART.split(text):
        yield from _touched(part.partition(">")[0].split())
    if "python" in script:
        yield from (("written", path) for path in _written_by_python(f"{script}\n{bodies}") if _is_path(path))
    if DIFFING.search(script):
        yield from (("edited", path) for path in DIFFED.findall(bodies) if _is_path(path))


def _split_heredocs(command: str) -> tuple[str, str]:
    """Return a command without the bodies of its heredocs, and these bodies."""
    script: list[str] = []
    bodies: list[str] = []
    end = ""
    for line in command.split("\n"):
        if end:
            bodies.append(line)
            end = "" if line.strip() == end else end
            continue
        script.append(line)
        match = HEREDOC.search(line)
        end = match[1] if match else ""
    return "\n".join(script), "\n".join(bodies)


def _written_by_python(text: str) -> Iterator[str]:
    """Yield the files that a Python script writes to, where their names stand in it."""
    named = {match[1]: match[3] for match in ASSIGNED.finditer(text)}
    for match in PYTHON_WRITES.finditer(text):
        name = match["name"] or match["variable"]
        if path := match["path"] or match["opened"] or named.get(name or ""):
            yield path


def _unquote(match: re.Match[str]) -> str:
    """Return a quoted path without its quotes, and an empty word for any other text."""
    return match[0][1:-1] if PATH.fullmatch(match[0][1:-1]) else "''"


def _touched(words: list[str]) -> Iterator[tuple[str, str]]:
    words = words[1:] if words[:1] == ["sudo"] else words
    if words[:1] == ["git"] and words[1:2] and words[1] in GIT_DOES:
        yield from ((GIT_DOES[words[1]], path) for path in words[2:] if _is_path(path))
        return
    if not words:
        return
    if words[0] == "cp":
        given = [word for word in words[1:] if word[:1] != "-" and PATH.fullmatch(word)]
        yield from (("created", path) for path in _copies(given) if _is_path(path))
        return
    given = [word for word in words[1:] if _is_path(word) and not SCRIPT.fullmatch(word)]
    does = "edited" if _edits(words) else DOES.get(words[0])
    yield from ((does, path) for path in given if does)


def _edits(words: list[str]) -> bool:
    """Return whether a command changes the files that it is given in place."""
    flag = IN_PLACE.get(words[0])
    return bool(flag) and any(flag.fullmatch(word) for word in words[1:] if flag)


def _copies(paths: list[str]) -> Iterator[str]:
    """Yield what `cp` makes: the last path, or in a folder the names of all paths before it."""
    *sources, into = paths or [""]
    if into.endswith("/") or len(sources) > 1:
        yield from (f"{into.rstrip('/')}/{source.rpartition('/')[2]}" for source in sources)
    elif sources:
        yield into


def _is_path(word: str) -> bool:
    if len(word) > LONGEST_WORD or word[:1] == "-" or word.startswith("/dev/") or not PATH.fullmatch(word):
        return False
    return "/" in word.strip("/") or bool(NAME_OF_FILE.fullmatch(word))
