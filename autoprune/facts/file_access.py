"""Find out which files a tool call or a shell command read or changed. Reads arguments and results, opens nothing.

Each access is a verb and a path: ("read", "a.py"), ("edited", "a.py"), ("created", "b.py") and so on.
"""

import re
from collections.abc import Iterator, Mapping

from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.facts.calls import arguments, paths, tool_words
from autoprune.facts.shell import LONGEST, QUOTED, READING, REDIRECTED, edits_in_place, split_heredocs

# What a word in a tool's name says about its path, the most certain first.
VERBS: Mapping[str, str] = {
    **dict.fromkeys(("delete", "remove", "unlink"), "deleted"),
    **dict.fromkeys(("move", "rename"), "moved"),
    **dict.fromkeys(("create", "write", "save"), "written"),
    **dict.fromkeys(
        ("edit", "editor", "multiedit", "replace", "insert", "patch", "update", "modify", "append"), "edited"
    ),
    **dict.fromkeys(("read", "view", "open", "cat", "show", "fetch"), "read"),
}
# The same for tools with an argument `command`, such as Anthropic's text editor.
EDITOR_COMMANDS: Mapping[object, str] = {
    **dict.fromkeys(("view", "open", "read"), "read"),
    **dict.fromkeys(("create", "write"), "written"),
    **dict.fromkeys(("str_replace", "insert", "replace", "edit", "undo_edit", "delete_lines"), "edited"),
}
# Codex's apply_patch.
PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: ([^\r\n]+)", re.MULTILINE)
HUNK = re.compile(r"^@@", re.MULTILINE)
PATCH_VERBS = {"Add": "created", "Update": "edited", "Delete": "deleted"}
# SWE-agent's commands work on the file that is open: "edit 14:75", "insert 3", "create a.py".
ON_OPEN_FILE = re.compile(r"\s*(edit|insert|append|create|open|goto|scroll)(?:_\w+)?(?=\s|\Z)")
OPEN_FILE = re.compile(r"^[(\[](?:Open file|File): ((?!n/a)[^\n()]+?)(?: \(\d+ lines total\)\]|\))\s*$", re.MULTILINE)
NOT_EDITED = re.compile(r"\s*Your proposed edit has introduced new syntax error")
CREATED = re.compile(r"\b(?:created|new file|\"type\": ?\"create\")", re.IGNORECASE)
CREATED_IN = 300  # characters at a result's start that may say that the file is new
# How tools refuse to show a file again: Claude Code, Qwen Code, Hermes Agent and others.
UNCHANGED = re.compile(
    r"(?i)\b(?:file|content|contents)\b[^.\n]{0,40}\b(?:unchanged|not changed|has not been modified|not been modified)"
    r"\b[^.\n]{0,20}\bsince\b[^.\n]{0,20}\b(?:last|previous|earlier)(?: \w+)? read\b"
)
LONGEST_REFERENCE = 1_000  # characters of such an answer
LONGEST_WORD = 200  # characters of a path in a command
COMMAND_JOINT = re.compile(r"&&|\|\||[;\n|]")
PATH_WORD = re.compile(r"[\w@+.~/\[\]-]+")
NAME_OF_FILE = re.compile(r"[\w@+\[\]-][\w@+.\[\]-]*\.[A-Za-z][A-Za-z0-9]{0,9}")
SED_SCRIPT = re.compile(r"s/.*|/.*/[dp]")  # an argument of sed that is no path
GIT_VERBS = {"rm": "deleted", "mv": "moved", "restore": "restored"}
# Python that writes files: open("a", "w"), Path("a").write_text(…), p = Path("a") with p.write_text(…).
ASSIGNED = re.compile(
    r"^[ \t]*(\w+)\s*=\s*(?:(?:pathlib\.)?Path\(\s*)?([\"'])([^\"'\n]{1,200})\2\s*\)?[ \t]*;?[ \t]*$", re.MULTILINE
)
PYTHON_WRITES = re.compile(
    r"\bopen\(\s*(?:[\"'](?P<opened>[^\"'\n]{1,200})[\"']|(?P<name>\w+))\s*,\s*(?:mode\s*=\s*)?[\"'](?:[wax]|r\+)"
    r"|\bPath\(\s*[\"'](?P<path>[^\"'\n]{1,200})[\"']\s*\)\.write_(?:text|bytes)\("
    r"|\b(?P<variable>\w+)\.write_(?:text|bytes)\("
)
APPLIES_DIFF = re.compile(r"\bgit\s+apply\b|\bpatch\s+-")
PATCHED_BY_SHELL = re.compile(r"^\+\+\+ (?:b/)?([^\t\r\n ]+)", re.MULTILINE)
COMMAND_VERBS = {
    **dict.fromkeys((*READING, "sed"), "read"),
    **dict.fromkeys(("touch", "ln"), "created"),
    "rm": "deleted",
    "mv": "moved",
    "truncate": "written",
}


def open_file_access(call: ToolCall | None, result: ToolResult | None, tool: str) -> tuple[str, str] | None:
    """Return a SWE-agent command's access to the open file, which only the result names; None for other calls."""
    if not call or not result or paths(call):
        return None
    command = arguments(call).get("command", tool)
    match = ON_OPEN_FILE.match(command) if isinstance(command, str) else None
    file = OPEN_FILE.search(result.text) if match else None
    if not match or not file:
        return None
    is_refused = NOT_EDITED.match(result.text)
    verb = "read" if is_refused or match[1] in ("open", "goto", "scroll") else VERBS.get(match[1], "edited")
    return verb, file[1]


