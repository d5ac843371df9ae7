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
from autoprune.conversation.placeholders import Placeholder, own, trimmed
from autoprune.conversation.reasons import Reason, told
from autoprune.conversation.transcript import Entry, Part, Path, Speaker, Thought, ToolResult, Transcript
from autoprune.planning._parts import Parts
from autoprune.planning._settling import renew
from autoprune.planning._stripping import Stripping
from autoprune.planning.clamping import Clamp
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.protections import NOTHING, Guard, Protections, guard
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, Strategy, asks_always, edits_of, option, rationale_of, repriced, stepper


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
        later: Sequence[tuple[int, Strategy]] = (),
    ) -> None:
        """Start before the first message. `later` is the strategy with other prices, each from so many messages on.

        With "refuse" nothing is edited that thinking already stands behind; with "strip" that is weighed as taken out.
        """
        self.strategy = strategy
        self.protections = option(strategy, "protect", Protections) or NOTHING
        self.tool_inputs = option(strategy, "clear_tool_inputs", ToolInputs)
        self.asks_always = asks_always(strategy)
        self._stepper = stepper(strategy)
        self._later = list(later)
        self._remembers = self._stepper is not strategy
        self.sent = 0
        self.pauses: Mapping[int, float] = {}
        self._paused: dict[int, float] = {}  # by message, as the strategy was told at each request
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
        self.changes: Stripping | None = None
        if thinking in (ThinkingPolicy.STRIP, ThinkingPolicy.DROP_BLOCK):
            self.changes = Stripping(placeholder, self.tool_inputs, strips=thinking is ThinkingPolicy.STRIP)
        self._clamp = option(strategy, "clamp", Clamp)
        self._protects = self.protections.has_rules
        self._parts = Parts(self.tool_inputs)
        self._saved: dict[int, int] = defaultdict(int)  # by message
        self._asked_at = -1
        self._stands = False  # whether the last request stands whatever follows
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
        return all(pauses.get(at, 0.0) == seconds for at, seconds in self._paused.items())

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
        edits, given = tuple(self.edits.values()), (self.limit, self.placeholder, self.protections, self.tool_inputs)
        found = Plan(transcript, edits, *given, self.bound_before, told=rationale_of(self._stepper))
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
            self.sent = len(self.entries)
        elif self._remembers and self._may_be_asked and not entry.results:
            self._paused[len(self.entries)] = self.pause
            if self._always_stands:
                self.ask()
        entry = self._parts.append(entry)
        self.messages.append(message)
        self.entries.append(entry)
        self.tokens += entry.tokens
        if entry.thinking:
            self.newest_thinking = entry.thinking[-1].location.path
        if self.changes:
            self.changes.append(entry)
        if self._clamp:
            for result in entry.results:
                if not self.protections.is_answer(result):
                    self._cut(result, self._clamp)

    def _begins_request(self, entry: Entry) -> bool:
        """Return whether a request stands before the next message."""
        return entry.begins_request or (entry.speaker is Speaker.MODEL and not self.ends_with_model)

    @property
    def _may_be_asked(self) -> bool:
        """Whether a request may stand here: not while calls of the model wait for their results."""
        return not (self.entries and self.entries[-1].calls)

    @property
    def _always_stands(self) -> bool:
        """Whether a request stands here whatever follows: one was sent after a pause, or would exceed the safe zone."""
        return self.pause > 0 or self.tokens > self.limit

    def _see(self) -> None:
        """Offer the new results from now on, and the arguments of the calls that succeeded: the model has seen them.

        What the user said through a tool is never offered, and neither is what was asked.
        """
        known = self._parts
        for result in known.unseen:
            if not self.protections.is_answer(result):
                shown = self.tool_inputs if not self.placeholder.stands_in(result) else None
                known.see(result, shown.of(known.as_cut.get(result, result)) if shown else ())
        known.unseen.clear()

    def _cut(self, result: ToolResult, clamp: Clamp) -> None:
        """Cut a giant, seen or not: it has never been sent whole."""
        if result.is_fixed or not result.is_plain or self.placeholder.stands_in(result):
            return
        mark = self.placeholder.mark(result, self.messages)
        text = clamp.shortened(result.text, self.placeholder.count, mark)
        if text is None:
            return
        text = trimmed(result, text)
        if (saved := self.placeholder.saves(result, text)) > 0:
            self._make(Candidate(result, text, saved, result, mark), Reason.CLAMPED, may_change=True)
            self._parts.cut(result, text, saved)

    # Requests

    def ask(self) -> None:
        """Let the strategy clear what it will at the request that stands here, once.

        The request may turn out to be none: the model's message goes on in another one, or the user adds to theirs.
        A strategy that remembers earlier requests could not repeat then what it decides here, and what was cleared
        would come back. So `append` asks it between any two messages if a pause was recorded there or the prompt is
        over the safe zone. Behind a message of the model it is asked only then, and never while calls wait for results.
        """
        if self._asked_at == len(self.entries):
            return
        self._paused[len(self.entries)] = self.pause
        self._stands = self._remembers and self._always_stands
        if self._remembers and self.ends_with_model and not (self._stands and self._may_be_asked):
            return
        self._asked_at = len(self.entries)
        self._done_before = self._done
        self._strip()
        self._reprice()
        if self.asks_always or (self.tokens > self.limit and self._parts.seen):
            for edit in list(edits_of(self.strategy, self._stepper.step(self), Replace)):
                self._take(edit)
            self._parts.forget()
            self._strip()

    def _reprice(self) -> None:
        """Let the strategy go on with the prices that hold at this request; what it remembers stays."""
        while self._later and self._later[0][0] <= len(self.entries):
            self._stepper = repriced(self._stepper, self._later.pop(0)[1])

    def _take(self, edit: Replace) -> None:
        """Make an edit if it is of a candidate: a strategy cannot clear what was not offered.

        A blank text of a strategy's own, which providers refuse, is the placeholder; arguments of calls have no other.
        """
        part, candidate = edit.part, self._parts.seen.get(edit.part)
        if candidate is None or candidate.saves <= 0:
            return
        if isinstance(part, ToolResult) and edit.text.strip() and edit.text != candidate.text:
            candidate = self._candidate(part, self._own(candidate, edit.text), candidate.mark)
            if candidate.saves > 0:
                self._make(candidate, told(edit.reason), may_change=True)
                self._parts.shorten(part, candidate.text, self.edits[part].saved)
        else:
            self._make(candidate, told(edit.reason))
            self._parts.clear(part)

    def _make(self, candidate: Candidate, reason: str, *, may_change: bool = False) -> None:
        """Make an edit. It takes the place of an earlier one of the same part, such as a cut."""
        part, before = candidate.part, self.edits.pop(candidate.part, None)
        saved_before = before.saved if before else 0
        saved = candidate.saves + saved_before
        made = Replace(part, candidate.text, reason, saved, self.request, saved_before, candidate.mark, may_change)
        edit = self.edits[part] = made
        self.edits_made += 1
        if self.changes:
            self.changes.make(edit)
        self.tokens -= candidate.saves
        self._saved[part.location.message] += candidate.saves

    def _strip(self) -> None:
        """Take out the thinking of turns that are over, behind what has changed."""
        for thought in self.changes.due() if self.changes else ():
            self.tokens -= thought.tokens
            self._saved[thought.location.message] += thought.tokens

    # Candidates

    def candidates(self) -> Iterator[Candidate]:
        """Yield the parts that may be cleared, oldest first: the model has seen them, and they would be smaller."""
        known, bound, why = self._parts, self.bound_before, None
        if self._protects:
            why = guard(self.protections, self.messages, self.entries, known.results, self._saved, known.as_cut)
        for part, weighed in known.seen.items():
            if (bound and part.location.path < bound) or (why and self._is_protected(part, why)):
                continue
            candidate = weighed or self._weigh(part)
            if candidate.saves > 0:
                yield candidate
            else:
                known.useless.append(part)

    def _is_protected(self, part: Part, why: Guard) -> bool:
        """Return whether a part is protected. A call's arguments are with their result, which may well be small."""
        reason = why(self._parts.result(part))
        return reason is not None and (isinstance(part, ToolResult) or reason is not Reason.SMALL)

    def _weigh(self, part: Part) -> Candidate:
        """Return a part as a candidate to be cleared, and remember it."""
        mark = self.placeholder.mark(self._parts.as_it_stands(part), self.messages)
        text = self._parts.text(part, self.placeholder, mark)
        candidate = self._parts.seen[part] = self._candidate(part, text, mark)
        return candidate

    def _candidate(self, part: Part, text: str, mark: str = "") -> Candidate:
        """Return a part with the text to put in its place, and what that saves beyond an earlier edit."""
        before = self.edits.get(part)
        saves = self.placeholder.saves(part, text) - (before.saved if before else 0)
        return Candidate(part, text, saves, self._parts.result(part), mark)

    def saves(self, candidate: Candidate, text: str) -> int:
        """Return the tokens that a text of the strategy's own would save in place of a result."""
        return self._candidate(candidate.part, self._own(candidate, text)).saves

    def _own(self, candidate: Candidate, text: str) -> str:
        """Return a text of the strategy's own as it would stand in place of a result."""
        standing = self._parts.as_it_stands(candidate.part)
        assert isinstance(standing, ToolResult)
        return own(standing, text, candidate.mark)

    # Pruned output that is fed back

    def goes_on_with(self, entry: Entry) -> bool:
        """Return whether the walk may go on with `entry`: the last request still stands, or it decided nothing."""
        if self._begins_request(entry) or self._asked_at != len(self.entries):
            return True
        if self._remembers:
            return self._stands and self._may_be_asked and not entry.results
        return self._done_before == self._done

    def is_settled(self) -> bool:
        """Return whether a walk over the conversation with these edits made would come to no edit."""
        is_asked = self.asks_always or self.tokens > self.limit
        is_open = self._remembers or (is_asked and any(True for _ in self.candidates()))
        return not self.stripped and not is_open

    def settle(self, messages: Mapping[int, object], entries: Mapping[int, Entry]) -> None:
        """Become the walk over the conversation with the edits made: its changed messages, and their new entries."""
        for at in entries:
            self.messages[at] = messages[at]
        renew(self._parts, self.entries, entries)
        self.edits = {}
        self._saved.clear()
        self._done_before = self._done
