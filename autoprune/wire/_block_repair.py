"""Repair messages that hold blocks: Anthropic's, Bedrock's and Gemini's. `repair_blocks` makes one round of repairs.

A round first moves misplaced blocks into messages of their role. If there were any, the round ends, because which calls
are answered is known only afterwards. Otherwise the round takes these steps in order: remove surplus cache marks and
empty blocks, change ids, put results after their calls, drop or fill empty messages, alternate roles. Each API reads
and writes its blocks through a `Shape`; a message under repair is a `MessageDraft`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from autoprune.conversation.messages import MARK, fields_of, item, items_of, with_item
from autoprune.wire._rules import (
    ASTRAY,
    BEGINNING,
    EMPTY,
    Event,
    Log,
    OpenCalls,
    Place,
    Problem,
    Round,
    is_bare,
    pair_results,
    place_results,
    string_of,
    with_blocks,
)

NEW = -1  # the index of blocks and messages that the repair adds
MISPLACED = ("misplaced_call", "misplaced_result", "misplaced_thinking")
# Rules whose blocks are removed, with the description of the repair.
REMOVED = {
    "empty_text": "removed the empty text",
    "empty_part": "removed the empty part",
    "thinking_signature": "removed the thinking, which cannot be sent without a signature",
}
LONGEST_ID = 48  # Bedrock's limit is 64 characters: this leaves room for a number
LEFT_EMPTY = (*ASTRAY, "unanswered_call")  # a message that only held removed results or calls is removed too
# Rules whose results are repaired in place, with the description of the repair.
MENDED = {
    "empty_text": "removed the empty text from the result",
    "empty_result": f"wrote {EMPTY!r} in the empty result",
    "result_shape": "wrapped the response in an object",
}


class Shape(ABC):
    """The way an API writes messages of blocks. The concrete methods suit APIs whose results name calls by id."""

    field = "content"  # a message's field for its blocks
    model = "assistant"  # the role of the model
    users: tuple[str | None, ...] = ("user",)  # the roles that a message with results may have

    def text_block(self, words: str) -> object:
        """Create a text block."""
        return {"text": words}

    def new_message(self, role: str, blocks: Sequence[object], like: object) -> object:
        """Create a message from blocks, of the same type as `like`."""
        return {"role": role, self.field: list(blocks)}

    @abstractmethod
    def call_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return the keys by which a result can name a call; None for any other block."""

    @abstractmethod
    def result_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return the keys by which a result names its call, best first; None for any other block."""

    def nearby_keys(self, found: object) -> tuple[Hashable, ...]:
        """Return more keys by which a result can name a call, if the call is in the previous message."""
        return ()

    def with_call_name(self, found: object, call: object) -> object:
        """Copy a result with the name of its call, if the API requires names. Return a matching result unchanged."""
        return found

    def result_name(self, found: object) -> str:
        """Return the tool that a result names; "" if the result names no tool."""
        return ""

    @abstractmethod
    def no_result(self, call: object, reason: str) -> object:
        """Create a placeholder for the result of a call, with the reason."""

    def with_id(self, found: object, call_id: str) -> object:
        """Copy a call or a result, with another id. Return it unchanged if the API has no rules for ids."""
        return found

    @abstractmethod
    def repair_result(self, found: object) -> object:
        """Copy a result without the parts that the API rejects."""


@dataclass(frozen=True)
class MessageDraft:
    """A message under repair. Each block has its original index; new blocks and new messages have NEW."""

    at: int
    message: object
    role: str | None
    blocks: tuple[tuple[int, object], ...]
    is_touched: bool = False

    def replace_blocks(self, blocks: Sequence[tuple[int, object]]) -> "MessageDraft":
        """Replace the blocks. Returns the same draft if the blocks are the same."""
        same = len(blocks) == len(self.blocks) and all(
            one[1] is other[1] for one, other in zip(blocks, self.blocks, strict=True)
        )
        return self if same else replace(self, blocks=tuple(blocks), is_touched=True)


def make_draft(at: int, message: object, shape: Shape) -> MessageDraft:
    """Create a draft of a message. A text or a bare part becomes one block."""
    own = fields_of(message)
    content = own.get(shape.field)
    blocks = items_of(content) if not isinstance(content, str) or is_bare(content) else [shape.text_block(content)]
    # Gemini's SDK accepts a part without a content around it.
    blocks = [message] if is_part(message, shape) else blocks
    return MessageDraft(at, message, string_of(own.get("role")) if own else "", tuple(enumerate(blocks)))


def new_draft(role: str, blocks: Sequence[object], like: object, shape: Shape) -> MessageDraft:
    """Create a draft of a message that the repair adds."""
    return MessageDraft(NEW, shape.new_message(role, blocks, like), role, tuple((NEW, block) for block in blocks))


def write_message(one: MessageDraft, shape: Shape) -> object:
    """Write the message of a draft. Return the same object if nothing has changed. A text remains a text."""
    if not one.is_touched:
        return one.message
    blocks = [block for _, block in one.blocks]
    if is_part(one.message, shape):
        return shape.new_message("user", blocks, {})
    words = fields_of(blocks[0]).get("text") if len(blocks) == 1 else None
    if isinstance(fields_of(one.message).get(shape.field), str) and isinstance(words, str):
        return with_item(one.message, shape.field, words)
    return with_blocks(one.message, shape.field, blocks)


def is_part(message: object, shape: Shape) -> bool:
    """Return whether a message is a bare part, which Gemini's SDK treats as a user's content."""
    own = fields_of(message)
    is_content = own.get("role") is not None or own.get(shape.field) is not None
    is_held = any(value is not None for name, value in own.items() if name != "thought")
    return None in shape.users and not is_content and is_held


def split_by_role(drafts: Sequence[MessageDraft], shape: Shape, log: Log) -> list[MessageDraft]:
    """Split each draft with misplaced blocks into messages of the roles that its blocks belong to.

    Thinking moves with the calls that follow it. Thinking without such calls is removed.
    """
    kept: list[MessageDraft] = []
    for one in drafts:
        problems = {int(problem.path[2]): problem for problem in log.problems_at(one.at, *MISPLACED)}
        roles = _target_roles(one, problems, shape)
        kept += _split_groups(one, roles, shape) if problems else [one]
        for at, problem in problems.items():
            speaker = "model" if roles[at] == shape.model else "user"
            is_removed = roles[at] is None
            what = "removed the thinking, which only the model's messages may hold"
            log.add(problem, what if is_removed else f"put it in a message of the {speaker}'s")
    return kept


def _target_roles(one: MessageDraft, problems: Mapping[int, Problem], shape: Shape) -> dict[int, str | None]:
    """Return the role that each misplaced block belongs to; None for a block that must be removed."""
    roles: dict[int, str | None] = {}
    is_before_call = False
    for at, _ in reversed(one.blocks):
        rule = problems[at].rule if at in problems else ""
        is_before_call = rule == "misplaced_call" or (is_before_call and rule == "misplaced_thinking")
        if rule:
            is_models = rule == "misplaced_call" or is_before_call
            roles[at] = "user" if rule == "misplaced_result" else shape.model if is_models else None
    return roles


def _split_groups(one: MessageDraft, roles: Mapping[int, str | None], shape: Shape) -> list[MessageDraft]:
    """Create a draft for each group of blocks of one role. The message keeps the first group of its own role."""
    staying = [(at, block) for at, block in one.blocks if roles.get(at, "") is not None]
    groups = [(role, list(group)) for role, group in groupby(staying, key=lambda each: roles.get(each[0]) or one.role)]
    own = next((at for at, (role, _) in enumerate(groups) if role == one.role), None)
    if own is None and groups:
        role = groups[0][0]
        one = replace(one, message=with_item(one.message, "role", role), role=role)
        own = 0
    if own is None:
        return [one.replace_blocks([])]
    return [
        one.replace_blocks(group)
        if at == own
        else new_draft(role or "user", [block for _, block in group], one.message, shape)
        for at, (role, group) in enumerate(groups)
    ]


# The steps


def repair_blocks(
    shape: Shape, messages: Sequence[object], problems: Sequence[Problem], open_calls: OpenCalls, alternates: bool
) -> Round:
    """Make one round of repairs.

    If `alternates`, an empty message between two messages of the other role gets a placeholder.
    """
    log = Log(problems)
    drafts = [make_draft(at, message, shape) for at, message in enumerate(messages)]
    if any(problem.rule in MISPLACED for problem in problems):
        # It is unknown which calls are answered until every block is in a message of its role.
        drafts = split_by_role(drafts, shape, log)
        return Round([write_message(one, shape) for one in drafts if one.blocks or not one.is_touched], log.repairs)
    drafts = [_remove_empty(_remove_marks(one, log), shape, log) for one in drafts]
    drafts = _change_ids(drafts, shape, log)
    drafts = _place_results(drafts, shape, log, open_calls)
    drafts = _settle_empty_messages(drafts, shape, log, alternates=alternates)
    drafts = _alternate_roles(drafts, shape, log)
    if drafts and drafts[-1].at >= 0:
        drafts[-1] = _trim_end(drafts[-1], log)
    return Round([write_message(one, shape) for one in drafts], log.repairs)


def _remove_marks(one: MessageDraft, log: Log) -> MessageDraft:
    """Remove the cache marks of a message that are too many."""
    blocks = dict(one.blocks)
    for problem in log.problems_at(one.at, "too_many_marks"):
        at, *path = problem.path[2:]
        blocks[int(at)] = _without_mark(blocks[int(at)], path)
        log.add(problem, "removed the cache mark")
    return one.replace_blocks([*blocks.items()])


def _without_mark(value: object, path: Sequence[int | str]) -> object:
    """Copy a block without the mark of the block at a path in it."""
    if path:
        return with_item(value, path[0], _without_mark(item(value, path[0]), path[1:]))
    return (
        {name: own for name, own in value.items() if name != MARK}
        if type(value) is dict
        else with_item(value, MARK, None)
    )


def _remove_empty(one: MessageDraft, shape: Shape, log: Log) -> MessageDraft:
    """Remove the empty blocks of a message, and repair its results."""
    removed, changed = set[int](), set[int]()
    for problem in log.problems_at(one.at, *REMOVED, *MENDED):
        if len(problem.path) <= 3:
            removed.add(int(problem.path[2]) if len(problem.path) == 3 else 0)
            log.add(problem, REMOVED[problem.rule])
        else:
            changed.add(int(problem.path[2]))
            log.add(problem, MENDED[problem.rule])
    kept = [(at, block) for at, block in one.blocks if at not in removed]
    return one.replace_blocks([(at, shape.repair_result(block) if at in changed else block) for at, block in kept])


def _settle_empty_messages(
    drafts: Sequence[MessageDraft], shape: Shape, log: Log, *, alternates: bool
) -> list[MessageDraft]:
    """Remove empty messages, or fill them with a placeholder if the roles require a message in their place."""
    following: list[str | None] = []
    role: str | None = None
    for one in reversed(drafts):
        following.append(role)
        role = role if _is_lost(one, log) and log.problems_at(one.at, *LEFT_EMPTY) else one.role
    kept: list[MessageDraft] = []
    for one, after in zip(drafts, reversed(following), strict=True):
        if not _is_lost(one, log):
            kept.append(one)
            continue
        before = kept[-1].role if kept else None
        opens = before is None and one.role == "user" and after == shape.model
        between = alternates and before is not None and before == after and one.role != before
        # An API may continue the model's last message, so it never gets a placeholder, which the model did not write.
        said_nothing = not log.problems_at(one.at, *LEFT_EMPTY) and not (one.role == shape.model and after is None)
        is_filled = opens or between or said_nothing
        kept += [one.replace_blocks([(NEW, shape.text_block(EMPTY))])] if is_filled else []
        # Removing an empty message could leave two neighbors of one role, or a first message of the model.
        what = f"wrote {EMPTY!r} in the empty message" if is_filled else "removed the empty message"
        for problem in log.problems_at(one.at, "empty_content") or log.problems_at(one.at)[:1]:
            log.add(problem, what)
    return kept


def _is_lost(one: MessageDraft, log: Log) -> bool:
    return not one.blocks and (one.is_touched or bool(log.problems_at(one.at, "empty_content")))


def _alternate_roles(drafts: Sequence[MessageDraft], shape: Shape, log: Log) -> list[MessageDraft]:
    """Put the user first, and merge neighbors that share a role if a rule requires it."""
    groups: list[list[MessageDraft]] = []
    for one in drafts:
        problems = log.problems_at(one.at, "first_message", "alternation", "call_place")
        what = ""
        if problems and not groups and one.at == 0:
            groups.append([new_draft("user", [shape.text_block(BEGINNING)], one.message, shape)])
            what = f"began with a message of the user's: {BEGINNING!r}"
        if problems and not what and groups and _is_same(groups[-1][0], one, shape):
            # Gemini requires a call directly after a user's turn, so it joins all of the model's contents before it.
            is_call = any(problem.rule == "call_place" for problem in problems)
            while is_call and len(groups) > 1 and _is_same(groups[-2][0], groups[-1][0], shape):
                last = groups.pop()
                groups[-1] += last
            groups[-1].append(one)
            what = "made one message of this and the one before"
        else:
            groups.append([one])
        for problem in problems if what else ():
            log.add(problem, what)
    return [_merge(group, shape) if len(group) > 1 else group[0] for group in groups]


def _is_same(one: MessageDraft, other: MessageDraft, shape: Shape) -> bool:
    return one.role == other.role or {one.role, other.role} <= {*shape.users}


def _merge(group: Sequence[MessageDraft], shape: Shape) -> MessageDraft:
    first = group[0]
    if any(one.role != first.role for one in group):
        message = first.message if is_part(first.message, shape) else with_item(first.message, "role", "user")
        first = replace(first, message=message, role="user")
    return first.replace_blocks([*first.blocks, *((NEW, block) for one in group[1:] for _, block in one.blocks)])


def _trim_end(one: MessageDraft, log: Log) -> MessageDraft:
    """Remove the white space at the end of the last message."""
    problems = log.problems_at(one.at, "trailing_whitespace")
    at, last = one.blocks[-1] if one.blocks else (NEW, None)
    words = fields_of(last).get("text")
    if not problems or not isinstance(words, str):
        return one
    log.add(problems[0], "removed the white space at the end")
    return one.replace_blocks([*one.blocks[:-1], (at, with_item(last, "text", words.rstrip()))])


def _place_results(drafts: Sequence[MessageDraft], shape: Shape, log: Log, open_calls: OpenCalls) -> list[MessageDraft]:
    """Put each result directly after its call. Pairs that break no rule stay unchanged."""
    is_open = {
        one.at for one in drafts if log.problems_at(one.at, "unanswered_call") or log.problems_at(one.at + 1, *ASTRAY)
    }
    taken = {one.at for one in drafts if one.at - 1 in is_open or log.problems_at(one.at, *ASTRAY)}
    if not is_open and not taken:
        return list(drafts)
    met = [
        event._replace(is_open=one.at in is_open)
        for one in drafts
        for event in _events(one, shape)
        if event.is_call or one.at in taken
    ]
    blocks = {(one.at, index): block for one in drafts for index, block in one.blocks}

    def answer(result: Place, call: Place) -> tuple[object, str | None]:
        found = shape.with_call_name(blocks[result], blocks[call])
        return found, None if found is blocks[result] else shape.result_name(found)

    given, dropped = place_results(
        met, log, open_calls, answer, lambda call: shape.no_result(blocks[call], open_calls.reason)
    )
    gone = {*dropped, *(event.place for event in met if not event.is_call)}
    left = [one.replace_blocks([(at, block) for at, block in one.blocks if (one.at, at) not in gone]) for one in drafts]
    return _insert_results(left, given, shape)


def _events(one: MessageDraft, shape: Shape) -> Iterator[Event]:
    for index, block in one.blocks:
        if (keys := shape.call_keys(one.role, block)) is not None:
            yield Event((one.at, index), True, keys)
        elif (keys := shape.result_keys(one.role, block)) is not None:
            yield Event((one.at, index), False, keys, nearby=shape.nearby_keys(block))


def _insert_results(
    drafts: Sequence[MessageDraft], given: Mapping[int, Sequence[object]], shape: Shape
) -> list[MessageDraft]:
    """Put the results for each message at the front of the next one, or in a new one if that is not the user's."""
    kept: list[MessageDraft] = []
    for at, one in enumerate(drafts):
        waiting = given.get(drafts[at - 1].at, ()) if at else ()
        if waiting and one.role in shape.users:
            one = one.replace_blocks([*((NEW, block) for block in waiting), *one.blocks])
        elif waiting:
            kept.append(new_draft("user", waiting, kept[-1].message, shape))
        kept.append(one)
    if waiting := given.get(drafts[-1].at, ()):
        kept.append(new_draft("user", waiting, drafts[-1].message, shape))
    return kept


