"""A trace of actions: which tools were called on what, and how it went. Asks no model unless it is given one."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from autoprune.conversation.transcript import Location, Speaker, ToolCall, ToolResult
from autoprune.planning.clamping import Clamp
from autoprune.summarizers import acts
from autoprune.summarizers.acts import Act, Acts, Group
from autoprune.summarizers.brief import Brief, Written
from autoprune.summarizers.driver import run, steps_of
from autoprune.summarizers.sections import (
    GOAL,
    Section,
    figure,
    first_that_fits,
    fitted,
    most_that_fits,
    resumed,
    written,
)
from autoprune.summarizers.utterances import Utterance
from autoprune.tokens import Count, exact

TITLE = "Actions by tool, numbered in their order"
MARK = "[Summary of {}]"
LAST = "[The last {}]"
TOOL_NAMES = ("tool", "name", "tool_name", "action")
ARGUMENT_NAMES = ("tool_input", "arguments", "args", "input", "parameters", "action_input")


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


def trace(
    pairs: Iterable[tuple[object, object]],
    *,
    trigger: int = 10,
    keep: int = 5,
    max_tokens: int = 2_000,
    count: Count | None = None,
    summarizer: Callable[[Brief], object] | None = None,
) -> str:
    """A text of (action, observation) pairs that are no messages, of any types, oldest first.

    Up to `trigger` pairs stand there in full. Of more, those that together have at most `max_tokens` tokens are too
    few to sum up: only the last `keep` stay. Else a summary of at most `max_tokens` tokens stands above the last
    `keep`: the summarizer's, or without one, or where it fails, an `ActionTrace`.
    """
    all_pairs = list(pairs)
    if len(all_pairs) <= trigger:
        return _in_full(all_pairs)
    counter = count or exact()
    start = max(len(all_pairs) - max(keep, 0), 0)
    kept = _in_full(all_pairs[start:])
    if start == 0 or counter(_in_full(all_pairs)) <= max_tokens:
        return kept
    room = min(max_tokens, counter(_in_full(all_pairs[:start])))
    brief = Brief(_utterances(all_pairs[:start], counter), max_tokens=room, count=counter)
    told = f"{MARK.format(figure(start, 'earlier action'))}\n{_summary(brief, summarizer)}".strip()
    last = f"{LAST.format(figure(len(all_pairs) - start, 'action'))}\n{kept}" if kept else ""
    return "\n\n".join(part for part in (told, last) if part)


def _summary(brief: Brief, summarizer: Callable[[Brief], object] | None) -> str:
    answer = run(steps_of(summarizer, brief)) if summarizer else None
    if isinstance(answer, Written) and brief.count(answer.text) <= brief.max_tokens:
        return answer.text
    return ActionTrace(keep=0)(brief)


def _in_full(pairs: Iterable[tuple[object, object]]) -> str:
    return "\n\n".join(f"Action: {_text(action)}\nObservation: {_text(observed)}" for action, observed in pairs)


def _utterances(pairs: Iterable[tuple[object, object]], count: Count) -> tuple[Utterance, ...]:
    """The pairs as if they had been messages: a call, and its result."""
    made: list[Utterance] = []
    for number, (action, observed) in enumerate(pairs):
        call = _call(action, 2 * number)
        text = _text(observed)
        result = ToolResult(
            location=Location((2 * number + 1,)),
            request=number,
            tool=call.name,
            piece=text,
            start=0,
            stop=len(text),
            piece_tokens=count(text),
            count=count,
            sent=number + 1,
            kind="pair",
            is_error=None,
            call=call,
        )
        made += (Utterance(Speaker.MODEL, "", calls=(call,)), Utterance(Speaker.TOOL, "", results=(result,)))
    return tuple(made)


def _call(action: object, at: int) -> ToolCall:
    """An action as a call: a mapping or an object that names a tool and its input, else a text such as `ls(path)`."""
    known = action if isinstance(action, Mapping) else _fields(action)
    name = next((name for key in TOOL_NAMES if isinstance(name := known.get(key), str)), None)
    given = next((known[key] for key in ARGUMENT_NAMES if key in known), None)
    if name is None:
        name, _, given = _text(action).strip().removesuffix(")").partition("(")
    return ToolCall(Location((at,)), at // 2, None, name, given if isinstance(given, Mapping | str) else _text(given))


def _fields(action: object) -> Mapping[str, object]:
    names = (*TOOL_NAMES, *ARGUMENT_NAMES)
    return {} if isinstance(action, str) else {name: getattr(action, name) for name in names if hasattr(action, name)}


def _text(value: object) -> str:
    """What a value says: a text itself, nothing for None, else JSON, or how it prints itself."""
    match value:
        case None:
            return ""
        case str():
            return value
        case Mapping() | list() | tuple():
            return _json(value)
    return str(value)


def _json(value: object) -> str:
    try:
        return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, a value that holds itself
        return str(value)
