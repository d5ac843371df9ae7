"""Where a conversation may be cut, so that no call is parted from its result. Reads entries alone, changes nothing.

A cut `at` parts `entries[:at]`, the old, from `entries[at:]`, the kept. All functions take neighboring entries, of a
whole conversation or of a part of one; a result whose call stands outside of the part has no call there.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall, ToolResult

ONE_MESSAGE = "nothing can be cut: the newest message is always kept"
ONE_PAIR = "nothing can be cut: each place parts a call from its result"
MESSAGES, TURNS, TOKENS = "messages", "turns", "tokens"  # what a limit may be given for

_Span = tuple[int, int]  # the first and the last of messages that stay together
_Place = tuple[Path, int | None]


@dataclass(frozen=True, slots=True)
class Pair:
    """A call and its result, each by the index of its message; None for the half that is missing.

    `id` is the call's, None where it has none or where only the result is known; `tool` is the tool's name.
    """

    call: int | None
    result: int | None
    id: str | None
    tool: str

    @property
    def is_complete(self) -> bool:
        """Whether both halves are there."""
        return self.call is not None and self.result is not None


@dataclass(frozen=True, slots=True)
class Split:
    """Where to cut. At 0 nothing is cut.

    `is_safe` says that nothing is harmed by it, `is_within` that what is kept is within the limits; where one of them
    is False, `why` says so in words.
    """

    at: int
    is_safe: bool = True
    is_within: bool = True
    why: str = ""


def pairs(entries: Sequence[Entry]) -> tuple[Pair, ...]:
    """Calls with their results, as the parser paired them, in the order in which they begin.

    Open calls and orphans, which are results without a call, are pairs of one half.
    """
    answers: dict[_Place, list[int]] = defaultdict(list)
    orphans: dict[int, list[Pair]] = defaultdict(list)
    for at, result, call_at in _results(entries):
        if result.call is not None and call_at is not None:
            answers[_place(result.call)].append(at)
        else:
            orphans[at].append(Pair(None, at, result.call.id if result.call else None, result.tool))
    found: list[Pair] = []
    for at, entry in enumerate(entries):
        for call in entry.calls:
            found += [Pair(at, result, call.id, call.name) for result in answers.get(_place(call)) or (None,)]
        found += orphans.get(at, ())
    return tuple(found)


def broken(entries: Sequence[Entry]) -> list[str]:
    """What is wrong with each pair of one half, in words: which it is, and which half is missing."""
    problems = []
    for pair in pairs(entries):
        name = repr(pair.id) if pair.id else f"of {pair.tool}"
        if pair.result is None:
            problems.append(f"the call {name} in message {pair.call} has no result")
        elif pair.call is None:
            problems.append(f"the result {name} in message {pair.result} has no call")
    return problems


def cuts(entries: Sequence[Entry]) -> list[int]:
    """The safe cuts, in order; 0 and the end are always among them.

    No other stands within what the model said at once (a run of its messages: calls that were made together, thinking
    and reasoning before them), between a call and its result, or before a result without a call. So a call whose
    result may still come is lost by none, and one that was abandoned makes none unsafe. A place that is safe when the
    model is called stays safe, whatever comes; unless a call is answered so late that the model has spoken since.
    """
    return _outside(_together(entries), len(entries))


def units(entries: Sequence[Entry]) -> list[range]:
    """The messages between neighboring cuts: each unit can be taken out without breaking what remains."""
    return [range(start, stop) for start, stop in pairwise(cuts(entries))]


def turn_starts(entries: Sequence[Entry]) -> list[int]:
    """The cuts that stand before a message of the user's which begins a turn. Results begin none."""
    return [at for at in cuts(entries) if at < len(entries) and _begins_turn(entries[at])]


def keep_last(entries: Sequence[Entry], keep: int) -> int:
    """The cut that keeps the last `keep` messages; where it is not safe, the next one before it, which keeps more.

    Where that would keep everything, the next one behind it, which keeps less; unless that keeps nothing. 0 is the
    answer where there are no more than `keep`, and nothing is kept where `keep` is 0.
    """
    wanted = max(0, len(entries) - max(0, keep))
    safe = cuts(entries)
    number = bisect_right(safe, wanted) - 1
    if safe[number] or not wanted:
        return safe[number]
    return safe[1] if safe[1] < len(entries) else 0


def split(
    entries: Sequence[Entry],
    *,
    keep_messages: int | None = None,
    keep_turns: int | None = None,
    max_kept_tokens: int | None = None,
) -> Split:
    """Where to cut so that at most so much is kept, and of that as much as possible.

    None and 0 are no limit. Nothing is cut where all is within the limits. Where something is, the newest message
    stays, pairs stay whole, and there are messages on both sides. The first of these that there is:
    1. a place within the limits where a turn of the user's begins,
    2. any safe place within the limits,
    3. the safe place that comes nearest to them,
    4. the place where the least is harmed.
    A safe place keeps no result without a call, which a provider would refuse: none before the last of those is safe.
    """
    limits = {MESSAGES: keep_messages, TURNS: keep_turns, TOKENS: max_kept_tokens}
    kept = _kept(entries)
    within = next(at for at in range(len(entries) + 1) if not _over(kept[at], limits))
    if within == 0:
        return Split(0)
    refused = _last_refused(entries)
    safe = [at for at in cuts(entries)[1:-1] if at > refused]
    starts = [at for at in safe if _begins_turn(entries[at])]
    at = next((at for at in (*starts, *safe) if at >= within), safe[-1] if safe else None)
    harm = None
    if at is None:
        at, harm = _least_harmful(entries, within)
    over = _over(kept[at], limits)
    return Split(at, is_safe=not (at and harm), is_within=not over, why="; ".join(filter(None, (harm, over))))


