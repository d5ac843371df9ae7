"""The conversation without what is folded or dropped, and with its summary. Decides nothing, counts nothing."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from autoprune.conversation.summary import is_users, joined


class Piece(NamedTuple):
    """A message of the new conversation: number `at` of the old one, or None where it was made or joined."""

    message: Any
    at: int | None


def assembled(messages: Sequence[Any], gone: Collection[int], place: int, summary: Any = None) -> list[Piece]:
    """The messages that are not gone, and the summary, a message of the user's, before those from `place` on.

    Where two messages of the user's become neighbors because what was said between them went, they are joined, since
    roles alternate: the summary and what follows it, mostly.
    """
    kept = [Piece(message, at) for at, message in enumerate(messages) if at not in gone]
    if summary is not None:
        head = sum(at is not None and at < place for _, at in kept)
        kept.insert(head, Piece(summary, None))
    pieces: list[Piece] = []
    last: int | None = None  # of the old conversation, what the newest piece ends with
    for piece in kept:
        were_neighbors = last is not None and piece.at is not None and all(map(is_users, messages[last + 1 : piece.at]))
        if pieces and not were_neighbors and is_users(pieces[-1].message) and is_users(piece.message):
            pieces[-1] = Piece(joined(pieces[-1].message, piece.message), None)
        else:
            pieces.append(piece)
        last = piece.at
    return pieces
