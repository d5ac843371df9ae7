"""The pruner that clears tool results."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from autoprune.conversation.messages import checked
from autoprune.conversation.rewriting import strip
from autoprune.conversation.summary import running
from autoprune.conversation.transcript import Transcript
from autoprune.economics import checked_pauses, prices
from autoprune.errors import SettingsError
from autoprune.planning.clamping import Clamp
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.view import Strategy, asks_always, folds, option
from autoprune.planning.walk import Walk
from autoprune.providers import Provider, accepted
from autoprune.providers.thinking import NOTHING, outcome
from autoprune.pruners._advice import advice
from autoprune.pruners._archiving import archived
from autoprune.pruners._base import Pruner
from autoprune.pruners._progress import Progress
from autoprune.pruners._reading import fixed_tokens
from autoprune.pruners._terms import Terms
from autoprune.pruners.events import logged
from autoprune.pruners.report import Report, cache_note
from autoprune.pruners.result import Result
from autoprune.settings import cache_ttl
from autoprune.strategies.catalog import available, clearing_named
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.tokens import ExactCounter


class AgenticConversationPruner(Pruner):
    """Keeps an agent's conversation within its safe zone by clearing the tool results that it needs least.

    `args` is a `PruneArgs`, a mapping like it, a budget by itself such as `"50k"`, or any object with
    `conversation_prune_safe_zone_tokens`; it is read when it is used. `llm` is kept and never called. `count` replaces
    the exact token counter by any `Callable[[str], int]`. `formats` are wire formats of the caller's own, tried before
    those that ship.
    """

    default: Strategy
    strategies: dict[str, Strategy]

    def _shipped(self) -> dict[str, Strategy]:
        return available()

    def prune(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool | Provider = False,
        conversation_id: object = None,
        pauses: Mapping[int, float] | None = None,
        cache_ttls: Mapping[int, float] | None = None,
    ) -> Result:
        """Prune a conversation: `.conversation` to send, `.report` and `.plan` of what was done and why.

        `strategy` is a name of `self.strategies`, a strategy itself, or None for the default. `calibration` is the
        provider's tokens per counted token (`tokens.calibration`). `validate` checks the result against the rules of
        its provider, or of a `Provider`.
        `pauses` are the seconds that passed without a request, by the index of the message before which they lie
        (`economics.Pauses`): after a long one the provider's cache is cold, and a strategy may prune for free.
        `cache_ttls` are for a cache whose life changes in mid-conversation: how many seconds it lives, by the index of
        the message from which on it does. Until the first of these it lives as long as the settings say, so that what
        was decided there stays.

        Raises ConversationError or SettingsError, and RuleError where `validate` finds that the provider would refuse
        the result; the caller's messages are never changed.
        """
        started = self._clock()
        terms = self._terms_of(strategy, calibration, cache_ttls)
        key = _key(terms, checked(conversation))
        waited = checked_pauses(pauses)
        progress = self._memory.walked(key, conversation, partial(_start, terms, conversation), waited)
        plan_of = _plan_of(terms, progress, conversation)
        aftermath = NOTHING
        if progress.walk.newest_thinking:
            plan = plan_of()
            aftermath = outcome(terms.thinking, plan)
            plan_of = partial(aftermath.applied, plan)
        pruned = strip(progress.rewrite(conversation), aftermath.stripped)
        notes = accepted(pruned, conversation, validate, terms.format, self.formats)
        report = Report(
            getattr(terms.strategy, "name", type(terms.strategy).__name__),
            terms.safe_zone,
            terms.calibration,
            (*terms.fallbacks, *aftermath.notes, *notes, *progress.notes),
            self._clock() - started,
            plan_of,
            advise=partial(advice, self, self._folding, terms.strategy, calibration),
            warn=self._warn if isinstance(terms.strategy, ToolOutputCleanup) else None,
        )
        is_at_work = pruned is not conversation or progress.walk.is_at_work
        result = Result(pruned, report, aftermath.parameters)
        callbacks = self._callbacks(conversation_id)
        refused = callbacks.refused(result, conversation)
        if refused is None:
            edits = progress.walk.edits.values()
            result = archived(result, self.archive, edits, conversation, progress.archived)
        self._memory.keep(key, progress)
        if refused:
            return refused
        logged(result.report, "INFO" if is_at_work else "DEBUG")
        return callbacks.told(result, conversation)

    def _warn(self, plan: Plan) -> str:
        """Return in words what the literal rule costs with the provider's cache; "" where it saves."""
        return cache_note(plan, prices(None, self._text("model"), cache_ttl(self.args, self._environ)))

    def plan(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        pauses: Mapping[int, float] | None = None,
        cache_ttls: Mapping[int, float] | None = None,
    ) -> Plan:
        """Return what `prune` would do: a dry run, without the memo."""
        terms = self._terms_of(strategy, calibration, cache_ttls)
        progress = _start(terms, checked(conversation), is_bounded=False)
        progress.walk.pauses = checked_pauses(pauses)
        progress.walk.extend(conversation, progress.read(conversation) or [])
        plan = _plan_of(terms, progress, conversation)()
        return outcome(terms.thinking, plan).applied(plan)

    def _chosen(self, strategy: object) -> tuple[Any, str | None]:
        """Return the strategy and a note, as every pruner does. Raises SettingsError for one that folds messages."""
        chosen, note = super()._chosen(strategy)
        if folds(chosen):
            name = getattr(chosen, "name", type(chosen).__name__)
            raise SettingsError(f"the strategy {name} is one of ConversationPruner: give it to one, or name another")
        return chosen, note

    def _written(self, text: str) -> Strategy:
        return clearing_named(text)

    def _folding(self) -> Pruner:
        """Return a pruner that folds messages, with the same settings."""
        from autoprune.pruners.conversation import ConversationPruner

        return ConversationPruner(
            self.args, count=self._given_count, formats=self.formats, archive=self.archive, environ=self._environ
        )


