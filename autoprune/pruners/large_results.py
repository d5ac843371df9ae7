"""The texts that replace large results: which summarizer writes them, from which brief, and in which form.

This module calls no model. The plan replaces a large result by a cut of it. A text from a summarizer replaces the cut
only if it is no larger, so no decision of the plan depends on that text.
"""

import json
from collections.abc import Callable, Generator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeAlias, TypeVar

from autoprune.conversation.archive import store_once
from autoprune.conversation.edits import Placeholder, Reason, Replace, append_mark, frame_text
from autoprune.conversation.messages import sendable
from autoprune.conversation.transcript import Speaker, ToolResult
from autoprune.facts.utterances import Utterance
from autoprune.planning.plan import Plan
from autoprune.strategies.per_result import CUSTOM, SIMPLE, PerResult, cut, mark
from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Steps, Summarizer, calls_model, identity_of
from autoprune.summarizers.driver import call_safely, steps_of
from autoprune.summarizers.rendering import describe_call
from autoprune.summarizers.selection import own_summarizer, with_instructions
from autoprune.tokens import Count, TextCache

LEAST_TEXT = 16  # tokens; a shorter text says less than a cut
SLACKS = (0, 4, 16)  # tokens to leave free, tried in this order, since counts of joined texts may not add up
INSTRUCTIONS = """\
The record is the output of one tool. What you write stands in its place: keep what the agent needs of it to go on \
with what the user wants. Give key facts, figures and conclusions first, exact paths, names, line numbers, ids and \
error messages as they stand, and what came out: whether it worked, how many there are, what is missing. Plain text, \
no title."""

Kind = TypeVar("Kind")
Asking: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Kind]


@dataclass(frozen=True)
class Shortener:
    """The summarizer of large results; without a summarizer, large results are only cut.

    `hard_limit` is the most tokens of a result that the summarizer gets (None: no limit). `notes` are added to the
    report. With `is_quiet`, the report does not mention results that are only cut.
    """

    summarizer: Summarizer | None = None
    hard_limit: int | None = None
    notes: tuple[str, ...] = ()
    is_quiet: bool = False

    @property
    def calls_model(self) -> bool:
        """Whether a model writes the texts."""
        return self.summarizer is not None and calls_model(self.summarizer)

    def key(self, draft: "Draft") -> str:
        """Compute the cache key of a large result's text: a hash of everything that the text is written from."""
        call = draft.result.call
        made = describe_call(call) if call else ""
        name = identity_of(self.summarizer) if self.summarizer else ""
        asked = json.dumps((name, self.hard_limit, draft.room, draft.request, draft.result.tool, made))
        return sha256(f"{asked}\n{draft.result.text}".encode("utf-8", "surrogatepass")).hexdigest()

    def steps(self, draft: "Draft") -> Steps:
        """Ask the summarizer for the text of a large result."""
        if self.summarizer is None:
            return Failed("no summarizer is configured")
        if draft.room < LEAST_TEXT:
            return Failed("there are not enough tokens for a useful summary")
        return (yield from steps_of(self.summarizer, self._brief(draft)))

    def _brief(self, draft: "Draft") -> Brief:
        """Create the brief for a large result: its call and its text.

        The result is passed as an utterance, since summarizers shorten results in a history.
        """
        text, count = draft.result.text, draft.placeholder.count
        if self.hard_limit is not None and count(text) > self.hard_limit:
            text = cut(text, self.hard_limit, count) or text
        call = (Utterance(Speaker.MODEL, "", calls=(draft.result.call,)),) if draft.result.call else ()
        return Brief((*call, Utterance(Speaker.TOOL, text)), "", draft.room, count, draft.request)


NOBODY = Shortener()


def shortener(strategy: object, llm: object) -> Shortener:
    """Choose the summarizer of large results, for a `PerResult` or a strategy with one in its field `results`."""
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
    # Users who fold without a model do not expect one for results either, so the report does not mention it.
    return Shortener(notes=notes, is_quiet=not isinstance(strategy, PerResult))


