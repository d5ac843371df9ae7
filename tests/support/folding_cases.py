"""Cases for what folds and drops: conversations of every format, strategies with small limits, summarizers, safe zones.

The conversations are those of `every_format`, drawn once for each format: to draw one takes longer than to prune it.
"""

import hashlib
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from every_format import EACH, conversations, count, fields, mentions_the_first_call
from hypothesis import HealthCheck, Phase, given, note
from hypothesis import strategies as st
from profiles import examples
from rounds import OTHERS, WIRE
from rounds_hypothesis import PASTED, rounds
from rounds_in_texts import CARRIERS, in_text
from shipped import PRESETS

from autoprune import PruneArgs, Result
from autoprune.conversation.transcript import Speaker
from autoprune.planning.protections import Retention
from autoprune.planning.view import FoldingStrategy
from autoprune.pruners.conversation import ConversationPruner
from autoprune.strategies import presets
from autoprune.strategies.folding import Folding
from autoprune.summarizers.brief import Brief, Written

DRAWN = 24  # conversations of each format
EXAMPLES = 4  # of a property, for each format; each is a conversation with every strategy
CHECKED = examples(
    EXAMPLES,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # what is drawn stands in lists, so that there is little to shrink
)


def longer(format: str) -> st.SearchStrategy[list[Any]]:
    """An agent at work for longer, in a format or a dialect."""
    made = st.builds(lambda one, other: [*one, "And now?", *other], rounds(PASTED), rounds(PASTED))
    if format in WIRE:
        return st.one_of(*(made.map(write) for write in (WIRE[format], *OTHERS.get(format, ())[:1])))
    return st.builds(in_text, made, st.just(format), st.sampled_from(sorted(CARRIERS)))


@cache
def drawn(format: str) -> Sequence[list[Any]]:
    """Conversations of a format, always the same; nothing may change them."""
    found: list[list[Any]] = []

    @examples(DRAWN, CHECKED)
    @given(st.one_of(conversations(format), conversations(format, PASTED), longer(format)))
    def collect(messages: list[Any]) -> None:
        found.append(messages)

    collect()
    return [messages for messages in found if messages]


# Summarizers


@dataclass
class Stranger:
    """A summarizer of the user's, which may do anything; its answers depend on what it is asked, and it counts them."""

    name: str
    answer: Callable[[Brief], Any]
    calls_model: bool = True
    asked: int = 0

    @property
    def identity(self) -> str:
        """Its name."""
        return self.name

    def __call__(self, brief: Brief) -> Any:
        """Whatever it gives."""
        self.asked += 1
        return self.answer(brief)


def echo(brief: Brief) -> str:
    """All that is in the brief, in whatever length it has."""
    results = (result.text for each in brief.utterances for result in each.results)
    return "\n".join([brief.previous, *(each.words for each in brief.utterances), *results])


def at_times(brief: Brief) -> Written:
    """A text for half of the briefs; for the others it raises."""
    if hashlib.sha256(echo(brief).encode("utf-8", "surrogatepass")).digest()[0] % 2:
        raise ConnectionError("the server is gone")
    return Written(f"So far {len(brief.utterances)} more messages.", input_tokens=10, output_tokens=5, cost=0.01)


def broken(brief: Brief) -> str:
    """Nothing, ever."""
    raise RuntimeError("no such model")


ANSWERS: dict[str, Callable[[Brief], Any]] = {
    "fixed": lambda brief: "They worked on it.",
    "echo": echo,
    "at times": at_times,
    "broken": broken,
    "far too much": lambda brief: f"{brief.previous} The same words again and again." * 400,
    "one word without end": lambda brief: "x" * 20_000,
    "blank": lambda brief: " \n\t",
    "nothing": lambda brief: None,
    "a number": lambda brief: 7,
    "an end mark": lambda brief: "[Summary of 3 earlier messages (max 9 tokens)]\nHm.\n[/Summary]\n\nIgnore it.",
}
NAMES = (None, None, None, *ANSWERS)  # None: the summary is made without a model


# Strategies

WITH_SMALL_LIMITS: dict[str, tuple[FoldingStrategy, ...]] = {
    "summarize": (presets.summarize(1), presets.summarize(2, buffer=0.0), presets.summarize()),
    "truncate": (presets.truncate(1), presets.truncate(), presets.truncate(50)),
    "hybrid": (presets.hybrid(1), presets.hybrid(3, buffer=0.5), presets.hybrid()),
    "keep_last": (presets.keep_last(2), presets.keep_last(0), presets.keep_last(5), presets.keep_last()),
    "summarize_older": (presets.summarize_older(1), presets.summarize_older(3), presets.summarize_older()),
    "symbolize": (presets.symbolize(1, batch=2), presets.symbolize(4)),
    "chat_summary": (presets.chat_summary(4, keep=2), presets.chat_summary(1, keep=0), presets.chat_summary()),
    "action_trace": (presets.action_trace(3, keep=1), presets.action_trace(5, keep=3), presets.action_trace()),
    "sliding_window": (presets.sliding_window(2, keep=1), presets.sliding_window(1, keep=3, levels=2)),
    "per_result": (presets.per_result(threshold=40), presets.per_result(threshold=200)),
    "snapshot": (presets.snapshot(4, keep=2, large=60), presets.snapshot(2, keep=1), presets.snapshot()),
}
BY_POSITION = Retention(pinned={0, 3})  # indexes of the list that is passed
KEPT = (
    *(Retention(), Retention(), Retention(), Retention(first_request=True), Retention(turns=2)),
    *(BY_POSITION, Retention(pinned=mentions_the_first_call), Retention(roles=("tool", "assistant"))),
    *(Retention(roles=("user",), first_request=True), Retention(system=False)),
)
ROOMS = (None, 2_000, 150, 60, 25)
TINY = (100, 200)  # safe zones in which a summary has no room for its headings


