"""The pruner that folds and drops whole messages: compare, read, walk, write, rewrite, report.

The steps are those of `agentic`, and one more: the walk decides which messages to fold and how long the summary may be
(`_decide`), and only then the summarizer writes it. `prune` and `aprune` differ only in how they call the summarizer.
"""

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from autoprune.conversation.archive import Archive
from autoprune.conversation.edits import (
    CALLS_IN_TEXT,
    CALLS_LATER,
    NO_ANSWER,
    Fold,
    RunningSummary,
    apply,
    strip_thinking,
)
from autoprune.conversation.messages import check_conversation, fields_of
from autoprune.conversation.summary import assemble, find_summary, without_summary, wrap_summary
from autoprune.conversation.transcript import Part, Speaker, Transcript
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.formats import Format, dominant, parse
from autoprune.planning.fold_walk import FoldWalk
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.view import FoldingStrategy, Given
from autoprune.providers import USER_FIRST, Provider, check_accepted, find_provider
from autoprune.providers.thinking import Outcome, drop_block, outcome
from autoprune.pruners._base import Pruner, Reading, Terms, fixed_tokens, log_prune
from autoprune.pruners.large_results import shortener
from autoprune.pruners.memory import REMEMBERED
from autoprune.pruners.report import Report
from autoprune.pruners.report.advice import advice
from autoprune.pruners.result import BeforePrune, Callbacks, OnPruned, Result, archive_payloads
from autoprune.pruners.writing import SummaryWriter
from autoprune.settings import group_size
from autoprune.strategies.catalog import FOLDING, available, folding_named
from autoprune.strategies.folding import Folding
from autoprune.summarizers.brief import Answer, Written, identity_of
from autoprune.summarizers.driver import CONCURRENCY, Budget, arun, run
from autoprune.summarizers.selection import summarizer_of
from autoprune.tokens import Count, spent_tokens

MAX_CALLS = 16  # calls of a model in one prune
MAX_SECONDS = 300.0  # that one prune waits for all calls of a model


