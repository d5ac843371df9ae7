"""List what an agent did: which tools were called on what, and how it went. Asks no model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from autoprune.conversation.transcript import ToolResult
from autoprune.planning.clamping import Clamp
from autoprune.summarizers import _trace
from autoprune.summarizers._trace import MODEL, USER, Line, Total, Trace
from autoprune.summarizers.brief import Answer, Brief, Failed, Written
from autoprune.summarizers.requests import fitted, left_out_note
from autoprune.summarizers.sections import (
    GOAL,
    Head,
    Section,
    first_that_fits,
    fit_head,
    most_that_fits,
    read,
    resume,
    write,
)
from autoprune.tokens import Count

TITLE = "Actions by tool, numbered in their order"


@dataclass(frozen=True)
class ActionTrace:
    """List the tool calls by tool: what they were about and how they went; and what was said in between.

    The last `keep` calls show their results, each in at most `detail_tokens` tokens. Where there is no room for that,
    each call has one line; then the oldest lines go, errors and the model's last words in a turn later than others;
    then only the counts are left. The user's words are the last to be shortened, and their oldest the last to go: the
    first request stands above all. A trace that it wrote before is read back and carried on.
    """

    keep: int = 5
    detail_tokens: int = 120
    calls_model: ClassVar[bool] = False
    keeps_request: ClassVar[bool] = True

    @property
    def identity(self) -> str:
        """What the text depends on beside the brief."""
        return repr(self)

    def __call__(self, brief: Brief, /) -> Answer:
        """Return the trace in at most `brief.max_tokens` tokens."""
        head, mine = resume(brief, _is_mine)
        known = _trace.read(mine[0].body) if mine else None
        trace = self._extend(known or Trace(), brief, head)
        text = first_that_fits(_texts(head, trace, brief), head, brief)
        return Written(text, notes=tuple(_notes(text, head, trace))) if text else Failed("there is no room for a word")

    def _extend(self, known: Trace, brief: Brief, head: Head) -> Trace:
        """Return a trace with the lines of new messages, and the results of the last calls below their lines."""
        request = next((section.body for section in head if section.title == GOAL), "")
        new = [*_trace.lines_of(known, brief.utterances, request)]
        results = {line.number: result for line, result in new if result}
        trace = _trace.extend(known, [line for line, _ in new])
        calls = [line.number for line in trace.lines if line.key not in (USER, MODEL)]
        newest = set(calls[max(len(calls) - self.keep, 0) :])
        lines = (
            self._with_details(line, results.get(line.number), brief.count) if line.number in newest else _bare(line)
            for line in trace.lines
        )
        return Trace(trace.totals, tuple(lines))

    def _with_details(self, line: Line, result: ToolResult | None, count: Count) -> Line:
        """Return a line with its result below it; one of an earlier trace has none, and stays as it is."""
        if result is None or self.detail_tokens < 1:
            return line
        text = result.text.strip()
        rows = (Clamp(self.detail_tokens).shortened(text, count) or text).split("\n")
        return replace(line, details=tuple(row for row in rows if row.strip()))


def _bare(line: Line) -> Line:
    """Return the line of a call without its result; what the user said keeps its lines."""
    return replace(line, details=()) if line.key != USER else line


def _is_mine(section: Section) -> bool:
    return section.title == TITLE and _trace.read(section.body) is not None


def _texts(head: Head, trace: Trace, brief: Brief) -> Iterator[str]:
    """Yield the trace in less and less detail."""
    yield _joined(head, trace)
    shown, totals = fit_head(head, brief), trace.totals
    others = [_bare(line) for line in trace.lines if line.key != USER]
    left = brief.max_tokens - brief.count(write(shown))
    free = brief.max_tokens - brief.count(_joined(shown, Trace(totals, tuple(others))))
    said = _fitted(trace.said, left, free, brief)

    def with_others(number: int) -> Trace:
        lines = sorted((*said, *_most_telling(others, number)), key=lambda line: line.number)
        return Trace(totals, tuple(lines))

    number = most_that_fits(lambda number: _joined(shown, with_others(number)), len(others), brief)
    fewer = _fitted(said, left // 2, 0, brief)
    for less in (
        *(() if number is None else (with_others(number),)),
        *(Trace(_sum(totals), lines) for lines in (said, fewer, ())),
        Trace(tuple(total for total in totals if total.key == USER)),
    ):
        yield _joined(fit_head(head, brief, _joined((), less)), less)
    yield write(shown)


def _joined(head: Head, trace: Trace) -> str:
    return write((*head, Section(TITLE, str(trace))))


def _fitted(said: Sequence[Line], left: int, free: int, brief: Brief) -> tuple[Line, ...]:
    """Return the newest of the user's lines, the long ones shortened."""
    frame = brief.count(f"- #{said[-1].number} \n") if said else 0
    words = fitted([line.words for line in said], frame, left, free, brief.count)
    return tuple(line.saying(each) for line, each in zip(said[len(said) - len(words) :], words, strict=True))


def _notes(text: str, head: Head, trace: Trace) -> Iterator[str]:
    """Yield a note if something of the user's is not in the text."""
    found = {section.title: section.body for section in read(text) or ()}
    shown = _trace.read(found.get(TITLE, "")) or Trace(trace.totals)
    goal = next((section.body for section in head if section.title == GOAL), "")
    return left_out_note(
        goal, found.get(GOAL, "" if found else text), [line.words for line in shown.said], shown.left_out
    )


def _most_telling(lines: Sequence[Line], number: int) -> list[Line]:
    """Return the newest lines; up to two thirds of them may be older ones that tell more."""
    telling = [line.number for line in lines if line.is_telling]
    kept = set(telling[len(telling) - min(-(-number * 2 // 3), len(telling)) :])
    others = [line.number for line in lines if line.number not in kept]
    kept.update(others[len(others) - min(number - len(kept), len(others)) :])
    return [line for line in lines if line.number in kept]


def _sum(totals: Sequence[Total]) -> tuple[Total, ...]:
    """Return one total for the calls of all tools, and those of what was said."""
    calls = [total for total in totals if total.is_of_calls]
    times, failed = sum(total.times for total in calls), sum(total.failed for total in calls)
    others = tuple(total for total in totals if not total.is_of_calls)
    return (Total(("all tools", "call"), times, failed), *others) if calls else others
