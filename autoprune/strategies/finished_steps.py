"""The texts with which `cache_aware` replaces results and finished steps, also in output that is passed back.

A placeholder names the tool, its target, the result's size, some of its fresh names, and the request at which it was
written; of a picture it repeats the words beside it instead, if they are few:

    [Cleared at request 12: read src/app.py, 2,310 tokens. Names in it: load_settings, AppError]
    [Cleared at request 12: computer, 1,387 tokens. It showed: the order page with one row selected]

When results are cleared that the agent has used, their calls stay, with long arguments and the words beside them. Once
a step is old, these are worth no more than a line for each call. What may still be needed stays in view:

- the newest call of each tool, since models copy the shape of earlier calls; so a plan and a todo list stay too;
- reports of subagents, skills and instruction files, and answers to the user through a tool;
- the newest text of a file that the agent wrote whole and has not read since.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from typing import TypeAlias

from autoprune.conversation.edits import GAP, HEAD, CustomReason, Fold, append_mark, frame_text, split_mark
from autoprune.conversation.folded_steps import FoldedSteps, block
from autoprune.conversation.messages import one_line
from autoprune.conversation.transcript import Entry, ToolCall, ToolResult
from autoprune.facts import shell
from autoprune.facts.actions import CHANGING, NAMED, Action, edited_places, editor_command, patched_files
from autoprune.facts.calls import SECRET, arguments, is_instruction_file, is_recall, paths, target, tool_words
from autoprune.facts.outcomes import FAILED, HOW, NOT_RUN, is_cancellation
from autoprune.facts.utterances import ANSWERING, SKILLS
from autoprune.planning.steps import Step, make_fold, neighbors
from autoprune.planning.view import Candidate, View
from autoprune.strategies.bills import Cut

# Placeholders: the more tokens a result has, the more tokens of names, within bounds.
NAMES_SHARE, LEAST_NAMES, MOST_NAMES = 0.03, 8, 150
CHARACTERS_PER_TOKEN = 3.5  # of names
LONGEST_TARGET = 120  # characters
ENDING = re.compile(rf", (?:{HOW})\Z")
ABOUT = rf"(?:{re.escape(NAMED)}|\. It showed: )[^\n]*"
PLACEHOLDER = re.compile(rf"\[Cleared at request (\d{{1,9}}): ([^\n]*), ([\d,]+) tokens(?:{ABOUT})?\]")
LABEL = re.compile(r"\[\w+\]")  # stands for a picture among the words of a result


def placeholder(candidate: Candidate, request: int, fresh: Iterable[str], *, has_failed: bool) -> str:
    """Write the placeholder of a result: the tool, its target, its size, and some of its `fresh` names."""
    tokens = candidate.result.tokens
    outcome = _outcome(candidate.result, has_failed=has_failed)
    what = _what(candidate.result, candidate.target) + outcome
    names = chain(Action(candidate.result.call, candidate.result).returned_ids, fresh)
    named = "" if outcome.endswith(NOT_RUN) else ", ".join(fitting_names(names, tokens))
    about = _caption(candidate.result) or (named and NAMED + named)
    return f"[Cleared at request {request}: {what}, {tokens:,} tokens{about}]"


def _caption(result: ToolResult) -> str:
    """Repeat the words beside a picture; "" if there are none or too many, or if they read like a placeholder."""
    words = [] if result.is_plain else [word for word in result.text.split() if not LABEL.fullmatch(word)]
    caption = " ".join(words)
    fits = len(caption) <= _room(result.tokens) and " tokens" not in caption
    return f". It showed: {caption}" if caption and fits else ""


def _what(result: ToolResult, target: str) -> str:
    """Name a call: the tool, and the beginning of its target."""
    shown = target if len(target) <= LONGEST_TARGET else f"{target[: LONGEST_TARGET - 1]}…"
    return f"{_tool_name(result)} {shown}".strip()


def _outcome(result: ToolResult, *, has_failed: bool) -> str:
    """Say that a call failed, or was not run because a parallel one had failed; "" for other calls."""
    return f", {NOT_RUN if is_cancellation(result.text) else FAILED}" if has_failed else ""


def short_placeholder(result: ToolResult, request: int, *, has_failed: bool) -> str:
    """Write the shortest placeholder of a result: only the tool, the size and the ids that `Action` finds in it."""
    return _short(result, str(request), _outcome(result, has_failed=has_failed), result.tokens)


def read_placeholder(result: ToolResult) -> re.Match[str] | None:
    """Match a placeholder that this module wrote, with its request and size; None for any other text.

    A text that names another call is the output of a tool that shows such text. If the payload was JSON in a text, the
    placeholder is a JSON string. A placeholder may carry the mark of an archive.
    """
    if "[Cleared at request " not in result.text:
        return None
    match = PLACEHOLDER.fullmatch(split_mark(result.text)[0].strip().strip('"'))
    called = (_what(result, ""), _what(result, target(result.call)))
    known = {frame_text(result, each).strip('"') for each in called}
    return match if match and ENDING.sub("", match[2]).strip('"') in known else None


def without_names(result: ToolResult, known: re.Match[str], tokens: int) -> str:
    """Shorten the placeholder of a result that was cleared before, as `short_placeholder`. The archive's id is kept."""
    how = found[0] if (found := ENDING.search(known[2])) else ""
    text = _short(result, known[1], how, tokens)
    id = split_mark(result.text)[1]
    return f"{text}{GAP}{HEAD}{id}]" if id else text


