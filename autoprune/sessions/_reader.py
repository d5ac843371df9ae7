"""What a session reader is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoprune.sessions._recorded import Conversation


@dataclass(frozen=True)
class Reader:
    """Reads the session files of one agent.

    All functions get the values of a file: one per line of JSONL, or the one value of a JSON file. `detect` says
    whether this agent wrote them, and never raises. `read` returns the conversations in them, and raises SessionError
    that says what is wrong and where. `record` returns the same conversations as they were sent, each as its stretches
    between compactions, with the requests, and without thinking and calls that have no result; where there is none,
    what `read` returns is taken for one stretch.
    """

    name: str
    detect: Callable[[Sequence[object]], bool]
    read: Callable[[Sequence[object]], list[Conversation]]
    record: Callable[[Sequence[object]], list[list[Conversation]]] | None = None
    places: Sequence[str] = ()