@dataclass(frozen=True)
class Unfinished:
    """A prune with its plan, before the summary and other texts are written.

    `given` holds the caller's messages, and `bare` the same without the earlier summary. `weigh` reads and counts
    messages. `archived` maps archived parts to the texts that replaced them.
    """

    started: float
    terms: Terms
    given: list[Any]
    bare: list[Any]
    plan: Plan
    aftermath: Outcome
    writer: SummaryWriter
    written_in: Format
    weigh: Callable[[list[Any]], Transcript]
    advise: Callable[[Report], str]
    archived: dict[Part, str]

    def preview(self) -> Result:
        """The result for `before_prune`, with the largest possible summary and no conversation."""
        is_idle = not (self.plan.edits or self.plan.folds or self.plan.stripped)
        report = self._report(self.plan, self.aftermath.notes, 0.0)
        return Result(self.given if is_idle else [], report, self.aftermath.parameters)

    def finish(self, answer: Answer, clock: Callable[[], float]) -> Result:
        """Rewrite the conversation with the new summary, and report."""
        plan, notes = replace(self.plan, edits=self.writer.edits), self.aftermath.notes
        pruned = rewrite_messages(self.given, plan)
        if plan.folds:
            kept = assemble(rewrite_messages(self.bare, plan), self._gone, plan.place, self._summary(answer))
            pruned = [each.message for each in kept]
            weighed = self.weigh(pruned)
            weights = tuple(entry.tokens for entry in weighed.entries)
            plan = replace(plan, counted=weighed.tokens, weights=weights)
        if plan.folds and plan.tokens >= plan.tokens_before:
            plan, pruned = replace(plan, edits=(), folds=(), stripped=(), counted=None, weights=()), self.given
            notes = (*notes, "nothing was folded: with its summary the conversation would not have been smaller")
        return Result(pruned, self._report(plan, notes, clock() - self.started), self.aftermath.parameters)

    def _report(self, plan: Plan, notes: tuple[str, ...], seconds: float) -> Report:
        return Report(
            getattr(self.terms.strategy, "name", type(self.terms.strategy).__name__),
            self.terms.safe_zone,
            self.terms.calibration,
            (*self.terms.fallbacks, *notes, *self.writer.spent.notes),
            seconds,
            lambda: plan,
            self.writer.spent,
            self.advise,
        )

    @property
    def _gone(self) -> set[int]:
        """The messages that are not sent unchanged, including that of the old summary."""
        known = self.plan.running
        return {*self.plan.gone, *((known.at,) if known and known.rest is None else ())}

    def _summary(self, answer: Answer) -> Any:
        """The message of the summary: a new one, the old one if nothing was added to it, or None."""
        folds = [fold for fold in self.plan.folds if not fold.is_drop]
        known = self.plan.running
        text = answer.text if folds and isinstance(answer, Written) else known.text if known else None
        if text is None:
            return None
        messages = sum(len(fold.messages) for fold in folds) + (known.messages if known else 0)
        room = max((*(fold.room for fold in folds), *((known.room,) if known else ())))
        return self.written_in.message("user", wrap_summary(text, messages, room, self._call_style(known)))

    def _call_style(self, known: RunningSummary | None) -> str:
        """How the model made its calls in the folded messages, for the summary's mark.

        Parsers read the messages after the summary by it. A folded native call always counts. Dropped messages do not,
        since they leave no trace in pruned output that is passed back. That output only has the last mark, so each fold
        builds on the mark before it.
        """
        calls = known.calls if known else NO_ANSWER
        gone = {known.at} if known and known.rest is None else set()
        for fold in self.plan.folds:
            gone.update(fold.messages)
            if not fold.is_drop:
                calls = self._call_style_after(calls, fold, gone)
        return calls

    def _call_style_after(self, before: str, fold: Fold, gone: set[int]) -> str:
        """How the model made its calls once `fold` is made; `gone` holds all messages that are gone by then."""
        entries = self.plan.transcript.entries
        stays = (at for at, entry in enumerate(entries) if at not in gone and entry.speaker is not Speaker.SYSTEM)
        first = next(stays, len(entries))
        folded = [(at, entries[at]) for at in fold.messages]
        has_spoken = any(entry.speaker is Speaker.MODEL and at < first for at, entry in folded)
        if before in (CALLS_LATER, "") or any(call.location.start is None for _, each in folded for call in each.calls):
            is_opening = before and not has_spoken and before != CALLS_IN_TEXT
            return CALLS_LATER if is_opening and first < len(entries) and entries[first].results else ""
        return CALLS_IN_TEXT if has_spoken else before


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

    default: FoldingStrategy
    strategies: dict[str, FoldingStrategy]

    def __init__(
        self,
        args: object,
        llm: object = None,
        *,
        conversation_id: object = None,
        count: Count | None = None,
        formats: Sequence[Format] = (),
        store: MutableMapping[str, str] | None = None,
        archive: Archive | None = None,
        remember: int = REMEMBERED,
        max_calls: int = MAX_CALLS,
        max_seconds: float | None = MAX_SECONDS,
        concurrency: int = CONCURRENCY,
        before_prune: BeforePrune | None = None,
        on_pruned: OnPruned | None = None,
        clock: Callable[[], float] = time.perf_counter,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Store the arguments. Each is checked when it is first used."""
        super().__init__(
            args,
            llm,
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
        self.store: MutableMapping[str, str] = {} if store is None else store
        self.max_calls = max_calls
        self.max_seconds = max_seconds
        self.concurrency = concurrency
        self._memo: dict[str, str] = {}

    def _shipped_strategies(self) -> dict[str, FoldingStrategy]:
        return available(FOLDING)

    def prune(
        self,
        conversation: list[Any],
        strategy: str | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        usage: object = None,
        validate: bool | Provider = False,
        conversation_id: object = None,
    ) -> Result:
        """Prune a conversation. The result has `.conversation` to send, and `.report` and `.plan` with the reasons.

        `strategy` is a name of `self.strategies`, a strategy itself, or None for the default. `usage` is the provider's
        usage report for its last answer in this conversation. Triggers then use its total plus the count of the
        messages that follow. `calibration` and `validate` are those of `AgenticConversationPruner`.

        Raises ConversationError or SettingsError, and RuleError if `validate` finds that the provider would refuse
        the result. Errors of a summarizer are noted in the report, and the summary is made without it.
        """
        work = self._decide(conversation, strategy, calibration, usage)  # compare, read, walk
        callbacks = self._callbacks(conversation_id)
        if refused := callbacks.refused(work.preview(), conversation):
            return refused
        # Write
        answer = run(work.writer.steps(), self.concurrency, Budget(self.max_calls, self.max_seconds))
        return self._finish(work, answer, callbacks, validate)  # rewrite, report

    async def aprune(
        self,
        conversation: list[Any],
        strategy: str | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        usage: object = None,
        validate: bool | Provider = False,
        conversation_id: object = None,
    ) -> Result:
        """Prune as `prune` does, and await the summarizers."""
        work = self._decide(conversation, strategy, calibration, usage)  # compare, read, walk
        callbacks = self._callbacks(conversation_id)
        if refused := callbacks.refused(work.preview(), conversation):
            return refused
        # Write
        answer = await arun(work.writer.steps(), self.concurrency, Budget(self.max_calls, self.max_seconds))
        return self._finish(work, answer, callbacks, validate)  # rewrite, report

    def plan(
        self,
        conversation: list[Any],
        strategy: str | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        usage: object = None,
    ) -> Plan:
        """Plan a prune without doing it. No summary is written, so the plan's tokens are an upper bound."""
        return self._decide(conversation, strategy, calibration, usage).plan

    def _finish(self, work: Unfinished, answer: Answer, callbacks: Callbacks, validate: bool | Provider) -> Result:
        conversation, result = work.given, work.finish(answer, self._clock)
        result = result.with_notes(
            check_accepted(result.conversation, conversation, validate, self._text("format"), self.formats)
        )
        if self.archive is not None:
            result = archive_payloads(result, self.archive, work.bare, work.archived)
        log_prune(result.report, "INFO" if result.conversation is not conversation else "DEBUG")
        return callbacks.notify(result, conversation)

    def _decide(self, conversation: list[Any], strategy: object, calibration: float, usage: object) -> Unfinished:
        """Compare, read and walk. Return the plan with the writer of the texts that it needs."""
        started = self._clock()
        self._check_bounds()
        terms = self._terms(strategy, calibration)
        chosen = self._with_group_size(terms.strategy)
        messages = check_conversation(conversation)
        found = find_summary(messages)
        bare = without_summary(messages, found)
        summarizer, note = summarizer_of(chosen, self.llm)
        reported, unknown = reported_tokens(usage, terms.calibration)
        # A usage report belongs to one request, so a walk that used it is not remembered: its key is None.
        key = None if reported else (terms, chosen, found, identity_of(summarizer), self._provider_begins_with_user)
        fixed, given = fixed_tokens(bare, terms.overhead), Given(found, self._begins_with_user)
        start = partial(FoldWalk, chosen, terms.limit, fixed, terms.placeholder, given, thinking=terms.thinking)
        # Compare, read, walk
        history = self._memory.compare(key, bare)
        parser = history.read(bare, partial(terms.reading.parser, found))
        walk = history.walk_on(bare, partial(start, reported=None if reported is None else (len(bare), reported)))
        self._memory.keep(history)
        plan, unread = walk.make_plan([*bare], fixed), parser.notes if walk.is_at_work else ()
        aftermath = _thinking_outcome(terms.thinking, plan, walk)
        plan = _with_summary(aftermath.applied(plan), messages, terms.reading)
        terms = replace(
            terms,
            fallbacks=tuple(word for word in (*terms.fallbacks, note, unknown, *unread) if word),
        )
        count, results = terms.placeholder.count, shortener(chosen, self.llm)
        title = getattr(chosen, "title", None) or ""
        writer = SummaryWriter(
            plan, bare, summarizer, self.store, self._memo, count, history.texts, results=results, title=title
        )
        written_in = dominant([fields_of(message) for message in messages], terms.reading.formats)
        weigh = partial(terms.reading.transcript, overhead=terms.overhead)
        advise = partial(advice, self, lambda: self, chosen, calibration)
        return Unfinished(
            started, terms, messages, bare, plan, aftermath, writer, written_in, weigh, advise, history.archived
        )

    def _check_bounds(self) -> None:
        for name, least in (("max_calls", 0), ("concurrency", 1)):
            check_number(name, getattr(self, name), least)
        seconds = self.max_seconds
        if seconds is not None and (not is_number(seconds, 0, int | float) or not seconds):
            raise SettingsError(f"max_seconds is {seconds!r}: give seconds, more than 0, or None")

    def _with_group_size(self, strategy: FoldingStrategy) -> FoldingStrategy:
        """The strategy, with the group size of the settings if it does not set one."""
        if isinstance(strategy, Folding) and strategy.group_size is None:
            return replace(strategy, group_size=group_size(self.args, self._environ))
        return strategy

    def _begins_with_user(self, message: object) -> bool:
        """Whether the settings or a message's format show that the provider requires the user's message first."""
        if self._text("format") in USER_FIRST or self._provider_begins_with_user:
            return True
        held = fields_of(message)
        return any(known.NAME in USER_FIRST and known.seen(held) for known in self._reading().formats)

    @property
    def _provider_begins_with_user(self) -> bool:
        """Whether the provider in the settings requires the user's message first."""
        try:
            return find_provider(self._text("provider"), ()).begins_with_user
        except SettingsError:  # one whose rules are not known
            return False

    def _config(self, strategy: FoldingStrategy) -> dict[str, object]:
        """The parameters of a strategy, with the group size that it takes from the settings."""
        try:
            return super()._config(self._with_group_size(strategy))
        except SettingsError:
            return super()._config(strategy)

    def _parse_strategy(self, text: str) -> FoldingStrategy:
        return folding_named(text)


def _thinking_outcome(policy: ThinkingPolicy, plan: Plan, walk: FoldWalk) -> Outcome:
    """The consequences for thinking blocks after the messages that are edited, folded or dropped."""
    found = outcome(policy, plan)
    if policy is ThinkingPolicy.DROP_BLOCK and walk.newest_thinking:
        # Dropped messages leave no trace, so any thinking block may depend on one that an earlier prune dropped.
        thoughts = [thought for entry in plan.transcript.entries for thought in entry.thinking]
        return replace(found, parameters=drop_block(thoughts))
    return found


def _with_summary(plan: Plan, messages: list[Any], reading: Reading) -> Plan:
    """The plan for the caller's conversation, in which the message with the old summary counts as a whole."""
    if plan.running is None:
        return plan
    at, entries = plan.running.at, list(plan.transcript.entries)
    whole = parse([messages[at]], reading.parser(), 0).tokens
    apart = whole if plan.running.rest is None else whole - entries[at].tokens
    entries[at] = replace(entries[at], tokens=whole)
    known = replace(plan.transcript, messages=messages, entries=tuple(entries))
    return replace(plan, transcript=known, running=replace(plan.running, tokens=apart))


def reported_tokens(usage: object, calibration: float) -> tuple[int | None, str | None]:
    """The tokens that a provider reported, in counted tokens, or else a note that the usage cannot be read."""
    if usage is None:
        return None, None
    try:
        return int(spent_tokens(usage) / calibration), None
    except SettingsError as error:
        return None, f"{error}: the count was used"


def rewrite_messages(messages: list[Any], plan: Plan) -> list[Any]:
    """Apply the edits of a plan and strip its thinking blocks. Folds and drops are not applied."""
    return strip_thinking(apply(messages, plan.edits), plan.stripped)
