"""The pruner that folds and drops whole messages: compare, read, walk, write, rewrite, report.

The stages are those of `agentic`, and one more: the walk decides which messages to fold and how long the summary may
be, and only then the summarizer writes it. `prune` and `aprune` run the same stages (`_stages`) and differ only in how
they call the summarizer.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoprune.conversation.archive import ArchiveLike
from autoprune.conversation.edits import apply, strip_thinking
from autoprune.conversation.messages import check_conversation
from autoprune.conversation.summary import RunningSummary, assemble, find_summary, without_summary
from autoprune.conversation.transcript import Entry, without_replaced
from autoprune.errors import SettingsError, check_number, is_number
from autoprune.formats.parsing import Format, Parser, parse
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.view import FoldContext, FoldingStrategy
from autoprune.planning.walk import Walk
from autoprune.providers import USER_FIRST, Provider, check_accepted, find_provider, places_system
from autoprune.providers.thinking import Outcome, drop_block, outcome
from autoprune.pruners._base import Pruner, Terms, log_prune
from autoprune.pruners.large_results import shortener
from autoprune.pruners.memory import REMEMBERED, Reading, fixed_tokens
from autoprune.pruners.result import BeforePrune, Message, OnPruned, Result, archive_payloads
from autoprune.pruners.writing import SummaryWriter, old_summary, summary_message
from autoprune.settings import Args, group_size, text_setting
from autoprune.strategies.catalog import FOLDING, available, folding_named
from autoprune.strategies.folding import Folding
from autoprune.summarizers.brief import Answer, Summarizer, identity_of
from autoprune.summarizers.driver import CONCURRENCY, Budget, arun, run
from autoprune.summarizers.selection import summarizer_of
from autoprune.tokens import Count, spent_tokens

MAX_CALLS = 16  # calls of a model in one prune
MAX_SECONDS = 300.0  # that one prune waits for all calls of a model


@dataclass(frozen=True)
class Inputs:
    """The inputs of one prune: the caller's messages, the settings, and the earlier summary in the messages.

    `bare` are the messages without that summary. `reported` are the tokens of a usage report. `begins_with_user` says
    whether the provider of a message requires the conversation to begin with the user. A walk can continue if `key` is
    equal; it is None if the walk must not be remembered.
    """

    started: float
    terms: Terms
    messages: list[Any]
    bare: list[Any]
    running: RunningSummary | None
    summarizer: Summarizer
    reported: int | None
    begins_with_user: Callable[[Entry], bool]
    key: object

    def start_parser(self) -> Parser:
        """Create a parser for the messages."""
        return self.terms.reading.parser(self.running)

    def start_walk(self) -> Walk:
        """Create a walk at the start of the conversation."""
        return Walk(
            self.terms.conditions,
            fixed_tokens(self.bare, self.terms.overhead),
            self.terms.placeholder,
            given=FoldContext(self.running, self.begins_with_user),
            reported=None if self.reported is None else (len(self.bare), self.reported),
        )

    def make_plan(self, walk: Walk) -> tuple[Plan, Outcome]:
        """The plan of a walk for the caller's messages, and the consequences for thinking blocks."""
        plan = walk.make_plan([*self.bare], fixed_tokens(self.bare, self.terms.overhead))
        thinking = _thinking_outcome(self.terms.thinking, plan, walk)
        return _with_summary(thinking.apply_to(plan), self.messages, self.terms.reading), thinking


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
        self.store: MutableMapping[str, str] = {} if store is None else store
        self.max_calls = max_calls
        self.max_seconds = max_seconds
        self.concurrency = concurrency
        self._memo: dict[str, str] = {}

    def _shipped_strategies(self) -> dict[str, FoldingStrategy]:
        return available(FOLDING)

    def prune(
        self,
        conversation: list[Message],
        strategy: str | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        usage: object = None,
        validate: bool | Provider = False,
        conversation_id: object = None,
    ) -> Result[Message]:
        """Prune a conversation. The result has `.conversation` to send, and `.report` and `.plan` with the reasons.

        `strategy` is a name of `self.strategies`, a strategy itself, or None for the default. `usage` is the provider's
        usage report for its last answer in this conversation. Triggers then use its total plus the count of the
        messages that follow. `calibration` and `validate` are those of `AgenticConversationPruner`.

        Raises ConversationError or SettingsError, and RuleError if `validate` finds that the provider would refuse
        the result. Errors of a summarizer are noted in the report, and the summary is made without it.
        """
        inputs = self._check_inputs(conversation, strategy, calibration, usage)
        stages = self._stages(inputs, validate, conversation_id)
        reached = _run_stages(stages)
        while isinstance(reached, SummaryWriter):
            answer = run(reached.steps(), self.concurrency, Budget(self.max_calls, self.max_seconds))
            reached = _run_stages(stages, answer)
        return reached

    async def aprune(
        self,
        conversation: list[Message],
        strategy: str | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        usage: object = None,
        validate: bool | Provider = False,
        conversation_id: object = None,
    ) -> Result[Message]:
        """Prune as `prune` does, and await the summarizers.

        If several calls for one conversation run at the same time, the first one asks for its summary and the others
        wait for the text. If the first is cancelled, the next one asks.
        """
        inputs = self._check_inputs(conversation, strategy, calibration, usage)
        stages = self._stages(inputs, validate, conversation_id)
        reached = _run_stages(stages)
        while isinstance(reached, SummaryWriter):
            async with self._turn(reached.key):
                answer = await arun(reached.steps(), self.concurrency, Budget(self.max_calls, self.max_seconds))
            reached = _run_stages(stages, answer)
        return reached

    def _turn(self, key: str) -> asyncio.Lock:
        """The lock of a summary that is being written in this event loop; a new one if there is nothing to fold."""
        if not key:
            return asyncio.Lock()
        return self._writing.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock())

    def _stages(
        self, inputs: Inputs, validate: bool | Provider, conversation_id: object
    ) -> Generator[SummaryWriter, Answer, Result[Any]]:
        """Run the stages of a prune. Yield the writer of its texts, and continue with the answer that is sent."""
        terms = inputs.terms
        conversation = inputs.messages
        bare = inputs.bare
        callbacks = self._callbacks(conversation_id)
        # Compare with the conversations of earlier calls.
        history = self._memory.compare(inputs.key, bare)
        # Read the new messages.
        parser = history.read(bare, inputs.start_parser)
        # Continue the walk.
        walk = history.walk_on(inputs.start_walk)
        plan, thinking = inputs.make_plan(walk)
        notes = (*(parser.notes if walk.is_at_work else ()), *thinking.notes)
        # A refused prune is remembered too: what was read and decided does not depend on the callback.
        self._memory.keep(history)
        # The callback is asked before any model. The summary is not written yet, so the plan counts its room.
        is_idle = not (plan.edits or plan.folds or plan.stripped)
        preview = self._report(terms, notes, 0.0, lambda: plan)
        upper_bound = Result(conversation if is_idle else [], preview, thinking.parameters)
        if refused := callbacks.refusal(upper_bound, conversation):
            return refused
        # Write the summary and the texts of large results.
        writer = SummaryWriter(
            plan=plan,
            messages=bare,
            summarizer=inputs.summarizer,
            store=self.store,
            memo=self._memo,
            count=terms.placeholder.count,
            texts=history.texts,
            results=shortener(terms.strategy, self.llm),
            title=getattr(terms.strategy, "title", None) or "",
        )
        answer = yield writer
        # Rewrite the messages.
        finished, pruned = _rewrite(replace(plan, edits=writer.edits), answer, inputs)
        if plan.folds and not finished.folds:
            notes = (*notes, "nothing was folded: with its summary the conversation would not have been smaller")
        # Report what was done.
        notes = (*notes, *writer.spent.notes)
        report = self._report(terms, notes, self._clock() - inputs.started, lambda: finished, spent=writer.spent)
        result = Result(pruned, report, thinking.parameters)
        if validate:
            result = result.with_notes(check_accepted(pruned, conversation, validate, terms.format, self.formats))
        if self.archive is not None and pruned is not conversation:
            result = archive_payloads(result, self.archive, history.archived)
        log_prune(result.report, "INFO" if pruned is not conversation else "DEBUG")
        return callbacks.notify(result, conversation)

    def plan(
        self,
        conversation: list[Any],
        strategy: str | FoldingStrategy | None = None,
        *,
        calibration: float = 1.0,
        usage: object = None,
    ) -> Plan:
        """Plan a prune without doing it. No summary is written, so the plan's tokens are an upper bound."""
        inputs = self._check_inputs(conversation, strategy, calibration, usage)
        walk = inputs.start_walk()
        walk.extend(without_replaced(inputs.start_parser().read_on(inputs.bare, 0)))
        plan, _ = inputs.make_plan(walk)
        return plan

    def _check_inputs(self, conversation: list[Any], strategy: object, calibration: float, usage: object) -> Inputs:
        """Check the settings and the conversation. Raises SettingsError or ConversationError."""
        started = self._clock()
        self._check_bounds()
        terms = self._terms(strategy, calibration)
        chosen = self._with_group_size(terms.strategy)
        messages = check_conversation(conversation)
        running = find_summary(messages)
        summarizer, note = summarizer_of(chosen, self.llm)
        reported, unknown = reported_tokens(usage, terms.calibration)
        terms = replace(
            terms, strategy=chosen, fallbacks=(*terms.fallbacks, *(each for each in (note, unknown) if each))
        )
        is_required = terms.format in USER_FIRST or self._provider_begins_with_user()
        return Inputs(
            started=started,
            terms=terms,
            messages=messages,
            bare=without_summary(messages, running),
            running=running,
            summarizer=summarizer,
            reported=reported,
            begins_with_user=lambda entry: is_required or entry.format in USER_FIRST,
            # A usage report belongs to one request, so a walk that used it is not remembered.
            key=None if reported else (terms, running, identity_of(summarizer), is_required),
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

    def _provider_begins_with_user(self) -> bool:
        """Whether the provider in the settings requires the user's message first."""
        provider = text_setting(self.args, "provider", self._environ)
        try:
            return provider is not None and find_provider(provider, ()).begins_with_user
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

    def _folding(self) -> Pruner:
        return self


def _run_stages(
    stages: Generator[SummaryWriter, Answer, Result[Any]], answer: Answer | None = None
) -> SummaryWriter | Result[Any]:
    """Run the stages of a prune to the next writer, or to the result."""
    try:
        return next(stages) if answer is None else stages.send(answer)
    except StopIteration as end:
        result: Result[Any] = end.value
        return result


def _thinking_outcome(policy: ThinkingPolicy, plan: Plan, walk: Walk) -> Outcome:
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


def _rewrite(plan: Plan, answer: Answer, inputs: Inputs) -> tuple[Plan, list[Any]]:
    """Carry out a plan with the new summary; return the plan with the new counts, and the conversation.

    If the conversation would not be smaller, the plan is returned without changes, and the caller's messages.
    """
    if not plan.folds:
        return plan, _edit(inputs.messages, plan)
    summary = summary_message(plan, answer, inputs.messages, inputs.terms.reading.formats)
    gone = {*plan.gone, *old_summary(plan)}
    edited = _edit(inputs.bare, plan)
    added = {} if summary is None else {plan.place: summary}
    kept = assemble(edited, gone, added, moves_system=places_system(inputs.messages))
    pruned = [each.message for each in kept]
    weighed = inputs.terms.reading.transcript(pruned, inputs.terms.overhead)
    plan = replace(plan, counted=weighed.tokens, weights=tuple(entry.tokens for entry in weighed.entries))
    if plan.tokens >= plan.tokens_before:
        return replace(plan, edits=(), folds=(), stripped=(), counted=None, weights=()), inputs.messages
    return plan, pruned


def _edit(messages: list[Any], plan: Plan) -> list[Any]:
    """Apply the edits of a plan and strip its thinking blocks. Folds and drops are not applied."""
    return strip_thinking(apply(messages, plan.edits), plan.stripped)
