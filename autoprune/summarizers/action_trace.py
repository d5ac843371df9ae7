"""List what an agent did, by tool: the subject of each call, and its outcome. Asks no model.

A trace has one heading per tool, and below it one line per call, numbered in the order of the session. A trace is
written, parsed again, and continued:

    read: 3 calls
    - #2 a.py ×2
    - #4 b.py
    run: 2 calls, 1 failed
    - failed #3 pytest -q: exit code 1: AssertionError: 3 != 4
    - #6 pytest -q: ok
      | 12 passed
    user: 3 messages, 1 left out
    - #5 And the docs:
      | all of them.
    - #7 [answered AskUserQuestion] Tabs.
    assistant: 1 message
    - #8 The docs are done.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import ClassVar

from autoprune.conversation.messages import one_line
from autoprune.conversation.transcript import Speaker, ToolResult
from autoprune.facts.actions import LONGEST_SUBJECT, STILL_RUNNING, Action, read_actions
from autoprune.facts.utterances import Utterance, model_words
from autoprune.planning.clamping import Clamp
from autoprune.summarizers import sections
from autoprune.summarizers.brief import Answer, Brief, Failed, Written
from autoprune.summarizers.sections import fit_texts, left_out_note, shorten
from autoprune.tokens import Count

HEADER = re.compile(r"(\S.*): ([0-9]{1,9}) (call|message)s?(?:, ([0-9]{1,9}) failed)?(?:, [0-9]{1,9} left out)?")
LINE = re.compile(r"- (failed )?#([0-9]{1,9}) (.*?)(?: ×([0-9]{1,9}))?")
STARTED = re.compile(rf"(.+): {STILL_RUNNING} (\S+)")
DETAIL = "  | "
ENDS_IN_TIMES = re.compile(r" ×[0-9]{1,9}\Z")  # as a line that was repeated does
LONGEST_ANSWER = 600  # characters of the model's last words in a turn
Key = tuple[str, str]  # a tool's name and "call"
USER: Key = ("user", "message")
MODEL: Key = ("assistant", "message")
TITLE = "Actions by tool, numbered in their order"


@dataclass(frozen=True)
class Tally:
    """The number of a tool's calls, or of a speaker's messages, and how many failed."""

    key: Key
    times: int = 0
    failed: int = 0

    def __str__(self) -> str:
        name, unit = self.key
        return f"{name}: {sections.quantity(self.times, unit)}" + (f", {self.failed} failed" if self.failed else "")


@dataclass(frozen=True)
class Line:
    """A call with its outcome, or a message, on one line.

    Consecutive equal lines are merged into one: `times` is how many there were, and `number` is that of the last.
    """

    key: Key
    number: int
    text: str
    is_failed: bool = False
    times: int = 1
    details: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The whole text, in several lines if the user wrote several."""
        return "\n".join((self.text, *self.details))

    def with_words(self, words: str) -> "Line":
        """Return a copy of the line with other words."""
        text, *details = words.split("\n")
        return replace(self, text=text, details=tuple(details))

    def repeats(self, before: "Line") -> bool:
        """Return whether the line equals the previous line, except for the results below two calls."""
        details = (self.details == before.details) or self.key != USER
        return details and (self.text, self.is_failed) == (before.text, before.is_failed)

    def __str__(self) -> str:
        repeated = f" ×{self.times}" if self.times > 1 or ENDS_IN_TIMES.search(self.text) else ""
        first = f"- {'failed ' if self.is_failed else ''}#{self.number} {self.text}{repeated}"
        return "\n".join((first, *(DETAIL + line for line in self.details)))


@dataclass(frozen=True)
class Trace:
    """The content of an action trace: `totals` count everything, `lines` are the listed lines, oldest first."""

    totals: tuple[Tally, ...] = ()
    lines: tuple[Line, ...] = ()

    @property
    def number(self) -> int:
        """The number of the last line."""
        return sum(total.times for total in self.totals)

    @property
    def said(self) -> tuple[Line, ...]:
        """The user's lines."""
        return tuple(line for line in self.lines if line.key == USER)

    @property
    def left_out(self) -> int:
        """The number of the user's messages that are not listed."""
        return sum(total.times for total in self.totals if total.key == USER) - sum(line.times for line in self.said)

    def __str__(self) -> str:
        below = {total.key: [str(total)] for total in self.totals}
        if self.left_out:
            below[USER][0] += f", {self.left_out} left out"
        for line in self.lines:
            below[line.key].append(str(line))
        return "\n".join(text for texts in below.values() for text in texts)


