"""Which messages may go out of a conversation, piece by piece, as it grows. Weighs nothing, takes nothing out."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from autoprune.retention import Retention
from autoprune.splitting import cuts, split, units
from autoprune.transcript import Entry, Speaker

RECUT = 3  # of the newest pieces: what has come since may belong to them


class Pieces:
    """The smallest pieces that may go: no call without its result, nothing that is retained or was not seen yet."""

    def __init__(self, entries: Sequence[Entry], retain: Retention) -> None:
        """Look at `entries`, which grow; each new one is told by `append`."""
        self.entries = entries
        self.retain = retain
        self.requests: list[int] = []  # the user's
        self.systems = 0
        self._staying: set[int] = set()
        self._units: list[range] = []
        self._units_end = 0

    def append(self, at: int, message: object) -> None:
        """The next message, whose entry is there already."""
        entry = self.entries[at]
        if entry.speaker is Speaker.USER and not entry.results:
            self.requests.append(at)
        self.systems += entry.speaker is Speaker.SYSTEM
        if self.retain.stays(at, message, entry):
            self._staying.add(at)

    def free(self, gone: Collection[int]) -> list[range]:
        """The pieces that may go, oldest first; `gone` has those messages that went before."""
        stay = self._stay() | set(range(self._first_unseen(), len(self.entries)))
        kept = self._units = [unit for unit in self._all_units() if not all(at in gone for at in unit)]
        staying = [not stay.isdisjoint(unit) for unit in kept]
        _bridge(kept, staying, self.entries)
        return [unit for unit, stays in zip(kept, staying, strict=True) if not stays]

    def least_harmful(self, gone: Collection[int], keep: int, excess: float) -> tuple[int, ...]:
        """What may go but for the last `keep` messages, or enough for `excess` tokens, where no cut is safe."""
        stay = self._stay()
        free = [at for at in range(self._first_unseen()) if at not in stay and at not in gone]
        entries = [self.entries[at] for at in free]
        if cuts(entries)[1:-1]:
            return ()
        if excess > 0:
            room = max(1, int(sum(entry.tokens for entry in entries) - excess))
            return tuple(free[: split(entries, max_kept_tokens=room).at])
        return tuple(free[: split(entries, keep_messages=max(keep, 1)).at])

    def first_kept(self, gone: Collection[int], keep: int) -> int:
        """The first of the last `keep` messages in the prompt, the system's aside."""
        at = len(self.entries)
        while at and keep > 0:
            at -= 1
            keep -= at not in gone and self.entries[at].speaker is not Speaker.SYSTEM
        return at

    def _stay(self) -> set[int]:
        return self._staying | self.retain.requests(self.requests, len(self.entries))

    def _first_unseen(self) -> int:
        """The first message that the model has not seen: behind its last run."""
        at = len(self.entries)
        while at and self.entries[at - 1].speaker is not Speaker.MODEL:
            at -= 1
        return at

    def _all_units(self) -> list[range]:
        """The pieces, what has gone before left out.

        A cut that was safe at a request is safe at every later one, so only the newest pieces are cut anew.
        """
        if self._units_end == len(self.entries):
            return self._units
        known = self._units[:-RECUT]
        start = self._units[-RECUT].start if len(self._units) >= RECUT else 0
        self._units_end = len(self.entries)
        return [*known, *(range(start + new.start, start + new.stop) for new in units(self.entries[start:]))]


def _bridge(kept: Sequence[range], staying: list[bool], entries: Sequence[Entry]) -> None:
    """Let something of the user's stay between two messages of the model's that stay: roles alternate."""
    left = [
        number
        for number, stays in enumerate(staying)
        if stays and entries[kept[number][0]].speaker is not Speaker.SYSTEM
    ]
    for before, after in pairwise(left):
        ends, begins = entries[kept[before][-1]].speaker, entries[kept[after][0]].speaker
        if after > before + 1 and ends is Speaker.MODEL and begins is Speaker.MODEL:
            between = range(after - 1, before, -1)
            found = next((at for at in between if entries[kept[at][0]].speaker is Speaker.USER), None)
            if found is not None:
                staying[found] = True
