"""Write the texts of a plan: the running summary, and the texts of large results. Makes no decisions about edits.

The writer yields its questions as steps, which a driver answers with or without `await`. Each text is cached by a hash
of its input, so the same conversation gets the same bytes again at no cost.

Each text of a fold depends on the messages that stay around it:

    F U0 | F A0   U1 | F A1 | F A2 ...

Without U1, A1 would read as an answer to U0. So the first message after a request that stays is marked
(`Utterance.after_request`). Nor is the first request in a summary always the user's first one: U0 may stay while
answers through a tool, or later requests, are folded (`first_request`). `FoldedMessages` finds both. It only considers
messages that are in the conversation at the time of a fold, so pruned output that is passed back gives the same texts.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from autoprune.conversation.edits import Fold, Reason, Replace
from autoprune.conversation.messages import canonical, sendable
from autoprune.conversation.summary import call_style, escape_end_mark, wrap_summary
from autoprune.conversation.transcript import Part, Speaker, newest_compaction
from autoprune.facts.utterances import Utterance, utterances
from autoprune.planning.clamping import Clamp
from autoprune.planning.plan import Plan
from autoprune.pruners.large_results import (
    NOBODY,
    Asking,
    Draft,
    Kind,
    Shortener,
    TextStore,
    drafts,
    run_together,
    tidy,
)
from autoprune.summarizers import sections
from autoprune.summarizers.brief import (
    Answer,
    Ask,
    Brief,
    Failed,
    Refused,
    Spent,
    Steps,
    Summarizer,
    Written,
    calls_model,
    identity_of,
    keeps_request,
    reads_in_parts,
)
from autoprune.summarizers.driver import steps_of
from autoprune.summarizers.sections import LEAVES_OUT
from autoprune.summarizers.selection import fallbacks
from autoprune.tokens import MESSAGE_TOKENS, Count, TextCache
from autoprune.wire import dominant_format
from autoprune.wire.parsing import Format

JOINT_TOKENS = 4  # by which the counts of joined texts may differ from their sum
BEFORE = "[The provider's summary of what came before; it stays in the conversation]"
LEAST_CUT = 32  # tokens; a summary that is cut to fewer is of no use


@dataclass
class SummaryWriter:
    """Writes the texts of one plan. `messages` are the plan's messages, without the summary in them.

    `results` writes the texts of large results, and `title` is put above the summary. `edits` are the plan's edits,
    with the texts of large results once these are written.
    """

    plan: Plan
    messages: Sequence[object]
    summarizer: Summarizer
    store: MutableMapping[str, str]
    memo: TextCache[str]
    count: Count
    texts: dict[int, str] = field(default_factory=dict)
    results: Shortener = field(default=NOBODY, kw_only=True)
    title: str = field(default="", kw_only=True)
    spent: Spent = field(default_factory=Spent)
    edits: tuple[Replace, ...] = field(init=False)
    _fell_back: bool = False
    _fresh: list[str] = field(default_factory=list)  # notes about the text that is being written

    def __post_init__(self) -> None:
        self.edits = self.plan.edits
        self.title = escape_end_mark(self.title).strip()
        self._hash_message = cache(self._hash)
        self._folded = FoldedMessages(self.plan, self.messages)
        self._known_texts = TextStore(self.store, self.memo, self.count, self._note)

    @property
    def key(self) -> str:
        """The cache key of the whole summary, by which concurrent prunes of a conversation find each other."""
        folds = self._folded.folds
        text = self.plan.running.text if self.plan.running else ""
        return [*self._keys(text, 0, len(folds))][-1] if folds else ""

    def steps(self) -> Steps:
        """Ask for all texts of the prune, first the summary, then large results, and return the running summary."""
        answer: Answer = Failed("there is nothing to sum up")
        if self._folded.folds:
            answer = yield from self._running_summary(self._folded.folds)
        yield from self._write_large_results()
        return answer

    def _write_large_results(self) -> Asking[None]:
        """Ask for the texts of large results at the same time. A result without a text stays cut."""
        for note in self.results.notes:
            self._note(note)
        keyed = [(self.results.key(draft), draft) for draft in drafts(self.plan, self._request)]
        texts = {key: text for key, draft in keyed if (text := self._find_result_text(key, draft)) is not None}
        new = {key: draft for key, draft in keyed if key not in texts}
        answers = yield from self._meter(run_together([self.results.steps(draft) for draft in new.values()]))
        for (key, draft), answer in zip(new.items(), answers, strict=True):
            self._fresh = [*answer.notes] if isinstance(answer, Written) else []
            texts[key] = self._text_from(key, draft, answer)
        edits: dict[Part, Replace] = {draft.result: self._edit(draft, texts[key]) for key, draft in keyed}
        self.edits = tuple(edits.get(edit.part, edit) for edit in self.plan.edits)

    def _find_result_text(self, key: str, draft: Draft) -> str | Failed | None:
        """Look up the text of a large result, or the earlier failure to write it; None if there is neither."""
        text = self._find_text(key, is_model=self.results.calls_model)
        if text is not None and draft.edit_with(text):
            self._known_texts.repeat_notes(text)
            return text
        return self._known_texts.failure(key)

    def _text_from(self, key: str, draft: Draft, answer: Answer) -> str | Failed:
        """Fit an answer into the draft's room and remember the text.

        Failures are remembered too, so that a result that was cut stays cut.
        """
        failed = answer if isinstance(answer, Failed) else Failed("the text has no room")
        text = draft.fit(answer.text) if isinstance(answer, Written) else None
        if text is None:
            self._known_texts.keep_failure(key, failed.why)
            return failed
        if isinstance(answer, Written) and text != tidy(answer.text):
            self._note("what was written for a large result was too long and was cut")
        self._known_texts.keep(key, text, is_model=self.results.calls_model)
        self._known_texts.annotate(text, self._fresh)
        return text

    def _edit(self, draft: Draft, text: str | Failed) -> Replace:
        """Create the edit of a large result with its text, or with its cut if there is no text."""
        edit = draft.edit_with(text) if isinstance(text, str) else None
        if edit is None and not self.results.is_quiet:
            self._note(f"a large result was only cut ({text.why if isinstance(text, Failed) else 'no room'})")
        return edit or replace(draft.edit, reason=Reason.CLAMPED)

    def _hash(self, at: int) -> bytes:
        """Hash a message: a mapping and an SDK's object with the same fields alike."""
        try:
            text = canonical(self.messages[at])
        except RecursionError:  # nested too deeply to be serialized
            text = canonical(
                [(each.words, [result.text for result in each.results]) for each in self._folded.plain(at)]
            )
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def _running_summary(self, folds: Sequence[Fold]) -> Steps:
        """Extend the summary fold by fold: with cached texts as far as there are any, then with new ones."""
        at = max((number for number in self.texts if number <= len(folds)), default=0)
        text = self.texts[at] if at else self.plan.running.text if self.plan.running else ""
        is_model = calls_model(self.summarizer)
        while at < len(folds):
            ahead = folds[at:] if is_model else folds[at : at + 1]
            keys = list(self._keys(text, at, at + len(ahead)))
            cached = self._farthest(keys, ahead, is_model=is_model)
            if cached:
                at, text = at + cached[0], cached[1]
                if not is_model:
                    self._known_texts.repeat_notes(text)
                continue
            # A model summarizes all new folds in one call. Without a model, each fold is summarized separately, which
            # gives the same text as if every prune had been made in its turn.
            until = len(folds) if is_model else at + 1
            answer = yield from self._summary_of(text, at, until)
            if isinstance(answer, Failed):
                return Written(text) if text else answer
            # A fallback is not a model's text, so it does not go to the store.
            key, is_models_own = keys[until - at - 1], is_model and not self._fell_back
            at, text = until, self._known_texts.keep(key, answer.text, is_model=is_models_own)
            self._known_texts.annotate(text, self._fresh)
        self._known_texts.repeat_notes(text)
        if not self._fell_back:
            self.texts[len(folds)] = text
        return Written(text)

    def _farthest(self, keys: Sequence[str], folds: Sequence[Fold], *, is_model: bool) -> tuple[int, str] | None:
        """Find the cached summary that covers the most of the next folds: the number of folds and the text."""
        for number in range(len(keys), 0, -1):
            text = self._find_text(keys[number - 1], is_model=is_model)
            if (
                text is not None
                and escape_end_mark(text).strip() == text
                and self.count(text) <= folds[number - 1].room
            ):
                return number, text
        return None

    def _keys(self, text: str, start: int, stop: int) -> Iterator[str]:
        """Yield the cache key of the summary after each fold: a hash of the previous summary and the new messages."""
        context = [one.words for one in self._folded.context] if calls_model(self.summarizer) else []
        settings = "\0".join((identity_of(self.summarizer), text, self.title, *context))
        hashed = hashlib.sha256(settings.encode("utf-8", "surrogatepass"))
        for number in range(start, stop):
            for at, *marks in self._folded.folded_messages(number, number + 1):
                hashed.update(self._hash_message(at) + bytes(marks))
            # The key of each fold extends the hash of the folds before it.
            whole = hashed.copy()
            request = self._folded.first_request(start, number + 1, text)
            whole.update(f"{self._folded.folds[number].room} {request}".encode("utf-8", "surrogatepass"))
            yield whole.hexdigest()

    def _find_text(self, key: str, *, is_model: bool) -> str | None:
        """Look up a text that the model or its fallback wrote; None if there is none."""
        text = self._known_texts.model_text(key) if is_model else None
        if text is None:
            text = self._known_texts.plain_text(key)
            self._fell_back = self._fell_back or (text is not None and is_model)
        if text is not None:
            self.spent += Spent(found=1)
        return text

    def _summary_of(self, previous: str, start: int, stop: int) -> Steps:
        """Ask for the summary of some folds: first the summarizer, then its fallbacks if it fails."""
        self._fresh = []
        first_request = self._folded.first_request(start, stop, previous)
        brief = Brief(
            self._folded.utterances(start, stop),
            previous,
            max_tokens=self._room(previous, self._folded.folds[start:stop], first_request),
            count=partial(_count_escaped, self.count),
            request=self._request(len(self.messages)),
            first_request=first_request,
        )
        answer = yield from self._ask_for_summary(self.summarizer, brief)
        asked = self.summarizer
        for other in fallbacks(self.summarizer):
            if not isinstance(answer, Failed):
                break
            self._note(_fallback_note(asked, answer.why, other))
            self._fell_back = self._fell_back or not calls_model(other)
            asked, answer = other, (yield from self._ask_for_summary(other, brief))
        if isinstance(answer, Failed):
            self._note(f"no summary could be made ({answer.why}): the messages were dropped")
        return answer

    def _room(self, previous: str, folds: Sequence[Fold], first_request: str) -> int:
        """Compute the maximum tokens of a summary: fewer than the messages and the summary that it replaces.

        The first of these messages may have been joined with that summary, and then had no frame of its own. But the
        user's first request, if it goes now, needs every token.
        """
        room = folds[-1].room
        if not previous:
            return room
        replaced = self.count(previous) + sum(fold.saved for fold in folds)
        frame = 0 if first_request else MESSAGE_TOKENS
        return max(1, min(room, replaced - JOINT_TOKENS - frame))

    def _request(self, before: int) -> str:
        """Find the user's last request before a message; "" if there is none."""
        requests = reversed(self._folded.requests.items())
        return next((request for at, request in requests if at < before and request), "")

    def _ask_for_summary(self, summarizer: Summarizer, brief: Brief) -> Steps:
        """Ask a summarizer, fit its answer into the room, and put the user's first request above it."""
        room, heading = brief.max_tokens, sections.put_title("", self.title)
        brief = replace(brief, max_tokens=max(1, brief.max_tokens - self.count(heading))) if heading else brief
        if calls_model(summarizer):
            brief = replace(brief, utterances=(*self._folded.context, *brief.utterances))
        frame = sections.Frame(brief, is_kept=keeps_request(summarizer))
        answer = yield from self._meter(steps_of(summarizer, replace(brief, max_tokens=frame.room)))
        if isinstance(answer, Failed):
            return answer
        for note in answer.notes:
            self._note(note)
        text = self._fit(escape_end_mark(sendable(frame.remove_nested(answer.text))).strip(), frame.room)
        if text is None:
            return Failed("its summary is blank, or too long for what it stands for")
        framed = frame.put_around(text)
        if text not in framed and not frame.is_kept:
            self._note("the summary was cut to make room for the user's first request")
        for note in frame.notes(framed):
            self._note(note)
        whole = sections.put_title(framed, self.title)
        return Written(whole if self.count(whole) <= room else framed)

    def _fit(self, text: str, room: int) -> str | None:
        """Cut a text to at most `room` tokens; None if it is blank or the room is too small for a useful cut."""
        size = self.count(text) if text else 0
        if 0 < size <= room:
            return text
        cut = Clamp(max_result_tokens=room).shortened(text, self.count) if size and room >= LEAST_CUT else None
        if cut is not None:
            self._note(f"the summary had {size} tokens and was cut to {room}")
        return cut

    def _meter(self, steps: Asking[Kind]) -> Asking[Kind]:
        """Run steps, and add up the cost of their answers."""
        try:
            asked = next(steps)
            while True:
                answers = yield asked
                for ask, answer in zip(asked, answers, strict=True):
                    self._pay(ask, answer)
                asked = steps.send(answers)
        except StopIteration as end:
            whole: Kind = end.value
            return whole

    def _pay(self, ask: Ask, answer: Answer) -> None:
        calls = int(calls_model(ask.summarizer) and not isinstance(answer, Refused))
        if not isinstance(answer, Written):
            self.spent += Spent(calls)
            return
        self.spent += Spent(calls, answer.input_tokens or 0, answer.output_tokens or 0, answer.cost)
        for note in answer.notes:
            self._note(note)

    def _note(self, note: str) -> None:
        if note.startswith(LEAVES_OUT):  # the summary before this one is not sent
            self.spent = replace(self.spent, notes=tuple(one for one in self.spent.notes if LEAVES_OUT not in one))
        if note and note not in self._fresh:
            self._fresh.append(note)
        if note and note not in self.spent.notes:
            self.spent = replace(self.spent, notes=(*self.spent.notes, note))


