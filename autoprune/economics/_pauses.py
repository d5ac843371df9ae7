"""How long a provider's cache was left alone: the pauses of a conversation, and a record of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import Any, TypeAlias

from autoprune.errors import SettingsError, whole

Clock: TypeAlias = Callable[[], float]
NUMBERS = (int, float)


def checked_pauses(pauses: Mapping[int, float] | None) -> Mapping[int, float]:
    """Return pauses in seconds, by the index of the message before which they lie. Raises SettingsError for others."""
    if pauses is not None and not isinstance(pauses, Mapping):
        raise SettingsError(f"pauses is {pauses!r}: give seconds by the index of a message, as Pauses does")
    for at, seconds in (pauses or {}).items():
        is_pause = isinstance(seconds, NUMBERS) and type(seconds) is not bool and 0 <= seconds < math.inf
        if type(at) is not int or at < 0 or not is_pause:
            raise SettingsError(
                f"a pause of {seconds!r} before message {at!r}: give seconds, 0 or more, by the index of a message"
            )
    return pauses or {}


class Pauses:
    """Records the pauses of a live loop: the seconds between a request and the one before it.

    `pauses.before(messages)` in each call of `prune` notes that a request is about to be sent, and returns what is
    known so far. `as_json` and `of_json` keep the record with a conversation that is stored and taken up again.
    """

    def __init__(
        self, known: Mapping[int, float] | None = None, last: float | None = None, clock: Clock = time
    ) -> None:
        """Begin with pauses that are known, and with the time of the last request; `clock` gives seconds."""
        self._known = dict(checked_pauses(known))
        self._last = last
        self._clock = clock

    def before(self, messages: Sequence[object]) -> Mapping[int, float]:
        """Note a request that is sent now, with these messages, and return the pauses before it and earlier ones."""
        now = self._clock()
        if self._last is not None:
            # The same request sent again: what was cleared because of the pause before it stays cleared.
            self._known[len(messages)] = max(self._known.get(len(messages), 0.0), now - self._last)
        self._last = now
        return dict(self._known)

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON takes it."""
        return {"pauses": {str(at): seconds for at, seconds in self._known.items()}, "last": self._last}

    @classmethod
    def of_json(cls, record: Mapping[str, Any], clock: Clock = time) -> "Pauses":
        """Return the record that `as_json` wrote. Raises SettingsError where a key is missing."""
        with whole("the record of pauses"):
            return cls({int(at): seconds for at, seconds in record["pauses"].items()}, record["last"], clock)
