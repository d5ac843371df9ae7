"""Every call has its result directly behind it: results are moved there, removed, or replaced by a placeholder."""

from collections.abc import Iterator, Mapping, Sequence

from autoprune.repairs.drafts import NEW, Draft, Shape, new
from autoprune.repairs.log import Log
from autoprune.repairs.pairing import ASTRAY, Event, answers, note, pairs, unanswered
from autoprune.repairs.repaired import OpenCalls


def placed(drafts: Sequence[Draft], shape: Shape, log: Log, open_calls: OpenCalls) -> list[Draft]:
    """The drafts with each result where it belongs. Pairs that break no rule stay as they stand."""
    is_open = {one.at for one in drafts if log.at(one.at, "unanswered_call") or log.at(one.at + 1, *ASTRAY)}
    taken = {one.at for one in drafts if one.at - 1 in is_open or log.at(one.at, *ASTRAY)}
    if not is_open and not taken:
        return list(drafts)
    met = [
        event._replace(is_open=one.at in is_open)
        for one in drafts
        for event in events(one, shape)
        if event.is_call or one.at in taken
    ]
    found = pairs(met)
    blocks = {(one.at, index): block for one in drafts for index, block in one.blocks}
    lost = unanswered(met, found)
    answering = {result: shape.answering(blocks[result], blocks[call]) for result, call in found.items()}
    named = {at: shape.name(block) for at, block in answering.items() if block is not blocks[at]}
    answer = (lambda call: shape.no_result(blocks[call], open_calls.reason)) if open_calls.become == "answer" else None
    given = answers(met, found, answering.__getitem__, answer)
    results = [event.place for event in met if not event.is_call]
    note(is_open, results, found, lost, open_calls.become, log, named)
    left = [_without_results(one, shape) if one.at in taken else one for one in drafts]
    if open_calls.become == "remove":
        left = [one.holding([(at, block) for at, block in one.blocks if (one.at, at) not in lost]) for one in left]
    return _rebuilt(left, given, shape)


def events(one: Draft, shape: Shape) -> Iterator[Event]:
    """The calls and results of a message."""
    for index, block in one.blocks:
        if (keys := shape.call_keys(one.role, block)) is not None:
            yield Event((one.at, index), True, keys)
        elif (keys := shape.result_keys(one.role, block)) is not None:
            yield Event((one.at, index), False, keys, weak=shape.weak_keys(block))


def _without_results(one: Draft, shape: Shape) -> Draft:
    return one.holding([(at, block) for at, block in one.blocks if shape.result_keys(one.role, block) is None])


def _rebuilt(drafts: Sequence[Draft], given: Mapping[int, Sequence[object]], shape: Shape) -> list[Draft]:
    """Each message's results at the front of the next one, which is made where the user's does not follow."""
    kept: list[Draft] = []
    for at, one in enumerate(drafts):
        waiting = given.get(drafts[at - 1].at, ()) if at else ()
        if waiting and one.role in shape.USERS:
            one = one.holding([*((NEW, block) for block in waiting), *one.blocks])
        elif waiting:
            kept.append(new("user", waiting, kept[-1].message, shape))
        kept.append(one)
    if waiting := given.get(drafts[-1].at, ()):
        kept.append(new("user", waiting, drafts[-1].message, shape))
    return kept