@dataclass(frozen=True)
class Draft:
    """A large result that a summarizer may write a text for. Until then, `edit` replaces the result by its cut.

    `request` is the user's last request before the result.
    """

    edit: Replace
    result: ToolResult
    placeholder: Placeholder
    request: str

    @property
    def room(self) -> int:
        """The maximum tokens of the text."""
        count = self.placeholder.count
        return count(self.edit.text) - count(self.frame("")) - SLACKS[1]

    def frame(self, text: str) -> str:
        """Format `text` as the replacement of the result, below a mark.

        It is escaped if the result is part of a message's text.
        """
        head = mark(self.result.tokens)
        kept_mark = self.edit.mark if self.edit.mark in self.edit.text else ""  # a short cut has no room for it
        text = frame_text(self.result, text)
        if self.result.location.start is None or self.result.kind != "xml" or "<content>" in text:
            whole = f"{head}\n{text}"
        else:
            whole = f"\n<message>{head}</message>\n<content>{text}</content>\n"
        return append_mark(whole, kept_mark, gap="\n")

    def edit_with(self, text: str) -> Replace | None:
        """Create the edit with a summarizer's text; None if the text would take more tokens than the cut."""
        whole = self.frame(text)
        saved = self.placeholder.saves(self.result, whole)
        fits = saved >= self.edit.saved and self.placeholder.count(whole) <= self.placeholder.count(self.edit.text)
        return replace(self.edit, text=whole, saved=saved) if fits else None

    def fit(self, text: str) -> str | None:
        """Tidy a text, and cut it to the room if necessary; None if not even a cut fits."""
        text = tidy(text)
        if not text or self.edit_with(text):
            return text or None
        rooms = (self.room - slack for slack in SLACKS if self.room > slack)
        cuts = (cut(text, room, self.placeholder.count) for room in rooms)
        return next((each for each in cuts if each and each.strip() and self.edit_with(each)), None)


def drafts(plan: Plan, request: Callable[[int], str]) -> list[Draft]:
    """List the large results of a plan. `request` returns the user's last request before a message."""
    return [
        Draft(edit, part, plan.placeholder, request(part.location.message))
        for edit in plan.edits
        if edit.reason is Reason.SHORTENED and isinstance(part := edit.part, ToolResult)
    ]


def tidy(text: str) -> str:
    """Make a text safe to send, and strip surrounding white space."""
    return sendable(text).strip()


def run_together(questions: Sequence[Steps]) -> Asking[list[Answer]]:
    """Run the steps of several summarizers at the same time, and return their answers in order."""
    answers: dict[int, Answer] = {}
    received: dict[int, Sequence[Answer] | None] = dict.fromkeys(range(len(questions)))
    while received:
        asked: dict[int, Sequence[Ask]] = {}
        for number, replied in received.items():
            try:
                asked[number] = next(questions[number]) if replied is None else questions[number].send(replied)
            except StopIteration as end:
                answers[number] = end.value
        if asked:
            replies = iter((yield [ask for asks in asked.values() for ask in asks]))
        received = {number: [next(replies) for _ in asks] for number, asks in asked.items()}
    return [answers[number] for number in range(len(questions))]


TEXT_CHARACTERS = 4_000_000  # of texts that a pruner remembers at least
FAILURE = " failed"  # suffix of a text's key: the reason why there is no text
NOTES = " notes"  # suffix of a text's hash: the notes about the text
BETWEEN = "\0"  # separates notes


@dataclass
class TextStore:
    """A cache of texts by the hash of their input: texts of models in `store`, all others in `memo`.

    `note` adds a note to the report. The memo also keeps the notes about each text, so that a later prune that finds
    the text reports the same notes.
    """

    store: MutableMapping[str, str]
    memo: TextCache[str]
    count: Count
    note: Callable[[str], None]

    def model_text(self, key: str) -> str | None:
        """Look up a text that a model wrote; None if there is none."""
        text = self._call_store(self.store.get, key)
        return text if isinstance(text, str) and text.strip() else None

    def plain_text(self, key: str) -> str | None:
        """Look up a text that was written without a model, or by a fallback; None if there is none."""
        return self.memo.get(key)

    def keep(self, key: str, text: str, *, is_model: bool) -> str:
        """Store a text and return the text to use: another thread's text if it was stored first."""
        if not is_model:
            self.memo.keep(key, text)
            return text
        # If two threads write the same text, both use the first, so that the prompt stays the same.
        first = self._call_store(store_once, self.store, key, text)
        return first if isinstance(first, str) and first.strip() and self.count(first) <= self.count(text) else text

    def keep_failure(self, key: str, why: str) -> None:
        """Remember the reason why there is no text."""
        self.memo.keep(key + FAILURE, why)

    def failure(self, key: str) -> Failed | None:
        """Return the reason why there is no text; None if no attempt to write it has failed."""
        why = self.memo.get(key + FAILURE)
        return None if why is None else Failed(why)

    def annotate(self, text: str, notes: Sequence[str]) -> None:
        """Remember the notes about a text."""
        if notes:
            self.memo.keep(_notes_of(text), BETWEEN.join(notes))

    def repeat_notes(self, text: str) -> None:
        """Add the remembered notes about a text to the report."""
        for note in (self.memo.get(_notes_of(text)) or "").split(BETWEEN):
            self.note(note)

    def _call_store(self, function: Callable[..., object], *arguments: object) -> object:
        """Call a function on the caller's mapping. If the call fails, add a note to the report and return None."""
        result = call_safely(function, *arguments)
        if isinstance(result, Failed):
            self.note(f"the store failed ({result.why})")
            return None
        return result


def _notes_of(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest() + NOTES
