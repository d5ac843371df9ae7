"""Context policies: rules of any tool that a replay compares. None of them can be used live.

A policy decides from a `RequestView` and answers with `Changes`; `PolicyPrompts` sends what it decides. A replay takes
a policy from a file, as `--strategy mine.py:Mine`, or from an installed package that registers it under the entry point
group `autoprune.context_policies`: a class or function that makes it, with a default for each parameter.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from traceback import extract_tb
from types import SimpleNamespace
from typing import Any, Protocol

from autoprune.conversation.edits import Reason, Replace, rewrite
from autoprune.conversation.transcript import Entry, Part, ToolCall, ToolResult, Transcript
from autoprune.errors import SettingsError, type_of
from autoprune.settings.values import UNKNOWN_WINDOW
from autoprune.wire import SHIPPED, dominant_format


@dataclass(frozen=True)
class RequestView:
    """A recorded conversation before one of its requests, unedited, with the figures that an agent knows at that time.

    `number` counts the requests from 0. `head` is the number of tokens that are sent before the messages, and
    `last_prompt` that of the previous prompt that was sent, 0 at the first request; both by our count. `window` is the
    context window of the session's model, in the same tokens. `pause` is the time since the previous answer in seconds,
    0 if it is unknown.
    """

    number: int
    messages: Sequence[Any] = field(repr=False)
    entries: Sequence[Entry] = field(repr=False)
    results: Sequence[ToolResult] = field(repr=False)
    calls: Sequence[ToolCall] = field(repr=False)
    head: int = 0
    last_prompt: int = 0
    window: int = UNKNOWN_WINDOW
    pause: float = 0.0

    @property
    def unseen(self) -> Sequence[ToolResult]:
        """The results that no earlier request has sent."""
        return [result for result in self.results if result.sent >= self.number]


@dataclass(frozen=True)
class Changes:
    """All differences between a prompt and the recorded messages, also those that an earlier prompt had.

    `texts` maps results, or the inputs of calls, to their new payloads. `dropped` holds the indexes of messages that
    are not sent. `added` maps the index of a recorded message to the text of a user message that is sent before it.
    `repeated` maps such an index to the indexes of messages that are sent once more before it.
    """

    texts: Mapping[Part, str] = field(default_factory=dict)
    dropped: Collection[int] = frozenset()
    added: Mapping[int, str] = field(default_factory=dict)
    repeated: Mapping[int, Sequence[int]] = field(default_factory=dict)


NOTHING = Changes()


class ContextPolicy(Protocol):
    """Decides what is sent. A policy may remember earlier requests, since each conversation gets a new one."""

    def changes(self, request: RequestView) -> Changes:
        """Return all changes of the prompt of a request. Called once for each request, in order."""
        ...


class PolicyPrompts:
    """The prompts that a policy sends in one conversation, in the messages' own format. Nothing is changed in place.

    `requests` are the indexes of the messages before which the recorded requests were sent, and `pauses` the seconds
    before them, by the same indexes. A message whose changes are those of the previous prompt is the same object.
    """

    def __init__(
        self,
        policy: ContextPolicy,
        transcript: Transcript,
        requests: Sequence[int],
        *,
        head: int = 0,
        window: int = UNKNOWN_WINDOW,
        pauses: Mapping[int, float] | None = None,
        count_message: Callable[[object], int] = lambda message: 0,
    ) -> None:
        self._policy = policy
        self._transcript = transcript
        self._requests = {start: number for number, start in enumerate(requests)}
        self._head, self._window, self._pauses = head, window, pauses or {}
        self._count_message = count_message
        self._result_starts = [result.location.message for result in transcript.results]
        self._call_starts = [call.location.message for call in transcript.calls]
        self._rewritten: dict[int, tuple[dict[Part, str], Any]] = {}
        self._added: dict[tuple[int, str], Any] = {}
        self._last_prompt = 0

    def prune(self, messages: Sequence[Any], **_: object) -> SimpleNamespace:
        """Return the prompt of the request before which `messages` were recorded, as `conversation`.

        Raises SettingsError if the policy fails, or if its changes cannot be applied.
        """
        start = len(messages)
        changes = checked_changes(self._policy, self._view(start))
        sent = self._apply(start, changes)
        self._last_prompt = self._head + sum(map(self._count_message, sent))
        return SimpleNamespace(conversation=sent)

    def _view(self, start: int) -> RequestView:
        known = self._transcript
        return RequestView(
            number=self._requests[start],
            messages=known.messages[:start],
            entries=known.entries[:start],
            results=known.results[: bisect_left(self._result_starts, start)],
            calls=known.calls[: bisect_left(self._call_starts, start)],
            head=self._head,
            last_prompt=self._last_prompt,
            window=self._window,
            pause=self._pauses.get(start, 0.0),
        )

    def _apply(self, start: int, changes: Changes) -> list[Any]:
        by_message: dict[int, dict[Part, str]] = {}
        for part, text in changes.texts.items():
            by_message.setdefault(part.location.message, {})[part] = text
        dropped = frozenset(changes.dropped)
        sent: list[Any] = []
        for at in range(start):
            sent.extend(self._transcript.messages[each] for each in changes.repeated.get(at, ()))
            if at in changes.added:
                sent.append(self._user_message(at, changes.added[at]))
            if at not in dropped:
                sent.append(self._rewrite(at, by_message.get(at, {})))
        if start in changes.added:
            sent.append(self._user_message(start, changes.added[start]))
        return sent

    def _rewrite(self, at: int, texts: dict[Part, str]) -> Any:
        message = self._transcript.messages[at]
        if not texts:
            return message
        last_texts, last_message = self._rewritten.get(at, ({}, None))
        if last_texts == texts:
            return last_message
        edits = [Replace(part, text, Reason.NOT_CHOSEN, 0) for part, text in texts.items()]
        changed = rewrite(message, edits)
        self._rewritten[at] = texts, changed
        return changed

    def _user_message(self, at: int, text: str) -> Any:
        key = at, text
        if key not in self._added:
            written_in = dominant_format(self._transcript.messages, SHIPPED)
            self._added[key] = written_in.message("user", text)
        return self._added[key]


def checked_changes(policy: ContextPolicy, request: RequestView) -> Changes:
    """Ask a policy for its changes. Raises SettingsError if it fails, or if they cannot be applied."""
    try:
        changes = policy.changes(request)
    except SettingsError:
        raise
    except Exception as error:
        at = extract_tb(error.__traceback__)[-1]
        place = f"{at.filename}, line {at.lineno}"
        raise _complaint(policy, request, f"failed with {type(error).__name__}: {error} ({place})") from error
    for problem in _problems(changes, len(request.messages)):
        raise _complaint(policy, request, problem)
    return changes


def _complaint(policy: ContextPolicy, request: RequestView, problem: str) -> SettingsError:
    return SettingsError(f"{type(policy).__name__}.changes at request {request.number}: {problem}")


def _problems(changes: object, start: int) -> Iterator[str]:
    if not isinstance(changes, Changes):
        yield f"it must return Changes, not {type(changes).__name__}; NOTHING if nothing changes"
        return
    if not isinstance(changes.texts, Mapping):
        yield f"texts must map results and inputs of calls to their new texts, and are {type_of(changes.texts)}"
        return
    for part, text in changes.texts.items():
        yield from _problems_of_text(part, text, start)
    places = (*changes.dropped, *(at for known in changes.repeated.values() for at in known))
    yield from _problems_of_places("dropped and repeated", places, start - 1)
    yield from _problems_of_places("added and repeated before", (*changes.added, *changes.repeated), start)
    if texts := [text for text in changes.added.values() if not isinstance(text, str)]:
        yield f"added messages must be str, not {type(texts[0]).__name__}"
    if start and not changes.added and not changes.repeated and len({*changes.dropped}) == start:
        yield "it drops all messages, and no provider takes an empty prompt; keep one, or add one"


def _problems_of_text(part: object, text: object, start: int) -> Iterator[str]:
    if isinstance(part, ToolCall):
        yield "a text is given for a call: give it for one of call.inputs"
    elif not isinstance(part, Part):
        yield f"a text is given for {part!r}: give it for one of request.results, or of a call's inputs"
    elif not isinstance(text, str):
        yield f"the new text of a part must be str, not {type(text).__name__}"
    elif part.location.message >= start:
        yield f"it changes message {part.location.message}, which is not sent yet: use the request's own parts"


def _problems_of_places(what: str, places: Collection[object], last: int) -> Iterator[str]:
    for at in places:
        if not isinstance(at, int):
            yield f"{what} messages are indexes of request.messages, not {type(at).__name__}"
        elif not 0 <= at <= last:
            yield f"there is no message {at} to be {what}: the indexes are 0 to {last}"
