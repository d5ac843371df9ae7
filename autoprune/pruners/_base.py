"""What the public classes share: what they are given, the calls besides `prune`, and the settings of each prune."""

import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Self

from autoprune.conversation.archive import Archive, checked_archive, recall
from autoprune.conversation.copying import Copied
from autoprune.conversation.messages import checked
from autoprune.conversation.placeholders import SENTENCE, Placeholder, element
from autoprune.errors import SettingsError
from autoprune.formats import SHIPPED, Format, named
from autoprune.formats import xml_tool_result as xml
from autoprune.providers.thinking import policy
from autoprune.pruners._choice import Choice, either
from autoprune.pruners._progress import REMEMBERED, Memory
from autoprune.pruners._reading import Reading
from autoprune.pruners._statistics import cleanup_statistics
from autoprune.pruners._terms import Terms, adapted, checked_lives, notes, ratio
from autoprune.pruners.events import BeforePrune, Callbacks, OnPruned
from autoprune.pruners.result import Result
from autoprune.settings import (
    attribute_values,
    cache_ttl,
    filled_in,
    missing_safe_zone,
    overhead_tokens,
    resolve,
    safe_zone,
    text_setting,
    variables,
)
from autoprune.strategies.catalog import config, description
from autoprune.tokens import Count, Memo, for_model, scaled

# Of a pruner: what it can do without, and makes again.
MEMOS = ("_counters", "_last", "_memory")


