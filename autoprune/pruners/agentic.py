"""The pruner that clears tool results: compare, read, walk, rewrite, report.

`prune` compares the conversation with those that the pruner remembers, reads and walks only new messages, rewrites the
messages by the plan, and reports.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Self

from autoprune.conversation.archive import ArchiveLike
from autoprune.conversation.edits import apply, strip_thinking
from autoprune.conversation.messages import check_conversation
from autoprune.conversation.summary import find_summary
from autoprune.conversation.transcript import newest_compaction, without_replaced
from autoprune.economics import Invoice, check_invoices, check_pauses, prices
from autoprune.errors import SettingsError
from autoprune.formats.parsing import Parser
from autoprune.planning.plan import TRACKED, Plan
from autoprune.planning.protections import DEFAULT_PROTECTIONS
from autoprune.planning.retention import Retention
from autoprune.planning.view import Strategy, asks_always, folds, name_of, option
from autoprune.planning.walk import Walk
from autoprune.providers import Provider, check_accepted
from autoprune.providers.thinking import NO_OUTCOME, outcome
from autoprune.pruners._base import Pruner, Terms, check_ratio, log_prune
from autoprune.pruners._removing import without_folded
from autoprune.pruners.history import History, with_request
from autoprune.pruners.memory import NO_INVOICES, NO_PAUSES, fixed_tokens
from autoprune.pruners.memory import History as Remembered
from autoprune.pruners.report.advice import cache_note
from autoprune.pruners.result import Message, Result, archive_payloads
from autoprune.settings import Args, cache_ttl, overhead_tokens, override, safe_zone, text_setting
from autoprune.strategies.catalog import OPTIONS, available, clearing_named
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.tokens import ExactCounter

RESTORED = "because a setting changed"  # in a note that depends on what a pruner remembers


class AgenticConversationPruner(Pruner):
    """Keep an agent's conversation within its safe zone by clearing the tool results that it needs least.

    `args` is a `PruneArgs`, a mapping with the same keys, a budget such as `"50k"`, or any object with
    `conversation_prune_safe_zone_tokens`. It is read at each prune. `llm` is stored and never called. `count` replaces
    the exact token counter by any `Callable[[str], int]`. `formats` are additional wire formats, tried before the
    built-in ones.
    """

    default: Strategy
    strategies: dict[str, Strategy]

    def _shipped_strategies(self) -> dict[str, Strategy]:
        return available()

    def prune(
        self,
        conversation: list[Message],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool | Provider = False,
        conversation_id: object = None,
        pauses: Mapping[int, float] | None = None,
        invoices: Mapping[int, Invoice] | None = None,
        history: History | None = None,
    ) -> Result[Message]:
        """Prune a conversation. The result has `.conversation` to send, and `.report` and `.plan` with the reasons.

        `strategy` is a name of `self.strategies`, a strategy itself, or None for the default. `calibration` is the
        provider's tokens per counted token (`tokens.calibration`). `validate` checks the result against the rules of
        its provider, or of a `Provider`.

        `pauses` are the seconds that passed before a request, by the index of the message that follows
        (`economics.Pauses`). After a long pause the provider's cache is cold, and a strategy can prune at no cost.
        `invoices` are what the provider charged for the request before, by the same index (`economics.Invoice`): the
        bills of `cache_aware(never_dearer=…)` then hold what was paid, and not what was expected.
        `history` holds settings that changed during the conversation, by the number of messages of the first request
        that they apply to, such as `{57: {"safe_zone": "80k", "calibration": 1.2}}`. Earlier requests are decided by
        the pruner's settings and `calibration`, which must stay those of the first request: then what was cleared stays
        cleared. The names are those of the settings, and "calibration".

        Raises ConversationError or SettingsError, and RuleError if `validate` finds that the provider would refuse
        the result. The messages that were passed are never changed.
        """
        started = self._clock()
        terms = self._terms(strategy, calibration, history)
        waited = NO_PAUSES if pauses is None else check_pauses(pauses)
        charged = NO_INVOICES if invoices is None else check_invoices(invoices)
        # Compare with the conversations of earlier calls.
        known = self._memory.compare(terms, check_conversation(conversation))
        now = terms.at(len(conversation))
        fixed = fixed_tokens(conversation, now.overhead)
        if known.is_small(conversation, terms.reading.formats, fixed_tokens(conversation, 0), _idle_limit(terms)):
            # There is nothing to do, so tokens are only counted if the caller reads the report.
            plan_of = partial(_plan_from_start, terms, [*known.snapshots], waited, charged)
            thinking = NO_OUTCOME
            notes: tuple[str, ...] = ()
            is_at_work = False
            pruned = conversation
        else:
            # Read the new messages.
            parser = known.read(conversation, partial(_parser, terms, conversation))
            # Continue the walk.
            start = partial(_walk, terms, conversation)
            walk = known.walk_on(start, waited, terms.later_conditions, charged)
            plan = walk.make_plan([*conversation], fixed)
            is_at_work = walk.is_at_work
            thinking = outcome(now.thinking, plan) if walk.newest_thinking else NO_OUTCOME
            notes = (*thinking.notes, *parser.notes) if is_at_work else thinking.notes
            # Rewrite the messages.
            pruned = apply(conversation, plan.edits)
            if thinking.stripped:
                pruned = strip_thinking(pruned, thinking.stripped)
            plan_of = partial(thinking.apply_to, plan)
            if plan.folds:
                finished, pruned = without_folded(plan_of(), pruned, terms.reading, fixed)
                plan_of = partial(_same, finished)
        if known.cleared:
            notes += tuple(_restored(known))
        # A refused prune is remembered too: what was read and decided does not depend on the callback.
        self._memory.keep(known)
        # Report what was done.
        warn = self._warn if isinstance(terms.strategy, ToolOutputCleanup) else None
        report = self._report(now, notes, self._clock() - started, plan_of, warn=warn)
        result = Result(pruned, report, thinking.parameters)
        callbacks = self._callbacks(conversation_id) if self.before_prune or self.on_pruned else None
        if callbacks and (refused := callbacks.refusal(result, conversation)):
            return refused
        if validate:
            result = result.with_notes(check_accepted(pruned, conversation, validate, terms.format, self.formats))
        if self.archive is not None and pruned is not conversation:
            result = archive_payloads(result, self.archive, known.archived)
        log_prune(result.report, "INFO" if is_at_work or pruned is not conversation else "DEBUG")
        return callbacks.notify(result, conversation) if callbacks else result

    async def aprune(
        self,
        conversation: list[Message],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool | Provider = False,
        conversation_id: object = None,
        pauses: Mapping[int, float] | None = None,
        invoices: Mapping[int, Invoice] | None = None,
        history: History | None = None,
    ) -> Result[Message]:
        """Prune as `prune` does. Nothing is awaited, since no model is called."""
        return self.prune(
            conversation,
            strategy,
            calibration=calibration,
            validate=validate,
            conversation_id=conversation_id,
            pauses=pauses,
            invoices=invoices,
            history=history,
        )

    def with_history(
        self, history: History, messages: int, calibration: float = 1.0
    ) -> tuple[Self, Mapping[str, Any], History]:
        """Return what prunes a request with this many messages, if `history` holds the settings of earlier requests.

        That is a pruner with the settings of the first request, the options of its `prune`, and the history with this
        request, for the next one. The current settings apply from this request on (`pruners.history`). The pruner
        shares its caches.
        """
        args, environ = self.args, self._environ
        now = {
            "safe_zone": safe_zone(args, environ),
            "calibration": check_ratio(calibration),
            "model": text_setting(args, "model", environ),
            "cache_ttl": cache_ttl(args, environ),
            "overhead_tokens": overhead_tokens(args, environ),
        }
        whole = with_request(history, now, messages)
        first = whole[0]
        others = {name: value for name, value in first.items() if value != now[name] and name != "calibration"}
        pruner = self._with(args=override(args, environ, **others)) if others else self
        later = {at: changes for at, changes in whole.items() if at and changes}
        return pruner, {"calibration": first["calibration"], **({"history": later} if later else {})}, whole

    def _warn(self, plan: Plan) -> str:
        """A warning if the rule costs more than it saves with the provider's cache; "" if not."""
        model = text_setting(self.args, "model", self._environ)
        return cache_note(plan, prices(None, model, cache_ttl(self.args, self._environ)))

    def plan(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        pauses: Mapping[int, float] | None = None,
        invoices: Mapping[int, Invoice] | None = None,
        history: History | None = None,
    ) -> Plan:
        """Plan a prune without doing it. Walks the conversation from its start and calls no callbacks."""
        terms = self._terms(strategy, calibration, history)
        told = check_pauses(pauses), check_invoices(invoices)
        plan = _plan_from_start(terms, check_conversation(conversation), *told)
        return outcome(terms.at(len(conversation)).thinking, plan).apply_to(plan)

    def _choose_strategy(self, strategy: object) -> tuple[Any, str | None]:
        """Resolve a strategy as the base class does. Raises SettingsError for one that folds messages."""
        chosen, note = super()._choose_strategy(strategy)
        if folds(chosen):
            raise SettingsError(
                f"the strategy {name_of(chosen)} is one of ConversationPruner: give it to one, or name another"
            )
        return chosen, note

    def _parse_strategy(self, text: str) -> Strategy:
        return clearing_named(text)

    def _folding(self) -> Pruner:
        """Create a `ConversationPruner` with the same settings."""
        from autoprune.pruners.conversation import ConversationPruner

        return ConversationPruner(
            self.args, count=self._given_count, formats=self.formats, archive=self.archive, environ=self._environ
        )


