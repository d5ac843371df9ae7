"""Edits: replace a part with a text, or fold messages, with a reason for each; and the texts. Decides nothing.

Edits are applied to a copy that shares everything unchanged. A reason is an identifier for programs with a sentence for
people; a custom strategy may use any short text as its reason.

**Placeholders.** The same result always gets the same placeholder. With an archive it ends with a mark:

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
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeAlias

from autoprune.conversation.messages import canonical, item, with_item, with_items
from autoprune.conversation.transcript import Part, Path, Thought, ToolResult, as_text
from autoprune.errors import SettingsError
from autoprune.tokens import Count


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace the payload of `part` with `text`, which saves `saved` tokens. The walk sets `request`.

    `reason.sentence` explains the edit to people. `saved_before` is the number of tokens that an earlier
    edit of the same part had already saved, if a result was cut and then cleared. `mark` carries the id that recalls
    the payload; "" without an archive. `may_change` says that a later edit may replace the text, such as a cut.
    """

    part: Part
    text: str = field(repr=False)
    reason: "AnyReason"
    saved: int
    request: int = -1
    saved_before: int = 0
    mark: str = ""
    may_change: bool = False

    @property
    def recall_id(self) -> str:
        """The id that recalls the payload from the pruner's archive; "" without an archive."""
        return split_mark(self.mark)[1]


@dataclass(frozen=True, slots=True)
class Fold:
    """Remove messages from the prompt, by index. Their content goes into the running summary, or is dropped.

    `room` is the maximum tokens of the summary's text afterwards, 0 for a drop. `saved` is the number of tokens in the
    messages, not counting the summary. A fold of finished steps has a `text` that takes their place, and `room` is then
    the tokens of that text.
    """

    messages: tuple[int, ...]
    reason: "AnyReason"
    saved: int
    room: int = 0
    request: int = -1
    text: str = field(default="", repr=False)

    @property
    def is_drop(self) -> bool:
        """Whether the messages are dropped without a summary or a text in their place."""
        return self.room == 0


def savings_by_message(edits: Iterable[Replace], stripped: Iterable[Thought] = ()) -> Mapping[int, int]:
    """Return the tokens that edits and stripped thinking save, by message."""
    saved: dict[int, int] = defaultdict(int)
    for edit in edits:
        saved[edit.part.location.message] += edit.saved
    for thought in stripped:
        saved[thought.location.message] += thought.tokens
    return saved


LONGEST_REASON = 80  # characters


class CustomReason(str):
    """A strategy's own reason: a short text, with a `sentence` that explains it to people; by default the same text."""

    sentence: str
    lasts = False

    def __new__(cls, text: str, sentence: str = "") -> "CustomReason":
        """Create a reason from its text and its sentence."""
        reason = super().__new__(cls, text)
        reason.sentence = sentence or text
        return reason

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.sentence


class Reason(StrEnum):
    """The reason why a part was changed or kept; `sentence` explains the reason to people.

    A reason that `lasts` keeps a result unchanged at all later requests too.
    """

    sentence: str
    lasts: bool

    def __new__(cls, text: str, sentence: str, lasts: bool = False) -> "Reason":
        """Create a reason with a text for programs and a sentence for people."""
        reason = str.__new__(cls, text)
        reason._value_, reason.sentence, reason.lasts = text, sentence, lasts
        return reason

    OVER_SAFE_ZONE = ("over_safe_zone", "the prompt was above the safe zone: oldest first, until it fits")
    TO_TARGET = ("to_target", "the prompt was above the safe zone: oldest first, to the target")
    OUT_OF_REACH = ("out_of_reach", "the safe zone cannot be reached: all that may be cleared is cleared")
    CLAMPED = ("clamped", "larger than a single result may be: only its head and tail are kept")
    RESTORED = ("restored", "it refers to an earlier read that was cleared: that read's text is here again")
    SHORTENED = ("shortened", "larger than a single result may be: a summary replaces it")
    TOO_MANY_MESSAGES = ("too_many_messages", "there are more messages than the strategy keeps: the oldest go first")
    LEAST_HARMFUL = ("least_harmful", "no place to cut was safe: this one does the least harm")
    BEGINS_WITH_USER = ("begins_with_user", "the provider requires that a message of the user comes first")
    WITHIN_SAFE_ZONE = ("within_safe_zone", "the prompt is within the safe zone without clearing it")
    NOT_CHOSEN = ("not_chosen", "the strategy chose to keep it")
    UNSEEN = ("unseen", "the model has not seen it yet")
    NO_GAIN = ("no_gain", "a placeholder would not be smaller", True)
    ALREADY_CLEARED = ("already_cleared", "it was cleared before", True)
    BOUND = ("bound", "thinking behind it is bound to it, and thinking_policy is 'refuse'")
    PINNED = ("pinned", "protected: its message is pinned", True)
    PROTECTED_TOOL = ("protected_tool", "protected: results of its tool always stay", True)
    PROTECTED_PATH = ("protected_path", "protected: results of its path always stay", True)
    INSTRUCTIONS = ("instructions", "protected: it is a file of instructions for agents", True)
    USER_ANSWER = ("user_answer", "protected: the user's own words", True)
    REFERRED_TO = ("referred_to", "protected: a later read refers to it, or it refers to an earlier one")
    FAILED = ("failed", "protected: results of failed calls stay", True)
    SMALL = ("small", "protected: it is smaller than the least size to clear", True)
    AMONG_LAST = ("among_last", "protected: it is among the newest results")
    IN_TOKEN_WINDOW = ("in_token_window", "protected: it is within the newest tokens")


