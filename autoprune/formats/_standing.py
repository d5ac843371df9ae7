"""Where in a conversation a user's text can hold results: what the model said before it decides. Looks back only.

A result in a text exists only where it answers something. With a text that holds `<tool_result tool_name='a'>…` after
other words, and what stands before it:

    nothing of the model's                          text: only what begins a text is a result
    "I look."                                       a result
    a native call, and then "I look."               text: who calls natively has its results in native messages
    a native call, and then "<ls><path>.</path></ls>"    a result

The other dialects ask for an opening tag of theirs in what the model said last, well-formed or not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autoprune.conversation.edits import NO_ANSWER, Running
from autoprune.conversation.transcript import ToolCall

OPENING = re.compile(r"<([A-Za-z][A-Za-z0-9_-]*)")
FIRST_OPENING = re.compile(r"^[ \t]*<([A-Za-z][A-Za-z0-9_-]*)", re.MULTILINE)


@dataclass
class Standing:
    """What stands before a message: whether the model has spoken, has made native calls, and what it said last.

    `is_folded`: earlier messages were summarized, so nobody knows any more how the model made its calls. `has_calls`
    says that the text of its last run holds calls that could be read. `is_free`: whatever looks like a result is one,
    as where a conversation is compared with what is left of it.
    """

    has_spoken: bool = False
    is_native: bool = False
    is_folded: bool = False
    has_calls: bool = False
    is_free: bool = False
    _said: list[tuple[str, Sequence[ToolCall]]] = field(default_factory=list)
    _tags: frozenset[str] | None = None

    def next_run(self) -> "Standing":
        """Return what stands before the messages behind a new run of the model's, of which nothing is said yet."""
        return Standing(True, self.is_native, self.is_folded, is_free=self.is_free)

    def say(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Add a text of the model's to its run, with the calls in it."""
        self._said.append((text, calls))

    def call(self, calls: Sequence[ToolCall]) -> None:
        """Add the calls of a message of the model's to its run, native ones and those in its texts."""
        for call in calls:
            if call.location.start is None:
                self.is_native = True
            else:
                self.has_calls = True

    @property
    def is_open(self) -> bool:
        """Whether the conversation begins here: the model has not spoken, as far as anybody knows."""
        return not (self.has_spoken or self.is_folded or self.is_free)

    def refusal(self, tag: str | None = None) -> str | None:
        """Return why what looks like a result is text here, in words; None where it may be a result.

        `tag` begins the opening tag of the calls that it would answer; None for calls of any kind.
        """
        if self.is_free:
            return None
        if self.is_native and not self.has_calls:
            return "the model makes native calls, and the text of its last message holds none"
        if tag is not None:
            return None if self._has_tag(tag) else f"what the model said last holds no <{tag}"
        if self.is_folded and not self.has_calls:
            return "earlier messages were summarized, and the text of the model's last message holds no call"
        return None

    def _has_tag(self, tag: str) -> bool:
        if self._tags is None:
            # The model may have made native calls before the summary: then a tag in a sentence is a mention.
            opening = FIRST_OPENING if self.is_folded else OPENING
            self._tags = frozenset(name for text in self._spoken() for name in opening.findall(text))
        return tag in self._tags

    def _spoken(self) -> Iterator[str]:
        """The texts of the run without what calls were given: that may be shortened, and must not decide."""
        for text, calls in self._said:
            at = 0
            given = (part.location for call in calls for part in call.inputs)
            for place in sorted(given, key=lambda place: place.start or 0):
                yield text[at : place.start]
                at = place.stop or 0
            yield text[at:]


def standing_behind(summary: Running | None) -> Standing:
    """Return what is known of the messages before the first, where a summary stands for some."""
    if summary is None or summary.calls == NO_ANSWER:
        return Standing()
    return Standing(has_spoken=True) if summary.calls else Standing(is_folded=True)
