"""Which result answers which call. Knows no wire format."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A call or a result, in the order of the log; `message` is the index of the message that it stands in."""

    message: int
    id: str
    is_call: bool


def answered(parts: Sequence[Part]) -> dict[int, int]:
    """The index of the result for the index of each call that has one.

    Ids are reused in the wild: a call in a later message takes an id over, and calls of one message that share an id
    are answered in their order.
    """
    waiting: dict[str, deque[int]] = {}
    found: dict[int, int] = {}
    for at, part in enumerate(parts):
        calls = waiting.setdefault(part.id, deque())
        if part.is_call:
            if calls and parts[calls[0]].message != part.message:
                calls.clear()
            calls.append(at)
        elif calls:
            found[calls.popleft()] = at
    return found