@dataclass(frozen=True)
class ActionTrace:
    """List the tool calls by tool, with subject and outcome, and what was said between them.

    The last `keep` calls show their results, each in at most `detail_tokens` tokens. If there is no room for the
    results, each call has one line. Then the oldest lines are dropped, errors and the model's last words in a turn
    later than others, until only the counts are left. The user's words are shortened last, and dropped last, oldest
    first. The first request comes above everything. A trace from the previous summary is parsed and continued.
    """

    keep: int = 5
    detail_tokens: int = 120
    calls_model: ClassVar[bool] = False
    keeps_request: ClassVar[bool] = True

    @property
    def identity(self) -> str:
        """All settings that the text depends on, besides the brief."""
        return repr(self)

    def __call__(self, brief: Brief, /) -> Answer:
        """Return the trace in at most `brief.max_tokens` tokens."""
        head, mine = sections.resume(brief, _is_mine)
        earlier = read_trace(mine[0].body) if mine else None
        trace = self._extend(earlier or Trace(), brief, head)
        text = sections.first_that_fits(_shrinking_texts(head, trace, brief), head, brief)
        if not text:
            return Failed("there is no room for a word")
        shown = read_trace(sections.body_of(sections.parse_sections(text), TITLE)) or Trace(trace.totals)
        said = [line.words for line in shown.said]
        goal = sections.body_of(head, sections.GOAL)
        return Written(text, notes=tuple(left_out_note(goal, text, said, shown.left_out)))

    def _extend(self, known: Trace, brief: Brief, head: sections.Head) -> Trace:
        """Add the lines of new messages, and put the results of the last calls below their lines."""
        new = [*lines_of(known, brief.utterances, sections.body_of(head, sections.GOAL))]
        results = {line.number: result for line, result in new if result}
        trace = extend_trace(known, [line for line, _ in new])
        calls = [line.number for line in trace.lines if line.key not in (USER, MODEL)]
        newest = set(calls[max(len(calls) - self.keep, 0) :])
        lines = (
            self._with_details(line, results.get(line.number), brief.count)
            if line.number in newest
            else _without_details(line)
            for line in trace.lines
        )
        return Trace(trace.totals, tuple(lines))

    def _with_details(self, line: Line, result: ToolResult | None, count: Count) -> Line:
        """Put the result below a line. A line of an earlier trace has no result and stays unchanged."""
        if result is None or self.detail_tokens < 1:
            return line
        text = result.text.strip()
        rows = (Clamp(self.detail_tokens).shortened(text, count) or text).split("\n")
        return replace(line, details=tuple(row for row in rows if row.strip()))


def _without_details(line: Line) -> Line:
    """Drop the result below the line of a call; all lines of the user's words stay."""
    return replace(line, details=()) if line.key != USER else line


def _is_mine(section: sections.Section) -> bool:
    return section.title == TITLE and read_trace(section.body) is not None


