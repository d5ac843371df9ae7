"""Cases for the promises: valid conversations of every format, strategies with their options, safe zones."""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic_hypothesis import anthropic_conversations, bedrock_conversations
from gemini_responses_hypothesis import gemini_conversations, responses_conversations
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples, is_full
from pydantic import BaseModel
from rounds import OTHERS, WIRE
from rounds_hypothesis import PASTED, rounds
from rounds_in_texts import CARRIERS, DIALECTS, in_text
from strategies_hypothesis import conversations as chat_conversations

from autoprune import AgenticConversationPruner, Clamp, Protections, PruneArgs, Result, ToolInputs, repair
from autoprune.conversation.messages import compaction_text
from autoprune.planning.view import Strategy
from autoprune.pruners._base import RESTORED
from autoprune.strategies.clearing import LowWater, ToolOutputCleanup

CHECKED = examples(16)
VARIANTS = 3  # of the strategy and the safe zone, for each conversation
SENTENCE = (
    "This message has been cleared. If you still want to get this information, "
    "you can call the tool again to retrieve it."
)


# Conversations


def repaired(provider: str) -> Callable[[list[Any]], list[Any]]:
    """What makes a conversation one that the provider takes."""
    return lambda messages: repair(messages, provider).conversation


@st.composite
def conversations_in_texts(draw: st.DrawFn, dialect: str, said: Sequence[str] = ()) -> list[Any]:
    """An agent's work in a dialect, in the messages of any format."""
    return in_text(draw(rounds(said)), dialect, draw(st.sampled_from(sorted(CARRIERS))))


FORMATS: dict[str, st.SearchStrategy[list[Any]]] = {
    "openai_chat": chat_conversations("openai").map(repaired("openai_chat")),
    "openai_responses": responses_conversations().map(repaired("openai_responses")),
    "anthropic": anthropic_conversations(),
    "bedrock": bedrock_conversations(),
    "gemini": gemini_conversations(),
    "xml": chat_conversations("xml"),
    **{dialect: conversations_in_texts(dialect) for dialect in DIALECTS if dialect != "xml"},
}
# For `parametrize`. In quick XML stands for the other dialects in texts.
EACH = [each if each in WIRE or each == "xml" else pytest.param(each, marks=pytest.mark.full) for each in FORMATS]


def conversations(format: str, said: Sequence[str] = ()) -> st.SearchStrategy[list[Any]]:
    """Conversations of a format or a dialect: odd ones, and an agent at work to whom the user says a few things."""
    if format not in WIRE:
        return st.one_of(FORMATS[format], conversations_in_texts(format, said))
    return st.one_of(FORMATS[format], *(rounds(said).map(write) for write in (WIRE[format], *OTHERS.get(format, ()))))


# Strategies with their options, and safe zones


def mentions_the_first_call(message: object) -> bool:
    """A predicate for pins that holds before and after a result is cleared."""
    return "call_0" in str(message)


# Those that look at results alone, and those that look at messages, of which formats make more or fewer.
OF_RESULTS = (
    *(Protections(), Protections(tools=("read_*",)), Protections(paths=("*.py",)), Protections(last_results=2)),
    *(Protections(failed=True), Protections(minimum_tokens=60), Protections(user_answers=False, failed=True)),
    Protections(answer_tools=("read_file", "run")),
    Protections(last_results=1, failed=True, instruction_files=True),
)
OF_MESSAGES = (
    *(Protections(last_tokens=150), Protections(pinned={1, 2}), Protections(pinned=mentions_the_first_call)),
)
CLAMPS = st.sampled_from(
    (None, None, None, Clamp(60), Clamp(200, head=0.2, evidence_tokens=40), Clamp(400, plain=True))
)
INPUTS = st.sampled_from((None, ToolInputs(above=0), ToolInputs(("write_*", "read_file"), above=40)))
BARE = (ToolOutputCleanup(), LowWater(), LowWater(target=1.0, minimum_reclaim=0.0), LowWater(0.5, 0.4))


@st.composite
def strategies(draw: st.DrawFn, protections: Sequence[Protections] = (*OF_RESULTS, *OF_MESSAGES)) -> Strategy:
    """A strategy that ships, mostly with options."""
    bare = draw(st.sampled_from(BARE))
    if draw(st.integers(0, 3)) == 0:
        return bare
    protect, clamp, inputs = draw(st.sampled_from(protections)), draw(CLAMPS), draw(INPUTS)
    return dataclasses.replace(bare, protect=protect, clamp=clamp, clear_tool_inputs=inputs)


@dataclass(frozen=True)
class Case:
    """A conversation, a strategy and a safe zone."""

    messages: list[Any]
    strategy: Strategy
    safe_zone: int

    @property
    def pruner(self) -> AgenticConversationPruner:
        """A new one."""
        return AgenticConversationPruner(PruneArgs(self.safe_zone))

    def pruned(self) -> Result:
        """The outcome, by a new pruner."""
        return self.pruner.prune(self.messages, self.strategy)


def count(messages: list[Any]) -> int:
    """Tokens of a conversation."""
    return AgenticConversationPruner(None).count_tokens(messages)


