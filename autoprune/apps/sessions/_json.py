"""Decode files, parse and write JSON, and read fields of values of unknown shape. Changes no value."""

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from autoprune.errors import SessionError

Object: TypeAlias = Mapping[str, object]
NOTHING: Object = {}
GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
LONE = re.compile("[\ud800-\udfff]")
BAD = "\ufffd"  # stands for bytes that are not UTF-8
# With more bad bytes than this (a number, or a share of the characters), a file is in another encoding.
FEW, MOST_BAD = 8, 0.01


def decode(data: bytes, name: str) -> str:
    """Decode a file: UTF-8, UTF-16 or UTF-32, with or without a byte order mark, perhaps compressed with gzip.

    A few bytes that are not UTF-8 are read as U+FFFD, and a truncated last character is dropped. Raises SessionError
    that names the first bad byte of a file in another encoding.
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
        text = codecs.getincrementaldecoder(encoding)("replace").decode(data)
        bad = text.count(BAD) - data.count(BAD.encode())  # agents write U+FFFD for bad bytes in what they read
        if encoding.startswith("utf-8") and bad <= max(FEW, MOST_BAD * len(text)):
            return text
        kind = encoding.upper().removesuffix("-SIG")
        raise SessionError(f"{name} is not {kind} text: byte {error.start} is {data[error.start]:#04x}") from error


def fields(value: object) -> Object:
    """Return the fields of a JSON object; empty for anything else."""
    return value if isinstance(value, dict) else NOTHING


def listed(value: object) -> Sequence[object]:
    """Return the items of a JSON list; empty for anything else."""
    return value if isinstance(value, list) else ()


def objects(value: object) -> list[Object]:
    """Return the JSON objects in a list; empty for anything else."""
    return [item for item in listed(value) if isinstance(item, dict)]


def text(value: object) -> str:
    """Return a string unchanged; "" for anything else."""
    return value if isinstance(value, str) else ""


def parse_json(text: str, name: str, line: int = 1, *, is_line: bool = False) -> object:
    """Parse JSON text that begins at `line` of the file `name`.

    Raises SessionError with the position of the error, also for NaN, Infinity and numbers that Python cannot hold.
    `is_line` means that the text is a line of JSONL, which can be skipped: then the error has its number.
    """
    skippable = line if is_line else None
    where = f" in line {line}" if is_line else ""
    try:
        return _DECODER.decode(text)  # stricter than json.loads, because the value is written again as JSON
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        raise SessionError(f"{name} is broken JSON at {place}: {error.msg}", skippable) from error
    except _NotJSONError as error:
        raise SessionError(f"{name} holds {error}{where}, which is not a number in JSON", skippable) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or very deep nesting
        raise SessionError(
            f"{name} holds a number or nesting that cannot be parsed{where}: {error}", skippable
        ) from error


def try_parse(text: str) -> object:
    """Parse JSON text; return None if it is broken."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _NotJSONError(ValueError):
    """Raised for a number that Python parses, but that is not JSON."""


def _refuse(text: str) -> NoReturn:
    raise _NotJSONError(text)


def _finite(text: str) -> float:
    """Parse a number, and reject it if it is so large that Python would write it as Infinity."""
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def dump(value: object, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Write JSON text, with escapes only for lone surrogates, which UTF-8 cannot encode."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def compact(value: object) -> str:
    """Write JSON text without spaces, like JavaScript's JSON.stringify."""
    return dump(value, separators=(",", ":"))
