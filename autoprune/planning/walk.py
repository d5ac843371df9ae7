"""Walk a conversation's requests, as if the pruner had been there all along. Reads nothing, calls nothing.

How it works. A request is one call of the model. It stands before the model's messages, and the next one stands at the
end. With U for the user, A[c] for a call and R[c] for a result of 1,000 tokens (all else weighing nothing):

    U | A[c1] R[c1] | A[c2] R[c2] | A[c3] R[c3] |        a bar is a request
      0             1             2             3

Let the safe zone be 2,500 tokens. Requests 0, 1 and 2 have prompts of 0, 1,000 and 2,000 tokens: nothing to do. The
prompt of request 3 has 3,000, so the strategy is asked. It is offered R[c1] and R[c2] as candidates, but not R[c3],
which the model has not seen yet. It clears R[c1], and 2,000 tokens are left.

With two more calls the same walk is made again, or goes on: at request 3 it clears R[c1] again, and at a later request
something else. What is cleared stays cleared, so a strategy needs no memory, the prompt keeps its beginning from one
request to the next, and a second prune of the same conversation does the same.

The walk is itself the `View` that the strategy gets, so that no decision can depend on what comes later. It also does
what a strategy has it do: keep parts out of the candidates (`protect`), cut giants as they arrive (`clamp`), offer the
arguments of calls that succeeded (`clear_tool_inputs`). A caller that passes pruned output back goes on with the same
walk: see `_settling`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autoprune.conversation.edits import Replace
from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.reasons import Reason, told
from autoprune.conversation.transcript import Entry, Part, Path, Speaker, Thought, ToolInput, ToolResult, Transcript
from autoprune.planning._parts import Parts
from autoprune.planning._settling import renew
from autoprune.planning._stripping import Stripping
from autoprune.planning.clamping import Clamp
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.protections import NOTHING, Guard, Protections, guard
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, Strategy, asks_always, option, stepper


def plan(
    transcript: Transcript,
    strategy: Strategy,
    limit: int,
    placeholder: Placeholder,
    *,
    thinking: ThinkingPolicy = ThinkingPolicy.REPORT,
) -> Plan:
    """Return what a strategy clears in a conversation so that its prompt has at most `limit` tokens."""
    walk = Walk(strategy, limit, transcript.fixed_tokens, placeholder, thinking=thinking)
    for message, entry in zip(transcript.messages, transcript.entries, strict=True):
        walk.append(message, entry)
    walk.ask()
    return walk.planned_for(transcript)


class Walk:
    """Takes a conversation message by message, and asks the strategy wherever a request stands."""

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

        With the thinking policy "refuse" nothing is edited that a block of thinking already stands behind. With "strip"
        each request is weighed without the thinking that it is sent without.
        """
        self.strategy = strategy
        self.protections = option(strategy, "protect", Protections) or NOTHING
        self.tool_inputs = option(strategy, "clear_tool_inputs", ToolInputs)
        self.asks_always = asks_always(strategy)
        self._stepper = stepper(strategy)
        self.sent = 0
        self.pauses: Mapping[int, float] = {}
        self._paused: dict[int, float] = {}  # as the strategy was told, by message
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
        self._clamp = option(strategy, "clamp", Clamp)
        self._protects = self.protections.has_rules
        self._parts = Parts(self.tool_inputs)
        self._saved: dict[int, int] = defaultdict(int)  # by message
        # At this request:
        self._useless: list[Part] = []
        self._cleared: list[ToolResult] = []
        self._asked_at = -1
        self._done_before = (0, 0)

    @property
    def ends_with_model(self) -> bool:
        """Whether the last message is the model's."""
        return bool(self.entries) and self.entries[-1].speaker is Speaker.MODEL

    @property
    def results(self) -> Sequence[ToolResult]:
        """Every tool result so far, oldest first."""
        return self._parts.results

    @property
    def pause(self) -> float:
        """The seconds since the request before."""
        return self.pauses.get(len(self.entries), 0.0)

    def agrees(self, pauses: Mapping[int, float]) -> bool:
        """Return whether these are the pauses that the strategy was told of."""
        return {at: long for at, long in pauses.items() if long and at <= self._asked_at} == self._paused

    def weight(self, message: int) -> int:
        """Return the tokens of a message, without what was cleared in it."""
        return self.entries[message].tokens - self._saved[message]

    @property
    def bound_before(self) -> Path:
        """Where the newest thinking stands that keeps all before it from being edited; () for nowhere."""
        return self.newest_thinking if self._keeps_thinking else ()

    @property
    def stripped(self) -> Sequence[Thought]:
        """The thinking that is taken out."""
        return self.changes.stripped if self.changes else ()

    @property
    def _done(self) -> tuple[int, int]:
        return self.edits_made, len(self.stripped)

    def planned_for(self, transcript: Transcript) -> Plan:
        """Return what has been decided so far as a plan."""
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
        entry = self._parts.append(entry)
        self.messages.append(message)
        self.entries.append(entry)
        self.tokens += entry.tokens
        if entry.thinking:
            self.newest_thinking = entry.thinking[-1].location.path
        if self.changes:
            self.changes.append(entry)
        self._parts.results.extend(entry.results)
        if self._clamp:
            for result in entry.results:
                if not self.protections.is_answer(result):
                    self._cut(result, self._clamp)

    def _begins_request(self, entry: Entry) -> bool:
        """Return whether a request stands before the next message."""
        return entry.begins_request or (entry.speaker is Speaker.MODEL and not self.ends_with_model)

    def _see(self) -> None:
        """Offer the new results from now on, and the arguments of the calls that succeeded: the model has seen them.

        What the user said through a tool is never offered, and neither is what was asked.
        """
        for result in self._parts.unseen:
            if not self.protections.is_answer(result):
                self._parts.see(result, self._inputs(result))
        self._parts.unseen.clear()

    def _inputs(self, result: ToolResult) -> tuple[ToolInput, ...]:
        """Return a call's arguments if its result says that it succeeded; one that was cleared before does not."""
        if self.tool_inputs is None or self.placeholder.stands_in(result):
            return ()
        return self.tool_inputs.of(self._parts.as_cut.get(result, result))

    def _cut(self, result: ToolResult, clamp: Clamp) -> None:
        """Cut a giant, seen or not: it has never been sent whole."""
        text = None if result.is_fixed or not result.is_plain else clamp.shortened(result.text, self.placeholder.count)
        if text is None or self.placeholder.stands_in(result):
            return
        if (saved := self.placeholder.saves(result, text)) > 0:
            self._make(Candidate(result, text, saved, result), Reason.CLAMPED)
            self._parts.as_cut[result] = _with_text(result, text, result.piece_tokens - saved)

    # Requests

    def ask(self) -> None:
        """Let the strategy clear what it will at the request that stands here, once."""
        if self._asked_at == len(self.entries):
            return
        self._asked_at = len(self.entries)
        if self.pause:
            self._paused[self._asked_at] = self.pause
        self._done_before = self._done
        self._strip()
        if (self.asks_always or self.tokens > self.limit) and self._parts.seen:
            for edit in list(self._stepper.step(self)):
                self._take(edit)
            self._forget()
            self._strip()
        self.sent = len(self.entries)

    def _take(self, edit: Replace) -> None:
        """Make an edit if it is of a candidate: a strategy cannot clear what was not offered."""
        candidate = self._parts.seen.pop(edit.part, None)
        if candidate and edit.text != candidate.text:
            saves = candidate.saves + self.placeholder.saves(edit.part, edit.text)
            saves -= self.placeholder.saves(edit.part, candidate.text)
            candidate = replace(candidate, text=edit.text, saves=saves)
        if candidate and candidate.saves > 0:
            self._make(candidate, told(edit.reason))
            if isinstance(edit.part, ToolResult):
                self._cleared.append(edit.part)

    def _make(self, candidate: Candidate, reason: str) -> None:
        """Make an edit. It takes the place of an earlier one of the same part, such as a cut."""
        part, before = candidate.part, self.edits.pop(candidate.part, None)
        saved_before = before.saved if before else 0
        saved = candidate.saves + saved_before
        edit = self.edits[part] = Replace(part, candidate.text, reason, saved, self.request, saved_before)
        self.edits_made += 1
        if self.changes:
            self.changes.make(edit)
        self.tokens -= candidate.saves
        self._saved[part.location.message] += candidate.saves

    def _forget(self) -> None:
        """Offer no more what is of no use, nor the arguments of calls whose results do not show their outcome now."""
        self._parts.forget(self._useless, self._cleared)
        self._useless.clear()
        self._cleared.clear()

    def _strip(self) -> None:
        """Take out the thinking of turns that are over, behind what has changed."""
        for thought in self.changes.due() if self.changes else ():
            self.tokens -= thought.tokens
            self._saved[thought.location.message] += thought.tokens

    # Candidates

    def candidates(self) -> Iterator[Candidate]:
        """Yield the parts that may be cleared, oldest first: the model has seen them, and they would be smaller."""
        why, bound = self._guard(), self.bound_before
        for part, known in self._parts.seen.items():
            if (bound and part.location.path < bound) or (why and self._is_protected(part, why)):
                continue
            candidate = known or self._weigh(part)
            if candidate.saves > 0:
                yield candidate
            else:
                self._useless.append(part)

    def _is_protected(self, part: Part, why: Guard) -> bool:
        """Return whether a part is protected. A call's arguments are with their result, which may well be small."""
        if isinstance(part, ToolResult):
            return why(part) is not None
        return why(self._parts.result(part)) not in (None, Reason.SMALL)

    def _guard(self) -> Guard | None:
        if not self._protects:
            return None
        known = self._parts
        return guard(self.protections, self.messages, self.entries, known.results, self._saved, known.as_cut)

    def _weigh(self, part: Part) -> Candidate:
        before = self.edits.get(part)
        text = self._text(part)
        saves = self.placeholder.saves(part, text) - (before.saved if before else 0)
        candidate = self._parts.seen[part] = Candidate(part, text, saves, self._parts.result(part))
        return candidate

    def _text(self, part: Part) -> str:
        """Return the text to put in place of a part."""
        if isinstance(part, ToolInput) and self.tool_inputs:
            return self.tool_inputs.text(part, self.placeholder.count)
        assert isinstance(part, ToolResult)
        return self.placeholder.text(part)

    # Pruned output that is fed back

    def goes_on_with(self, entry: Entry) -> bool:
        """Return whether the last request still stands when `entry` follows. If not, it cleared nothing."""
        stood = self._begins_request(entry)
        return stood or self._asked_at != len(self.entries) or self._done_before == self._done

    def is_settled(self) -> bool:
        """Return whether a walk over the conversation with these edits made would come to no edit."""
        is_asked = self.asks_always or self.tokens > self.limit
        return not self.stripped and not (is_asked and any(True for _ in self.candidates()))

    def settle(self, messages: Mapping[int, object], entries: Mapping[int, Entry]) -> None:
        """Become the walk over the conversation with the edits made: its changed messages, and their new entries."""
        for at in entries:
            self.messages[at] = messages[at]
        renew(self._parts, self.entries, entries)
        self.edits = {}
        self._saved.clear()
        self._done_before = self._done


def _with_text(result: ToolResult, text: str, tokens: int) -> ToolResult:
    """Return a result with another payload, and the tokens of its piece with that."""
    return replace(result, piece=result.with_text(text), stop=result.start + len(text), piece_tokens=tokens)
