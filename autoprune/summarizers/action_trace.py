"""List what an agent did: which tools were called on what, and how it went. Asks no model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from autoprune.conversation.transcript import ToolResult
from autoprune.planning.clamping import Clamp
from autoprune.summarizers import _trace
from autoprune.summarizers._trace import USER, Line, Total, Trace
from autoprune.summarizers.brief import Brief
from autoprune.summarizers.sections import (
    GOAL,
    Section,
    first_that_fits,
    fit_head,
    most_that_fits,
    resume,
    write,
)
from autoprune.tokens import Count

TITLE = "Actions by tool, numbered in their order"


@dataclass(frozen=True)
class ActionTrace:
    """List the tool calls by tool: what they were about and how they went; and what the user said in between.

    The last `keep` calls show their results, each in at most `detail_tokens` tokens. Where there is no room for that,
    each call has one line; then the oldest lines go, errors and the user's words later than others; then only the
    counts are left. The user's first request stands above all. A trace that it wrote before is read back and carried
    on.
    """

    keep: int = 5
    detail_tokens: int = 120
    calls_model: ClassVar[bool] = False
    keeps_request: ClassVar[bool] = True

    @property
    def identity(self) -> str:
        """What the text depends on beside the brief."""
        return repr(self)

    def __call__(self, brief: Brief, /) -> str:
        """Return the trace in at most `brief.max_tokens` tokens."""
        head, mine = resume(brief, _is_mine)
        known = _trace.read(mine[0].body) if mine else None
        trace = self._extend(known or Trace(), brief, head)
        return first_that_fits(_texts(fit_head(head, brief), trace, brief), head, brief)

    def _extend(self, known: Trace, brief: Brief, head: tuple[Section, ...]) -> Trace:
        """Return a trace with the lines of new messages, and the results of the last calls below their lines."""
        request = next((section.body for section in head if section.title == GOAL), "")
        new = [*_trace.lines_of(known, brief.utterances, request)]
        results = {line.number: result for line, result in new if result}
        trace = _trace.extend(known, [line for line, _ in new])
        calls = [line.number for line in trace.lines if line.key != USER]
        newest = set(calls[max(len(calls) - self.keep, 0) :])
        last = (line for line in trace.lines if line.number in newest)
        shown = (self._add_details(line, results.get(line.number), brief.count) for line in last)
        details = {line.number: line.details for line in shown}
        return Trace(trace.totals, tuple(replace(line, details=details.get(line.number, ())) for line in trace.lines))

    def _add_details(self, line: Line, result: ToolResult | None, count: Count) -> Line:
        """Return a line with its result below it; one of an earlier trace has none, and stays as it is."""
        if result is None or self.detail_tokens < 1:
            return line
        text = result.text.strip()
        rows = (Clamp(self.detail_tokens).shortened(text, count) or text).split("\n")
        return replace(line, details=tuple(row for row in rows if row.strip()))


def _is_mine(section: Section) -> bool:
    return section.title == TITLE and _trace.read(section.body) is not None


def _texts(head: tuple[Section, ...], trace: Trace, brief: Brief) -> Iterator[str | None]:
    """Yield the trace in less and less detail."""

    def with_lines(number: int) -> str:
        lines = _most_telling(trace.lines, number)
        return write((*head, Section(TITLE, str(Trace(trace.totals, lines)))))

    yield write((*head, Section(TITLE, str(trace))))
    yield most_that_fits(with_lines, len(trace.lines), brief)
    yield write((*head, Section(TITLE, str(Trace(_sum(trace.totals))))))
    yield write(head)


def _most_telling(lines: tuple[Line, ...], number: int) -> tuple[Line, ...]:
    """Return the newest lines without details; up to two thirds of them may be older ones that tell more."""
    telling = [line.number for line in lines if line.is_telling]
    kept = set(telling[len(telling) - min(-(-number * 2 // 3), len(telling)) :])
    others = [line.number for line in lines if line.number not in kept]
    kept.update(others[len(others) - min(number - len(kept), len(others)) :])
    return tuple(replace(line, details=()) for line in lines if line.number in kept)


def _sum(totals: tuple[Total, ...]) -> tuple[Total, ...]:
    """Return one total for the calls of all tools, and the user's."""
    calls = [total for total in totals if total.key != USER]
    times, failed = sum(total.times for total in calls), sum(total.failed for total in calls)
    others = tuple(total for total in totals if total.key == USER)
    return (Total(("all tools", "call"), times, failed), *others) if calls else others
