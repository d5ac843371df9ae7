"""The placeholder of a cleared result, and the tokens that it saves. The same result always gets the same one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprune.conversation import recall
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
    """Return the text between the tags of an element made for a tool; all of it where there are no tags."""
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
    if recall.parted(result.text)[0] == recall.parted(plain)[0]:
        return result.text
    return trimmed(result, framed(result, recall.marked(text, mark)))


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
        return recall.mark(recall.content(part, messages)) if self.recalls else ""

    def text(self, result: ToolResult, mark: str = "") -> str:
        """Return the placeholder of a result's payload with a mark; one that stands there already as it is."""
        whole = self._element(result.tool) if result.kind == XML else self.sentence
        text = inside(whole, result.tool) if isinstance(whole, str) else ""
        if not text.strip():
            raise SettingsError(f"the placeholder of {result.tool!r} is {whole!r}: providers refuse blank text")
        if recall.parted(result.text)[0] == framed(result, text):
            return result.text
        return framed(result, recall.marked(text, mark))

    def _element(self, tool: str) -> str:
        return self.element(tool) if self.element else element(tool, self.sentence)

    def saves(self, part: Part, text: str) -> int:
        """Return the tokens that a text in place of the payload saves; below zero where the text is larger."""
        return 0 if part.is_fixed else part.piece_tokens - self.count(part.with_text(text))

    def stands_in(self, result: ToolResult) -> bool:
        """Return whether the result was cleared before, with a mark or without."""
        return result.text == self.text(result)