def _results(entries: Sequence[Entry]) -> Iterator[tuple[int, ToolResult, int | None]]:
    """Each result: the index of its message, and of its call's where that stands before it."""
    # By its place: calls are made anew when a message is read again, and ids are used again.
    made: dict[_Place, int] = {}
    for at, entry in enumerate(entries):
        for call in entry.calls:
            made[_place(call)] = at
        for result in entry.results:
            yield at, result, made.get(_place(result.call)) if result.call else None


def _place(call: ToolCall) -> _Place:
    return call.location.path, call.location.start


def _together(entries: Sequence[Entry]) -> Iterator[_Span]:
    """The messages that no cut may part, by the first and the last of each group."""
    model = [entry.speaker is Speaker.MODEL for entry in entries]
    yield from ((at - 1, at) for at in range(1, len(entries)) if model[at - 1] and model[at])
    for at, _, call_at in _results(entries):
        yield at - 1 if call_at is None else call_at, at


def _outside(spans: Iterable[_Span], end: int) -> list[int]:
    """The places from 0 to `end` that part no span."""
    last = list(range(end))
    for first, until in spans:
        if first >= 0:
            last[first] = max(last[first], until)
    places, reach = [0], 0
    for at, until in enumerate(last):
        reach = max(reach, until)
        if reach == at:
            places.append(at + 1)
    return places


def _begins_turn(entry: Entry) -> bool:
    return entry.speaker is Speaker.USER and not entry.results


def _kept(entries: Sequence[Entry]) -> list[dict[str, int]]:
    """What each cut keeps; a turn that is kept in part is one."""
    starts = [at for at, entry in enumerate(entries) if _begins_turn(entry)]
    kept, tokens, turns = [dict.fromkeys((MESSAGES, TURNS, TOKENS), 0)], 0, 0
    for at in range(len(entries) - 1, -1, -1):
        tokens += entries[at].tokens
        turns += _begins_turn(entries[at])
        is_in_turn = bool(starts) and starts[0] < at and not _begins_turn(entries[at])
        kept.append({MESSAGES: len(entries) - at, TURNS: turns + is_in_turn, TOKENS: tokens})
    return kept[::-1]


def _over(kept: dict[str, int], limits: dict[str, int | None]) -> str:
    """Which limits are not kept to, in words; "" where all are."""
    over = [name for name, limit in limits.items() if limit and limit < kept[name]]
    return ", ".join(f"{kept[name]:,} {name} are kept, over the limit of {limits[name]:,}" for name in over)


def _last_refused(entries: Sequence[Entry]) -> int:
    """The last message with a result that a provider refuses because its call is missing; -1 for none."""
    # A result in a text is words to a provider, and often enough its call was written in words of no known dialect.
    without = (at for at, result, call_at in _results(entries) if call_at is None and result.location.start is None)
    return max(without, default=-1)


def _least_harmful(entries: Sequence[Entry], within: int) -> tuple[int, str]:
    """The place that harms least and breaks no pair, and what it harms, in words."""
    if len(entries) < 2:
        return 0, ONE_MESSAGE
    found = pairs(entries)
    whole = [(pair.call, pair.result) for pair in found if pair.call is not None and pair.result is not None]
    places = _outside(whole, len(entries))[1:-1]
    if not places:
        return 0, ONE_PAIR
    held = list(_harms(entries, found, places))
    # Among the least harmful as much is kept as the limits allow, or else what comes nearest to them.
    ranks = [(list(map(bool, harms)), at < within, abs(at - within)) for at, harms in zip(places, held, strict=True)]
    best = ranks.index(min(ranks))
    return places[best], "; ".join(filter(None, held[best]))


def _harms(entries: Sequence[Entry], found: Sequence[Pair], places: Iterable[int]) -> Iterator[tuple[str, str, str]]:
    """What a cut at each place harms, the worst first; "" for what it does not."""
    orphans, refused = {pair.result for pair in found if pair.call is None}, _last_refused(entries)
    run = _last_run(entries)
    waiting = next((pair.call for pair in found if pair.result is None and pair.call in run), None)
    for at in places:
        orphan = max(at, refused)
        is_lost = waiting is not None and waiting < at
        is_parted = entries[at - 1].speaker is Speaker.MODEL and entries[at].speaker is Speaker.MODEL
        yield (
            f"a result without its call is kept in message {orphan}" if orphan in orphans else "",
            f"the call in message {waiting} is cut, and its result may still come" if is_lost else "",
            f"message {at} is kept without what the model said at once before it" if is_parted else "",
        )


def _last_run(entries: Sequence[Entry]) -> range:
    """The model's last run where nothing but results stands behind it, and else an empty one."""
    stop = len(entries)
    while stop and entries[stop - 1].results:
        stop -= 1
    start = stop
    while start and entries[start - 1].speaker is Speaker.MODEL:
        start -= 1
    return range(start, stop)
