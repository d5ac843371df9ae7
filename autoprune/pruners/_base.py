"""The base class of both pruners: constructor arguments, settings, strategies, and all methods except `prune`."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Self
from weakref import WeakValueDictionary

from loguru import logger

from autoprune.conversation.archive import Archive, ArchiveLike, check_archive, recall
from autoprune.conversation.messages import check_conversation
from autoprune.conversation.placeholders import SENTENCE, Placeholder, element
from autoprune.economics import prices
from autoprune.errors import SettingsError
from autoprune.formats import SHIPPED, find_formats
from autoprune.formats import xml_tool_result as xml
from autoprune.formats.parsing import Format
from autoprune.planning.plan import Conditions, Later, Plan, ThinkingPolicy
from autoprune.planning.view import FoldingStrategy, Strategy, folds, name_of
from autoprune.providers.thinking import policy
from autoprune.pruners.history import History, check_history
from autoprune.pruners.memory import REMEMBERED, Memory, Reading
from autoprune.pruners.report import Report, cleanup_statistics
from autoprune.pruners.report.advice import advice
from autoprune.pruners.result import BeforePrune, Callbacks, Message, OnPruned, Result
from autoprune.settings import (
    Args,
    below_compaction,
    budget_tokens,
    cache_ttl,
    fill_in,
    missing_safe_zone,
    overhead_tokens,
    override,
    resolve,
    safe_zone,
    text_setting,
    usual_zone,
    variables,
    window_of,
    window_tokens,
)
from autoprune.strategies.catalog import (
    RECOMMENDED,
    STRATEGIES,
    config,
    description,
    hint,
    is_named,
    is_plugin,
    names_folding,
    no_strategy,
)
from autoprune.tokens import Count, Memo, exact, for_model, scale_tokens

ANY_WINDOW = 10**6  # tokens: a window for checking a share of one
CACHES = ("_counters", "_memory", "_writing")  # attributes that are caches: not copied or pickled


class OrDefault(str):
    """A value of `strategy_name`, for which an unknown name means the default strategy."""


@dataclass(frozen=True)
class Terms:
    """The strategy and the settings of one prune, checked.

    `limit` is the safe zone in counted tokens, and `hard_limit` the one that was not lowered to avoid a compaction.
    `fallbacks` are notes on settings that were not followed. `wants_inputs` says whether the arguments of calls may be
    shortened. `later` holds the terms of later requests, each with the number of messages from which they apply. Two
    terms are equal if a walk that began with one can continue with the other, so some fields are not compared.
    """

    strategy: Any  # a Strategy or a FoldingStrategy
    safe_zone: int = field(compare=False)
    limit: int
    hard_limit: int
    overhead: int
    calibration: float = field(compare=False)
    placeholder: Placeholder
    reading: Reading = field(compare=False)
    format: str | None
    thinking: ThinkingPolicy
    fallbacks: tuple[str, ...] = field(compare=False)
    wants_inputs: bool
    later: tuple[tuple[int, "Terms"], ...] = field(default=(), compare=False)

    def at(self, messages: int) -> "Terms":
        """Return the terms of the request with this many messages."""
        return next((terms for at, terms in reversed(self.later) if at <= messages), self)

    @property
    def conditions(self) -> Conditions:
        """What a walk plans a request with."""
        return Conditions(self.strategy, self.limit, self.overhead, self.thinking, self.hard_limit)

    @property
    def later_conditions(self) -> Later:
        """What a walk plans later requests with, each with the number of messages from which it applies."""
        return [(at, terms.conditions) for at, terms in self.later]


class Pruner:
    """The base of both pruners. `default` is the strategy for calls that name none; `strategies` maps names to all."""

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
        self.strategies = self._shipped_strategies()
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

    def _shipped_strategies(self) -> dict[str, Any]:
        """The built-in strategies by name, the default first."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without caches, with modules (the built-in formats) replaced by their names."""
        state = {name: value for name, value in vars(self).items() if name not in CACHES}
        return {**state, "formats": [each.__name__ if isinstance(each, ModuleType) else each for each in self.formats]}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the attributes, with empty caches."""
        vars(self).update(state)
        self.formats = tuple(import_module(each) if isinstance(each, str) else each for each in state["formats"])
        self._clear_caches()

    def prune(self, *conversation: Any, **options: Any) -> Result[Any]:
        """Prune a conversation with the given strategy or the default one."""
        raise NotImplementedError

    async def aprune(self, *conversation: Any, **options: Any) -> Result[Any]:
        """Prune as `prune` does, and await the summarizers."""
        raise NotImplementedError

    def prune_conversations(
        self, conversations: list[Message], strategy_name: Any = None, *, strategy: Any = None, **options: Any
    ) -> list[Message]:
        """Prune a conversation and return the list to send; the same list if there is nothing to do.

        `strategy` and `options` are those of `prune`. `strategy_name` also names a strategy, but an unknown name means
        the default strategy, as code that was written for this method's original contract expects.
        """
        return self.prune(conversations, one_strategy(strategy_name, strategy), **options).conversation

    async def aprune_conversations(
        self, conversations: list[Message], strategy_name: Any = None, *, strategy: Any = None, **options: Any
    ) -> list[Message]:
        """Prune as `prune_conversations` does, and await the summarizers."""
        return (await self.aprune(conversations, one_strategy(strategy_name, strategy), **options)).conversation

    def recall(self, id: str) -> str:
        """Get cleared content back from the archive, by the id in its placeholder.

        Raises ArchiveError if the archive has no content for the id, and SettingsError without an archive.
        """
        return recall(self.archive, id)

    def _parse_strategy(self, text: str) -> Any:
        """Parse a strategy with its parameters, such as "low_water(target=0.5)". Raises SettingsError."""
        raise NotImplementedError

    def fill_in(self, **known: Any) -> Self:
        """Return a copy of this pruner with values for settings that were not given. Both share their caches.

        The keywords are settings of `settings.SETTINGS`, such as model="gpt-5" or overhead_tokens=9_000.
        """
        args = fill_in(self.args, self._environ, **known)
        return self if args is self.args else self._with(args=args)

    def with_usual_zone(self, strategy: Any = None) -> Self:
        """Return a copy with the usual safe zone of the model, unless one was given, if the strategy weighs prices.

        Such a strategy clears less than a safe zone forces it to if that costs more than it saves. Other strategies,
        and models whose window is not known, keep the documented default. Both pruners share their caches.
        """
        chosen, _ = self._choose_strategy(strategy)
        model = text_setting(self.args, "model", self._environ)
        window = window_tokens(self.args, self._environ) or window_of(model)
        weighs_prices = callable(getattr(chosen, "for_prices", None))
        return self.fill_in(safe_zone=usual_zone(model, window)) if weighs_prices and window else self

    def with_recommended_strategy(self) -> Self:
        """Return a copy whose default strategy is `cache_aware`, with the same caches.

        Return the pruner itself if its constructor got a strategy, or if it folds messages.
        """
        recommended = self.strategies.get(RECOMMENDED)
        return self if self._has_strategy or recommended is None else self._with(default=recommended)

    def _with(self, **attributes: Any) -> Self:
        """Return a copy with other attributes. Both share their caches."""
        # Not `copy.copy`, which would leave out the caches.
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), **attributes)
        return twin

    def count_text(self, text: str) -> int:
        """Count the tokens of a text with the same counter as for messages."""
        return self._reading().count(text)

    def count_tokens(self, conversation: list[Any], *, calibration: float = 1.0) -> int:
        """Count the tokens of the prompt, as they are compared with the safe zone."""
        messages, overhead = check_conversation(conversation), overhead_tokens(self.args, self._environ)
        transcript = self._reading().transcript(messages, overhead)
        return scale_tokens(transcript.tokens, check_ratio(calibration))

    def get_cleanup_statistics(
        self, original_conversations: list[Any], pruned_conversations: list[Any]
    ) -> dict[str, int | float]:
        """Compare two conversations: tokens, cleared results, removed messages.

        Works even if other code dropped or changed messages in between.
        """
        original, pruned = check_conversation(original_conversations), check_conversation(pruned_conversations)
        terms = self._terms(None, 1.0)
        return cleanup_statistics(original, pruned, terms.reading, terms.overhead, terms.placeholder)

    def get_available_strategies(self) -> list[dict[str, object]]:
        """List the strategies with their names, descriptions, parameters and the safe zone.

        Invalid settings are left out here; `prune` raises an error for them.
        """
        return [
            {"name": name, "description": description(strategy), "config": self._config(strategy)}
            for name, strategy in self.strategies.items()
        ]

    def _config(self, strategy: Any) -> dict[str, object]:
        try:
            return {"safe_zone_tokens": safe_zone(self.args, self._environ), **config(strategy)}
        except SettingsError:
            return config(strategy)

    def _is_tool_result_message(self, content: object) -> bool:
        """Whether a user's text can hold XML tool results. A subclass may restrict it."""
        return xml.is_tool_result(content)

    def _extract_tool_name(self, content: str) -> str:
        """The tool named by the first start tag: "unknown" if it has no name, "" for an empty name."""
        return xml.tool_name(content)

    def _generate_replacement_message(self, tool_name: str) -> str:
        """The XML element of a cleared result. Only the text between its tags is used."""
        return element(tool_name, self.replacement_message)

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
        element_of = None if getattr(method, "__func__", None) is Pruner._generate_replacement_message else method
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
        return strategy, None

    def _default_strategy(self, name: str | None) -> tuple[Any, str | None]:
        """The strategy that the environment names, else the default.

        Both pruners read the same variable, so a strategy of the other pruner means the default, with a note.
        """
        if name is None:
            return self.default, None
        if is_named(name, STRATEGIES) and not self._has(name):
            return self._fallback(name)
        if is_plugin(name) and names_folding(name) != folds(self.default):
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
        return self._parse_strategy(text)

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

    # Reports

    def _report(
        self, terms: Terms, notes: tuple[str, ...], seconds: float, plan_of: Callable[[], Plan], **others: Any
    ) -> Report:
        """The report of a prune; `others` are more of its fields."""
        return Report(
            strategy=name_of(terms.strategy),
            safe_zone=terms.safe_zone,
            calibration=terms.calibration,
            fallbacks=(*terms.fallbacks, *notes),
            seconds=seconds,
            plan_of=plan_of,
            advise=partial(advice, self, self._folding, terms.strategy, terms.calibration),
            **others,
        )

    def _folding(self) -> "Pruner":
        """A `ConversationPruner` with the same settings, for advice."""
        raise NotImplementedError

    def _callbacks(self, conversation_id: object) -> Callbacks:
        """The callbacks for one prune, with the given conversation id or else the pruner's."""
        known = self.conversation_id if conversation_id is None else conversation_id
        return Callbacks(self.before_prune, self.on_pruned, known)


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


def one_strategy(strategy_name: object, strategy: object) -> Any:
    """The strategy that a call passes by either keyword. Raises SettingsError if the two differ."""
    if strategy_name is None or strategy is None or strategy_name == strategy:
        name = OrDefault(strategy_name) if isinstance(strategy_name, str) else strategy_name
        return name if strategy is None else strategy
    raise SettingsError(f"strategy_name is {strategy_name!r} and strategy is {strategy!r}: give one of them")


def log_prune(report: Report, level: str) -> None:
    """Log a prune in one line with bound fields; silent unless the program calls `logger.enable("autoprune")`."""
    # Lazy, since the text of a report needs figures that are only computed if somebody reads them.
    with_fields = logger.opt(lazy=True, capture=False).patch(lambda record: record["extra"].update(report.fields))
    with_fields.log(level, "{}", lambda: report)
