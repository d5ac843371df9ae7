"""Plan: the walk over a conversation's requests, as if the pruner had been there all along. Reads and calls nothing."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from autoprune.conversation.calls import target
from autoprune.conversation.edits import Replace
from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.reasons import Reason, told
from autoprune.conversation.transcript import (
    Entry,
    Part,
    Path,
    Speaker,
    Thought,
    ToolCall,
    ToolInput,
    ToolResult,
    Transcript,
)
from autoprune.planning.clamping import Clamp
from autoprune.planning.options import clamp, protections, tool_inputs
from autoprune.planning.plan import Plan
from autoprune.planning.protections import Guard, guard
from autoprune.planning.renewal import as_now, parts, with_requests, with_text
from autoprune.planning.stripping import Stripping, ThinkingPolicy


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part that could be cleared at a request, what would stand in its place, and the tokens that would go.

    `result` is the result itself, or that of the call whose argument it is.
    """

    part: Part
    text: str
    saves: int
    result: ToolResult

    @property
    def sent(self) -> int:
        """The number of the first request whose prompt held the result: `view.request - candidate.sent` is its age."""
        return self.result.sent

    @property
    def target(self) -> str:
        """What the call touched, such as a path or a command, on one line; "" where nothing says so."""
        return target(self.result.call)

    def cleared(self, reason: str) -> Replace:
        """Return the edit that clears it. The reason is one of `Reason`, or a short text such as "largest first"."""
        return Replace(self.part, self.text, reason, self.saves)


class View(Protocol):
    """What a strategy sees at one request: nothing that comes after it."""

    @property
    def request(self) -> int:
        """The number of the request."""

    @property
    def tokens(self) -> int:
        """Tokens of the prompt about to be sent, with all that was cleared before."""

    @property
    def limit(self) -> int:
        """The safe zone, in counted tokens."""

    def candidates(self) -> Iterator[Candidate]:
        """The results that the model has seen and whose placeholders are smaller, oldest first."""


class Strategy(Protocol):
    """Decides what to clear. It is asked at each request whose prompt is over the safe zone.

    Its edits are made of the candidates that the view offers (`candidate.cleared(reason)`); any other is not made. A
    strategy may have the attributes `protect`, `clamp` and `clear_tool_inputs`, which the walk obeys for it.
    """

    @property
    def name(self) -> str:
        """What it is called by."""

    def step(self, view: View) -> Iterable[Replace]:
        """The edits to make at a request; what is cleared stays cleared."""


def plan(
    transcript: Transcript,
    strategy: Strategy,
    limit: int,
    placeholder: Placeholder,
    *,
    thinking: ThinkingPolicy = ThinkingPolicy.REPORT,
) -> Plan:
    """What a strategy clears in a conversation so that its prompt has at most `limit` tokens."""
    walk = Walk(strategy, limit, transcript.fixed_tokens, placeholder, thinking=thinking)
    for message, entry in zip(transcript.messages, transcript.entries, strict=True):
        walk.append(message, entry)
    walk.ask()
    return walk.planned_for(transcript)


