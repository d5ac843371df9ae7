"""The repair of messages that hold blocks, step by step: empty texts, ids, pairs, messages, turns."""

from collections.abc import Sequence
from dataclasses import replace

from autoprune.repairs.drafts import NEW, Draft, Shape, draft, new, written
from autoprune.repairs.ids import renamed
from autoprune.repairs.log import Log
from autoprune.repairs.pairing import ASTRAY
from autoprune.repairs.repaired import BEGINNING, EMPTY, OpenCalls, Round
from autoprune.repairs.results import placed
from autoprune.repairs.roles import MISPLACED, separated
from autoprune.rewriting import with_item
from autoprune.rules.problem import Problem
from autoprune.rules.reading import known

REMOVED = {
    "empty_text": "removed the empty text",
    "empty_part": "removed the empty part",
    "thinking_signature": "removed the thinking, which cannot be sent without a signature",
}
LEFT_EMPTY = (*ASTRAY, "unanswered_call")  # a message that held nothing else goes with what was removed
MENDED = {
    "empty_text": "removed the empty text from the result",
    "empty_result": f"wrote {EMPTY!r} in the empty result",
    "result_shape": "wrapped the response in an object",
}


def mended(
    messages: Sequence[object], problems: Sequence[Problem], shape: Shape, open_calls: OpenCalls, *, alternates: bool
) -> Round:
    """One round of repairs. `alternates`: an empty message between two of the other role is filled, not removed."""
    log = Log(problems)
    drafts = [draft(at, message, shape) for at, message in enumerate(messages)]
    if any(problem.rule in MISPLACED for problem in problems):
        # Which calls are answered is seen when every block stands in a message of its role.
        drafts = separated(drafts, shape, log)
        return Round([written(one, shape) for one in drafts if one.blocks or not one.is_touched], log.repairs)
    drafts = [_cleaned(one, shape, log) for one in drafts]
    drafts = renamed(drafts, shape, log)
    drafts = placed(drafts, shape, log, open_calls)
    drafts = _settled(drafts, shape, log, alternates=alternates)
    drafts = _in_turn(drafts, shape, log)
    if drafts and drafts[-1].at >= 0:
        drafts[-1] = _trimmed(drafts[-1], log)
    return Round([written(one, shape) for one in drafts], log.repairs)


def _cleaned(one: Draft, shape: Shape, log: Log) -> Draft:
    """A message without its empty blocks, and with its results mended inside."""
    removed, inside = set[int](), dict[int, list[Problem]]()
    for problem in log.at(one.at, *REMOVED, *MENDED):
        if len(problem.path) <= 3:
            removed.add(int(problem.path[2]) if len(problem.path) == 3 else 0)
            log.add(problem, REMOVED[problem.rule])
        else:
            inside.setdefault(int(problem.path[2]), []).append(problem)
            log.add(problem, MENDED[problem.rule])
    kept = [(at, block) for at, block in one.blocks if at not in removed]
    return one.holding([(at, shape.mended(block, inside[at]) if at in inside else block) for at, block in kept])


def _settled(drafts: Sequence[Draft], shape: Shape, log: Log, *, alternates: bool) -> list[Draft]:
    """The messages that hold something. One that does not is filled where its place cannot be given up."""
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
        opens = before is None and one.role == "user" and after == shape.MODEL
        between = alternates and before is not None and before == after and one.role != before
        # A program would go on with the model's last words, so it gets none that it did not say.
        said_nothing = not log.at(one.at, *LEFT_EMPTY) and not (one.role == shape.MODEL and after is None)
        is_filled = opens or between or said_nothing
        kept += [one.holding([(NEW, shape.block(EMPTY))])] if is_filled else []
        what = f"wrote {EMPTY!r} in the empty message" if is_filled else "removed the empty message"
        for problem in log.at(one.at, "empty_content") or log.at(one.at)[:1]:
            log.add(problem, what)
    return kept


def _is_lost(one: Draft, log: Log) -> bool:
    return not one.blocks and (one.is_touched or bool(log.at(one.at, "empty_content")))


def _in_turn(drafts: Sequence[Draft], shape: Shape, log: Log) -> list[Draft]:
    """The user first, and messages that share a role with their neighbor as one."""
    runs: list[list[Draft]] = []
    for one in drafts:
        found = log.at(one.at, "first_message", "alternation", "call_place")
        what = ""
        if found and not runs and one.at == 0:
            runs.append([new("user", [shape.block(BEGINNING)], one.message, shape)])
            what = f"began with a message of the user's: {BEGINNING!r}"
        if found and not what and runs and _is_same(runs[-1][0], one, shape):
            # A call is one message with all of the model's before it.
            start = _run_start(runs, shape) if any(problem.rule == "call_place" for problem in found) else len(runs) - 1
            runs[start] += [*(part for run in runs[start + 1 :] for part in run), one]
            del runs[start + 1 :]
            what = "made one message of this and the one before"
        else:
            runs.append([one])
        for problem in found if what else ():
            log.add(problem, what)
    return [_merged(run) if len(run) > 1 else run[0] for run in runs]


def _is_same(one: Draft, other: Draft, shape: Shape) -> bool:
    return one.role == other.role or {one.role, other.role} <= {*shape.USERS}


def _run_start(runs: Sequence[Sequence[Draft]], shape: Shape) -> int:
    """Where the last messages of the same role begin."""
    start = len(runs) - 1
    while start and _is_same(runs[start - 1][0], runs[-1][0], shape):
        start -= 1
    return start


def _merged(run: Sequence[Draft]) -> Draft:
    """Several messages as one, which is the first with the blocks of all."""
    first = run[0]
    if any(one.role != first.role for one in run):
        first = replace(first, message=with_item(first.message, "role", "user"), role="user")
    return first.holding([*first.blocks, *((NEW, block) for one in run[1:] for _, block in one.blocks)])


def _trimmed(one: Draft, log: Log) -> Draft:
    """The last message without the white space at its end."""
    problems = log.at(one.at, "trailing_whitespace")
    if not problems or not one.blocks:
        return one
    at, last = one.blocks[-1]
    words = known(last).get("text")
    if not isinstance(words, str):
        return one
    log.add(problems[0], "removed the white space at the end")
    return one.holding([*one.blocks[:-1], (at, with_item(last, "text", words.rstrip()))])
