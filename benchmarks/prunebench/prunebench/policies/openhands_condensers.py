"""Condensers of OpenHands that need no model: observation masking, recent events, and amortized forgetting.

OpenHands counts events, not messages: the system prompt, a message, a call and a result are one event each, and each
call is followed by its result, also if a response makes several calls. Prompts are built from the events that remain.
A response is sent only if all its calls still have their results, with the tool's message.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.apps.policies import Changes, RequestView
from autoprune.conversation.transcript import Location, Speaker, ToolResult

from prunebench.policies._published import Published

MASKED = "<MASKED>"
GAP = "\n\n"  # before a user message that follows another one
HEAD = 1  # events that are always kept: the system prompt


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """An event in `message`, which is -1 for a system prompt that is not among the messages.

    `response` is the first message of the response to which a call or its result belongs.
    """

    message: int
    speaker: Speaker
    response: int = -1
    result: ToolResult | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _History:
    """The events of a request's messages. `places` are the messages of each response and of its results."""

    events: Sequence[_Event]
    places: Mapping[int, set[int]]

    def dropped(self, hidden: Sequence[_Event]) -> set[int]:
        """Return the messages that are not sent if some events are hidden."""
        gone = set(hidden)
        lost = {event.response for event in hidden if event.result is not None}
        calls = {event.response for event in self.events if event.result is None and event not in gone}
        lost |= {event.response for event in hidden if event.response not in calls}
        messages = {event.message for event in hidden if event.response < 0}
        return messages.union(*(self.places[each] for each in lost if each >= 0)) - {-1}


def _read_history(request: RequestView) -> _History:
    results = {result.call.location: result for result in request.results if result.call}
    places: dict[int, set[int]] = {}
    return _History(tuple(_events(request, results, places)), places)


def _events(
    request: RequestView, results: Mapping[Location, ToolResult], places: dict[int, set[int]]
) -> Iterator[_Event]:
    """Yield the events in order, and collect the places of responses."""
    if not request.entries or request.entries[0].speaker is not Speaker.SYSTEM:
        yield _Event(-1, Speaker.SYSTEM)
    for at, entry in enumerate(request.entries):
        if entry.speaker is not Speaker.MODEL:
            alone = [result for result in entry.results if not result.call]
            yield from (_Event(at, Speaker.TOOL, result=result) for result in alone)
            if not entry.results:
                yield _Event(at, entry.speaker)
        elif at == 0 or request.entries[at - 1].speaker is not Speaker.MODEL:
            yield from _response(request, at, results, places)


def _response(
    request: RequestView, first: int, results: Mapping[Location, ToolResult], places: dict[int, set[int]]
) -> Iterator[_Event]:
    """Yield the events of consecutive messages of the model: its calls with their results, or one message."""
    last = first
    while last < len(request.entries) and request.entries[last].speaker is Speaker.MODEL:
        last += 1
    places[first] = set(range(first, last))
    calls = [call for entry in request.entries[first:last] for call in entry.calls]
    if not calls:
        yield _Event(first, Speaker.MODEL, first)
    for call in calls:
        yield _Event(call.location.message, Speaker.MODEL, first)
        if result := results.get(call.location):
            places[first].add(result.location.message)
            yield _Event(result.location.message, Speaker.TOOL, first, result)


class OpenHandsMasking:
    """Send `<MASKED>` as a user message for each result before the newest events, and the calls not at all."""

    def __init__(self, attention_window: int = 100) -> None:
        """Keep the results among the newest `attention_window` events."""
        self._window = attention_window

    def changes(self, request: RequestView) -> Changes:
        """Drop the responses with masked results."""
        history = _read_history(request)
        old = [event for event in history.events[: -self._window] if event.result]
        masks: dict[int, int] = {}
        for event in old:
            masks[event.message] = masks.get(event.message, 0) + 1
        dropped = history.dropped(old) | masks.keys()
        return Changes(dropped=dropped, added=dict(_placeholders(request, dropped, masks)))


def _placeholders(request: RequestView, dropped: set[int], masks: Mapping[int, int]) -> Iterator[tuple[int, str]]:
    """Yield the user messages that stand for masked results, by the index before which they are sent."""
    follows_user = False
    for at, entry in enumerate(request.entries):
        if at in masks:
            yield at, (GAP if follows_user else "") + GAP.join([MASKED] * masks[at])
            follows_user = True
        elif at not in dropped:
            follows_user = entry.speaker is Speaker.USER and not entry.results


