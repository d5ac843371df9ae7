"""Pickle and copy autoprune's values, with errors that name what of the caller's cannot be.

pickle says of what is deep inside a value only "cannot pickle '_thread.RLock' object". So a value first tries what it
holds of the caller's, object by object, and an error says which object it was: `its llm.client is an OpenAI`. While an
object is tried, the values inside it try nothing. Else an agent with a pruner that calls the agent back would be tried
without end.
"""

import copy
import dataclasses
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from threading import local
from typing import Any, TypeVar

from autoprune.errors import CopyError

# What pickle and copy raise, and what methods raise that they call.
REFUSALS = (pickle.PicklingError, TypeError, AttributeError, ValueError, NotImplementedError, RecursionError, OSError)
DEPTH = 5  # levels of objects in objects that an error names
Self = TypeVar("Self", bound="Copied")
Try = Callable[[object], object]

_trying = local()


class Copied:
    """A value that can be pickled and copied, without its memos: of a dataclass only the fields are copied."""

    def _given(self) -> Iterator[tuple[str, object]]:
        """Yield what it holds of the caller's, each with its name in errors."""
        return iter(())

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of."""
        if not dataclasses.is_dataclass(self):
            return dict(vars(self))
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the state of a copy. This works for a frozen dataclass, too."""
        self.__dict__.update(state)

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        """Return what pickle makes a copy by. Raises CopyError."""
        dumps = _dumps()
        self._try(dumps, dumps)
        return super().__reduce_ex__(protocol)

    def __copy__(self: Self) -> Self:
        """Return a shallow copy."""
        made = object.__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        """Return a deep copy. Raises CopyError."""
        made = memo[id(self)] = object.__new__(type(self))
        self._try(lambda held: copy.deepcopy(held, memo), copy.deepcopy)
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def _try(self, attempt: Try, anew: Try) -> None:
        """Make an attempt at each object of the caller's. Raises CopyError for the first that it fails for.

        `anew` is an attempt that knows nothing of earlier ones, as deepcopy knows what it has copied by half.
        """
        if getattr(_trying, "is_on", False):
            return
        _trying.is_on = True
        try:
            for name, held in self._given():
                if error := _failure(attempt, held):
                    place, culprit, error = _culprit(anew, name, held, error)
                    kind = type(culprit).__qualname__
                    raise CopyError(
                        f"a {type(self).__name__} cannot be copied or pickled: its {place}, of the type {kind}, "
                        f"cannot be: {error}"
                    ) from error
        finally:
            _trying.is_on = False


def _dumps() -> Try:
    """Return the function that pickles: cloudpickle's where somebody uses it, which can do more."""
    able = next(filter(None, map(sys.modules.get, ("cloudpickle", "ray.cloudpickle"))), pickle)
    dumps: Try = able.dumps
    return dumps


def _failure(attempt: Try, held: object) -> Exception | None:
    try:
        attempt(held)
    except REFUSALS as error:
        return error
    return None


def _culprit(attempt: Try, name: str, held: object, error: Exception, depth: int = 0) -> tuple[str, object, Exception]:
    """Return the innermost object that fails, its name and its error, inside autoprune's own values and containers."""
    for inner, each in _inside(held) if depth < DEPTH else ():
        if failure := _failure(attempt, each):
            return _culprit(attempt, f"{name}{inner}", each, failure, depth + 1)
    return name, held, error


def _inside(value: object) -> Iterator[tuple[str, object]]:
    """Yield what a container or a value of autoprune's holds, each with its place there."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{at}]", each) for at, each in enumerate(value))
    elif dataclasses.is_dataclass(value) and type(value).__module__.startswith("autoprune."):
        yield from ((f".{each.name}", getattr(value, each.name)) for each in dataclasses.fields(value))
