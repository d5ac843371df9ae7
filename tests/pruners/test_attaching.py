"""`@prune_history`: the function sees pruned messages, the caller's stay whole, and results come back as they are."""

import asyncio
import copy
import inspect
from collections import UserDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypedDict

import conversations
import pydantic
import pytest
from tables import each_row

from autoprune import AgenticConversationPruner, PruneArgs, SettingsError
from autoprune.planning.thinking import drop_block
from autoprune.pruners.decorator import prune_history

ARGS = PruneArgs(1_000)
LONG = conversations.openai_chat([conversations.words(900)], [conversations.words(500)])
CLEARED = "[Cleared at request 2: read_file 0.py, 900 tokens]"  # by cache_aware
PRUNED = conversations.openai_chat([CLEARED], [conversations.words(500)])
LOW_WATER = conversations.openai_chat([None], [conversations.words(500)])
SHORT = [{"role": "user", "content": "Hello."}]
REPLY = {"role": "assistant", "content": "Done."}


# Where the messages are


class Messages(TypedDict):
    messages: list[Any]
    step: int


@dataclass
class Plain:
    messages: list[Any]
    step: int = 0
    made: list[int] = field(default_factory=list, init=False)


@dataclass(frozen=True)
class Frozen:
    messages: list[Any]
    step: int = 0


@dataclass(frozen=True, slots=True)
class Slotted:
    messages: list[Any]
    step: int = 0


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    messages: list[Any]
    step: int = 0


class Dict(dict):
    pass


Tuple = namedtuple("Tuple", ("messages", "step"))


def held(state: Any) -> list[Any]:
    return state["messages"] if isinstance(state, dict | UserDict) else state.messages


STATES = [Messages, Plain, Frozen, Slotted, Model, Dict, UserDict, Tuple, SimpleNamespace]


@each_row("kind", STATES)
@each_row(("messages", "expected"), [(LONG, PRUNED), (SHORT, SHORT)])
def test_the_function_sees_a_state_of_the_same_type_with_pruned_messages(kind: Any, messages, expected):
    given = kind(messages=messages, step=3)
    whole, seen = held(given), []

    @prune_history(args=ARGS)
    def node(state: Any, config: object) -> str:
        seen.append((type(state), copy.copy(held(state)), config))
        held(state).append(REPLY)
        return "result"

    assert node(given, "config") == "result"
    assert seen == [(type(given), expected, "config")]
    assert held(given) is whole
    assert given == kind(messages=messages, step=3)
    assert whole == copy.deepcopy(messages)
    assert REPLY not in whole


def of_a_list(history, *, seen):
    seen.append(history)


def of_a_keyword(client, *, messages, seen):
    seen.append(messages)


def of_a_keyword_only_state(*, state, seen):
    seen.append(state["messages"])


def of_a_state_or_none(state, messages=None, *, seen):
    seen.append(state["messages"] if messages is None else messages)


def of_a_name(client, messages, seen):
    seen.append(messages)


def of_any_keywords(seen, **request):
    seen.append(request["messages"])


class Agent:
    messages = "not these"

    @prune_history(args=ARGS)
    def step(self, messages, seen):
        seen.append(messages)

    @prune_history(args=ARGS)
    def node(self, state, seen):
        seen.append(state["messages"])

    @classmethod
    @prune_history(args=ARGS)
    def of_class(cls, history, seen):
        seen.append(history)

    @staticmethod
    @prune_history(args=ARGS)
    def of_none(history, seen):
        seen.append(history)


attach = prune_history(args=ARGS)
CALLS = [
    lambda seen: attach(of_a_list)(LONG, seen=seen),
    lambda seen: attach(of_a_list)(history=LONG, seen=seen),
    lambda seen: attach(of_a_keyword)("client", messages=LONG, seen=seen),
    lambda seen: attach(of_a_name)("client", LONG, seen),
    lambda seen: attach(of_a_name)("client", seen=seen, messages=LONG),
    lambda seen: attach(of_any_keywords)(seen, model="m", messages=LONG),
    lambda seen: attach(of_a_keyword_only_state)(state={"messages": LONG}, seen=seen),
    lambda seen: attach(of_a_state_or_none)({"messages": LONG}, seen=seen),
    lambda seen: attach(of_a_state_or_none)(state={"messages": LONG}, seen=seen),
    lambda seen: attach(of_a_state_or_none)({"messages": LONG}, None, seen=seen),
    lambda seen: attach(of_a_state_or_none)({"messages": SHORT}, LONG, seen=seen),
    lambda seen: attach(partial(of_a_name, "client", seen=seen))(messages=LONG),
    lambda seen: Agent().step(LONG, seen),
    lambda seen: Agent().node({"messages": LONG}, seen),
    lambda seen: Agent().node(seen=seen, state={"messages": LONG}),
    lambda seen: Agent.of_class(LONG, seen),
    lambda seen: Agent().of_none(LONG, seen),
]


