"""The weight of prompts: each message is counted once."""

from collections.abc import Sequence

from autoprune.formats import new_parser
from autoprune.replay.episode import Episode
from autoprune.tokens import Count


class Scale:
    """Weighs messages, each once."""

    def __init__(self, episode: Episode, count: Count) -> None:
        """Know the messages of an episode."""
        entries = zip(episode.messages, episode.transcript.entries, strict=True)
        self._tokens = {id(message): entry.tokens for message, entry in entries}
        self._kept: list[object] = []  # so that no identity is used twice
        self._parser = new_parser(count)

    def tokens(self, message: object) -> int:
        """Return the tokens of a message."""
        known = self._tokens.get(id(message))
        if known is None:
            known = self._tokens[id(message)] = self._parser.read(message, 0).tokens
            self._kept.append(message)
        return known

    def whole(self, messages: Sequence[object]) -> int:
        """Return the tokens of some messages."""
        return sum(map(self.tokens, messages))

    def shared(self, before: Sequence[object], now: Sequence[object]) -> int:
        """Return the tokens of the longest common beginning of two prompts, in whole messages."""
        tokens = 0
        for old, new in zip(before, now, strict=False):
            if old is not new and old != new:
                break
            tokens += self.tokens(new)
        return tokens
