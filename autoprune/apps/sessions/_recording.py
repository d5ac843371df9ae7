"""The types of session readers: conversations, recorded calls of the model and their usage, and times."""

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import TypeAlias

from autoprune.apps.sessions._json import NOTHING, Object, compact, text
from autoprune.errors import SessionError
from autoprune.wire import is_from_model

Message = dict[str, object]
LATEST = 1e15  # milliseconds since the epoch (the year 33658): a larger number is not a time
DEAREST = 1e6  # dollars: a larger number is not the price of a request
LARGEST_PROMPT = 20_000_000  # tokens: no model's window holds more
FIVE_MINUTES, HOUR = 300.0, 3_600.0  # the lives of Anthropic's caches in seconds
SMALLER = 0.8  # of the prompt before: a prompt that lost more did not only lose thinking
SHRUNK = "requests with a much smaller prompt than before without a compaction; messages may be missing or not sent"
# A prompt may grow by reminders and pictures that the log does not hold, and its text has at least two bytes a token.
UNLOGGED, LEAST_BYTES = 10_000, 2
NO_SYSTEM_PROMPT = "the system prompt is not in the log"


@dataclass(frozen=True)
class Usage:
    """The tokens that the provider reported for one request (0 if unknown), and what they cost.

    If `written` is not 0 but `written_5m` and `written_1h` are, the log does not tell which cache was written.
    """

    prompt: int  # the whole prompt, including cached tokens
    cached: int = 0  # read from the cache
    written: int = 0  # written to the cache
    output: int = 0  # including thinking, which is billed too
    written_5m: int = 0  # the part of `written` that went to the five-minute cache
    written_1h: int = 0  # the part of `written` that went to the one-hour cache
    cost: float | None = None  # dollars, as stated in the log; None if it states none
    counts_cached: bool = field(default=False, compare=False)  # whether a `cached` of 0 is a count of the log


@dataclass(frozen=True)
class Request:
    """A recorded call of the model, whose answer begins with `messages[message]`.

    `time` is when the answer was written, in seconds since the epoch. `pause` is how many seconds the model was idle:
    from the end of the previous answer to the newest message sent to it since, or to this answer if these messages have
    no times. `cache_life` is the cache life that the request asked for, in seconds. `id` is the provider's id of the
    answer. None and "" mean unknown. `characters` is the length of an answer that is in no message, as JSON.
    """

    message: int
    time: float | None = None
    pause: float | None = None
    model: str = ""
    usage: Usage | None = None
    cache_life: float | None = None
    id: str = field(default="", compare=False)
    characters: int | None = field(default=None, compare=False)

    @property
    def life(self) -> float | None:
        """The life in seconds of the cache that this request mostly wrote to, or asked for; None if unknown."""
        used = self.usage
        if used is None or not (used.written_5m or used.written_1h):
            return self.cache_life
        return HOUR if used.written_1h > used.written_5m else FIVE_MINUTES


@dataclass(frozen=True)
class Answer:
    """The recorded data of an answer or a part of one: its time, its model and the usage of its request.

    `time` is when its first line was written, and `end` when its last line was written, if it has several. `cache_life`
    is the cache life that its request asked for, in seconds, `id` the provider's id of the request or the answer, and
    `characters` its length as JSON.
    """

    time: float | None = None
    model: str = ""
    usage: Usage | None = None
    end: float | None = None
    cache_life: float | None = None
    id: str = field(default="", compare=False)
    characters: int = field(default=0, compare=False)


# The recorded data of a message: an answer, or the time of a message to the model. None if nothing is
# known, and for messages that a compaction inserted or kept: even those of the model are not new requests.
Moment: TypeAlias = Answer | float | None


@dataclass(frozen=True)
class Conversation:
    """A recorded conversation as its agent would send it next; `notes` describe dropped and added content.

    `requests` are the recorded calls of the model, if the log was read for them. `trigger` is what began the compaction
    before them: "manual" or "auto", "" if the log does not say or there was none. `besides` are recorded calls whose
    answers are not in the messages, such as those of sub-agents and of abandoned branches.
    """

    messages: list[Message]
    notes: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    trigger: str = ""
    besides: tuple[Request, ...] = ()


