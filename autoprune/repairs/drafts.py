"""A conversation of messages that hold blocks, while it is mended: drafts of messages, and what an API's shape is."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from autoprune.repairs.copies import with_blocks
from autoprune.rewriting import with_item
from autoprune.rules.problem import Problem
from autoprune.rules.reading import is_bare, known, listed, text

NEW = -1


class Shape(Protocol):
    """How one API writes messages of blocks. Blocks come as they stand: mappings or an SDK's objects."""

    @property
    def FIELD(self) -> str:  # noqa: N802 - a module's constant
        """What a message calls its blocks."""

    @property
    def MODEL(self) -> str:  # noqa: N802
        """The role of the model."""

    @property
    def USERS(self) -> tuple[str | None, ...]:  # noqa: N802
        """The roles that a message with results may have."""

    def block(self, words: str, /) -> object:
        """A block of text."""

    def message(self, role: str, blocks: Sequence[object], like: object, /) -> object:
        """A message that is written as `like` is."""

    def call_keys(self, role: str | None, found: object, /) -> tuple[Hashable, ...] | None:
        """What a call is known by; None for what is no call."""

    def result_keys(self, role: str | None, found: object, /) -> tuple[Hashable, ...] | None:
        """What the call of a result is known by, best first; None for what is no result."""

    def weak_keys(self, found: object, /) -> tuple[Hashable, ...]:
        """What else a result may answer a call of the message directly before it by."""

    def answering(self, found: object, call: object, /) -> object:
        """A result that names its call as the API wants it; the same object where it does."""

    def name(self, found: object, /) -> str:
        """What a result calls its tool, if it does."""

    def no_result(self, call: object, reason: str, /) -> object:
        """The stated placeholder for the result of a call."""

    def renamed(self, found: object, call_id: str, /) -> object:
        """A call or a result with another id."""

    def mended(self, found: object, problems: Sequence[Problem], /) -> object:
        """A result in which what the problems name is mended."""


@dataclass(frozen=True)
class Draft:
    """A message while it is mended. Each block comes with the index that it had; new ones, and messages, with NEW."""

    at: int
    message: object
    role: str | None
    blocks: tuple[tuple[int, object], ...]
    is_touched: bool = False

    def holding(self, blocks: Sequence[tuple[int, object]]) -> "Draft":
        """The draft with these blocks; itself where they are those that it has."""
        same = len(blocks) == len(self.blocks) and all(
            one[1] is other[1] for one, other in zip(blocks, self.blocks, strict=True)
        )
        return self if same else replace(self, blocks=tuple(blocks), is_touched=True)


def draft(at: int, message: object, shape: Shape) -> Draft:
    """A message as a draft. A text is one block; what is no message is nobody's."""
    found = known(message)
    content = found.get(shape.FIELD)
    blocks = listed(content) if not isinstance(content, str) or is_bare(content) else [shape.block(content)]
    return Draft(at, message, text(found.get("role")) if found else "", tuple(enumerate(blocks)))


def new(role: str, blocks: Sequence[object], like: object, shape: Shape) -> Draft:
    """A draft of a message that was not there."""
    return Draft(NEW, shape.message(role, blocks, like), role, tuple((NEW, block) for block in blocks))


def written(one: Draft, shape: Shape) -> object:
    """The message of a draft: the same object where nothing was changed, a text where it was one and still is."""
    if not one.is_touched:
        return one.message
    blocks = [block for _, block in one.blocks]
    words = known(blocks[0]).get("text") if len(blocks) == 1 else None
    if isinstance(known(one.message).get(shape.FIELD), str) and isinstance(words, str):
        return with_item(one.message, shape.FIELD, words)
    return with_blocks(one.message, shape.FIELD, blocks)
