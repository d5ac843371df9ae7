"""Session files: messages as JSON or JSONL, or what an agent left on disk. Text in, text out; opens no file."""

import codecs
import gzip
import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from autoprune.errors import SessionError
from autoprune.sessions.readers import READERS, Reader, chosen

READABLE = (
    "a JSON list of messages, JSONL with one message a line, an object with a 'messages' list, or a session file of "
    + ", ".join(reader.NAME for reader in READERS)
)
# Items of the Responses API that have no role, beside those whose type ends in `_call` or `_output`.
ITEM_TYPES = frozenset(("compaction", "item_reference", "mcp_approval_request", "mcp_approval_response", "reasoning"))
INDENT = 2
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Session:
    """The messages of a file, and how to write others in the shape that the file had.

    `agent` is the one whose session file it is, None for plain messages; `notes` say what was left out of the file or
    made up, and `runs` how many conversations it holds. A conversation of an agent's file is written as a JSON list.
    """

    messages: list[object]
    write: Callable[[list[object]], str]
    notes: tuple[str, ...] = ()
    agent: str | None = None
    runs: int = 1


@dataclass(frozen=True)
class Log:
    """An agent's own log: how many records it holds, and what is left out of the conversation in it."""

    agent: str
    records: int
    left_out: tuple[str, ...] = ()


def decoded(data: bytes, name: str) -> str:
    """The text of a file: UTF-8, UTF-16 or UTF-32, with or without a mark of it, and gzip.

    The bytes of a last character that was cut off are left out. Raises SessionError that says which bytes are no text.
    """
    if data.startswith(GZIP):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise SessionError(f"{name} is a gzip file that is damaged or cut off: {error}") from error
    encoding = json.detect_encoding(data)
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError as error:
        kind = encoding.upper().removesuffix("-SIG")
        raise SessionError(f"{name} is no {kind} text: byte {error.start} is {data[error.start]:#04x}") from error


def load(text: str, name: str, run: int = 1, *, skip_broken: bool = False) -> Session:
    """A conversation in a file's text; `name` is what errors call it, `run` its number where it holds several.

    The last line of JSONL may be cut off, because who wrote it was stopped; with `skip_broken` other lines that cannot
    be read are left out too. A note says so. Raises SessionError that says what is wrong and where: the line and column
    of broken JSON, the fields of an unknown shape, the number of runs where there is none with this one.
    """
    if not text.strip():
        raise SessionError(f"{name} is empty: give {READABLE}")
    lines = _lines(text)
    if len(lines) > 1 and _is_whole(lines[0][1]):
        return _of_lines(lines, name, run, skip_broken=skip_broken)
    try:
        value = _parsed(text, name)
    except SessionError:
        if not _is_mostly_whole(lines):
            raise
        return _of_lines(lines, name, run, skip_broken=skip_broken)
    if reader := chosen([value]):
        return _recorded(reader, [value], name, run)
    return _only(_plain(value, name, INDENT if len(lines) > 1 else None), name, run)


def log_in(text: str) -> Log | None:
    """The agent's own log in a file's text; None for anything else, and for messages that are what would be written."""
    whole = _or_none(text)
    values = [whole] if whole is not None else [_or_none(line) for _, line in _lines(text)]
    reader = chosen(values)
    if reader is None:
        return None
    try:
        runs = reader.read(values)
    except (SessionError, RecursionError):
        return Log(reader.NAME, len(values))
    if len(runs) == len(values) == 1 and runs[0].messages == values[0]:
        return None
    left_out = (note for each in runs for note in each.notes if "left out" in note)
    return Log(reader.NAME, len(values), tuple(dict.fromkeys(left_out)))


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _of_lines(lines: Sequence[tuple[int, str]], name: str, run: int, *, skip_broken: bool) -> Session:
    """A file of JSONL."""
    found: list[tuple[int, object]] = []
    skipped: list[int] = []
    notes: list[str] = []
    for number, line in lines:
        try:
            found.append((number, _parsed(line, name, number, is_line=True)))
        except SessionError as error:
            is_cut_off = number == lines[-1][0] and isinstance(error.__cause__, json.JSONDecodeError)
            if is_cut_off:
                notes.append(f"line {number} is cut off, left out")
            elif skip_broken:
                skipped.append(number)
            else:
                raise
    if skipped:
        notes.append(f"broken lines, left out: {', '.join(map(str, skipped))}")
    values = [value for _, value in found]
    if reader := chosen(values):
        return _recorded(reader, values, name, run, tuple(notes))
    messages = [_message(value, name, number) for number, value in found]
    return _only(Session(messages, _as_lines, tuple(notes)), name, run)


