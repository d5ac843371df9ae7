"""The placeholder of a cleared payload, the tokens that it saves, and the mark that recalls the payload.

The same result always gets the same placeholder. With an archive it ends with a mark:

    [Cleared at request 12: read a.py, 900 tokens] [autoprune recall 104839926617352]

The mark is the command that prints the payload. The id is a part of the payload's hash, so it is the same in every
process and does not depend on whether the archive could store the payload. A mark inside a payload is not reused, since
tool output may contain any mark, such as one in the log of another session. If a result is cut and then cleared, the
placeholder carries the id of the cut text, since a walk over pruned output knows only this text, and a walk over the
full history must make the same placeholder. A *pointer*, stored under that id, names the id of the whole payload. The
exception is a placeholder of `cache_aware`: a text that replaces such a placeholder reuses that id, since `cache_aware`
placeholders have no other content, even if a tool printed it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from autoprune.conversation.messages import canonical
from autoprune.conversation.transcript import Part, ToolResult
from autoprune.errors import SettingsError
from autoprune.tokens import Count

CLEARED = "Content cleared to save tokens"
SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)
XML = "xml"  # the kind of results of the XML dialect: their placeholders are elements too
END_TAG = "</tool_result>"


def element(tool: str, sentence: str = SENTENCE) -> str:
    """Return the element that replaces a result of the XML dialect. The name of an unknown tool is left out."""
    name = f" tool_name='{tool}'" if tool and tool != "unknown" else ""
    return f"<tool_result{name} success='true'>{payload(sentence)}{END_TAG}"


def payload(sentence: str = SENTENCE) -> str:
    """Return the text between the tags of a cleared result."""
    return f"\n<message>{CLEARED}</message>\n<content>{sentence}</content>\n"


def element_content(whole: str, tool: str = "") -> str:
    """Return the text between the tags of an element for a tool, or the whole text if there are no tags."""
    if not whole.startswith("<tool_result") or not whole.endswith(END_TAG):
        return whole
    named = whole.find(tool) + len(tool) if tool else 0  # a name may hold ">"
    return whole[whole.index(">", named) + 1 : -len(END_TAG)]


def frame_text(result: ToolResult, text: str) -> str:
    """Encode a text as the result's dialect requires inside a message's text: by escaping, or as a JSON string."""
    return str(result.put(result.text, text)) if result.location.start is not None else text


def replacement_text(result: ToolResult, text: str, mark: str = "") -> str:
    """Encode a strategy's text to replace a payload, so that the text cannot end the result early.

    If the payload already equals that text, with or without a mark, return the payload unchanged.
    """
    plain = trim_text(result, frame_text(result, text))
    if split_mark(result.text)[0] == split_mark(plain)[0]:
        return result.text
    return trim_text(result, frame_text(result, append_mark(text, mark)))


def trim_text(result: ToolResult, text: str) -> str:
    """Strip line breaks from the ends of a text if the dialect ignores them there."""
    return text if result.location.start is None or result.kind == XML else text.strip("\r\n")


@dataclass(frozen=True)
class Placeholder:
    """Write placeholders, and compute the tokens that each placeholder saves.

    `element` overrides the XML element for a tool; only the text between its tags is used, since a result keeps its own
    tags. If `recalls`, each placeholder carries the id that recalls the payload.
    """

    count: Count
    sentence: str = SENTENCE
    element: Callable[[str], str] | None = None
    recalls: bool = False

    def mark(self, part: Part) -> str:
        """Return the mark that recalls a part's payload; "" without an archive."""
        return mark(text_to_archive(part)) if self.recalls else ""

    def text(self, result: ToolResult, mark: str = "") -> str:
        """Return the placeholder of a result with a mark; an existing placeholder is returned unchanged.

        Raises SettingsError if `element` or `sentence` gives a blank text, which providers refuse.
        """
        text = whole = self.sentence
        if result.kind == XML:
            whole = self.element(result.tool) if self.element else element(result.tool, self.sentence)
            text = element_content(whole, result.tool) if isinstance(whole, str) else ""
        if not isinstance(text, str) or not text.strip():
            raise SettingsError(f"the placeholder of {result.tool!r} is {whole!r}: providers refuse blank text")
        framed = text if result.location.start is None else frame_text(result, text)
        payload = result.piece[result.start : result.stop]  # `result.text`, without a call for each result
        if split_mark(payload)[0] == framed:
            return payload
        return frame_text(result, append_mark(text, mark)) if mark else framed

    def saves(self, part: Part, text: str) -> int:
        """Return the tokens saved by replacing a part's payload with `text`; negative if the text is larger."""
        if part.is_fixed:
            return 0
        # Counts of joined texts need not add up, so a text is counted within its piece.
        is_whole = part.start == 0 and part.stop == len(part.piece)
        return part.piece_tokens - self.count(text if is_whole else part.with_text(text))

    def has_replaced(self, result: ToolResult) -> bool:
        """Return whether a result was cleared before, with or without a mark."""
        return result.text == self.text(result)


