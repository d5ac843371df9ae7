"""The weight of prompts, and how much of one the prompt before began with, too: each message is counted once."""

from collections.abc import Sequence

from autoprune.apps.replay.episode import Episode
from autoprune.conversation.messages import fields_of, with_item
from autoprune.formats import new_parser
from autoprune.tokens import Count

HOLDERS = ("content", "parts")  # of blocks


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

    def leading(self, before: object, now: object) -> int:
        """Return the tokens of the blocks at the head of a message that another one in its place began with, too.

        A provider caches blocks: of several results in one message those before the one that was cleared are held.
        """
        for name in HOLDERS:
            old, new = fields_of(before).get(name), fields_of(now).get(name)
            if isinstance(old, list) and isinstance(new, list) and with_item(before, name, new) == now:
                count = shared(old, new)
                return self._parser.read(with_item(now, name, new[:count]), 0).tokens if count else 0
        return 0


def shared(before: Sequence[object], now: Sequence[object]) -> int:
    """Return how many messages, or blocks, two lists have at their heads in common."""
    at = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        at += 1
    return at
