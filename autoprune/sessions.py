"""Session files: a JSON list of messages, JSONL, or an object with `messages`. Text in, text out; opens no file."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from autoprune.errors import SessionError

READABLE = "a JSON list of messages, JSONL with one message a line, or an object with a 'messages' list"


@dataclass(frozen=True)
class Session:
    """The messages of a file, and how to write others in the shape that the file had."""

    messages: list[object]
    write: Callable[[list[object]], str]


def load(text: str, name: str) -> Session:
    """The session in a file's text; `name` is what errors call it. Raises SessionError with line and column."""
    if not text.strip():
        raise SessionError(f"{name} is empty: give {READABLE}")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and _is_whole(lines[0][1]):
        return Session([_message(_parsed(line, name, number), name, number) for number, line in lines], _as_lines)
    value = _parsed(text, name)
    indent = 2 if len(lines) > 1 else None
    if isinstance(value, list):
        return Session([_message(item, name) for item in value], lambda messages: dumped(messages, indent) + "\n")
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        messages = [_message(item, name) for item in value["messages"]]
        return Session(messages, lambda pruned: dumped({**value, "messages": pruned}, indent) + "\n")
    if isinstance(value, dict) and isinstance(value.get("role"), str):
        return Session([value], _as_lines)
    raise SessionError(f"{name} holds {_described(value)}: give {READABLE}")


def _is_whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _parsed(text: str, name: str, line: int = 1) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        raise SessionError(f"{name} is broken JSON at {where}: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a very deep nest
        raise SessionError(f"{name} holds a number or a nest that cannot be read: {error}") from error


def _message(value: object, name: str, line: int | None = None) -> object:
    if isinstance(value, dict) and isinstance(value.get("role"), str):
        return value
    where = f"{name} line {line}" if line else name
    raise SessionError(f"{where} holds {_described(value)} where a message with a 'role' should be: give {READABLE}")


def _described(value: object) -> str:
    """What was found, in words: `an object with the fields type, payload`."""
    if isinstance(value, dict):
        names = ", ".join(list(value)[:8]) or "no field"
        return f"an object with the fields {names}{', …' if len(value) > 8 else ''}"
    return {list: "a list", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _as_lines(messages: list[object]) -> str:
    return "".join(dumped(message) + "\n" for message in messages)


def dumped(value: object, indent: int | None = None) -> str:
    """JSON text, readable where it can be written as UTF-8, escaped where it holds a lone surrogate."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text