def edges(messages: list[Any], strategy: Strategy) -> list[int]:
    """What is left after none, one, two … of the edits that can be made."""
    tokens = [count(messages)]
    for edit in AgenticConversationPruner(PruneArgs(1)).plan(messages, strategy).edits:
        tokens.append(tokens[-1] - edit.saved)
    return tokens


@st.composite
def cases(draw: st.DrawFn, format: str) -> list[Case]:
    """A conversation of a format, with a few strategies and safe zones: drawing those is cheaper than drawing it."""
    messages = draw(conversations(format, PASTED))
    found = []
    for _ in range(VARIANTS):
        strategy = draw(strategies())
        found.append(Case(messages, strategy, draw(safe_zones(messages, strategy))))
    return found


@st.composite
def safe_zones(draw: st.DrawFn, messages: list[Any], strategy: Strategy) -> int:
    """A safe zone from tiny to huge; often one that is just met, or just missed, by some of the edits."""
    known = edges(messages, strategy)
    exactly = st.builds(int.__add__, st.sampled_from(known), st.sampled_from((-1, 0, 1)))
    anywhere = st.one_of(st.sampled_from((1, 10**9)), st.integers(1, known[0] + 1))
    return max(1, draw(st.one_of(exactly, exactly, anywhere)))


def every_format(test: Callable[[Case], None]) -> Callable[..., None]:
    """Check a property over many cases of each format."""

    def check(format: str, data: st.DataObject) -> None:
        for case in data.draw(cases(format)):
            test(case)

    check.__name__, check.__qualname__, check.__module__ = test.__name__, test.__qualname__, test.__module__
    found: Callable[..., None] = pytest.mark.parametrize("format", EACH)(CHECKED(given(data=st.data())(check)))
    return found


# Looking at messages


def fields(value: Any) -> dict[str, Any]:
    """What a mapping or an SDK's object holds, extra fields too."""
    return value if isinstance(value, dict) else {**vars(value), **(value.__pydantic_extra__ or {})}


def shape(value: Any) -> object:
    """Everything that a value is: types, order of names, which fields were set. Equal shapes are the same value."""
    if isinstance(value, dict | BaseModel):
        named = [(name, shape(item)) for name, item in fields(value).items()]
        return type(value), named, sorted(value.model_fields_set) if isinstance(value, BaseModel) else None
    if isinstance(value, list | tuple):
        return type(value), [shape(item) for item in value]
    return type(value), repr(value) if isinstance(value, float) else value


def as_bytes(messages: object) -> str:
    """A conversation as JSON text: what a provider is sent, and more."""
    return json.dumps(messages, default=lambda value: value.hex() if isinstance(value, bytes) else fields(value))


Path = tuple[int | str, ...]


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[Path]:
    """The places where two values differ, as deep as their types, their names and their lengths agree."""
    if type(old) is not type(new):
        yield path
    elif isinstance(old, dict | BaseModel) and list(fields(old)) == list(fields(new)):
        for name, item in fields(old).items():
            yield from differences(item, fields(new)[name], (*path, name))
    elif isinstance(old, list | tuple) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, (*path, index))
    elif old != new:
        yield path


def at(messages: Any, path: Path) -> Any:
    """What stands at a place."""
    for name in path:
        messages = fields(messages)[name] if isinstance(name, str) else messages[name]
    return messages


MODEL_ITEMS = (
    *("reasoning", "compaction", "context_compaction", "mcp_list_tools", "mcp_approval_request", "program"),
    "program_output",
)


def prompt_start(messages: list[Any]) -> int:
    """The newest message with a compaction for which the provider ignores all messages before; 0 without one."""
    return next((at for at in range(len(messages) - 1, 0, -1) if compaction_text(messages[at])), 0)


def is_models(message: Any) -> bool:
    """Whether the model produced a message or an item."""
    held = fields(message)
    if held.get("execution") == "server":
        return True
    kind = str(held.get("type", "message"))
    return held.get("role") in ("assistant", "model") or kind.endswith("_call") or kind in MODEL_ITEMS


def is_seen(messages: list[Any], number: int) -> bool:
    """Whether the model has begun to speak after message `number`."""
    speaks = list(map(is_models, messages))
    return any(speaks[later] and not speaks[later - 1] for later in range(number + 1, len(messages)))


def requests(messages: list[Any]) -> list[int]:
    """How many messages there are when the model is called."""
    speaks = list(map(is_models, messages))
    return [at for at in range(1, len(messages) + 1) if not speaks[at - 1] and (at == len(messages) or speaks[at])]


def again(messages: list[Any]) -> list[Any]:
    """The conversation as it is loaded again, from JSON where it can be."""
    try:
        return json.loads(json.dumps(messages))
    except TypeError:  # an SDK's objects, or bytes
        return copy.deepcopy(messages)


def facts(result: Result) -> dict[str, Any]:
    """A report without what depends on the clock and on what a pruner remembers; in quick without advice."""
    report = result.report if is_full() else dataclasses.replace(result.report, advise=None)
    report = dataclasses.replace(report, fallbacks=tuple(note for note in report.fallbacks if RESTORED not in note))
    return {**report.to_dict(), "seconds": None}
