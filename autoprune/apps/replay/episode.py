"""The unit of a replay: a recorded conversation with its head, pauses and prices, and what its actions needed.

`sizes` estimates the provider's tokens of each message. Pruners get one calibration and the tokens of the head instead,
as in a live loop.

A log may say for each request how much of the prompt was read from the cache. If that was at least half of the previous
prompt, the cache was warm, and a replay reads the same share of the prefix that a prompt shares with the previous one.
If it was less, the cache was cold, and a replay reads no more than the log says. If the log says nothing, the cache is
cold after a pause longer than its life. The life is the vendor's usual one, or the longest pause after which the log
shows a warm cache. If the log counts cached tokens and there are none, nothing was cached at all.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

from autoprune.apps.replay.evidence import Evidence, Protected, answer_end, evidence, protected_content
from autoprune.apps.replay.sizes import Sizes, fit_sizes, recorded_output
from autoprune.apps.replay.titles import UNTITLED, Title, project_of
from autoprune.apps.sessions import Recording, Request, Usage
from autoprune.conversation.transcript import Speaker, Transcript
from autoprune.economics import DEFAULT, FIVE_MINUTE_WRITE, ONE_HOUR_WRITE, WARM, Prices, model_prices, prices
from autoprune.errors import SettingsError
from autoprune.settings.values import UNKNOWN_WINDOW, context_window, usual_zone, window_of
from autoprune.tokens import Count, exact
from autoprune.wire import new_parser
from autoprune.wire.parsing import parse

LATEST_TIME = 1e11  # seconds since the epoch: a later time is an error of the log


@dataclass(frozen=True, slots=True)
class Billing:
    """The basis of one request's bill: the prices of its model and cache, and the tokens of its answer.

    `hit` is the share of the previous prompt that was read from the cache, None if not recorded; `read` are its tokens.
    """

    prices: Prices
    answer: int
    hit: float | None = None
    read: int = 0


def billings(
    recording: Recording, answers: Sequence[int], *, model: str | None = None, life: float | None = None
) -> tuple[Billing, ...]:
    """Find the basis of each request's bill.

    `answers` are the counted tokens of each answer. `model` is used if the log names none. `life` overrides the
    recorded life of the cache, in seconds: then hits in the log, which were of another cache, do not count.
    """
    alive = tuple(lives(recording.requests)) if life is None else (life,) * len(recording.requests)
    observed = observed_life(recording.requests) if life is None else 0.0
    has_cache = not _has_no_cache(recording.requests)
    has_reads = any(each.usage and each.usage.cached for each in recording.requests)
    billed_requests: list[Billing] = []
    # A log that counts no cached tokens says nothing about hits, unless it shows that nothing was cached at all.
    has_hits = life is None and (has_reads or not has_cache)
    last: Usage | None = None
    named = next((each.model for each in recording.requests if each.model), "")
    began = next((each.time for each in recording.requests if each.time is not None), None)
    for request, seconds, counted in zip(recording.requests, alive, answers, strict=True):
        named = request.model or named
        at = listed_prices(named, model, seconds, began if request.time is None else request.time)
        at = replace(at.with_reads if has_reads else at, life=max(at.life, observed))
        at = at if has_cache else replace(at, read=1.0, write=1.0)
        usage = request.usage
        answer = recorded_output(request, counted) or counted
        hit, read = _hit(usage, last) if has_hits else (None, 0)
        billed_requests.append(Billing(at, answer, hit, read))
        last = usage or last
    return tuple(billed_requests)


def _has_no_cache(requests: Sequence[Request]) -> bool:
    """Return whether the log counts the cached tokens of all its requests, and there are none."""
    known = [each.usage for each in requests if each.usage and each.usage.prompt]
    return bool(known) and all(each.counts_cached and not each.cached and not each.written for each in known)


def observed_life(requests: Sequence[Request]) -> float:
    """Return the longest pause in seconds after which a request found most of the previous prompt in the cache."""
    warm = [0.0]
    for before, now in pairwise(requests):
        hit, _ = _hit(now.usage, before.usage)
        if hit is not None and hit >= WARM and before.usage and before.usage.prompt:
            warm.append(pause_between(before, now))
    return max(warm)


def _hit(usage: Usage | None, last: Usage | None) -> tuple[float | None, int]:
    if usage is None or not usage.prompt:
        return None, 0
    whole = min(last.prompt, usage.prompt) if last and last.prompt else usage.prompt
    return min(1.0, usage.cached / whole), usage.cached


def listed_prices(named: str, given: str | None, life: float | None, time: float | None) -> Prices:
    """Look up the prices of the model that a log names at a time, and of a cache with a life in seconds.

    If the log names no model or one whose price is not known, those of the `given` model count.
    """
    when = datetime.now(UTC).replace(hour=12, minute=0)  # not by the hour of the replay, on which some prices depend
    if time is not None and 0 < time < LATEST_TIME:
        when = datetime.fromtimestamp(time, UTC)
    found = _listed_prices(named, life, when.replace(minute=when.minute // 15 * 15, second=0, microsecond=0))
    return (
        found if found.input_price is not None or given in (None, "", named) else listed_prices(given, None, life, time)
    )


@lru_cache(maxsize=2_048)
def _listed_prices(model: str, life: float | None, when: datetime) -> Prices:
    return model_prices(model, when=when, life=life) if model else prices(None, life=life)


def lives(requests: Sequence[Request]) -> Iterator[float | None]:
    """Yield the life of the cache that each request writes, in seconds; None if the log does not say."""
    life = next((request.life for request in requests if request.life), None)
    for request in requests:
        life = request.life or life
        yield life


def recorded_prices(
    requests: Sequence[Request], named: str = "", *, model: str | None = None, life: float | None = None
) -> Iterator[Prices]:
    """Yield the prices at which each request was billed: of its model, else of `named`, at its time.

    `model` and `life` are those of requests about which the log says nothing.
    """
    named = named or next((each.model for each in requests if each.model), "")
    for request, alive in zip(requests, lives(requests), strict=True):
        at = listed_prices(request.model or named, model, life if alive is None else alive, request.time)
        yield at.with_reads if request.usage and request.usage.cached else at


def as_recorded(requests: Sequence[Request], *, model: str | None, life: float | None) -> Iterator[Billing]:
    """Yield the billing of each request by its recorded usage, as `spending` adds it up."""
    for request, at in zip(requests, recorded_prices(requests, model=model, life=life), strict=True):
        yield Billing(at, request.usage.output if request.usage else 0)


GIVEN = "given"  # how a model or a cache life is known that the user named


def sources(recording: Recording, *, model: str | None, life: float | None, used: float = 0.0) -> tuple[str, str]:
    """Tell how a session's model and its cache life are known: "recorded", "requested", "given" or "assumed".

    A life in seconds that is `used` because the cache was warm after such a pause is "observed".
    """
    requests = recording.requests
    is_observed = used > 0 and used == observed_life(requests)
    is_named = any(each.model for each in requests)
    is_written = any(each.usage and (each.usage.written_5m or each.usage.written_1h) for each in requests)
    is_asked = any(each.cache_life for each in requests)
    model_from = "recorded" if is_named else GIVEN if model else "assumed"
    if life is not None:
        return model_from, GIVEN
    if is_observed:
        return model_from, "observed"
    return model_from, "recorded" if is_written else "requested" if is_asked else "assumed"


LEAST_PRICED = 0.9  # share of the requests of a recording


def recorded_cost(requests: Sequence[Request], known: Sequence[Billing]) -> float | None:
    """Compute the dollars of the recorded requests; None if the cost of more than a tenth of them is not known.

    Some agents log no usage for a request that was aborted.
    """
    pairs = ((request.usage, billing) for request, billing in zip(requests, known, strict=True))
    costs = (usage_dollars(usage, each.prices, each.answer) for usage, each in pairs if usage)
    priced = [cost for cost in costs if cost is not None]
    return sum(priced) if priced and len(priced) >= LEAST_PRICED * len(requests) else None


def usage_dollars(usage: Usage, at: Prices, answer: int) -> float | None:
    """Return the cost that the log states, or else that of the prompt and of `answer` tokens.

    None without a price, and for a log that counts only answers, as Copilot CLI's.
    """
    if usage.cost is not None:
        return usage.cost
    if at.input_price is None or not usage.prompt:
        return None
    fresh = max(0, usage.prompt - usage.cached - usage.written)
    writing = at.write * usage.written
    if usage.written_5m and usage.written_1h:
        writing = FIVE_MINUTE_WRITE * usage.written_5m + ONE_HOUR_WRITE * usage.written_1h
    tier = at.tier(usage.prompt)
    prompt = at.read * usage.cached + writing + fresh
    return at.input_price * (tier.prompt * prompt + tier.answer * at.output * answer)


LEAST_REQUESTS = 20  # shorter recordings say little about a strategy


@dataclass(frozen=True)
class Episode:
    """A conversation without a compaction, request by request, as it was sent.

    `session` is the name of its file, and `number` the number of the conversation in the file, 0 if it is the only one.
    `requests` are the indexes of the messages before which the recorded requests were sent: the first messages of their
    answers. A model message that a compaction kept, or that the agent wrote itself, is not an answer to a request.

    `sizes` are in the provider's tokens. For pruners, `head` are the counted tokens before the messages, such as the
    system prompt and the schemas of the tools, and `ratio` is the calibration. `pauses` are
    seconds, by the index of the message after the pause. `safe_zone` is for a whole prompt, in the provider's tokens.
    `window` is the context window of the session's model, in our tokens. `compact_at` are the provider's tokens of a
    prompt at which the agent compacts; None if it never does. `project` is that of its folder, "" if unknown.
    """

    session: str
    messages: list[Any] = field(repr=False)
    transcript: Transcript = field(repr=False)
    requests: tuple[int, ...] = field(repr=False)
    sizes: Sizes = field(repr=False)
    head: int = 0
    pauses: Mapping[int, float] = field(default_factory=dict, repr=False)
    safe_zone: int = 100_000
    number: int = 0
    ratio: float = 1.0
    billings: tuple[Billing, ...] = field(default=(), repr=False)
    title: Title = UNTITLED
    window: int = UNKNOWN_WINDOW
    compact_at: int | None = None
    project: str = ""

    @property
    def name(self) -> str:
        """The name of the session's file, with the number of the conversation if it holds several."""
        return f"{self.session}#{self.number}" if self.number else self.session

    @cached_property
    def walk_numbers(self) -> tuple[int, ...]:
        """The number of each request in a walk, which treats every message of the model as an answer."""
        return tuple(bisect_right(self.transcript.requests, start) - 1 for start in self.requests)

    def first_request_from(self, walk_number: int) -> int:
        """Find the first recorded request at or after number `walk_number` of a walk."""
        return bisect_left(self.walk_numbers, walk_number)

    @cached_property
    def with_inputs(self) -> Transcript:
        """The transcript, with the inputs of calls as parts that a text can replace."""
        return parse(self.messages, new_parser(exact(), wants_inputs=True), 0)

    @cached_property
    def unpruned(self) -> tuple[int, ...]:
        """The provider's tokens of each recorded prompt."""
        return self.sizes.prompts(self.requests)

    @cached_property
    def hidden(self) -> dict[str, int]:
        """The counted tokens of thinking, by the id of the first call of its answer."""
        answers = [each for each in zip(self.transcript.entries, self.sizes.messages, strict=True) if each[0].calls]
        extra = {entry.calls[0].id: round(size / self.sizes.text) - entry.tokens for entry, size in answers}
        return {id: tokens for id, tokens in extra.items() if id is not None and tokens > 0}

    @cached_property
    def thinking(self) -> tuple[float, ...]:
        """The provider's tokens of each message beyond its visible text; 0 if the model did not write it."""
        pairs = zip(self.transcript.entries, self.sizes.messages, strict=True)
        return tuple(
            max(0.0, size - self.sizes.text * entry.tokens) if entry.speaker is Speaker.MODEL else 0.0
            for entry, size in pairs
        )

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """The counted tokens that each request sends beside its messages and their thinking."""
        shown = (
            entry.tokens + (self.hidden.get(entry.calls[0].id or "", 0) if entry.calls else 0)
            for entry in self.transcript.entries
        )
        before = list(accumulate(shown, initial=0))
        prompts = zip(self.requests, self.unpruned, strict=True)
        return tuple(max(0, round(prompt / self.ratio) - before[start]) for start, prompt in prompts)

    @cached_property
    def prices(self) -> Prices:
        """The most frequent prices of the episode's requests."""
        counts = Counter(each.prices for each in self.billings)
        return counts.most_common(1)[0][0] if counts else DEFAULT

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence that the recorded actions needed."""
        return evidence(self.transcript, self.requests)

    @cached_property
    def protected(self) -> tuple[tuple[Protected, ...], ...]:
        """The protected content at each request."""
        return protected_content(self.transcript, self.requests, self.walk_numbers)

    def is_cold(self, request: int, life: float | None = None) -> bool:
        """Return whether a request finds no part of its prompt in the cache.

        With a `life` in seconds, a request is cold after a longer pause. Without `life`, the log decides, or else
        whether the pause was longer than the life of the request's own cache.
        """
        billing = self.billings[request] if life is None else None
        if billing and billing.hit is not None:
            return billing.hit < WARM
        life = billing.prices.life if billing else life
        return request == 0 or self.pauses.get(self.requests[request], 0.0) > (life or 0.0)

    def cached_tokens(self, request: int, prompt: int, shared: int, life: float | None = None) -> float:
        """Estimate how many tokens of a prompt are read from the cache, by the provider's count.

        `shared` are the tokens of the prefix that the prompt shares with the previous one; `life` is as in `is_cold`.
        """
        billing = self.billings[request] if life is None else None
        if billing is None or billing.hit is None:
            return 0 if self.is_cold(request, life) else shared
        if request == 0:
            return min(billing.read, prompt)
        return min(billing.read, shared) if billing.hit < WARM else billing.hit * shared


def longest(recordings: Sequence[Recording]) -> Recording | None:
    """Find the recording with the most requests; None if no recording has at least 20."""
    recording = max(recordings, key=lambda each: len(each.requests), default=None)
    return recording if recording and len(recording.requests) >= LEAST_REQUESTS else None


def episode(
    recording: Recording,
    session: str,
    count: Count,
    *,
    safe_zone: int | None = None,
    number: int = 0,
    model: str | None = None,
    life: float | None = None,
    title: Title = UNTITLED,
) -> Episode:
    """Read a recording as an episode; `number` is its number in a session file with several conversations.

    `model` is used if the log names none, and `life` overrides the life of the cache, in seconds. The default safe zone
    is the one that `autoprune run` uses for the session's model.
    """
    messages: list[Any] = list(recording.messages)
    transcript = parse(messages, new_parser(count), 0)
    pauses = {
        now.message: seconds for before, now in pairwise(recording.requests) if (seconds := pause_between(before, now))
    }
    requests = tuple(each.message for each in recording.requests)
    named = next((each.model for each in recording.requests if each.model), model)
    sizes = fit_sizes(recording, transcript, named)
    head = round(max(0.0, median(sizes.beside)) / sizes.text)
    billed = billings(recording, tuple(answers_of(transcript, requests, sizes.text)), model=model, life=life)
    return Episode(
        session=session,
        messages=messages,
        transcript=transcript,
        requests=requests,
        sizes=sizes,
        head=head,
        pauses=pauses,
        safe_zone=safe_zone or _usual_zone(named, max(sizes.prompts(requests), default=0)),
        number=number,
        ratio=sizes.text,
        billings=billed,
        title=title,
        window=round(_window(named) / sizes.text),
        project=project_of(recording.folder),
    )


def join(before: Episode, after: Episode, pause: float) -> Episode:
    """Continue a stretch with the answers of the next one, as if the compaction between them had not happened.

    What stands before the first of these answers is left out: the summary, and what the agent repeated beside it.
    `pause` are the seconds before that answer.
    """
    start = after.requests[0]
    if before.transcript.entries and before.transcript.entries[-1].speaker is Speaker.MODEL:
        start = max(0, start - 1)  # the agent continued with words of the user
    moved = len(before.messages) - start
    messages = [*before.messages, *after.messages[start:]]
    # What the log lacks of the first stretch stays in the prompt, and what it lacks of the compaction is not in it.
    more = before.sizes.beside[-1] - median(after.sizes.beside)
    sizes = replace(
        before.sizes,
        messages=(*before.sizes.messages, *after.sizes.messages[start:]),
        beside=(*before.sizes.beside, *(each + more for each in after.sizes.beside)),
    )
    return replace(
        before,
        messages=messages,
        transcript=parse(messages, new_parser(exact()), 0),
        requests=(*before.requests, *(at + moved for at in after.requests)),
        sizes=sizes,
        pauses={
            **before.pauses,
            after.requests[0] + moved: pause,
            **{at + moved: each for at, each in after.pauses.items()},
        },
        billings=(*before.billings, replace(after.billings[0], hit=None), *after.billings[1:]),
    )


COUNTED_MORE = 1.05  # a pruner may count a little more for a prompt than the log


def _usual_zone(model: str | None, longest: int) -> int:
    """Return the safe zone of `autoprune run`; the longest prompt shows what the log does not tell of the window.

    The log may lack the model, which a live request names, or the beta that asks for a long window.
    """
    window = window_of(model)
    if window is None:
        return max(usual_zone(model), round(COUNTED_MORE * longest))
    return usual_zone(model, _window(model) if longest > window else window)


def _window(model: str | None) -> int:
    """Return the largest context window of a model in the provider's tokens, 200,000 if it is not known."""
    try:
        return context_window(model)
    except SettingsError:
        return UNKNOWN_WINDOW


def answers_of(transcript: Transcript, requests: Sequence[int], ratio: float) -> Iterator[int]:
    """Yield the provider's tokens of the answer to each request."""
    for start in requests:
        answer = transcript.entries[start : answer_end(transcript, start)]
        yield round(ratio * sum(entry.tokens for entry in answer))


def pause_between(before: Request, now: Request) -> float:
    """Compute the seconds between two answers. If their times are unknown, return the recorded pause of the model."""
    if before.time is None or now.time is None:
        return now.pause or 0.0
    return max(0.0, now.time - before.time)
