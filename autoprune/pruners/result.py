"""The result of a prune: the new conversation, and the report with its plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from autoprune.conversation.copying import Copied
from autoprune.economics import Sent
from autoprune.planning.plan import Plan
from autoprune.pruners._sent import sent
from autoprune.pruners.report import Report


@dataclass(frozen=True)
class Result(Copied):
    """The new conversation and the report.

    `request_parameters` are what the next request must say besides, {} mostly: see `providers.merged`.
    """

    conversation: list[Any] = field(repr=False)
    report: Report
    request_parameters: Mapping[str, object] = field(default_factory=dict)

    def _given(self) -> Iterator[tuple[str, object]]:
        yield from ((f"conversation[{at}]", message) for at, message in enumerate(self.conversation))

    @property
    def plan(self) -> Plan:
        """What was decided for each result."""
        return self.report.plan

    @property
    def sent(self) -> Sent:
        """The prompt as it was given and sent, in figures: what a ledger (`economics.Ledger`) takes."""
        return sent(self.conversation, self.report)

    def noting(self, notes: Sequence[str]) -> "Result":
        """Return the result with more to say in the report; itself where there is nothing."""
        if not notes:
            return self
        return replace(self, report=replace(self.report, fallbacks=(*self.report.fallbacks, *notes)))

    def refused(self, conversation: list[Any], note: str) -> "Result":
        """Return the result of doing nothing: the caller's own conversation, and a report that says why."""
        nothing = partial(_nothing_done, self.report.plan_of)
        return Result(conversation, replace(self.report, plan_of=nothing)).noting([note])


def _nothing_done(plan_of: Callable[[], Plan]) -> Plan:
    """Return a plan of which nothing is done."""
    return replace(plan_of(), edits=(), folds=(), stripped=(), doomed=(), counted=None, weights=())
