"""The public class: parse, plan, apply, report. It ties the rooms together and does no work of theirs."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from loguru import logger

from autoprune.edits import Plan
from autoprune.errors import ConversationError, SettingsError
from autoprune.formats import xml_tool_result as xml
from autoprune.formats.detection import SHIPPED, named
from autoprune.formats.format import Format
from autoprune.history import History, Memory
from autoprune.options import clamp
from autoprune.parsing import Parser, parse
from autoprune.placeholders import SENTENCE, Placeholder, element
from autoprune.planning import Strategy, Walk, plan
from autoprune.report import Report
from autoprune.rewriting import strip
from autoprune.settings import overhead, safe_zone, text_setting
from autoprune.statistics import statistics
from autoprune.strategies import DEFAULT, available, config, description
from autoprune.terms import Terms, ratio
from autoprune.thinking import NOTHING, ThinkingPolicy, outcome, policy
from autoprune.tokens import REPLY_TOKENS, Count, ExactCounter, Memo, for_model, scaled
from autoprune.transcript import Transcript
from autoprune.validation import accepted


@dataclass(frozen=True)
class Result:
    """What `prune` gives: the new conversation, and the report with its plan.

    `request_parameters` are what the next request must say besides, {} mostly: see `thinking.merged`.
    """

    conversation: list[Any] = field(repr=False)
    report: Report
    request_parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """What was decided for each result."""
        return self.report.plan


class AgenticConversationPruner:
    """Keeps an agent's conversation within its safe zone by clearing the tool results that it needs least.

    `args` is a `PruneArgs` or any object with `conversation_prune_safe_zone_tokens`; it is read when it is used. `llm`
    is kept and never called. `count` replaces the exact token counter by any `Callable[[str], int]`. `formats` are wire
    formats of the caller's own, tried before those that ship.
    """

    def __init__(
        self,
        args: object,
        llm: object = None,
        *,
        conversation_id: object = None,
        count: Count | None = None,
        formats: Sequence[Format] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Keep what is given; nothing is checked before it is used. `conversation_id` is accepted and not needed."""
        self.args = args
        self.llm = llm
        self.replacement_message = SENTENCE
        self.strategies: dict[str, Strategy] = available()
        self.formats: Sequence[Format] = (*formats, *SHIPPED) if formats else SHIPPED
        self._given_count = count
        self._counters: dict[str | None, tuple[Memo, str | None]] = {}
        self._clock = clock
        self._memory = Memory()

    def prune_conversations(
        self,
        conversations: list[Any],
        strategy_name: str | Strategy | None = None,
        *,
        conversation_id: object = None,
        calibration: float = 1.0,
    ) -> list[Any]:
        """The conversation to send, within the safe zone if it can be; the caller's list if there is nothing to do."""
        return self.prune(conversations, strategy_name, calibration=calibration).conversation

    def prune(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
        validate: bool = False,
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
        history = self._history(terms, _checked(conversation))
        plan_of = self._plan_of(terms, history, conversation)
        aftermath = NOTHING
        if history.walk.newest_thinking:
            found = plan_of()
            aftermath = outcome(terms.thinking, found)
            plan_of = partial(aftermath.applied, found)
        pruned = strip(history.output(conversation), aftermath.stripped)
        report = Report(
            getattr(terms.strategy, "name", type(terms.strategy).__name__),
            terms.safe_zone,
            terms.calibration,
            (*terms.fallbacks, *aftermath.notes),
            self._clock() - started,
            plan_of,
        )
        _log(report, "INFO" if pruned is not conversation or history.walk.tokens > terms.limit else "DEBUG")
        self._memory.keep(terms.key, history)
        if validate:
            accepted(pruned, conversation, terms.format)
        return Result(pruned, report, aftermath.parameters)

    def plan(
        self,
        conversation: list[Any],
        strategy: str | Strategy | None = None,
        *,
        calibration: float = 1.0,
    ) -> Plan:
        """What `prune` would do: a dry run."""
        terms = self._terms(strategy, calibration)
        transcript = self._parse(_checked(conversation), terms.overhead, wants_inputs=terms.wants_inputs)
        keeps = terms.thinking is ThinkingPolicy.REFUSE
        found = plan(transcript, terms.strategy, terms.limit, terms.placeholder, keeps_thinking=keeps)
        return outcome(terms.thinking, found).applied(found)

    def count_tokens(self, conversation: list[Any], *, calibration: float = 1.0) -> int:
        """Tokens of the prompt that a conversation makes: what the safe zone is compared with."""
        transcript = self._parse(_checked(conversation), overhead(self.args))
        return scaled(transcript.tokens, ratio(calibration))

    def get_cleanup_statistics(
        self, original_conversations: list[Any], pruned_conversations: list[Any]
    ) -> dict[str, int | float]:
        """What became of one conversation in the other, also after messages were dropped or changed by someone else."""
        beside = overhead(self.args)
        before, after = (
            self._parse(_checked(conversation), beside, wants_inputs=True)
            for conversation in (original_conversations, pruned_conversations)
        )
        return statistics(before, after, self._terms(None, 1.0).placeholder)

    def get_available_strategies(self) -> list[dict[str, object]]:
        """The strategies by name, with what each does and its parameters."""
        return [
            {"name": name, "description": description(strategy), "config": config(strategy)}
            for name, strategy in self.strategies.items()
        ]

    def _is_tool_result_message(self, content: object) -> bool:
        """Whether a user's text can hold XML tool results. A subclass may narrow it."""
        return xml.is_tool_result(content)

    def _extract_tool_name(self, content: str) -> str:
        """The tool that the first start tag in a text names: "unknown" where it names none, "" where it is empty."""
        return xml.tool_name(content)

    def _generate_replacement_message(self, tool_name: str) -> str:
        """A cleared XML result as an element, of which the part between the tags is used. A subclass may change it."""
        return element(tool_name, self.replacement_message)

    def _terms(self, strategy: str | Strategy | None, calibration: float) -> Terms:
        chosen, fallback = self._chosen(strategy)
        count, estimate = self._count()
        return Terms(
            chosen,
            safe_zone(self.args),
            overhead(self.args),
            ratio(calibration),
            Placeholder(count, self.replacement_message, self._generate_replacement_message),
            text_setting(self.args, "format"),
            policy(text_setting(self.args, "thinking_policy"), text_setting(self.args, "model")),
            tuple(note for note in (fallback, estimate) if note),
        )

    def _chosen(self, strategy: str | Strategy | None) -> tuple[Strategy, str | None]:
        if strategy is None:
            return DEFAULT, None
        if not isinstance(strategy, str):
            if isinstance(strategy, type) or not callable(getattr(strategy, "step", None)):
                raise SettingsError(f"{strategy!r} is no strategy: give a name or an object with a method step(view)")
            return strategy, None
        known = self.strategies.get(strategy)
        if known is not None:
            return known, None
        fallback = f"there is no strategy {strategy!r}: {DEFAULT.name} was used"
        logger.warning(fallback)
        return DEFAULT, fallback

    def _count(self) -> tuple[Memo, str | None]:
        """The counter for the model that `args` name now, and a warning where it estimates."""
        model = None if self._given_count else text_setting(self.args, "model")
        known = self._counters.get(model)
        if known is None:
            count, estimate = (self._given_count, None) if self._given_count else for_model(model)
            known = self._counters[model] = (Memo(count), estimate)
        return known

    def _parser(self, *, wants_inputs: bool) -> Parser:
        chosen = named(text_setting(self.args, "format"), self.formats)
        names = self._is_tool_result_message, self._extract_tool_name
        return Parser(self._count()[0], *names, chosen, wants_inputs=wants_inputs)

    def _parse(self, conversation: list[Any], overhead: int, *, wants_inputs: bool = False) -> Transcript:
        fixed = overhead + (REPLY_TOKENS if conversation else 0)
        return parse(conversation, self._parser(wants_inputs=wants_inputs), fixed)

    def _history(self, terms: Terms, conversation: list[Any]) -> History:
        """The conversation read and walked, from where it was left if it goes on from there."""
        history = self._memory.take(terms.key, conversation)
        if history is not None and history.extend(conversation):
            return history
        fixed = terms.overhead + REPLY_TOKENS
        is_exact = isinstance(self._count()[0].count, ExactCounter) and terms.calibration == 1.0
        looks_back = terms.thinking in (ThinkingPolicy.DROP_BLOCK, ThinkingPolicy.STRIP)
        is_bounded = is_exact and clamp(terms.strategy) is None and not looks_back
        keeps_thinking = terms.thinking is ThinkingPolicy.REFUSE
        walk = Walk(terms.strategy, terms.limit, fixed, terms.placeholder, keeps_thinking=keeps_thinking)
        history = History(self._parser(wants_inputs=terms.wants_inputs), walk, fixed if is_bounded else math.inf)
        history.extend(conversation)
        return history

    def _plan_of(self, terms: Terms, history: History, conversation: list[Any]) -> Callable[[], Plan]:
        """The plan, kept; or how to come by it, where the messages did not even have to be read."""
        walk, given = history.walk, list(conversation)
        terms_of_plan = terms.limit, terms.placeholder, walk.protections, walk.tool_inputs, walk.bound_before
        if not history.is_read:
            messages = history.as_read()
            read = partial(self._parse, overhead=terms.overhead, wants_inputs=terms.wants_inputs)
            return lambda: Plan(read(messages()), (), *terms_of_plan)
        transcript = Transcript(given, tuple(walk.entries), terms.overhead + REPLY_TOKENS)
        return partial(Plan, transcript, tuple(walk.edits.values()), *terms_of_plan)


def _checked(conversation: object) -> list[Any]:
    if isinstance(conversation, list):
        return conversation
    hint = "give list(messages)" if isinstance(conversation, Sequence) and not isinstance(conversation, str) else ""
    raise ConversationError(
        f"the conversation is no list but {type(conversation).__name__}; {hint or 'give a list of messages'}"
    )


def _log(report: Report, level: str) -> None:
    """One line with bound fields, silent unless the program calls `logger.enable("autoprune")`."""
    with_fields = logger.opt(lazy=True, capture=False).patch(lambda record: record["extra"].update(report.fields))
    with_fields.log(level, "{}", lambda: report)
