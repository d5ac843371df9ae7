"""The settings and the strategy of a prune: constructor arguments of both pruners, and what they resolve to."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from loguru import logger

from autoprune.conversation.archive import Archive, ArchiveLike, check_archive
from autoprune.conversation.placeholders import SENTENCE, Placeholder, element
from autoprune.economics import prices
from autoprune.errors import SettingsError
from autoprune.planning.plan import ThinkingPolicy
from autoprune.planning.thinking import policy
from autoprune.planning.view import FoldingStrategy, Strategy, folds, name_of
from autoprune.pruners._call import Terms
from autoprune.pruners.history import History, check_history
from autoprune.pruners.memory import REMEMBERED, Memory, Reading
from autoprune.pruners.result import BeforePrune, OnPruned
from autoprune.settings import (
    Args,
    below_compaction,
    budget_tokens,
    cache_ttl,
    missing_safe_zone,
    overhead_tokens,
    override,
    resolve,
    safe_zone,
    text_setting,
    variables,
)
from autoprune.strategies.catalog import (
    CLEARING,
    FOLDING,
    STRATEGIES,
    available,
    clearing_named,
    folding_named,
    hint,
    is_named,
    is_plugin,
    names_folding,
    no_strategy,
)
from autoprune.tokens import Count, Memo, exact, for_model
from autoprune.wire import SHIPPED, find_formats
from autoprune.wire import xml_tool_result as xml
from autoprune.wire.parsing import Format

ANY_WINDOW = 10**6  # tokens: a window for checking a share of one
CACHES = ("_counters", "_memory", "_writing")  # attributes that are caches: not copied or pickled


class OrDefault(str):
    """A value of `strategy_name`, for which an unknown name means the default strategy."""


class Configured:
    """The settings and strategies of a pruner.

    `default` is the strategy for calls that name none, and `strategies` maps names to all that ship. `is_folding` says
    whether these fold messages.
    """

    is_folding: ClassVar[bool]
    default: Any
    strategies: dict[str, Any]

    def __init__(
        self,
        args: Args,
        llm: object = None,
        *,
        strategy: str | Strategy | FoldingStrategy | None = None,
        model: str | None = None,
        count: Count | None = None,
        formats: Sequence[Format] = (),
        conversation_id: object = None,
        archive: ArchiveLike | None = None,
        remember: int = REMEMBERED,
        before_prune: BeforePrune | None = None,
        on_pruned: OnPruned | None = None,
        clock: Callable[[], float] = time.perf_counter,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Store the arguments. `strategy`, `archive` and a budget as text are checked here, the others when first used.

        `strategy` is the default for all calls, by name or itself. `model` is the setting of that name; `args` is then
        read once, here.

        `before_prune` and `on_pruned` get a `PruneEvent` with `conversation_id`. If `before_prune` returns False,
        nothing is pruned. `environ` (default: the environment of this process) is read once, here: its AUTOPRUNE_*
        variables supply settings that `args` does not have. `archive`, the path of a folder or
        any mutable mapping, stores cleared content, and the placeholders hold the ids for `recall`. `remember` is the
        number of conversations that the pruner remembers; others are read from the start.
        """
        self.conversation_id = conversation_id
        self.archive: Archive | None = check_archive(archive)
        self.remember = remember
        self.before_prune = before_prune
        self.on_pruned = on_pruned
        self._environ = variables(environ)
        self.args: Args = args if model is None else override(args, self._environ, model=model)
        if isinstance(args, str):
            budget_tokens(args, window_tokens=ANY_WINDOW)
        self.llm = llm
        self.replacement_message = SENTENCE
        self.formats: Sequence[Format] = (*formats, *SHIPPED) if formats else SHIPPED
        self._given_count = count
        self._clock = clock
        self.strategies = available(FOLDING if self.is_folding else CLEARING)
        self.default = next(iter(self.strategies.values()))
        self._has_strategy = strategy is not None
        if strategy is not None:
            self.default, _ = self._choose_strategy(strategy)
        self._clear_caches()

    def _clear_caches(self) -> None:
        """Start with empty caches."""
        self._counters: dict[str | None, tuple[Memo, str | None]] = {}
        self._memory = Memory(self.remember)
        # The summaries that are being written, by event loop and key; a lock goes with the last call that uses it.
        self._writing: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without caches, with modules (the built-in formats) replaced by their names."""
        state = {name: value for name, value in vars(self).items() if name not in CACHES}
        return {**state, "formats": [each.__name__ if isinstance(each, ModuleType) else each for each in self.formats]}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the attributes, with empty caches."""
        vars(self).update(state)
        self.formats = tuple(import_module(each) if isinstance(each, str) else each for each in state["formats"])
        self._clear_caches()

    def _terms(self, strategy: object, calibration: float, history: History | None = None) -> Terms:
        """Resolve all settings of one prune. Raises SettingsError for a value that cannot be used."""
        chosen, fallback = self._choose_strategy(strategy)
        first = self._resolve(chosen, fallback, self.args, calibration)
        if history is None:
            return first
        args, later = self.args, []
        for at, changes in sorted(check_history(history).items()):
            settings = dict(changes)
            calibration = settings.pop("calibration", calibration)
            args = override(args, self._environ, **settings)
            later.append((at, self._resolve(chosen, fallback, args, calibration)))
        return replace(first, later=tuple(later))

    def _resolve(self, chosen: Any, fallback: str | None, args: Args, calibration: float) -> Terms:
        """Resolve the settings that a request is planned with. Tokens are always counted for the pruner's model."""
        environ, reading = self._environ, self._reading()
        model, ttl = text_setting(args, "model", environ), cache_ttl(args, environ)
        now = for_prices(chosen, model, ttl, check_ratio(calibration))
        hard = safe_zone(args, environ)
        zone = below_compaction(hard, args, environ)
        notes = (fallback, reading.estimate, missing_safe_zone(args, environ), *getattr(now, "notes", ()))
        thinking = ThinkingPolicy.REPORT
        if model or text_setting(args, "thinking_policy", environ):  # models differ in what they bind thinking to
            thinking = resolve("thinking_policy", partial(policy, model=model), args, environ)
        # Only a subclass's method is passed on, since a bound method makes the plan hold the pruner.
        method = self._generate_replacement_message
        element_of = None if getattr(method, "__func__", None) is Configured._generate_replacement_message else method
        archive = None if self.archive is None else check_archive(self.archive)
        return Terms(
            strategy=now,
            safe_zone=zone,
            limit=_in_counted(zone, calibration),
            hard_limit=_in_counted(hard, calibration),
            overhead=overhead_tokens(args, environ),
            calibration=calibration,
            placeholder=Placeholder(reading.count, self.replacement_message, element_of, recalls=archive is not None),
            reading=reading,
            format=text_setting(args, "format", environ),
            thinking=thinking,
            fallbacks=tuple(filter(None, notes)),
            wants_inputs=getattr(now, "clear_tool_inputs", None) is not None,
        )

    # Strategies

    def _choose_strategy(self, strategy: object) -> tuple[Any, str | None]:
        """Resolve a strategy; with a note for the report if it is not the requested one.

        Raises SettingsError for an unknown name, and for an object that is not a strategy.
        """
        if strategy is None and (self._has_strategy or not self._environ):
            return self.default, None
        if strategy is None:
            found: tuple[Any, str | None] = resolve("strategy", self._default_strategy, self.args, self._environ)
            return found
        if isinstance(strategy, OrDefault) and not self._has(strategy):
            return self._fallback(strategy)
        if isinstance(strategy, str):
            return self._find_strategy(strategy), None
        if isinstance(strategy, type) or not callable(getattr(strategy, "step", None)):
            raise SettingsError(f"{strategy!r} is no strategy: give a name or an object with a method step(view)")
        if folds(strategy) and not self.is_folding:
            raise SettingsError(
                f"the strategy {name_of(strategy)} is one of ConversationPruner: give it to one, or name another"
            )
        return strategy, None

    def _default_strategy(self, name: str | None) -> tuple[Any, str | None]:
        """The strategy that the environment names, else the default.

        Both pruners read the same variable, so a strategy of the other pruner means the default, with a note.
        """
        if name is None:
            return self.default, None
        is_shipped_elsewhere = is_named(name, STRATEGIES) and not self._has(name)
        if is_shipped_elsewhere or (is_plugin(name) and names_folding(name) != self.is_folding):
            return self._fallback(name)
        return self._find_strategy(name), None

    def _has(self, text: str) -> bool:
        """Whether a text names one of the strategies, with any parameters."""
        return text in self.strategies or is_named(text, self.strategies) or is_plugin(text)

    def _find_strategy(self, text: str) -> Any:
        """Find the strategy that a text names. Raises SettingsError for an unknown name."""
        if text in self.strategies:
            return self.strategies[text]
        if not self._has(text):
            raise SettingsError(no_strategy(text, self.strategies))
        return folding_named(text) if self.is_folding else clearing_named(text)

    def _fallback(self, text: str) -> tuple[Any, str]:
        """The default strategy, with a note that there is no strategy of that name."""
        note = f"there is no strategy {text!r}{hint(text, self.strategies)}: {self.default.name} was used"
        logger.warning(note)
        return self.default, note

    # Settings

    def _reading(self) -> Reading:
        """How conversations are read with the current settings: for a model's tokens, in the formats that they name."""
        model = None if self._given_count else text_setting(self.args, "model", self._environ)
        known = self._counters.get(model)
        if known is None:
            count, estimate = (self._given_count or exact(), None) if model is None else for_model(model)
            known = self._counters[model] = (Memo(count), estimate)
        formats = self.formats
        if text_setting(self.args, "format", self._environ):
            formats = resolve("format", partial(find_formats, formats=formats), self.args, self._environ)
        return Reading(*known, formats, self._is_tool_result_message, self._extract_tool_name)

    # For subclasses to override

    def _is_tool_result_message(self, content: object) -> bool:
        """Whether a user's text can hold XML tool results. A subclass may restrict it."""
        return xml.is_tool_result(content)

    def _extract_tool_name(self, content: str) -> str:
        """The tool named by the first start tag: "unknown" if it has no name, "" for an empty name."""
        return xml.tool_name(content)

    def _generate_replacement_message(self, tool_name: str) -> str:
        """The XML element of a cleared result. Only the text between its tags is used."""
        return element(tool_name, self.replacement_message)


def check_ratio(calibration: float) -> float:
    """Check a calibration and return it. Raises SettingsError unless it is a finite ratio above 0."""
    if isinstance(calibration, int | float) and 0 < calibration < math.inf:
        return calibration
    raise SettingsError(f"calibration is {calibration!r}: give a ratio above 0, such as tokens.calibration returns")


def _in_counted(tokens: int, calibration: float) -> int:
    """Convert the provider's tokens to counted tokens, rounded down."""
    # 1e-6, so that a rounding error of the division does not cost a whole token.
    return tokens if calibration == 1.0 else math.floor(tokens / calibration + 1e-6)


def for_prices(strategy: Any, model: str | None, ttl: float | None, calibration: float) -> Any:
    """The strategy for the prices of a model and a cache lifetime; unchanged if it does not depend on prices."""
    adapt = getattr(strategy, "for_prices", None)
    return adapt(prices(None, model, ttl).in_counted_tokens(calibration)) if callable(adapt) else strategy