def prune(
    messages: list[Message],
    args: Args = None,
    *,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    calibration: float = 1.0,
    validate: bool | Provider = False,
    pauses: Mapping[int, float] | None = None,
    archive: ArchiveLike | None = None,
) -> Result[Message]:
    """Prune a conversation once: `prune(messages, model="gpt-5").conversation` is what to send.

    The strategy is `cache_aware`, unless `strategy` or AUTOPRUNE_STRATEGY names another. `args` is a safe zone or
    settings, as for `AgenticConversationPruner`, whose `prune` documents the other arguments and the errors. If they
    hold no safe zone, it is the window of a known model without room for the reply.

    Each call reads the conversation from its start. In a loop, keep an `AgenticConversationPruner`: it returns the same
    and reads only the new messages. You also need one for callbacks, your own formats or token counter, and `recall`.
    """
    pruner = AgenticConversationPruner(args, strategy=strategy, model=model, archive=archive)
    pruner = pruner.with_recommended_strategy().with_usual_zone()
    return pruner.prune(messages, calibration=calibration, validate=validate, pauses=pauses)


def _same(plan: Plan) -> Plan:
    return plan


def _plan_from_start(
    terms: Terms, conversation: list[Any], pauses: Mapping[int, float], invoices: Mapping[int, Invoice]
) -> Plan:
    """Read and walk a conversation from its start."""
    walk = _walk(terms, conversation)
    walk.pauses, walk.invoices = pauses, invoices
    walk.extend(without_replaced(_parser(terms, conversation).read_on(conversation, 0)))
    return walk.make_plan([*conversation], fixed_tokens(conversation, terms.at(len(conversation)).overhead))


