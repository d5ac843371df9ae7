"""The pruner that clears tool results, and the base of both pruners: compare, read, walk, rewrite, report.

`prune` compares the conversation with those that the pruner remembers, reads and walks only new messages, rewrites the
messages by the plan, and reports. Between walk and rewrite, a pruner that folds messages writes their summary. `prune`
and `aprune` run the same stages (`_stages`) and differ only in how they call the summarizer.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeAlias

from loguru import logger

from autoprune.conversation.archive import ArchiveLike, recall
from autoprune.conversation.messages import check_conversation
from autoprune.economics import Invoice, check_invoices, check_pauses, prices
from autoprune.errors import SettingsError
from autoprune.planning.plan import Plan
from autoprune.planning.thinking import NO_OUTCOME
from autoprune.planning.view import FoldingStrategy, Strategy, name_of
from autoprune.pruners._base import (
    ANY_WINDOW,
    Configured,
    OrDefault,
    PruneCall,
    check_ratio,
    edit,
    restored,
    weighs_prices,
    without_folded,
)
from autoprune.pruners.history import History, with_request
from autoprune.pruners.memory import Remembered
from autoprune.pruners.report import Report, cleanup_statistics, constant
from autoprune.pruners.report.advice import advice, cache_note
from autoprune.pruners.result import Callbacks, Message, Result, archive_payloads
from autoprune.settings import values as settings
from autoprune.strategies.catalog import RECOMMENDED, config, description
from autoprune.strategies.clearing import ToolOutputCleanup
from autoprune.summarizers.brief import Spent
from autoprune.tokens import scale_tokens
from autoprune.wire import Provider, check_accepted

NOTHING_SPENT = Spent()
USAGE_UNUSED = "the usage was not used: a pruner that folds no messages takes it as calibration"
# What the rewriting of messages returns: the plan with its final counts, the messages, notes, and the cost of texts.
Rewriting: TypeAlias = Generator[Any, Any, tuple[Plan, list[Any], tuple[str, ...], Spent]]


class Pruner(Configured):
    """The base of both pruners."""

    def prune(
        self,
        conversation: list[Message],
        strategy: str | Strategy | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool | str | Provider = False,
        conversation_id: object = None,
        pauses: Mapping[int, float] | None = None,
        invoices: Mapping[int, Invoice | None] | None = None,
        history: History | None = None,
        usage: object = None,
    ) -> Result[Message]:
        """Prune a conversation. The result has `.conversation` to send, and `.report` and `.plan` with the reasons.

        `strategy` is a name of `self.strategies`, a strategy itself, or None for the default. `calibration` is the
        provider's tokens per counted token (`tokens.calibration`). `validate` checks the result against the rules of
        its provider, or of one given by its name or as a `Provider`.

        `pauses` are the seconds that passed before a request, by the index of the message that follows
        (`economics.Pauses`). After a long pause the provider's cache is cold, and a strategy can prune at no cost.
        `invoices` are what the provider charged for the request before, by the same index (`economics.Invoice`; None
        if it is not known): the bills of `cache_aware(never_dearer=…)` then hold what was paid, not what was expected.
        `history` holds settings that changed during the conversation, by the number of messages of the first request
        that they apply to, such as `{57: {"safe_zone": "80k", "calibration": 1.2}}`. Earlier requests are decided by
        the pruner's settings and `calibration`, which must stay those of the first request: then what was cleared stays
        cleared. The names are those of the settings, and "calibration".

        `usage` is the provider's usage report for its last answer in this conversation. The triggers of strategies
        that fold messages then use its total plus the count of the messages that follow.

        Raises ConversationError or SettingsError, and RuleError if `validate` finds that the provider would refuse
        the result. Errors of a summarizer are noted in the report, and the summary is made without it. The messages
        that were passed are never changed.
        """
        call = self._call(conversation, strategy, calibration, pauses, invoices, history, usage)
        stages = self._stages(call, conversation, validate, conversation_id)
        reached = _run_stages(stages)
        while not isinstance(reached, Result):
            reached = _run_stages(stages, self._answer(reached))
        return reached

    async def aprune(
        self,
        conversation: list[Message],
        strategy: str | Strategy | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool | str | Provider = False,
        conversation_id: object = None,
        pauses: Mapping[int, float] | None = None,
        invoices: Mapping[int, Invoice | None] | None = None,
        history: History | None = None,
        usage: object = None,
    ) -> Result[Message]:
        """Prune as `prune` does, and await the summarizers.

        If several calls for one conversation run at the same time, the first one asks for its summary and the others
        wait for the text. If the first is cancelled, the next one asks.
        """
        call = self._call(conversation, strategy, calibration, pauses, invoices, history, usage)
        stages = self._stages(call, conversation, validate, conversation_id)
        reached = _run_stages(stages)
        while not isinstance(reached, Result):
            reached = _run_stages(stages, await self._await_answer(reached))
        return reached

    def plan(
        self,
        conversation: list[Any],
        strategy: str | Strategy | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        pauses: Mapping[int, float] | None = None,
        invoices: Mapping[int, Invoice | None] | None = None,
        history: History | None = None,
        usage: object = None,
    ) -> Plan:
        """Plan a prune without doing it. Walks the conversation from its start and calls no callbacks.

        No summary is written, so the tokens of a plan that folds messages are an upper bound.
        """
        return self._call(conversation, strategy, calibration, pauses, invoices, history, usage).plan_from_start()

    def _call(
        self,
        conversation: list[Any],
        strategy: object,
        calibration: float,
        pauses: Mapping[int, float] | None,
        invoices: Mapping[int, Invoice | None] | None,
        history: History | None,
        usage: object,
    ) -> PruneCall:
        """Check the settings and the conversation. Raises SettingsError or ConversationError."""
        terms = self._terms(strategy, calibration, history)
        call = PruneCall(
            terms,
            [*check_conversation(conversation)],  # which may change while a summary is written, or in another thread
            {} if pauses is None else check_pauses(pauses),
            {} if invoices is None else check_invoices(invoices),
            key=terms,
        )
        return self._complete(call, usage)

    def _complete(self, call: PruneCall, usage: object) -> PruneCall:
        """Add what a usage report says, and what this kind of pruner knows beside the messages."""
        notes = () if usage is None else (USAGE_UNUSED,)
        return replace(call, terms=replace(call.terms, fallbacks=(*call.terms.fallbacks, *notes)))

    def _stages(
        self, call: PruneCall, conversation: list[Any], validate: bool | str | Provider, conversation_id: object
    ) -> Generator[Any, Any, Result[Any]]:
        """Run the stages of a prune. Yield the writer of its texts, and continue with the answer that is sent.

        `conversation` is the caller's list, which is returned if nothing changes.
        """
        started = self._clock()
        known_id = self.conversation_id if conversation_id is None else conversation_id
        has_callbacks = self.before_prune or self.on_pruned
        callbacks = Callbacks(self.before_prune, self.on_pruned, known_id) if has_callbacks else None
        # Compare with the conversations of earlier calls.
        known = self._memory.compare(call.key, call.bare)
        if call.fits_unread(known):
            # There is nothing to do, so tokens are only counted if the caller reads the report.
            plan, thinking, has_acted = None, NO_OUTCOME, False
            plan_of = replace(call, messages=[*known.snapshots]).plan_from_start
        else:
            # Read the new messages, and continue the walk.
            walk = call.walk_on(known)
            plan, thinking = call.make_plan(walk)
            has_acted = walk.has_acted
            plan_of = partial(constant, plan)
        read = known.parser.notes if known.parser and has_acted else ()
        notes = (*thinking.notes, *read, *restored(known))
        # A refused prune is remembered too: what was read and decided does not depend on the callback.
        self._memory.keep(known)
        report, pruned = self._report(call, notes, plan_of), conversation
        if plan is not None:
            # The callback is asked before any model. The summary is not written yet, so the plan counts its room.
            changed = [] if plan.edits or plan.folds or plan.stripped else conversation
            if callbacks and (refused := callbacks.refusal(Result(changed, report, thinking.parameters), conversation)):
                return refused
            # Write the texts, and rewrite the messages.
            plan, rewritten, said, spent = yield from self._rewrite(call, plan, known)
            pruned = conversation if rewritten is call.messages else rewritten
            report = replace(report, fallbacks=(*report.fallbacks, *said), plan_of=partial(constant, plan), spent=spent)
        result = Result(pruned, replace(report, seconds=self._clock() - started), thinking.parameters)
        if validate:
            result = result.with_notes(check_accepted(pruned, call.messages, validate, call.terms.format, self.formats))
        if self.archive is not None and pruned is not conversation:
            result = archive_payloads(result, self.archive, known.archived)
        log_prune(result.report, "INFO" if has_acted or pruned is not conversation else "DEBUG")
        return callbacks.notify(result, conversation) if callbacks else result

    def _rewrite(self, call: PruneCall, plan: Plan, known: Remembered) -> Rewriting:
        """Rewrite the messages by a plan. Yield the writer of its texts, if it needs any."""
        yield from ()
        pruned = edit(call.messages, plan)
        if plan.folds:
            plan, pruned = without_folded(plan, pruned, call.terms.reading)
        return plan, pruned, (), NOTHING_SPENT

    def _answer(self, writer: Any) -> Any:
        """Let a writer ask for its texts."""
        raise NotImplementedError

    async def _await_answer(self, writer: Any) -> Any:
        """Let a writer ask for its texts, and await them."""
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

    def recall(self, id: str | int) -> str:
        """Get cleared content back from the archive, by the id in its placeholder.

        Raises ArchiveError if the archive has no content for the id, and SettingsError without an archive.
        """
        return recall(self.archive, id)

    def fill_in(self, **known: Any) -> Self:
        """Return a copy of this pruner with values for settings that were not given. Both share their caches.

        The keywords are settings of `settings.SETTINGS`, such as model="gpt-5" or overhead_tokens=9_000.
        """
        args = settings.fill_in(self.args, self._environ, **known)
        return self if args is self.args else self._with(args=args)

    def with_usual_zone(self, strategy: Any = None) -> Self:
        """Return a copy with the usual safe zone of the model, unless one was given, if the strategy weighs prices.

        Such a strategy clears less than a safe zone forces it to if that costs more than it saves. Other strategies,
        and models whose window is not known, keep the documented default. Both pruners share their caches.
        """
        chosen, _ = self._choose_strategy(strategy)
        model = settings.text_setting(self.args, "model", self._environ)
        window = settings.window_tokens(self.args, self._environ) or settings.window_of(model)
        return self.fill_in(safe_zone=settings.usual_zone(model, window)) if weighs_prices(chosen) and window else self

    def with_strategy(self, strategy: Any = None) -> Self:
        """Return a copy whose default is `strategy`, which is looked up now. Both share their caches.

        If it is None: `cache_aware`; the pruner itself if its constructor got a strategy, or if it folds messages.
        """
        if strategy is not None:
            return self._with(default=self._choose_strategy(strategy)[0], _has_strategy=True)
        recommended = self.strategies.get(RECOMMENDED)
        return self if self._has_strategy or recommended is None else self._with(default=recommended)

    def check_settings(self) -> Self:
        """Return this pruner. Raises the SettingsError of a prune, as far as it needs neither messages nor a model.

        The attributes of an object with settings are not checked, since they are read at each prune.
        """
        if self.args is None or isinstance(self.args, settings.PruneArgs | Mapping | str | int | float):
            settings.window_tokens(self.args, self._environ)
            self.fill_in(window=ANY_WINDOW).plan([])
        return self

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
        messages, overhead = check_conversation(conversation), settings.overhead_tokens(self.args, self._environ)
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
            return {"safe_zone_tokens": settings.safe_zone(self.args, self._environ), **config(strategy)}
        except SettingsError:
            return config(strategy)

    # Reports

    def _report(self, call: PruneCall, notes: tuple[str, ...], plan_of: Callable[[], Plan]) -> Report:
        """Create the report of a prune, without its seconds and the cost of its texts."""
        now = call.terms.at(len(call.messages))
        return Report(
            strategy=name_of(now.strategy),
            safe_zone=now.safe_zone,
            calibration=now.calibration,
            fallbacks=(*call.terms.fallbacks, *notes),
            seconds=0.0,
            plan_of=plan_of,
            advise=partial(advice, self, self._folding, now.strategy, now.calibration),
            warn=self._warn if isinstance(now.strategy, ToolOutputCleanup) else None,
        )

    def _warn(self, plan: Plan) -> str:
        """Return a warning if the rule costs more than it saves with the provider's cache; "" if not."""
        model = settings.text_setting(self.args, "model", self._environ)
        return cache_note(plan, prices(None, model, settings.cache_ttl(self.args, self._environ)))

    def _folding(self) -> "Pruner":
        """Create a `ConversationPruner` with the same settings, for advice."""
        raise NotImplementedError


