"""A pruner at work for a framework: it reads the messages there, and is told what each request sends beside them."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

from autoprune.formats import Format
from autoprune.integrations._hooks import DEFAULT_STRATEGY, AnyPruner, Pruning, pruner_of
from autoprune.planning.view import Strategy
from autoprune.pruners.result import Result


class FrameworkFormat(Format, Protocol):
    """A format of a framework, in whose messages a program may keep anything besides what is sent.

    What is kept there may be endless, as what holds itself is. So a pruner gets messages without it.
    """

    def bare(self, message: Any, at: int, /) -> Any:
        """Return message number `at` without what is not sent, its number in the place; itself where it has nothing."""

    def whole(self, message: Any, messages: Sequence[Any], /) -> Any:
        """Return a bare message that was changed with what the message of its number keeps; itself without one."""


class Attached:
    """Prunes the messages of a framework, which `written_in` reads, with a copy of a pruner or with one of its own.

    `pruning` is a safe zone such as `"50k"`, settings, or a pruner, which keeps its settings, archive and callbacks and
    is never changed. `strategy` is one of its strategies, by name or itself; without one it is `cache_aware` where the
    pruner has that.
    """

    def __init__(self, written_in: FrameworkFormat, pruning: Pruning, strategy: str | Strategy | None) -> None:
        """Keep what is given; settings are checked when they are used."""
        made = copy(pruner_of(pruning))
        made.formats = (written_in, *made.formats)
        made.default = made.strategies.get(DEFAULT_STRATEGY, made.default)
        self._pruner = made
        self._strategy = strategy
        self._written_in = written_in

    def prune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune messages that are sent to a `model`; the texts `beside` them are the system prompt and the tools."""
        bare = self._bare(messages)
        return self._whole(self._of(model, beside).prune(bare, self._strategy), bare, messages)

    async def aprune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune as `prune` does, and await a summarizer."""
        bare = self._bare(messages)
        return self._whole(await self._of(model, beside).aprune(bare, self._strategy), bare, messages)

    def _bare(self, messages: list[Any]) -> list[Any]:
        return [self._written_in.bare(message, at) for at, message in enumerate(messages)]

    def _whole(self, result: Result, bare: list[Any], messages: list[Any]) -> Result:
        """Return a result for bare messages as one for the messages: those that are not pruned are the same objects."""
        if result.conversation is bare:
            return replace(result, conversation=messages)
        own = {id(one): message for one, message in zip(bare, messages, strict=True)}
        pruned = (own.get(id(one)) or self._written_in.whole(one, messages) for one in result.conversation)
        return replace(result, conversation=[*pruned])

    def _of(self, model: str | None, beside: Sequence[str]) -> AnyPruner:
        """Return the pruner for a request: with its model, and with the tokens that it sends beside the messages."""
        of_model = self._pruner.filled_in(model=model)
        return of_model.filled_in(overhead_tokens=sum(map(of_model.count_text, beside)))
