"""Small sessions to replay: an agent reads files and edits them."""

import json
from pathlib import Path
from typing import Any

ROUNDS = 24  # requests; fewer than 20 are not replayed
LINES = 40  # of each file
NUMBERS_OF_TIMES = ("seconds", "slowest")


def session(name: str, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Messages of Chat Completions: each file is read, and every third one is edited ten rounds later."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Rename the parts of {name}."}]
    for number in range(rounds):
        messages += _call(number, "read_file", {"path": f"src/{name}_{number}.py"}, _text(name, number))
        if number >= 10 and number % 3 == 0:
            old = _text(name, number - 10).splitlines()[3]
            edit = {"path": f"src/{name}_{number - 10}.py", "old_string": old, "new_string": "pass"}
            messages += _call(1_000 + number, "edit_file", edit, "done")
    return messages


def _call(number: int, tool: str, arguments: dict[str, str], result: str) -> list[dict[str, Any]]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
    ]


def _text(name: str, number: int) -> str:
    return "\n".join(f"    {name}_{number}_value_{line} = compute({line})" for line in range(LINES))


def write_sessions(folder: Path, *names: str) -> list[str]:
    """Write a session for each name, and return the paths."""
    paths = [folder / f"{name}.json" for name in names]
    for path in paths:
        path.write_text(json.dumps(session(path.stem)), encoding="utf-8")
    return [str(path) for path in paths]


def timeless(value: Any) -> Any:
    """A JSON value without the times in it, which no two runs share."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in NUMBERS_OF_TIMES}
    return [timeless(each) for each in value] if isinstance(value, list | tuple) else value


def write_claude_log(path: Path, *answers: tuple[str, str, dict[str, int]], folder: str = "/home/me/shop") -> str:
    """Write a session of Claude Code: a question, and answers, each with its time, model and usage."""
    asked = {"role": "user", "content": "Fix the cart,\nplease"}
    lines: list[dict[str, object]] = [{"type": "user", "timestamp": "2026-01-02T08:00:00.000Z", "message": asked}]
    for number, (time, model, usage) in enumerate(answers):
        content = [{"type": "text", "text": f"answer {number}"}]
        message = {"id": f"m{time}", "role": "assistant", "model": model, "content": content, "usage": usage}
        lines.append({"type": "assistant", "timestamp": time, "message": message})
        lines.append({"type": "user", "timestamp": time, "message": {"role": "user", "content": f"question {number}"}})
    for number, line in enumerate(lines):
        line.update(uuid=f"u{number}", parentUuid=f"u{number - 1}" if number else None, sessionId="s", cwd=folder)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)
