"""The two kinds of edits: replace a part by a text, and take whole messages out. Decides nothing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoprune.conversation.transcript import Part, Thought


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

    Its text has at most `room` tokens. `rest` is the message without it, None where it holds nothing else. `tokens` is
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
