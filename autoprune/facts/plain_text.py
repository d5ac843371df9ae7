"""Helpers for plain text: shorten it to one line, make it sendable, find the identifiers in it."""

import re

LEAST_IDENTIFIER = 7  # characters; shorter words are too often plain English
# ASCII only, so that an identifier is found between words of a script without spaces: 使用load_settings函数.
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w{6,}", re.ASCII)
INNER = re.compile(r".+(?:_.|[A-Z]).*")


def identifiers(text: str) -> list[str]:
    """Find identifiers (snake_case, camelCase) of 7 characters or more in a text, each once, in order."""
    return [word for word in dict.fromkeys(IDENTIFIER.findall(text)) if INNER.fullmatch(word)]


def sendable(text: str) -> str:
    """Replace lone surrogates with U+FFFD, so that a text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def one_line(text: str, most: int) -> str:
    """Join a text to one line of at most `most` characters; "…" marks a cut."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"
