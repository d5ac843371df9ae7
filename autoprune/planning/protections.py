"""What a strategy may not clear, by rules that its user gives. Decides about one result at a time, edits nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from autoprune.conversation.answers import ANSWER_TOOLS, is_answer
from autoprune.conversation.calls import is_instruction_file, matches, paths
from autoprune.conversation.outcomes import failed
from autoprune.conversation.reasons import Reason
from autoprune.conversation.transcript import Entry, ToolResult
from autoprune.errors import SettingsError

Guard: TypeAlias = Callable[[ToolResult], Reason | None]
NONE_CUT: Mapping[ToolResult, ToolResult] = {}


@dataclass(frozen=True)
class Protections:
    """Which results are kept whatever the budget; by default those that hold the user's own words, and no other.

    `user_answers` keeps what the user said through a tool: the results of `answer_tools` (names or globs), which ask
    the user, and failed results that begin with the user's refusal of the call and the words it came with. They are
    not cut either.

    `tools` and `paths` are names or globs; paths are those in the arguments of the call. `last_results` counts results,
    `last_tokens` the newest tokens of the conversation as it is sent: a result in a message that reaches into them is
    kept. `failed` keeps results that say that the call failed, `instruction_files` those of AGENTS.md, CLAUDE.md and
    the like, `minimum_tokens` those that are smaller. `pinned` is a set of message indexes, or a predicate that gets
    the caller's message; it must answer the same for a message whose results were cleared or cut.
    """

    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    last_results: int = 0
    last_tokens: int = 0
    failed: bool = False
    instruction_files: bool = False
    minimum_tokens: int = 0
    pinned: Collection[int] | Callable[[object], bool] = frozenset()
    user_answers: bool = True
    answer_tools: tuple[str, ...] = ANSWER_TOOLS

    def __post_init__(self) -> None:
        """Keep collections in a form that can be compared and never changes; what is none of them waits for `check`."""
        for name in ("tools", "paths", "answer_tools"):
            value = getattr(self, name)
            if isinstance(value, Iterable):
                object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if isinstance(self.pinned, Iterable) and not callable(self.pinned):
            indexes = tuple(self.pinned)
            object.__setattr__(self, "pinned", frozenset(indexes) if all(map(_is_number, indexes)) else indexes)

    def check(self) -> None:
        """Raises SettingsError for a parameter that is none, and says which."""
        for name in ("last_results", "last_tokens", "minimum_tokens"):
            if not _is_number(value := getattr(self, name)):
                raise SettingsError(f"{name} is {value!r}: give a number, 0 or more")
        for name in ("failed", "instruction_files", "user_answers"):
            if not isinstance(value := getattr(self, name), bool):
                raise SettingsError(f"{name} is {value!r}: give True or False")
        for name in ("tools", "paths", "answer_tools"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(glob, str) for glob in value):
                raise SettingsError(f"{name} is {value!r}: give names or globs")
        if not callable(self.pinned) and not isinstance(self.pinned, frozenset):
            raise SettingsError(f"pinned is {self.pinned!r}: give indexes of messages, 0 or more, or a predicate")

    @property
    def has_rules(self) -> bool:
        """Whether anything is kept besides the user's own words."""
        return replace(self, user_answers=True, answer_tools=ANSWER_TOOLS) != NOTHING

    def is_answer(self, result: ToolResult) -> bool:
        """Whether a result is kept as the user's own words. It stays so whatever follows it."""
        return self.user_answers and is_answer(result, self.answer_tools)

    def of(self, result: ToolResult, message: object) -> Reason | None:
        """Why a result is kept, wherever in the conversation it stands; None if it is not."""
        if self._is_pinned(result.location.message, message):
            return Reason.PINNED
        if self.tools and any(fnmatchcase(result.tool, glob) for glob in self.tools):
            return Reason.PROTECTED_TOOL
        if result.call and (self.paths or self.instruction_files) and (why := self._of_paths(paths(result.call))):
            return why
        if self.is_answer(result):
            return Reason.USER_ANSWER
        if self.failed and failed(result.text, result.is_error, result.call):
            return Reason.FAILED
        return Reason.SMALL if self.minimum_tokens and result.tokens < self.minimum_tokens else None

    def _is_pinned(self, at: int, message: object) -> bool:
        return bool(self.pinned(message)) if callable(self.pinned) else at in self.pinned

    def _of_paths(self, touched: Sequence[str]) -> Reason | None:
        if any(matches(path, self.paths) for path in touched):
            return Reason.PROTECTED_PATH
        is_instructions = self.instruction_files and any(map(is_instruction_file, touched))
        return Reason.INSTRUCTIONS if is_instructions else None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


NOTHING = Protections()


def guard(
    protections: Protections,
    messages: Sequence[object],
    entries: Sequence[Entry],
    results: Sequence[ToolResult],
    saved: Mapping[int, int],
    cut: Mapping[ToolResult, ToolResult] = NONE_CUT,
) -> Guard:
    """What says of each result why it is protected at the end of a conversation.

    `saved` are tokens by message, `cut` the results that were cut, as they are now: the model has seen them no other
    way, and neither does a rule that looks at a result.
    """
    newest = set(results[-protections.last_results :]) if protections.last_results else set()
    window = _window(protections.last_tokens, entries, saved)

    def why(result: ToolResult) -> Reason | None:
        if result in newest:
            return Reason.AMONG_LAST
        if result.location.message >= window:
            return Reason.IN_TOKEN_WINDOW
        return protections.of(cut.get(result, result), messages[result.location.message])

    return why


def _window(tokens: int, entries: Sequence[Entry], saved: Mapping[int, int]) -> int:
    """The first message of those that are the newest `tokens` tokens, the message that crosses the line included."""
    at = len(entries)
    while at and tokens > 0:
        at -= 1
        tokens -= entries[at].tokens - saved.get(at, 0)
    return at
