"""Choose the finished steps that may leave the prompt, and write the lines that replace them.

When results are cleared that the agent has used, their calls stay, with long arguments and the words beside them. Once
a step is old, these are worth no more than a line for each call. What may still be needed stays in view:

- the newest call of each tool, since models copy the shape of earlier calls; so a plan and a todo list stay too;
- reports of subagents, skills and instruction files;
- the newest text of a file that the agent wrote whole and has not read since.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from autoprune.conversation.edits import CustomReason, Fold
from autoprune.conversation.folded_steps import block
from autoprune.conversation.placeholders import append_mark, split_mark
from autoprune.conversation.transcript import Entry, ToolCall, ToolResult
from autoprune.facts import shell
from autoprune.facts.actions import Action
from autoprune.facts.calls import is_instruction_file, paths, tool_words
from autoprune.facts.file_access import edited_places, patched_files
from autoprune.facts.harness import SKILLS
from autoprune.facts.plain_text import one_line
from autoprune.planning.steps import Step, make_fold, neighbors
from autoprune.planning.view import Candidate, View
from autoprune.strategies.bills import Cut
from autoprune.strategies.cleared_texts import fitting_names
from autoprune.strategies.usage import CHANGING

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
        """Start before the first message."""
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
        """Return the steps behind message `first` that are `age` requests old and may go, if all their results may."""
        staying = {id(call) for calls in (self._newest, self._written) for call in calls.values()}
        return [
            step
            for step in view.steps()
            if step.messages.start > first
            and _is_old(step, view.request - step.request, age)
            and not any(id(call) in staying or _is_needed(call) for call in step.calls)
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
            yield made


def old_inputs(view: View, first: float, age: int, folds: Sequence[Fold]) -> Iterator[Candidate]:
    """Yield the long arguments behind message `first` of calls that are `age` requests old and are not folded now."""
    gone = {at for fold in folds for at in fold.messages}
    for each in view.candidates():
        is_behind = first < each.part.location.message not in gone
        if each.part is not each.result and is_behind and view.request - each.part.request >= age:
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
    words = result.text.split() if result.is_plain and result.tokens <= SHOWN_WHOLE else ()
    named = " ".join(words) if len(words) <= SHOWN_WORDS else ""
    named = named or ", ".join(fitting_names(names, tokens))
    places = edited_places(result.call)
    several = f", {places} places" if places > 1 else ""
    failed = ", failed" if has_failed else ""
    return f"{what(result)}{several}{failed}, {tokens:,} tokens{named and f': {named}'}"


def what(result: ToolResult) -> str:
    """Name the tool and the target of a call, or the files that a patch changed."""
    action = Action(result.call, result)
    if script := shell.essence(action.command):
        shorter = script if len(script) <= LONGEST_SUBJECT else LEADING_FOLDERS.sub("…/", script)
        return f"{action.tool} {shell.abbreviate(shorter, LONGEST_SUBJECT)}"
    patched = ", ".join(f"{does} {path.rpartition('/')[2]}" for does, path in patched_files(result.call))
    return f"{action.tool} {one_line(patched, LONGEST_SUBJECT) or action.subject(LONGEST_SUBJECT)}".strip()


LINE = re.compile(r"(?P<what>.+?)(?:, \d+ places)?(?:, failed)?, (?P<tokens>[\d,]+) tokens(?:: .*)?")


def read_line(text: str) -> tuple[str, int] | None:
    """Read the tool with its target, and the size of the result, from a line; None if it is no such line."""
    match = LINE.fullmatch(split_mark(text)[0])
    return (match["what"], int(match["tokens"].replace(",", ""))) if match else None


def _is_old(step: Step, age: int, least: float) -> bool:
    return age >= least and (age >= CHANGED_LONGER * least or not any(map(_changes, step.results)))


def _changes(result: ToolResult) -> bool:
    """Return whether a call created, wrote or edited a file."""
    return any(does in CHANGING for does, _ in Action(result.call, result).files())


def _is_needed(call: ToolCall) -> bool:
    """Return whether a call asked a subagent, loaded a skill or read instructions."""
    is_delegated = not DELEGATING.isdisjoint(tool_words(call.name))
    return is_delegated or call.name in SKILLS or any(map(is_instruction_file, paths(call)))
