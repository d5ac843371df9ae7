"""Mark the prompt before a cut for the provider's cache. Moves no mark of the client's.

Anthropic and Amazon store the prompt up to each mark of a request, and look for a stored prefix at each mark and at
most 20 blocks before it. A client marks the end of every request. After a cut, that mark finds no prefix, so the whole
prompt is written again, and not only what follows the cut:

    request 3   ask  call 1  result 1  call 2   result 2   call 3   result 3*
    request 4   ask  call 1  result 1  call 2   (cleared)  call 3   result 3  call 4  result 4*   reads nothing
    request 4   ask  call 1  result 1  call 2*  (cleared)  call 3   result 3  call 4  result 4*   reads up to result 1
    request 9   ask  call 1  result 1  call 2   (cleared)  call 3*  (cleared) …       result 9*   reads up to call 2

The mark is on the last block before the cut, unless the newest stored prefix is out of reach. At request 4 that prefix
is the one of request 2, which ended with result 1. At request 9 it is the one of the first mark: what requests 2 to 8
stored after call 2 holds result 2 or result 3. If there were 30 blocks between the two cuts, the second mark would be
19 blocks after the first. So the place depends on all cuts so far, and `_find_place` visits the requests in order.
Between two cuts the mark stays in its place.

Source: the prompt caching guides of Anthropic ("How automatic prefix checking works") and Amazon.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoprune.conversation.messages import MARK, MARK_BLOCK, MOST_MARKS, cache_marks, fields_of, items_of, with_item
from autoprune.planning.plan import Plan
from autoprune.pruners.history import History

LOOK_BACK = 20  # blocks in which a provider looks for a stored prefix, the marked one included
POINT = min(MARK_BLOCK)
# Blocks that can be marked, by format. Thinking cannot, and other blocks are not known to be.
MARKABLE = {
    "anthropic": frozenset(("text", "image", "document", "tool_use", "tool_result")),
    "bedrock": frozenset(("text", "image", "document", "toolUse", "toolResult")),
}


def mark_before_cut(
    written_in: str, plan: Plan, given: Sequence[Any], pruned: list[Any], beside: Mapping[str, object], history: History
) -> int | None:
    """Replace the last message of `pruned` before the cut by a copy with a mark, and return its index.

    `given` are the messages before the prune, `beside` the fields of the request that may be marked too, and `history`
    the requests that were pruned, this one included. Nothing is marked, and None returned, if no mark of the client's
    follows, if one of them finds the same prefix, or if the client has set all marks that a request may have.
    """
    if written_in not in MARKABLE:
        return None
    marks = [(at, mark) for at, message in enumerate(pruned) for mark in cache_marks(message)]
    marks += [(len(pruned), mark) for mark in cache_marks(beside, 0)]  # Anthropic then marks the last block itself
    if len(marks) + sum(map(_count_marks, beside.values())) >= MOST_MARKS:
        return None
    ends = [_placed(plan, end) for end in plan.transcript.requests[:-1]]
    blocks = _Blocks.of(pruned if plan.places else given, MARKABLE[written_in])
    place = _find_place(blocks, _first_changed(plan, given, pruned, history), [*ends, len(blocks.before) - 1])
    if place is None:
        return None
    prefix, at, index = place
    following = next((mark for where, mark in marks if where > at), None)
    if following is None or any(prefix <= where <= at for where, _ in marks):
        return None
    # The next mark's time to live is not longer than those of the marks before it, which the APIs require.
    pruned[at] = _with_mark(pruned[at], index, following, written_in)
    return at


def reaches(messages: Sequence[object]) -> tuple[tuple[int, int], ...]:
    """For each cache mark, the fewest and the most messages of a stored prefix that it finds."""
    before, marked = [0], []
    for message in messages:
        number = before[-1]
        for block in _content(message):
            number += fields_of(block).keys() != MARK_BLOCK
            marked += [number] if any(True for _ in cache_marks(block, 1)) else []
        calls = fields_of(message).get("tool_calls")  # a gateway to such a provider turns each into a block
        number += len(calls) if isinstance(calls, list | tuple) else 0
        marked += [number] if any(True for _ in cache_marks(message, 0)) else []
        before.append(number)
    return tuple((bisect_left(before, number - LOOK_BACK + 1), bisect_right(before, number) - 1) for number in marked)


def _count_marks(beside: object) -> int:
    """Count the marks of a system prompt, or of tools. Bedrock's `toolConfig` holds the tools."""
    return sum(1 for _ in cache_marks({"content": fields_of(beside).get("tools", beside)}))


