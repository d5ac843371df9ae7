"""What a session reader is and returns: recorded conversations with notes, and calls paired with results."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autoprune.errors import SessionError

Message = dict[str, object]
NO_SYSTEM_PROMPT = "the system prompt is not in the log"
# What answers a call whose result a log does not hold, unless its agent is known to answer in a single word of its own.
NO_RESULT = "No result was recorded for this call."


@dataclass(frozen=True)
class Conversation:
    """A recorded conversation as its agent would send it next; `notes` say what was left out or made up."""

    messages: list[Message]
    notes: tuple[str, ...] = ()


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


def note(what: str, count: int) -> tuple[str, ...]:
    """Return the note that something was met `count` times; none where it was not."""
    return (f"{what}: {count}",) if count else ()


def bad_message(what: str, at: int) -> SessionError:
    """Return the error of a message that its provider's API has no place for; messages are counted from 1."""
    return SessionError(f"message {at} of the conversation {what}")


def bad_record(what: str, at: int) -> SessionError:
    """Return the error of a record that cannot be read; records are counted from 1."""
    return SessionError(f"record {at} {what}")


@dataclass(frozen=True, slots=True)
class CallOrResult:
    """A call or a result, in the order of the log; `message` is the index of the message that it stands in."""

    message: int
    id: str
    is_call: bool


def pair(exchanges: Sequence[CallOrResult]) -> dict[int, int]:
    """Return the index of the result for the index of each call that has one.

    Ids are reused in the wild: a call in a later message takes an id over, and calls of one message that share an id
    are answered in their order.
    """
    waiting: dict[str, deque[int]] = {}
    found: dict[int, int] = {}
    for at, each in enumerate(exchanges):
        calls = waiting.setdefault(each.id, deque())
        if each.is_call:
            if calls and exchanges[calls[0]].message != each.message:
                calls.clear()
            calls.append(at)
        elif calls:
            found[calls.popleft()] = at
    return found


def pairing_notes(
    exchanges: Sequence[CallOrResult], pairs: Mapping[int, int], missing: str | None = NO_RESULT
) -> tuple[str, ...]:
    """Return notes about calls and results without each other; `missing` answers such calls, None leaves them out."""
    calls = sum(each.is_call for each in exchanges)
    what = "left out" if missing is None else "answered with a remark"
    return (
        *note(f"calls without a result, {what}", calls - len(pairs)),
        *note("results that answer no call, or answer it again, left out", len(exchanges) - calls - len(pairs)),
    )