class OpenHandsRecentEvents:
    """Send the system prompt, the first message of the user, and the newest events.

    Until there are `max_events` events, the original sends the system prompt and the first message twice: its head and
    its tail overlap. This policy does so too.
    """

    def __init__(self, max_events: int = 100) -> None:
        """Keep `max_events` events."""
        self._tail = max_events - HEAD

    def changes(self, request: RequestView) -> Changes:
        """Drop the events before the newest ones."""
        history = _read_history(request)
        if len(history.events) <= self._tail:
            start = [event.message for event in history.events[:HEAD] if event.message >= 0]
            return Changes(repeated={0: (*start, *_first_of_user(history.events))})
        return _keep_newest(history, len(history.events) - self._tail)


class OpenHandsForgetting:
    """Forget all but the newest half of the events when there are more than `max_size`."""

    def __init__(self, max_size: int = 100) -> None:
        """Keep up to `max_size` events."""
        self._max_size = max_size
        self._start = HEAD

    def changes(self, request: RequestView) -> Changes:
        """Drop the forgotten events."""
        history = _read_history(request)
        count = len(history.events)
        if HEAD + count - self._start > self._max_size:
            self._start = count - (self._max_size // 2 - HEAD)
        return _keep_newest(history, self._start)


def _keep_newest(history: _History, start: int) -> Changes:
    """Drop the events after the head and before `start`, but send the first message of the user in front of them."""
    events = history.events
    dropped = history.dropped(events[HEAD:start])
    is_from_user = events[start].speaker is Speaker.USER and not events[start].result
    return Changes(dropped=dropped if is_from_user else dropped.difference(_first_of_user(events)))


def _first_of_user(events: Sequence[_Event]) -> list[int]:
    return [event.message for event in events if event.speaker is Speaker.USER and not event.result][:1]


_TOOL = "OpenHands"
_SOURCE = "PyPI openhands-ai, openhands/memory/condenser/impl/{}_condenser.py, 0.62.0, 2025-11-11"
_LEFT_OUT = (
    "The events that recall the workspace and microagents, which other agents' sessions do not have; the cut of single"
    " results to 30,000 characters, which is not the condenser's; the empty line before a message of the"
    " user that follows another one."
)
_NOT_DEFAULT = "It has to be chosen: by default OpenHands summarizes with a model."
_OUTDATED = "As of 0.62.0 (2025-11-11); not in the current release."
_CHECKED = "openhands-ai 0.62.0"
PUBLISHED = (
    Published(
        name="openhands_masking",
        new=OpenHandsMasking,
        tool=_TOOL,
        outdated=_OUTDATED,
        source=_SOURCE.format("observation_masking"),
        decides=(
            "Each tool result before the newest events becomes a user message <MASKED>. Since its call then has no"
            " result, the prompt's builder leaves out the whole response that made the call, with its text."
        ),
        defaults="attention_window = 100 events, about 50 calls, in the configuration (5 in the class itself). "
        + _NOT_DEFAULT,
        left_out=_LEFT_OUT,
        idle="With fewer than about 50 calls.",
        checked=_CHECKED,
    ),
    Published(
        name="openhands_recent",
        new=OpenHandsRecentEvents,
        tool=_TOOL,
        outdated=_OUTDATED,
        source=_SOURCE.format("recent_events"),
        decides=(
            "The system prompt, the first message of the user and the newest events are sent. With fewer events than"
            " max_events, the head and the tail overlap, and the first two messages are sent twice."
        ),
        defaults="keep_first = 1, max_events = 100. " + _NOT_DEFAULT,
        left_out=_LEFT_OUT + " The second system prompt, if it is not among the messages. Other values of keep_first.",
        idle="With fewer than about 50 calls it drops nothing.",
        checked=_CHECKED,
    ),
    Published(
        name="openhands_forgetting",
        new=OpenHandsForgetting,
        tool=_TOOL,
        outdated=_OUTDATED,
        source=_SOURCE.format("amortized_forgetting"),
        decides=(
            "When there are more than max_size events, all but the system prompt, the first message of the user and the"
            " newest half of max_size are forgotten for good."
        ),
        defaults="keep_first = 1, max_size = 100 in the configuration. " + _NOT_DEFAULT,
        left_out=_LEFT_OUT + " Other values of keep_first.",
        idle="With fewer than about 50 calls.",
        checked=_CHECKED,
    ),
)