AnyReason: TypeAlias = Reason | CustomReason
REASONS = {str(each): each for each in Reason}


def sentence(reason: str) -> str:
    """Return a short explanation of a reason: the sentence of a `Reason`, the text of a custom one."""
    known = REASONS.get(reason)
    return known.sentence if known else reason


def check_reason(reason: object) -> AnyReason:
    """Normalize a reason for the plan: join it to one line, and cut a custom text to 80 characters.

    Raises SettingsError if the reason is blank or not a string.
    """
    if isinstance(reason, AnyReason):
        return reason
    words = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not words:
        raise SettingsError(f"a strategy gave the reason {reason!r}: give a short text, such as 'largest first'")
    if words in REASONS:
        return REASONS[words]
    return CustomReason(words if len(words) <= LONGEST_REASON else words[: LONGEST_REASON - 1].rstrip() + "…")


# Returns the new value, given the old one and the edits, parts or thoughts in it.
Change: TypeAlias = Callable[[object, Sequence[Any]], object]


def apply(messages: list[Any], edits: Sequence[Replace]) -> list[Any]:
    """Apply edits to a copy of the conversation that shares unchanged messages; without edits, return the list."""
    return _change_messages(messages, [(int(edit.part.location.path[0]), edit) for edit in edits], rewrite)


def strip_thinking(messages: list[Any], thoughts: Sequence[Thought]) -> list[Any]:
    """Remove blocks of thinking from a copy of the conversation; without blocks, return the list itself."""
    return _change_messages(messages, [(thought.location.message, thought) for thought in thoughts], remove_thinking)


def _change_messages(messages: list[Any], placed: Sequence[tuple[int, Any]], change: Change) -> list[Any]:
    """Copy a conversation with changes made to messages, each given all that is placed in its message."""
    if not placed:
        return messages
    groups: dict[int, list[Any]] = {}
    for at, one in placed:
        groups.setdefault(at, []).append(one)
    changed = list(messages)
    for at, group in groups.items():
        changed[at] = change(messages[at], group)
    return changed


def remove_thinking(message: object, thoughts: Sequence[Thought]) -> object:
    """Remove some blocks of thinking from a copy of a message."""
    groups = _group_by_name([(thought.location.path[1:], thought) for thought in thoughts])
    for name, group in groups.items():
        blocks = item(message, name)
        assert isinstance(blocks, list | tuple)
        gone = {path[0] for path, _ in group}
        message = with_item(message, name, [block for index, block in enumerate(blocks) if index not in gone])
    return message


def rewrite(message: object, edits: Sequence[Replace]) -> object:
    """Apply the edits of one message to a copy of the message."""
    # The common case, one edit of a field of a dict, needs no recursion.
    if len(edits) == 1 and type(message) is dict:
        (edit,) = edits
        location, name = edit.part.location, edit.part.location.path[-1]
        if len(location.path) == 2 and isinstance(message[name], str):
            is_whole = location.start is None and edit.part.put is as_text
            return {**message, name: edit.text if is_whole else _insert_texts(message[name], edits)}
    return _copy_with(message, [(edit.part.location.path[1:], edit) for edit in edits], _insert_texts)


def without_payloads(message: object, parts: Sequence[Part]) -> object:
    """Return a copy of a message without the payloads of `parts`; containers, and a result's name and id, remain."""
    return _copy_with(message, [(part.location.path[1:], part) for part in parts], _empty)


def _copy_with(value: object, placed: Sequence[tuple[Path, Any]], change: Change) -> object:
    """Copy `value` with changes made at paths within it; each list, mapping and text is copied once."""
    inside = [one for one in placed if one[0]]
    if inside:
        groups = _group_by_name(inside)
        value = with_items(
            value, {name: _copy_with(item(value, name), group, change) for name, group in groups.items()}
        )
    here = [one for path, one in placed if not path]
    return change(value, here) if here else value


def _group_by_name(placed: Sequence[tuple[Path, Any]]) -> dict[int | str, list[tuple[Path, Any]]]:
    """Group pairs of a path and an edit by the path's first name. Each edit keeps the rest of its path."""
    groups: dict[int | str, list[tuple[Path, Any]]] = {}
    for path, one in placed:
        groups.setdefault(path[0], []).append((path[1:], one))
    return groups


def _insert_texts(value: object, edits: Sequence[Replace]) -> object:
    """Insert the texts of edits into the value that they change, keeping its shape. A text may have several edits."""
    if edits[0].part.location.start is None:
        return edits[0].part.put(value, edits[0].text)
    whole, at = str(value), 0
    texts: list[str] = []
    # Front to back: all offsets are those of the original text.
    for edit in sorted(edits, key=lambda edit: edit.part.location.start or 0):
        texts += (whole[at : edit.part.location.start], edit.text)
        at = edit.part.location.stop or 0
    return "".join((*texts, whole[at:]))


def _empty(value: object, parts: Sequence[Part]) -> object:
    """Return the value that is left of a removed payload: None, or an empty result with the same shape."""
    part = parts[0]
    is_payload = not isinstance(part, ToolResult) or part.is_fixed or isinstance(value, str | list | tuple | None)
    return None if is_payload else part.put(value, "")


# Placeholders, and the marks that recall what they replace

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