@dataclass
class _Blocks:
    """The blocks of messages, numbered from 1, without Bedrock's marks, which clients move.

    `before` are the number of blocks before each message, and before the end. `places` are the messages and indexes of
    the blocks that can be marked, by their number.
    """

    before: list[int] = field(default_factory=lambda: [0])
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, messages: Sequence[Any], kinds: frozenset[str]) -> "_Blocks":
        """Number the blocks of messages. Only mappings can be marked, since SDKs may not send fields of other types."""
        found = cls()
        for at, message in enumerate(messages):
            number = found.before[-1]
            for index, block in enumerate(_content(message)):
                if fields_of(block).keys() == MARK_BLOCK:
                    continue
                number += 1
                if type(message) is dict and type(block) is dict and _is_markable(block, kinds):
                    found.places[number] = at, index
            found.before.append(number)
        return found


def _content(message: object) -> Sequence[Any]:
    """Return the blocks of a message. A text is one block."""
    content = fields_of(message).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return items_of(content)


def _is_markable(block: Mapping[str, object], kinds: frozenset[str]) -> bool:
    kind = block.get("type") or next(iter(block), "")
    return isinstance(kind, str) and kind in kinds and (kind != "text" or bool(str(block.get("text") or "").strip()))


def _placed(plan: Plan, at: int) -> int:
    """Return the index of a message in the prompt, or of the text in its place if its step was folded."""
    return plan.places[at] if plan.places else at


def _find_place(blocks: _Blocks, first_changed: Mapping[int, int], ends: Sequence[int]) -> tuple[int, int, int] | None:
    """Find the place of the mark: the message that ends the prefix that it finds, and the message and block to mark.

    `ends` are the numbers of messages in the prompts of the requests.
    """
    numbers, places = [*blocks.places], blocks.places
    stored: list[int] = []  # the last blocks of valid prefixes
    found = None
    for request, end in enumerate(ends):
        if request in first_changed:
            last = blocks.before[first_changed[request]]
            del stored[bisect_right(stored, last) :]
            newest = stored[-1] if stored else 0
            near = bisect_right(numbers, min(last, newest + LOOK_BACK - 1) if newest else last)
            found = None
            if near:
                stored += [numbers[near - 1]] if numbers[near - 1] > newest else []
                found = (places[newest or numbers[near - 1]][0], *places[numbers[near - 1]])
        if (number := blocks.before[end]) in places:
            stored.append(number)
    return found


def _first_changed(plan: Plan, given: Sequence[Any], pruned: Sequence[Any], history: History) -> Mapping[int, int]:
    """Find the first message that each request's cut changes, by the number of the request.

    The walk may cut at requests that were sent before the first pruned one. That one then makes the cut.
    """
    requests = plan.transcript.requests
    last = len(requests) - 1
    if plan.folds and not plan.places:  # each rewrites the summary, so the prompt is the same only up to it
        pairs = enumerate(zip(given, pruned, strict=False))
        return {last: next((at for at, (one, other) in pairs if one is not other), min(len(given), len(pruned)))}
    changes = [(edit.request, edit.part.location.message) for edit in plan.edits]
    changes += [(fold.request, fold.messages[0]) for fold in plan.folds]
    # Thinking is removed when its turn is over, at a request that the plan does not name.
    changes += [(last, thought.location.message) for thought in plan.stripped]
    first = min(filter(None, history), default=len(given))
    found: dict[int, int] = {}
    for request, at in changes:
        made = bisect_left(requests, max(first, requests[request]))
        found[made] = min(_placed(plan, at), found.get(made, len(pruned)))
    return found


def _with_mark(message: object, index: int, mark: Mapping[str, object], written_in: str) -> object:
    """Copy a message with a mark on a block, or after it in Bedrock's format."""
    blocks = list(_content(message))
    if written_in == "bedrock":
        return with_item(message, "content", [*blocks[: index + 1], {POINT: {**mark}}, *blocks[index + 1 :]])
    return with_item(message, "content", with_item(blocks, index, with_item(blocks[index], MARK, {**mark})))
