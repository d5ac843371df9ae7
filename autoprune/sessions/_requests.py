"""The recorded calls of the model: where each stands in a conversation, when it was answered, and what it used."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TypeAlias

LATEST = 1e15  # milliseconds: what is larger has never been a time


@dataclass(frozen=True)
class Usage:
    """The tokens that the provider reported for one request, in its own units; 0 where it did not say."""

    prompt: int  # the whole prompt, cached parts included
    cached: int = 0  # read from the cache
    written: int = 0  # written to the cache, which Anthropic tells
    output: int = 0  # with the thinking that is billed
    written_5m: int = 0  # of `written`, to the cache that lives five minutes
    written_1h: int = 0  # of `written`, to the cache that lives an hour
    cost: float | None = None  # dollars, where the log states them


@dataclass(frozen=True)
class Request:
    """A recorded call of the model.

    It stands before `messages[message]`, the first message of its answer. `time`, in seconds since the epoch, is when
    the answer was written. `pause` is how long the model waited: from the end of the answer before to the newest
    message that it was given since, or to this answer where those have no time. None and "" stand for unknown.
    """

    message: int
    time: float | None = None
    pause: float | None = None
    model: str = ""
    usage: Usage | None = None


@dataclass(frozen=True)
class Answer:
    """What a log says of an answer, or a part of one: when it was written, by which model, and the tokens used.

    `time` is when its first line was written, `end` its last one where that is another.
    """

    time: float | None = None
    model: str = ""
    usage: Usage | None = None
    end: float | None = None


# What a log says of a message: an answer that it recorded, or when the model was given something; None where nothing
# is known, and for what a compaction put there or kept, also of the model's: that was no request.
Moment: TypeAlias = Answer | float | None


def requests(places: Mapping[int, int], moments: Sequence[Moment]) -> tuple[Request, ...]:
    """Return the requests of a conversation that was made of inputs, of which `moments` tell.

    `places` holds the index of the message that an input became. Answers in a row are one request; one that became no
    message is none, but the model was at work until then.
    """
    given = sorted(moment for moment in moments if isinstance(moment, float))
    found: list[Request] = []
    asked = worked = None  # when the answer before began and ended
    last = -2  # the place of the last answer
    for is_answered, run in groupby(enumerate(moments), lambda each: isinstance(each[1], Answer)):
        if not is_answered:
            continue
        parts = {at: part for at, part in run if isinstance(part, Answer)}
        kept = [at for at in parts if at in places]
        if kept and places[kept[0]] > last + 1:
            answer = _joined([parts[at] for at in kept])
            pause = _pause(given, asked, worked, answer.time) if found else None
            found.append(Request(places[kept[0]], answer.time, pause, answer.model, answer.usage))
        last = places[kept[-1]] if kept else last
        work = _joined(list(parts.values()))
        asked, worked = work.time, work.end
    return tuple(found)


def spoken(messages: Sequence[Mapping[str, object]]) -> tuple[Request, ...]:
    """Return a request for each unbroken series of the model's messages, of which nothing else is known."""
    return requests({at: at for at in range(len(messages))}, answers(messages))


def answers(messages: Sequence[Mapping[str, object]]) -> list[Moment]:
    """Return the moments of messages of which nothing is known but which are the model's."""
    return [Answer() if _is_models(message) else None for message in messages]


def _is_models(message: Mapping[str, object]) -> bool:
    kind = message.get("type")
    by_kind = isinstance(kind, str) and (kind == "reasoning" or kind.endswith("_call"))
    return message.get("role") in ("assistant", "model") or by_kind


def _joined(parts: Sequence[Answer]) -> Answer:
    """Return the parts of an answer as one. The usage is the first that is known, which is the prompt's before it."""
    times = [time for part in parts for time in (part.time, part.end) if time is not None]
    model = next((part.model for part in parts if part.model), "")
    usage = next((part.usage for part in parts if part.usage), None)
    return Answer(min(times, default=None), model, usage, max(times, default=None))


def _pause(given: Sequence[float], asked: float | None, worked: float | None, answered: float | None) -> float | None:
    """Return the seconds from when the model had `worked` until it was given the newest before it `answered`.

    What it was given before it had worked out the answer before, but after that was `asked`, made it wait no time.
    """
    if asked is None or worked is None or answered is None:
        return None
    newest = given[bisect_right(given, answered) - 1] if given and given[0] <= answered else asked
    return max((newest if newest > asked else answered) - worked, 0.0)


def seconds(value: object) -> float | None:
    """Return a time in ISO 8601 as seconds since the epoch; one without a zone is taken for UTC, no time for None."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() if time else None


def milliseconds(value: object) -> float | None:
    """Return a time in milliseconds since the epoch as seconds; None for what is no time of this age."""
    return value / 1000 if isinstance(value, int | float) and 0 < value < LATEST else None


def tokens(value: object) -> int:
    """Return a count of tokens; 0 for what is none."""
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else 0


def used(prompt: object, cached: object = 0, written: object = 0, output: object = 0) -> Usage | None:
    """Return the usage that a log's counts tell; None where there are none."""
    usage = Usage(tokens(prompt), tokens(cached), tokens(written), tokens(output))
    return usage if usage != Usage(0) else None
