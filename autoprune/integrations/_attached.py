"""A pruner at work for a framework: it reads the messages there, and is told what each request sends beside them."""

from collections.abc import Sequence
from copy import copy
from typing import Any, TypeAlias

from autoprune.formats import Format
from autoprune.planning.view import Strategy
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.result import Result

DEFAULT = "cache_aware"
AnyPruner: TypeAlias = AgenticConversationPruner | ConversationPruner


class Attached:
    """Prunes the messages of a framework, which `written_in` reads, with a copy of a pruner or with one of its own.

    `safe_zone` is what `AgenticConversationPruner` takes: a budget such as `"50k"`, a `PruneArgs`, or anything like it.
    A `pruner` keeps its settings, archive and callbacks, and is never changed. `strategy` is one of its strategies, by
    name or itself; without one it is `cache_aware` where the pruner has that.
    """

    def __init__(
        self, written_in: Format, safe_zone: object, pruner: AnyPruner | None, strategy: str | Strategy | None
    ) -> None:
        """Keep what is given; settings are checked when they are used."""
        made = AgenticConversationPruner(safe_zone) if pruner is None else copy(pruner)
        made.formats = (written_in, *made.formats)
        made.default = made.strategies.get(DEFAULT, made.default)
        self._pruner = made
        self._strategy = strategy

    def prune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune messages that are sent to a `model`; the texts `beside` them are the system prompt and the tools."""
        return self._of(model, beside).prune(messages, self._strategy)

    async def aprune(self, messages: list[Any], model: str | None = None, beside: Sequence[str] = ()) -> Result:
        """Prune as `prune` does, and await a summarizer."""
        return await self._of(model, beside).aprune(messages, self._strategy)

    def _of(self, model: str | None, beside: Sequence[str]) -> AnyPruner:
        """Return the pruner for a request: with its model, and with the tokens that it sends beside the messages."""
        of_model = self._pruner.filled_in(model=model)
        return of_model.filled_in(overhead_tokens=sum(map(of_model.count_text, beside)))