def _change_ids(drafts: Sequence[MessageDraft], shape: Shape, log: Log) -> list[MessageDraft]:
    """Give a new id to calls with an invalid or duplicate id, and to their results."""
    flagged = [
        (problem, (one.at, int(problem.path[2])))
        for one in drafts
        for problem in log.problems_at(one.at, "duplicate_call_id", "call_id_pattern")
    ]
    if not flagged:
        return list(drafts)
    met = [event for one in drafts for event in _events(one, shape)]
    results = {call: result for result, call in pair_results(met).items()}
    ids = {event.place: str(event.keys[0]) for event in met if event.is_call and event.keys}
    fresh = _fresh_ids([ids[place] for _, place in flagged], set(ids.values()))
    changed: dict[Place, str] = {}
    for (problem, call), call_id in zip(flagged, fresh, strict=True):
        changed[call] = call_id
        if call in results:
            changed[results[call]] = call_id
        log.add(problem, f"gave the call and its result the id {call_id!r}")

    def give_id(place: Place, block: object) -> object:
        return shape.with_id(block, changed[place]) if place in changed else block

    return [one.replace_blocks([(at, give_id((one.at, at), block)) for at, block in one.blocks]) for one in drafts]


def _fresh_ids(ids: Sequence[str], used: set[str]) -> list[str]:
    """Derive unique new ids from the old ones, so that the same conversation gets the same ids."""
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
