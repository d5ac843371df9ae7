"""The pruner that folds and drops whole messages.

The walk decides which messages to fold and how long the summary may be, and only then the summarizer writes it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from autoprune.conversation.archive import ArchiveLike, is_mapping
from autoprune.conversation.summary import assemble
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.planning.plan import Plan
from autoprune.planning.view import FoldContext, FoldingStrategy
from autoprune.pruners._base import PruneCall, Terms, edit
from autoprune.pruners.history import History
from autoprune.pruners.large_results import TEXT_CHARACTERS, shortener
from autoprune.pruners.memory import REMEMBERED, Remembered
from autoprune.pruners.pruner import Pruner, Rewriting
from autoprune.pruners.result import BeforePrune, OnPruned
from autoprune.pruners.writing import SummaryWriter, old_summary, summary_message
from autoprune.settings.values import Args, group_size, text_setting
from autoprune.strategies.folding import Folding
from autoprune.summarizers.brief import Answer, identity_of
from autoprune.summarizers.driver import CONCURRENCY, MAX_CALLS, MAX_SECONDS, Budget, arun, run
from autoprune.summarizers.selection import summarizer_of
from autoprune.tokens import Count, TextCache, spent_tokens
from autoprune.wire import USER_FIRST, find_provider, roles_in
from autoprune.wire.anthropic import places_system
from autoprune.wire.parsing import Format


class ConversationPruner(Pruner):
    """Keep a conversation within its safe zone by folding its oldest messages into a summary, or dropping them.

    `args` is a `PruneArgs`, a mapping with the same keys, a budget such as `"50k"`, or any object with
    `conversation_prune_safe_zone_tokens` and `conversation_prune_group_size`. `llm` is a summarizer: anything callable
    with a `Brief`, such as an `OpenAISummarizer`. Without one, summaries are made without a model. `store`, any mapping
    of texts, caches what a model wrote by a hash of its input, so the same conversation gets the same summary again at
    no cost. Per prune, `max_calls` limits the calls to a model, `concurrency` the calls at the same time, and
    `max_seconds` the time for all of them (None: no limit). A summary that is not finished by then counts as failed.

    Everything else is as in `AgenticConversationPruner`. `before_prune` is called before any model is. `archive` keeps
    results that are cleared or shortened, but not messages that are folded or dropped.
    """

    is_folding = True
    default: FoldingStrategy
    strategies: dict[str, FoldingStrategy]

    def __init__(
        self,
        args: Args,
        llm: object = None,
        *,
        strategy: str | FoldingStrategy | None = None,
        model: str | None = None,
        conversation_id: object = None,
        count: Count | None = None,
        formats: Sequence[Format] = (),
        store: MutableMapping[str, str] | None = None,
        archive: ArchiveLike | None = None,
        remember: int = REMEMBERED,
        max_calls: int = MAX_CALLS,
        max_seconds: float | None = MAX_SECONDS,
        concurrency: int = CONCURRENCY,
        before_prune: BeforePrune | None = None,
        on_pruned: OnPruned | None = None,
        clock: Callable[[], float] = time.perf_counter,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Store the arguments. `strategy` and `archive` are checked here, the others when they are first used."""
        super().__init__(
            args,
            llm,
            strategy=strategy,
            model=model,
            count=count,
            formats=formats,
            conversation_id=conversation_id,
            archive=archive,
            remember=remember,
            before_prune=before_prune,
            on_pruned=on_pruned,
            clock=clock,
            environ=environ,
        )
        if store is not None and not is_mapping(store):
            raise SettingsError(f"store is {store!r}: give a mutable mapping such as a dict")
        self.store: MutableMapping[str, str] = {} if store is None else store
        self.max_calls = max_calls
        self.max_seconds = max_seconds
        self.concurrency = concurrency
        self._memo: TextCache[str] = TextCache(TEXT_CHARACTERS)

    def _complete(self, call: PruneCall, usage: object) -> PruneCall:
        self._check_bounds()
        terms, running = call.terms, call.terms.reading.summary(call.messages)
        summarizer, note = summarizer_of(terms.strategy, self.llm)
        reported, unknown = reported_tokens(usage, terms.calibration)
        is_required = terms.format in USER_FIRST or self._provider_begins_with_user()
        return replace(
            call,
            terms=replace(terms, fallbacks=(*terms.fallbacks, *filter(None, (note, unknown)))),
            context=FoldContext(running, lambda entry: is_required or entry.format in USER_FIRST),
            reported=reported,
            # A usage report belongs to one request, so a walk that used it is not remembered.
            key=None if reported else (terms, running, identity_of(summarizer), is_required),
        )

    def _rewrite(self, call: PruneCall, plan: Plan, known: Remembered) -> Rewriting:
        """Write the summary and the texts of large results, and rewrite the messages."""
        summarizer, _ = summarizer_of(call.terms.strategy, self.llm)
        writer = SummaryWriter(
            plan=plan,
            messages=call.bare,
            summarizer=summarizer,
            store=self.store,
            memo=self._memo,
            count=call.terms.placeholder.count,
            texts=known.texts,
            results=shortener(call.terms.strategy, self.llm),
            title=getattr(call.terms.strategy, "title", None) or "",
        )
        answer = yield writer
        finished, pruned = _with_summary(replace(plan, edits=writer.edits), answer, call)
        is_dropped = bool(plan.folds) and not finished.folds
        note = "nothing was folded: with its summary the conversation would not have been smaller"
        return finished, pruned, (*([note] if is_dropped else ()), *writer.spent.notes), writer.spent

    def _answer(self, writer: SummaryWriter) -> Answer:
        return run(writer.steps(), self.concurrency, Budget(self.max_calls, self.max_seconds))

    async def _await_answer(self, writer: SummaryWriter) -> Answer:
        async with self._turn(writer.key):
            return await arun(writer.steps(), self.concurrency, Budget(self.max_calls, self.max_seconds))

    def _turn(self, key: str) -> asyncio.Lock:
        """Return the lock of a summary that this event loop is writing; a new one if there is nothing to fold."""
        if not key:
            return asyncio.Lock()
        return self._writing.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock())

    def _check_bounds(self) -> None:
        for name, least in (("max_calls", 0), ("concurrency", 1)):
            check_number(name, getattr(self, name), least)
        seconds = self.max_seconds
        if seconds is not None and (not is_number(seconds, 0, int | float) or not seconds):
            raise SettingsError(f"max_seconds is {seconds!r}: give seconds, more than 0, or None")

    def _terms(self, strategy: object, calibration: float, history: History | None = None) -> Terms:
        terms = super()._terms(strategy, calibration, history)
        return replace(terms, strategy=self._with_group_size(terms.strategy))

    def _with_group_size(self, strategy: FoldingStrategy) -> FoldingStrategy:
        """Return the strategy, with the group size of the settings if it does not set one."""
        if isinstance(strategy, Folding) and strategy.group_size is None:
            return replace(strategy, group_size=group_size(self.args, self._environ))
        return strategy

    def _provider_begins_with_user(self) -> bool:
        """Return whether the provider in the settings requires the user's message first."""
        provider = text_setting(self.args, "provider", self._environ)
        try:
            return provider is not None and find_provider(provider, ()).begins_with_user
        except SettingsError:  # one whose rules are not known
            return False

    def _config(self, strategy: FoldingStrategy) -> dict[str, object]:
        """Return the parameters of a strategy, with the group size that it takes from the settings."""
        try:
            return super()._config(self._with_group_size(strategy))
        except SettingsError:
            return super()._config(strategy)

    def _folding(self) -> Pruner:
        return self


