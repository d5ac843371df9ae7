"""The inputs of a prune: its settings, as both pruners take and resolve them, and its messages."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from loguru import logger

import autoprune.strategies.catalog as catalog
from autoprune.conversation.archive import Archive, ArchiveLike, check_archive
from autoprune.conversation.edits import SENTENCE, Placeholder, apply, element, savings_by_message, strip_thinking
from autoprune.conversation.summary import AssembledMessage, assemble, without_summary
from autoprune.conversation.transcript import newest_compaction, without_replaced
from autoprune.economics import Invoice, prices
from autoprune.errors import SettingsError, check_number
from autoprune.planning.plan import TRACKED, Conditions, Later, Plan, ThinkingPolicy
from autoprune.planning.protections import DEFAULT_PROTECTIONS, Retention
from autoprune.planning.thinking import NO_OUTCOME, PolicyOutcome, drop_block, outcome, policy
from autoprune.planning.view import FoldContext, FoldingStrategy, Strategy, asks_always, folds, name_of, option
from autoprune.planning.walk import Walk
from autoprune.pruners.history import Agent, History, agent_of, check_history
from autoprune.pruners.memory import REMEMBERED, Memory, Reading, Remembered, fixed_tokens
from autoprune.pruners.result import BeforePrune, OnPruned
from autoprune.settings.values import (
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
from autoprune.tokens import Count, ExactCounter, Memo, exact, for_model
from autoprune.wire import SHIPPED, check_formats, dominant_format, find_formats, roles_in
from autoprune.wire import xml_tool_result as xml
from autoprune.wire.anthropic import places_system
from autoprune.wire.parsing import Format, Parser, parse

RESTORED = "because a setting changed"  # in a note that depends on what a pruner remembers


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
        """The settings with which a walk plans a request."""
        return Conditions(self.strategy, self.limit, self.overhead, self.thinking, self.hard_limit)

    @property
    def later_conditions(self) -> Later:
        """The settings of later requests, each with the number of messages from which it applies."""
        return [(at, terms.conditions) for at, terms in self.later]


@dataclass(frozen=True)
class PruneCall:
    """The inputs of one prune.

    `context` is what is known beside the messages if whole messages may go; else None. `reported` are the tokens of a
    usage report. A walk can continue if `key` is equal; it is None if the walk must not be remembered.
    """

    terms: Terms
    messages: list[Any]
    pauses: Mapping[int, float]
    invoices: Mapping[int, Invoice]
    context: FoldContext | None = None
    reported: int | None = None
    key: object = None

    @cached_property
    def bare(self) -> list[Any]:
        """The messages that are read: without the summary of an earlier prune, if it may be extended."""
        return without_summary(self.messages, self.context.running) if self.context else self.messages

    def start_parser(self) -> Parser:
        """Create a parser for the messages, the first of which may hold a summary of earlier ones."""
        running = self.context.running if self.context else self.terms.reading.summary(self.messages)
        return self.terms.reading.parser(running, wants_inputs=self.terms.wants_inputs)

    def start_walk(self) -> Walk:
        """Create a walk at the start of the conversation."""
        return Walk(
            self.terms.conditions,
            fixed_tokens(self.bare, self.terms.overhead),
            self.terms.placeholder,
            later=self.terms.later_conditions,
            given=self.context,
            reported=None if self.reported is None else (len(self.bare), self.reported),
        )

    def walk_on(self, known: Remembered) -> Walk:
        """Read the new messages of a conversation, and continue its walk."""
        known.read(self.bare, self.start_parser)
        walk: Walk = known.walk_on(self.start_walk, self.pauses, self.terms.later_conditions, self.invoices)
        return walk

    def plan_from_start(self) -> Plan:
        """Read and walk the conversation from its start, and return the plan."""
        walk = self.start_walk()
        walk.pauses, walk.invoices = self.pauses, self.invoices
        walk.extend(without_replaced(self.start_parser().read_on(self.bare, 0)))
        return self.make_plan(walk)[0]

    def make_plan(self, walk: Walk) -> tuple[Plan, PolicyOutcome]:
        """Return the plan of a walk for the caller's messages, and the consequences for thinking blocks."""
        now = self.terms.at(len(self.messages))
        plan, thinking = walk.make_plan([*self.bare], fixed_tokens(self.bare, now.overhead)), NO_OUTCOME
        if walk.newest_thinking:
            thinking = outcome(now.thinking, plan)
            plan = replace(plan, stripped=thinking.stripped, stripped_later=thinking.stripped_later)
            if self.context and now.thinking is ThinkingPolicy.DROP_BLOCK:
                # Dropped messages leave no trace, so any thinking may depend on one that an earlier prune dropped.
                thoughts = [thought for entry in plan.transcript.entries for thought in entry.thinking]
                thinking = replace(thinking, parameters=drop_block(thoughts))
        return self._with_summary(plan), thinking

    def _with_summary(self, plan: Plan) -> Plan:
        """Return the plan for the caller's messages, in which the message with the old summary counts as a whole."""
        if plan.running is None:
            return plan
        at, entries = plan.running.at, list(plan.transcript.entries)
        whole = parse([self.messages[at]], self.terms.reading.parser(), 0).tokens
        apart = whole if plan.running.rest is None else whole - entries[at].tokens
        entries[at] = replace(entries[at], tokens=whole)
        known = replace(plan.transcript, messages=self.messages, entries=tuple(entries))
        return replace(plan, transcript=known, running=replace(plan.running, tokens=apart))

    def fits_unread(self, known: Remembered) -> bool:
        """Return whether the messages have so few bytes that there is nothing to do, so they need not be read.

        Raises SettingsError for an option of the strategy that cannot be used.
        """
        limit = -1 if self.context else _idle_limit(self.terms)
        return known.fits_unread(self.messages, self.terms.reading.formats, fixed_tokens(self.messages, 0), limit)