class Walk:
    """Takes a conversation message by message and asks the strategy wherever a request stands.

    It is itself the view that the strategy gets, so no decision can depend on what comes later.
    """

    def __init__(
        self,
        strategy: Strategy,
        limit: int,
        fixed_tokens: int,
        placeholder: Placeholder,
        *,
        thinking: ThinkingPolicy = ThinkingPolicy.REPORT,
    ) -> None:
        """Start before the first message.

        With thinking policy "refuse" nothing is edited that a block of thinking already stands behind. With "strip"
        each request is weighed without the thinking that it is sent without.
        """
        self.strategy = strategy
        self.protections = protections(strategy)
        self.tool_inputs = tool_inputs(strategy)
        self._protects = self.protections.has_rules
        self.limit = limit
        self.placeholder = placeholder
        self.tokens = fixed_tokens
        self.request = 0
        self.messages: list[object] = []
        self.entries: list[Entry] = []
        self.edits: dict[Part, Replace] = {}
        self.edits_made = 0
        self.newest_thinking: Path = ()
        self._keeps_thinking = thinking is ThinkingPolicy.REFUSE
        strips = thinking is ThinkingPolicy.STRIP
        looks_back = strips or thinking is ThinkingPolicy.DROP_BLOCK
        self.changes = Stripping(placeholder, self.tool_inputs, strips=strips) if looks_back else None
        self._clamp = clamp(strategy)
        self._results: list[ToolResult] = []
        self._unseen: list[ToolResult] = []
        self._seen: dict[Part, Candidate | None] = {}  # oldest first, not cleared; None: not weighed yet
        self._result_of: dict[Part, ToolResult] = {}  # of the inputs among them
        self._as_cut: dict[ToolResult, ToolResult] = {}
        self._answers: dict[int, ToolResult] = {}  # to calls whose arguments may be shortened, by their identity
        self._newer: dict[int, tuple[ToolCall, ToolCall]] = {}  # of open calls in messages that were read again
        self._useless: list[Part] = []
        self._cleared: list[ToolResult] = []  # at this request
        self._saved: dict[int, int] = defaultdict(int)  # by message
        self._asked_at = -1
        self._done_before = (0, 0)

    @property
    def in_run(self) -> bool:
        """Whether the last message is the model's."""
        return bool(self.entries) and self.entries[-1].speaker is Speaker.MODEL

    @property
    def bound_before(self) -> Path:
        """Where the newest thinking stands that what precedes it is kept for; () for nowhere."""
        return self.newest_thinking if self._keeps_thinking else ()

    def _begins_request(self, entry: Entry) -> bool:
        """Whether a request stands before the next message."""
        return entry.begins_request or (entry.speaker is Speaker.MODEL and not self.in_run)

    @property
    def stripped(self) -> Sequence[Thought]:
        """The thinking that is taken out."""
        return self.changes.stripped if self.changes else ()

    @property
    def _done(self) -> tuple[int, int]:
        return self.edits_made, len(self.stripped)

    def planned_for(self, transcript: Transcript) -> Plan:
        """What has been decided for the messages that were taken, as a plan."""
        edits, bound = tuple(self.edits.values()), self.bound_before
        found = Plan(transcript, edits, self.limit, self.placeholder, self.protections, self.tool_inputs, bound)
        return replace(found, stripped=tuple(self.stripped), changed=self.changes.first) if self.changes else found

    @property
    def is_at_work(self) -> bool:
        """Whether there was anything to do, or would have been."""
        return bool(self.edits) or self.tokens > self.limit

    def extend(self, messages: Sequence[object], entries: Sequence[Entry]) -> None:
        """Take the messages that are new, with their entries, and decide for the request that stands behind them."""
        for at, entry in enumerate(entries, len(self.entries)):
            self.append(messages[at], entry)
        if self.entries:
            self.ask()

    def append(self, message: object, entry: Entry) -> None:
        """Take the next message."""
        if self._begins_request(entry):
            self.ask()
            self._see()
            self.request += 1
        entry = self._answering(entry) if self.tool_inputs else entry
        self.messages.append(message)
        self.entries.append(entry)
        self.tokens += entry.tokens
        if entry.thinking:
            self.newest_thinking = entry.thinking[-1].location.path
        if self.changes:
            self.changes.append(entry)
        self._unseen.extend(entry.results)
        if self._protects:
            self._results.extend(entry.results)
        if self._clamp:
            for result in entry.results:
                if not self.protections.is_answer(result):
                    self._cut(result, self._clamp)

    def _answering(self, entry: Entry) -> Entry:
        """The entry whose results know their calls as they are now."""
        if any(id(result.call) in self._newer for result in entry.results):
            newer = (self._newer.pop(id(result.call), (None, result.call))[1] for result in entry.results)
            results = zip(entry.results, newer, strict=True)
            entry = replace(entry, results=tuple(replace(result, call=call) for result, call in results))
        self._answers.update((id(result.call), result) for result in entry.results if result.call)
        return entry

    def _see(self) -> None:
        """The model has seen the results: they may be cleared, and so may what the calls that succeeded were given.

        What the user said through a tool may not, and neither may what was asked.
        """
        for result in self._unseen:
            if self.protections.is_answer(result):
                continue
            for part in self._inputs(result) if self.tool_inputs else ():
                self._seen[part] = None
                self._result_of[part] = result
            self._seen[result] = None
        self._unseen.clear()

    def _inputs(self, result: ToolResult) -> tuple[ToolInput, ...]:
        """What a call was given, where its result says that it succeeded: one that was cleared before does not."""
        if self.tool_inputs is None or self.placeholder.stands_in(result):
            return ()
        return self.tool_inputs.of(self._as_cut.get(result, result))

    def _cut(self, result: ToolResult, clamp: Clamp) -> None:
        """Cut a giant, seen or not: it has never been sent whole."""
        text = None if result.is_fixed or not result.is_plain else clamp.shortened(result.text, self.placeholder.count)
        if text is None or self.placeholder.stands_in(result):
            return
        if (saved := self.placeholder.saves(result, text)) > 0:
            self._make(Candidate(result, text, saved, result), Reason.CLAMPED)
            self._as_cut[result] = with_text(result, text, result.piece_tokens - saved)

    def ask(self) -> None:
        """The request that stands here: let the strategy clear what it will, once."""
        if self._asked_at == len(self.entries):
            return
        self._asked_at = len(self.entries)
        self._done_before = self._done
        self._strip()
        if self.tokens > self.limit and self._seen:
            for edit in list(self.strategy.step(self)):
                self._take(edit)
            self._forget()
            self._strip()

    def _forget(self) -> None:
        """Offer no more what is of no use, and what was given to calls whose results do not show their outcome now."""
        for part in self._useless:
            self._seen.pop(part, None)
        self._useless.clear()
        for call in (result.call for result in self._cleared if result.call):
            for part in call.inputs:
                self._seen.pop(part, None)
        self._cleared.clear()

    def _strip(self) -> None:
        """Take out the thinking of turns that are over, behind what has changed."""
        for thought in self.changes.due() if self.changes else ():
            self.tokens -= thought.tokens
            self._saved[thought.location.message] += thought.tokens

    def _take(self, edit: Replace) -> None:
        """Make an edit if it is one of the candidates: a strategy cannot clear what was not offered."""
        candidate = self._seen.pop(edit.part, None)
        if candidate and candidate.saves > 0:
            self._make(candidate, told(edit.reason))
            if isinstance(edit.part, ToolResult):
                self._cleared.append(edit.part)

    def _make(self, candidate: Candidate, reason: str) -> None:
        part, before = candidate.part, self.edits.pop(candidate.part, None)
        saved_before = before.saved if before else 0
        saved = candidate.saves + saved_before
        self.edits[part] = Replace(part, candidate.text, reason, saved, self.request, saved_before)
        self.edits_made += 1
        if self.changes:
            self.changes.make(self.edits[part])
        self.tokens -= candidate.saves
        self._saved[part.location.message] += candidate.saves

    def candidates(self) -> Iterator[Candidate]:
        """The parts that may be cleared, oldest first: the model has seen them, and they would be smaller."""
        why, bound = self._guard(), self.bound_before
        for part, known in self._seen.items():
            if (bound and part.location.path < bound) or (why and self._is_protected(part, why)):
                continue
            candidate = known or self._weigh(part)
            if candidate.saves > 0:
                yield candidate
            else:
                self._useless.append(part)

    def _is_protected(self, part: Part, why: Guard) -> bool:
        """What a call was given is protected with its result, which may well be small."""
        if isinstance(part, ToolResult):
            return why(part) is not None
        return why(self._result_of[part]) not in (None, Reason.SMALL)

    def _guard(self) -> Guard | None:
        if not self._protects:
            return None
        return guard(self.protections, self.messages, self.entries, self._results, self._saved, self._as_cut)

    def _weigh(self, part: Part) -> Candidate:
        before = self.edits.get(part)
        text = self._text(part)
        saves = self.placeholder.saves(part, text) - (before.saved if before else 0)
        result = part if isinstance(part, ToolResult) else self._result_of[part]
        candidate = self._seen[part] = Candidate(part, text, saves, result)
        return candidate

    def _text(self, part: Part) -> str:
        if isinstance(part, ToolInput) and self.tool_inputs:
            return self.tool_inputs.text(part, self.placeholder.count)
        assert isinstance(part, ToolResult)
        return self.placeholder.text(part)

    def goes_on_with(self, entry: Entry) -> bool:
        """Whether the last request still stands when `entry` follows. If not, what it cleared was not cleared."""
        stood = self._begins_request(entry)
        return stood or self._asked_at != len(self.entries) or self._done_before == self._done

    def is_settled(self) -> bool:
        """Whether a walk over the conversation with these edits made would come to no edit."""
        return not self.stripped and (self.tokens <= self.limit or not any(True for _ in self.candidates()))

    def settle(self, messages: Mapping[int, object], entries: Mapping[int, Entry]) -> None:
        """Become the walk over the conversation with the edits made: its changed messages, and their new entries."""
        renewed: dict[Part, Part] = {}
        calls: list[tuple[ToolCall, ToolCall]] = []
        for at, entry in entries.items():
            before, now = self.entries[at], with_requests(entry)
            renewed.update(zip(parts(before), parts(now), strict=True))
            calls += zip(before.calls, now.calls, strict=True)
            self.entries[at], self.messages[at] = now, messages[at]
        self._renew_answers(calls, renewed)
        self._renew(renewed)
        self._as_cut = {}
        self.edits = {}
        self._saved.clear()
        self._done_before = self._done

    def _renew_answers(self, calls: Iterable[tuple[ToolCall, ToolCall]], renewed: dict[Part, Part]) -> None:
        """Let the results of calls know these as they are now; one that has not come yet will."""
        known: dict[ToolResult, ToolResult] = {}
        for old, new in calls:
            result = self._answers.pop(id(old), None)
            if result is None:
                self._newer[id(old)] = old, new
                continue
            before = as_now(result, renewed)
            known[before] = renewed[result] = self._answers[id(new)] = replace(before, call=new)
        for at in {result.location.message for result in known}:
            entry = self.entries[at]
            self.entries[at] = replace(entry, results=tuple(known.get(one, one) for one in entry.results))

    def _renew(self, renewed: Mapping[Part, Part]) -> None:
        """Put new parts in the place of old ones: what was cut, and what has moved because a sibling was cleared."""
        if renewed.keys() & self._seen.keys():
            self._seen = {renewed.get(old, old): None if old in renewed else known for old, known in self._seen.items()}
        self._unseen = [as_now(old, renewed) for old in self._unseen]
        of_seen = ((renewed.get(part, part), as_now(result, renewed)) for part, result in self._result_of.items())
        self._result_of = {part: result for part, result in of_seen if part in self._seen}
        self._results = [as_now(old, renewed) for old in self._results]
        for part in renewed.values():
            if isinstance(part, ToolResult) and id(part.call) in self._answers:
                self._answers[id(part.call)] = part