def _shrinking_texts(head: sections.Head, trace: Trace, brief: Brief) -> Iterator[str]:
    """Yield the text of the trace in less and less detail."""
    yield _with_head(head, trace)
    shown, totals = sections.fit_head(head, brief), trace.totals
    others = [_without_details(line) for line in trace.lines if line.key != USER]
    left = brief.max_tokens - brief.count(sections.write_sections(shown))
    free = brief.max_tokens - brief.count(_with_head(shown, Trace(totals, tuple(others))))
    said = _fit_user_lines(trace.said, left, free, brief)

    def with_others(number: int) -> Trace:
        lines = sorted((*said, *_most_telling(others, number)), key=lambda line: line.number)
        return Trace(totals, tuple(lines))

    number = sections.most_that_fits(lambda number: _with_head(shown, with_others(number)), len(others), brief)
    fewer = _fit_user_lines(said, left // 2, 0, brief)
    shorter = [] if number is None else [with_others(number)]
    shorter += [Trace(_sum_totals(totals), lines) for lines in (said, fewer, ())]
    shorter += [Trace(tuple(total for total in totals if total.key == USER))]
    for less in shorter:
        yield _with_head(sections.fit_head(head, brief, _with_head((), less)), less)
    yield sections.write_sections(shown)


def _with_head(head: sections.Head, trace: Trace) -> str:
    return sections.write_sections((*head, sections.Section(TITLE, str(trace))))


def _fit_user_lines(said: Sequence[Line], left: int, free: int, brief: Brief) -> tuple[Line, ...]:
    """Choose the newest of the user's lines that fit, and shorten the long ones."""
    frame = brief.count(f"- #{said[-1].number} \n") if said else 0
    words = fit_texts([line.words for line in said], frame, left, free, brief.count)
    return tuple(line.with_words(each) for line, each in zip(said[len(said) - len(words) :], words, strict=True))


def _most_telling(lines: Sequence[Line], number: int) -> list[Line]:
    """Choose the newest lines; up to two thirds may be older lines with errors or the model's words."""
    telling = [line.number for line in lines if line.is_failed or line.key == MODEL]
    numbers = set(telling[len(telling) - min(-(-number * 2 // 3), len(telling)) :])
    others = [line.number for line in lines if line.number not in numbers]
    numbers.update(others[len(others) - min(number - len(numbers), len(others)) :])
    return [line for line in lines if line.number in numbers]


def _sum_totals(totals: Sequence[Tally]) -> tuple[Tally, ...]:
    """Merge the totals of all tools into one; the totals of messages stay."""
    calls = [total for total in totals if total.key not in (USER, MODEL)]
    others = tuple(total for total in totals if total.key in (USER, MODEL))
    times, failed = sum(total.times for total in calls), sum(total.failed for total in calls)
    return (Tally(("all tools", "call"), times, failed), *others) if calls else others


def extend_trace(trace: Trace, more: Sequence[Line]) -> Trace:
    """Add lines to a trace; consecutive equal lines under a heading are merged."""
    totals = {total.key: total for total in trace.totals}
    for line in more:
        total = totals.get(line.key, Tally(line.key))
        totals[line.key] = replace(total, times=total.times + 1, failed=total.failed + line.is_failed)
    last: dict[Key, Line] = {}
    lines: dict[int, Line] = {}
    for line in (*trace.lines, *more):
        before = last.get(line.key)
        if before and line.repeats(before):
            line = replace(line, times=before.times + line.times)
            del lines[before.number]
        last[line.key] = lines[line.number] = line
    return Trace(tuple(totals.values()), tuple(lines.values()))


def read_trace(text: str) -> Trace | None:
    """Parse the text of `str(trace)`; return None for any other text."""
    totals: list[Tally] = []
    lines: list[Line] = []
    for row in text.split("\n"):
        if row.startswith(DETAIL) and lines:
            lines[-1] = replace(lines[-1], details=(*lines[-1].details, row.removeprefix(DETAIL)))
        elif (match := LINE.fullmatch(row)) and totals:
            lines.append(Line(totals[-1].key, int(match[2]), match[3], bool(match[1]), int(match[4] or 1)))
        elif match := HEADER.fullmatch(row):
            totals.append(Tally((match[1], match[3]), int(match[2]), int(match[4] or 0)))
        else:
            return None
    trace = Trace(tuple(totals), tuple(sorted(lines, key=lambda line: line.number)))
    numbers = {line.number for line in lines}
    return trace if len(numbers) == len(lines) and max(numbers, default=0) <= trace.number else None


def lines_of(known: Trace, utterances: Sequence[Utterance], request: str) -> Iterator[tuple[Line, ToolResult | None]]:
    """Yield the lines of messages after a known trace, each with its result, without the first request."""
    actions = [*read_actions(utterances)]
    flattened = [action for several in actions for action in several]
    started = {match[2]: match[1] for line in known.lines if (match := STARTED.fullmatch(line.text))}
    started.update((one.runs_as, one.subject()) for one in flattened if one.runs_as and not one.waits_for)
    number = known.number
    for at, several in enumerate(actions):
        spoken = ((line, None) for line in _spoken_lines(utterances, at, request))
        acted = ((_action_line(one, started.get(one.waits_for, "")), one.result) for one in several)
        for line, result in chain(spoken, acted):
            number += 1
            yield replace(line, number=number), result


def _spoken_lines(utterances: Sequence[Utterance], at: int, request: str) -> Iterator[Line]:
    """Yield a line if a message holds the user's words, or the model's last words in a turn."""
    one = utterances[at]
    if one.speaker is Speaker.USER and not one.earlier_summary and (words := one.user_words) and words != request:
        yield Line(USER, 0, "").with_words(words)
    elif one.speaker is Speaker.MODEL and model_words(one.words).strip():
        behind = takewhile(lambda each: each.speaker is Speaker.MODEL and not each.after_request, utterances[at + 1 :])
        if not one.calls and not any(each.calls for each in behind):
            yield Line(MODEL, 0, _clean(shorten(one.words, LONGEST_ANSWER, len), 2 * LONGEST_ANSWER))


def _action_line(action: Action, waits_for: str) -> Line:
    """Write the line of an action; `waits_for` is the earlier command that the action polls."""
    tool = action.tool.lstrip("- ") or "a tool"
    outcome = short_outcome(action), ", ".join(action.returned_ids)
    text = ": ".join(part for part in (waits_for or action.subject(), *outcome) if part)
    return Line((tool, "call"), 0, _clean(text, 2 * LONGEST_SUBJECT), bool(action.failed))


def short_outcome(action: Action) -> str:
    """Describe the outcome of an action: in a word for a success, with the reason for a failure."""
    if action.result is None:
        return "no result"
    if action.runs_as:
        return f"{STILL_RUNNING} {action.runs_as}"
    if not action.failed:
        return "ok" if action.failed is False else ""
    code = f"exit code {action.exit_code}" if action.exit_code else ""
    return ": ".join(part for part in (code, action.reason) if part) or "error"


def _clean(text: str, most: int) -> str:
    """Put a text on one line, without the sign that marks repeated lines."""
    return one_line(text, most).replace("×", "x") or "()"
