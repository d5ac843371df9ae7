"""Find out which results the agent has used, from what it has written. Decides nothing.

An agent reads until it knows enough, and then it writes. What it writes uses up the results before it in proportion to
its length, 40 tokens of results for each character. Plans use up nothing, because they come before the work.

*What was written about.* A long text first uses up the results that share the most distinctive words, names and numbers
with it. Code uses up only the results of work, such as source files, searches and the output of commands. Prose, such
as a report or an answer to the user, also uses up documents and data. So an agent that reads papers, writes scripts and
then writes a report has the papers in view until the report.

*The rest.* Results that nothing was written about are used up together, as soon as the texts are long enough for all of
them: the agent has turned to something else. Single short texts, such as a note, therefore use up nothing.

*Cleared results.* A walk over pruned output that is passed back does not have the text of a cleared result. So no text
is compared with it, not even one that was written before it was cleared: that one is taken to be about the results that
were cleared since. When results are cleared, everything is worked out again in this way.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from autoprune.conversation.transcript import ToolCall, ToolResult
from autoprune.facts.actions import Action
from autoprune.facts.calls import argument_texts, tool_words

TOKENS_PER_CHARACTER = 40  # of results that a written character uses up
QUERY_TOKENS = 3  # the same for short scripts, which are queries, for code and for a text about other documents
FREE_PROSE = 300  # characters of prose that use up nothing: a note, a question
LONG_CODE, LONG_PROSE = 1_500, 800  # characters; shorter texts share words with results by chance
LEAST_SHARED = 2  # distinctive words that a text shares with a result that it is about
BY_CHANCE = 0.25  # of the most words that a result shares: with fewer, the text is not about the result
COMMON = 4  # results; a word in so many is not distinctive
MOST_COMPARED = 4  # texts that each result is compared with, so that the cost stays linear
LEAST_WRITING = 1_000  # characters of arguments: fewer are a query, more are the agent's text, such as a report
CHANGING = frozenset(("created", "written", "edited"))  # verbs of `Action.files`
GRAM = 4  # characters of a script without spaces that count as a word
WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"  # Thai to Khmer, kana, Han
NUMBER = r"\d{1,3}(?:[,'_\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
WORD = re.compile(
    rf"(?P<number>{NUMBER})|(?P<run>[{WITHOUT_SPACES}]{{{GRAM},}})|[^\W\d{WITHOUT_SPACES}][^\W{WITHOUT_SPACES}]{{3,}}"
)
LEAST_DIGITS = 4  # of a number; shorter ones are in a text by chance
SEPARATORS = str.maketrans("", "", ",'_\u00a0\u202f")  # in numbers
NO_WORDS: Set[str] = frozenset()
PROSE_TYPES = "md mdx markdown rst txt tex adoc org html htm docx rtf"  # extensions
CODE_TYPES = (  # of source code and of what configures it; any other file is a document or data
    "py pyi js jsx mjs cjs ts tsx go rs java kt scala rb php swift c h cc cpp hpp cs m mm sh bash zsh ps1 lua pl r jl "
    "ex exs erl hs ml clj dart zig sql css scss vue svelte tf proto gradle toml yaml yml lock mod sum cfg mk cmake"
)
PROSE, CODE = frozenset(PROSE_TYPES.split()), frozenset(CODE_TYPES.split())
# Commands that print what a task is about: a diff under review, an issue.
MATERIAL = re.compile(r"\bgit\b[^|;&\n]*? (?:diff|show)\b|\bgh (?:issue|pr) (?:view|diff)\b")
SEARCHES = frozenset(("grep", "glob", "ls", "list", "search", "find"))  # words in the names of tools
WEB = frozenset(("web", "fetch", "browser", "page"))
PLANS = frozenset(("todo", "todos", "todowrite", "todoread", "plan", "think", "thinking", "sequentialthinking"))
TASKS = frozenset(("create", "update", "list", "get", "add", "set"))  # beside "task" in a tool's name


class AgentText(NamedTuple):
    """A text of the agent in one call or answer, and the tokens of work that it uses up."""

    text: str
    is_prose: bool
    tokens: float


class _Read(NamedTuple):
    """A result that the agent read, and the tokens that it has or had."""

    result: ToolResult
    tokens: int
    is_document: bool


@dataclass(eq=False)
class _Pool:
    """Unused results of one kind, oldest first, with the tokens that no text has used up yet."""

    left: dict[ToolResult, float] = field(default_factory=dict)
    total: float = 0.0
    room: float = 0.0  # tokens that texts may still use up

    def hold(self, result: ToolResult, tokens: int) -> None:
        """Add a result, of which nothing is used up."""
        self.left[result] = tokens
        self.total += tokens

    def take(self, result: ToolResult, most: float) -> float:
        """Use up tokens of a result, and return their number. A result without tokens is no longer unused."""
        taken = min(most, self.left[result])
        self.left[result] -= taken
        self.total -= taken
        if self.left[result] <= 0:
            del self.left[result]
        return taken

    def take_rest(self, tokens: float) -> list[ToolResult]:
        """Return all results if the texts so far are long enough for them together, else none."""
        self.room += tokens
        if self.total > self.room:
            return []
        rest = list(self.left)
        self.left.clear()
        self.total = self.room = 0.0
        return rest


@dataclass(frozen=True, eq=False)
class _Texts:
    """The agent's texts since it last turned to something else, as one text of prose or code."""

    request: int
    is_prose: bool
    characters: int
    tokens: float
    words: Set[str]  # distinctive ones; none if the text is short

    @classmethod
    def of(cls, texts: Iterable[AgentText], request: int, *, is_prose: bool) -> "_Texts":
        """Join the texts of one kind."""
        given = [each for each in texts if each.is_prose is is_prose]
        text = "\n".join(each.text for each in given)
        is_long = len(text) >= (LONG_PROSE if is_prose else LONG_CODE)
        words = distinctive_words(text) if is_long else NO_WORDS
        return cls(request, is_prose, len(text), sum(each.tokens for each in given), words)


