"""Write session files as texts, and show in short what is read from them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autoprune.apps.sessions import Request, Session, Usage, load, recordings

NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z
Value = Any


def samples_in(folder: Path) -> list[Path]:
    """The sample files of a folder, without the files that hold what is expected of them."""
    return sorted(path for path in folder.glob("*.json*") if not path.name.endswith(".expected.json"))


def expected_of(path: Path) -> Value:
    """What is expected of a sample."""
    return json.loads(path.with_name(path.name + ".expected.json").read_text(encoding="utf-8"))


def reading_of(path: Path) -> Value:
    """What is read from a sample, in the shape of `expected_of`."""
    text = path.read_text(encoding="utf-8")
    found = every_run(text, path.name)
    recorded = [[[told(each) for each in stretch.requests] for stretch in run] for run in recordings(text, path.name)]
    runs = [
        {"notes": list(session.notes), "messages": session.messages, "requests": requests}
        for session, requests in zip(found, recorded, strict=True)
    ]
    return {"agent": found[0].agent, "runs": runs}


def lines(*values: Value) -> str:
    return "\n".join(json.dumps(value) for value in values) + "\n"


def values_of(path: Path) -> list[Value]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]


def every_run(text: str, name: str) -> list[Session]:
    first = load(text, name)
    return [first, *(load(text, name, run) for run in range(2, first.conversations + 1))]


def said(session: Session) -> list[str]:
    """The roles and contents in short: `user:hello`, `tool:42`."""
    return [f"{message.get('role')}:{brief(message)}" for message in session.messages]


def brief(message: Value) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "+".join(str(block.get("text") or block.get("content") or block.get("name")) for block in content)
    return str(content or "+".join(call["function"]["name"] for call in message.get("tool_calls", ())))


def told(request: Request) -> dict[str, Value]:
    """The known fields of a request."""
    known = {name: value for name, value in asdict(request).items() if value not in (None, "")}
    usage = {name: value for name, value in (known.pop("usage", None) or {}).items() if value}
    usage.pop("counts_cached", None)
    return {**known, "usage": usage} if usage else known


def clock(seconds: int) -> str:
    """The time some seconds after noon, as logs write it."""
    return f"2026-01-01T12:{seconds // 60:02}:{seconds % 60:02}.000Z"


def outline(message: Value) -> str:
    """A message or an item in short: `user:hello`, `call:a`, `output:A`."""
    if message.get("type", "message") != "message":
        return f"{message['type'].rpartition('_')[2]}:{message.get('output') or message['call_id']}"
    content = message.get("parts") or message.get("content") or message.get("tool_calls")
    return f"{message['role']}:{content if isinstance(content, str) else '+'.join(map(_block, content))}"


def _block(each: Value) -> str:
    function = each.get("functionCall") or each.get("function") or each
    payload = each.get("functionResponse", {}).get("response", {}).get("output")
    return str(each.get("text") or each.get("content") or payload or function["name"])


def stretches(text: str) -> list[tuple[list[str], tuple[Request, ...]]]:
    """The stretches of the only conversation in a file: its messages in short, and the requests."""
    [conversation] = recordings(text, "s")
    return [(list(map(outline, each.messages)), each.requests) for each in conversation]


USED = Usage(prompt=30, cached=20, written=7, output=5)


def asked(message: int, time: float | None, pause: float | None, **more: Value) -> Request:
    return Request(
        message, None if time is None else NOON + time, pause, **{"model": "claude-x", "usage": USED, **more}
    )


def places(value: Value, path: tuple[int | str, ...] = ()) -> list[tuple[int | str, ...]]:
    """The paths of all values within a value, starting with its own."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, item in inner for each in places(item, (*path, key)))]


def changed(value: Value, path: tuple[int | str, ...], new: Value) -> Value:
    """A copy with something else at a path."""
    if not path:
        return new
    whole = dict(value) if isinstance(value, dict) else list(value)
    whole[path[0]] = changed(value[path[0]], path[1:], new)
    return whole
