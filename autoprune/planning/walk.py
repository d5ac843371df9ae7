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
arguments of calls that succeeded (`clear_tool_inputs`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from autoprune.conversation.edits import Reason, Replace, check_reason
from autoprune.conversation.placeholders import Placeholder, replacement_text, trim_text
from autoprune.conversation.transcript import Entry, Part, Path, Speaker, Thought, ToolInput, ToolResult, Transcript
from autoprune.planning.clamping import Clamp, is_cut
from autoprune.planning.plan import Plan, Shortening, ThinkingPolicy
from autoprune.planning.protections import NOTHING, Guard, Protections, guard
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, Strategy, asks_always, edits_of, option, rationale_of, repriced, stepper


class Parts:
    """Which results the model has seen, which parts may still be cleared, and which result answers which call."""

    def __init__(self, tool_inputs: ToolInputs | None) -> None:
        """Know no part yet. `tool_inputs` says which calls' arguments may be shortened."""
        self.tool_inputs = tool_inputs
        self.results: list[ToolResult] = []
        self.unseen: list[ToolResult] = []
        self.seen: dict[Part, Candidate | None] = {}  # oldest first, not cleared; None: not weighed yet
        self.result_of: dict[Part, ToolResult] = {}  # of the calls' arguments among the parts that were seen
        self.useless: list[Part] = []  # as was found at this request
        self.as_cut: dict[ToolResult, ToolResult] = {}

    def show(self, result: ToolResult, inputs: Iterable[Part]) -> None:
        """Offer arguments of the call that a result answers."""
        for part in inputs:
            self.seen[part] = None
            self.result_of[part] = result

    def cut(self, result: ToolResult, text: str, saved: int) -> None:
        """Know a result as it is with a text in its place that saves so many tokens."""
        piece, stop, tokens = result.with_text(text), result.start + len(text), result.piece_tokens - saved
        self.as_cut[result] = replace(result, piece=piece, stop=stop, piece_tokens=tokens, is_plain=True)

    def as_it_stands(self, part: Part) -> Part:
        """Return a part with the text that stands in its place, if there is one that may change."""
        return self.as_cut.get(part, part) if isinstance(part, ToolResult) else part

    def result(self, part: Part) -> ToolResult:
        """Return a part if it is a result, or else the result of the call whose argument it is."""
        return part if isinstance(part, ToolResult) else self.result_of[part]

    def leave(self, messages: Collection[int]) -> None:
        """Offer no more what stands in messages that go."""
        self.seen = {part: known for part, known in self.seen.items() if part.location.message not in messages}

    def shorten(self, result: ToolResult, text: str, saved: int) -> None:
        """Keep a result on offer that has a text of a strategy's own in its place, as if its tool had given no more."""
        self.cut(result, text, saved)
        self.seen[result] = None
        shown = self.tool_inputs.of(self.as_cut[result]) if self.tool_inputs else ()
        self.useless += (part for part in _inputs(result) if part not in shown)

    def forget(self) -> None:
        """Offer no more what is of no use."""
        for part in self.useless:
            self.seen.pop(part, None)
        self.useless.clear()


def _inputs(part: Part) -> tuple[Part, ...]:
    """Return the arguments of the call that a part answers, if it is a result."""
    return part.call.inputs if isinstance(part, ToolResult) and part.call else ()


CUT = (Reason.CLAMPED, Reason.SHORTENED)


class Stripping:
    """Keeps track of the first change in a conversation and of the thinking that stands behind it.

    A block of thinking is bound to all that precedes it, so one that stands behind a change is taken out once its turn
    is over. A change stays where it is, so thinking that comes later stands behind it too. In pruned output that is fed
    back placeholders, cut results and the summary show where something was changed. A dropped message leaves no trace,
    so with a strategy that drops messages all thinking counts as behind a change.
    """

    def __init__(self, placeholder: Placeholder, shortening: Shortening | None, *, strips: bool) -> None:
        """Start before the first message. With `strips` thinking is taken out."""
        self.first: Path | None = None
        self.stripped: list[Thought] = []
        self._placeholder = placeholder
        self._shortening = shortening
        self._strips = strips
        self._over: list[Thought] = []  # of turns that are over
        self._latest: list[Thought] = []

    def append(self, entry: Entry) -> None:
        """Take the next message."""
        if entry.speaker is Speaker.USER and not entry.results:
            self._over += self._latest
            self._latest = []
        # A message cannot be empty.
        self._latest += (thought for thought in entry.thinking if self._strips and not thought.is_alone)
        if self.first is None:
            self.first = min(self._changed_before(entry), default=None)

    def _changed_before(self, entry: Entry) -> list[Path]:
        """Return the places in a message that an earlier prune has changed."""
        results = (each for each in entry.results if self._placeholder.has_replaced(each) or is_cut(each.text))
        inputs = (part for call in entry.calls for part in call.inputs)
        shortened = (part for part in inputs if self._shortening and self._shortening.was_made(part))
        return [part.location.path for part in (*results, *shortened)]

    def make(self, edit: Replace) -> None:
        """Take note of an edit, if the text that it puts there will show that it was made."""
        if isinstance(edit.part, ToolInput) or edit.reason not in CUT or is_cut(edit.text):
            self.change(edit.part.location.path)

    def change(self, path: Path) -> None:
        """Take note of a place where something changes for good."""
        self.first = path if self.first is None else min(path, self.first)

    def leave(self, gone: Collection[int]) -> None:
        """Forget the thinking of messages that go."""
        for thoughts in (self.stripped, self._over, self._latest):
            thoughts[:] = (thought for thought in thoughts if thought.location.message not in gone)

    def due(self) -> list[Thought]:
        """Return the thinking to take out now: of turns that are over, behind the first change."""
        first = self.first
        if first is None or not self._over:
            return []
        due = [thought for thought in self._over if thought.location.path > first]
        if due:
            self._over = [thought for thought in self._over if thought.location.path < first]
            self.stripped += due
        return due


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
        given = getattr(strategy, "protect", None)
        is_default = given is None or given is NOTHING
        self.protections = NOTHING if is_default else option(strategy, "protect", Protections) or NOTHING
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
        self._protects = self.protections is not NOTHING and self.protections.has_rules
        self._parts = Parts(self.tool_inputs)
        self._user_words: set[ToolResult] = set()  # results that hold the user's own words
        self._saved: dict[int, int] = defaultdict(int)  # by message
        self._asked_at = -1
        self._stands = False  # whether the last request stands whatever follows
        self._made_before = 0

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

    def make_plan(self, messages: list[object], fixed_tokens: int) -> Plan:
        """Return what has been decided so far as a plan of these messages."""
        transcript = Transcript(messages, tuple(self.entries), fixed_tokens)
        edits, given = tuple(self.edits.values()), (self.limit, self.placeholder, self.protections, self.tool_inputs)
        bound = self.newest_thinking if self._keeps_thinking else ()
        found = Plan(transcript, edits, *given, bound, told=rationale_of(self._stepper))
        return (
            replace(found, stripped=tuple(self.changes.stripped), changed=self.changes.first) if self.changes else found
        )

    @property
    def is_at_work(self) -> bool:
        """Whether there was anything to do, or would have been."""
        return bool(self.edits) or self.tokens > self.limit

    def extend(self, messages: Sequence[object], entries: Sequence[Entry]) -> None:
        """Take the messages that are new, with their entries, and decide for the request that stands behind them."""
        self._user_words.update(self.protections.answers(entries))
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
        self._parts.results += entry.results
        self._parts.unseen += entry.results
        self.messages.append(message)
        self.entries.append(entry)
        self.tokens += entry.tokens
        if entry.thinking:
            self.newest_thinking = entry.thinking[-1].location.path
        if self.changes:
            self.changes.append(entry)
        if self._clamp:
            for result in entry.results:
                if result not in self._user_words:
                    self._cut(result, self._clamp)

    def _begins_request(self, entry: Entry) -> bool:
        """Return whether a request stands before the next message."""
        follows_model = bool(self.entries) and self.entries[-1].speaker is Speaker.MODEL
        return entry.begins_request or (entry.speaker is Speaker.MODEL and not follows_model)

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
            if result in self._user_words:
                continue
            if self.tool_inputs and not self.placeholder.has_replaced(result):
                known.show(result, self.tool_inputs.of(known.as_cut.get(result, result)))
            known.seen[result] = None
        known.unseen.clear()

    def _cut(self, result: ToolResult, clamp: Clamp) -> None:
        """Cut a giant, seen or not: it has never been sent whole."""
        if result.is_fixed or not result.is_plain or self.placeholder.has_replaced(result):
            return
        mark = self.placeholder.mark(result, self.messages)
        text = clamp.shortened(result.text, self.placeholder.count, mark)
        if text is None:
            return
        text = trim_text(result, text)
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
        self._paused[len(self.entries)] = self.pauses.get(len(self.entries), 0.0)
        self._stands = self._remembers and self._always_stands
        if self._remembers and self.ends_with_model and not (self._stands and self._may_be_asked):
            return
        self._asked_at, self._made_before = len(self.entries), self.edits_made
        if self.changes:
            self._strip(self.changes)
        if self._later:
            self._reprice()
        if self.asks_always or (self.tokens > self.limit and self._parts.seen):
            for edit in list(edits_of(self.strategy, self._stepper.step(self), Replace)):
                self._take(edit)
            if self._parts.useless:
                self._parts.forget()
            if self.changes:
                self._strip(self.changes)

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
                self._make(candidate, check_reason(edit.reason), may_change=True)
                self._parts.shorten(part, candidate.text, self.edits[part].saved)
        else:
            self._make(candidate, edit.reason if type(edit.reason) is Reason else check_reason(edit.reason))
            del self._parts.seen[part]
            if self.tool_inputs:  # nothing shows the outcome of the call now
                self._parts.useless += _inputs(part)

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
        self._saved[int(part.location.path[0])] += candidate.saves

    def _strip(self, changes: Stripping) -> None:
        """Take out the thinking of turns that are over, behind what has changed."""
        for thought in changes.due():
            self.tokens -= thought.tokens
            self._saved[thought.location.message] += thought.tokens
            self.edits_made += 1

    # Candidates

    def candidates(self) -> Iterator[Candidate]:
        """Yield the parts that may be cleared, oldest first: the model has seen them, and they would be smaller."""
        known, why = self._parts, None
        bound = self.newest_thinking if self._keeps_thinking else ()
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
        known, placeholder = self._parts, self.placeholder
        mark = placeholder.mark(known.as_it_stands(part), self.messages) if placeholder.recalls else ""
        if isinstance(part, ToolInput):
            assert self.tool_inputs is not None
            result, text = known.result_of[part], self.tool_inputs.text(part, placeholder.count, mark)
            saved = placeholder.saves(part, text)
        else:
            assert isinstance(part, ToolResult)
            result, (text, saved) = part, placeholder.cleared(part, mark)
        saved_before = self.edits[part].saved if part in self.edits else 0
        candidate = known.seen[part] = Candidate(part, text, saved - saved_before, result, mark)
        return candidate

    def _candidate(self, part: Part, text: str, mark: str = "") -> Candidate:
        """Return a part with a text of the strategy's own, and what that saves beyond an earlier edit."""
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
        return replacement_text(standing, text, candidate.mark)

    def continues_with(self, entries: Sequence[Entry]) -> bool:
        """Return whether the walk holds once more entries follow: its last request still stands, or decided nothing."""
        at = len(self.entries)
        if at == len(entries) or self._begins_request(entries[at]) or self._asked_at != at:
            return True
        if self._remembers:
            return self._stands and self._may_be_asked and not entries[at].results
        return self._made_before == self.edits_made