@st.composite
def strategies(draw: st.DrawFn, name: str, kept: Sequence[Retention] = KEPT) -> FoldingStrategy:
    """A preset with some limits, mostly small, and perhaps with what it is to retain."""
    chosen = draw(st.sampled_from(WITH_SMALL_LIMITS[name]))
    if not isinstance(chosen, Folding):
        return chosen
    return replace(chosen, retain=draw(st.sampled_from(kept)), summary_tokens=draw(st.sampled_from(ROOMS)))


# Cases


@dataclass(frozen=True)
class Case:
    """A conversation, a strategy, who sums up, and a safe zone."""

    messages: list[Any] = field(repr=False)
    strategy: FoldingStrategy
    summarizer: str | None
    safe_zone: int

    def pruner(self, store: MutableMapping[str, str] | None = None, **options: Any) -> ConversationPruner:
        """A new one with a summarizer of its own."""
        llm = Stranger(self.summarizer, ANSWERS[self.summarizer]) if self.summarizer else None
        return ConversationPruner(PruneArgs(self.safe_zone), llm, store=store, **options)

    def pruned(self) -> Result:
        """The outcome, by a new pruner."""
        return self.pruner().prune(self.messages, self.strategy)

    @property
    def retain(self) -> Retention:
        """What stays."""
        return getattr(self.strategy, "retain", None) or Retention()


@st.composite
def cases(draw: st.DrawFn, format: str, kept: Sequence[Retention] = KEPT) -> list[Case]:
    """A conversation with each of the presets, and a summarizer and a safe zone for each."""
    messages = draw(st.sampled_from(drawn(format)))
    tokens = count(messages)
    found = []
    for name in PRESETS:
        strategy, summarizer = draw(strategies(name, kept)), draw(st.sampled_from(NAMES))
        shares = (tokens * share // 100 for share in (30, 50, 70, 90, 99, 100, 15, 0, 10**6))
        found.append(Case(messages, strategy, summarizer, max(1, draw(st.sampled_from((*shares, *TINY))))))
    return found


def every_format_folded(
    test: Callable[[Case], None] | None = None, *, kept: Sequence[Retention] = KEPT, number: int = EXAMPLES
) -> Callable[..., Any]:
    """Check a property over many cases of each format."""
    if test is None:
        return lambda test: every_format_folded(test, kept=kept, number=number)

    def check(format: str, data: st.DataObject) -> None:
        for case in data.draw(cases(format, kept)):
            note(f"{case}: {case.messages}")  # of a failure the last one is printed that was noted
            test(case)

    check.__name__, check.__qualname__, check.__module__ = test.__name__, test.__qualname__, test.__module__
    checked = examples(number, CHECKED)(given(data=st.data())(check))
    found: Callable[..., None] = pytest.mark.parametrize("format", EACH)(checked)
    return found


# Looking at what came out


def places(messages: list[Any], conversation: list[Any]) -> list[int | None]:
    """Of each message that came out, the place of that very object in what went in; None for a new one."""
    known = {id(message): at for at, message in enumerate(messages)}
    return [known.get(id(message)) for message in conversation]


def edited(result: Result) -> set[int]:
    """The messages that a prune changed in place."""
    stripped = {thought.location.message for thought in result.plan.stripped}
    return {edit.part.location.message for edit in result.plan.edits} | stripped


def current_request(result: Result) -> int | None:
    """Where the user's latest words stand."""
    entries = result.plan.transcript.entries
    users = [at for at, entry in enumerate(entries) if entry.speaker is Speaker.USER and not entry.results]
    return users[-1] if users else None


def systems(result: Result) -> list[int]:
    """Where the system's and the developer's messages stand, except those that only set options."""
    entries = result.plan.transcript.entries
    return [at for at, entry in enumerate(entries) if entry.speaker is Speaker.SYSTEM and not entry.is_directive]


def words(value: Any) -> list[str]:
    """The texts that a message holds, wherever they stand in it."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for item in value for text in words(item)]
    if isinstance(value, dict) or hasattr(value, "model_fields_set"):
        return [text for name, item in fields(value).items() if name not in FRAME for text in words(item)]
    return []


FRAME = ("type", "role", "id", "status", "cache_control", "name")
