"""Rules on what stays: results that a strategy may not clear, messages that are never folded. Edits nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, TypeAlias

from autoprune.conversation.edits import Reason
from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Entry, Speaker, ToolResult
from autoprune.errors import SettingsError, check_flag, check_number, is_number
from autoprune.facts.calls import is_instruction_file, matches, paths
from autoprune.facts.outcomes import ANSWER_TOOLS, has_failed, is_answer, is_refused, matches_tool
from autoprune.facts.utterances import holds_instructions

Guard: TypeAlias = Callable[[ToolResult], Reason | None]
NONE_CUT: Mapping[ToolResult, ToolResult] = {}


def make_tuples(option: object, *names: str) -> None:
    """Convert fields of a frozen option to tuples; a text becomes a tuple of one."""
    for name in names:
        value = getattr(option, name)
        if isinstance(value, Iterable):
            object.__setattr__(option, name, (value,) if isinstance(value, str) else tuple(value))


def make_set(option: object, name: str) -> None:
    """Convert a field of a frozen option to a frozenset if it holds message indexes."""
    value = getattr(option, name)
    if isinstance(value, Iterable) and not callable(value):
        indexes = tuple(value)
        object.__setattr__(option, name, frozenset(indexes) if all(map(is_number, indexes)) else indexes)


def check_texts(name: str, value: object, what: str) -> None:
    """Raise SettingsError for anything but a tuple of texts; the error says to give `what`."""
    if not isinstance(value, tuple) or not all(isinstance(text, str) for text in value):
        raise SettingsError(f"{name} is {value!r}: give {what}")


def check_pinned(value: object) -> None:
    """Raise SettingsError for anything but a set of indexes or a predicate."""
    if not callable(value) and not isinstance(value, frozenset):
        raise SettingsError(f"pinned is {value!r}: give indexes of messages, 0 or more, or a predicate")


@dataclass(frozen=True)
class Protections:
    """Results that are kept at any budget; by default only the user's answers through tools.

    `user_answers`: keep the user's words in results, which are not cut either. These are the results of `answer_tools`
    (names or globs), which ask the user, and failed results that begin with the user's refusal of the call.
    `tools`: keep the results of these tools (names or globs).
    `paths`: keep the results of calls with these paths (names or globs) in their arguments.
    `last_results`: keep this number of newest results.
    `last_tokens`: keep the results in the messages that hold this number of newest tokens of the prompt.
    `failed`: keep results that report that their call failed.
    `instruction_files`: keep the contents of AGENTS.md, CLAUDE.md and similar files.
    `minimum_tokens`: keep results with fewer tokens.
    `pinned`: keep the results in these messages: a set of indexes, or a predicate that gets the caller's message. It
    must give the same answer after results in the message were cleared or cut.
    """

    in_text: ClassVar[str] = "{'last_results': 5}"

    tools: Sequence[str] = ()
    paths: Sequence[str] = ()
    last_results: int = 0
    last_tokens: int = 0
    failed: bool = False
    instruction_files: bool = False
    minimum_tokens: int = 0
    pinned: Collection[int] | Callable[[object], bool] = frozenset()
    user_answers: bool = True
    answer_tools: tuple[str, ...] = ANSWER_TOOLS

    def __post_init__(self) -> None:
        """Make collections immutable and comparable; `check` refuses anything else."""
        make_tuples(self, "tools", "paths", "answer_tools")
        make_set(self, "pinned")

    def check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(each.default, bool):
                check_flag(each.name, value)
            elif isinstance(each.default, int):
                check_number(each.name, value, 0)
            elif isinstance(each.default, tuple):
                check_texts(each.name, value, "names or globs")
        check_pinned(self.pinned)

    @property
    def has_rules(self) -> bool:
        """Whether there is a rule besides those for the user's answers."""
        return replace(self, user_answers=True, answer_tools=ANSWER_TOOLS) != DEFAULT_PROTECTIONS

    def is_answer(self, result: ToolResult) -> bool:
        """Return whether a result is kept as the user's answer or refusal. Later messages do not change this."""
        return self.user_answers and (is_answer(result, self.answer_tools) or is_refused(result))

    def reason_for(self, result: ToolResult, message: object) -> Reason | None:
        """Return the rule that keeps a result, apart from rules about its position; None if no rule keeps it."""
        if self._is_pinned(result.location.message, message):
            return Reason.PINNED
        if self.tools and matches_tool(result.tool, self.tools):
            return Reason.PROTECTED_TOOL
        if result.call and (self.paths or self.instruction_files) and (why := self._path_reason(paths(result.call))):
            return why
        if self.is_answer(result):
            return Reason.USER_ANSWER
        if self.failed and has_failed(result.text, result.is_error, result.call):
            return Reason.FAILED
        return Reason.SMALL if self.minimum_tokens and result.tokens < self.minimum_tokens else None

    def _is_pinned(self, at: int, message: object) -> bool:
        return bool(self.pinned(message)) if callable(self.pinned) else at in self.pinned

    def _path_reason(self, touched: Sequence[str]) -> Reason | None:
        if any(matches(path, self.paths) for path in touched):
            return Reason.PROTECTED_PATH
        is_instructions = self.instruction_files and any(map(is_instruction_file, touched))
        return Reason.INSTRUCTIONS if is_instructions else None


