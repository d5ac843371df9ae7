"""Decide which messages are never folded or dropped, by rules that the user gives. Folds nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.errors import SettingsError, check_flag, check_number
from autoprune.planning.protections import check_pinned, check_texts, make_set, make_tuples

ROLES: Mapping[str, Speaker] = {"user": Speaker.USER, "assistant": Speaker.MODEL, "tool": Speaker.TOOL}


@dataclass(frozen=True)
class Retention:
    """Say what is neither folded nor dropped. The user's current request always stays.

    `system`: system and developer messages. `first_request`: the user's first request. `turns`: the last turns of the
    user's, whole. `pinned`: a set of indexes of the messages that are passed, or a predicate that gets the caller's
    message. `tags`: messages whose field `tags` (or `metadata["tags"]`) holds one of them. `roles`: which of "tool"
    (calls with their results), "assistant" and "user" go first, in this order; roles that are not named go last, and
    with () the oldest messages go first. A call that stays keeps its results, and a result its call; and an answer in
    words goes with what the user said before or after it, where two answers would come to stand beside each other.
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

    def stays(self, at: int, message: object, entry: Entry) -> bool:
        """Return whether a message stays wherever in the conversation it stands."""
        if self.system and entry.speaker is Speaker.SYSTEM:
            return True
        is_pinned = bool(self.pinned(message)) if callable(self.pinned) else at in self.pinned
        return is_pinned or bool(self.tags and not _tags(message).isdisjoint(self.tags))

    def requests(self, turns: Sequence[int], end: int) -> set[int]:
        """Return the messages that stay for the user's requests at `turns`, in a conversation of `end` messages."""
        stay = {turns[-1]} if turns else set()
        if self.first_request and turns:
            stay.add(turns[0])
        if self.turns and turns:
            stay.update(range(turns[-self.turns :][0], end))
        return stay

    def rank(self, speaker: Speaker) -> int:
        """Return when what a speaker said goes: the lower, the sooner."""
        order = [ROLES[role] for role in self.roles]
        return order.index(speaker) if speaker in order else len(order)


BY_AGE = Retention()


def _tags(message: object) -> set[str]:
    """Return the tags of a message, its own and those of its metadata."""
    held = fields_of(message)
    inner = fields_of(held.get("metadata"))
    found = [*_listed(held.get("tags")), *_listed(inner.get("tags"))]
    return {tag for tag in found if isinstance(tag, str)}


def _listed(value: object) -> Iterable[object]:
    """Return what a field holds as several values: one text is one value."""
    return (value,) if isinstance(value, str) else value if isinstance(value, Iterable) else ()
