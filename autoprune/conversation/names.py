"""Names in texts: words that somebody made up for something, by which it is known again."""

import re

LEAST_NAME = 7  # characters
NAME = re.compile(r"\b[A-Za-z_]\w{6,}")
ASCII_NAME = re.compile(NAME.pattern, re.ASCII)  # finds the same in a text that is ASCII, in half of the time
INNER = re.compile(r".+(?:_.|[A-Z]).*")


def names(text: str) -> list[str]:
    """Return the names in a text, each once: words of 7 characters or more with an inner underscore or capital."""
    found = (ASCII_NAME if text.isascii() else NAME).findall(text)
    return [word for word in dict.fromkeys(found) if INNER.fullmatch(word)]
