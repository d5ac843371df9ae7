"""The id by which a cleared payload can be recalled, and the mark that carries it. Keeps nothing.

An id is the beginning of a hash of the payload, so that it is the same in every process and does not depend on whether
the payload could be kept. The mark stands at the end of the text that takes the payload's place:

    [Cleared at request 12: read a.py, 900 tokens] [recall id 1f0c2b6a99d3e570]

A result that was cut carries the id of the whole. When it is cleared later it passes that id on, so pruned output that
is fed back gets the same placeholders as the full history.
"""

import re
from collections.abc import Sequence
from hashlib import sha256

from autoprune.conversation.messages import canonical, item
from autoprune.conversation.transcript import Part

DIGITS = 16  # 64 bits: among a million payloads two share an id with a probability of 3 in 100 million
ID = re.compile(rf"[0-9a-f]{{{DIGITS}}}")
HEAD = "[recall id "
GAP = " "  # before the mark
# At the end of a text, of an XML result's content, or of a JSON string.
MARK = re.compile(rf'(?:\\n|[ \n])?\[recall id ({ID.pattern})\](?=(?:</content>)?(?:\s|\\n)*+"?\s*+\Z)')
CONTENT_END = "</content>"


def content_id(content: str) -> str:
    """Return the id of a payload by its content alone."""
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def recall_id(content: str) -> str:
    """Return the id that a payload is recalled by: the one that it carries, or else that of its content."""
    return parted(content)[1] or content_id(content)


def mark(content: str) -> str:
    """Return the mark that carries the id of a payload."""
    return f"{HEAD}{recall_id(content)}]"


def marked(text: str, known: str, gap: str = GAP) -> str:
    """Return a text with a mark at its end; itself where there is no mark, or where it carries that one already."""
    if not known or known in text:
        return text
    body = text.rstrip()
    end = len(body.removesuffix(CONTENT_END)) if body else len(text)
    return f"{text[:end]}{gap}{known}{text[end:]}"


def parted(text: str) -> tuple[str, str]:
    """Return a text without the mark at its end, and the id that the mark carries; "" where there is none."""
    at = text.rfind(HEAD)
    match = MARK.search(text, max(0, at - 2)) if at >= 0 else None
    return (text[: match.start()] + text[match.end() :], match[1]) if match else (text, "")


def content(part: Part, messages: Sequence[object]) -> str:
    """Return a payload as it is kept: the text that the model reads, or JSON where it holds more, such as an image."""
    if part.is_plain or part.location.start is not None:
        return part.text
    value: object = messages
    for name in part.location.path:
        value = item(value, name)
    try:
        return canonical(value)
    except RecursionError:  # nested too deeply to be written
        return part.text
