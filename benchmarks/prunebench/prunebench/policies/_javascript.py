"""Texts as programs in JavaScript count and cut them: in UTF-16 code units, of which "😀" has two."""

import json


def units(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, start: int, stop: int | None = None, *, halves: str = "replace") -> str:
    """Return a slice of a text, by UTF-16 code units. Half a character becomes U+FFFD, or nothing with "ignore"."""
    if text.isascii():
        return text[start:stop]
    coded = text.encode("utf-16-le", "surrogatepass")
    return coded[2 * start : None if stop is None else 2 * stop].decode("utf-16-le", halves)


def chars_to_tokens(text: str) -> int:
    """Return a quarter of the length, rounded half up: the usual estimate of tokens."""
    return (units(text) + 2) // 4


def json_text(value: object, indent: int | None = None) -> str:
    """Serialize like JSON.stringify."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