class Pruner(Copied):
    """What both pruners have. `default` is the strategy where none is named, `strategies` are those by name."""

    default: Any
    strategies: dict[str, Any]

    def __init__(
        self,
        args: object,
        llm: object = None,
        *,
        count: Count | None = None,
        formats: Sequence[Format] = (),
        conversation_id: object = None,
        archive: Archive | None = None,
        remember: int = REMEMBERED,
        before_prune: BeforePrune | None = None,
        on_pruned: OnPruned | None = None,
        clock: Callable[[], float] = time.perf_counter,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what is given; nothing is checked before it is used.

        `before_prune` and `on_pruned` get a `PruneEvent`, with `conversation_id` in it; the first may return False, and
        then nothing is pruned. `environ`, the environment of this process where none is given, is read here and never
        again: its AUTOPRUNE_* variables stand in for what `args` leaves open. `archive`, any mutable mapping such as
        `archive.Directory(path)`, keeps what is cleared, and placeholders carry the ids for `recall`. `remember` is how
        many conversations it takes up where they were left: as many as go on side by side; any other is read anew.
        """
        self.conversation_id = conversation_id
        self.archive = archive
        self.remember = remember
        self.before_prune = before_prune
        self.on_pruned = on_pruned
        self.args = args
        self.llm = llm
        self.replacement_message = SENTENCE
        self.formats: Sequence[Format] = (*formats, *SHIPPED) if formats else SHIPPED
        self._given_count = count
        self._clock = clock
        self._environ = variables(environ)
        self.strategies = self._shipped()
        self.default = next(iter(self.strategies.values()))
        self._begin()

    def _begin(self) -> None:
        """Remember nothing yet."""
        self._counters: dict[str | None, tuple[Memo, str | None]] = {}
        self._last: tuple[tuple[object, ...], Terms] | None = None
        self._memory = Memory(self.remember)

    def _shipped(self) -> dict[str, Any]:
        """The strategies that ship, by name; the default first."""
        raise NotImplementedError

    def _given(self) -> Iterator[tuple[str, object]]:
        yield from ((name.lstrip("_"), value) for name, value in self.__getstate__().items())

    def __getstate__(self) -> dict[str, Any]:
        """What was given, without memos; the formats that are modules by their names."""
        state = {name: value for name, value in vars(self).items() if name not in MEMOS}
        return {**state, "formats": [each.__name__ if isinstance(each, ModuleType) else each for each in self.formats]}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Become the copy, which remembers nothing yet."""
        super().__setstate__(state)
        self.formats = tuple(import_module(each) if isinstance(each, str) else each for each in state["formats"])
        self._begin()

    def prune(self, *conversation: Any, **options: Any) -> Result:
        """Prune a conversation, by a strategy if one is given behind it."""
        raise NotImplementedError

    async def aprune(self, *conversation: Any, **options: Any) -> Result:
        """Prune as `prune` does, with its arguments, and await what it waits for."""
        return self.prune(*conversation, **options)

    def prune_conversations(
        self, conversations: list[Any], strategy_name: Any = None, *, strategy: Any = None, **options: Any
    ) -> list[Any]:
        """Return the conversation to send; the caller's list itself if there is nothing to do.

        `strategy` and `options` are those of `prune`. `strategy_name` also names a strategy, but an unknown name means
        the default strategy, as code that was written for this method's original contract expects.
        """
        return self.prune(conversations, either(strategy_name, strategy), **options).conversation

    async def aprune_conversations(
        self, conversations: list[Any], strategy_name: Any = None, *, strategy: Any = None, **options: Any
    ) -> list[Any]:
        """Return what `prune_conversations` returns, and await what it waits for."""
        return (await self.aprune(conversations, either(strategy_name, strategy), **options)).conversation

    def recall(self, id: str) -> str:
        """Return the payload that was cleared where a text carries this id.

        Raises ArchiveError where nothing is kept under it, and SettingsError without an archive.
        """
        return recall(self.archive, id)

    def _written(self, text: str) -> Any:
        """The strategy that a text names, with its parameters. Raises SettingsError for none."""
        raise NotImplementedError

    def filled_in(self, **known: Any) -> Self:
        """Return this pruner for one request, with values for settings that nobody gave: it remembers what this does.

        The settings are those of `settings.SETTINGS`: model="gpt-5", overhead_tokens=9_000, ….
        """
        args = filled_in(self.args, self._environ, **known)
        if args is self.args:
            return self
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), args=args, _last=None)
        return twin

    def count_text(self, text: str) -> int:
        """Return the tokens of a text, counted as those of a message are."""
        return self._count()[0](text)

    def count_tokens(self, conversation: list[Any], *, calibration: float = 1.0) -> int:
        """Tokens of the prompt that a conversation makes: what the safe zone is compared with."""
        transcript = self._reading().transcript(checked(conversation), overhead_tokens(self.args, self._environ))
        return scaled(transcript.tokens, ratio(calibration))

    def get_cleanup_statistics(
        self, original_conversations: list[Any], pruned_conversations: list[Any]
    ) -> dict[str, int | float]:
        """What became of one conversation in the other, also after messages were dropped or changed by someone else."""
        beside = overhead_tokens(self.args, self._environ)
        both = checked(original_conversations), checked(pruned_conversations)
        return cleanup_statistics(*both, self._reading(), beside, self._terms(None, 1.0).placeholder)

    def get_available_strategies(self) -> list[dict[str, object]]:
        """The strategies by name, with what each does, its parameters, and the safe zone that it would keep to.

        A setting that cannot be read is left out: `prune` says what is wrong with it.
        """
        return [
            {"name": name, "description": description(strategy), "config": self._config(strategy)}
            for name, strategy in self.strategies.items()
        ]

    def _config(self, strategy: Any) -> dict[str, object]:
        try:
            return {"safe_zone_tokens": safe_zone(self.args, self._environ), **config(strategy)}
        except SettingsError:
            return config(strategy)

    def _is_tool_result_message(self, content: object) -> bool:
        """Whether a user's text can hold XML tool results. A subclass may narrow it."""
        return xml.is_tool_result(content)

    def _extract_tool_name(self, content: str) -> str:
        """The tool that the first start tag in a text names: "unknown" where it names none, "" where it is empty."""
        return xml.tool_name(content)

    def _generate_replacement_message(self, tool_name: str) -> str:
        """A cleared XML result as an element, of which the part between the tags is used. A subclass may change it."""
        return element(tool_name, self.replacement_message)

    @property
    def _element(self) -> Callable[[str], str] | None:
        """Who makes a cleared XML result: a subclass, or None, so that a plan does not hold the whole pruner."""
        made = self._generate_replacement_message
        return None if getattr(made, "__func__", None) is Pruner._generate_replacement_message else made

    def _terms(self, strategy: object, calibration: float) -> Terms:
        """What the prune depends on; what was given for the last one is not checked again."""
        chosen, fallback = self._chosen(strategy)
        recalls = checked_archive(self.archive) is not None
        known = self.formats, self.replacement_message, recalls, *attribute_values(self.args)
        on = chosen, fallback, calibration, *known
        if self._last and all(map(operator.is_, on, self._last[0])):
            return self._last[1]
        terms = self._terms_anew(chosen, fallback, calibration)
        self._last = on, terms
        return terms

    def _terms_anew(self, chosen: Any, fallback: str | None, calibration: float) -> Terms:
        count, estimate = self._count()
        chosen = adapted(chosen, self._text("model"), cache_ttl(self.args, self._environ))
        return Terms(
            chosen,
            safe_zone(self.args, self._environ),
            overhead_tokens(self.args, self._environ),
            ratio(calibration),
            Placeholder(count, self.replacement_message, self._element, recalls=self.archive is not None),
            self._reading(),
            self._text("format"),
            resolve("thinking_policy", partial(policy, model=self._text("model")), self.args, self._environ),
            tuple(filter(None, (fallback, estimate, missing_safe_zone(self.args, self._environ), *notes(chosen)))),
        )

    def _terms_of(self, strategy: object, calibration: float, cache_ttls: Mapping[int, float] | None) -> Terms:
        """What the prune depends on, of a cache whose life changes in mid-conversation."""
        terms = self._terms(strategy, calibration)
        if not cache_ttls:
            return terms
        chosen, model = self._chosen(strategy)[0], self._text("model")
        return replace(
            terms,
            later=tuple((at, adapted(chosen, model, ttl)) for at, ttl in sorted(checked_lives(cache_ttls).items())),
        )

    def _chosen(self, strategy: object) -> tuple[Any, str | None]:
        """Return the strategy that was asked for, and a note for the report if it is another one."""
        choice = Choice(self.strategies, self.default, self._written)
        if strategy is not None:
            return choice.of(strategy)
        found: tuple[Any, str | None] = resolve("strategy", choice.by_default, self.args, self._environ)
        return found

    def _text(self, name: str) -> str | None:
        return text_setting(self.args, name, self._environ)

    def _count(self) -> tuple[Memo, str | None]:
        """The counter for the model that is named now, and a warning where it estimates."""
        model = None if self._given_count else self._text("model")
        known = self._counters.get(model)
        if known is None:
            count, estimate = (self._given_count, None) if self._given_count else for_model(model)
            known = self._counters[model] = (Memo(count), estimate)
        return known

    def _reading(self) -> Reading:
        """How conversations are read by the settings as they are now; a subclass may say what XML results are."""
        return Reading(self._count()[0], self._formats(), self._is_tool_result_message, self._extract_tool_name)

    def _formats(self) -> Sequence[Format]:
        """Return the formats to choose from: the one that the settings name, or all."""
        return resolve("format", partial(named, formats=self.formats), self.args, self._environ)

    def _callbacks(self, conversation_id: object) -> Callbacks:
        """Whom to tell of one prune, by the id that it was given or the pruner's own."""
        known = self.conversation_id if conversation_id is None else conversation_id
        return Callbacks(self.before_prune, self.on_pruned, known)
