"""Choose the strategy that a caller means: by a name, a name with parameters, or the strategy itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger

from autoprune.errors import SettingsError, did_you_mean
from autoprune.strategies.by_name import CLEARING, STRATEGIES, is_named


@dataclass(frozen=True)
class Choice:
    """The strategies that a pruner can choose from; `configured` makes the one that a text with parameters names."""

    strategies: Mapping[str, Any]
    default: Any
    configured: Callable[[str], Any]

    def of(self, strategy: object) -> tuple[Any, str | None]:
        """Return the strategy that was asked for, and what should be said of that. Raises SettingsError for none."""
        if isinstance(strategy, str):
            return self._named(strategy)
        if isinstance(strategy, type) or not callable(getattr(strategy, "step", None)):
            raise SettingsError(f"{strategy!r} is no strategy: give a name or an object with a method step(view)")
        return strategy, None

    def by_default(self, name: str | None) -> tuple[Any, str | None]:
        """Return the strategy that the environment names, of either class; else the default."""
        if name is None:
            return self.default, None
        if is_named(name, self.strategies) or is_named(name, STRATEGIES):
            return self._named(name)
        return self.configured(name), None

    def _named(self, text: str) -> tuple[Any, str | None]:
        """Return the strategy that a text names; the default, with a note, where there is none of that name."""
        known = self.strategies.get(text)
        if known is not None:
            return known, None
        return (self.configured(text), None) if is_named(text, self.strategies) else self._unknown(text)

    def _unknown(self, text: str) -> tuple[Any, str]:
        """Return the default, with a note that there is no strategy of that name."""
        name = text.partition("(")[0].strip()
        hint = did_you_mean(name, self.strategies)
        if name in STRATEGIES:
            hint = f" (it is one of {'AgenticConversationPruner' if name in CLEARING else 'ConversationPruner'})"
        fallback = f"there is no strategy {text!r}{hint}: {self.default.name} was used"
        logger.warning(fallback)
        return self.default, fallback


def either(strategy_name: object, strategy: object) -> Any:
    """The strategy that a call gives by either keyword. Raises SettingsError where the two differ."""
    if strategy_name is None or strategy is None or strategy_name == strategy:
        return strategy if strategy_name is None else strategy_name
    raise SettingsError(f"strategy_name is {strategy_name!r} and strategy is {strategy!r}: give one of them")
