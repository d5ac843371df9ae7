"""What session readers work with: parsed JSON of unknown shape, conversations, and the recorded calls of the model."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TypeAlias

from autoprune.apps.sessions._json import NOTHING, Object, fields, objects, text
from autoprune.errors import SessionError

Message = dict[str, object]
LATEST = 1e15  # milliseconds: what is larger has never been a time
DEAREST = 1e6  # dollars: no request costs that
# Seconds, by Anthropic's `ttl` and OpenAI's `prompt_cache_retention`, whose "in_memory" promises no time.
LIVES: Mapping[str, float] = {"5m": 300.0, "1h": 3_600.0, "24h": 86_400.0}
DEFAULT_TTL = "5m"  # of Anthropic's `cache_control` without a `ttl`
NO_SYSTEM_PROMPT = "the system prompt is not in the log"


@dataclass(frozen=True)
class Usage:
    """The tokens that the provider reported for one request, in its own units (0 if unknown), and what they cost.

    If `written` is not 0 but `written_5m` and `written_1h` are, the log does not tell which cache was written.
    """

    prompt: int  # the whole prompt, cached parts included
    cached: int = 0  # read from the cache
    written: int = 0  # written to the cache, which Anthropic tells
    output: int = 0  # with the thinking that is billed
    written_5m: int = 0  # the part of `written` that went to the five-minute cache
    written_1h: int = 0  # the part of `written` that went to the one-hour cache
    cost: float | None = None  # dollars, as the log states them; None if it does not


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
    cache_life: float | None = None

    @property
    def life(self) -> float | None:
        """Seconds that the cache lives that this request wrote most to, or asked for; None if the log does not tell."""
        used = self.usage
        if used is None or not (used.written_5m or used.written_1h):
            return self.cache_life
        return LIVES["1h"] if used.written_1h > used.written_5m else LIVES["5m"]


@dataclass(frozen=True)
class Answer:
    """What a log says of an answer, or a part of one: when it was written, by which model, and the tokens used.

    `time` is when its first line was written, `end` its last one where that is another. `cache_life` is what its
    request asked for, in seconds.
    """

    time: float | None = None
    model: str = ""
    usage: Usage | None = None
    end: float | None = None
    cache_life: float | None = None


# What a log says of a message: an answer that it recorded, or when the model was given something; None where nothing
# is known, and for what a compaction put there or kept, also of the model's: that was no request.
Moment: TypeAlias = Answer | float | None


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


def bad_record(what: str, at: int) -> SessionError:
    """Return the error of a record that cannot be read; records are counted from 1."""
    return SessionError(f"record {at} {what}")


# Requests


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
            # Codex logs usage behind the last part of an answer, which may be a call that was cut off.
            answer = _joined([part for at, part in parts.items() if at >= kept[0]])
            pause = _pause(given, asked, worked, answer.time) if found else None
            found.append(Request(places[kept[0]], answer.time, pause, answer.model, answer.usage, answer.cache_life))
        last = places[kept[-1]] if kept else last
        work = _joined(list(parts.values()))
        asked, worked = work.time, work.end
    return tuple(found)


def spoken(messages: Sequence[Mapping[str, object]]) -> tuple[Request, ...]:
    """Return a request for each unbroken series of the model's messages, of which nothing else is known."""
    return requests({at: at for at in range(len(messages))}, answers(messages))


def answers(messages: Sequence[Mapping[str, object]], model: str = "") -> list[Moment]:
    """Return the moments of messages of which nothing is known but which are the model's, and perhaps its name."""
    return [Answer(model=model) if is_models(message) else None for message in messages]


def is_models(message: Mapping[str, object]) -> bool:
    """Tell whether a message or an item is the model's."""
    kind = message.get("type")
    by_kind = isinstance(kind, str) and (kind == "reasoning" or kind.endswith("_call"))
    return message.get("role") in ("assistant", "model") or by_kind


