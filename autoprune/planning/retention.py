"""Rules for messages that are never folded or dropped. Folds nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.errors import SettingsError, check_flag, check_number
from autoprune.facts.harness import holds_instructions
from autoprune.planning.protections import check_pinned, check_texts, make_set, make_tuples

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
            raise SettingsError(f"roles is {self.roles!r}: give some of {', '.join(ROLES)}, first to go first")

    def stays(self, at: int, entry: Entry) -> bool:
        """Return whether a message stays, whatever its position in the conversation."""
        if self.system and (entry.speaker is Speaker.SYSTEM or _instructs(entry)):
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
