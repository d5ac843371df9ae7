"""What may be done to a conversation, why, and doing it: a part is replaced by a text, whole messages are taken out.

Edits are made in a copy that shares everything that does not change. A reason is a name for machines with a sentence
for people; a caller's own strategy may give any short text as its reason. Decides nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from autoprune.conversation.messages import item, with_item, with_items
from autoprune.conversation.transcript import Part, Path, Thought, ToolResult, as_text
from autoprune.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Replace:
    """Put `text` where the payload of `part` stands, which saves `saved` tokens; the walk says at which `request`.

    `reason` is one of `reasons.Reason`, or a short text of the strategy's own.
    `saved_before` is what an earlier edit of the same part had saved already: a result that was cut, then cleared.
    `mark` carries the id by which the payload can be recalled; "" without an archive. `may_change` tells that the text
    may itself be replaced later, such as a cut.
    """

    part: Part
    text: str = field(repr=False)
    reason: str
    saved: int
    request: int = -1
    saved_before: int = 0
    mark: str = ""
    may_change: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """Take messages out of the prompt, by their indexes. What they held goes into the running summary, or is dropped.

    `room` are the tokens that the summary's text may have from then on, 0 for a drop. `saved` are those of the
    messages, without what the summary takes.
    """

    messages: tuple[int, ...]
    reason: str
    saved: int
    room: int = 0
    request: int = -1

    @property
    def is_drop(self) -> bool:
        """Return whether nothing stands in place of the messages."""
        return self.room == 0


# How the model had made its calls when a summary was written.
CALLS_IN_TEXT = "calls in text"  # the model has spoken, and has made no native call
NO_ANSWER = "no answer yet"  # the model has not spoken
CALLS_LATER = "calls later"  # the model has not spoken before the first message that stays, and made native calls after


@dataclass(frozen=True)
class Running:
    """The summary that stands in a conversation at message `at`, for `messages` earlier ones.

    Its text has at most `room` tokens. `rest` is the message without it, None if it holds nothing else. `tokens` is
    what the summary adds to the prompt. `calls` says how the model had made its calls when it was written, one
    of `CALLS_IN_TEXT`, `NO_ANSWER`, `CALLS_LATER` and "" for natively, or nobody knows.
    """

    at: int
    text: str = field(repr=False)
    messages: int
    room: int
    rest: Any = field(default=None, repr=False)
    tokens: int = 0
    calls: str = ""


def saved_by_message(edits: Iterable[Replace], stripped: Iterable[Thought] = ()) -> Mapping[int, int]:
    """Return the tokens that edits and stripped thinking save, by message."""
    saved: dict[int, int] = defaultdict(int)
    for edit in edits:
        saved[edit.part.location.message] += edit.saved
    for thought in stripped:
        saved[thought.location.message] += thought.tokens
    return saved


LONGEST_REASON = 80  # characters


class Reason(StrEnum):
    """Why a part was changed or kept; `sentence` says it as text."""

    OVER_SAFE_ZONE = "over_safe_zone"
    TO_TARGET = "to_target"
    OUT_OF_REACH = "out_of_reach"
    CLAMPED = "clamped"
    SHORTENED = "shortened"
    TOO_MANY_MESSAGES = "too_many_messages"
    LEAST_HARMFUL = "least_harmful"
    BEGINS_WITH_USER = "begins_with_user"
    WITHIN_SAFE_ZONE = "within_safe_zone"
    NOT_CHOSEN = "not_chosen"
    UNSEEN = "unseen"
    NO_GAIN = "no_gain"
    ALREADY_CLEARED = "already_cleared"
    BOUND = "bound"
    PINNED = "pinned"
    PROTECTED_TOOL = "protected_tool"
    PROTECTED_PATH = "protected_path"
    INSTRUCTIONS = "instructions"
    USER_ANSWER = "user_answer"
    FAILED = "failed"
    SMALL = "small"
    AMONG_LAST = "among_last"
    IN_TOKEN_WINDOW = "in_token_window"

    @property
    def sentence(self) -> str:
        """Return the reason as text."""
        return SENTENCES[self]


SENTENCES: dict[str, str] = {
    Reason.OVER_SAFE_ZONE: "oldest first, until within the safe zone",
    Reason.TO_TARGET: "oldest first, down to the target",
    Reason.OUT_OF_REACH: "the safe zone is out of reach: all that can go, goes",
    Reason.CLAMPED: "larger than a result may be: cut to its head and tail",
    Reason.SHORTENED: "larger than a result may be: summed up",
    Reason.TOO_MANY_MESSAGES: "oldest first: more messages than are kept",
    Reason.LEAST_HARMFUL: "no cut was safe: this one does the least harm",
    Reason.BEGINS_WITH_USER: "the provider wants the user's message first",
    Reason.WITHIN_SAFE_ZONE: "not needed: the safe zone is reached",
    Reason.NOT_CHOSEN: "the strategy kept it",
    Reason.UNSEEN: "the model has not seen it yet",
    Reason.NO_GAIN: "a placeholder would not be smaller",
    Reason.ALREADY_CLEARED: "it was cleared before",
    Reason.BOUND: "thinking behind it is bound to it, and thinking_policy is 'refuse'",
    Reason.PINNED: "protected: its message is pinned",
    Reason.PROTECTED_TOOL: "protected: its tool",
    Reason.PROTECTED_PATH: "protected: its path",
    Reason.INSTRUCTIONS: "protected: a file of instructions",
    Reason.USER_ANSWER: "protected: the user's own words",
    Reason.FAILED: "protected: the call failed",
    Reason.SMALL: "protected: under the minimum size",
    Reason.AMONG_LAST: "protected: among the last results",
    Reason.IN_TOKEN_WINDOW: "protected: within the newest tokens",
}


def sentence(reason: str) -> str:
    """Return a reason in words: that of a strategy's own as it is."""
    return SENTENCES.get(reason, reason)


