"""Tell which files a tool call read or changed, by its name, its arguments and its result."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.facts.calls import arguments, paths

# What a word in a tool's name says that it does with a path, the most certain first.
VERBS: Mapping[str, str] = {
    **dict.fromkeys(("delete", "remove", "unlink"), "deleted"),
    **dict.fromkeys(("move", "rename"), "moved"),
    **dict.fromkeys(("create", "write", "save"), "written"),
    **dict.fromkeys(
        ("edit", "editor", "multiedit", "replace", "insert", "patch", "update", "modify", "append"), "edited"
    ),
    **dict.fromkeys(("read", "view", "open", "cat", "show", "fetch"), "read"),
}
# The same for editors that take a `command`, such as Anthropic's text editor.
EDITOR_COMMANDS: Mapping[object, str] = {
    **dict.fromkeys(("view", "open", "read"), "read"),
    **dict.fromkeys(("create", "write"), "written"),
    **dict.fromkeys(("str_replace", "insert", "replace", "edit", "undo_edit", "delete_lines"), "edited"),
}
# Codex's apply_patch.
PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: ([^\r\n]+)", re.MULTILINE)
PATCH_VERBS = {"Add": "created", "Update": "edited", "Delete": "deleted"}
# SWE-agent's commands work on the file that is open: "edit 14:75", "insert 3", "create a.py".
ON_OPEN_FILE = re.compile(r"\s*(edit|insert|append|create|open|goto|scroll)(?:_\w+)?(?=\s|\Z)")
OPEN_FILE = re.compile(r"^[(\[](?:Open file|File): ((?!n/a)[^\n()]+?)(?: \(\d+ lines total\)\]|\))\s*$", re.MULTILINE)
NOT_EDITED = re.compile(r"\s*Your proposed edit has introduced new syntax error")
CREATED = re.compile(r"\b(?:created|new file|\"type\": ?\"create\")", re.IGNORECASE)
CREATED_IN = 300  # characters of a result that may say so
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
WORDS = re.compile(r"[a-z]+")


def words_of(tool: str) -> list[str]:
    """Return the words of a tool's name in lower case: `TodoWrite` and `todo_write` have the same two."""
    return WORDS.findall(CAMEL.sub("_", tool).lower())


def open_file(call: ToolCall | None, result: ToolResult | None, tool: str) -> tuple[str, str] | None:
    """Return what one of SWE-agent's commands did with the open file, which only the result names; None for others."""
    command = arguments(call).get("command", tool) if call else ""
    match = ON_OPEN_FILE.match(command) if call and isinstance(command, str) and not paths(call) else None
    file = OPEN_FILE.search(result.text) if match and result else None
    if not match or not file or not result:
        return None
    is_refused = NOT_EDITED.match(result.text)
    verb = "read" if is_refused or match[1] in ("open", "goto", "scroll") else VERBS.get(match[1], "edited")
    return verb, file[1]


def patched(call: ToolCall | None) -> list[tuple[str, str]]:
    """Return the files that a patch in the arguments names, each with what is done to it."""
    held = [call.arguments, *arguments(call).values()] if call else []
    texts = (text for value in held for text in (value if isinstance(value, list | tuple) else [value]))
    patches = (text for text in texts if isinstance(text, str) and "*** Begin Patch" in text)
    return [(PATCH_VERBS[verb], path.rstrip()) for text in islice(patches, 1) for verb, path in PATCH.findall(text)]


def touched(call: ToolCall | None, result: ToolResult | None, tool: str) -> Iterator[tuple[str, str]]:
    """Yield the paths in the arguments, each with what the tool's name or its command says was done."""
    verb = _verb(call, tool)
    is_new = verb == "written" and result and CREATED.search(result.text[:CREATED_IN])
    for path in paths(call) if call and verb else ():
        yield "created" if is_new else verb or "", path


def _verb(call: ToolCall | None, tool: str) -> str | None:
    command = arguments(call).get("command") if call else None
    if isinstance(command, str) and command in EDITOR_COMMANDS:
        return EDITOR_COMMANDS[command]
    words = set(words_of(tool))
    return next((verb for word, verb in VERBS.items() if word in words), None)
