"""Where in a conversation a user's text can hold results: that depends on what the model said before.

How it works. Users paste results too, from logs and other sessions. So a result in a text counts only where it answers
something. Take a user's text "Look: <tool_result tool_name='a'>…</tool_result>"; what stands before it decides:

    nothing of the model's                               text: here only an element that begins the text is a result
    "I look."                                            a result
    a native call, and then "I look."                    text: the results of native calls are native too
    a native call, and then "<ls><path>.</path></ls>"    a result
    a summary, and then "I look."                        text: nobody knows how the model made its calls

The other dialects ask for an opening tag of theirs in what the model said last, well-formed or not. Each request has a
`Standing`; nothing that comes later changes it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autoprune.conversation.edits import CALLS_LATER, NO_ANSWER, Running
from autoprune.conversation.transcript import ToolCall

OPENING = re.compile(r"<([A-Za-z][A-Za-z0-9_-]*)")
FIRST_OPENING = re.compile(r"^[ \t]*<([A-Za-z][A-Za-z0-9_-]*)", re.MULTILINE)


@dataclass
class Standing:
    """What the model did before a message: whether it has spoken or made native calls, and what it said last.

    `is_folded`: earlier messages were summarized, so nobody knows any more how the model made its calls. `has_calls`
    says that what the model said last holds calls that could be read. `is_free`: whatever looks like a result is one,
    as where a conversation is compared with what is left of it. `calls_later`: native calls were summarized that the
    model made behind this message.
    """

    has_spoken: bool = False
    is_native: bool = False
    is_folded: bool = False
    has_calls: bool = False
    is_free: bool = False
    calls_later: bool = False
    _said: list[tuple[str, Sequence[ToolCall]]] = field(default_factory=list)
    _tags: frozenset[str] | None = None

    def next_request(self) -> "Standing":
        """Return the standing behind a new request, in which the model has said nothing yet."""
        return Standing(True, self.is_native or self.calls_later, self.is_folded, is_free=self.is_free)

    def say(self, text: str, calls: Sequence[ToolCall]) -> None:
        """Add a text of the model's, with the calls in it."""
        self._said.append((text, calls))

    def call(self, calls: Sequence[ToolCall]) -> None:
        """Add the calls of a message of the model's, native ones and those in its texts."""
        for call in calls:
            if call.location.start is None:
                self.is_native = True
            else:
                self.has_calls = True

    @property
    def is_open(self) -> bool:
        """Return whether the conversation begins here: the model has not spoken, as far as anybody knows."""
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
        """Yield what the model said last, without the arguments of calls: those may be shortened later."""
        for text, calls in self._said:
            at = 0
            given = (part.location for call in calls for part in call.inputs)
            for place in sorted(given, key=lambda place: place.start or 0):
                yield text[at : place.start]
                at = place.stop or 0
            yield text[at:]


def standing_behind(summary: Running | None) -> Standing:
    """Return the standing before the first message, where a summary may stand for earlier ones."""
    if summary is None or summary.calls == NO_ANSWER:
        return Standing()
    if summary.calls == CALLS_LATER:
        return Standing(calls_later=True)
    return Standing(has_spoken=True) if summary.calls else Standing(is_folded=True)