# Tokenizers join three decimal digits, but fewer than two hexadecimal ones. Among 100,000 payloads two share an id with
# a probability of 5 in a million.
DIGITS = 15
OLD_DIGITS = 16  # hexadecimal, as first written: these are still read
ID = re.compile(rf"[0-9]{{{DIGITS}}}(?![0-9a-f])|[0-9a-f]{{{OLD_DIGITS}}}")
TOOL = "recall"  # the name of the tool that returns the content with an id
HEAD = "[autoprune recall "
OLD_HEAD = "[recall id "
GAP = " "  # before the mark
# A mark at the end of a text, of an XML result's content, or of a JSON string.
MARK = re.compile(
    rf'(?:\\n|[ \n])?\[(?:autoprune recall|recall id) ({ID.pattern})\](?=(?:</content>)?(?:\s|\\n)*+"?\s*+\Z)'
)
CONTENT_END = "</content>"
PLACEHOLDER = re.compile(r'"?\[Cleared at request \d{1,9}: [^\n]{1,900}\]"?')  # `cache_aware`'s, at its longest
POINTER = "autoprune: {} is a part of, or a placeholder for, {}"


def content_id(content: str) -> str:
    """Return the id of a payload, a part of its content's hash."""
    return f"{int.from_bytes(_hash(content)[:8]) % 10**DIGITS:0{DIGITS}d}"


def has_id(content: str, id: str) -> bool:
    """Return whether an id is that of a payload, in the form of today or the older one."""
    return id in (content_id(content), _hash(content).hex()[:OLD_DIGITS])


def _hash(content: str) -> bytes:
    return sha256(content.encode("utf-8", "surrogatepass")).digest()


def recall_id(content: str) -> str:
    """Return the id under which a payload is recalled.

    This is the id in a `cache_aware` placeholder, or else the hash of the content.
    """
    body, id = split_mark(content)
    return id if id and PLACEHOLDER.fullmatch(body.strip()) else content_id(content)


def mark(content: str) -> str:
    """Return the mark that carries the id of a payload."""
    return f"{HEAD}{recall_id(content)}]"


def pointer(id: str, whole: str) -> str:
    """Return the text that an archive stores under `id` to point to the payload with the id `whole`.

    `id` belongs to a text that replaced the payload.
    """
    return POINTER.format(id, whole)


def pointer_target(kept: str, id: str) -> str | None:
    """Return the payload's id that a pointer stored under `id` names; None for any other text."""
    whole = kept.rpartition(" ")[2]
    return whole if ID.fullmatch(whole) and kept == pointer(id, whole) else None


def append_mark(text: str, known: str, gap: str = GAP) -> str:
    """Append a mark to a text, unless the mark is empty or the text already carries it."""
    if not known or known in text:
        return text
    body = text.rstrip()
    # Inside the element of an XML result, before its end tag.
    end = len(body.removesuffix(CONTENT_END)) if body else len(text)
    return f"{text[:end]}{gap}{known}{text[end:]}"


def split_mark(text: str) -> tuple[str, str]:
    """Split a text into the text without the mark at its end, and the mark's id ("" without a mark)."""
    at = max(text.rfind(HEAD), text.rfind(OLD_HEAD))
    match = MARK.search(text, max(0, at - 2)) if at >= 0 else None
    return (text[: match.start()] + text[match.end() :], match[1]) if match else (text, "")


def text_to_archive(part: Part) -> str:
    """Return the text to archive for a payload: its text, or JSON if it holds more than text, such as an image."""
    if part.is_plain or part.value is None:
        return part.text
    try:
        return canonical(part.value)
    except RecursionError:  # nested too deeply to be written
        return part.text