def _short(result: ToolResult, request: str, how: str, tokens: int) -> str:
    ids = ", ".join(fitting_names(Action(result.call, result).returned_ids, tokens))
    return f"[Cleared at request {request}: {_tool_name(result)}{how}, {tokens:,} tokens{ids and NAMED + ids}]"


def fitting_names(names: Iterable[str], tokens: int) -> Iterator[str]:
    """Yield as many names as fit into the placeholder of a result with `tokens` tokens."""
    room = _room(tokens)
    for name in names:
        room -= len(name) + 2
        if room < 0:
            return
        yield name


def _room(tokens: int) -> float:
    """Return how many characters a placeholder may have for what was in a result with `tokens` tokens."""
    return CHARACTERS_PER_TOKEN * min(max(NAMES_SHARE * tokens, LEAST_NAMES), MOST_NAMES)


def _tool_name(result: ToolResult) -> str:
    """Return the name of a result's tool, on one line."""
    return " ".join(result.tool.split())[:LONGEST_TARGET]


CHANGED_LONGER = 4  # times the age for steps that changed a file
LEAST_SAVED = 20  # tokens that folding a step saves
SHOWN_WHOLE, SHOWN_WORDS = 20, 6  # the most tokens and words of a result that stands in its line as a whole
LONGEST_SUBJECT = 60  # characters of a call's target in its line
DELEGATING = frozenset(("agent", "agents", "subagent", "task", "delegate"))  # words in names of tools
WRITING = frozenset(("created", "written"))  # verbs of `Action.files`
LEADING_FOLDERS = re.compile(r"(?<![\w.~/-])~?/(?:[\w.@+-]+/){2,20}(?=[\w.@+-]+/)")  # all but the last two names
REASON = CustomReason("finished step", "the step was finished, and its results were cleared or small")


class FinishedSteps:
    """Tracks in one walk which steps have to stay, and describes the others."""

    def __init__(self) -> None:
        self._newest: dict[str, ToolCall] = {}  # by tool
        self._written: dict[str, ToolCall] = {}  # the newest text of a file, by path, until it is read

    def observe(self, entry: Entry) -> None:
        """Read one more message."""
        self._newest.update((call.name, call) for call in entry.calls)
        for result in entry.results:
            if result.call is None:
                continue
            for does, path in Action(result.call, result).files():
                if does in WRITING:
                    self._written[path] = result.call
                elif does == "read":
                    self._written.pop(path, None)

    def choose(self, view: View, first: int, age: float, may_go: Callable[[ToolResult], bool]) -> list[Step]:
        """Return the steps after message `first` that are `age` requests old and may go, if all their results may."""
        staying = {id(call) for calls in (self._newest, self._written) for call in calls.values()}
        return [
            step
            for step in view.steps()
            if step.messages.start > first
            and _is_old(step, view.request - step.request, age)
            and not any(id(call) in staying or _gives_guidance(call) for call in step.calls)
            and all(map(may_go, step.results))
        ]