def _start(terms: Terms, conversation: list[Any], *, is_bounded: bool = True) -> Progress[Walk]:
    """Return the progress before the first message; `is_bounded`: what is small by its bytes need not be read."""
    fixed = fixed_tokens(conversation, terms.overhead)
    is_exact = isinstance(terms.reading.count.count, ExactCounter) and terms.calibration == 1.0
    looks_back = terms.thinking in (ThinkingPolicy.DROP_BLOCK, ThinkingPolicy.STRIP)
    may_wait = is_bounded and is_exact and not looks_back and _waits(terms.strategy)
    walk = Walk(terms.strategy, terms.limit, fixed, terms.placeholder, thinking=terms.thinking, later=terms.later)
    parser = terms.reading.parser(running(conversation), wants_inputs=terms.wants_inputs)
    return Progress(parser, walk, fixed if may_wait else math.inf)


def _plan_of(terms: Terms, progress: Progress[Walk], conversation: list[Any]) -> Callable[[], Plan]:
    """Return the plan, kept; or how to come by it, where the messages did not even have to be read."""
    fixed = fixed_tokens(conversation, terms.overhead)
    plan = progress.walk.planned_for(Transcript(list(conversation), tuple(progress.walk.entries), fixed))
    if progress.is_read:
        return lambda: plan
    messages = progress.known.as_read()
    read = partial(terms.reading.transcript, overhead=terms.overhead, wants_inputs=terms.wants_inputs)
    return lambda: replace(plan, transcript=read(messages()))


def _waits(strategy: Strategy) -> bool:
    """Return whether a strategy has nothing to do below the safe zone."""
    return option(strategy, "clamp", Clamp) is None and not asks_always(strategy)


def _key(terms: Terms, conversation: list[Any]) -> object:
    """What remembered progress must have been made with; with a summary at its head a conversation is read anew."""
    found = running(conversation)
    return terms.key, found and found.calls