def _count_escaped(count: Count, text: str) -> int:
    """Count a text of a summary as it will be written."""
    return count(escape_end_mark(text))


def _fallback_note(asked: Summarizer, why: str, other: Summarizer) -> str:
    """Write the note for the report that `asked` failed and `other` is asked instead."""
    if not calls_model(other):
        return f"the summarizer failed ({why}): the summary was made without a model"
    if reads_in_parts(asked):
        return f"a summary in parts failed ({why}): it was asked for in one"
    return f"the summarizer failed ({why}): its fallback was asked"


class FoldedMessage(NamedTuple):
    """The index of a message that is folded, and the marks of its `Utterance`."""

    at: int
    after_request: bool
    answer_stays: bool


class FoldedMessages:
    """Finds the folded messages of one plan. `messages` are the plan's messages, without the summary in them."""

    def __init__(self, plan: Plan, messages: Sequence[object]) -> None:
        """Collect the messages that are gone after each fold."""
        self.plan = plan
        self.messages = messages
        self.folds = [fold for fold in plan.folds if not fold.is_drop]
        self._gone: list[frozenset[int]] = []  # after each fold
        self._gone_before: list[frozenset[int]] = []  # before the request of each fold
        gone: set[int] = set()
        before, request = frozenset[int](), -1
        for fold in plan.folds:
            if fold.request != request:
                before, request = frozenset(gone), fold.request
            gone.update(fold.messages)
            if not fold.is_drop:
                self._gone.append(frozenset(gone))
                self._gone_before.append(before)

    @cached_property
    def requests(self) -> dict[int, str]:
        """The messages with the user's words, each with its request; "" for a summary of an earlier session."""
        entries, running = self.plan.transcript.entries, self.plan.running
        summary = running.at if running and running.rest is None else -1
        users = [at for at, one in enumerate(entries) if one.is_users]
        spoken = ((at, one) for at in users if at != summary for one in self.plain(at)[:1])
        return {at: one.user_request for at, one in spoken if one.user_words}

    @cached_property
    def context(self) -> tuple[Utterance, ...]:
        """The provider's own summary of the messages before, which stays: a model needs it to understand the rest."""
        entries = self.plan.transcript.entries
        at = newest_compaction(entries)
        return () if at is None else (Utterance(Speaker.MODEL, f"{BEFORE}\n{entries[at].compaction}"),)

    def first_request(self, start: int, stop: int, previous: str) -> str:
        """Return the user's first request if it is gone after fold `stop - 1`; "" if it stays or is unknown.

        Only `previous`, the summary before fold `start`, shows a request that was gone before. It is unknown if that
        summary may hold it without marking it, for lack of room.
        """
        if previous and sections.may_hold_request(previous):
            return ""
        first = next((at for at in self.requests if at not in self._gone_before[start]), -1)
        return self.requests[first] if first in self._gone[stop - 1] else ""

    def folded_messages(self, start: int, stop: int) -> Iterator[FoldedMessage]:
        """Yield the messages of some folds in order."""
        gone, entries = self._gone[stop - 1], self.plan.transcript.entries
        staying = [at for at in self.requests if at not in gone]
        before = -1
        for at in sorted(at for fold in self.folds[start:stop] for at in fold.messages):
            place = bisect_right(staying, before)
            request = min(staying[place], at) if place < len(staying) else at
            kept = (each for each in range(request - 1, before, -1) if each not in gone)
            last = next((entries[each] for each in kept), None) if request < at else None  # before that request
            is_answer = last is not None and last.speaker is Speaker.MODEL and not last.calls
            answer_stays = is_answer and request == staying[0]  # else it may not be the answer to what was folded
            yield FoldedMessage(at, request < at, answer_stays)
            before = at

    def utterances(self, start: int, stop: int) -> tuple[Utterance, ...]:
        """Convert the messages of some folds to utterances."""
        converted: list[Utterance] = []
        for at, is_after, answer_stays in self.folded_messages(start, stop):
            first, *others = self.plain(at)
            converted += (replace(first, after_request=is_after, answer_stays=answer_stays), *others)
        return tuple(converted)

    def plain(self, at: int) -> tuple[Utterance, ...]:
        """Return the utterances of a message, without marks."""
        return utterances([self.plan.transcript.entries[at]], self.plan.protections.is_answer)


# The message of the summary


def old_summary(plan: Plan) -> set[int]:
    """Return the index of the message that consists of the earlier summary only; empty if there is none."""
    running = plan.running
    return {running.at} if running and running.rest is None else set()


def summary_message(plan: Plan, answer: Answer, messages: Sequence[object], formats: Sequence[Format]) -> Any:
    """Create the message of the summary, or return the old message if nothing was added, or None."""
    folds = [fold for fold in plan.folds if not fold.is_drop]
    running = plan.running
    text = answer.text if folds and isinstance(answer, Written) else running.text if running else None
    if text is None:
        return None
    replaced = sum(len(fold.messages) for fold in folds) + (running.messages if running else 0)
    room = max((*(fold.room for fold in folds), *((running.room,) if running else ())))
    style = call_style(plan.folds, running, plan.transcript.entries)
    written_in = dominant_format(messages, formats)
    return written_in.message("user", wrap_summary(text, replaced, room, style))