def refers_to_earlier_read(result: ToolResult) -> bool:
    """Return whether a tool answered a read only by saying that the file is unchanged since an earlier read."""
    if result.stop - result.start > LONGEST_REFERENCE or not UNCHANGED.search(result.text):
        return False
    return any(verb == "read" for verb, _ in argument_files(result.call, result, result.tool))


def patched_files(call: ToolCall | None) -> list[tuple[str, str]]:
    """Return the files that a patch in the arguments names, each with a verb for what the patch does."""
    return [(PATCH_VERBS[verb], path.rstrip()) for verb, path in PATCH.findall(_patch(call))]


def edited_places(call: ToolCall | None) -> int:
    """Return how many places a patch or a list of edits in the arguments names; 0 if there is neither."""
    edits = arguments(call).get("edits") if call else None
    return len(edits) if isinstance(edits, list | tuple) else len(HUNK.findall(_patch(call)))


def _patch(call: ToolCall | None) -> str:
    """Return the patch in the arguments; "" if there is none."""
    values = [*arguments(call).values(), call.arguments] if call else []  # as JSON text a patch has no lines
    texts = (text for value in values for text in (value if isinstance(value, list | tuple) else [value]))
    return next((text for text in texts if isinstance(text, str) and "*** Begin Patch" in text), "")


def argument_files(call: ToolCall | None, result: ToolResult | None, tool: str) -> Iterator[tuple[str, str]]:
    """Yield the paths in the arguments, with the verb that the tool's name or its command implies."""
    verb = _tool_verb(call, tool)
    if not call or not verb:
        return
    if verb == "written" and result and CREATED.search(result.text[:CREATED_IN]):
        verb = "created"
    yield from ((verb, path) for path in paths(call))


def _tool_verb(call: ToolCall | None, tool: str) -> str | None:
    command = arguments(call).get("command") if call else None
    if isinstance(command, str) and command in EDITOR_COMMANDS:
        return EDITOR_COMMANDS[command]
    words = set(tool_words(tool))
    return next((verb for word, verb in VERBS.items() if word in words), None)


def shell_files(command: str) -> Iterator[tuple[str, str]]:
    """Yield the file accesses that are evident from a shell script's text."""
    script, heredocs = split_heredocs(command[:LONGEST])
    bodies = "\n".join(heredocs)
    text = QUOTED.sub(_unquote, script)
    for match in REDIRECTED.finditer(text):
        if _is_path(path := match[1] or match[2]):
            yield "written", path
    for part in COMMAND_JOINT.split(text):
        yield from _command_files(part.partition(">")[0].split())
    if "python" in script:
        yield from (("written", path) for path in _python_files(f"{script}\n{bodies}") if _is_path(path))
    if APPLIES_DIFF.search(script):
        yield from (("edited", path) for path in PATCHED_BY_SHELL.findall(bodies) if _is_path(path))


def _python_files(text: str) -> Iterator[str]:
    """Yield the files that a Python script writes to, if it names them literally."""
    named = {match[1]: match[3] for match in ASSIGNED.finditer(text)}
    for match in PYTHON_WRITES.finditer(text):
        name = match["name"] or match["variable"]
        if path := match["path"] or match["opened"] or named.get(name or ""):
            yield path


def _unquote(match: re.Match[str]) -> str:
    """Remove the quotes of a quoted path; empty any other quoted text."""
    return match[0][1:-1] if PATH_WORD.fullmatch(match[0][1:-1]) else "''"


def _command_files(words: list[str]) -> Iterator[tuple[str, str]]:
    words = words[1:] if words[:1] == ["sudo"] else words
    if words[:1] == ["git"] and words[1:2] and words[1] in GIT_VERBS:
        yield from ((GIT_VERBS[words[1]], path) for path in words[2:] if _is_path(path))
        return
    if not words:
        return
    if words[0] == "cp":
        operands = [word for word in words[1:] if word[:1] != "-" and PATH_WORD.fullmatch(word)]
        yield from (("created", path) for path in _copy_targets(operands) if _is_path(path))
        return
    operands = [word for word in words[1:] if _is_path(word) and not SED_SCRIPT.fullmatch(word)]
    does = "edited" if edits_in_place(words) else COMMAND_VERBS.get(words[0])
    yield from ((does, path) for path in operands if does)


def _copy_targets(paths: list[str]) -> Iterator[str]:
    """Yield the files that `cp` creates: the last path, or each source's name in the target folder."""
    *sources, into = paths or [""]
    if into.endswith("/") or len(sources) > 1:
        yield from (f"{into.rstrip('/')}/{source.rpartition('/')[2]}" for source in sources)
    elif sources:
        yield into


def _is_path(word: str) -> bool:
    if len(word) > LONGEST_WORD or word[:1] == "-" or word.startswith("/dev/") or not PATH_WORD.fullmatch(word):
        return False
    return "/" in word.strip("/") or bool(NAME_OF_FILE.fullmatch(word))
