"""Sum up a history that exceeds a summarizer's window: first its parts, then the parts' summaries."""

import math
import sys
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import ClassVar, TypeAlias

from autoprune.conversation.transcript import Speaker
from autoprune.errors import check_number
from autoprune.facts.utterances import Utterance
from autoprune.summarizers import sections
from autoprune.summarizers.brief import (
    Answer,
    Ask,
    Brief,
    Failed,
    Steps,
    Summarizer,
    Written,
    calls_model,
    identity_of,
    keeps_request,
    with_usage,
)
from autoprune.summarizers.driver import CONCURRENCY, run
from autoprune.summarizers.rendering import JOINT_TOKENS, render
from autoprune.summarizers.selection import with_instructions

DEPTH = 5  # rounds
CALLS = 16  # questions, so that one prune has a bounded cost
FAN_IN = 4  # partial summaries that one question has room for, at least
LEAST_PART = 16  # tokens; a shorter partial summary would say nothing
FRAME_TOKENS = 16  # around a partial summary in a question
GROWTH = 50  # if there are too many parts, each grows by its length divided by this until they are few enough
REQUEST_SHARE = 4  # in a shortened part the first request takes at most the room divided by this

Utterances: TypeAlias = tuple[Utterance, ...]
Partials: TypeAlias = tuple[Written, ...]
Round: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Partials | Failed]


@dataclass(frozen=True)
class SummarySizes:
    """The maximum tokens of a question, a partial summary and the last summary."""

    room: int
    partial: int
    whole: int

    @property
    def fan_in(self) -> int:
        """The number of partial summaries that one question merges."""
        return (self.room - self.whole) // (self.partial + FRAME_TOKENS)


