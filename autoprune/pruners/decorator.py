"""A decorator that prunes the messages that a function is given. Changes nothing of the caller's."""

import copy
import inspect
from collections import UserDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from types import MemberDescriptorType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from autoprune.errors import SettingsError
from autoprune.planning.view import Strategy, folds
from autoprune.pruners.agentic import AgenticConversationPruner
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.result import BeforePrune, Callbacks, OnPruned, Result
from autoprune.strategies.catalog import names_folding

P = ParamSpec("P")
R = TypeVar("R")


class Prunes(Protocol):
    """A pruner of any kind. One with `aprune`, the same awaited, is awaited by coroutines."""

    def prune(self, conversation: list[Any], strategy: str | Strategy | None = None, /) -> Result:
        """Return the conversation to send, and what was done."""


def prune_history(
    *,
    pruner: Prunes | None = None,
    args: object = None,
    strategy: str | Strategy | None = None,
    field: str = "messages",
    before_prune: BeforePrune | None = None,
    on_pruned: OnPruned | None = None,
    persist: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a function pruned messages: `@prune_history(args=PruneArgs("50k"))` above a node, a method or a coroutine.

    The messages are the argument called `field`; else the first argument (after `self`), which is a list of messages or
    a state that holds them: a dict, a dataclass, a named tuple, a pydantic model or a plain object with that key or
    attribute. None is left alone. The function always gets a list of its own, in a shallow copy of the state, of the
    same type. So neither pruning nor what the function does in place reaches the caller's: it returns what it adds.

    What the function returns is left as it is, but for one thing: where that is or holds the messages that were pruned
    for it, perhaps with more behind them, the caller's full history comes back in their place, so that nothing is lost.
    With `persist=True` the pruned messages stay there.

    `pruner` is a pruner of any kind; else one is made of `args` at the first call, which reads the environment then: a
    `ConversationPruner` where `strategy` is one of its names or folds, else an `AgenticConversationPruner`.
    `before_prune` and `on_pruned` are asked and told as in `pruners.events`, of what a prune came to; give them to the
    pruner where no model is to be called for a prune that is refused. What the next request must say besides is in
    `on_pruned`'s event.

    Raises SettingsError for a generator and what is no function, at once; for a call without messages; and for a prune
    by which the next request must say more, where nobody hears of it. What the pruner raises comes through.
    """
    made = cache(lambda: _pruner(args, strategy) if pruner is None else pruner)

    def attached(function: Callable[P, R]) -> Callable[P, R]:
        find = partial(_found, _Place(_name(function), _parameters(function), field))
        hand = partial(_handed, callbacks=Callbacks(before_prune, on_pruned))

        @wraps(function)
        def pruned(*arguments: P.args, **keywords: P.kwargs) -> R:
            found = find(arguments, keywords)
            if found is None:
                return function(*arguments, **keywords)
            call = hand(found, made().prune(found.messages, strategy))
            returned = function(*call.arguments, **call.keywords)
            return returned if persist else cast(R, call.restored(returned))

        @wraps(function)
        async def awaited(*arguments: P.args, **keywords: P.kwargs) -> object:
            found = find(arguments, keywords)
            if found is None:
                return await cast(Awaitable[R], function(*arguments, **keywords))
            call = hand(found, await _awaited(made(), found.messages, strategy))
            returned = await cast(Awaitable[R], function(*call.arguments, **call.keywords))
            return returned if persist else call.restored(returned)

        return cast(Callable[P, R], awaited) if _is_async(function) else pruned

    return attached


async def _awaited(pruner: Prunes, messages: list[Any], strategy: str | Strategy | None) -> Result:
    """Return what a pruner makes of messages, awaited if it can be."""
    aprune = getattr(pruner, "aprune", None)
    return pruner.prune(messages, strategy) if aprune is None else cast(Result, await aprune(messages, strategy))


# Where the messages are


@dataclass(frozen=True)
class _Place:
    """Where a function is given its messages: its name, those of its parameters, and that of the messages."""

    function: str
    parameters: tuple[str, ...]
    field: str

    def among(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> int | str | None:
        """Return the position or keyword of the messages, or of the state that holds them; None without either."""
        if self.field in keywords:
            return self.field
        if self.field in self.parameters:
            at = self.parameters.index(self.field)
            return at if at < len(arguments) else None
        first = int(self.parameters[:1] in (("self",), ("cls",)))
        if first < len(arguments):
            return first
        name = next(iter(self.parameters[first:]), None)
        if name in keywords:
            return name
        raise SettingsError(f"{self.function} was called without messages: give a list of them, or {self.field}=")


@dataclass(frozen=True)
class _Call:
    """A call with the messages in it: `state` is the argument `at`, which is or holds them.

    `handed` are the pruned ones that the function got in their place, as they were then; () if none were pruned.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    at: int | str
    field: str
    state: object
    messages: list[Any]
    handed: tuple[Any, ...] = ()

    def giving(self, messages: list[Any], handed: tuple[Any, ...] = ()) -> "_Call":
        """Return the call with other messages in it."""
        state = messages if self.state is self.messages else _holding(self.state, self.field, messages)
        if isinstance(self.at, str):
            return replace(self, keywords={**self.keywords, self.at: state}, handed=handed)
        arguments = (*self.arguments[: self.at], state, *self.arguments[self.at + 1 :])
        return replace(self, arguments=arguments, handed=handed)

    def restored(self, returned: object) -> object:
        """Return what the function returned, with the full history where it begins with the messages handed over."""
        is_state = isinstance(returned, dict) or type(returned) is type(self.state)
        given = returned if isinstance(returned, list) else _held(returned, self.field) if is_state else None
        if not self.handed or not isinstance(given, list) or not _begins(given, self.handed):
            return returned
        added = given[len(self.handed) :]
        full = [*self.messages, *added] if added else self.messages
        return full if returned is given else _holding(returned, self.field, full)


def _begins(messages: list[Any], first: tuple[Any, ...]) -> bool:
    is_long_enough = len(messages) >= len(first)
    return is_long_enough and all(one is other for one, other in zip(messages, first, strict=False))


def _pruner(args: object, strategy: object) -> Any:
    """Return a pruner of the kind that a strategy is for."""
    is_foldings = isinstance(strategy, str) and names_folding(strategy)
    if is_foldings or folds(strategy):
        return ConversationPruner(args)
    return AgenticConversationPruner(args)


def _found(place: _Place, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> _Call | None:
    """Return the call with its messages; None if they are None or not given."""
    at = place.among(arguments, keywords)
    state = None if at is None else keywords[at] if isinstance(at, str) else arguments[at]
    messages = state if isinstance(state, list) else _held(state, place.field)
    if messages is MISSING:
        what = f"{type(state).__name__} without {place.field!r}"
        raise SettingsError(
            f"{place.function} was called without messages: {at!r} is a {what}; give a list, or name the field"
        )
    if at is None or messages is None:
        return None
    return _Call(arguments, keywords, at, place.field, state, cast(list[Any], messages))


def _handed(call: _Call, result: Result, callbacks: Callbacks) -> _Call:
    """Return the call with what a prune came to, or with a copy of its messages where that is refused."""
    if result.conversation is call.messages:
        return call.giving([*call.messages])
    if result.request_parameters and callbacks.on_pruned is None:
        raise SettingsError(
            f"the next request must say {result.request_parameters!r}: take it from on_pruned's event, or choose "
            "another thinking_policy"
        )
    if callbacks.refused(result, call.messages):
        return call.giving([*call.messages])
    pruned = callbacks.told(result, call.messages).conversation
    return call.giving([*pruned], tuple(pruned))


# States

MISSING = object()


def _held(state: object, field: str) -> object:
    """Return what a state holds as its messages; MISSING where it has no such field."""
    if state is None:
        return None
    return state.get(field, MISSING) if isinstance(state, Mapping) else getattr(state, field, MISSING)


def _holding(state: Any, field: str, messages: list[Any]) -> object:
    """Return a shallow copy of a state with these messages, of the same type. Raises SettingsError for others."""
    if hasattr(state, "model_copy"):
        return state.model_copy(update={field: messages})
    if isinstance(state, tuple) and hasattr(state, "_replace"):
        return state._replace(**{field: messages})
    if isinstance(state, dict | UserDict):
        copied: Any = copy.copy(state)
        copied[field] = messages
        return copied
    if not _is_own(state, field):
        raise SettingsError(f"a {type(state).__name__} cannot be copied with other {field}: give a dict or a dataclass")
    copied = copy.copy(state)
    object.__setattr__(copied, field, messages)  # a frozen one, too
    return copied


def _is_own(state: object, field: str) -> bool:
    """Return whether the messages stand in the object itself, so that a copy with others leaves it as it is."""
    if isinstance(inspect.getattr_static(state, field, None), MemberDescriptorType):
        return True
    return field in getattr(state, "__dict__", ()) and vars(copy.copy(state)) is not vars(state)


# Functions


def _parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of positional parameters. Raises SettingsError for what cannot be decorated."""
    if not callable(function) or isinstance(function, type | staticmethod | classmethod):
        raise SettingsError(f"prune_history stands above a function, and below @staticmethod: {function!r} is none")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SettingsError(f"{_name(function)} is a generator: decorate what it calls, or prune inside it")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(function).parameters.values()
    return tuple(parameter.name for parameter in known if parameter.kind in kinds)


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))


def _is_async(function: Callable[..., object]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object with an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