@dataclass(frozen=True)
class Recording(Conversation):
    """The part of a session between two compactions: all messages as sent, without thinking.

    `agent` names the agent that wrote the file, None for plain messages. `holds_prompt` tells whether the messages
    begin with the system prompt; then only the tools' schemas are unknown. `folder` is the folder that the agent worked
    in, "" if the log does not name it.
    """

    agent: str | None = None
    holds_prompt: bool = False
    folder: str = ""


@dataclass(frozen=True)
class Reader:
    """Reads the session files of one agent.

    All functions get the values in a file: one per line of JSONL, or the one value of a JSON file. `detect` tells
    whether this agent wrote them, and never raises. `read` returns the conversations in them; it raises SessionError
    with the problem and its place. `record` returns the same conversations as they were sent, each as its stretches
    between compactions, with the requests, but without thinking and open calls; without `record`, each conversation
    that `read` returns is one stretch. `places` are globs under the home folder for the agent's files.
    """

    name: str
    detect: Callable[[Sequence[object]], bool]
    read: Callable[[Sequence[object]], list[Conversation]]
    record: Callable[[Sequence[object]], list[list[Conversation]]] | None = None
    places: tuple[str, ...] = ()


def note(what: str, count: int) -> tuple[str, ...]:
    """Write a note with a count, or no note if the count is 0."""
    return (f"{what}: {count}",) if count else ()


def prompt_note(characters: int, unit: str = "messages") -> str:
    """Note where the system prompt is, by its length in the log."""
    return f"the system prompt is sent beside the {unit}: {characters:,} characters" if characters else NO_SYSTEM_PROMPT


def find_parents(records: Mapping[str, Object], field: str) -> dict[str, str]:
    """Find the parent of each record of a tree, "" if there is none. `records` are in the order of the log.

    A record whose parent was lost follows the record before it, which preceded it in the request, too.
    """
    parents: dict[str, str] = {}
    last = ""
    for name, record in records.items():
        parent = text(record.get(field))
        parents[name] = last if parent and parent not in records else parent
        last = name
    return parents


def branch(last: str, parents: Mapping[str, str], first: Container[str] = ()) -> list[str]:
    """Return the names of the records from the root, or from the nearest of `first`, to the record `last`."""
    path: dict[str, None] = {}
    at = last
    while at in parents and at not in path:  # parents of a damaged log may form a circle
        path[at] = None
        at = "" if at in first else parents[at]
    return list(path)[::-1]


def lost_parents(records: Mapping[str, Object], field: str) -> tuple[str, ...]:
    """Note how many records follow the record before them, because their parent was lost."""
    pairs = zip(find_parents(records, field).values(), records.values(), strict=True)
    lost = sum(bool(found) and found != record.get(field) for found, record in pairs)
    return note("records whose parent was lost, placed after the record before them", lost)


def bad_record(what: str, at: int) -> SessionError:
    """Create the error for a record that cannot be read; records are numbered from 1."""
    return SessionError(f"record {at} {what}")


def find_requests(places: Mapping[int, int], moments: Sequence[Moment]) -> tuple[Request, ...]:
    """Find the requests of a conversation from the recorded data of its messages.

    `places` maps the index of a record to the index of its message. Consecutive answers are one request. An answer
    without a message is not a request, but the pause after it still starts at its end.
    """
    times = sorted(moment for moment in moments if isinstance(moment, float))
    requests: list[Request] = []
    started = ended = None  # the times of the previous answer
    last = -2  # the index of the last answer's message; -2, so that message 0 does not follow it
    for is_answered, run in groupby(enumerate(moments), lambda each: isinstance(each[1], Answer)):
        if not is_answered:
            continue
        parts = {at: part for at, part in run if isinstance(part, Answer)}
        kept = [at for at in parts if at in places]
        if kept and places[kept[0]] > last + 1:
            # Codex logs usage after the last part of an answer, even if that is an open call, which has no message.
            answer = join_parts([part for at, part in parts.items() if at >= kept[0]])
            pause = _pause(times, started, ended, answer.time) if requests else None
            requests.append(_request(answer, places[kept[0]], pause))
        last = places[kept[-1]] if kept else last
        work = join_parts(list(parts.values()))
        started, ended = work.time, work.end
    return tuple(requests)


