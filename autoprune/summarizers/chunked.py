"""A summary of a history that is longer than its summarizer's window: in parts, which are then made one."""

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TypeAlias

from autoprune.conversation.transcript import Speaker
from autoprune.errors import check_number
from autoprune.summarizers import sections
from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Steps, Written
from autoprune.summarizers.driver import CONCURRENCY, calls_model, identity_of, keeps_request, run
from autoprune.summarizers.utterances import JOINT_TOKENS, Utterance, rendered

DEPTH = 5
CALLS = 16
FAN_IN = 4  # partial summaries that one question has room for, at least
LEAST_PART = 16  # tokens; a partial summary in less room says nothing
FRAME_TOKENS = 16  # around a partial summary in a question
GROWTH = 50  # parts that are too many are made longer by their length through this
REQUEST_SHARE = 4  # of a part that is shortened, its first request takes at most the room through this

Utterances: TypeAlias = tuple[Utterance, ...]
Partials: TypeAlias = tuple[Written, ...]
Round: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Partials | Failed]


@dataclass(frozen=True)
class Sizes:
    """Tokens: of the record in a question, of a partial summary, of the last one; and partial ones in one question."""

    room: int
    partial: int
    whole: int

    @property
    def fan_in(self) -> int:
        """How many partial summaries one question makes one."""
        return (self.room - self.whole) // (self.partial + FRAME_TOKENS)


