"""JSON text in and out, and looking into parsed values whose shape is not known yet. Changes no value."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from autoprune.errors import SessionError

Object: TypeAlias = Mapping[str, object]
NOTHING: Object = {}


def fields(value: object) -> Object:
    """Return the fields of a JSON object; none for anything else."""
    return value if isinstance(value, dict) else NOTHING


def listed(value: object) -> Sequence[object]:
    """Return the items of a JSON list; none for anything else."""
    return value if isinstance(value, list) else ()


def objects(value: object) -> list[Object]:
    """Return the JSON objects in a list; none for anything else."""
    return [item for item in listed(value) if isinstance(item, dict)]


def text(value: object) -> str:
    """Return a string as it is, and the empty one for anything else."""
    return value if isinstance(value, str) else ""


def parse(text: str, name: str, line: int = 1, *, is_line: bool = False) -> object:
    """Return the JSON value in a text of the file `name` that begins at `line`.

    `is_line` says that the text is a whole line of JSONL, which can be skipped: a SessionError then carries its number.
    Raises SessionError that says where the JSON is broken, and for NaN, Infinity and whatever Python cannot hold.
    """
    skippable = line if is_line else None
    where = f" in line {line}" if is_line else ""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        raise SessionError(f"{name} is broken JSON at {place}: {error.msg}", skippable) from error
    except _NotJSONError as error:
        raise SessionError(f"{name} holds {error}{where}, which is no number in JSON", skippable) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, a very deep nest
        raise SessionError(f"{name} holds a number or a nest that cannot be read{where}: {error}", skippable) from error


def parse_or_none(text: str) -> object:
    """Return the JSON value in a text, None where it is broken."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _NotJSONError(ValueError):
    """A number that Python reads and JSON does not have."""


def _refuse(text: str) -> NoReturn:
    raise _NotJSONError(text)


def _finite(text: str) -> float:
    """Return a number, unless it is so large that it would be written as Infinity."""
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def dump(value: object, indent: int | None = None) -> str:
    """Write JSON text, readable where it can be encoded as UTF-8, escaped where it holds a lone surrogate."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def compact(value: object) -> str:
    """Write JSON text without spaces, as JavaScript's JSON.stringify does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