def growth_notes(messages: Sequence[Message], requests: Sequence[Request]) -> Iterator[str]:
    """Note recorded prompts that do not fit the messages of a stretch, in which prompts only grow."""
    sized = [(request, request.usage) for request in requests if request.usage and request.usage.prompt]
    shrunk = missing = 0
    for (before, last), (now, used) in pairwise(sized):
        grown = used.prompt - last.prompt - last.output - UNLOGGED if before.model == now.model else 0
        added = messages[before.message : now.message] if grown > 0 else ()
        shrunk += used.prompt < SMALLER * last.prompt
        missing += grown * LEAST_BYTES > sum(len(compact(each).encode(errors="replace")) for each in added)
    yield from note(SHRUNK, shrunk)
    yield from note("requests whose prompt grew by more than the messages read; messages may be missing", missing)


def besides(paid: Iterable[Moment], stretches: Iterable[Conversation]) -> tuple[Request, ...]:
    """Return the paid answers that no stretch holds, as requests."""
    held = {(request.id or request.time, request.usage) for each in stretches for request in each.requests}
    return tuple(
        _request(answer)
        for answer in paid
        if isinstance(answer, Answer) and answer.usage and (answer.id or answer.time, answer.usage) not in held
    )


def _request(answer: Answer, message: int = 0, pause: float | None = None) -> Request:
    data = answer.model, answer.usage, answer.cache_life, answer.id, answer.characters or None
    return Request(message, answer.time, pause, *data)


def unrecorded_answers(messages: Sequence[Mapping[str, object]], model: str = "") -> list[Moment]:
    """Mark the answers among messages without times, with the model's name if it is known."""
    return [Answer(model=model) if is_from_model(message) else None for message in messages]


def join_parts(parts: Sequence[Answer]) -> Answer:
    """Join the parts of an answer. The first known usage is the usage of the request."""
    times = [time for part in parts for time in (part.time, part.end) if time is not None]
    model = next((part.model for part in parts if part.model), "")
    usage = next((part.usage for part in parts if part.usage), None)
    life = next((part.cache_life for part in parts if part.cache_life is not None), None)
    id = next((part.id for part in parts if part.id), "")
    return Answer(min(times, default=None), model, usage, max(times, default=None), life, id)


def _pause(given: Sequence[float], started: float | None, ended: float | None, answer: float | None) -> float | None:
    """Compute the seconds from the end of the previous answer to the newest message to the model since then.

    Without such a message, the pause ends with its `answer`. A message that arrived while the previous answer was still
    streaming is no pause: agents run a tool as soon as its call is complete.
    """
    if started is None or ended is None or answer is None:
        return None
    newest = given[bisect_right(given, answer) - 1] if given and given[0] <= answer else started
    return max((newest if newest > started else answer) - ended, 0.0)


def parse_time(value: object) -> float | None:
    """Parse a time in ISO 8601 as seconds since the epoch, in UTC if it has no zone; None if it is not a time."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() if time else None


def parse_milliseconds(value: object) -> float | None:
    """Convert milliseconds since the epoch to seconds; None if it is not a plausible time."""
    return value / 1000 if isinstance(value, int | float) and 0 < value < LATEST else None


def token_count(value: object) -> int:
    """Return a count of tokens; 0 if the value is not a count."""
    return int(value) if isinstance(value, int | float) and 0 < value < LATEST and not isinstance(value, bool) else 0


def dollars(value: object) -> float | None:
    """Return a cost; None for other values and for 0, which agents write if they do not know the model's price."""
    return float(value) if isinstance(value, int | float) and 0 < value < DEAREST else None


def build_usage(
    prompt: object,
    cached: object = None,
    written: object = 0,
    output: object = 0,
    *,
    split: Object = NOTHING,
    cost: object = None,
) -> Usage | None:
    """Create a usage from the counts in a log; None if all are 0.

    `split` is Anthropic's `cache_creation`, which divides the written tokens between the five-minute and the one-hour
    cache. If a prompt is smaller than its cached parts, its count excludes them. None too if the counts are impossible.
    A `cached` of None means that the log does not count the cached tokens.
    """
    short = token_count(split.get("ephemeral_5m_input_tokens"))
    long = token_count(split.get("ephemeral_1h_input_tokens"))
    read, new = token_count(cached), token_count(written) or short + long
    sent = token_count(prompt) if token_count(prompt) >= read + new else token_count(prompt) + read + new
    usage = Usage(
        sent,
        read,
        new,
        token_count(output),
        written_5m=short,
        written_1h=long,
        cost=dollars(cost),
        counts_cached=cached is not None,
    )
    return usage if usage != Usage(0) and max(sent, usage.output) <= LARGEST_PROMPT else None
