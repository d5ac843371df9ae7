"""A trace of actions: which tools were called on what, and how it went. Asks no model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autoprune.conversation.transcript import ToolResult
from autoprune.planning.clamping import Clamp
from autoprune.summarizers import acts
from autoprune.summarizers.acts import Act, Acts, Group
from autoprune.summarizers.brief import Brief
from autoprune.summarizers.sections import (
    GOAL,
    Section,
    first_that_fits,
    fitted,
    most_that_fits,
    resumed,
    written,
)
from autoprune.tokens import Count

TITLE = "Actions by tool, numbered in their order"


@dataclass(frozen=True)
class ActionTrace:
    """Lists the tool calls by tool: what they touched and how it went; among them what the user said later.

    The last `keep` calls show their results, each within `detail_tokens` tokens. Where there is no room for that, each
    call has one line; then the oldest lines go, errors and the user's words later than others; then only the counts are
    left. The user's first request stands above all. A previous trace is read back and continued.
    """

    keep: int = 5
    detail_tokens: int = 120
    calls_model = False
    keeps_request = True

    @property
    def identity(self) -> str:
        """What the text depends on beside the brief."""
        return repr(self)

    def __call__(self, brief: Brief, /) -> str:
        """The trace, of at most `brief.max_tokens` tokens."""
        head, mine = resumed(brief, _is_mine)
        known = acts.read(mine[0].body) if mine else None
        trace = self._continued(known or Acts(), brief, head)
        return first_that_fits(_texts(fitted(head, brief), trace, brief), head, brief)

    def _continued(self, known: Acts, brief: Brief, head: tuple[Section, ...]) -> Acts:
        request = next((section.body for section in head if section.title == GOAL), "")
        new = [*acts.done(brief.utterances, known.number + 1, request)]
        results = {act.number: result for act, result in new if result}
        trace = acts.continued(known, [act for act, _ in new])
        calls = [act.number for act in trace.listed if act.key != acts.USER]
        newest = set(calls[max(len(calls) - self.keep, 0) :])
        shown = (self._shown(act, results.get(act.number), brief.count) for act in trace.listed if act.number in newest)
        details = {act.number: act.details for act in shown}
        return Acts(trace.groups, tuple(replace(act, details=details.get(act.number, ())) for act in trace.listed))

    def _shown(self, act: Act, result: ToolResult | None, count: Count) -> Act:
        """An act with its result below it; one of a previous trace as it is."""
        if result is None or self.detail_tokens < 1:
            return act
        text = result.text.strip()
        lines = (Clamp(self.detail_tokens).shortened(text, count) or text).split("\n")
        return replace(act, details=tuple(line for line in lines if line.strip()))


def _is_mine(section: Section) -> bool:
    return section.title == TITLE and acts.read(section.body) is not None


def _texts(head: tuple[Section, ...], trace: Acts, brief: Brief) -> Iterator[str | None]:
    """The trace in less and less detail."""

    def with_lines(number: int) -> str:
        listed = _telling(trace.listed, number)
        return written((*head, Section(TITLE, str(Acts(trace.groups, listed)))))

    yield written((*head, Section(TITLE, str(trace))))
    yield most_that_fits(with_lines, len(trace.listed), brief)
    yield written((*head, Section(TITLE, str(Acts(_in_all(trace.groups))))))
    yield written(head)


def _telling(listed: tuple[Act, ...], number: int) -> tuple[Act, ...]:
    """The newest acts without their details; up to two thirds of them may be older ones that tell more."""
    telling = [act.number for act in listed if act.is_telling]
    kept = set(telling[len(telling) - min(-(-number * 2 // 3), len(telling)) :])
    others = [act.number for act in listed if act.number not in kept]
    kept.update(others[len(others) - min(number - len(kept), len(others)) :])
    return tuple(replace(act, details=()) for act in listed if act.number in kept)


def _in_all(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """One count for the calls of all tools."""
    calls = [group for group in groups if group.key != acts.USER]
    times, failed = sum(group.times for group in calls), sum(group.failed for group in calls)
    others = tuple(group for group in groups if group.key == acts.USER)
    return (Group(("all tools", "call"), times, failed), *others) if calls else others
