"""Texts for large results: who writes them, what is asked, how they stand in the prompt. Asks nobody, keeps nothing.

What is planned for a large result is its cut. A text that somebody writes takes the place of the cut only if it is no
larger, so no decision depends on it.
"""

import json
from collections.abc import Callable, Generator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeAlias

from autoprune.conversation.edits import Reason, Replace
from autoprune.conversation.placeholders import Placeholder, append_mark, frame_text
from autoprune.conversation.transcript import Speaker, ToolResult
from autoprune.facts.plain_text import sendable
from autoprune.facts.utterances import Utterance
from autoprune.planning.plan import Plan
from autoprune.strategies.per_result import CUSTOM, SIMPLE, PerResult, cut, mark
from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Steps, Summarizer, calls_model, identity_of
from autoprune.summarizers.driver import call_safely, steps_of
from autoprune.summarizers.rendering import describe_call
from autoprune.summarizers.selection import own_summarizer, with_instructions
from autoprune.tokens import Count

LEAST_TEXT = 16  # tokens; a text of fewer says less than a cut
SLACKS = (0, 4, 16)  # tokens by which a text may have to be shorter: counts of joined texts need not add up
INSTRUCTIONS = """\
The record is the output of one tool. What you write stands in its place: keep what the agent needs of it to go on \
with what the user wants. Give key facts, figures and conclusions first, exact paths, names, line numbers, ids and \
error messages as they stand, and what came out: whether it worked, how many there are, what is missing. Plain text, \
no title."""

Together: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], list[Answer]]


@dataclass(frozen=True)
class Shortener:
    """Who writes the texts of large results: `summarizer`, None for nobody.

    `notes` are what the report says besides; a summarizer gets at most `hard_limit` tokens of a result, None for all.
    `is_quiet`: a result that is only cut is nothing to speak of.
    """

    summarizer: Summarizer | None = None
    hard_limit: int | None = None
    notes: tuple[str, ...] = ()
    is_quiet: bool = False

    @property
    def calls_model(self) -> bool:
        """Whether a model writes."""
        return self.summarizer is not None and calls_model(self.summarizer)

    def key(self, draft: "Draft") -> str:
        """Return what the text of a large result is known by: a hash of all that it is written from."""
        call = draft.result.call
        made = describe_call(call) if call else ""
        name = identity_of(self.summarizer) if self.summarizer else ""
        asked = json.dumps((name, self.hard_limit, draft.room, draft.request, draft.result.tool, made))
        return sha256(f"{asked}\n{draft.result.text}".encode("utf-8", "surrogatepass")).hexdigest()

    def steps(self, draft: "Draft") -> Steps:
        """Return the steps that ask for the text of a large result."""
        if self.summarizer is None:
            return _given(Failed("nobody was given who could write a summary"))
        if draft.room < LEAST_TEXT:
            return _given(Failed("a summary in so few tokens says nothing"))
        return steps_of(self.summarizer, self._brief(draft))

    def _brief(self, draft: "Draft") -> Brief:
        """Return what is asked: the call that made the result, and all of that as text.

        In words, since the results in a history are cut short for a summarizer.
        """
        text, count = draft.result.text, draft.placeholder.count
        if self.hard_limit is not None and count(text) > self.hard_limit:
            text = cut(text, self.hard_limit, count) or text
        call = (Utterance(Speaker.MODEL, "", calls=(draft.result.call,)),) if draft.result.call else ()
        return Brief((*call, Utterance(Speaker.TOOL, text)), "", draft.room, count, draft.request)


NOBODY = Shortener()


def shortener(strategy: object, llm: object) -> Shortener:
    """Return who writes the texts of large results, for a `PerResult` or a strategy with one in its field `results`."""
    results = strategy if isinstance(strategy, PerResult) else getattr(strategy, "results", None)
    if not isinstance(results, PerResult):
        return NOBODY
    notes = (results.off_reason,) if results.off_reason else ()
    if results.mode == SIMPLE:
        return Shortener(notes=notes)
    if results.mode == CUSTOM:
        return Shortener(results.function_summarizer, notes=notes)
    chosen = own_summarizer(results) or own_summarizer(strategy) or llm
    limit = results.hard_limit
    if callable(chosen):
        return Shortener(with_instructions(chosen, INSTRUCTIONS), limit, notes)
    # Who folds without a model does not expect one for results either.
    return Shortener(notes=notes, is_quiet=not isinstance(strategy, PerResult))


