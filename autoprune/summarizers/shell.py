"""What a shell command is about: which files it reads or changes, and what it comes to. Runs nothing."""

import re
from collections.abc import Iterator

LONGEST = 20_000  # characters of a command that are looked at
LONGEST_WORD = 200
# What stands around a command and has no say in what it does; looked for at its ends, where no run of spaces is left.
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
WRITTEN = re.compile(r"(?<![\d&>=-])>{1,2}\s*([^\s;&|<>()\"']+)|\btee\s+(?:-a\s+)?([^\s;&|<>()\"']+)")
READING = frozenset(("cat", "head", "tail", "nl", "less", "more", "bat"))
# Commands that only look: what they print matters, not that they ran.
LOOKING = READING | frozenset(
    (
        *(
            "ls",
            "ll",
            "pwd",
            "find",
            "fd",
            "grep",
            "egrep",
            "rg",
            "ag",
            "wc",
            "stat",
            "file",
            "which",
            "tree",
            "du",
            "df",
        ),
        *(
            "env",
            "printenv",
            "whoami",
            "date",
            "sleep",
            "cd",
            "ps",
            "jq",
            "sort",
            "uniq",
            "awk",
            "true",
            "echo",
            "printf",
        ),
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
    """Whether a command reads and lists, and does nothing else."""
    text = QUOTED.sub("''", command[:LONGEST]).replace("/dev/null", "").strip()
    if HEREDOC.search(text) or WRITTEN.search(text):
        return False
    return all(_looks(WORD.findall(part)) for part in PART.split(text) if part.strip())


def _looks(words: list[tuple[str, str, str]]) -> bool:
    plain = ["".join(word) for word in words]
    if not plain or plain[0] in LOOKING:
        return True
    if plain[0] == "sed":
        return not any(word.startswith("-i") for word in plain)
    return plain[0] == "git" and next((word for word in plain[1:] if word[0:1] != "-"), "") in LOOKING_GIT


def folder(command: str) -> str:
    """The folder that a command begins by going to; "" where it does not."""
    match = FOLDER.match(command)
    return (match[1] or match[2] or match[3]) if match else ""


def files(command: str) -> Iterator[tuple[str, str]]:
    """What a command does with files, as far as it is plain to see: ("read", path), ("edited", path) and so on."""
    head, _, body = command[:LONGEST].partition("<<")
    line, _, rest = body.partition("\n")
    text = QUOTED.sub(_unquoted, f"{head} {line if rest else ''}")
    for match in WRITTEN.finditer(text):
        if _is_path(path := match[1] or match[2]):
            yield "written", path
    for part in PART.split(text):
        yield from _touched(part.partition(">")[0].split())


def _unquoted(match: re.Match[str]) -> str:
    """A quoted path without its quotes; any other text is none."""
    return match[0][1:-1] if PATH.fullmatch(match[0][1:-1]) else "''"


def _touched(words: list[str]) -> Iterator[tuple[str, str]]:
    if words[:2] in (["git", "rm"], ["git", "mv"]):
        words = words[1:]
    if not words:
        return
    edits = words[0] == "sed" and any(word.startswith("-i") for word in words)
    does = {"rm": "deleted", "mv": "moved", "touch": "created", "sed": "edited" if edits else "read"}.get(words[0])
    does = "read" if words[0] in READING else does
    yield from ((does, path) for path in words[1:] if does and _is_path(path) and not SCRIPT.fullmatch(path))


def _is_path(word: str) -> bool:
    if len(word) > LONGEST_WORD or word[:1] == "-" or word.startswith("/dev/") or not PATH.fullmatch(word):
        return False
    return "/" in word.strip("/") or bool(NAME_OF_FILE.fullmatch(word))