@each_row("call", CALLS)
def test_messages_are_found_by_their_name_else_in_the_first_argument(call: Callable[[list[Any]], object]):
    seen: list[Any] = []
    call(seen)
    assert seen == [PRUNED]


def test_the_field_may_have_another_name():
    @prune_history(args=ARGS, field="chat_history")
    def node(state: dict[str, Any]) -> list[Any]:
        return list(state["chat_history"][:4])

    assert node({"chat_history": LONG, "messages": SHORT}) == PRUNED[:4]


@pytest.mark.parametrize(
    "call", [lambda ask: ask("hi"), lambda ask: ask("hi", None), lambda ask: ask("hi", messages=None)]
)
def test_a_value_that_is_not_messages_is_left_alone(call):
    @prune_history(args=ARGS)
    def ask(prompt: str, messages: list[Any] | None = None) -> tuple[str, object]:
        return prompt, messages

    assert call(ask) == ("hi", None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "node was called without messages: give a list of them, or messages="),
        (({},), "node was called without messages: 0 is a dict without 'messages'"),
        (("hi",), "node was called without messages: 0 is a str without 'messages'"),
    ],
)
def test_a_call_without_messages_is_refused(given: tuple[object, ...], said: str):
    @prune_history(args=ARGS)
    def node(state=None):
        raise AssertionError("called")

    with pytest.raises(SettingsError) as refusal:
        node(*given)
    assert said in str(refusal.value)


class ReadOnly:
    @property
    def messages(self) -> list[Any]:
        return LONG


@each_row("state, kind", [(ReadOnly(), "ReadOnly"), (MappingProxyType({"messages": LONG}), "mappingproxy")])
def test_a_state_that_cannot_be_copied_with_other_messages_is_refused(state: object, kind: str):
    with pytest.raises(SettingsError, match=f"{kind} cannot be copied with other messages .*: use a dict, or a type"):
        prune_history(args=ARGS)(same)(state)


# What is returned


def same(state):
    return state


def appended(state):
    held(state).append(REPLY)
    return state


def added(state):
    return {"messages": [*held(state), REPLY]}


@each_row("kind", [Messages, Plain, Frozen, Model, UserDict, Tuple, SimpleNamespace])
@each_row("node", [same, appended, added])
def test_the_full_history_comes_back_unless_pruning_is_to_persist(kind: Any, node):
    given, more = kind(messages=LONG, step=1), [] if node is same else [REPLY]
    returned = prune_history(args=ARGS)(node)(given)
    pruned = prune_history(args=ARGS, persist=True)(node)(given)
    assert (held(returned), held(pruned)) == ([*LONG, *more], [*PRUNED, *more])
    assert type(returned) is (dict if node is added else type(given))
    assert held(given) == LONG
    if node is same:
        assert returned == given
        assert held(returned) is held(given)


@each_row("kind", [Messages, Plain, Frozen, Model, UserDict, Tuple, SimpleNamespace])
@each_row("given", [LONG, {"messages": LONG}, Plain(LONG)])
def test_the_full_history_comes_back_in_a_state_of_another_type(kind: Any, given: Any):
    def node(state):
        return kind(messages=[*(state if isinstance(state, list) else held(state)), REPLY], step=1)

    assert prune_history(args=ARGS)(node)(given) == kind(messages=[*LONG, REPLY], step=1)


def test_messages_after_others_or_in_a_tuple_stay_pruned():
    attached = prune_history(args=ARGS)
    assert attached(lambda messages: (messages, "answer"))(LONG) == (PRUNED, "answer")
    assert attached(lambda messages: [REPLY, *messages])(LONG) == [REPLY, *PRUNED]


# Functions


async def later(state):
    await asyncio.sleep(0)
    return added(state)


@each_row("function", [wraps(later)(lambda state: later(state)), lambda state: asyncio.ensure_future(later(state))])
def test_a_plain_function_may_return_an_awaitable(function: Any):
    async def call(**options: Any) -> Any:
        return await prune_history(args=ARGS, **options)(function)({"messages": LONG})

    assert asyncio.run(call()) == {"messages": [*LONG, REPLY]}
    assert asyncio.run(call(persist=True)) == {"messages": [*PRUNED, REPLY]}


def test_a_coroutine_awaits_a_pruner_that_can_wait():
    class Waiting:
        calls = 0

        def prune(self, conversation, strategy=None):
            raise AssertionError("not awaited")

        async def aprune(self, conversation, strategy=None):
            await asyncio.sleep(0)
            self.calls += 1
            return AgenticConversationPruner(ARGS).prune(conversation, strategy)

    waiting = Waiting()

    @prune_history(pruner=waiting, strategy="low_water")
    async def node(state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"messages": [*state["messages"], REPLY], "seen": state["messages"][3]}

    assert asyncio.run(node({"messages": LONG})) == {"messages": [*LONG, REPLY], "seen": LOW_WATER[3]}
    assert waiting.calls == 1