@dataclass(frozen=True)
class Chunked:
    """Have `inner` sum up a history in parts of at most `window_tokens`, then the parts' summaries as one.

    `window_tokens` must hold the brief's content (the previous summary, the request, the utterances) and the summary,
    in tokens as the brief counts; leave room for the instructions that `inner` adds. A history that fits is passed to
    `inner` unchanged. The cuts are between utterances, never between a call and its result.

    At most `concurrency` parts are asked for at the same time. The first part continues the previous summary, and the
    other partial summaries are merged with it, so that the goal is passed on. `inner` is asked at most `calls`
    questions in at most `depth` rounds. If these are too few for all parts, the parts become longer and their tool
    results shorter. If one part fails, no more questions are asked and the whole summary fails.
    """

    inner: Summarizer = field(repr=False)
    window_tokens: int
    concurrency: int = field(default=CONCURRENCY, kw_only=True)
    depth: int = field(default=DEPTH, kw_only=True)
    calls: int = field(default=CALLS, kw_only=True)

    reads_in_parts: ClassVar[bool] = True

    @property
    def fallback(self) -> Summarizer:
        """The summarizer to ask for the whole history if a part fails: `inner`."""
        return self.inner

    def with_instructions(self, instructions: str, alone: bool = False) -> "Chunked":
        """Return a copy whose `inner` follows instructions."""
        return replace(self, inner=with_instructions(self.inner, instructions, alone=alone))

    @property
    def calls_model(self) -> bool:
        """Whether `inner` calls a model."""
        return calls_model(self.inner)

    @property
    def keeps_request(self) -> bool:
        """Whether `inner` has a section for the user's first request."""
        return keeps_request(self.inner)

    @property
    def identity(self) -> str:
        """The identity of `inner`, and how the history is cut."""
        self.check()
        return f"{identity_of(self.inner)} in parts of {self.window_tokens}, {self.calls} calls, {self.depth} rounds"

    def check(self) -> None:
        """Raise SettingsError for a number that is out of range."""
        for name in ("window_tokens", "concurrency", "depth", "calls"):
            check_number(name, getattr(self, name), 1)

    def __call__(self, brief: Brief) -> Answer:
        """Return the summary; the parts are asked in threads."""
        return run(self.steps(brief), self.concurrency)

    def steps(self, brief: Brief) -> Steps:
        """Yield the questions of a round, `concurrency` at a time, and return the summary."""
        self.check()
        sizes = self._sizes(brief)
        if sizes.partial < LEAST_PART:
            return Failed(f"a window of {self.window_tokens:,} tokens has no room for a part of the history")
        parts = self._first_round(brief, sizes)
        spent: Partials = ()
        while True:
            partials = yield from self._round(parts)
            if isinstance(partials, Failed):
                return partials
            spent += partials
            if len(partials) == 1:
                return with_usage(spent[-1].text, spent)
            parts = _consolidate(brief, partials, sizes)

    def _sizes(self, brief: Brief) -> SummarySizes:
        room = self.window_tokens - brief.count(brief.previous) - brief.count(brief.request)
        whole = min(brief.max_tokens, room // 2)
        return SummarySizes(room, min(whole, (room - whole) // FAN_IN - FRAME_TOKENS), whole)

    def _round(self, parts: Sequence[Brief]) -> Round:
        """Ask for the summaries of the parts, and return them or the first failure."""
        partials: Partials = ()
        for at in range(0, len(parts), self.concurrency):
            for answer in (yield [Ask(self.inner, part) for part in parts[at : at + self.concurrency]]):
                if isinstance(answer, Failed):
                    return answer if len(parts) == 1 else Failed(f"one of {len(parts)} parts: {answer.why}")
                partials += (answer,)
        return partials if len(parts) == 1 else tuple(map(_note_cut, partials, parts))

    def _first_round(self, brief: Brief, sizes: SummarySizes) -> list[Brief]:
        """Create the questions of the first round: the brief itself if it fits, else its parts."""
        groups = _groups(brief.utterances)
        weights = [_rendered_tokens(group, brief) for group in groups]
        if sum(weights) <= sizes.room - brief.max_tokens:
            return [brief]
        parts = _pack(groups, weights, sizes.room - sizes.partial, self._most_parts(sizes.fan_in))
        most = sizes.partial if len(parts) > 1 else sizes.whole
        return [
            replace(
                brief,
                utterances=_shorten_part(part, brief, sizes.room - most),
                previous="" if at else brief.previous,
                max_tokens=most,
            )
            for at, part in enumerate(parts)
        ]

    def _most_parts(self, fan_in: int) -> int:
        """Compute the most parts for which `calls` and `depth` suffice."""

        def questions(parts: int) -> int:
            return 1 if parts == 1 else parts + questions(math.ceil(parts / fan_in))

        affordable = bisect_right(range(1, self.calls + 1), self.calls, key=questions)
        reachable: int = fan_in ** min(self.depth - 1, self.calls)
        return min(affordable, reachable)


def _groups(utterances: Utterances) -> list[Utterances]:
    """Group the utterances so that no cut separates a call from its result."""
    calls = {call.location: at for at, one in enumerate(utterances) for call in one.calls}
    opened = [
        min((calls.get(each.call.location, at) if each.call else max(at - 1, 0) for each in one.results), default=at)
        for at, one in enumerate(utterances)
    ]
    earliest = [*accumulate(reversed(opened), min)][::-1]
    starts = [at for at, reached in enumerate(earliest) if reached >= at]
    return [utterances[start:stop] for start, stop in pairwise((*starts, len(utterances)))]


def _rendered_tokens(group: Utterances, brief: Brief) -> int:
    """Count the tokens of utterances as a summarizer reads them."""
    return brief.count(render(group, brief.count, sys.maxsize)) + JOINT_TOKENS


def _pack(groups: Sequence[Utterances], weights: Sequence[int], limit: int, most: int) -> list[Utterances]:
    """Pack the groups into at most `most` parts, each of at most `limit` tokens if possible."""
    parts = [*_fill(groups, weights, limit)]
    limit = max(limit, sum(weights) // most)
    while len(parts) > most:
        parts = [*_fill(groups, weights, limit)]
        limit += limit // GROWTH + 1
    return parts


def _fill(groups: Sequence[Utterances], weights: Sequence[int], limit: int) -> Iterator[Utterances]:
    part: Utterances = ()
    weight = 0
    for group, more in zip(groups, weights, strict=True):
        if part and weight + more > limit:
            yield part
            part, weight = (), 0
        part += group
        weight += more
    yield part


def _shorten_part(part: Utterances, brief: Brief, room: int) -> Utterances:
    """Shorten a part that exceeds its room to its first request and one shortened text of all its messages."""
    if _rendered_tokens(part, brief) <= room:
        return part
    request = sections.cut(sections.first_request(part), room // REQUEST_SHARE, brief.count)
    rest = render(part, brief.count, room - brief.count(request) - FRAME_TOKENS)
    asked = (Utterance(Speaker.USER, request),) if request else ()
    return (*asked, Utterance(Speaker.OTHER, rest))


def _consolidate(brief: Brief, partials: Partials, sizes: SummarySizes) -> list[Brief]:
    """Create the questions of the next round. Each merges several summaries, the first of which is its `previous`."""
    lots = math.ceil(len(partials) / sizes.fan_in)
    edges = [len(partials) * at // lots for at in range(lots + 1)]
    room = sizes.whole if lots == 1 else sizes.partial
    texts = [sections.cut(each.text, sizes.partial, brief.count) for each in partials]
    said = [Utterance(Speaker.OTHER, f"Summary of the messages that follow:\n{text}") for text in texts]
    return [
        replace(brief, utterances=tuple(said[start + 1 : stop]), previous=texts[start], max_tokens=room)
        for start, stop in pairwise(edges)
    ]


def _note_cut(answer: Written, part: Brief) -> Written:
    """Add a note to the summary of a part if it exceeds its room and will be cut."""
    size = part.count(answer.text)
    if size <= part.max_tokens:
        return answer
    note = f"the summary of a part had {size} tokens and was cut to {part.max_tokens}"
    return replace(answer, notes=(*answer.notes, note))
