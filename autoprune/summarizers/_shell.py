"""Read a shell command: which files it reads or changes, whether it only looks, and what it is about."""

import re
from collections.abc import Iterator

LONGEST = 20_000  # characters of a command that are looked at
LONGEST_WORD = 200
# Words before and behind a command that do not change what it is about.
BEFORE = re.compile(
    r"(?:cd (?:\"[^\"]*\"|'[^']*'|[^ ;&|]+) ?(?:&&|;) ?|source \S+ ?(?:&&|;) ?|sudo |time |timeout \S+ "
    r"|[A-Z_]+=[^ \"']* )"
)
AFTER = re.compile(r"(?: \d?>&?\d| 2>/dev/null| ?;| )\Z")
UNSEEN = re.compile(r" (?:2>&1|2>/dev/null)(?= \|)")
FILTERED = re.compile(r" \|\|? ")
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
        *("ls", "ll", "pwd", "find", "fd", "wc", "stat", "file", "which", "tree", "du", "df", "cd"),
        *("grep", "egrep", "rg", "ag", "jq", "sort", "uniq", "awk", "echo", "printf"),
        *("env", "printenv", "whoami", "date", "sleep", "ps", "true"),
    )
)
LOOKING_GIT = frozenset(("status", "diff", "log", "show", "branch", "blame", "grep", "rev-parse", "ls-files", "remote"))


def essence(command: str) -> str:
    """Return a command on one line without what stands around it: changes of folder, variables, redirections.

    What its output is piped to stays: the exit code is that of the pipe.
    """
    script, heredoc, body = COMMENT.sub("", command[:LONGEST]).partition("<<")
    text = " ".join(script.split())
    while (match := BEFORE.match(text)) and match.end() < len(text):
        text = text[match.end() :]
    if heredoc:
        title = next((line for line in body.split("\n")[1:] if line.strip()), "") if "commit" in text else ""
        return " ".join(f"{text} <<… {title}".split())
    while (tail := AFTER.search(text, max(0, len(text) - NEAR_END))) and tail.start():
        text = text[: tail.start()]
    return UNSEEN.sub("", text)


def stem(name: str) -> str:
    """Return what a command is without the pipe behind it, or what is done where it fails."""
    return FILTERED.split(name, maxsplit=1)[0]


def only_looks(command: str) -> bool:
    """Return whether a command reads and lists, and does nothing else."""
    text = QUOTED.sub("''", command[:LONGEST]).replace("/dev/null", "").strip()
    if HEREDOC.search(text) or REDIRECTED.search(text):
        return False
    return all(_looks(WORD.findall(part)) for part in PART.split(text) if part.strip())


def _looks(words: list[tuple[str, str, str]]) -> bool:
    plain = ["".join(word) for word in words]
    if not plain or plain[0] in LOOKING:
        return True
    if plain[0] == "sed":
        return not _edits(plain)
    return plain[0] == "git" and next((word for word in plain[1:] if word[0:1] != "-"), "") in LOOKING_GIT


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