class UseTracker:
    """Track in one walk which results the agent has used, and by which request."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._events: list[_Read | _Texts | ToolResult] = []  # what was read, written and cleared
        self._cleared: set[ToolResult] = set()
        self._words: dict[ToolResult, Set[str]] = {}  # of the results that a text was compared with
        self._start()

    def _start(self) -> None:
        self._new: list[_Read] = []  # not sent yet when the agent last wrote
        self._work, self._documents = _Pool(), _Pool()
        self._compared: Counter[ToolResult] = Counter()
        self._used_at: dict[ToolResult, int] = {}

    def used_at(self, result: ToolResult) -> int | None:
        """Return the request by which the agent had used a result; None if the result is unused."""
        return self._used_at.get(result)

    def observe_result(self, action: Action, result: ToolResult, tokens: int | None = None) -> None:
        """Record the result of an action. If it is a placeholder, `tokens` are those of the cleared result."""
        if tokens is not None:
            self._cleared.add(result)
        self._take(_Read(result, result.tokens if tokens is None else tokens, is_document(action)))

    def write(self, texts: Sequence[AgentText], request: int) -> None:
        """Record what the agent wrote until a request: it uses up results."""
        for is_prose in (False, True):
            self._take(_Texts.of(texts, request, is_prose=is_prose))

    def clear(self, results: Iterable[ToolResult]) -> None:
        """Record that results were cleared at this point."""
        cleared = [*results]
        mattered = any(self._compared[result] and result not in self._cleared for result in cleared)
        self._events += cleared
        self._cleared.update(cleared)
        if mattered:
            self._start()
        for event in self._events if mattered else cleared:
            self._apply(event)

    def _take(self, event: _Read | _Texts) -> None:
        self._events.append(event)
        self._apply(event)

    def _apply(self, event: _Read | _Texts | ToolResult) -> None:
        if isinstance(event, _Read):
            self._new.append(event)
        elif isinstance(event, _Texts):
            self._used_at.update((result, event.request) for result in self._used_up(event))
        else:
            self._forget(event)

    def _forget(self, result: ToolResult) -> None:
        """Drop a cleared result: no text uses it up any more."""
        self._words.pop(result, None)
        self._new = [each for each in self._new if each.result is not result]
        for pool in (self._work, self._documents):
            if result in pool.left:
                pool.take(result, inf)

    def _used_up(self, texts: _Texts) -> Iterator[ToolResult]:
        """Yield the results that texts use up."""
        for each in self._new:
            if each.result.sent <= texts.request:
                (self._documents if each.is_document else self._work).hold(each.result, each.tokens)
        self._new = [each for each in self._new if each.result.sent > texts.request]
        pools = (self._work, self._documents) if texts.is_prose else (self._work,)
        about = self._written_about(texts.words, pools) if texts.words else []
        tokens = texts.tokens
        for result in about:
            pool = next(each for each in pools if result in each.left)
            tokens -= pool.take(result, tokens)
            if result not in pool.left:
                yield result
        yield from self._work.take_rest(tokens)
        is_about_all = texts.is_prose and not about
        yield from self._documents.take_rest(tokens if is_about_all else QUERY_TOKENS * texts.characters)

    def _written_about(self, written: Set[str], pools: Sequence[_Pool]) -> list[ToolResult]:
        """Return cleared results, then those that share distinctive words with a text, the most shared first."""
        shared: dict[ToolResult, Set[str]] = {}
        unused = [result for pool in pools for result in pool.left]
        for result in (each for each in unused if each not in self._cleared):
            self._compared[result] += 1
            if self._compared[result] <= MOST_COMPARED:
                if result not in self._words:
                    self._words[result] = distinctive_words(result.text)
                shared[result] = written & self._words[result]
        holders = Counter(word for words in shared.values() for word in words)
        counts = {result: sum(holders[word] < COMMON for word in words) for result, words in shared.items()}
        least = max(LEAST_SHARED, BY_CHANCE * max(counts.values(), default=0))
        about = sorted((each for each in counts if counts[each] >= least), key=counts.__getitem__, reverse=True)
        return [*(each for each in unused if each in self._cleared), *about]


def distinctive_words(text: str) -> set[str]:
    """Return the words of 4 letters and numbers of 4 digits or more, and the pieces of scripts without spaces."""
    found: set[str] = set()
    for match in WORD.finditer(text):
        word = match[0]
        if match["number"]:
            if sum(map(str.isdigit, word)) >= LEAST_DIGITS:
                found.add(word.translate(SEPARATORS))
        elif match["run"]:
            found.update(word[at : at + GRAM] for at in range(len(word) - GRAM + 1))
        else:
            found.add(word.lower())
    return found


def written_text(action: Action) -> AgentText | None:
    """Return what the agent wrote in a call; None for a query, a command or a plan."""
    if action.call is None or is_plan(action.call):
        return None
    text = argument_texts(action.call)
    changed = [(does, path) for does, path in action.files() if does in CHANGING]
    if not changed and len(text) < LEAST_WRITING:
        return None
    if any(_has_type(path, PROSE) for _, path in changed) if changed else not action.command:
        return prose(text)
    is_work = len(text) >= LONG_CODE or any(does == "edited" for does, _ in changed)
    return AgentText(text, False, len(text) * (TOKENS_PER_CHARACTER if is_work else QUERY_TOKENS))


def prose(text: str) -> AgentText:
    """Return a text that the agent wrote for a person."""
    return AgentText(text, True, TOKENS_PER_CHARACTER * max(0, len(text) - FREE_PROSE))


def is_plan(call: ToolCall) -> bool:
    """Return whether a call only plans: a todo list, a task list, `update_plan`, a tool to think."""
    words = set(tool_words(call.name))
    return not PLANS.isdisjoint(words) or bool(words & {"task", "tasks"} and words & TASKS)


def is_document(action: Action) -> bool:
    """Return whether a result is a document or data, and not source code or the output of work."""
    if MATERIAL.search(action.command):
        return True
    files = list(action.files())
    read = [path for does, path in files if does == "read"]
    if files:
        return any(not _has_type(path, CODE) for path in read)
    words = set(tool_words(action.tool))
    return not action.command and (SEARCHES.isdisjoint(words) or not WEB.isdisjoint(words))


def _has_type(path: str, types: frozenset[str]) -> bool:
    return path.replace("\\", "/").rpartition("/")[2].rpartition(".")[2].lower() in types