def reported_tokens(usage: object, calibration: float) -> tuple[int | None, str | None]:
    """Return the tokens that a provider reported, in counted tokens, or else a note that the usage cannot be read."""
    if usage is None:
        return None, None
    try:
        return int(spent_tokens(usage) / calibration), None
    except SettingsError as error:
        return None, f"{error}: the count was used"


def _with_summary(plan: Plan, answer: Answer, call: PruneCall) -> tuple[Plan, list[Any]]:
    """Carry out a plan with the new summary; return the plan with the new counts, and the conversation.

    If the conversation would not be smaller, the plan is returned without changes, and the caller's messages.
    """
    messages, terms = call.messages, call.terms
    if not plan.folds:
        return plan, edit(messages, plan)
    summary = summary_message(plan, answer, messages, terms.reading.formats)
    gone = {*plan.gone, *old_summary(plan)}
    added = {} if summary is None else {plan.place: summary}
    role = roles_in(terms.reading.formats)
    kept = assemble(edit(call.bare, plan), gone, added, role, moves_system=places_system(messages))
    pruned = [each.message for each in kept]
    weighed = terms.reading.transcript(pruned, terms.overhead)
    plan = replace(plan, counted=weighed.tokens, weights=tuple(entry.tokens for entry in weighed.entries))
    if plan.tokens >= plan.tokens_before:
        return replace(plan, edits=(), folds=(), stripped=(), counted=None, weights=()), messages
    return plan, pruned