@dataclass(frozen=True)
class Chunked:
    """Lets `inner` summarize a history in parts of at most `window_tokens`, and then the parts' summaries as one.

    `window_tokens` is for what a brief says (the summary so far, the request, the utterances) and the summary, in
    tokens as the brief counts; leave room for the instructions that `inner` adds. A history that fits is given to
    `inner` as it is. The cuts are between utterances, never between a call and its result.

    The parts are asked at the same time, `concurrency` at most. The first part goes on from the summary so far, and
    the others are made one with it: the goal passes from summary to summary. At most `calls` questions are asked of
    `inner` in at most `depth` rounds; where these are too few for all parts, the parts are longer and their tool
    results are shortened to fit. Where one part fails, nothing more is asked and the whole has failed.
    """

    inner: Callable[[Brief], object] = field(repr=False)
    window_tokens: int
    concurrency: int = field(default=CONCURRENCY, kw_only=True)
    depth: int = field(default=DEPTH, kw_only=True)
    calls: int = field(default=CALLS, kw_only=True)

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
        """What `inner` is called, and how its work is cut."""
        self.check()
        return f"{identity_of(self.inner)} in parts of {self.window_tokens}, {self.calls} calls, {self.depth} rounds"

    def check(self) -> None:
        """Raise SettingsError for a number that cannot be used."""
        for name in ("window_tokens", "concurrency", "depth", "calls"):
            check_number(name, getattr(self, name), 1)

    def __call__(self, brief: Brief) -> Answer:
        """The summary; the parts are asked in threads."""
        return run(self.steps(brief), self.concurrency)

    def steps(self, brief: Brief) -> Steps:
        """Yields the questions of a round in lots of `concurrency`, is sent their answers, returns the summary."""
        self.check()
        sizes = self._sizes(brief)
        if sizes.partial < LEAST_PART:
            return Failed(f"a window of {self.window_tokens:,} tokens has no room for a part of the history")
        parts = self._parts(brief, sizes)
        spent: Partials = ()
        while True:
            made = yield from self._round(parts)
            if isinstance(made, Failed):
                return made
            spent += made
            if len(made) == 1:
                return _total(spent)
            parts = _consolidating(brief, made, sizes)

    def _sizes(self, brief: Brief) -> Sizes:
        room = self.window_tokens - brief.count(brief.previous) - brief.count(brief.request)
        whole = min(brief.max_tokens, room // 2)
        return Sizes(room, min(whole, (room - whole) // FAN_IN - FRAME_TOKENS), whole)

    def _round(self, parts: Sequence[Brief]) -> Round:
        """The summaries of parts, or the first failure."""
        made: Partials = ()
        for at in range(0, len(parts), self.concurrency):
            for answer in (yield [Ask(self.inner, part) for part in parts[at : at + self.concurrency]]):
                if isinstance(answer, Failed):
                    return answer if len(parts) == 1 else Failed(f"one of {len(parts)} parts: {answer.why}")
                made += (answer,)
        return made if len(parts) == 1 else tuple(map(_noted, made, parts))

    def _parts(self, brief: Brief, sizes: Sizes) -> list[Brief]:
        """What is asked first: the brief itself where it fits, else its parts."""
        groups = _groups(brief.utterances)
        weights = [_weight(group, brief) for group in groups]
        if sum(weights) <= sizes.room - brief.max_tokens:
            return [brief]
        parts = _packed(groups, weights, sizes.room - sizes.partial, self._most_parts(sizes.fan_in))
        room = sizes.room - (sizes.partial if len(parts) > 1 else sizes.whole)
        briefs = [replace(brief, utterances=_within(part, brief, room), previous="") for part in parts]
        briefs[0] = replace(briefs[0], previous=brief.previous)
        return [replace(one, max_tokens=sizes.partial if len(parts) > 1 else sizes.whole) for one in briefs]

    def _most_parts(self, fan_in: int) -> int:
        """How many parts a history may have, so that all questions are within `calls` and all rounds within `depth`."""

        def questions(parts: int) -> int:
            return 1 if parts == 1 else parts + questions(math.ceil(parts / fan_in))

        affordable = bisect_right(range(1, self.calls + 1), self.calls, key=questions)
        reachable: int = fan_in ** min(self.depth - 1, self.calls)
        return min(affordable, reachable)


def _groups(utterances: Utterances) -> list[Utterances]:
    """The utterances, those together that no cut may part: a call, its result and what stands between them."""
    calls = {call.location: at for at, one in enumerate(utterances) for call in one.calls}
    opened = [
        min((calls.get(each.call.location, at) if each.call else max(at - 1, 0) for each in one.results), default=at)
        for at, one in enumerate(utterances)
    ]
    earliest = [*accumulate(reversed(opened), min)][::-1]
    starts = [at for at, reached in enumerate(earliest) if reached >= at]
    return [utterances[start:stop] for start, stop in pairwise((*starts, len(utterances)))]


def _weight(group: Utterances, brief: Brief) -> int:
    """The tokens of utterances as a summarizer reads them."""
    return brief.count(rendered(group, brief.count, sys.maxsize)) + JOINT_TOKENS


def _packed(groups: Sequence[Utterances], weights: Sequence[int], limit: int, most: int) -> list[Utterances]:
    """The groups in at most `most` parts, each of at most `limit` tokens as far as that is possible."""
    parts = [*_filled(groups, weights, limit)]
    limit = max(limit, sum(weights) // most)
    while len(parts) > most:
        parts = [*_filled(groups, weights, limit)]
        limit += limit // GROWTH + 1
    return parts


def _filled(groups: Sequence[Utterances], weights: Sequence[int], limit: int) -> Iterator[Utterances]:
    part: Utterances = ()
    weight = 0
    for group, more in zip(groups, weights, strict=True):
        if part and weight + more > limit:
            yield part
            part, weight = (), 0
        part += group
        weight += more
    yield part


def _within(part: Utterances, brief: Brief, room: int) -> Utterances:
    """A part as it is, or where it is longer than the room: the first request in it, and the rest as one short text."""
    if _weight(part, brief) <= room:
        return part
    request = sections.cut(sections.first_request(part), room // REQUEST_SHARE, brief.count)
    rest = rendered(part, brief.count, room - brief.count(request) - FRAME_TOKENS)
    asked = (Utterance(Speaker.USER, request),) if request else ()
    return (*asked, Utterance(Speaker.OTHER, rest))


def _consolidating(brief: Brief, made: Partials, sizes: Sizes) -> list[Brief]:
    """The questions that make fewer summaries of many: each goes on from the first of its own."""
    lots = math.ceil(len(made) / sizes.fan_in)
    edges = [len(made) * at // lots for at in range(lots + 1)]
    room = sizes.whole if lots == 1 else sizes.partial
    texts = [sections.cut(each.text, sizes.partial, brief.count) for each in made]
    return [
        replace(brief, utterances=tuple(map(_said, texts[start + 1 : stop])), previous=texts[start], max_tokens=room)
        for start, stop in pairwise(edges)
    ]


def _noted(answer: Written, part: Brief) -> Written:
    """The summary of a part; where it is longer than its room, with a note that it will be cut."""
    size = part.count(answer.text)
    if size <= part.max_tokens:
        return answer
    note = f"the summary of a part had {size} tokens and was cut to {part.max_tokens}"
    return replace(answer, notes=(*answer.notes, note))


def _said(partial: str) -> Utterance:
    return Utterance(Speaker.OTHER, f"Summary of the messages that follow:\n{partial}")


def _total(spent: Partials) -> Written:
    """The last summary, with what all of them took; the cost where each has one."""
    costs = [each.cost for each in spent]
    return replace(
        spent[-1],
        notes=tuple(dict.fromkeys(note for each in spent for note in each.notes)),
        input_tokens=sum(each.input_tokens for each in spent),
        output_tokens=sum(each.output_tokens for each in spent),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )
