"""The repair of messages that hold blocks, step by step: empty texts, ids, pairs, messages, turns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autoprune.conversation.messages import fields_of, with_item
from autoprune.providers._blocks import MISPLACED, NEW, Draft, Shape, draft, is_part, message_of, new, separated
from autoprune.providers._pairing import ASTRAY, Event, Place, answers, note, pairs, unanswered
from autoprune.providers._problem import BEGINNING, EMPTY, Log, OpenCalls, Problem, Round

REMOVED = {
    "empty_text": "removed the empty text",
    "empty_part": "removed the empty part",
    "thinking_signature": "removed the thinking, which cannot be sent without a signature",
}
LONGEST_ID = 48  # of 64 characters, so that a number fits behind
LEFT_EMPTY = (*ASTRAY, "unanswered_call")  # a message that held nothing else goes with what was removed
MENDED = {
    "empty_text": "removed the empty text from the result",
    "empty_result": f"wrote {EMPTY!r} in the empty result",
    "result_shape": "wrapped the response in an object",
}


def mended(
    shape: Shape, messages: Sequence[object], problems: Sequence[Problem], open_calls: OpenCalls, alternates: bool
) -> Round:
    """Make one round of repairs. If roles alternate, an empty message between two of the other role is filled."""
    log = Log(problems)
    drafts = [draft(at, message, shape) for at, message in enumerate(messages)]
    if any(problem.rule in MISPLACED for problem in problems):
        # Which calls are answered is seen when every block stands in a message of its role.
        drafts = separated(drafts, shape, log)
        return Round([message_of(one, shape) for one in drafts if one.blocks or not one.is_touched], log.repairs)
    drafts = [_cleaned(one, shape, log) for one in drafts]
    drafts = _renamed(drafts, shape, log)
    drafts = _placed(drafts, shape, log, open_calls)
    drafts = _settled(drafts, shape, log, alternates=alternates)
    drafts = _in_turn(drafts, shape, log)
    if drafts and drafts[-1].at >= 0:
        drafts[-1] = _trimmed(drafts[-1], log)
    return Round([message_of(one, shape) for one in drafts], log.repairs)


def _cleaned(one: Draft, shape: Shape, log: Log) -> Draft:
    """Return a message without its empty blocks, with its results mended."""
    removed, changed = set[int](), set[int]()
    for problem in log.at(one.at, *REMOVED, *MENDED):
        if len(problem.path) <= 3:
            removed.add(int(problem.path[2]) if len(problem.path) == 3 else 0)
            log.add(problem, REMOVED[problem.rule])
        else:
            changed.add(int(problem.path[2]))
            log.add(problem, MENDED[problem.rule])
    kept = [(at, block) for at, block in one.blocks if at not in removed]
    return one.holding([(at, shape.mended_result(block) if at in changed else block) for at, block in kept])


def _settled(drafts: Sequence[Draft], shape: Shape, log: Log, *, alternates: bool) -> list[Draft]:
    """Remove the messages that hold nothing, or fill them where their place cannot be given up."""
    following: list[str | None] = []
    role: str | None = None
    for one in reversed(drafts):
        following.append(role)
        role = role if _is_lost(one, log) and log.at(one.at, *LEFT_EMPTY) else one.role
    kept: list[Draft] = []
    for one, after in zip(drafts, reversed(following), strict=True):
        if not _is_lost(one, log):
            kept.append(one)
            continue
        before = kept[-1].role if kept else None
        opens = before is None and one.role == "user" and after == shape.model
        between = alternates and before is not None and before == after and one.role != before
        # A program would go on with the model's last words, so it gets none that it did not say.
        said_nothing = not log.at(one.at, *LEFT_EMPTY) and not (one.role == shape.model and after is None)
        is_filled = opens or between or said_nothing
        kept += [one.holding([(NEW, shape.text_block(EMPTY))])] if is_filled else []
        what = f"wrote {EMPTY!r} in the empty message" if is_filled else "removed the empty message"
        for problem in log.at(one.at, "empty_content") or log.at(one.at)[:1]:
            log.add(problem, what)
    return kept


def _is_lost(one: Draft, log: Log) -> bool:
    return not one.blocks and (one.is_touched or bool(log.at(one.at, "empty_content")))


def _in_turn(drafts: Sequence[Draft], shape: Shape, log: Log) -> list[Draft]:
    """Put the user first, and merge neighbors that share a role where the rules want it."""
    groups: list[list[Draft]] = []
    for one in drafts:
        found = log.at(one.at, "first_message", "alternation", "call_place")
        what = ""
        if found and not groups and one.at == 0:
            groups.append([new("user", [shape.text_block(BEGINNING)], one.message, shape)])
            what = f"began with a message of the user's: {BEGINNING!r}"
        if found and not what and groups and _is_same(groups[-1][0], one, shape):
            # A call is one message with all of the model's before it.
            is_call = any(problem.rule == "call_place" for problem in found)
            start = _group_start(groups, shape) if is_call else len(groups) - 1
            groups[start] += [*(part for group in groups[start + 1 :] for part in group), one]
            del groups[start + 1 :]
            what = "made one message of this and the one before"
        else:
            groups.append([one])
        for problem in found if what else ():
            log.add(problem, what)
    return [_merged(group, shape) if len(group) > 1 else group[0] for group in groups]


def _is_same(one: Draft, other: Draft, shape: Shape) -> bool:
    return one.role == other.role or {one.role, other.role} <= {*shape.users}


def _group_start(groups: Sequence[Sequence[Draft]], shape: Shape) -> int:
    """Return where the last messages of the same role begin."""
    start = len(groups) - 1
    while start and _is_same(groups[start - 1][0], groups[-1][0], shape):
        start -= 1
    return start


def _merged(group: Sequence[Draft], shape: Shape) -> Draft:
    """Return the first of several messages with the blocks of all."""
    first = group[0]
    if any(one.role != first.role for one in group):
        message = first.message if is_part(first.message, shape) else with_item(first.message, "role", "user")
        first = replace(first, message=message, role="user")
    return first.holding([*first.blocks, *((NEW, block) for one in group[1:] for _, block in one.blocks)])


def _trimmed(one: Draft, log: Log) -> Draft:
    """Return the last message without the white space at its end."""
    problems = log.at(one.at, "trailing_whitespace")
    if not problems or not one.blocks:
        return one
    at, last = one.blocks[-1]
    words = fields_of(last).get("text")
    if not isinstance(words, str):
        return one
    log.add(problems[0], "removed the white space at the end")
    return one.holding([*one.blocks[:-1], (at, with_item(last, "text", words.rstrip()))])


def _placed(drafts: Sequence[Draft], shape: Shape, log: Log, open_calls: OpenCalls) -> list[Draft]:
    """Put each result directly behind its call. Pairs that break no rule stay as they are."""
    is_open = {one.at for one in drafts if log.at(one.at, "unanswered_call") or log.at(one.at + 1, *ASTRAY)}
    taken = {one.at for one in drafts if one.at - 1 in is_open or log.at(one.at, *ASTRAY)}
    if not is_open and not taken:
        return list(drafts)
    met = [
        event._replace(is_open=one.at in is_open)
        for one in drafts
        for event in _events(one, shape)
        if event.is_call or one.at in taken
    ]
    found = pairs(met)
    blocks = {(one.at, index): block for one in drafts for index, block in one.blocks}
    lost = unanswered(met, found)
    answering = {result: shape.answering(blocks[result], blocks[call]) for result, call in found.items()}
    named = {at: shape.result_name(block) for at, block in answering.items() if block is not blocks[at]}
    answer = (lambda call: shape.no_result(blocks[call], open_calls.reason)) if open_calls.become == "answer" else None
    given = answers(met, found, answering.__getitem__, answer)
    results = [event.place for event in met if not event.is_call]
    note(is_open, results, found, lost, open_calls.become, log, named)
    left = [_without_results(one, shape) if one.at in taken else one for one in drafts]
    if open_calls.become == "remove":
        gone = set(lost)
        left = [one.holding([(at, block) for at, block in one.blocks if (one.at, at) not in gone]) for one in left]
    return _rebuilt(left, given, shape)


def _events(one: Draft, shape: Shape) -> Iterator[Event]:
    """Yield the calls and results of a message."""
    for index, block in one.blocks:
        if (keys := shape.call_keys(one.role, block)) is not None:
            yield Event((one.at, index), True, keys)
        elif (keys := shape.result_keys(one.role, block)) is not None:
            yield Event((one.at, index), False, keys, nearby=shape.nearby_keys(block))


def _without_results(one: Draft, shape: Shape) -> Draft:
    return one.holding([(at, block) for at, block in one.blocks if shape.result_keys(one.role, block) is None])


def _rebuilt(drafts: Sequence[Draft], given: Mapping[int, Sequence[object]], shape: Shape) -> list[Draft]:
    """Put the results for each message at the front of the next, or in a new one where the user's does not follow."""
    kept: list[Draft] = []
    for at, one in enumerate(drafts):
        waiting = given.get(drafts[at - 1].at, ()) if at else ()
        if waiting and one.role in shape.users:
            one = one.holding([*((NEW, block) for block in waiting), *one.blocks])
        elif waiting:
            kept.append(new("user", waiting, kept[-1].message, shape))
        kept.append(one)
    if waiting := given.get(drafts[-1].at, ()):
        kept.append(new("user", waiting, drafts[-1].message, shape))
    return kept


def _renamed(drafts: Sequence[Draft], shape: Shape, log: Log) -> list[Draft]:
    """Give calls whose id is refused or used twice another one, and their results too."""
    flagged = [
        (problem, (one.at, int(problem.path[2])))
        for one in drafts
        for problem in log.at(one.at, "duplicate_call_id", "call_id_pattern")
    ]
    if not flagged:
        return list(drafts)
    met = [event for one in drafts for event in _events(one, shape)]
    results = {call: result for result, call in pairs(met).items()}
    ids = {event.place: str(event.keys[0]) for event in met if event.is_call and event.keys}
    fresh = _fresh_ids([ids[place] for _, place in flagged], set(ids.values()))
    changed: dict[Place, str] = {}
    for (problem, call), call_id in zip(flagged, fresh, strict=True):
        changed[call] = call_id
        if call in results:
            changed[results[call]] = call_id
        log.add(problem, f"gave the call and its result the id {call_id!r}")
    return [_changed(one, changed, shape) for one in drafts]


def _fresh_ids(ids: Sequence[str], used: set[str]) -> list[str]:
    """Return new ids, made of the old ones, that nothing else has; the same for the same conversation."""
    fresh: list[str] = []
    numbers: dict[str, int] = {}
    for old in ids:
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", old)[:LONGEST_ID] or "call"
        candidate = plain
        while candidate in used:
            numbers[plain] = numbers.get(plain, 1) + 1
            candidate = f"{plain}_{numbers[plain]}"
        used.add(candidate)
        fresh.append(candidate)
    return fresh


def _changed(one: Draft, changed: Mapping[Place, str], shape: Shape) -> Draft:
    return one.holding(
        [
            (at, shape.with_id(block, changed[one.at, at]) if (one.at, at) in changed else block)
            for at, block in one.blocks
        ]
    )
