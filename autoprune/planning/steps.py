"""Find the finished steps of a conversation as it grows. Removes nothing.

A step is one answer of the model that calls tools, with the messages that hold the results of all these calls:

    U | A[c1] R[c1] | A[c2] A[c3] R[c2] R[c3] | A | U | A[c4] | A[c5] R[c5]
        step 0        step 1                              -       step 4

An answer without calls is not part of a step, and neither are the user's words, a message that holds anything besides
results, calls that have no results, calls in the model's text, and everything that the format does not know. A step
leaves the prompt as a whole, so no result loses its call, and no call its reasoning.

Some clients set the model's effort before each answer. Such a message is part of the answer's step if it says the same
as the one before it, which stays.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from autoprune.conversation.edits import AnyReason, Fold
from autoprune.conversation.folded_steps import FoldedSteps
from autoprune.conversation.summary import GAP, edge_text
from autoprune.conversation.transcript import Entry, Speaker, ToolCall, ToolResult
from autoprune.tokens import MESSAGE_TOKENS, Count

LEAST_MARKED = 60  # tokens: a smaller result is cheaper to get again than its id is to carry


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step: its messages, the number of the request that it answers, its calls, and their results.

    `tokens` are those of its messages, without what edits save. `marks` carry the ids that recall the results, "" for
    small ones and without an archive. `folded` are blocks of later steps in its messages, which stay.
    """

    messages: range
    request: int
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tokens: int = 0
    marks: tuple[str, ...] = ()
    folded: tuple[FoldedSteps, ...] = ()


class Steps:
    """The steps of a conversation that are finished and still in the prompt, oldest first."""

    def __init__(self) -> None:
        self.finished: list[Step] = []
        self._open: Step | None = None
        self._is_answering = False  # whether the open step has no results yet
        self._directive: object = None  # the newest one
        self._repeated = -1  # its place if it repeats the one before it

    def append(self, at: int, entry: Entry) -> None:
        """Add message number `at`, the next one."""
        if entry.speaker is Speaker.MODEL:
            self._add_answer(at, entry)
        elif self._open and _holds_only_results(entry, self._open.calls):
            step, self._is_answering = self._open, False
            results, messages = (*step.results, *entry.results), range(step.messages.start, at + 1)
            self._open = replace(step, messages=messages, results=results, folded=entry.folded)
            if entry.folded:
                self._close()
        else:
            self._close()
            if entry.is_directive:
                self._repeated = at if entry.message == self._directive else -1
                self._directive = entry.message

    def _add_answer(self, at: int, entry: Entry) -> None:
        is_continued = self._is_answering and self._open is None  # an answer of which a part cannot be folded
        if not self._is_answering:
            self._close()
        self._is_answering = True
        if is_continued or not _is_known(entry):
            self._open = None
            return
        start = at - 1 if self._repeated == at - 1 else at
        step = self._open or Step(range(start, at), -1)
        request = entry.calls[0].request if entry.calls else step.request
        messages = range(step.messages.start, at + 1)
        self._open = replace(step, messages=messages, request=request, calls=(*step.calls, *entry.calls))

    def _close(self) -> None:
        """Keep the open step if each of its calls has one result."""
        step, self._open, self._is_answering = self._open, None, False
        if step and step.calls and len(step.results) == len(step.calls):
            self.finished.append(step)

    def remove(self, messages: Collection[int]) -> None:
        """Forget the steps in these messages."""
        self.finished = [step for step in self.finished if step.messages.start not in messages]


def neighbors(steps: Collection[Step]) -> Iterator[list[Step]]:
    """Group steps, oldest first, with nothing between them."""
    run: list[Step] = []
    for step in steps:
        if run and (run[-1].messages.stop, run[-1].request + 1) != (step.messages.start, step.request):
            yield run
            run = []
        run.append(step)
    if run:
        yield run


def make_fold(steps: Sequence[Step], text: str, reason: AnyReason, count: Count) -> Fold:
    """Create the fold of neighboring steps. Blocks of later steps in their messages follow the text."""
    whole = GAP.join((text, *(each.text for step in steps for each in step.folded)))
    return Fold(
        messages=tuple(at for step in steps for at in step.messages),
        reason=reason,
        saved=sum(step.tokens for step in steps),
        room=count(whole) + MESSAGE_TOKENS,
        text=whole,
    )


def added_tokens(text: str, before: Sequence[Entry | str], after: Sequence[Entry | str], count: Count) -> int:
    """Return the tokens that a text adds to the prompt between messages of the user and texts of folds, nearest first.

    They all become one message.
    """
    above, below = [_edge_text(each, -1) for each in before], [_edge_text(each, 0) for each in after]
    are_texts = None not in (*above, *below)  # otherwise each one becomes blocks
    first, last = (side[0] or "" if side and are_texts else "" for side in (above, below))
    whole = GAP.join(filter(None, (first, text, last)))
    messages = sum(any(map(_is_counted, side)) for side in (before, after))
    return count(whole) - count(first) - count(last) + MESSAGE_TOKENS * (1 - messages)


def _edge_text(each: Entry | str, at: int) -> str | None:
    return each if isinstance(each, str) else edge_text(each.message, at)


def _is_counted(each: Entry | str) -> bool:
    """Return whether the tokens include those of a message; each result includes its own."""
    return isinstance(each, str) or each.speaker is Speaker.USER


def _is_known(entry: Entry) -> bool:
    """Return whether a message of the model holds only words, thinking and native calls."""
    is_plain = not (entry.results or entry.pairs or entry.loads_tools or entry.has_others or entry.is_replaced)
    is_native = all(call.location.start is None and not call.is_programmatic for call in entry.calls)
    return is_plain and is_native and entry.compaction is None


def _holds_only_results(entry: Entry, calls: Collection[ToolCall]) -> bool:
    """Return whether a message holds results of some calls and nothing else."""
    is_plain = bool(entry.results) and not (entry.texts or entry.pairs or entry.loads_tools or entry.calls)
    return is_plain and all(any(result.call is call for call in calls) for result in entry.results)
