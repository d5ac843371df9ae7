"""Which pruner a strategy is for does not depend on the names of its own fields."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import conversations
import pytest

from autoprune import AgenticConversationPruner, ConversationPruner, SettingsError
from autoprune.conversation.edits import Replace
from autoprune.planning.protections import Retention
from autoprune.planning.view import BaseFoldingStrategy, BaseStrategy, FoldView, View

MESSAGES = conversations.openai_chat(*([conversations.words(300)] for _ in range(8)))


@dataclass(frozen=True)
class Newest:
    """Clears all but the newest results; its field has the name of an attribute of folding strategies."""

    retain: int = 2
    name = "newest"

    def step(self, view: View) -> Iterator[Replace]:
        for candidate in [*view.candidates()][: -self.retain]:
            yield candidate.cleared("old")


@dataclass(frozen=True)
class NewestOfBase(BaseStrategy):
    """The same with the base class, and a flag."""

    folds: bool = False
    retain: int = 2
    name = "newest_of_base"
    step = Newest.step


@pytest.mark.parametrize("strategy", [Newest(), NewestOfBase(), NewestOfBase(folds=True)])
def test_a_clearing_strategy_may_have_fields_named_like_those_of_folding_strategies(strategy: Any):
    cleared = AgenticConversationPruner(500).prune(MESSAGES, strategy).plan.edits
    assert {str(edit.reason) for edit in cleared} == {"old"}


class Folds(BaseFoldingStrategy):
    name = "folds"

    def step(self, view: FoldView) -> list[Any]:
        return []


class RetainsUser:
    name = "retains"
    retain = Retention()
    step = Folds.step


@pytest.mark.parametrize("strategy", [Folds(), RetainsUser()])
def test_a_folding_strategy_is_one_by_its_base_class_or_its_retention(strategy: Any):
    assert ConversationPruner(500).prune(MESSAGES, strategy).conversation is MESSAGES
    with pytest.raises(SettingsError, match="is one of ConversationPruner"):
        AgenticConversationPruner(500).prune(MESSAGES, strategy)
