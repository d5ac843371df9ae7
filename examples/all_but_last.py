"""A strategy that folds messages into a summary.

To try it on a conversation:

    autoprune prune SESSION --safe-zone 20k --strategy examples/all_but_last.py:AllButLast
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoprune.strategies import BaseFoldingStrategy, CustomReason, Fold, FoldView, Retention

STAYS = Retention(first_request=True)


@dataclass(frozen=True)
class AllButLast(BaseFoldingStrategy):
    """Over the safe zone, fold all but the last `keep` messages into a summary of at most `room` tokens.

    Its fields are its configuration. autoprune never offers the messages of `retain` for folding: here the system's
    messages and the user's first request. `BaseFoldingStrategy` has further attributes, such as `title`.
    """

    keep: int = 6
    room: int = 2_000
    retain: Retention = STAYS
    name = "all_but_last"

    def step(self, view: FoldView) -> Iterator[Fold]:
        """Return the messages to fold before a request; folded messages stay folded.

        `view.groups()` are the messages that may go, in the order in which they go, never a call without its result. A
        fold without room is a drop. Use only the view and the fields: the same conversation must lead to the same
        edits.
        """
        if view.tokens <= view.limit:
            return
        groups = view.groups(1, self.keep)
        tokens = sum(group.tokens for group in groups)
        if groups and view.gain(tokens, self.room) > 0:
            messages = sorted(at for group in groups for at in group.messages)
            yield Fold(tuple(messages), CustomReason("all but the last messages"), tokens, self.room)
