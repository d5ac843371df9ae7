"""The id by which a cleared payload can be recalled, and the mark that carries it. Keeps nothing.

An id is the beginning of a hash of the payload, so that it is the same in every process and does not depend on whether
the payload could be kept. The mark stands at the end of the text that takes the payload's place:

    [Cleared at request 12: read a.py, 900 tokens] [recall id 1f0c2b6a99d3e570]

A mark in a payload is not passed on, since a tool may print any mark, such as one in the log of another session. If a
result is cut and then cleared, the placeholder's id is that of the cut text, which a walk over the full history and one
over pruned output both know. A *pointer*, kept under that id, names the id of the whole payload. Only a placeholder of
`cache_aware` hands its id on when it is replaced by another one: it says nothing else, whoever has written it.
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
PLACEHOLDER = re.compile(r'"?\[Cleared at request \d{1,9}: [^\n]{1,900}\]"?')  # `cache_aware`'s, as long as it can be
POINTER = "autoprune: {} is a part of, or a placeholder for, {}"


def content_id(content: str) -> str:
    """Return the id of a payload by its content alone."""
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def recall_id(content: str) -> str:
    """Return the id by which a payload is recalled: that of its content, or that which a placeholder carries."""
    body, id = parted(content)
    return id if id and PLACEHOLDER.fullmatch(body.strip()) else content_id(content)


def mark(content: str) -> str:
    """Return the mark that carries the id of a payload."""
    return f"{HEAD}{recall_id(content)}]"


def pointer(id: str, whole: str) -> str:
    """Return what an archive keeps under the id of a text that was put in place of the payload with the id `whole`."""
    return POINTER.format(id, whole)


def pointed_to(kept: str, id: str) -> str | None:
    """Return the id that a pointer under an id names; None for any other text."""
    whole = kept[-DIGITS:]
    return whole if ID.fullmatch(whole) and kept == pointer(id, whole) else None


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
