"""A session of Claude Code that reads twenty notes and sums up each."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HOUR = 3_600.0
LONG = "".join(f"{number} words of advice, and then some.\n" for number in range(400))


def session(
    path: Path,
    *,
    model: str = "claude-opus-5-5",
    hours: float = 3.0,
    folder: str = "/home/me/shop",
    version: str = "2.1.332",
    count: int = 20,
) -> Path:
    """Write the session to a file."""
    said: list[Any] = [("user", "Sum up the notes.")]
    for at in range(count):
        for name, given, result in (
            ("Read", {"file_path": f"/notes/{at}.txt"}, LONG),
            ("Write", {"file_path": f"/out/{at}.md", "content": LONG[:3_000]}, "Done."),
        ):
            id = f"{name}{at}"
            said.append(("assistant", {"type": "tool_use", "id": id, "name": name, "input": given}))
            said.append(("user", {"type": "tool_result", "tool_use_id": id, "content": result}))
    path.parent.mkdir(parents=True, exist_ok=True)
    ended = time.time() - HOUR * hours
    with path.open("w", encoding="utf-8") as file:
        for number, (role, content) in enumerate(said):
            message = {"role": role, "content": content if isinstance(content, str) else [content]}
            if role == "assistant":
                usage = {"input_tokens": 9, "cache_read_input_tokens": 90_000, "output_tokens": 991}
                message |= {"id": f"m{number}", "model": model, "usage": usage}
            line = {
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "cwd": folder,
                "sessionId": path.stem,
                "version": version,
            }
            when = datetime.fromtimestamp(ended - len(said) + number + 1, UTC).isoformat()
            file.write(json.dumps({**line, "type": role, "timestamp": when, "message": message}) + "\n")
    os.utime(path, (0, ended))
    return path
