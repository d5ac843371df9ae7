"""The placeholder of a cleared payload, the tokens that it saves, and the mark by which the payload can be recalled.

The same result always gets the same placeholder. With an archive it ends with a mark:

    [Cleared at request 12: read a.py, 900 tokens] [recall id 1f0c2b6a99d3e570]

The id is the beginning of a hash of the payload, so it is the same in every process and does not depend on whether the
payload could be kept. A mark in a payload is not passed on, since a tool may print any mark, such as one in the log of
another session. If a result is cut and then cleared, the placeholder's id is that of the cut text, which a walk over
the full history and one over pruned output both know. A *pointer*, kept under that id, names the id of the whole
payload. Only a placeholder of `cache_aware` hands its id on when it is replaced by another one: it says nothing else,
whoever has written it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from autoprune.conversation.messages import canonical, item
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.errors import SettingsError
from autoprune.tokens import Count

CLEARED = "Content cleared to save tokens"
SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)
XML = "xml"  # the kind of a result that is an element of the XML dialect, and whose placeholder is one
END_TAG = "</tool_result>"


def element(tool: str, sentence: str = SENTENCE) -> str:
    """Return a cleared result of the XML dialect as a whole element, without a tool's name that is not known."""
    name = f" tool_name='{tool}'" if tool and tool != "unknown" else ""
    return f"<tool_result{name} success='true'>{payload(sentence)}{END_TAG}"


def payload(sentence: str = SENTENCE) -> str:
    """Return the text between the tags of a cleared result."""
    return f"\n<message>{CLEARED}</message>\n<content>{sentence}</content>\n"


def inside(whole: str, tool: str = "") -> str:
    """Return the text between the tags of an element made for a tool; all of it if there are no tags."""
    if not whole.startswith("<tool_result") or not whole.endswith(END_TAG):
        return whole
    named = whole.find(tool) + len(tool) if tool else 0  # a name may hold ">"
    return whole[whole.index(">", named) + 1 : -len(END_TAG)]


def framed(result: ToolResult, text: str) -> str:
    """Return a text as its dialect puts it in place of a payload inside a text: escaped, or as a JSON string."""
    return str(result.put(result.text, text)) if result.location.start is not None else text


def own(result: ToolResult, text: str, mark: str = "") -> str:
    """Return a strategy's own text as it stands in place of a payload: inside texts it holds nothing that ends it.

    A text that stands there already, with whatever mark, is returned unchanged.
    """
    plain = trimmed(result, framed(result, text))
    if parted(result.text)[0] == parted(plain)[0]:
        return result.text
    return trimmed(result, framed(result, marked(text, mark)))


def trimmed(result: ToolResult, text: str) -> str:
    """Return a text without line breaks at its ends if it stands in a text whose readers leave these out."""
    return text if result.location.start is None or result.kind == XML else text.strip("\r\n")


@dataclass(frozen=True)
class Placeholder:
    """A maker of placeholders, which knows what each of them saves.

    `element` makes the whole XML element for a tool, where it is another than the usual one; of it only the inside is
    used, since a result keeps its own tags. With `recalls` each carries the id by which the payload can be recalled.
    """

    count: Count
    sentence: str = SENTENCE
    element: Callable[[str], str] | None = None
    recalls: bool = False

    def mark(self, part: Part, messages: Sequence[object]) -> str:
        """Return the mark of a part in a conversation, by which its payload can be recalled; "" without an archive."""
        return mark(archived_text(part, messages)) if self.recalls else ""

    def text(self, result: ToolResult, mark: str = "") -> str:
        """Return the placeholder of a result's payload with a mark; one that stands there already as it is."""
        is_xml = result.kind == XML
        whole = self._element(result.tool) if is_xml else self.sentence
        text = (inside(whole, result.tool) if is_xml else whole) if isinstance(whole, str) else ""
        if not text.strip():
            raise SettingsError(f"the placeholder of {result.tool!r} is {whole!r}: providers refuse blank text")
        payload = result.piece[result.start : result.stop]
        text_there = text if result.location.start is None else framed(result, text)
        if parted(payload)[0] == text_there:
            return payload
        return framed(result, marked(text, mark)) if mark else text_there

    def _element(self, tool: str) -> str:
        return self.element(tool) if self.element else element(tool, self.sentence)

    def cleared(self, result: ToolResult, mark: str) -> tuple[str, int]:
        """Return the placeholder of a result's payload with a mark, and the tokens that it saves."""
        text = self.text(result, mark)
        return text, self.saves(result, text)

    def saves(self, part: Part, text: str) -> int:
        """Return the tokens that a text in place of the payload saves; below zero if the text is larger."""
        if part.is_fixed:
            return 0
        is_whole = part.start == 0 and part.stop == len(part.piece)
        return part.piece_tokens - self.count(text if is_whole else part.with_text(text))

    def stands_in(self, result: ToolResult) -> bool:
        """Return whether the result was cleared before, with a mark or without."""
        return result.text == self.text(result)


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
    """Return a text with a mark at its end; itself if there is no mark, or where it carries that one already."""
    if not known or known in text:
        return text
    body = text.rstrip()
    end = len(body.removesuffix(CONTENT_END)) if body else len(text)
    return f"{text[:end]}{gap}{known}{text[end:]}"


def parted(text: str) -> tuple[str, str]:
    """Return a text without the mark at its end, and the id that the mark carries; "" if there is none."""
    at = text.rfind(HEAD)
    match = MARK.search(text, max(0, at - 2)) if at >= 0 else None
    return (text[: match.start()] + text[match.end() :], match[1]) if match else (text, "")


def archived_text(part: Part, messages: Sequence[object]) -> str:
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