def _parser(terms: Terms, conversation: list[Any]) -> Parser:
    """Create a parser for the conversation, whose first message may hold a summary of earlier ones."""
    return terms.reading.parser(find_summary(conversation), wants_inputs=terms.wants_inputs)


def _walk(terms: Terms, conversation: list[Any]) -> Walk:
    """Create a walk at the start of the conversation."""
    fixed = fixed_tokens(conversation, terms.overhead)
    return Walk(terms.conditions, fixed, terms.placeholder, later=terms.later_conditions)


def _restored(known: Remembered) -> Iterator[str]:
    """Yield a note if results that an earlier prune cleared are whole again, because its settings were others."""
    # What the provider's compaction replaced is not in the prompt, so it does not come back.
    start = newest_compaction(known.entries) or 0
    back = len({place for place in known.cleared if place.message >= start} - {*known.cleared_places()})
    known.cleared = ()
    if back:
        what = "1 result that was cleared is" if back == 1 else f"{back} results that were cleared are"
        yield f"{what} sent whole again, {RESTORED}: pass the earlier settings too, with history="


def _idle_limit(terms: Terms) -> float:
    """The tokens of messages up to which the strategy has nothing to do, so that nothing is counted; -1 if it may act.

    Raises SettingsError for an option of the strategy that cannot be used.
    """
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