def edit(messages: list[Any], plan: Plan) -> list[Any]:
    """Apply the edits of a plan and strip its thinking blocks. Folds and drops are not applied."""
    return strip_thinking(apply(messages, plan.edits), plan.stripped)


def without_folded(plan: Plan, edited: list[Any], reading: Reading) -> tuple[Plan, list[Any]]:
    """Return the plan with the new counts, and the messages in which each fold's text replaces its messages.

    `edited` are the messages with all edits made. A text joins the message of the user before it; if there is none, it
    becomes a new message.
    """
    written_in = dominant_format(edited, reading.formats)
    texts = {fold.messages[0]: written_in.message("user", fold.text) for fold in plan.folds}
    kept = assemble(edited, plan.gone, texts, roles_in(reading.formats), moves_system=places_system(edited))
    saved = savings_by_message(plan.edits, plan.stripped)
    sizes = [entry.tokens - saved.get(at, 0) for at, entry in enumerate(plan.transcript.entries)]

    def weigh(each: AssembledMessage) -> int:
        """Count what a message with texts has beyond the messages in it, whose tokens depend on those before them."""
        if each.at is not None:
            return sizes[each.at]
        held = [at for at in each.sources if at not in plan.gone]
        return sum(sizes[at] - _count_alone(edited[at], reading) for at in held) + _count_alone(each.message, reading)

    weights = tuple(map(weigh, kept))
    found = {source: index for index, each in enumerate(kept) for source in each.sources}
    places = tuple(found[plan.gone[at].messages[0] if at in plan.gone else at] for at in range(len(sizes)))
    counted = plan.transcript.fixed_tokens + sum(weights)
    return replace(plan, counted=counted, weights=weights, places=places), [each.message for each in kept]


def _count_alone(message: object, reading: Reading) -> int:
    return parse([message], reading.parser(), 0).tokens


def restored(known: Remembered) -> Iterator[str]:
    """Yield a note if results that an earlier prune cleared are whole again, because its settings were others."""
    if not known.cleared:
        return
    # What the provider's compaction replaced is not in the prompt, so it does not come back.
    start = newest_compaction(known.entries) or 0
    back = len({place for place in known.cleared if place.message >= start} - {*known.cleared_places()})
    known.cleared = ()
    if back:
        what = "1 result that was cleared is" if back == 1 else f"{back} results that were cleared are"
        yield f"{what} sent whole again, {RESTORED}: pass the earlier settings too, with history="


