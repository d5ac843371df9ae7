"""What a summarizer is told of the messages that a plan folds: their words in order, and whose request they are about.

A fold within a turn takes what the model said about a request that stays in the conversation, as here, where U1 stays
(F for a folded message):

    F U0 | F A0   U1 | F A1 | F A2 ...

Without U1 the words of A1 would read as the answer to U0. So the first message behind a request that stays is marked
(`Utterance.after_request`). In the same way the first request of a summary need not be the user's: U0 may stay while
answers through a tool, or later requests, are folded (`first_request`).

Everything here is a function of what stands in the conversation at the time of a fold, so pruned output that is fed
back, which has a summary at its head in place of what was folded, gives the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from autoprune.conversation.transcript import Speaker
from autoprune.facts.utterances import Utterance, utterances
from autoprune.planning.plan import Plan
from autoprune.summarizers import sections


class Record:
    """The folded messages of one plan; `messages` are those that it is a plan for, without the summary in them."""

    def __init__(self, plan: Plan, messages: Sequence[object]) -> None:
        """Find out which messages had gone at each fold."""
        self.plan = plan
        self.messages = messages
        self.folds = [fold for fold in plan.folds if not fold.is_drop]
        self._gone: list[frozenset[int]] = []  # by the end of each fold
        gone: set[int] = set()
        for fold in plan.folds:
            gone.update(fold.messages)
            if not fold.is_drop:
                self._gone.append(frozenset(gone))

    @cached_property
    def requests(self) -> Mapping[int, str]:
        """The messages with words of the user's own, each with its request; "" for a summary of an earlier session."""
        entries, known = self.plan.transcript.entries, self.plan.running
        summary = known.at if known and known.rest is None else -1
        users = [at for at, one in enumerate(entries) if one.speaker is Speaker.USER and not one.results]
        spoken = ((at, one) for at in users if at != summary for one in self._plain([at])[:1])
        return {at: one.asked for at, one in spoken if one.said}

    def first_request(self, stop: int) -> str:
        """Return the user's first request if it has gone by the end of fold `stop - 1`; "" if not, or if not known."""
        known = self.plan.running
        if known and sections.may_hold_request(known.text):
            return ""
        first = next(iter(self.requests), -1)
        return self.requests[first] if first in self._gone[stop - 1] else ""

    def folded(self, start: int, stop: int) -> Iterator[tuple[int, bool]]:
        """Yield the messages of some folds in their order; whether a request that stays stands before each is told."""
        gone = self._gone[stop - 1]
        staying = [at for at in self.requests if at not in gone]
        before = -1
        for at in sorted(at for fold in self.folds[start:stop] for at in fold.messages):
            yield at, any(before < other < at for other in staying)
            before = at

    def utterances(self, start: int, stop: int) -> tuple[Utterance, ...]:
        """Return the messages of some folds in plain words."""
        told: list[Utterance] = []
        for at, is_after_request in self.folded(start, stop):
            first, *others = self._plain([at])
            told += (replace(first, after_request=is_after_request), *others)
        return tuple(told)

    def _plain(self, numbers: Collection[int]) -> tuple[Utterance, ...]:
        entries, is_answer = self.plan.transcript.entries, self.plan.protections.is_answer
        return utterances([self.messages[at] for at in numbers], [entries[at] for at in numbers], is_answer)
