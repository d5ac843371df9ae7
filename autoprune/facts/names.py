"""Names in texts: words that somebody made up for something, by which it is known again."""

import re

LEAST_NAME = 7  # characters
# In ASCII, so that a name is found between words of a script without spaces: 使用load_settings函数.
NAME = re.compile(r"\b[A-Za-z_]\w{6,}", re.ASCII)
INNER = re.compile(r".+(?:_.|[A-Z]).*")


def names(text: str) -> list[str]:
    """Return the names in a text, each once: words of 7 characters or more with an inner underscore or capital."""
    return [word for word in dict.fromkeys(NAME.findall(text)) if INNER.fullmatch(word)]
