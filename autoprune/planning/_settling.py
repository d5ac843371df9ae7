"""Go on from pruned output: renew what a walk knows of messages that came back changed. Decides nothing.

How it works. An agent may feed the pruned conversation back, with new messages behind it. A walk over that would come
to no edit before the new messages, so it need not be made: the walk over the full history becomes it. Say message 2 is
a text with two results, r1 and r2, and r1 was cleared:

    given      <tool_result …>one large file</tool_result> <tool_result …>b</tool_result>       r1 at 15:29, r2 at 59:60
    returned   <tool_result …>cleared</tool_result> <tool_result …>b</tool_result>              r1 at 15:22, r2 at 52:53

The changed message is read again. It has the same parts in the same order, so old and new ones are paired one by one,
and `renew` puts each new part wherever the walk remembers the old one: among the parts that may still be cleared (to be
weighed anew, since the text around them has changed) and among the results that the model has not seen yet. The edits
themselves are forgotten, for they are part of the conversation now.

A call whose arguments were shortened is a new call. Its result is made to know the new one; a result that has not come
yet is told when it comes (`Parts.newer`).

`Walk.is_settled` says whether this holds: not if the walk over the output would clear more, or could not see what was
taken out. `Walk.goes_on_with` says whether the last request still stands once the next message is known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autoprune.conversation.transcript import Entry, Part, ToolCall, ToolResult
from autoprune.planning._parts import Parts


def renew(known: Parts, entries: list[Entry], new: Mapping[int, Entry]) -> None:
    """Put new entries of changed messages among the entries, and their parts wherever the old ones are known."""
    renewed: dict[Part, Part] = {}
    calls: list[tuple[ToolCall, ToolCall]] = []
    for at, entry in new.items():
        before, now = entries[at], _with_requests(entry)
        renewed.update(zip(_parts(before), _parts(now), strict=True))
        calls += zip(before.calls, now.calls, strict=True)
        entries[at] = now
    _renew_answers(known, entries, calls, renewed)
    _renew_parts(known, renewed)


def _renew_answers(
    known: Parts, entries: list[Entry], calls: Iterable[tuple[ToolCall, ToolCall]], renewed: dict[Part, Part]
) -> None:
    """Let the results of calls know these as they are now; a result that has not come yet will be told."""
    answering: dict[ToolResult, ToolResult] = {}
    for old, new in calls:
        result = known.answers.pop(id(old), None)
        if result is None:
            known.newer[id(old)] = old, new
            continue
        before = _as_now(result, renewed)
        answering[before] = renewed[result] = known.answers[id(new)] = replace(before, call=new)
    for at in {result.location.message for result in answering}:
        entry = entries[at]
        entries[at] = replace(entry, results=tuple(answering.get(one, one) for one in entry.results))


def _renew_parts(known: Parts, renewed: Mapping[Part, Part]) -> None:
    """Put new parts in the place of old ones: those that were edited, and those that have moved beside them."""
    if renewed.keys() & known.seen.keys():
        known.seen = {renewed.get(old, old): None if old in renewed else each for old, each in known.seen.items()}
    known.unseen = [_as_now(old, renewed) for old in known.unseen]
    of_seen = ((renewed.get(part, part), _as_now(result, renewed)) for part, result in known.result_of.items())
    known.result_of = {part: result for part, result in of_seen if part in known.seen}
    known.results = [_as_now(old, renewed) for old in known.results]
    known.as_cut = {}
    for part in renewed.values():
        if isinstance(part, ToolResult) and id(part.call) in known.answers:
            known.answers[id(part.call)] = part


def _as_now(old: ToolResult, renewed: Mapping[Part, Part]) -> ToolResult:
    """Return a result as it is after its message was read again; itself if it was not."""
    new = renewed.get(old, old)
    return new if isinstance(new, ToolResult) else old


def _parts(entry: Entry) -> list[Part]:
    """Return what can be edited in a message: its results, and the arguments of its calls."""
    return [*entry.results, *(part for call in entry.calls for part in call.inputs)]


def _with_requests(entry: Entry) -> Entry:
    """Return an entry that was read out of its place, with the arguments of calls in the requests of these."""
    given = ((call, (replace(part, request=call.request) for part in call.inputs)) for call in entry.calls)
    return replace(entry, calls=tuple(replace(call, inputs=tuple(inputs)) for call, inputs in given))
