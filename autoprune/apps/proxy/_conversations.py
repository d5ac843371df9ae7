"""Track the pauses, the cache life and the calibration of each conversation, and the settings of its requests.

A client may change the model in the middle of a conversation, or ask another model a side question about it. Each model
has its own cache and its own tokens, and so its own `TrackedConversation`. But a result that was cleared for one model
stays cleared for the other: they share a `Past`.

A conversation may branch: agents fork it, ask side questions about it, and go back in it, also while a request is on
its way. What the provider has cached of a branch was pruned by the pauses and invoices of this branch:

    request                             past
    1 to 40 of the conversation         one
    41 of a fork                        a copy, from here on the fork's
    41 of the conversation              the one of requests 1 to 40, which the fork has not changed
    1 of a session that begins with     a copy, as the fork's, also if another proxy has sent the 40
    requests 1 to 40 of this one
    42 of the conversation, later       its own, with the pause since the fork's last request
    30 again, after going back          a copy. If results before it were cleared at 35, the provider may hold its
                                        prompt no longer: the pause is that since request 34

**The cache's life.** A request asks for a time to live by its cache marks. Its answer reports how many tokens were
written for which time:

    request 1   cache_control: {"type": "ephemeral", "ttl": "1h"}       asks for an hour, which is assumed
    answer 1    cache_creation: {"ephemeral_5m_input_tokens": 9000}     a gateway has changed it to five minutes
    request 2   cache_control: {"type": "ephemeral", "ttl": "1h"}       five minutes

So the answer to a request that asked for the same life takes precedence, then the request, then the model's usual life.
A client may alternate: Claude Code asks for an hour in its conversation and for no life in a side question. If a
request asks for another life than the one before, the longer of both holds, because the cached prefix was written under
the earlier one.

**Whether a prefix was warm.** Each answer also reports how many tokens were read from the cache. If that is at least
half of the previous prompt, the cache was warm; otherwise it was cold. This corrects the life that is assumed for the
upstream, the model and the requested life, in all conversations of a worker. A read that may only be the system prompt
and the tools shows nothing, since other conversations share them:

    5 min assumed, warm after 400 s                          400 s: the longest pause after which a prompt was warm
    1 h assumed, cold after 700, 900 and 1,000 s             5 min: the longest documented life below these pauses
    5 min assumed, cold after 5, 8 and 5 s, and never warm   none: every request is cold

A life that is too short costs money, because edits would break a warm cache, and a life that is too long only misses
chances. So one warm answer extends a life, and it takes three cold ones to shorten it, each for a prompt that continues
the previous one unedited.

**What was charged.** The tokens that answers report as read and written are the invoices of their requests. With the
next request the pruner gets them, so that its account of the guarantee (`never_dearer`) holds what was paid.

Gemini's implicit cache has no documented life. A request with an explicit cache is not pruned, because the provider
keeps its history.

Sources: the API references of Anthropic ("Prompt caching", 1-hour duration), Amazon (CachePointBlock, CacheDetail) and
OpenAI ("Prompt caching": `prompt_cache_options`, `prompt_cache_retention`, `cache_write_tokens_details`).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from hashlib import blake2b
from itertools import count
from typing import TypeAlias

from autoprune.apps.proxy._resuming import Past, PastFiles
from autoprune.conversation.edits import content_id
from autoprune.economics import CACHE_LIFE, WARM
from autoprune.errors import SettingsError, is_number
from autoprune.pruners.history import Recent, end_digest, is_from_model, prefix_digests
from autoprune.settings.values import LONGEST_TTL, ttl_seconds
from autoprune.tokens import calibration, counts_cached, is_plausible, prompt_tokens

STEADY = 0.05  # a calibration stays until it is off by more than this: the limits of windows and clients are close
MOST_BRANCHES = 64  # of a conversation in a session: subagents that begin as copies of it work at the same time
MOST_PASTS = 512  # branches of all conversations
QUIET = 240.0  # seconds, less than any cache's life: after these, a fork behind another proxy may have kept it warm
MOST_UNANSWERED = 64  # prompts of a conversation whose answer may still come
LEAST_MEASURED = 10_000  # tokens: in smaller prompts tool schemas weigh most, and providers count these differently
STEPS = 50  # a calibration is rounded to a multiple of 1/50

Life: TypeAlias = float | None  # seconds; None if unspecified
WRITTEN = re.compile(r"(?:ephemeral|ttl)_(\d{1,6}[smh])(?:_input)?_tokens")  # the names at Anthropic and at OpenAI
DEEPEST = 3  # nesting of figures in a usage: input_tokens_details.cache_write_tokens_details.ttl_30m_tokens
FROM_ANSWERS, FROM_REQUESTS, FROM_SETTINGS, USUAL = "as reported in answers", "as requested", "from the settings", ""
FROM_READS = "as cache reads show"
MISSES = 3  # cold answers that shorten a life: a single one may be an eviction, or a request that another server got
DOCUMENTED = (300.0, 1_800.0, 3_600.0, 43_200.0, 86_400.0)  # seconds: the lives that providers document


# The cache of a conversation


@dataclass
class Reads:
    """The pauses after which prompts were read from a cache, or not: `warm` is the longest, `cold` are longer ones."""

    warm: float | None = None
    cold: list[float] = field(default_factory=list)

    def note(self, pause: float, *, is_warm: bool, is_edited: bool, life: float) -> None:
        """Record an answer after a pause; a cold one only if the life is longer and nothing was cleared."""
        if is_warm:
            self.warm = max(pause, self.warm or 0.0)
            self.cold = [each for each in self.cold if each > pause]
        elif not is_edited and (self.warm or -1.0) < pause <= life:
            self.cold = [*self.cold, pause][-MISSES:]

    def correct(self, life: float) -> float:
        """Correct an assumed life; 0 if nothing is cached."""
        if len(self.cold) == MISSES and max(self.cold) <= life:
            none = () if self.warm is not None else (0.0,)
            life = max((each for each in (*none, *DOCUMENTED) if each < min(self.cold)), default=life)
        return max(life, min(self.warm or 0.0, LONGEST_TTL))


@dataclass
class Cache:
    """The provider's cache of one conversation: its life in seconds, and the source of that value.

    `usual` is the life if nothing else is known. `given` is the life in the settings, which takes precedence over all
    other sources. `reads` shows whether such caches live so long, and is shared by conversations. `requested` is the
    life that the last request asked for.
    """

    usual: float = CACHE_LIFE
    given: Life = None
    life: float = CACHE_LIFE
    source: str = USUAL
    reads: Reads = field(default_factory=Reads)
    requested: Life = None
    _before: tuple[float, str] = (0.0, USUAL)
    _reported: dict[Life, float] = field(default_factory=dict)  # by the life that the request asked for

    @property
    def unusual_source(self) -> str:
        """The source of the life; "" if the life is the usual one."""
        return self.source if self.life != self.usual else USUAL

    def note_request(self, requested: Life) -> None:
        now = self._life_for(requested)
        self.life, self.source = now if requested == self.requested else max(now, self._before)
        self.requested, self._before = requested, now

    def learn_life(self, usage: object, requested: Life) -> None:
        """Record the cache writes that the answer to a request that asked for this life reports, with their lives."""
        tokens = cache_writes(usage)
        if not tokens:
            return
        # The system prompt may be written with another life than the messages, for which the request asks.
        wanted = self.usual if requested is None else requested
        self._reported[requested] = wanted if wanted in tokens else max(tokens, key=lambda life: tokens[life])

    def _life_for(self, requested: Life) -> tuple[float, str]:
        if self.given is not None:
            return self.given, FROM_SETTINGS
        assumed = self.usual, USUAL
        if requested in self._reported:
            assumed = self._reported[requested], FROM_ANSWERS
        elif requested is not None:
            assumed = requested, FROM_REQUESTS
        life = self.reads.correct(assumed[0])
        return assumed if life == assumed[0] else (life, FROM_READS)


def cache_writes(usage: object) -> Mapping[float, int]:
    """Return the tokens that a usage reports as written to the cache, by their life in seconds."""
    tokens: Counter[float] = Counter()
    for name, value in _usage_figures(usage, DEEPEST):
        match = WRITTEN.fullmatch(name)
        life = ttl_seconds(match[1]) if match else None
        if life is not None and is_number(value, 1):
            tokens[life] += value  # type: ignore[operator]  # a number
    return tokens


def _usage_figures(usage: object, deep: int) -> Iterator[tuple[str, object]]:
    """Yield the figures of a usage with their names, including nested figures; Bedrock's get names like OpenAI's."""
    match usage:
        case {"ttl": str(ttl), "inputTokens": value}:  # Bedrock's CacheDetail
            yield f"ttl_{ttl}_tokens", value
        case Mapping() if deep >= 0:
            for name, value in usage.items():
                yield str(name), value
                yield from _usage_figures(value, deep - 1)
        case list() if deep >= 0:
            for each in usage:
                yield from _usage_figures(each, deep - 1)


# Conversations

PRUNED, UNPRUNED = "pruned", "unpruned"  # the arms of a holdout
DRAW_BYTES = 8


def draw_arm(share: float, seed: str, session: str, start: str) -> str:
    """Draw the arm of the conversation with this digest of its first messages, the same one in every process.

    `share` of the conversations are forwarded unpruned; without a share, the arm is "".
    """
    if not share:
        return ""
    drawn = int.from_bytes(blake2b(json.dumps([seed, session, start]).encode(), digest_size=DRAW_BYTES).digest())
    return UNPRUNED if drawn / 256**DRAW_BYTES < share else PRUNED


@dataclass(frozen=True)
class Prompt:
    """A prompt that was sent: its branch, its number of messages, its tokens, and the cache life it asked for.

    The tokens are in pruning's count, and `beside` are those beside the messages.
    """

    past: Past
    messages: int
    counted: int
    requested: Life
    beside: int = 0


@dataclass
class TrackedConversation:
    """The state of a conversation with a model.

    `asked_at` is when the last request came, `idle` the seconds before it, and `counted` its prompt in pruning's token
    count. `is_edited` tells whether it cleared results. `answered` is the prompt of the last answer in the provider's
    tokens, and `before` that of the previous request's answer; 0 if it is not known. `past` is the branch of the last
    request, and `end` the digest of its last messages. `prompts` are those whose answer may still come, by the number
    of the prune. `is_shared` tells whether other branches were at work before the pause: they would no longer find the
    beginning in the cache after a cut.
    """

    name: str
    past: Past = field(default_factory=Past)
    asked_at: float | None = None
    calibration: float = 1.0
    cache: Cache = field(default_factory=Cache)
    counted: int = 0
    idle: float = 0.0
    is_edited: bool = False
    answered: int = 0
    before: int = 0
    end: str = ""
    prompts: dict[int, Prompt] = field(default_factory=dict)
    is_shared: bool = False

    def note_request(self, messages: int, at: float, *, counts_only: bool = False) -> float:
        """Record a request with this many messages, and return the seconds since the previous request.

        Those are the seconds since a request to any model, since a cut changes what the caches of all models hold, and
        since one with the same beginning, if a branch goes back behind a cut. A repeated request keeps its pause unless
        the cache went cold since, so that the same results are cleared again.
        A request that only counts tokens sets the pause of the request that follows, and does not touch the cache.
        """
        asked_at = at if self.asked_at is None else self.asked_at
        pause = max(0.0, at - (asked_at if self.past.seen_at is None else self.past.seen_at))
        if self.asked_at is None and pause <= self.cache.life:  # a model that takes over has nothing in its cache
            pause = 0.0
        if self.is_shared:
            pause = min(pause, self.cache.life)
        if counts_only:
            if messages > max(self.past.pauses, default=0):
                self.past.pauses[messages] = pause
            return 0.0
        self.past.note_request(messages, self.end)
        known = self.past.pauses.get(messages)
        self.past.pauses = {before: pause for before, pause in self.past.pauses.items() if before <= messages}
        if known is None or known <= self.cache.life < pause:
            self.past.pauses[messages] = pause
        self.asked_at = self.past.seen_at = at
        self.idle = max(at - asked_at, pause)
        self.before, self.answered = self.answered, 0
        return self.past.pauses[messages]

    def note_prompt(self, number: int, prompt: Prompt, *, is_edited: bool) -> None:
        """Record the prompt of a prune, and whether that cleared results."""
        self.prompts[number] = prompt
        self.prompts = dict([*self.prompts.items()][-MOST_UNANSWERED:])
        self.counted, self.is_edited = prompt.counted, is_edited

    def learn(self, usage: object, number: int) -> Past | None:
        """Learn from the usage in the answer to the prune with this number; return the branch that was answered.

        Of a prompt that is not known, nothing is learned.
        """
        if not (prompt := self.prompts.pop(number, None)):
            return None
        with suppress(SettingsError):
            prompt.past.note_answer(usage, prompt.messages)
        if prompt.counted < LEAST_MEASURED:
            self.cache.learn_life(usage, prompt.requested)
            return prompt.past
        with suppress(SettingsError):
            measured = calibration(usage, prompt.counted)
            if is_plausible(measured):
                self.cache.learn_life(usage, prompt.requested)
                self._note_read(usage, prompt.beside * measured)
                if abs(measured / self.calibration - 1) > STEADY:
                    self.calibration = max(1, round(measured * STEPS)) / STEPS
        return prompt.past

    def _note_read(self, usage: object, beside: float) -> None:
        """Record whether the answer's usage shows that the previous prompt was still in the cache.

        What is sent `beside` the messages may be there because of other conversations.
        """
        self.answered, read = prompt_tokens(usage)
        whole = min(self.before, self.answered)
        is_shared = WARM * whole <= read < WARM * (whole + beside)
        if whole and not is_shared and (read or counts_cached(usage)):
            is_warm = read >= WARM * whole
            self.cache.reads.note(self.idle, is_warm=is_warm, is_edited=self.is_edited, life=self.cache.life)


Shared: TypeAlias = tuple[int, bool]


def shared_with(messages: Sequence[object]) -> Callable[[Past], Shared]:
    """Return a function of a branch: how many messages the last request that it shares with these had.

    It also returns whether that is the branch's last request, which these messages then continue.
    """
    digest_at = cache(partial(end_digest, messages))

    def shared(past: Past) -> Shared:
        ends = (end for end in sorted(past.ends, reverse=True) if end <= len(messages))
        found = next((end for end in ends if past.ends[end] == digest_at(end)), 0)
        return found, found == max(past.ends, default=0)

    return shared


class Conversations:
    """Remembers the most recently used conversations, with each model apart.

    `reads` returns what answers show about the caches of an upstream, a model and the life that requests ask for.
    """

    def __init__(self, most: int, kept: PastFiles | None = None, holdout: float = 0.0, holdout_seed: str = "") -> None:
        numbers = count(1)
        self._has_arms = holdout > 0  # which are drawn for each session
        self._draw_arm = partial(draw_arm, holdout, holdout_seed)
        self._kept = kept or PastFiles()
        self.reads = lru_cache(most)(lambda upstream, model, requested: Reads())  # the most recently used ones
        self._known = Recent(most, lambda head: TrackedConversation(f"{head}/{next(numbers)}"))
        self._pasts: list[Past] = []  # the most recently used ones, the last one at the end

    def match(
        self,
        session: str,
        messages: Sequence[object],
        at: float,
        model: str | None = None,
        *,
        counts_only: bool = False,
    ) -> TrackedConversation:
        """Find the conversation that the messages of a request at a time continue, or start a new conversation.

        A request that `counts_only` begins no branch.
        """
        begin = prefix_digests(messages)
        found = self._known.match(f"{session}/{model}", begin)
        shared = shared_with(messages)
        branches = self._find_branches(content_id(session), begin, messages, at, shared)
        begun_at = self._follow(found, content_id(session), branches, messages, shared)
        found.past.begin = begin
        if not counts_only or found.past in branches:
            self._remember(found.past)
        found.end = end_digest(messages, len(messages))
        if found.asked_at is None and found.past.is_answered:
            found.asked_at = self._kept.last_written(session) if begun_at is None else begun_at
            found.calibration = 1.0 if begun_at is None else found.past.calibration
        if found.past.arm is None:
            found.past.arm = self._draw_arm(session, begin[0])
        return found

    def _find_branches(
        self,
        session: str,
        begin: tuple[str, str],
        messages: Sequence[object],
        at: float,
        shared: Callable[[Past], Shared],
    ) -> list[Past]:
        """Return the branches that begin as the messages do, of this session and of others.

        Those of other proxies are loaded if this one has none of the session, and after a pause.
        """

        def begins_alike(past: Past) -> bool:
            if past.session == session:
                return past.begin in (begin, (begin[0], begin[0]))
            has_same = past.begin == begin and not self._has_arms
            return has_same and any(map(is_from_model, messages[: shared(past)[0]]))

        known = [each for each in self._pasts if begins_alike(each)]
        seen = [each.seen_at for each in known if each.session == session and each.seen_at is not None]
        if begin[0] != begin[1] and (not seen or at - max(seen) > QUIET):
            loaded = self._kept.load(begin, {each.id for each in self._pasts})
            for each in [each for each in loaded if each.session == session][:-MOST_BRANCHES]:
                self._kept.remove(each)
            known += [each for each in loaded if begins_alike(each)]
        for each in known:
            if each.seen_at is not None:
                each.seen_at = min(each.seen_at, at)  # the clock may have been set back
        return known

    def _follow(
        self,
        found: TrackedConversation,
        session: str,
        branches: Sequence[Past],
        messages: Sequence[object],
        shared: Callable[[Past], Shared],
    ) -> float | None:
        """Set the branch that a request continues, or a new one that begins as the branch that shares most with it.

        If that was begun elsewhere, return when the last request came.
        """
        own = [each for each in branches if each.session == session and each in self._pasts]
        usable = [each for each in branches if each in own or each.is_continued_by(messages)]
        if not usable:
            found.past, found.is_shared = Past(session=session), False
            return None
        best = max(usable, key=lambda each: (*shared(each), each in own, each.seen_at or 0.0))

        def edited_at(past: Past) -> int | None:
            """Find the first request of a branch that no longer began with what this one shares with it."""
            same = shared(past)[0]
            cuts = (at for at, first in past.cuts.items() if first < same)
            if past is best:  # the request goes back behind a cut
                return min((at for at in cuts if at > len(messages)), default=None)
            return min((at for at in cuts if at > same or best.cuts.get(at) != past.cuts[at]), default=None)

        def is_active(past: Past) -> bool:
            """Return whether a fork is active: lately seen, not cut, and with more requests than a side question."""
            since, same = (last or 0.0) - found.cache.life, shared(past)[0]
            beyond = sum(end > same for end in past.ends)
            return beyond > 1 and same > 0 and edited_at(past) is None and (past.seen_at or 0.0) >= since

        times = (each.last_before(edited_at(each)) for each in branches)
        last = max((time for time in times if time is not None), default=None)
        found.past = best if best.session == session and shared(best)[1] else best.branch()
        found.is_shared = any(is_active(each) for each in branches if each is not found.past)
        is_begun_here = best in own and not best.is_resumed
        found.past.is_resumed = not is_begun_here
        found.past.session, found.past.seen_at = session, last
        return None if is_begun_here else last

    def _remember(self, past: Past) -> None:
        """Remember a branch as the most recently used one, and forget the oldest one of too many."""
        self._pasts = [*(each for each in self._pasts if each is not past), past][-MOST_PASTS:]
        oldest, *others = (each for each in self._pasts if (each.session, each.begin) == (past.session, past.begin))
        if len(others) == MOST_BRANCHES:
            self._pasts = [each for each in self._pasts if each is not oldest]
            self._kept.remove(oldest)

    def get(self, name: str) -> TrackedConversation | None:
        """Look up a conversation by its name; None if it was forgotten."""
        return next((each for each in self._known if each.name == name), None)

    def keep(self, past: Past, calibration: float) -> None:
        """Keep the past of a conversation for other proxies, with the calibration of its last request."""
        past.calibration = calibration
        self._kept.save(past)