def _joined(parts: Sequence[Answer]) -> Answer:
    """Return the parts of an answer as one. The usage is the first that is known, which is the prompt's before it."""
    times = [time for part in parts for time in (part.time, part.end) if time is not None]
    model = next((part.model for part in parts if part.model), "")
    usage = next((part.usage for part in parts if part.usage), None)
    life = next((part.cache_life for part in parts if part.cache_life is not None), None)
    return Answer(min(times, default=None), model, usage, max(times, default=None), life)


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


def epoch(value: object) -> float | None:
    """Return a time in seconds since the epoch; None if it is none."""
    return milliseconds(1000 * value) if isinstance(value, int | float) else None


def tokens(value: object) -> int:
    """Return a count of tokens; 0 for what is none."""
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else 0


def dollars(value: object) -> float | None:
    """Return a cost; None if it is none, or 0, which agents write for models whose price they do not know."""
    return float(value) if isinstance(value, int | float) and 0 < value < DEAREST else None


def used(
    prompt: object,
    cached: object = 0,
    written: object = 0,
    output: object = 0,
    *,
    split: Object = NOTHING,
    cost: object = None,
) -> Usage | None:
    """Return the usage that a log's counts tell; None if there are none.

    `split` is Anthropic's `cache_creation`, which tells what went to the five-minute and the one-hour cache. A prompt
    that is smaller than its cached parts was counted without them.
    """
    short, long = tokens(split.get("ephemeral_5m_input_tokens")), tokens(split.get("ephemeral_1h_input_tokens"))
    read, new = tokens(cached), tokens(written) or short + long
    sent = tokens(prompt) if tokens(prompt) >= read + new else tokens(prompt) + read + new
    usage = Usage(sent, read, new, tokens(output), short, long, dollars(cost))
    return usage if usage != Usage(0) else None


def reported(usage: Object, cost: object = None) -> Usage | None:
    """Return the `usage` of a response of Chat Completions or Responses, with what gateways add to it.

    The names are those of OpenAI, LiteLLM, OpenRouter, Portkey and OpenHands. `cost` is what the log states beside it.
    The cached parts of a prompt are added to it if the total shows that they were counted apart.
    """
    details = fields(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    prompt = _first(usage, "prompt_tokens", "input_tokens")
    output = _first(usage, "completion_tokens", "output_tokens")
    cached = _first(details, "cached_tokens") or _first(usage, "cache_read_input_tokens", "cache_read_tokens")
    written = _first(details, "cache_creation_tokens", "cache_write_tokens") or _first(
        usage, "cache_creation_input_tokens", "cache_write_tokens"
    )
    apart = cached + written
    if prompt + apart + output == tokens(usage.get("total_tokens")):
        prompt += apart
    split = fields(details.get("cache_creation_token_details") or usage.get("cache_creation"))
    return used(prompt, cached, written, output, split=split, cost=dollars(cost) or usage.get("cost"))


def _first(counts: Object, *names: str) -> int:
    """Return the first count that is not 0."""
    return next((count for name in names if (count := tokens(counts.get(name)))), 0)


def asked_life(request: Object) -> float | None:
    """Return how many seconds the body of a request asks the provider to cache its prompt; None if it does not.

    Of several `cache_control` marks the last one counts, because it covers the most.
    """
    if retention := text(request.get("prompt_cache_retention")):
        return LIVES.get(retention)
    parts = [request.get("tools"), request.get("system"), request.get("messages"), [request]]
    marks = [mark for part in parts for mark in _marks(part)]
    return LIVES.get(text(marks[-1].get("ttl")) or DEFAULT_TTL) if marks else None


def _marks(blocks: object) -> Iterator[Object]:
    """Return the `cache_control` of blocks, messages or tools and of their contents, in the order of the prompt."""
    for block in objects(blocks):
        yield from _marks(block.get("content"))
        if mark := fields(block.get("cache_control")):
            yield mark
