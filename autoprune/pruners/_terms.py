"""Everything that a prune depends on besides the conversation. Reads no conversation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autoprune.conversation.placeholders import Placeholder
from autoprune.economics import prices
from autoprune.errors import SettingsError, is_number
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Strategy, option
from autoprune.providers import ThinkingPolicy
from autoprune.pruners._reading import Reading
from autoprune.settings import duration


@dataclass(frozen=True)
class Terms:
    """The strategy and the settings of one prune, checked, and how it reads messages.

    `fallbacks` say in words what was not taken as asked. `later` is the strategy for other lives of the cache, each
    from so many messages on.
    """

    strategy: Strategy
    safe_zone: int
    overhead: int
    calibration: float
    placeholder: Placeholder
    reading: Reading
    format: str | None
    thinking: ThinkingPolicy
    fallbacks: tuple[str, ...]
    later: tuple[tuple[int, Strategy], ...] = ()

    @cached_property
    def limit(self) -> int:
        """The safe zone in counted tokens."""
        return self.safe_zone if self.calibration == 1.0 else math.floor(self.safe_zone / self.calibration + 1e-6)

    @property
    def wants_inputs(self) -> bool:
        """Whether calls' arguments may be shortened."""
        return option(self.strategy, "clear_tool_inputs", ToolInputs) is not None

    @cached_property
    def key(self) -> object:
        """What a remembered history must have been made with."""
        return (self.strategy, self.later, self.limit, self.overhead, self.placeholder, self.format, self.thinking)


def ratio(calibration: float) -> float:
    """Return a calibration that can be used. Raises SettingsError for any other."""
    if isinstance(calibration, int | float) and 0 < calibration < math.inf:
        return calibration
    raise SettingsError(f"calibration is {calibration!r}: give a ratio above 0, such as tokens.calibration returns")


def adapted(strategy: Any, model: str | None, cache_ttl: float | None) -> Any:
    """Return a strategy as it is for a model and its cache; itself where it does not depend on prices."""
    adapt = getattr(strategy, "for_prices", None)
    return adapt(prices(None, model, cache_ttl)) if callable(adapt) else strategy


def checked_lives(cache_ttls: Mapping[int, float]) -> Mapping[int, float | None]:
    """Return the lives of a cache in seconds, by the index of a message. Raises SettingsError for others."""
    if not isinstance(cache_ttls, Mapping) or not all(map(is_number, cache_ttls)):
        raise SettingsError(f"cache_ttls is {cache_ttls!r}: give the seconds that it lives by the index of a message")
    return {at: duration(ttl) for at, ttl in cache_ttls.items()}


def notes(strategy: object) -> tuple[str, ...]:
    """Return what a strategy has to say in each report."""
    return tuple(getattr(strategy, "notes", ()))