def _run_stages(stages: Generator[Any, Any, Result[Any]], answer: Any = None) -> Any:
    """Run the stages of a prune to the next writer, or to the result."""
    try:
        return stages.send(answer)
    except StopIteration as end:
        return end.value


def one_strategy(strategy_name: object, strategy: object) -> Any:
    """Return the strategy that a call passes by either keyword. Raises SettingsError if the two differ."""
    if strategy_name is None or strategy is None or strategy_name == strategy:
        name = OrDefault(strategy_name) if isinstance(strategy_name, str) else strategy_name
        return name if strategy is None else strategy
    raise SettingsError(f"strategy_name is {strategy_name!r} and strategy is {strategy!r}: give one of them")


def log_prune(report: Report, level: str) -> None:
    """Log a prune in one line with bound fields; silent unless the program calls `logger.enable("autoprune")`."""
    # Lazy, since the text of a report needs figures that are only computed if somebody reads them.
    with_fields = logger.opt(lazy=True, capture=False).patch(lambda record: record["extra"].update(report.fields))
    with_fields.log(level, "{}", lambda: report)


class AgenticConversationPruner(Pruner):
    """Keep an agent's conversation within its safe zone by clearing the tool results that it needs least.

    `args` is a `PruneArgs`, a mapping with the same keys, a budget such as `"50k"`, or any object with
    `conversation_prune_safe_zone_tokens`. It is read at each prune. `llm` is stored and never called. `count` replaces
    the exact token counter by any `Callable[[str], int]`. `formats` are additional wire formats, tried before the
    built-in ones.
    """

    is_folding = False
    default: Strategy
    strategies: dict[str, Strategy]

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
            "safe_zone": settings.safe_zone(args, environ),
            "calibration": check_ratio(calibration),
            "model": settings.text_setting(args, "model", environ),
            "cache_ttl": settings.cache_ttl(args, environ),
            "overhead_tokens": settings.overhead_tokens(args, environ),
        }
        whole = with_request(history, now, messages)
        first = whole[0]
        others = {name: value for name, value in first.items() if value != now[name] and name != "calibration"}
        pruner = self._with(args=settings.override(args, environ, **others)) if others else self
        later = {at: changes for at, changes in whole.items() if at and changes}
        return pruner, {"calibration": first["calibration"], **({"history": later} if later else {})}, whole

    def _folding(self) -> Pruner:
        """Create a `ConversationPruner` with the same settings."""
        from autoprune.pruners.conversation import ConversationPruner

        return ConversationPruner(
            self.args, count=self._given_count, formats=self.formats, archive=self.archive, environ=self._environ
        )


def prune(
    messages: list[Message],
    args: settings.Args = None,
    *,
    strategy: str | Strategy | None = None,
    model: str | None = None,
    calibration: float = 1.0,
    validate: bool | str | Provider = False,
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
    pruner = pruner.with_strategy().with_usual_zone()
    return pruner.prune(messages, calibration=calibration, validate=validate, pauses=pauses)
