"""What a call touches: its path, command, pattern or address. Reads arguments, runs nothing."""

import json
from collections.abc import Mapping

from autoprune.transcript import ToolCall

# Names that agents' tools give to what they touch, most telling first.
NAMES = (
    *("path", "file_path", "filepath", "filename", "file", "target_file", "absolute_path", "notebook_path", "paths"),
    *("command", "cmd", "script", "pattern", "query", "regex", "url", "directory", "dir", "input", "description"),
)


def arguments(call: ToolCall) -> Mapping[str, object]:
    """The arguments of a call as a mapping; {} where they are no JSON object."""
    known = call.arguments
    if isinstance(known, str):
        try:
            known = json.loads(known)
        except (ValueError, RecursionError):
            return {}
    return known if isinstance(known, Mapping) else {}


def target(call: ToolCall | None) -> str:
    """The first argument that says what a call touches, on one line; "" where none does."""
    if call is None:
        return ""
    known = arguments(call)
    for name in NAMES:
        if value := known.get(name):
            words = value if isinstance(value, list) else [value]
            return " ".join(" ".join(map(str, words)).split())
    return " ".join(call.arguments.split())[:200] if isinstance(call.arguments, str) and not known else ""