def fold(steps: Sequence[Step], request: int, describe: Callable[[ToolResult], str]) -> Iterator[Fold]:
    """Yield a fold for each run of neighboring steps that are worth it. `describe` writes the line of a result.

    With an archive, each line ends with the id that recalls the result.
    """
    marked = ((step.request, zip(step.results, step.marks, strict=True)) for step in steps)
    lines = {request: [append_mark(describe(result), mark) for result, mark in known] for request, known in marked}
    worth = [step for step in steps if step.tokens - _count(step)("\n- ".join(lines[step.request])) >= LEAST_SAVED]
    for run in neighbors(worth):
        text = block(run[0].request, run[-1].request, request, [each for step in run for each in lines[step.request]])
        made = make_fold(run, text, REASON, _count(run[0]))
        if made.saved - made.room >= LEAST_SAVED:
            yield replace(made, text=text)  # the walk adds the blocks in the messages


def old_inputs(view: View, first: float, age: int, folds: Sequence[Fold]) -> Iterator[Candidate]:
    """Yield the long arguments after message `first` of calls that are `age` requests old and are not folded now."""
    gone = {at for fold in folds for at in fold.messages}
    for each in view.candidates():
        is_after = first < each.part.location.message not in gone
        if each.part is not each.result and is_after and view.request - each.part.request >= age:
            yield each


def cut_by(folds: Sequence[Fold]) -> Cut:
    """Return what folds change in the prompt. The text of the first may join the message before it."""
    first = min((each.messages[0] - 1 for each in folds), default=inf)
    return Cut(first, sum(each.saved - each.room for each in folds))


def folds_text(folds: Sequence[Fold], known: int) -> str:
    """Return the number of folded messages, and the tokens saved beyond those that are `known`, as text."""
    messages = sum(len(each.messages) for each in folds)
    return f"{messages:,} messages of finished steps folded, {cut_by(folds).saves - known:,} more saved"


def _count(step: Step) -> Callable[[str], int]:
    return step.results[0].count


def line(result: ToolResult, tokens: int, names: Iterable[str], *, has_failed: bool) -> str:
    """Describe a call on one line: the tool, its target, the size of its result, and some of its `names`.

    An edit of several places says how many.

    A short result stands there as a whole, such as a number, a hash or "ok". Longer texts would be a way for what a
    tool returns to speak in the user's message.
    """
    outcome = _outcome(result, has_failed=has_failed)
    words = result.text.split() if result.is_plain and result.tokens <= SHOWN_WHOLE else ()
    named = " ".join(words) if len(words) <= SHOWN_WORDS and not SECRET.search(result.text) else ""
    names = chain(Action(result.call, result).returned_ids, names)
    named = "" if outcome.endswith(NOT_RUN) else named or ", ".join(fitting_names(names, tokens))
    places = edited_places(result.call)
    several = f", {places} places" if places > 1 else ""
    return f"{what(result)}{several}{outcome}, {tokens:,} tokens{named and f': {named}'}"


def what(result: ToolResult) -> str:
    """Name the tool and the target of a call, or the files that a patch changed, and the command of a text editor."""
    action = Action(result.call, result)
    if script := shell.essence(action.command):
        shorter = script if len(script) <= LONGEST_SUBJECT else LEADING_FOLDERS.sub("…/", script)
        return f"{action.tool} {shell.abbreviate(shorter, LONGEST_SUBJECT)}"
    patched = ", ".join(f"{does} {path.rpartition('/')[2]}" for does, path in patched_files(result.call))
    named = one_line(patched, LONGEST_SUBJECT) or action.subject(LONGEST_SUBJECT)
    return " ".join(filter(None, (action.tool, editor_command(result.call), named)))


LINE = re.compile(rf"(?P<what>.+?)(?:, \d+ places)?(?:, (?:{HOW}))?, (?P<tokens>[\d,]+) tokens(?:: .*)?")


def read_line(text: str) -> tuple[str, int] | None:
    """Read the tool with its target, and the size of the result, from a line; None if it is no such line."""
    match = LINE.fullmatch(split_mark(text)[0])
    return (match["what"], int(match["tokens"].replace(",", ""))) if match else None


def _is_old(step: Step, age: int, least: float) -> bool:
    return age >= least and (age >= CHANGED_LONGER * least or not any(map(_changes, step.results)))


def _changes(result: ToolResult) -> bool:
    """Return whether a call created, wrote or edited a file."""
    return any(does in CHANGING for does, _ in Action(result.call, result).files())


def _gives_guidance(call: ToolCall) -> bool:
    """Return whether a call asked a subagent, loaded a skill, read instructions or answered the user."""
    is_delegated = not DELEGATING.isdisjoint(tool_words(call.name))
    return is_delegated or call.name in SKILLS | ANSWERING or any(map(is_instruction_file, paths(call)))


