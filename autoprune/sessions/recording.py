"""What a reader yields: the conversations of a session file, ready to send."""

from dataclasses import dataclass

from autoprune.errors import SessionError

Message = dict[str, object]
NO_SYSTEM_PROMPT = "the system prompt is not in the log"
# What answers a call whose result a log does not hold, unless its agent is known to answer in a single word of its own.
NO_RESULT = "No result was recorded for this call."


@dataclass(frozen=True)
class Run:
    """One conversation of a session file, as its agent would send it next; `notes` say what was left out or made up."""

    messages: list[Message]
    notes: tuple[str, ...] = ()


def counted(what: str, count: int) -> tuple[str, ...]:
    """A note that something was met `count` times; none where it was not."""
    return (f"{what}: {count}",) if count else ()


def paired(calls: int, results: int, pairs: int, *, remarks: bool = True) -> tuple[str, ...]:
    """Notes about calls and results without each other; `remarks` where such calls are answered all the same."""
    what = "answered with a remark" if remarks else "left out"
    return (
        *counted(f"calls without a result, {what}", calls - pairs),
        *counted("results that answer no call, or answer it again, left out", results - pairs),
    )


def unfit(what: str, at: int) -> SessionError:
    """The error of a conversation that its provider's API has no place for; messages are counted from 1."""
    return SessionError(f"message {at} of the conversation {what}")


def wrong(what: str, at: int) -> SessionError:
    """The error of a record that cannot be read; records are counted from 1."""
    return SessionError(f"record {at} {what}")