def check_reason(reason: object) -> str:
    """Return a reason as it goes into the plan: on one line, a text of a strategy's own cut to 80 characters.

    Raises SettingsError for what is no text, or a blank one.
    """
    words = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not words:
        raise SettingsError(f"a strategy gave the reason {reason!r}: give a short text, such as 'largest first'")
    if words in SENTENCES:
        return Reason(words)
    return words if len(words) <= LONGEST_REASON else words[: LONGEST_REASON - 1].rstrip() + "…"


def apply(messages: list[Any], edits: Sequence[Replace]) -> list[Any]:
    """Return the conversation with edits made. What no edit names is the same object; without edits, so is the list."""
    if not edits:
        return messages
    groups: dict[int, list[Replace]] = {}
    for edit in edits:
        groups.setdefault(int(edit.part.location.path[0]), []).append(edit)
    changed = list(messages)
    for at, group in groups.items():
        changed[at] = rewrite(messages[at], group)
    return changed


def strip(messages: list[Any], thoughts: Sequence[Thought]) -> list[Any]:
    """Return the conversation without some blocks of thinking; the list itself if there are none."""
    if not thoughts:
        return messages
    groups: dict[int, list[Thought]] = {}
    for thought in thoughts:
        groups.setdefault(thought.location.message, []).append(thought)
    changed = list(messages)
    for at, group in groups.items():
        changed[at] = thoughtless(messages[at], group)
    return changed


def thoughtless(message: object, thoughts: Sequence[Thought]) -> object:
    """Return a message without some of its blocks of thinking."""
    groups = _by_name([(thought.location.path[1:], thought) for thought in thoughts])
    for name, group in groups.items():
        blocks = item(message, name)
        assert isinstance(blocks, list | tuple)
        gone = {path[0] for path, _ in group}
        message = with_item(message, name, [block for index, block in enumerate(blocks) if index not in gone])
    return message


def rewrite(message: object, edits: Sequence[Replace]) -> object:
    """Return a message with its edits made."""
    if len(edits) == 1 and type(message) is dict:
        (edit,) = edits
        location, name = edit.part.location, edit.part.location.path[-1]
        if len(location.path) == 2 and isinstance(message[name], str):
            is_whole = location.start is None and edit.part.put is as_text
            return {**message, name: edit.text if is_whole else _put(message[name], edits)}
    return _changed(message, [(edit.part.location.path[1:], edit) for edit in edits], _put)


def without(message: object, parts: Sequence[Part]) -> object:
    """Return what stays of a message without its parts: the values that hold them, and a result's name and id."""
    return _changed(message, [(part.location.path[1:], part) for part in parts], _emptied)


Change: TypeAlias = Callable[[object, Sequence[Any]], object]  # what becomes of a value with these in it


def _changed(value: object, placed: Sequence[tuple[Path, Any]], change: Change) -> object:
    """Return a copy of `value` with changes made at places within it; each list, mapping and text is copied once."""
    inside = [one for one in placed if one[0]]
    if inside:
        groups = _by_name(inside)
        value = with_items(value, {name: _changed(item(value, name), group, change) for name, group in groups.items()})
    here = [one for path, one in placed if not path]
    return change(value, here) if here else value


def _by_name(placed: Sequence[tuple[Path, Any]]) -> dict[int | str, list[tuple[Path, Any]]]:
    """Group what has a path by the first name in it, each with the rest of its path."""
    groups: dict[int | str, list[tuple[Path, Any]]] = {}
    for path, one in placed:
        groups.setdefault(path[0], []).append((path[1:], one))
    return groups


def _put(value: object, edits: Sequence[Replace]) -> object:
    """Return a payload with its edits made, in the shape that it had; a text may have several edits."""
    if edits[0].part.location.start is None:
        return edits[0].part.put(value, edits[0].text)
    whole, at = str(value), 0
    texts: list[str] = []
    for edit in sorted(edits, key=lambda edit: edit.part.location.start or 0):
        texts += (whole[at : edit.part.location.start], edit.text)
        at = edit.part.location.stop or 0
    return "".join((*texts, whole[at:]))


def _emptied(value: object, parts: Sequence[Part]) -> object:
    """Return what stays of a payload that is gone."""
    part = parts[0]
    is_payload = not isinstance(part, ToolResult) or part.is_fixed or isinstance(value, str | list | tuple | None)
    return None if is_payload else part.put(value, "")
