"""What a session reader is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprune.sessions._recorded import Conversation


@dataclass(frozen=True)
class Reader:
    """Reads the session files of one agent.

    Both functions get the values of a file: one per line of JSONL, or the one value of a JSON file. `detect` says
    whether this agent wrote them, and never raises. `read` returns the conversations in them, and raises SessionError
    that says what is wrong and where.
    """

    name: str
    detect: Callable[[Sequence[object]], bool]
    read: Callable[[Sequence[object]], list[Conversation]]
