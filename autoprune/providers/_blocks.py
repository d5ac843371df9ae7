"""Messages of blocks while they are mended: drafts, the shape that an API gives them, blocks of a wrong role."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from autoprune.conversation.messages import fields_of, with_item
from autoprune.providers._messages import is_bare, listed, text, with_blocks
from autoprune.providers._problem import Log, Problem

NEW = -1
MISPLACED = ("misplaced_call", "misplaced_result", "misplaced_thinking")


class Shape(ABC):
    """How one API writes messages of blocks. Blocks come as they stand: mappings or an SDK's objects.

    What is not abstract is how most APIs have it: a result names its call by the id alone.
    """

    field = "content"  # what a message calls its blocks
    model = "assistant"  # the role of the model
    users: tuple[str | None, ...] = ("user",)  # the roles that a message with results may have

    def text_block(self, words: str) -> object:
        """Return a block of text."""
        return {"text": words}

    def new_message(self, role: str, blocks: Sequence[object], like: object) -> object:
        """Return a message of blocks, of the type that `like` has."""
        return {"role": role, self.field: list(blocks)}

    @abstractmethod
    def call_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return what a result may know a call by; None for what is no call."""

    @abstractmethod
    def result_keys(self, role: str | None, found: object) -> tuple[Hashable, ...] | None:
        """Return what a result knows its call by, best first; None for what is no result."""

    def nearby_keys(self, found: object) -> tuple[Hashable, ...]:
        """Return what else a result may know a call by that stands in the message directly before."""
        return ()

    def answering(self, found: object, call: object) -> object:
        """Return a result that names its call as the API wants it; itself where it does."""
        return found

    def result_name(self, found: object) -> str:
        """Return what a result calls its tool; "" where it does not."""
        return ""

    @abstractmethod
    def no_result(self, call: object, reason: str) -> object:
        """Return a placeholder for the result of a call, which says the reason."""

    def with_id(self, found: object, call_id: str) -> object:
        """Return a copy of a call or a result with another id; itself where no rule asks for another."""
        return found

    @abstractmethod
    def mended_result(self, found: object) -> object:
        """Return a copy of a result in which what the API refuses of it is mended."""


@dataclass(frozen=True)
class Draft:
    """A message while it is mended. Each block comes with the index that it had; new ones, and messages, with NEW."""

    at: int
    message: object
    role: str | None
    blocks: tuple[tuple[int, object], ...]
    is_touched: bool = False

    def holding(self, blocks: Sequence[tuple[int, object]]) -> "Draft":
        """Return the draft with other blocks; itself where they are the same."""
        same = len(blocks) == len(self.blocks) and all(
            one[1] is other[1] for one, other in zip(blocks, self.blocks, strict=True)
        )
        return self if same else replace(self, blocks=tuple(blocks), is_touched=True)


def draft(at: int, message: object, shape: Shape) -> Draft:
    """Return a message as a draft. A text is one block, and so is a bare part."""
    found = fields_of(message)
    content = found.get(shape.field)
    blocks = listed(content) if not isinstance(content, str) or is_bare(content) else [shape.text_block(content)]
    blocks = [message] if is_part(message, shape) else blocks
    return Draft(at, message, text(found.get("role")) if found else "", tuple(enumerate(blocks)))


def new(role: str, blocks: Sequence[object], like: object, shape: Shape) -> Draft:
    """Return a draft of a message that was not there."""
    return Draft(NEW, shape.new_message(role, blocks, like), role, tuple((NEW, block) for block in blocks))


def message_of(one: Draft, shape: Shape) -> object:
    """Return the message of a draft: the same object where nothing was changed; a text stays a text."""
    if not one.is_touched:
        return one.message
    blocks = [block for _, block in one.blocks]
    if is_part(one.message, shape):
        return shape.new_message("user", blocks, {})
    words = fields_of(blocks[0]).get("text") if len(blocks) == 1 else None
    if isinstance(fields_of(one.message).get(shape.field), str) and isinstance(words, str):
        return with_item(one.message, shape.field, words)
    return with_blocks(one.message, shape.field, blocks)


def is_part(message: object, shape: Shape) -> bool:
    """Return whether a message is a bare part, which Gemini's SDK takes for a content of the user's."""
    found = fields_of(message)
    is_content = found.get("role") is not None or found.get(shape.field) is not None
    is_held = any(value is not None for name, value in found.items() if name != "thought")
    return None in shape.users and not is_content and is_held


def separated(drafts: Sequence[Draft], shape: Shape, log: Log) -> list[Draft]:
    """Split each draft with misplaced blocks into messages of the roles that its blocks belong to.

    Thinking goes with the calls that it stands before; it is removed where it stands before none.
    """
    kept: list[Draft] = []
    for one in drafts:
        problems = {int(problem.path[2]): problem for problem in log.at(one.at, *MISPLACED)}
        roles = _roles(one, problems, shape)
        kept += _parts(one, roles, shape) if problems else [one]
        for at, problem in problems.items():
            log.add(problem, _done(roles[at], shape))
    return kept


def _done(role: str | None, shape: Shape) -> str:
    if role is None:
        return "removed the thinking, which only the model's messages may hold"
    return f"put it in a message of the {'model' if role == shape.model else 'user'}'s"


def _roles(one: Draft, problems: Mapping[int, Problem], shape: Shape) -> dict[int, str | None]:
    """Return the role that each misplaced block belongs to; None for one that must go."""
    roles: dict[int, str | None] = {}
    is_before_call = False
    for at, _ in reversed(one.blocks):
        rule = problems[at].rule if at in problems else ""
        is_before_call = rule == "misplaced_call" or (is_before_call and rule == "misplaced_thinking")
        if rule:
            is_models = rule == "misplaced_call" or is_before_call
            roles[at] = "user" if rule == "misplaced_result" else shape.model if is_models else None
    return roles


def _parts(one: Draft, roles: Mapping[int, str | None], shape: Shape) -> list[Draft]:
    """Return a draft for each group of blocks of one role. The first of the message's own role stays the message."""
    staying = [(at, block) for at, block in one.blocks if roles.get(at, "") is not None]
    groups = [(role, list(group)) for role, group in groupby(staying, key=lambda each: roles.get(each[0]) or one.role)]
    own = next((at for at, (role, _) in enumerate(groups) if role == one.role), None)
    if own is None and groups:
        role = groups[0][0]
        one = replace(one, message=with_item(one.message, "role", role), role=role)
        own = 0
    if own is None:
        return [one.holding([])]
    return [
        one.holding(group) if at == own else new(role or "user", [block for _, block in group], one.message, shape)
        for at, (role, group) in enumerate(groups)
    ]
