"""The base classes of strategies are optional, and their defaults change nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from conversations import openai_chat, words

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs, SettingsError
from autoprune.planning.view import asks_always, folds, rationale_of, stepper
from autoprune.strategies import BaseFoldingStrategy, BaseStrategy, Fold, FoldView, Rationale, Replace, View

CHAT = openai_chat([words(400)], "a", [words(900)], "b", [words(300)], "c", ["done"])


class Plain:
    name = "newest_first"

    def step(self, view: View) -> Iterator[Replace]:
        if view.tokens > view.limit:
            yield from (candidate.cleared("newest first") for candidate in [*view.candidates()][::-1])


class Based(Plain, BaseStrategy):
    """The same with the base class."""


class PlainFolding:
    name = "all"
    folds = True

    def step(self, view: FoldView) -> Iterator[Fold]:
        groups = view.groups(1, 2) if view.tokens > view.limit else []
        if groups:
            yield Fold(
                tuple(at for each in groups for at in each.messages), "all", sum(each.tokens for each in groups), 80
            )


class BasedFolding(PlainFolding, BaseFoldingStrategy):
    """The same with the base class."""


def test_a_strategy_decides_the_same_with_and_without_its_base():
    plain, based = (AgenticConversationPruner(PruneArgs(500)).prune(CHAT, each()) for each in (Plain, Based))
    assert plain.report.results_cleared > 0
    assert (plain.conversation, plain.report.rows) == (based.conversation, based.report.rows)
    plain, based = (ConversationPruner(PruneArgs(500)).prune(CHAT, each()) for each in (PlainFolding, BasedFolding))
    assert plain.plan.folds
    assert (plain.conversation, plain.plan.folds) == (based.conversation, based.plan.folds)


def test_the_bases_have_the_defaults_of_a_plain_strategy():
    strategy = Based()
    assert (asks_always(strategy), folds(strategy), stepper(strategy)) == (False, False, strategy)
    assert (strategy.notes, rationale_of(strategy)) == ((), Rationale())
    assert (BasedFolding().may_drop, folds(BasedFolding())) == (True, True)


@dataclass(frozen=True)
class Counting(BaseStrategy):
    write: float = 1.0
    name = "counting"

    def begin(self) -> "Count":
        return Count(self.write)


class Count(BaseStrategy):
    name = "counting"

    def __init__(self, write: float) -> None:
        self.write = write

    def step(self, view: View) -> list[Replace]:
        return []

    def reprice(self, strategy: Counting) -> None:
        self.write = strategy.write


def test_a_wrong_option_is_an_error_that_names_the_attribute():
    class Wrong(Based):
        protect = 5  # type: ignore[assignment]

    with pytest.raises(SettingsError, match="the strategy's protect is 5: give a Protections"):
        AgenticConversationPruner(PruneArgs(500)).prune(CHAT, Wrong())
