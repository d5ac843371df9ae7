"""What a session reader is and returns: recorded conversations with notes, and calls paired with results."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from autoprune.apps.sessions._requests import Moment, Request, requests
from autoprune.errors import SessionError

Message = dict[str, object]
T = TypeVar("T")
# A message, and the index of the input of a writer that it came from.
Placed: TypeAlias = tuple[Message, int | None]
NO_SYSTEM_PROMPT = "the system prompt is not in the log"
# What answers a call whose result a log does not hold, unless its agent is known to answer in a single word of its own.
NO_RESULT = "No result was recorded for this call."


@dataclass(frozen=True)
class Conversation:
    """A recorded conversation as its agent would send it next; `notes` say what was left out or made up.

    `requests` are the recorded calls of the model, where the log was read for them.
    """

    messages: list[Message]
    notes: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True)
class Recording:
    """A stretch of a session without a compaction: every message as it was when it was sent, without thinking.

    `agent` is the one whose session file it is, None for plain messages. `holds_prompt` says whether the messages begin
    with the system prompt, so that only the tools' schemas are unknown.
    """

    messages: list[Message]
    requests: tuple[Request, ...]
    agent: str | None
    holds_prompt: bool
    notes: tuple[str, ...] = ()


def placed(made: Iterable[Placed], notes: Sequence[str], moments: Sequence[Moment]) -> Conversation:
    """Return a conversation of messages, each with the index of the input that it came from."""
    made = list(made)
    places = {origin: place for place, (_, origin) in enumerate(made) if origin is not None}
    return Conversation([message for message, _ in made], tuple(notes), requests(places, moments))


def stretch(
    write: Callable[[Sequence[T], None, Sequence[str], Sequence[Moment]], Conversation],
    said: Iterable[tuple[T, Moment]],
) -> Conversation:
    """Return what a writer makes of inputs, each with what the log says of it, without calls that have no result."""
    said = list(said)
    return write([each for each, _ in said], None, (), [moment for _, moment in said])


@dataclass(frozen=True)
class Reader:
    """Reads the session files of one agent.

    All functions get the values of a file: one per line of JSONL, or the one value of a JSON file. `detect` says
    whether this agent wrote them, and never raises. `read` returns the conversations in them, and raises SessionError
    that says what is wrong and where. `record` returns the same conversations as they were sent, each as its stretches
    between compactions, with the requests, and without thinking and calls that have no result; where there is none,
    what `read` returns is taken for one stretch. `places` are globs of where the agent keeps its files at home.
    """

    name: str
    detect: Callable[[Sequence[object]], bool]
    read: Callable[[Sequence[object]], list[Conversation]]
    record: Callable[[Sequence[object]], list[list[Conversation]]] | None = None
    places: tuple[str, ...] = ()


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