@dataclass(frozen=True)
class Draft:
    """A large result for which somebody is to write a text; until then `edit` puts its cut in its place.

    `request` is what the user wanted when it came.
    """

    edit: Replace
    result: ToolResult
    placeholder: Placeholder
    request: str

    @property
    def room(self) -> int:
        """Tokens that a text may have."""
        count = self.placeholder.count
        return count(self.edit.text) - count(self.framed("")) - SLACKS[1]

    def framed(self, text: str) -> str:
        """Return a text as it stands in place of the result, with a mark; in a text it holds nothing that ends it."""
        head = mark(self.result.tokens)
        known = self.edit.mark if self.edit.mark in self.edit.text else ""  # a short cut has no room for it
        text = frame_text(self.result, text)
        if self.result.location.start is None or self.result.kind != "xml" or "<content>" in text:
            whole = f"{head}\n{text}"
        else:
            whole = f"\n<message>{head}</message>\n<content>{text}</content>\n"
        return append_mark(whole, known, gap="\n")

    def finished(self, text: str) -> Replace | None:
        """Return the edit with a text that somebody wrote; None if it would take more tokens than the cut."""
        whole = self.framed(text)
        saved = self.placeholder.saves(self.result, whole)
        fits = saved >= self.edit.saved and self.placeholder.count(whole) <= self.placeholder.count(self.edit.text)
        return replace(self.edit, text=whole, saved=saved) if fits else None

    @property
    def left_cut(self) -> Replace:
        """The edit where nobody wrote a text."""
        return replace(self.edit, reason=Reason.CLAMPED)

    def fitted(self, text: str) -> str | None:
        """Return a text as it is kept: tidy, and cut to the room if it must be; None if nothing of it fits."""
        text = tidy(text)
        if not text or self.finished(text):
            return text or None
        rooms = (self.room - slack for slack in SLACKS if self.room > slack)
        found = (cut(text, room, self.placeholder.count) for room in rooms)
        return next((each for each in found if each and each.strip() and self.finished(each)), None)


def drafts(plan: Plan, request: Callable[[int], str]) -> list[Draft]:
    """Return the large results of a plan; `request` says what the user wanted last before a message."""
    known = ((edit, edit.part) for edit in plan.edits if edit.reason is Reason.SHORTENED)
    return [
        Draft(edit, part, plan.placeholder, request(part.location.message))
        for edit, part in known
        if isinstance(part, ToolResult)
    ]


def tidy(text: str) -> str:
    """Return a text that can be sent, without the white space around it."""
    return sendable(text).strip()


def together(questions: Sequence[Steps]) -> Together:
    """Return the answers that the steps of several summarizers come to, asked at the same time."""
    answers: dict[int, Answer] = {}
    given: dict[int, Sequence[Answer] | None] = dict.fromkeys(range(len(questions)))
    while given:
        asked: dict[int, Sequence[Ask]] = {}
        for number, known in given.items():
            try:
                asked[number] = next(questions[number]) if known is None else questions[number].send(known)
            except StopIteration as end:
                answers[number] = end.value
        if asked:
            told = iter((yield [ask for asks in asked.values() for ask in asks]))
        given = {number: [next(told) for _ in asks] for number, asks in asked.items()}
    return [answers[number] for number in range(len(questions))]


def _given(answer: Answer) -> Steps:
    """Return an answer without asking anybody."""
    yield from ()
    return answer


REMEMBERED = 4_096  # texts and notes in a pruner's memo
FAILURE = " failed"  # behind what a text would be known by: why there is none
NOTES = " notes"  # behind a text's hash: what the report says of it
BETWEEN = "\0"  # two notes


@dataclass
class TextStore:
    """Keeps texts by the hash of what they were written from: a model's in `store`, all others in `memo`.

    `note` is told what the report is to say. What went wrong while a text was written stands in the memo beside it, so
    that a later prune that finds the text reports the same as the one that wrote it.
    """

    store: MutableMapping[str, str]
    memo: MutableMapping[str, str]
    count: Count
    note: Callable[[str], None]

    def model_text(self, key: str) -> str | None:
        """Return a text that a model wrote; None if there is none."""
        text = self._tried(self.store.get, key)
        return text if isinstance(text, str) and text.strip() else None

    def plain_text(self, key: str) -> str | None:
        """Return a text that was made without a model, or in place of a model's; None if there is none."""
        return self.memo.get(key)

    def keep(self, key: str, text: str, *, is_model: bool) -> str:
        """Keep a text and return the one that is known from now on: the first, where another thread was faster."""
        if not is_model:
            self._remember(key, text)
            return text
        first = self._tried(self.store.setdefault, key, text)
        return first if isinstance(first, str) and first.strip() and self.count(first) <= self.count(text) else text

    def failed(self, key: str, why: str) -> None:
        """Remember that there is no text, and why."""
        self._remember(key + FAILURE, why)

    def failure(self, key: str) -> Failed | None:
        """Return why there is no text; None if that was never tried."""
        why = self.memo.get(key + FAILURE)
        return None if why is None else Failed(why)

    def annotate(self, text: str, notes: Sequence[str]) -> None:
        """Remember what is to be said of a text."""
        if notes:
            self._remember(_notes_of(text), BETWEEN.join(notes))

    def tell(self, text: str) -> None:
        """Say again what is to be said of a text."""
        for note in self.memo.get(_notes_of(text), "").split(BETWEEN):
            self.note(note)

    def _remember(self, key: str, text: str) -> None:
        if len(self.memo) >= REMEMBERED:
            self.memo.clear()
        self.memo[key] = text

    def _tried(self, function: Callable[..., object], *arguments: str) -> object:
        """Return what the caller's mapping gives; None if it fails, which the report says."""
        given = call_safely(function, *arguments)
        if isinstance(given, Failed):
            self.note(f"the store failed ({given.why})")
            return None
        return given


def _notes_of(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest() + NOTES
