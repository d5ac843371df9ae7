"""Walk a conversation request by request and ask the strategy at each one. Calls no model, edits no message.

A prune gets the whole conversation, but has to repeat what earlier prunes decided: a result that was cleared must stay
cleared. Nothing is stored for that. The walk starts at the first message and makes every decision again.

A request is one call of the model's API. One request comes before each uninterrupted run of the model's messages, and
the next one comes at the end. With U for the user, A[c] for a call and R[c] for its result of 1,000 tokens (all other
tokens are ignored here), each bar is a request:

    U | A[c1] R[c1] | A[c2] R[c2] | A[c3] R[c3] |
      0             1             2             3

Let the safe zone be 2,500 tokens. The prompts of requests 0, 1 and 2 have 0, 1,000 and 2,000 tokens, so there is
nothing to do. The prompt of request 3 has 3,000 tokens, so the walk asks the strategy. It offers R[c1] and R[c2] as
candidates, but not R[c3], which the model has not seen yet. The strategy clears R[c1], which leaves 2,000 tokens.

Two calls later, the agent prunes the longer conversation. The walk clears R[c1] at request 3 again, since it sees there
exactly what it saw before, and then decides about the later requests. Three properties follow:

- Strategies need no memory of earlier prunes. One that remembers earlier requests starts fresh in each walk (`begin`).
- Earlier messages only change if the strategy clears something new, so the provider's cache stays valid until then.
- Pruning the same conversation twice gives the same result.

Pruners remember the walk (`pruners.memory`) and continue it with the new messages. This saves time and changes no
decision.

`Walk` is itself the `View` that the strategy gets, or a part of it (`Folds`), so no decision can depend on later
messages. `Walk.extend` takes new messages, `append` takes each one, `ask` calls the strategy at a request, and
`make_plan` returns the outcome. The walk also applies the strategy's options: it withholds protected parts (`protect`),
cuts oversized results as they arrive (`clamp`), and offers the arguments of successful calls (`clear_tool_inputs`).
`Parts` tracks which parts may be cleared, `Folds` which messages may be folded or dropped, and `Stripping` which
thinking blocks an edit invalidates.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import cast

from autoprune.conversation.edits import (
    AnyReason,
    Fold,
    Placeholder,
    Reason,
    Replace,
    check_reason,
    split_mark,
    trim_text,
)
from autoprune.conversation.transcript import Entry, Part, Path, Speaker, Thought, ToolResult, Transcript
from autoprune.economics import Invoice
from autoprune.planning._candidates import Parts, References, inputs_of
from autoprune.planning.clamping import Clamp
from autoprune.planning.folds import Folds
from autoprune.planning.plan import TRACKED, Conditions, Later, Plan, ThinkingPolicy
from autoprune.planning.protections import DEFAULT_PROTECTIONS, Guard, Protections, guard
from autoprune.planning.steps import LEAST_MARKED, Step, Steps, added_tokens, make_fold, neighbors
from autoprune.planning.thinking import CUT_REASONS, Stripping
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import (
    Candidate,
    FoldContext,
    View,
    asks_always,
    edits_of,
    folds_steps,
    has_written,
    option,
    rationale_of,
    reprice,
    stepper,
)

SHOWING = (Reason.CLAMPED, Reason.RESTORED)  # edits after which a result still shows its text


class Walk:
    """Take a conversation message by message and ask the strategy at each request."""

    def __init__(
        self,
        first: Conditions,
        fixed_tokens: int,
        placeholder: Placeholder,
        *,
        later: Later = (),
        given: FoldContext | None = None,
        reported: tuple[int, int] | None = None,
    ) -> None:
        """Start before the first message.

        `first` applies until the first of `later`. With the thinking policy "refuse", nothing before a thinking block
        is edited; with "strip", `tokens` is without the stripped blocks. A strategy may fold if `given` holds what is
        known about the summary in the conversation; `reported` is a number of messages and the tokens that the provider
        reported for them.
        """
        strategy = first.strategy
        self.strategy = strategy
        self._now = first
        self._later, self._applied = [*later], 0
        is_default = getattr(strategy, "protect", None) is DEFAULT_PROTECTIONS
        rules = None if is_default else option(strategy, "protect", Protections)
        self.protections = rules or DEFAULT_PROTECTIONS
        self.tool_inputs = option(strategy, "clear_tool_inputs", ToolInputs)
        self.asks_always = asks_always(strategy)
        self._stepper = stepper(strategy)
        # `begin` returned an object with state, so its decisions depend on every request before.
        self._remembers = self._stepper is not strategy
        self.sent = 0  # the number of messages in the previous prompt
        self.pauses: Mapping[int, float] = {}
        self.invoices: Mapping[int, Invoice] = {}
        self._used: dict[int, tuple[float, Invoice | None]] = {}  # what decisions may depend on, by message
        self.placeholder = placeholder
        self.tokens = fixed_tokens
        self.request = 0  # the number of the current request
        self.last_request = 0  # that of the request after all messages
        self.entries: list[Entry] = []
        self.edits: dict[Part, Replace] = {}
        self.edits_made = 0
        self.newest_thinking: Path = ()  # the path of the newest thinking block
        self._policies = {first.thinking, *(each.thinking for _, each in later)}
        self.changes: Stripping | None = None
        clears_thinking = getattr(strategy, "clear_thinking", False) is True
        if self._policies & TRACKED or clears_thinking:
            strips = ThinkingPolicy.STRIP in self._policies or clears_thinking
            self.changes = Stripping(placeholder, self.tool_inputs, self._is_ours, strips=strips)
        self._clamp = option(strategy, "clamp", Clamp)
        self._protects = rules is not None and rules.has_rules
        self._parts = Parts(placeholder, self.edits, self.tool_inputs)
        self._user_words: set[ToolResult] = set()  # results that hold the user's own words
        self._references = References()
        self._saved: dict[int, int] = defaultdict(int)  # by message
        self._asked_at = -1
        self._is_settled = False  # whether the last request counts whatever message follows
        self._edits_before = 0  # edits that were made before the last request
        self._folds = Folds(strategy, self, placeholder.count, given, reported) if given else None
        self._steps = Steps() if folds_steps(strategy) and not given else None
        self._folded: list[Fold] = []  # steps

    @property
    def ends_with_model(self) -> bool:
        """Whether the last message is the model's."""
        return bool(self.entries) and self.entries[-1].speaker is Speaker.MODEL

    @property
    def messages(self) -> Sequence[object]:
        """The caller's messages so far."""
        return [entry.message for entry in self.entries]

    @property
    def results(self) -> Sequence[ToolResult]:
        """Every tool result so far, oldest first."""
        return self._parts.results

    @property
    def pause(self) -> float:
        """The seconds since the previous request."""
        return self.pauses.get(len(self.entries), 0.0)

    @property
    def invoice(self) -> Invoice | None:
        """The invoice of the previous request; None if unknown."""
        return self.invoices.get(len(self.entries))

    @property
    def limit(self) -> int:
        """The safe zone of the current request, in counted tokens."""
        return self._now.limit

    @property
    def hard_limit(self) -> int:
        """The safe zone before it was lowered to avoid a compaction, in counted tokens."""
        return max(self._now.limit, self._now.hard_limit)

    def take_over(self, later: Later) -> bool:
        """Take over the conditions of later requests; False if they change those of a request that was decided."""
        policies = {each.thinking for _, each in later} & TRACKED
        decided = [each for each in later if each[0] <= len(self.entries)]
        if decided != self._later[: self._applied] or not policies <= self._policies:
            return False
        self._later = [*later]
        return True

    def used_same(self, pauses: Mapping[int, float], invoices: Mapping[int, Invoice]) -> bool:
        """Return whether the walk used the same pauses and invoices for its decisions."""
        return all((pauses.get(at, 0.0), invoices.get(at)) == used for at, used in self._used.items())

    def weight(self, message: int) -> int:
        """Return the tokens of a message, without the tokens that its edits save."""
        return self.entries[message].tokens - self._saved[message]

    @property
    def bound_before(self) -> Path:
        """The path of the newest thinking block, before which nothing may be edited; () if everything may be."""
        return self.newest_thinking if self._now.thinking is ThinkingPolicy.REFUSE else ()

    def make_plan(self, messages: list[object], fixed_tokens: int) -> Plan:
        """Return the decisions so far as a plan for these messages. What the provider is to compact is sent whole."""
        plan = self._plan(messages, fixed_tokens)
        return plan.without_changes if self.entries and self.entries[-1].asks_to_compact else plan

    def _plan(self, messages: list[object], fixed_tokens: int) -> Plan:
        changes = self.changes
        gone = {at for fold in self._folded for at in fold.messages}
        plan = Plan(
            Transcript(messages, tuple(self.entries), fixed_tokens),
            tuple(edit for edit in self.edits.values() if edit.part.location.message not in gone),
            self.limit,
            self.placeholder,
            protections=self.protections,
            tool_inputs=self.tool_inputs,
            bound_before=self.bound_before,
            needed=self._references.needed,
            stripped=tuple(changes.stripped) if changes else (),
            changed=changes.first if changes else None,
            rationale=rationale_of(self._stepper),
            folds=tuple(self._folded),
            folds_steps=self._steps is not None,
            counted=fixed_tokens + sum(map(self.weight, range(len(self.entries)))) if gone else None,
        )
        return self._folds.complete(plan, fixed_tokens) if self._folds else plan

    @property
    def has_acted(self) -> bool:
        """Whether the strategy edited or folded anything, or the prompt is over the safe zone."""
        return bool(self.edits or self._folded or (self._folds and self._folds.folds)) or self.tokens > self.limit

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add the entries of new messages, and ask the strategy at the request that follows them."""
        new = sum(entry.begins_request + (entry.skipped if entry.folded else 0) for entry in entries)
        self.last_request = self.request + new
        for entry in entries:
            self._user_words.update(filter(self.protections.is_answer, entry.results))
            self.append(entry)
        if self.entries:
            self.ask()

    def append(self, entry: Entry) -> None:
        """Add the next message. If a request precedes it, ask the strategy first."""
        self._switch()
        if entry.begins_request:
            self.ask()
            self._offer_unseen()
            self.request += 1
            self.sent = len(self.entries)
        # A strategy with state may have been asked here by an earlier prune (see `ask`).
        elif self._remembers and self._can_be_request and not entry.results:
            self._used[len(self.entries)] = self.pause, self.invoice
            if self._is_surely_request:
                self.ask()
        self._parts.results += entry.results
        self._parts.unseen += entry.results
        if self._steps:
            self._steps.append(len(self.entries), entry)
        self.entries.append(entry)
        self.tokens += entry.tokens
        if entry.folded:
            self.request += entry.skipped
        if entry.thinking:
            self.newest_thinking = entry.thinking[-1].location.path
        if self.changes:
            self.changes.append(len(self.entries) - 1, entry)
        if self._clamp:
            for result in entry.results:
                if result not in self._user_words:
                    self._clamp_result(result, self._clamp)
        for answer, shown in self._references.observe(entry):
            if self._is_gone(shown.holder) and self._restore(answer, shown.whole):
                self._references.move(shown, answer)
        if self._folds:
            self._folds.append(entry)

    @property
    def _can_be_request(self) -> bool:
        """Whether a request can be sent here: not while calls of the model have no results."""
        return not (self.entries and self.entries[-1].calls)

    @property
    def _is_surely_request(self) -> bool:
        """Whether a request counts here whatever follows: after a pause, or if the prompt is over the safe zone."""
        return self.pause > 0 or self.tokens > self.limit

    def _offer_unseen(self) -> None:
        """Offer the results that the model sees with this request, and the arguments of their calls if they succeeded.

        The user's answers through tools are never offered, and neither are the calls that asked for them.
        """
        parts = self._parts
        for result in parts.unseen:
            if result in self._user_words:
                continue
            if self.tool_inputs and not self.placeholder.has_replaced(result):
                for part in self.tool_inputs.of(parts.replaced.get(result, result)):
                    parts.offer(part)
                    parts.result_of[part] = result
            parts.offer(result)
        parts.unseen.clear()

    def _is_ours(self, result: ToolResult) -> bool:
        """Return whether a result can be a text that the clamp or the strategy wrote."""
        is_cut = self._clamp is not None and self._clamp.may_have_cut(result.text, self.placeholder.count)
        return is_cut or has_written(self.strategy, result)

    def _clamp_result(self, result: ToolResult, clamp: Clamp) -> None:
        """Cut a result that is too large, before any request sends it whole."""
        if result.is_fixed or not result.is_plain or self.placeholder.has_replaced(result):
            return
        mark = self.placeholder.mark(result)
        text = clamp.shortened(result.text, self.placeholder.count, mark)
        if text is None:
            return
        text = trim_text(result, text)
        if (saved := self.placeholder.saves(result, text)) > 0:
            self._record_edit(Candidate(result, text, saved, result, mark), Reason.CLAMPED, may_change=True)
            self._parts.record_text(result, text, saved)

    def _is_gone(self, result: ToolResult) -> bool:
        return result in self.edits and self.edits[result].reason not in SHOWING

    def _restore(self, answer: ToolResult, whole: ToolResult) -> bool:
        """Put the text of a cleared read in place of an answer that only refers to it, before any request sends it.

        This is the only edit that makes a prompt larger: the agent cannot get the text from its tool. Returns whether
        it was possible.
        """
        if answer.is_fixed or answer.kind != whole.kind or not (answer.is_plain and whole.is_plain):
            return False
        mark = self.placeholder.mark(whole)
        cut = self._clamp.shortened(whole.text, self.placeholder.count, mark) if self._clamp else None
        text = trim_text(answer, whole.text if cut is None else cut)
        saved = self.placeholder.saves(answer, text)
        self._record_edit(Candidate(answer, text, saved, answer), Reason.RESTORED, may_change=True)
        self._parts.record_text(answer, text, saved)
        return True

    # Requests

    def ask(self) -> None:
        """Let the strategy make its edits at the current request. Does nothing if it was already asked here.

        The end of the conversation may turn out not to be a request: the model may continue with another message, or
        the user may add one. A later walk would then not ask here, so a strategy that remembers earlier requests would
        decide otherwise, and cleared results would come back. To rule that out, `append` asks such a strategy between
        any two messages if a pause is recorded there or the prompt is over the safe zone. After a message of the model
        it is asked in these cases only, and it is never asked while calls wait for their results.
        """
        if self._asked_at == len(self.entries):
            return
        self._switch()
        self._used[len(self.entries)] = self.pause, self.invoice
        self._is_settled = self._remembers and self._is_surely_request
        if self._remembers and self.ends_with_model and not (self._is_settled and self._can_be_request):
            return
        self._asked_at, self._edits_before = len(self.entries), self.edits_made
        if self._folds:
            self._folds.use_reported_tokens()
        if self.changes:
            self._strip(self.changes)
        if self._folds:
            self._ask_to_fold(self._folds)
        elif self.asks_always or (self.tokens > self.limit and self._parts.seen):
            # A list, since an edit changes the candidates, over which the strategy may still iterate.
            kind = Replace | Fold if self._steps else Replace
            for edit in list(edits_of(self.strategy, self._stepper.step(self), kind)):
                if isinstance(edit, Fold):
                    self._fold_steps(edit)
                else:
                    self._apply_edit(edit)
            # Parts that save nothing, and arguments whose result was cleared, are not offered again.
            self._parts.drop_useless()
        else:
            return
        if self.changes:
            is_bound = self._now.thinking is ThinkingPolicy.REFUSE
            if getattr(self._stepper, "clears_thinking", False) is True and not is_bound:
                self._count_stripped(self.changes.strip_finished())
            self._strip(self.changes)

    def _ask_to_fold(self, folds: Folds) -> None:
        """Let the strategy fold, drop and shorten, each edit as soon as it yields it."""
        is_done = False
        while not is_done:
            edits_made, folds.held = self.edits_made, set()
            for edit in edits_of(self.strategy, self._stepper.step(cast(View, folds)), Replace | Fold):
                if isinstance(edit, Fold):
                    folds.apply(edit)
                else:
                    self._apply_edit(edit)
            self._parts.drop_useless()
            # Messages that were held back may go after further edits. A walk over the pruned output would offer them
            # again, so this one asks until nothing changes.
            is_done = not folds.held or edits_made == self.edits_made

    def _switch(self) -> None:
        """Switch to the conditions that apply here. The strategy keeps what it remembers."""
        while self._applied < len(self._later) and self._later[self._applied][0] <= len(self.entries):
            now = self._later[self._applied][1]
            self._applied += 1
            self._stepper = reprice(self._stepper, now.strategy)
            self.tokens += now.overhead - self._now.overhead
            self._now = now

    def _apply_edit(self, edit: Replace) -> None:
        """Apply the strategy's edit if its part was offered; ignore it otherwise.

        The placeholder replaces a blank text, which providers reject. Arguments of calls always get the placeholder.
        The cuts of a strategy that folds consist of the payload's text, and are used unchanged.
        """
        part, candidate = edit.part, self._parts.seen.get(edit.part)
        if candidate is None or candidate.saves <= 0:
            return
        if isinstance(part, ToolResult) and edit.text.strip() and edit.text != candidate.text:
            is_cut = self._folds is not None and edit.reason in CUT_REASONS
            text = trim_text(part, edit.text) if is_cut else self._parts.own_text(candidate, edit.text)
            candidate = self._parts.candidate(part, text, candidate.mark)
            if candidate.saves > 0:
                self._record_edit(candidate, check_reason(edit.reason), may_change=True)
            if self._folds:
                self._parts.drop(part)
            elif candidate.saves > 0:
                self._keep_offering(part, candidate.text)
        else:
            self._record_edit(candidate, edit.reason if type(edit.reason) is Reason else check_reason(edit.reason))
            self._parts.drop(part)
            if self.tool_inputs:  # without its result, nothing shows that the call succeeded
                self._parts.useless += inputs_of(part)

    def _keep_offering(self, result: ToolResult, text: str) -> None:
        """Offer a shortened result as if its tool had returned that text."""
        parts = self._parts
        parts.as_sent.setdefault(result, self.as_sent(result))
        parts.record_text(result, text, self.edits[result].saved)
        parts.seen[result] = None
        parts.whole.pop(result, None)
        shown = self.tool_inputs.of(parts.replaced[result]) if self.tool_inputs else ()
        parts.useless += (part for part in inputs_of(result) if part not in shown)

    def _record_edit(self, candidate: Candidate, reason: AnyReason, *, may_change: bool = False) -> None:
        """Record an edit, which replaces an earlier edit of the same part, such as a cut."""
        part, before = candidate.part, self.edits.pop(candidate.part, None)
        saved_before = before.saved if before else 0
        saved = candidate.saves + saved_before
        made = Replace(part, candidate.text, reason, saved, self.request, saved_before, candidate.mark, may_change)
        edit = self.edits[part] = made
        self.edits_made += 1
        if self.changes:
            self.changes.record_edit(edit)
        self.tokens -= candidate.saves
        self._saved[int(part.location.path[0])] += candidate.saves

    def _strip(self, changes: Stripping) -> None:
        """Strip the thinking of finished turns after the first change."""
        if self._now.thinking is ThinkingPolicy.STRIP:
            self._count_stripped(changes.strip_due())

    def _count_stripped(self, thoughts: Sequence[Thought]) -> None:
        """Take the tokens of stripped thinking out of the prompt."""
        for thought in thoughts:
            self.tokens -= thought.tokens
            self._saved[thought.location.message] += thought.tokens
            self.edits_made += 1

    # Candidates

    def candidates(self, *, whole: bool = False) -> Iterator[Candidate]:
        """Yield the parts that may be cleared, oldest first: the model has seen them, and clearing saves tokens.

        With `whole`, only those that the strategy has not replaced with a text of its own.
        """
        found = self._candidates(whole=whole)
        # Edits of a strategy that folds are made while it iterates.
        return iter([*found]) if self._folds else found

    def _candidates(self, *, whole: bool) -> Iterator[Candidate]:
        parts, why = self._parts, None
        bound, needed = self.bound_before, self._references.needed
        if self._protects:
            why = guard(self.protections, self.entries, parts.results, self._saved, parts.replaced)
        for part in parts.whole if whole else parts.seen:
            if (bound and part.location.path < bound) or (why and self._is_protected(part, why)) or part in needed:
                continue
            candidate = parts.seen[part] or parts.weigh(part)
            if candidate.saves > 0:
                yield candidate
            else:
                parts.useless.append(part)

    def _is_protected(self, part: Part, why: Guard) -> bool:
        """Return whether a part is protected.

        Arguments are protected with their result, unless the result is kept only because it is small.
        """
        reason = why(self._parts.result(part))
        return reason is not None and (isinstance(part, ToolResult) or reason is not Reason.SMALL)

    def as_sent(self, result: ToolResult) -> ToolResult:
        """Return a result as the model first sees it."""
        return self._parts.as_sent.get(result) or self._parts.replaced.get(result, result)

    def saves(self, candidate: Candidate, text: str) -> int:
        """Return the tokens that the strategy's text would save in place of a result."""
        return self._parts.candidate(candidate.part, self._parts.own_text(candidate, text)).saves

    # Finished steps, for strategies with `fold_steps`

    def steps(self) -> Sequence[Step]:
        """Return the finished steps that may be folded, oldest first: the model has seen all their messages."""
        return [*map(self._weighed, self._offered())]

    def _offered(self) -> Iterator[Step]:
        if self._steps is None or self.bound_before:
            return
        why = guard(self.protections, self.entries, self._parts.results, self._saved, self._parts.replaced)
        sent = takewhile(lambda step: step.messages.stop <= self.sent, self._steps.finished)
        yield from (step for step in sent if not any(self._is_kept(each, why) for each in step.results))

    def _weighed(self, step: Step) -> Step:
        marks = tuple(map(self._mark, step.results))
        return replace(step, tokens=sum(map(self.weight, step.messages)), marks=marks)

    def _mark(self, result: ToolResult) -> str:
        """Return the mark of a result in its line; "" for a small one that was not cleared."""
        current = self._parts.current(result)
        is_marked = current.tokens >= LEAST_MARKED or split_mark(current.text)[1]
        return self.placeholder.mark(current) if is_marked else ""

    def _is_kept(self, result: ToolResult, why: Guard) -> bool:
        """Return whether a result must stay with its call."""
        is_users = result in self._user_words or result.is_fixed or result in self._references.needed
        return is_users or (self._protects and why(result) is not None)

    def _fold_steps(self, edit: Fold) -> None:
        """Replace neighboring steps by the strategy's text if they were offered and it saves tokens."""
        folded = {*edit.messages}
        offered = [self._weighed(step) for step in self._offered() if step.messages.start in folded]
        is_whole = [*edit.messages] == [at for step in offered for at in step.messages]
        if not self._steps or not is_whole or not edit.text or len(list(neighbors(offered))) != 1:
            return
        fold = make_fold(offered, edit.text, check_reason(edit.reason), self.placeholder.count)
        if fold.room >= fold.saved:
            return
        before, after = [*self._beside(fold.messages[0] - 1, -1)], [*self._beside(fold.messages[-1] + 1, 1)]
        added = added_tokens(fold.text, before, after, self.placeholder.count)
        for at in fold.messages:
            self._saved[at] = self.entries[at].tokens
        self._saved[fold.messages[0]] -= added
        self.tokens -= fold.saved - added
        self.edits_made += 1
        self._folded.append(replace(fold, request=self.request))
        self._steps.remove(fold.messages)
        self.withhold(fold.messages)
        if self.changes:
            self.changes.remove_messages(fold.messages)
            self.changes.record_change((fold.messages[0],))

    def _beside(self, at: int, direction: int) -> Iterator[Entry | str]:
        """Yield the user's messages and the texts of folds from message `at` on, which become one message."""
        while 0 <= at < len(self.entries):
            fold = next((each for each in self._folded if at in each.messages), None)
            if fold is None and self.entries[at].role != "user":
                return
            yield fold.text if fold else self.entries[at]
            at += direction * len(fold.messages if fold else (at,))

    def withhold(self, messages: Collection[int]) -> None:
        """Offer no part of these messages any more."""
        for part in [part for part in self._parts.seen if part.location.message in messages]:
            self._parts.drop(part)

    def continues_with(self, entries: Sequence[Entry]) -> bool:
        """Return whether the walk stays valid with more entries: its last request still counts or made no edits."""
        at = len(self.entries)
        # A decision stays valid if a request did precede the next message, or if no decision was made here.
        if at == len(entries) or entries[at].begins_request or self._asked_at != at:
            return True
        if self._remembers:
            return self._is_settled and self._can_be_request and not entries[at].results
        return self._edits_before == self.edits_made
