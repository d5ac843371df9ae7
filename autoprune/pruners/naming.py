"""Find a strategy by its name, and the pruner for it, as on a command line. Runs a user's strategy file."""

import inspect
from collections.abc import Mapping
from typing import TypeAlias

from autoprune.errors import SettingsError
from autoprune.planning.view import FoldingStrategy, Strategy, folds
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.settings.values import PruneArgs
from autoprune.strategies.catalog import FOLDING, OPTIONS, STRATEGIES, is_named, make_strategy, makers
from autoprune.strategies.files import is_in_file, load_strategy
from autoprune.summarizers.selection import summarizer_maker, summarizer_named

AnyPruner: TypeAlias = AgenticConversationPruner | ConversationPruner


def choose_strategy(text: str | None, environ: Mapping[str, str]) -> Strategy | FoldingStrategy | None:
    """Return the strategy that a text names, or else AUTOPRUNE_STRATEGY; None if neither is given.

    Raises SettingsError for an unknown name or unknown parameters.
    """
    if text:
        return _find_strategy(text)
    if not (named := environ.get("AUTOPRUNE_STRATEGY", "").strip()):
        return None
    try:
        return _find_strategy(named)
    except SettingsError as error:
        raise SettingsError(f"AUTOPRUNE_STRATEGY is {named!r}: {error}") from error


def _find_strategy(named: str) -> Strategy | FoldingStrategy:
    """Find the strategy that a text names, one in a file too."""
    if is_in_file(named) or named.endswith(".py"):
        return load_strategy(named)
    name, bracket, rest = named.partition("(")
    if is_named(named, STRATEGIES) and bracket and not rest.rstrip().endswith(")"):
        raise SettingsError(f"strategy {named!r} cannot be read: write it as {strategy_text(name.strip())}")
    strategy: Strategy | FoldingStrategy = make_strategy(named, makers())
    return strategy


def strategy_text(name: str) -> str:
    """Return the text that a user types for a strategy with its own parameters' defaults, such as `keep_last(n=10)`."""
    parameters = inspect.signature(makers([name])[name]).parameters.values()
    own = [f"{each.name}={each.default!r}" for each in parameters if each.name not in OPTIONS]
    return f"{name}({', '.join(own)})" if own else name


def parameter_name(name: str, field: str) -> str:
    """Return the name that a user types for a field: `n`, the first parameter, for `over_messages` of `keep_last`."""
    if name not in FOLDING or field != "over_messages":
        return field
    return next(iter(inspect.signature(makers([name])[name]).parameters))


def pruner_for(strategy: object, args: PruneArgs, summarizer: str | None = None, model: str | None = None) -> AnyPruner:
    """Create the pruner for a strategy. `summarizer` is the name of a summarizer, and `model` the model that it calls.

    Raises SettingsError if the summarizer is unknown or cannot be created.
    """
    if summarizer is not None:
        summarizer_maker(summarizer.partition("(")[0].strip())  # an unknown name is the first error to report
    if not folds(strategy):
        if summarizer is not None:
            raise SettingsError(f"a summarizer needs a strategy that folds messages: one of {', '.join(FOLDING)}")
        return AgenticConversationPruner(args)
    is_default = summarizer in (None, "", "digest")  # a pruner without one uses the digest
    return ConversationPruner(args, None if is_default else summarizer_named(summarizer or "", model))
