"""Choose the strategy that a caller means: by a name, a name with parameters, or the strategy itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger

from autoprune.errors import SettingsError
from autoprune.planning.view import folds
from autoprune.strategies.catalog import STRATEGIES, hint, is_named, is_plugin, names_folding


class OrDefault(str):
    """A name that was given as `strategy_name`: by that contract an unknown one means the default strategy."""


@dataclass(frozen=True)
class Choice:
    """The strategies that a pruner can choose from; `configured` makes the one that a text with parameters names."""

    strategies: Mapping[str, Any]
    default: Any
    configured: Callable[[str], Any]

    def of(self, strategy: object) -> tuple[Any, str | None]:
        """Return the strategy that a call names or gives, and a note for the report if it is another one.

        Raises SettingsError for an unknown name, and for an object that is no strategy.
        """
        if isinstance(strategy, OrDefault) and not self._has(strategy):
            return self._fallback(strategy)
        if isinstance(strategy, str):
            return self._named(strategy), None
        if isinstance(strategy, type) or not callable(getattr(strategy, "step", None)):
            raise SettingsError(f"{strategy!r} is no strategy: give a name or an object with a method step(view)")
        return strategy, None

    def by_default(self, name: str | None) -> tuple[Any, str | None]:
        """Return the strategy that the environment names; else the default.

        The variable is shared by both classes of pruner, so the name of a strategy of the other class means the
        default, with a note.
        """
        if name is None:
            return self.default, None
        if is_named(name, STRATEGIES) and not self._has(name):
            return self._fallback(name)
        if is_plugin(name) and names_folding(name) != folds(self.default):
            return self._fallback(name)
        return self._named(name), None

    def _has(self, text: str) -> bool:
        """Return whether a text names one of the strategies, whatever its parameters."""
        return text in self.strategies or is_named(text, self.strategies) or is_plugin(text)

    def _named(self, text: str) -> Any:
        """Return the strategy that a text names. Raises SettingsError if there is none of that name."""
        if text in self.strategies:
            return self.strategies[text]
        if not self._has(text):
            known = ", ".join(self.strategies)
            raise SettingsError(f"there is no strategy {text!r}{hint(text, self.strategies)}; there are {known}")
        return self.configured(text)

    def _fallback(self, text: str) -> tuple[Any, str]:
        """Return the default, with a note that there is no strategy of that name."""
        note = f"there is no strategy {text!r}{hint(text, self.strategies)}: {self.default.name} was used"
        logger.warning(note)
        return self.default, note


def either(strategy_name: object, strategy: object) -> Any:
    """Return the strategy that a call gives by either keyword. Raises SettingsError if the two differ."""
    if strategy_name is None or strategy is None or strategy_name == strategy:
        name = OrDefault(strategy_name) if isinstance(strategy_name, str) else strategy_name
        return name if strategy is None else strategy
    raise SettingsError(f"strategy_name is {strategy_name!r} and strategy is {strategy!r}: give one of them")