def _recorded(reader: Reader, values: Sequence[object], name: str, run: int, notes: tuple[str, ...] = ()) -> Session:
    """A conversation of an agent's file."""
    try:
        runs = reader.read(values)
    except SessionError as error:
        raise SessionError(f"{name} is a session file of {reader.NAME}, but {error}") from error
    except RecursionError as error:
        raise SessionError(f"{name} holds a nest that cannot be read: {error}") from error
    if not 1 <= run <= len(runs):
        raise _no_such(name, run, len(runs))
    found = runs[run - 1]
    messages: list[object] = [*found.messages]
    return Session(
        messages, lambda pruned: dumped(pruned, INDENT) + "\n", (*notes, *found.notes), reader.NAME, len(runs)
    )


def _only(session: Session, name: str, run: int) -> Session:
    """A session of plain messages, which is the only one in its file."""
    if run != 1:
        raise _no_such(name, run, 1)
    return session


def _no_such(name: str, run: int, runs: int) -> SessionError:
    return SessionError(f"{name} has no run {run}: it holds {runs} {'run' if runs == 1 else 'runs'}")


def _plain(value: object, name: str, indent: int | None) -> Session:
    if isinstance(value, list):
        return Session([_message(item, name) for item in value], lambda messages: dumped(messages, indent) + "\n")
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        messages = [_message(item, name) for item in value["messages"]]
        return Session(messages, lambda pruned: dumped({**value, "messages": pruned}, indent) + "\n")
    if _is_message(value):
        return Session([value], _as_lines)
    raise SessionError(f"{name} holds {_described(value)}: give {READABLE}")


def _is_whole(line: str) -> bool:
    value = _or_none(line)
    return isinstance(value, dict) and bool(value)


def _is_mostly_whole(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether broken JSON is JSONL whose first line is broken: most of its lines are records."""
    return len(lines) > 1 and 2 * sum(_is_whole(line) for _, line in lines) >= len(lines)


def _or_none(text: str) -> object:
    """The JSON value in a text, None where it is broken."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parsed(text: str, name: str, line: int = 1, *, is_line: bool = False) -> object:
    """The JSON value in a text that begins at a line, and in a file of JSONL is that line."""
    skippable = line if is_line else None
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        raise SessionError(f"{name} is broken JSON at {where}: {error.msg}", skippable) from error
    except NotJSONError as error:
        where = f" in line {line}" if is_line else ""
        raise SessionError(f"{name} holds {error}{where}, which is no number in JSON", skippable) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a very deep nest
        where = f" in line {line}" if is_line else ""
        raise SessionError(f"{name} holds a number or a nest that cannot be read{where}: {error}", skippable) from error


class NotJSONError(ValueError):
    """A number that Python reads and JSON does not have."""


def _refused(text: str) -> NoReturn:
    raise NotJSONError(text)


def _finite(text: str) -> float:
    """A number, unless it is so large that it would be written as Infinity."""
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


DECODER = json.JSONDecoder(parse_constant=_refused, parse_float=_finite)


def _is_message(value: object) -> bool:
    """A message with a role, an item of the Responses API, or a content of the Gemini API."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    is_item = isinstance(kind, str) and (kind in ITEM_TYPES or kind.endswith(("_call", "_output")))
    return isinstance(value.get("role"), str) or is_item or isinstance(value.get("parts"), list)


def _message(value: object, name: str, line: int | None = None) -> object:
    if _is_message(value):
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
