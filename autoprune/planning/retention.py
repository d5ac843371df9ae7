"""Which messages stay whatever is folded or dropped, by rules that the user gives. Folds nothing."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.errors import SettingsError

ROLES: Mapping[str, Speaker] = {"user": Speaker.USER, "assistant": Speaker.MODEL, "tool": Speaker.TOOL}


@dataclass(frozen=True)
class Retention:
    """What is neither folded nor dropped. The user's current request always stays.

    `system`: system and developer messages. `first_request`: the user's first request. `turns`: the last turns of the
    user's, whole. `pinned`: a set of message indexes of the list that is passed, or a predicate that gets the caller's
    message. `tags`: messages whose field `tags` (or `metadata["tags"]`) holds one of them. `roles`: what is given up
    first, of "tool" (calls with their results), "assistant" and "user"; a role that is not named goes last; () goes by
    age alone. A message that stays keeps what belongs to it: a call its results, and the other way round.
    """

    system: bool = True
    first_request: bool = False
    turns: int = 0
    pinned: Collection[int] | Callable[[object], bool] = frozenset()
    tags: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep collections in a form that can be compared and never changes; what is none of them waits for `check`."""
        for name in ("tags", "roles"):
            value = getattr(self, name)
            if isinstance(value, Iterable):
                object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if isinstance(self.pinned, Iterable) and not callable(self.pinned):
            indexes = tuple(self.pinned)
            is_hashable = all(isinstance(index, int) for index in indexes)
            object.__setattr__(self, "pinned", frozenset(indexes) if is_hashable else indexes)

    def check(self) -> None:
        """Raises SettingsError for a parameter that is none, and says which."""
        for name in ("system", "first_request"):
            if not isinstance(value := getattr(self, name), bool):
                raise SettingsError(f"{name} is {value!r}: give True or False")
        if not isinstance(self.turns, int) or isinstance(self.turns, bool) or self.turns < 0:
            raise SettingsError(f"turns is {self.turns!r}: give a number, 0 or more")
        if not callable(self.pinned) and not isinstance(self.pinned, frozenset):
            raise SettingsError(f"pinned is {self.pinned!r}: give indexes of messages, or a predicate")
        if not isinstance(self.tags, tuple) or not all(isinstance(tag, str) for tag in self.tags):
            raise SettingsError(f"tags is {self.tags!r}: give texts")
        if not isinstance(self.roles, tuple) or not set(self.roles) <= set(ROLES):
            raise SettingsError(f"roles is {self.roles!r}: give some of {', '.join(ROLES)}, first to go first")

    def stays(self, at: int, message: object, entry: Entry) -> bool:
        """Whether a message stays wherever in the conversation it stands."""
        if self.system and entry.speaker is Speaker.SYSTEM:
            return True
        is_pinned = bool(self.pinned(message)) if callable(self.pinned) else at in self.pinned
        return is_pinned or bool(self.tags and not _tags(message).isdisjoint(self.tags))

    def requests(self, turns: Sequence[int], end: int) -> set[int]:
        """The messages that stay because of the user's requests, which stand at `turns`, of a conversation to `end`."""
        stay = {turns[-1]} if turns else set()
        if self.first_request and turns:
            stay.add(turns[0])
        if self.turns and turns:
            stay.update(range(turns[-self.turns :][0], end))
        return stay

    def rank(self, speaker: Speaker) -> int:
        """When what a speaker said is given up: the lower, the sooner."""
        order = [ROLES[role] for role in self.roles]
        return order.index(speaker) if speaker in order else len(order)


BY_AGE = Retention()


def _tags(message: object) -> set[str]:
    held = fields_of(message)
    inner = fields_of(held.get("metadata"))
    found = [*_listed(held.get("tags")), *_listed(inner.get("tags"))]
    return {tag for tag in found if isinstance(tag, str)}


def _listed(value: object) -> Iterable[object]:
    return (value,) if isinstance(value, str) else value if isinstance(value, Iterable) else ()