class Asynchronous:
    async def __call__(self, messages):
        return messages[3]


async def alone(messages=None):
    return messages and messages[3]


@pytest.mark.parametrize("function", [alone, Asynchronous(), partial(alone)])
def test_a_coroutine_works_with_a_pruner_that_cannot_wait(function):
    assert asyncio.run(prune_history(args=ARGS)(function)(messages=LONG)) == PRUNED[3]
    assert asyncio.run(prune_history(args=ARGS)(alone)()) is None
    assert inspect.iscoroutinefunction(prune_history(args=ARGS)(function))


def test_name_docstring_and_signature_are_the_functions():
    def node(state: Messages, *, config: str = "x") -> None:
        """Say it."""

    attached = prune_history(args=ARGS)(node)
    assert (attached.__name__, attached.__doc__, inspect.signature(attached)) == (
        "node",
        "Say it.",
        inspect.signature(node),
    )


def generator(messages):
    yield messages


async def asynchronous_generator(messages):
    yield messages


@each_row(
    ("function", "said"),
    [
        (generator, "generator is a generator: decorate what it calls, or prune inside it"),
        (asynchronous_generator, "asynchronous_generator is a generator"),
        (staticmethod(same), "decorates functions, below any @staticmethod"),
        (Agent, "decorates functions"),
        (5, "decorates functions, below any @staticmethod; 5 is none"),
    ],
)
def test_an_object_that_cannot_be_decorated_is_rejected_at_once(function: Any, said: str):
    with pytest.raises(SettingsError, match=said):
        prune_history(args=ARGS)(function)


def test_a_decorator_without_parentheses_is_an_error_at_once():
    with pytest.raises(SettingsError, match=r"generator is decorated without settings: write @prune_history\(\)"):
        prune_history(generator)  # type: ignore[arg-type]


def test_settings_beside_a_pruner_are_an_error_at_once():
    with pytest.raises(SettingsError, match="got a pruner and the settings '1k': give the settings to the pruner"):
        prune_history("1k", pruner=AgenticConversationPruner("1m"))


def test_errors_of_the_function_and_the_pruner_are_raised():
    @prune_history(PruneArgs("abc"))
    def wrong(messages):
        raise AssertionError("called")

    @prune_history(args=ARGS)
    def broken(messages):
        raise KeyError("mine")

    with pytest.raises(SettingsError, match="the safe zone is 'abc'"):
        wrong(LONG)
    with pytest.raises(KeyError, match="mine"):
        broken(LONG)


# Pruners and events


def test_one_pruner_serves_all_calls_and_a_strategy_may_be_named():
    made = AgenticConversationPruner(ARGS)
    events: list[Any] = []
    node = prune_history(pruner=made, strategy="low_water", on_pruned=events.append)(lambda messages: None)
    node(LONG)
    node([*LONG, REPLY])
    node(SHORT)
    assert [
        (event.report.strategy, event.report.results_cleared, event.report.first_changed_message) for event in events
    ] == [
        ("low_water", 1, 3),
        ("low_water", 1, 3),
    ]


def test_a_prune_that_is_refused_leaves_the_messages_whole():
    told: list[Any] = []
    options = {"before_prune": lambda event: event.report.tokens_before < 1_000, "on_pruned": told.append}
    assert prune_history(args=ARGS, **options)(lambda messages: messages)(LONG) == LONG
    assert told == []


THINKING = [
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": conversations.words(900)}]},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "So."}],
    },
    {"role": "user", "content": "On."},
]


def test_required_request_parameters_are_never_dropped_silently():
    events: list[Any] = []
    args = PruneArgs(500, model="claude-opus-5-5")
    prune_history(args=args, on_pruned=events.append)(same)(THINKING)
    strategy = "cache_aware"
    prune_history(pruner=AgenticConversationPruner(args, strategy=strategy, on_pruned=events.append))(same)(THINKING)
    assert [event.request_parameters for event in events] == [drop_block(), drop_block()]
    with pytest.raises(
        SettingsError, match=r"the next request must say .*drop_block.*: take it from on_pruned's event"
    ):
        prune_history(args=args)(same)(THINKING)


def test_a_strategy_that_folds_gets_the_pruner_that_folds():
    words = [{"role": "user", "content": f"Part {number}. " + "Why? " * 99} for number in range(1, 9)]
    given = [message for word in words for message in (word, {"role": "assistant", "content": "Because. " * 99})]

    @prune_history(args=PruneArgs(1_000), strategy="keep_last(n=3)")
    def node(messages: list[Any]) -> int:
        return len(messages)

    assert node(given) == 3
