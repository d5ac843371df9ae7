"""The pruner that clears tool results: parse, plan, apply, report. It ties the rooms together, and does no work."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from autoprune.conversation.rewriting import strip
from autoprune.conversation.summary import running
from autoprune.conversation.transcript import Transcript
from autoprune.planning.clamping import Clamp
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.view import Strategy, option
from autoprune.planning.walk import Walk, plan
from autoprune.providers import accepted
from autoprune.providers.thinking import NOTHING, outcome
from autoprune.pruners.advice import advice
from autoprune.pruners.base import Pruner, Result, checked, either, logged
from autoprune.pruners.history import History
from autoprune.pruners.terms import Terms
from autoprune.report.report import Report
from autoprune.strategies.by_name import available, clearing_named
from autoprune.tokens import REPLY_TOKENS, ExactCounter


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

    def prune_conversations(
        self,
        conversations: list[Any],
        strategy_name: str | Strategy | None = None,
        *,
        strategy: str | Strategy | None = None,
        conversation_id: object = None,
        calibration: float = 1.0,
    ) -> list[Any]:
        """The conversation to send, within the safe zone if it can be; the caller's list if there is nothing to do.

        `strategy` is another word for `strategy_name`, the one that `prune` has.
        """
        chosen = either(strategy_name, strategy)
        return self.prune(conversations, chosen, calibration=calibration, conversation_id=conversation_id).conversation

    def prune(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool = False,
        conversation_id: object = None,
    ) -> Result:
        """Prune a conversation: `.conversation` to send, `.report` and `.plan` of what was done and why.

        `strategy` is a name of `self.strategies`, a strategy itself, or None for the default; an unknown name falls
        back to the default, and the report says so. `calibration` is the provider's tokens per counted token
        (`tokens.calibration`). `validate` checks the result against the rules of its provider.

        Raises ConversationError or SettingsError, and RuleError where `validate` finds that the provider would refuse
        the result; the caller's messages are never changed.
        """
        started = self._clock()
        terms = self._terms(strategy, calibration)
        history = self._history(terms, checked(conversation))
        plan_of = self._plan_of(terms, history, conversation)
        aftermath = NOTHING
        if history.walk.newest_thinking:
            found = plan_of()
            aftermath = outcome(terms.thinking, found)
            plan_of = partial(aftermath.applied, found)
        pruned = strip(history.output(conversation), aftermath.stripped)
        notes = accepted(pruned, conversation, terms.format, self.formats) if validate else ()
        report = Report(
            getattr(terms.strategy, "name", type(terms.strategy).__name__),
            terms.safe_zone,
            terms.calibration,
            (*terms.fallbacks, *aftermath.notes, *notes, *history.notes),
            self._clock() - started,
            plan_of,
            advise=partial(advice, self, self._folding, terms.strategy, calibration),
        )
        is_at_work = pruned is not conversation or history.walk.tokens > terms.limit
        self._memory.keep(_key(terms, conversation), history)
        result = Result(pruned, report, aftermath.parameters)
        if vetoed := self._vetoed(result, conversation, conversation_id):
            return vetoed
        logged(report, "INFO" if is_at_work else "DEBUG")
        return self._told(result, conversation, conversation_id)

    def plan(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
    ) -> Plan:
        """What `prune` would do: a dry run."""
        terms = self._terms(strategy, calibration)
        transcript = self._parse(checked(conversation), terms.overhead, wants_inputs=terms.wants_inputs)
        found = plan(transcript, terms.strategy, terms.limit, terms.placeholder, thinking=terms.thinking)
        return outcome(terms.thinking, found).applied(found)

    async def aprune_conversations(
        self,
        conversations: list[Any],
        strategy_name: str | Strategy | None = None,
        *,
        strategy: str | Strategy | None = None,
        conversation_id: object = None,
        calibration: float = 1.0,
    ) -> list[Any]:
        """`prune_conversations` for asynchronous callers; no model is called, so nothing is waited for."""
        chosen = either(strategy_name, strategy)
        return self.prune(conversations, chosen, calibration=calibration, conversation_id=conversation_id).conversation

    async def aprune(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool = False,
        conversation_id: object = None,
    ) -> Result:
        """`prune` for asynchronous callers; no model is called, so nothing is waited for."""
        return self.prune(
            conversation, strategy, calibration=calibration, validate=validate, conversation_id=conversation_id
        )

    def _written(self, text: str) -> Strategy:
        return clearing_named(text)

    def _folding(self) -> Pruner:
        """A pruner that folds messages, with the same settings."""
        from autoprune.pruners.conversation import ConversationPruner

        return ConversationPruner(self.args, count=self._given_count, formats=self.formats, environ=self._environ)

    def _history(self, terms: Terms, conversation: list[Any]) -> History:
        """The conversation read and walked, from where it was left if it goes on from there."""
        history = self._memory.take(_key(terms, conversation), conversation)
        if history is not None and history.extend(conversation):
            return history
        fixed = terms.overhead + REPLY_TOKENS
        is_exact = isinstance(self._count()[0].count, ExactCounter) and terms.calibration == 1.0
        looks_back = terms.thinking in (ThinkingPolicy.DROP_BLOCK, ThinkingPolicy.STRIP)
        is_bounded = is_exact and option(terms.strategy, "clamp", Clamp) is None and not looks_back
        walk = Walk(terms.strategy, terms.limit, fixed, terms.placeholder, thinking=terms.thinking)
        parser = self._parser(wants_inputs=terms.wants_inputs, found=running(conversation))
        history = History(parser, walk, fixed if is_bounded else math.inf)
        history.extend(conversation)
        return history

    def _plan_of(self, terms: Terms, history: History, conversation: list[Any]) -> Callable[[], Plan]:
        """The plan, kept; or how to come by it, where the messages did not even have to be read."""
        fixed = terms.overhead + REPLY_TOKENS
        found = history.walk.planned_for(Transcript(list(conversation), tuple(history.walk.entries), fixed))
        if history.is_read:
            return lambda: found
        messages = history.as_read()
        read = partial(self._parse, overhead=terms.overhead, wants_inputs=terms.wants_inputs)
        return lambda: replace(found, transcript=read(messages()))


def _key(terms: Terms, conversation: list[Any]) -> object:
    """What a remembered history must have been made with; with a summary at its head a conversation is read anew."""
    found = running(conversation)
    return terms.key, found and found.calls
