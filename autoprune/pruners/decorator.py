"""A decorator that prunes the messages in a function's arguments. Never changes the caller's objects."""

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, partial, wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from autoprune.errors import SettingsError, type_of
from autoprune.planning.view import Strategy, folds
from autoprune.pruners.conversation import ConversationPruner
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.pruners.result import BeforePrune, Callbacks, OnPruned, Result
from autoprune.settings.values import Args
from autoprune.strategies.catalog import names_folding

P = ParamSpec("P")
R = TypeVar("R")


class Prunes(Protocol):
    """A pruner of any kind. Decorated coroutines await its `aprune` if it has one."""

    def prune(self, conversation: list[Any], strategy: str | Strategy | None = None, /) -> Result[Any]:
        """Prune a conversation."""


def prune_history(
    args: Args = None,
    *,
    pruner: Prunes | None = None,
    strategy: str | Strategy | None = None,
    field: str = "messages",
    before_prune: BeforePrune | None = None,
    on_pruned: OnPruned | None = None,
    persist: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a function pruned messages: `@prune_history("50k")` above a node, a method or a coroutine.

    The messages are the argument named `field`; else the first argument (after `self`), which is a list of messages or
    a state that holds them: a dict, a dataclass, a named tuple, a pydantic model or a plain object with that key or
    attribute. If the argument `field` is None, such a state is used too; else nothing is pruned. The function always
    gets a new list, in a shallow copy of the state with the same type. So changes that the function makes in place do
    not reach the caller: it has to return what it adds.

    If the function returns the pruned messages, or a state of any type that holds them, perhaps with more messages
    after them, the caller's full history replaces them, so that no message is lost. With `persist=True` they stay
    pruned. Any other return value is unchanged, such as a tuple that holds the messages, or a list with another message
    before them. The value of a coroutine or a future that a plain function returns is treated in the same way.

    `pruner` is a pruner of any kind. Without one, the first call creates it from `args` and the environment: a
    `ConversationPruner` if `strategy` is one of its names or folds messages, else an `AgenticConversationPruner` whose
    default is `cache_aware`. If `args` hold no safe zone, it is that of `autoprune.prune`.
    `before_prune` and `on_pruned` are called as in `pruners.result`, after the pruner has finished. Pass them to the
    pruner instead if no model should be called for a prune that is refused. If the next request needs more parameters,
    they are in `on_pruned`'s event.

    Raises SettingsError at once for a generator or an object that is not a function, and for `args` beside a `pruner`;
    at a call, for missing messages, for a state that cannot be copied with other messages, and if the next request
    needs more parameters but neither this decorator nor the pruner has an `on_pruned`. Errors of the pruner are not
    caught.
    """
    if inspect.isfunction(args):
        raise SettingsError(f"{args.__name__} is decorated without settings: write @prune_history()")
    if pruner is not None and args is not None:
        raise SettingsError(f"prune_history got a pruner and the settings {args!r}: give the settings to the pruner")
    get_pruner = cache(lambda: _pruner(args, strategy) if pruner is None else pruner)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        find = _Place(_name(function), *_parameters(function), field).find_call
        hand = partial(_with_pruned, callbacks=Callbacks(before_prune, on_pruned))

        @wraps(function)
        def pruned(*arguments: P.args, **keywords: P.kwargs) -> R:
            found = find(arguments, keywords)
            if found is None:
                return function(*arguments, **keywords)
            call = hand(found, get_pruner(), get_pruner().prune(found.messages, strategy))
            returned = function(*call.arguments, **call.keywords)
            return returned if persist else cast(R, call.restore(returned))

        @wraps(function)
        async def awaited(*arguments: P.args, **keywords: P.kwargs) -> object:
            found = find(arguments, keywords)
            if found is None:
                return await cast(Awaitable[R], function(*arguments, **keywords))
            call = hand(found, get_pruner(), await _prune_async(get_pruner(), found.messages, strategy))
            returned = await cast(Awaitable[R], function(*call.arguments, **call.keywords))
            return returned if persist else call.restore(returned)

        return cast(Callable[P, R], awaited) if _is_async(function) else pruned

    return decorate


async def _prune_async(pruner: Prunes, messages: list[Any], strategy: str | Strategy | None) -> Result[Any]:
    aprune = getattr(pruner, "aprune", None)
    return pruner.prune(messages, strategy) if aprune is None else cast(Result[Any], await aprune(messages, strategy))


# Where the messages are


@dataclass(frozen=True)
class _Place:
    """The place of the messages in a call: the names of the function, of its parameters, and of the messages' field."""

    function: str
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    field: str

    def find_call(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> "_Call | None":
        """Find the messages in a call; None if they are None or not given. Raises SettingsError if there are none."""
        given: dict[Any, Any] = {**dict(enumerate(arguments)), **keywords}
        at = self._find_argument(given)
        state = given.get(at)
        messages: Any = state if isinstance(state, list) else _get_field(state, self.field)
        if messages is MISSING:
            what = f"{type_of(state)} without {self.field!r}"
            raise SettingsError(
                f"{self.function} was called without messages: {at!r} is {what}; give a list, or name the field"
            )
        return None if messages is None else _Call(arguments, keywords, at, self.field, state, messages)

    def _find_argument(self, given: Mapping[int | str, Any]) -> int | str:
        """Find the position or keyword of the messages, or of the state that may hold them."""
        names = (*self.positional, *self.keyword_only)
        # The first parameter of a method is the instance or the class.
        first = int(self.positional[:1] in (("self",), ("cls",)))
        state = first if first in given else next(iter(names[first:]), "")
        if self.field in given or self.field in names:
            is_positional = self.field not in given and self.field in self.positional
            at = self.positional.index(self.field) if is_positional else self.field
            holder = given.get(state)
            in_state = given.get(at) is None and _is_state(holder) and isinstance(_get_field(holder, self.field), list)
            return state if in_state else at
        if state in given:
            return state
        raise SettingsError(f"{self.function} was called without messages: give a list of them, or {self.field}=")


@dataclass(frozen=True)
class _Call:
    """A call of the function. Its argument `at` is `state`, which is the list of messages or holds it.

    `handed` are the pruned messages that the function got in their place; () if nothing was pruned.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    at: int | str
    field: str
    state: object
    messages: list[Any]
    handed: tuple[Any, ...] = ()

    def with_messages(self, messages: list[Any], handed: tuple[Any, ...] = ()) -> "_Call":
        state = messages if self.state is self.messages else _copy_with(self.state, self.field, messages)
        if isinstance(self.at, str):
            return replace(self, keywords={**self.keywords, self.at: state}, handed=handed)
        arguments = (*self.arguments[: self.at], state, *self.arguments[self.at + 1 :])
        return replace(self, arguments=arguments, handed=handed)

    def restore(self, returned: object) -> object:
        """Put the full history into a return value that begins with the pruned messages; return others unchanged."""
        if not self.handed:
            return returned
        if inspect.iscoroutine(returned):
            return self._restore_awaited(returned)
        if isinstance(returned, asyncio.Future):
            return returned.get_loop().create_task(self._restore_awaited(returned))
        try:
            return self._restored(returned)
        except Exception:  # somebody else's object: what the function did must not be lost
            return returned

    def _restored(self, returned: object) -> object:
        given = returned if isinstance(returned, list) else _get_field(returned, self.field)
        if not isinstance(given, list):
            return returned
        # By identity, since equal messages may be different ones.
        if [*map(id, given[: len(self.handed)])] != [*map(id, self.handed)]:
            return returned
        added = given[len(self.handed) :]
        full = [*self.messages, *added] if added else self.messages
        return full if returned is given else _copy_with(returned, self.field, full)

    async def _restore_awaited(self, returned: Awaitable[object]) -> object:
        return self.restore(await returned)


def _pruner(args: Args, strategy: object) -> Any:
    if folds(strategy) or (isinstance(strategy, str) and names_folding(strategy)):
        return ConversationPruner(args)
    return AgenticConversationPruner(args).with_strategy().with_usual_zone(strategy)


def _with_pruned(call: _Call, pruner: Prunes, result: Result[Any], callbacks: Callbacks) -> _Call:
    """Return the call with the pruned messages, or with a copy of the original ones if the prune is refused."""
    if result.conversation is call.messages:
        return call.with_messages([*call.messages])
    if result.request_parameters and callbacks.on_pruned is None and getattr(pruner, "on_pruned", None) is None:
        raise SettingsError(
            f"the next request must say {result.request_parameters!r}: take it from on_pruned's event, or choose "
            "another thinking_policy"
        )
    if callbacks.refusal(result, call.messages):
        return call.with_messages([*call.messages])
    pruned = callbacks.notify(result, call.messages).conversation
    return call.with_messages([*pruned], tuple(pruned))


# States

MISSING = object()  # for a state without the field; None is a value of the field


def _is_state(value: object) -> bool:
    """Return whether a value only holds data. A copy of another object would not get the changes of the function."""
    return isinstance(value, Mapping | tuple) or is_dataclass(value) or hasattr(value, "model_copy")


def _get_field(state: object, field: str) -> object:
    """Return the field of a state; None for a state of None, and MISSING if it has no such field."""
    if state is None:
        return None
    return state.get(field, MISSING) if isinstance(state, Mapping) else getattr(state, field, MISSING)


def _copy_with(state: Any, field: str, messages: list[Any]) -> object:
    """Copy a state with other messages: shallow, of the same type. Raises SettingsError if that is impossible."""
    if hasattr(state, "model_copy"):
        return state.model_copy(update={field: messages})
    if isinstance(state, tuple) and hasattr(state, "_replace"):
        return state._replace(**{field: messages})
    try:
        copied = copy.copy(state)
        if isinstance(copied, Mapping):
            copied[field] = messages  # type: ignore[index]
        else:
            object.__setattr__(copied, field, messages)  # works for frozen dataclasses too
    except (AttributeError, TypeError) as error:
        what = f"{type(state).__name__} cannot be copied with other {field} ({error})"
        raise SettingsError(f"{what}: use a dict, or a type whose field can be set") from error
    return copied


# Functions


def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the positional and of the keyword-only parameters.

    Raises SettingsError for an object that cannot be decorated.
    """
    if not callable(function) or isinstance(function, type | staticmethod | classmethod):
        raise SettingsError(f"prune_history decorates functions, below any @staticmethod; {function!r} is none")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SettingsError(f"{_name(function)} is a generator: decorate what it calls, or prune inside it")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(function).parameters.values()
    positional = tuple(parameter.name for parameter in known if parameter.kind in kinds)
    return positional, tuple(parameter.name for parameter in known if parameter.kind is parameter.KEYWORD_ONLY)


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or repr(function))


def _is_async(function: Callable[..., object]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object with an async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
