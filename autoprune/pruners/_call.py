"""What one prune works with: its checked settings and messages, and what follows from a walk over them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from autoprune.conversation.edits import apply, savings_by_message, strip_thinking
from autoprune.conversation.messages import fields_of
from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.summary import AssembledMessage, assemble, find_summary, without_summary
from autoprune.conversation.transcript import newest_compaction, without_replaced
from autoprune.economics import Invoice
from autoprune.planning.plan import TRACKED, Conditions, Later, Plan, ThinkingPolicy
from autoprune.planning.protections import DEFAULT_PROTECTIONS
from autoprune.planning.retention import Retention
from autoprune.planning.thinking import NO_OUTCOME, Outcome, drop_block, outcome
from autoprune.planning.view import FoldContext, asks_always, option
from autoprune.planning.walk import Walk
from autoprune.pruners.memory import History, Reading, fixed_tokens
from autoprune.strategies.catalog import OPTIONS
from autoprune.tokens import ExactCounter
from autoprune.wire import dominant_format
from autoprune.wire.anthropic import places_system
from autoprune.wire.parsing import Parser, parse

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
        """What a walk plans a request with."""
        return Conditions(self.strategy, self.limit, self.overhead, self.thinking, self.hard_limit)

    @property
    def later_conditions(self) -> Later:
        """What a walk plans later requests with, each with the number of messages from which it applies."""
        return [(at, terms.conditions) for at, terms in self.later]


@dataclass(frozen=True)
class Call:
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
        running = self.context.running if self.context else find_summary(self.messages)
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

    def walk_on(self, known: History) -> Walk:
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

    def make_plan(self, walk: Walk) -> tuple[Plan, Outcome]:
        """Return the plan of a walk for the caller's messages, and the consequences for thinking blocks."""
        now = self.terms.at(len(self.messages))
        plan, thinking = walk.make_plan([*self.bare], fixed_tokens(self.bare, now.overhead)), NO_OUTCOME
        if walk.newest_thinking:
            thinking = outcome(now.thinking, plan)
            plan = thinking.apply_to(plan)
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

    def is_small(self, known: History) -> bool:
        """Return whether the messages have so few bytes that there is nothing to do, so they need not be read.

        Raises SettingsError for an option of the strategy that cannot be used.
        """
        limit = -1 if self.context else _idle_limit(self.terms)
        return known.is_small(self.messages, self.terms.reading.formats, fixed_tokens(self.messages, 0), limit)


def edit(messages: list[Any], plan: Plan) -> list[Any]:
    """Apply the edits of a plan and strip its thinking blocks. Folds and drops are not applied."""
    return strip_thinking(apply(messages, plan.edits), plan.stripped)


def without_folded(plan: Plan, edited: list[Any], reading: Reading) -> tuple[Plan, list[Any]]:
    """Return the plan with the new counts, and the messages in which each fold's text replaces its messages.

    `edited` are the messages with all edits made. A text joins the message of the user before it; if there is none, it
    becomes a new message.
    """
    written_in = dominant_format(list(map(fields_of, edited)), reading.formats)
    texts = {fold.messages[0]: written_in.message("user", fold.text) for fold in plan.folds}
    kept = assemble(edited, plan.gone, texts, moves_system=places_system(edited))
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


def restored(known: History) -> Iterator[str]:
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
    for name, kind in OPTIONS.items():
        value = getattr(strategy, name, None)
        if kind is not Retention and value is not None and value is not DEFAULT_PROTECTIONS:
            option(strategy, name, kind)
    # These policies act on changes by earlier prunes, even if the prompt is within the safe zone.
    every = (terms, *(each for _, each in terms.later))
    looks_back = any(each.thinking in TRACKED for each in every)
    is_exact = isinstance(terms.reading.count.count, ExactCounter) and all(each.calibration == 1.0 for each in every)
    is_idle = getattr(strategy, "clamp", None) is None and not asks_always(strategy) and not looks_back
    return min(each.limit - each.overhead for each in every) if is_idle and is_exact else -1
