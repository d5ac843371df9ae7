"""Which call each result answers: the nearest one before it that has the same key and no result yet.

A session's file may hold a result before its call. So where a key belongs to one call and one result alone, they are a
pair in either order.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from autoprune.providers._problem import Log, Problem

DONE = {
    "answer": "answered {} of the calls with a placeholder",
    "keep": "",
    "remove": "removed {} of the calls",
}
Place = tuple[int, int]  # a message and a block in it
ASTRAY = ("orphan_result", "duplicate_result", "missing_call_id", "results_not_first", "result_names")


class Event(NamedTuple):
    """A call or a result, met in the order of the conversation.

    It may be known by several keys, the best first: a call by any of them, a result by the first that a call has. A
    call that is not open has its result; it only ends the wait of earlier calls with its keys. By its `nearby` keys a
    result answers nothing but a call of the message directly before it.
    """

    place: Place
    is_call: bool
    keys: tuple[Hashable, ...]
    is_open: bool = True
    nearby: tuple[Hashable, ...] = ()


def pairs(events: Sequence[Event]) -> dict[Place, Place]:
    """Return the call that each result answers. Later calls take the place of earlier ones with the same keys."""
    found = _behind(events)
    found |= _directly_behind(events, found)
    answered = set(found.values())
    calls, results = _by_best_key(events, is_call=True), _by_best_key(events, is_call=False)
    for key, strays in results.items():
        waiting = calls.get(key, [])
        if len(strays) == len(waiting) == 1:
            (result,), (call,) = strays, waiting
            if result.place not in found and call.is_open and call.place not in answered:
                found[result.place] = call.place
    return dict(sorted(found.items()))


def _by_best_key(events: Iterable[Event], *, is_call: bool) -> dict[Hashable, list[Event]]:
    met: dict[Hashable, list[Event]] = {}
    for event in events:
        if event.is_call == is_call and event.keys:
            met.setdefault(event.keys[0], []).append(event)
    return met


def _behind(events: Iterable[Event]) -> dict[Place, Place]:
    """Return the pairs in which the result stands behind the call."""
    waiting: dict[Hashable, deque[Place]] = {}
    message: dict[Hashable, int] = {}
    answered: set[Place] = set()
    found: dict[Place, Place] = {}
    for event in sorted(events, key=_order):
        for key in event.keys:
            if event.is_call:
                if message.get(key) != event.place[0]:
                    waiting[key], message[key] = deque(), event.place[0]
                if event.is_open:
                    waiting[key].append(event.place)
            elif call := _next(waiting.get(key), answered):
                answered.add(call)
                found[event.place] = call
                break
    return found


def _order(event: Event) -> tuple[int, bool, int]:
    """Order events by message; of its results, those come first that know their call best."""
    return event.place[0], not event.is_call, 0 if event.is_call else -len(event.keys)


def _directly_behind(events: Iterable[Event], found: Mapping[Place, Place]) -> dict[Place, Place]:
    """Return the pairs of a result whose keys have found no call, and a call of the message before it."""
    answered = set(found.values())
    waiting: dict[Hashable, deque[Place]] = {}
    pairs: dict[Place, Place] = {}
    for event in events:
        for key in event.keys if event.is_call and event.is_open and event.place not in answered else ():
            waiting.setdefault((event.place[0], key), deque()).append(event.place)
        for key in event.nearby if event.place not in found else ():
            if call := _next(waiting.get((event.place[0] - 1, key)), answered):
                answered.add(call)
                pairs[event.place] = call
                break
    return pairs


def _next(calls: deque[Place] | None, answered: set[Place]) -> Place | None:
    """Return the first call that waits, and drop those that were answered under another key."""
    while calls:
        call = calls.popleft()
        if call not in answered:
            return call
    return None


def answers(
    events: Iterable[Event],
    found: Mapping[Place, Place],
    result: Callable[[Place], object],
    no_result: Callable[[Place], object] | None,
) -> dict[int, list[object]]:
    """Return, for each message with open calls, its results in their order, then its placeholders, if any."""
    calls = [event.place for event in events if event.is_call and event.is_open and event.keys]
    given: dict[int, list[object]] = {at: [] for at, _ in calls}
    for place, call in found.items():
        given[call[0]].append(result(place))
    if no_result:
        for call in unanswered(events, found):
            given[call[0]].append(no_result(call))
    return given


def unanswered(events: Iterable[Event], found: Mapping[Place, Place]) -> list[Place]:
    """Return the open calls that no result was found for."""
    answered = set(found.values())
    calls = (event for event in events if event.is_call and event.is_open and event.keys)
    return [event.place for event in calls if event.place not in answered]


def note(
    is_open: Collection[int],
    results: Collection[Place],
    found: Mapping[Place, Place],
    lost: Sequence[Place],
    become: str,
    log: Log,
    named: Mapping[Place, str],
) -> None:
    """Note what became of the calls without results, which are `lost`, and of each of these results.

    The results of `named` got the name of their call.
    """
    astray: dict[Place, list[Problem]] = {}
    for at in {at for at, _ in results}:
        for problem in log.at(at, *ASTRAY):
            astray.setdefault((at, _block(problem)), []).append(problem)
    from_elsewhere = {at for at, _ in astray}
    moved = {call[0] for result, call in found.items() if result[0] in from_elsewhere}
    missing = Counter(at for at, _ in lost)
    for at in sorted(is_open):
        what = DONE[become].format(missing[at]) if missing[at] else ""
        problems = log.at(at, "unanswered_call") or ([log.nearest(at + 1)] if what else [])
        for problem in problems if what or at in moved else ():
            log.add(problem, what or "moved the results behind the calls")
    for place in results:
        what = "moved it directly behind its call" if place in found else "removed the result"
        if place in named:
            is_moved = found[place][0] != place[0] - 1
            what = f"gave it the name of its call, {named[place]!r}" + (", and moved it there" if is_moved else "")
        for problem in astray.get(place, ()):
            log.add(problem, what)
        if place not in astray and place not in found:
            log.add(log.nearest(place[0]), f"removed the result in block {place[1]} of message {place[0]}")


def _block(problem: Problem) -> int:
    return int(problem.path[2]) if len(problem.path) > 2 else 0
