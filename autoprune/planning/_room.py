"""The room of the running summary: what it takes of a prompt, and what folding more into it wins. Writes nothing."""

from autoprune.conversation.edits import Running
from autoprune.conversation.summary import overhead
from autoprune.planning.view import HEADING_TOKENS
from autoprune.tokens import MESSAGE_TOKENS, Count

REQUEST_SHARE = 0.5  # of the summary's room, that the user's oldest request may take
SMALL_ROOM = 64  # tokens, in which it may take all
SUMMARY_SHARE = 4  # a summary takes at most one part in so many of the safe zone


class Room:
    """The tokens that the summary may have, and the number of messages that it stands for; both only grow."""

    def __init__(self, count: Count, limit: int, running: Running | None) -> None:
        """Start with the summary that a conversation came with, if any."""
        self.count = count
        self.largest = max(1, limit // SUMMARY_SHARE)
        self.tokens = running.room if running else 0
        self.messages = running.messages if running else 0

    @property
    def taken(self) -> int:
        """The tokens that the summary takes of the prompt at most, with its mark; 0 where there is none."""
        return self._with_mark(self.messages, self.tokens) if self.tokens else 0

    def take(self, messages: int, room: int) -> None:
        """Fold more messages into the summary, which may have so many tokens from now on."""
        self.messages += messages
        self.tokens = max(room, self.tokens)

    def allowed(self, tokens: int, messages: int, room: int) -> int:
        """Return the tokens that the text may have once more is folded into it: fewer than what it stands for."""
        around = self._with_mark(self.messages + messages, room) - room
        return min(room, self.largest, tokens + self.taken - around - 1)

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages of so many tokens into a summary of at most `room`."""
        return tokens + self.taken - self._with_mark(self.messages + 1, self.allowed(tokens, 1, room))

    def added(self, messages: int, room: int) -> int:
        """Return the tokens that the summary adds to the prompt when it takes more messages and gets at most `room`."""
        return max(0, self._with_mark(self.messages + messages, min(room, self.largest)) - self.taken)

    def is_short_of(self, said: int, room: int, most: int) -> bool:
        """Return whether a room that could become `most` does not grow by what the user's words need."""
        return room < min(most, self.largest) and room - self.tokens < said + (0 if self.tokens else HEADING_TOKENS)

    def is_too_small(self, request: int, room: int, most: int) -> bool:
        """Return whether the user's oldest request waits for a larger room than `room`, which may become `most`."""
        is_short = request > max(room * REQUEST_SHARE, min(room, SMALL_ROOM))
        return is_short and request <= min(most, self.largest) * REQUEST_SHARE

    def _with_mark(self, messages: int, room: int) -> int:
        return room + overhead(self.count, messages, room) + MESSAGE_TOKENS