def _idle_limit(terms: Terms) -> float:
    """Return the tokens up to which the strategy has nothing to do, so that nothing is counted; -1 if it may act."""
    strategy = terms.strategy
    for name, kind in catalog.OPTIONS.items():
        value = getattr(strategy, name, None)
        if kind is not Retention and value is not None and value is not DEFAULT_PROTECTIONS:
            option(strategy, name, kind)
    # These policies act on changes by earlier prunes, even if the prompt is within the safe zone.
    every = (terms, *(each for _, each in terms.later))
    looks_back = any(each.thinking in TRACKED for each in every)
    is_exact = isinstance(terms.reading.count.count, ExactCounter) and all(each.calibration == 1.0 for each in every)
    is_idle = getattr(strategy, "clamp", None) is None and not asks_always(strategy) and not looks_back
    return min(each.limit - each.overhead for each in every) if is_idle and is_exact else -1


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
        self.archive: Archive | None = None if archive is None else check_archive(archive)
        check_number("remember", remember, 0)
        self.remember = remember
        self.before_prune = before_prune
        self.on_pruned = on_pruned
        self._environ = variables(environ)
        self.args: Args = args if model is None else override(args, self._environ, model=model)
        if isinstance(args, str):
            budget_tokens(args, window_tokens=ANY_WINDOW)
        self.llm = llm
        self.replacement_message = SENTENCE
        self.formats: Sequence[Format] = (*check_formats(formats), *SHIPPED) if formats else SHIPPED
        for name, function in (("count", count), ("before_prune", before_prune), ("on_pruned", on_pruned)):
            if function is not None and not callable(function):
                raise SettingsError(f"{name} is {function!r}: give a function, or None")
        self._given_count = count
        self._clock = clock
        self.strategies = {**catalog.available(folding=self.is_folding)}
        self.default = next(iter(self.strategies.values()))
        self._has_strategy = strategy is not None
        if strategy is not None:
            self.default, _ = self._choose_strategy(strategy)
        self._clear_caches()

    def _clear_caches(self) -> None:
        self._counters: dict[int, Memo] = {}  # by the identity of the function, which the memo holds
        self._memory = Memory(self.remember)
        # The summaries that are being written, by event loop and key; a lock goes with the last call that uses it.
        self._writing: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without caches, with modules (the built-in formats) replaced by their names."""
        state = {name: value for name, value in vars(self).items() if name not in CACHES}
        return {**state, "formats": [each.__name__ if isinstance(each, ModuleType) else each for each in self.formats]}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.formats = tuple(import_module(each) if isinstance(each, str) else each for each in state["formats"])
        self._clear_caches()

    def _terms(self, strategy: object, calibration: float, history: History | None = None) -> Terms:
        """Resolve all settings of one prune. Raises SettingsError for a value that cannot be used."""
        chosen, fallback = self._choose_strategy(strategy)
        first = self._resolve(chosen, fallback, self.args, calibration)
        if history is None:
            return first
        args, terms, later = self.args, first, []
        for at, changes in sorted(check_history(history).items()):
            settings = dict(changes)
            calibration = settings.pop("calibration", calibration)
            args = override(args, self._environ, **settings)
            if {*changes} == {"overhead_tokens"}:  # with tools that change, at each request
                terms = replace(terms, overhead=overhead_tokens(args, self._environ))
            else:
                terms = self._resolve(chosen, fallback, args, calibration)
            later.append((at, terms))
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
        if self.archive is not None:  # it may be another one since
            check_archive(self.archive)
        return Terms(
            strategy=now,
            safe_zone=zone,
            limit=_in_counted(zone, calibration),
            hard_limit=_in_counted(hard, calibration),
            overhead=overhead_tokens(args, environ),
            calibration=calibration,
            placeholder=Placeholder(
                reading.count, self.replacement_message, element_of, recalls=self.archive is not None
            ),
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
            raise SettingsError(f"{strategy!r} is not a strategy: give a name or an object with a method step(view)")
        if folds(strategy) and not self.is_folding:
            raise SettingsError(
                f"the strategy {name_of(strategy)} is one of ConversationPruner: give it to one, or name another"
            )
        return strategy, None

    def _default_strategy(self, name: str | None) -> tuple[Any, str | None]:
        """Return the strategy that the environment names, else the default.

        Both pruners read the same variable, so a strategy of the other pruner means the default, with a note.
        """
        if name is None:
            return self.default, None
        is_shipped_elsewhere = catalog.is_named(name, catalog.STRATEGIES) and not self._has(name)
        if is_shipped_elsewhere or (catalog.is_plugin(name) and catalog.names_folding(name) != self.is_folding):
            return self._fallback(name)
        return self._find_strategy(name), None

    def _has(self, text: str) -> bool:
        """Return whether a text names one of the strategies, with any parameters."""
        return text in self.strategies or catalog.is_named(text, self.strategies) or catalog.is_plugin(text)

    def _find_strategy(self, text: str) -> Any:
        """Find the strategy that a text names. Raises SettingsError for an unknown name."""
        if text in self.strategies:
            return self.strategies[text]
        if not self._has(text):
            raise SettingsError(catalog.no_strategy(text, self.strategies))
        return catalog.folding_named(text) if self.is_folding else catalog.clearing_named(text)

    def _fallback(self, text: str) -> tuple[Any, str]:
        """Return the default strategy, with a note that there is no strategy of that name."""
        note = f"there is no strategy {text!r}{catalog.hint(text, self.strategies)}: {self.default.name} was used"
        logger.warning(note)
        return self.default, note

    # Settings

    @property
    def agent(self) -> Agent:
        """The settings that tell apart the agents that continue a conversation."""
        model, overhead = text_setting(self.args, "model", self._environ), overhead_tokens(self.args, self._environ)
        return agent_of({"model": model, "overhead_tokens": overhead})

    def _reading(self) -> Reading:
        """Return the reading with the current settings: for a model's tokens, in the formats that they name."""
        model = None if self._given_count else text_setting(self.args, "model", self._environ)
        count, estimate = (self._given_count or exact(), None) if model is None else for_model(model)
        # Not one for each model, since requests may name any number of them.
        memo = self._counters.get(id(count)) or self._counters.setdefault(id(count), Memo(count))
        formats = self.formats
        if text_setting(self.args, "format", self._environ):
            formats = resolve("format", partial(find_formats, formats=formats), self.args, self._environ)
        return Reading(memo, estimate, formats, self._is_tool_result_message, self._extract_tool_name)

    # For subclasses to override

    def _is_tool_result_message(self, content: object) -> bool:
        """Return whether a user's text can hold XML tool results. A subclass may restrict it."""
        return xml.is_tool_result(content)

    def _extract_tool_name(self, content: str) -> str:
        """Return the tool named by the first start tag: "unknown" if it has no name, "" for an empty name."""
        return xml.tool_name(content)

    def _generate_replacement_message(self, tool_name: str) -> str:
        """Return the XML element of a cleared result. Only the text between its tags is used."""
        return element(tool_name, self.replacement_message)


def check_ratio(calibration: float) -> float:
    """Check a calibration and return it. Raises SettingsError unless it is a finite ratio above 0."""
    if isinstance(calibration, int | float) and 0 < calibration < math.inf:
        return calibration
    raise SettingsError(f"calibration is {calibration!r}: give a ratio above 0, such as autoprune.calibration returns")


def _in_counted(tokens: int, calibration: float) -> int:
    """Convert the provider's tokens to counted tokens, rounded down."""
    # 1e-6, so that a rounding error of the division does not cost a whole token.
    return tokens if calibration == 1.0 else math.floor(tokens / calibration + 1e-6)


def weighs_prices(strategy: Any) -> bool:
    """Return whether a strategy decides by prices."""
    return callable(getattr(strategy, "for_prices", None))


def for_prices(strategy: Any, model: str | None, ttl: float | None, calibration: float) -> Any:
    """Return the strategy for the prices of a model and a cache lifetime; unchanged if it does not depend on prices."""
    if not weighs_prices(strategy):
        return strategy
    return strategy.for_prices(prices(None, model, ttl).in_counted_tokens(calibration))