DEFAULT_PROTECTIONS = Protections()


def guard(
    protections: Protections,
    entries: Sequence[Entry],
    results: Sequence[ToolResult],
    saved: Mapping[int, int],
    cut: Mapping[ToolResult, ToolResult] = NONE_CUT,
) -> Guard:
    """Return a function that gives the reason why a result is protected at the end of a conversation, or None.

    `saved` holds the tokens saved in each message. `cut` maps results that were cut to their current form, since rules
    apply to the text that the model sees.
    """
    newest = set(results[-protections.last_results :]) if protections.last_results else set()
    # The window is as of the current prompt, so cleared results take fewer of its tokens.
    window = _window(protections.last_tokens, entries, saved)

    def why(result: ToolResult) -> Reason | None:
        if result in newest:
            return Reason.AMONG_LAST
        if result.location.message >= window:
            return Reason.IN_TOKEN_WINDOW
        return protections.reason_for(cut.get(result, result), entries[result.location.message].message)

    return why


def _window(tokens: int, entries: Sequence[Entry], saved: Mapping[int, int]) -> int:
    """Return the index of the first message that holds some of the newest `tokens` tokens."""
    at = len(entries)
    while at and tokens > 0:
        at -= 1
        tokens -= entries[at].tokens - saved.get(at, 0)
    return at


ROLES: Mapping[str, Speaker] = {"user": Speaker.USER, "assistant": Speaker.MODEL, "tool": Speaker.TOOL}


@dataclass(frozen=True)
class Retention:
    """Messages that are neither folded nor dropped.

    The user's current request always stays, and so do the provider's newest compaction and what loads tools.

    `system`: keep system and developer messages, and messages with an instruction file (AGENTS.md, CLAUDE.md,
    GEMINI.md) or a skill that a tool loaded.
    `first_request`: keep the user's first request.
    `turns`: keep this number of last turns, with all of their messages.
    `pinned`: keep these messages: a set of indexes, or a predicate that gets the caller's message.
    `tags`: keep messages with one of these tags in their field `tags` or in `metadata["tags"]`.
    `roles`: remove messages in this order of roles, some of "tool" (calls with their results), "assistant" and "user".
    Other roles go last. With () the oldest messages go first.

    A call and its results stay or go together. If two answers of the model would become neighbors, one of them goes
    together with the user's words between them.
    """

    in_text: ClassVar[str] = "{'turns': 2}"

    system: bool = True
    first_request: bool = False
    turns: int = 0
    pinned: Collection[int] | Callable[[object], bool] = frozenset()
    tags: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make collections immutable and comparable; `check` refuses anything else."""
        make_tuples(self, "tags", "roles")
        make_set(self, "pinned")

    def check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        check_flag("system", self.system)
        check_flag("first_request", self.first_request)
        check_number("turns", self.turns, 0)
        check_pinned(self.pinned)
        check_texts("tags", self.tags, "texts")
        if not isinstance(self.roles, tuple) or not set(self.roles) <= set(ROLES):
            raise SettingsError(f"roles is {self.roles!r}: choose from {', '.join(ROLES)}, in order of removal")

    def stays(self, at: int, entry: Entry) -> bool:
        """Return whether a message stays, whatever its position in the conversation."""
        is_systems = entry.speaker is Speaker.SYSTEM and not entry.is_directive
        if self.system and (is_systems or _instructs(entry)):
            return True
        is_pinned = bool(self.pinned(entry.message)) if callable(self.pinned) else at in self.pinned
        return is_pinned or bool(self.tags and not _tags(entry.message).isdisjoint(self.tags))

    def requests(self, turns: Sequence[int], end: int) -> set[int]:
        """Return the messages that stay because of the user's requests.

        `turns` holds the indexes of the requests, and `end` is the number of messages in the conversation.
        """
        stay = {turns[-1]} if turns else set()
        if self.first_request and turns:
            stay.add(turns[0])
        if self.turns and turns:
            stay.update(range(turns[-self.turns :][0], end))
        return stay

    def rank(self, speaker: Speaker) -> int:
        """Return the position of a speaker in the order of removal: lower ranks go first."""
        order = [ROLES[role] for role in self.roles]
        return order.index(speaker) if speaker in order else len(order)


BY_AGE = Retention()


def _instructs(entry: Entry) -> bool:
    """Return whether a message that is not the model's holds instructions."""
    if entry.speaker is Speaker.MODEL:
        return False
    return holds_instructions(entry.texts, [result.tool for result in entry.results])


def _tags(message: object) -> set[str]:
    """Return the tags of a message and of its metadata."""
    own = fields_of(message)
    metadata = fields_of(own.get("metadata"))
    values = [*_as_values(own.get("tags")), *_as_values(metadata.get("tags"))]
    return {tag for tag in values if isinstance(tag, str)}


def _as_values(value: object) -> Iterable[object]:
    """Return the values in a field: a text is one value, and anything that is not iterable has no values."""
    return (value,) if isinstance(value, str) else value if isinstance(value, Iterable) else ()