COMMENTS = frozenset(("description", "explanation", "reason"))  # arguments that differ between equal calls
FOLDED = "folded"  # in place of a tool's name, for fetches of which only the line is known
LEAST_CHARACTERS = 2  # of a block, for each token: more tokens than it has

Key: TypeAlias = tuple[str, str]  # a tool and its arguments, which identify a fetch


class Gone:
    """The results and steps that are gone at a point of a walk. Results are known by their identity."""

    def __init__(self, *, folds_steps: bool) -> None:
        self._decided = [-1]  # the requests at which something was cleared, in order
        self.gone: dict[int, str] = {}  # the shortest placeholders of cleared results
        self.fetched_again: set[int] = set()
        self._sizes: dict[int, int] = {}  # the tokens of results that came back as placeholders
        self._cleared_at: dict[Key, int] = {}  # the request at which the result of a fetch was first cleared
        self._marked: dict[int, list[ToolResult]] = {}  # placeholders of an earlier walk, by the request in them
        self._folds_steps = folds_steps

    def observe(self, entry: Entry) -> tuple[dict[ToolResult, int], list[tuple[int, int]]]:
        """Read one more message. Return the sizes of results that came back as placeholders, and what was saved.

        The latter are requests of the earlier walk, each with the tokens that it saved here.
        """
        saved = [self._read_block(each) for each in entry.folded]
        sizes: dict[ToolResult, int] = {}
        for result in entry.results:
            if match := read_placeholder(result):
                request, size = int(match[1]), int(match[3].replace(",", ""))
                self._marked.setdefault(request, []).append(result)
                self.note_decision(request)
                self.gone[id(result)] = without_names(result, match, size)
                self.note_cleared(result, request)
                self._sizes[id(result)] = sizes[result] = size
                saved.append((request, max(0, size - result.tokens)))
            elif is_recall(result.call) or self._was_fetched(result):
                self.fetched_again.add(id(result))
        return sizes, saved

    def note_decision(self, request: int) -> None:
        """Record that something was cleared or folded at a request."""
        at = bisect_left(self._decided, request)
        self._decided[at : at + 1] = sorted({request, *self._decided[at : at + 1]})

    def newest(self, last: int) -> int:
        """Return the newest request, up to the `last` one, at which something was cleared; -1 if there is none.

        Higher numbers are those of a conversation that has lost its first messages since, or forged.
        """
        return self._decided[bisect_right(self._decided, last) - 1]

    def size(self, result: ToolResult) -> int:
        """Return the tokens of a result, also if it came back as a placeholder."""
        return self._sizes.get(id(result), result.tokens)

    def marked_at(self, request: int) -> Iterable[ToolResult]:
        """Return the placeholders that an earlier walk wrote at a request, once."""
        return self._marked.pop(request, ())

    def note_cleared(self, result: ToolResult, request: int) -> None:
        """Remember the fetch whose result was cleared at a request, to recognize a repeated fetch."""
        self._note_fetch(_key(result), request)

    def note_folded(self, result: ToolResult, request: int) -> None:
        """Remember the fetch whose step was folded at a request."""
        self._note_fetch((FOLDED, what(result)), request)
        self.gone[id(result)] = ""

    def _read_block(self, folded: FoldedSteps) -> tuple[int, int]:
        """Read a block of steps that an earlier walk folded. Return its request and at least the tokens it saved."""
        self.note_decision(folded.request)
        calls = [*filter(None, map(read_line, folded.lines))]
        for called, _ in calls:
            self._note_fetch((FOLDED, called), folded.request)
        return folded.request, max(0, sum(size for _, size in calls) - len(folded.text) // LEAST_CHARACTERS)

    def _note_fetch(self, key: Key, request: int) -> None:
        self._cleared_at[key] = min(request, self._cleared_at.get(key, request))

    def _was_fetched(self, result: ToolResult) -> bool:
        """Return whether a result was fetched after an equal fetch was cleared, or one with the same line folded."""
        keys = (_key(result), *([(FOLDED, what(result))] if self._folds_steps else []))
        return result.request >= min(self._cleared_at.get(key, inf) for key in keys)


def _key(result: ToolResult) -> Key:
    """Return a key for the call of a result. A repeated call has the same key."""
    if result.call is None:
        return result.tool, str(id(result))
    values = {name: value for name, value in arguments(result.call).items() if name not in COMMENTS}
    return result.tool, repr(values or result.call.arguments)
