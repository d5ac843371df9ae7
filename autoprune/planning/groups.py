"""Which messages may go out of a conversation, piece by piece, as it grows. Weighs nothing, takes nothing out."""

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, pairwise

from autoprune.conversation.summary import is_users
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.formats.words import has_role, is_note
from autoprune.planning.retention import Retention
from autoprune.planning.splitting import cuts, units

OTHERS = {Speaker.MODEL: Speaker.USER, Speaker.USER: Speaker.MODEL}
RECUT = 3  # of the newest pieces: what has come since may belong to them


class Pieces:
    """The smallest pieces that may go: no call without its result, nothing that is retained or was not seen yet."""

    def __init__(self, entries: Sequence[Entry], retain: Retention) -> None:
        """Look at `entries`, which grow; each new one is told by `append`."""
        self.entries = entries
        self.retain = retain
        self._requests: list[int] = []  # the user's
        self._notes: list[int] = []  # messages of the user's that only an agent's program wrote
        self.systems = 0
        self._staying: set[int] = set()
        self._words: set[int] = set()  # messages of the model's that are nothing but words
        self._users: set[int] = set()  # messages of the user's role, those with results too
        self._units: list[range] = []
        self._units_end = 0

    @property
    def requests(self) -> list[int]:
        """The user's requests; where there is none, what an agent's program wrote in the user's name."""
        return self._requests or self._notes

    def append(self, at: int, message: object) -> None:
        """The next message, whose entry is there already."""
        entry = self.entries[at]
        if entry.speaker is Speaker.USER and not entry.results:
            (self._notes if is_note(message, entry) else self._requests).append(at)
        self.systems += entry.speaker is Speaker.SYSTEM
        if is_users(message):
            self._users.add(at)
        if entry.speaker is Speaker.MODEL and not entry.calls and not entry.thinking and has_role(message):
            self._words.add(at)
        if self.retain.stays(at, message, entry):
            self._staying.add(at)

    def free(self, gone: Collection[int], *, begins_with_user: bool = False) -> list[range]:
        """The pieces that may go, oldest first; `gone` has those messages that went before.

        `begins_with_user`: what stays first is the user's, where there is anything of the user's before it.
        """
        stay = self._stay() | set(range(self._first_unseen(), len(self.entries)))
        kept = self._units = [unit for unit in self._all_units() if not all(at in gone for at in unit)]
        staying = [not stay.isdisjoint(unit) for unit in kept]
        _bridge(kept, staying, self.entries, begins_with_user=begins_with_user)
        return [unit for unit, stays in zip(kept, staying, strict=True) if not stays]

    def settled(
        self, gone: Collection[int], going: set[int], offered: Collection[tuple[int, ...]], weigh: Callable[[int], int]
    ) -> set[int]:
        """What goes in place of `going`, so that no two messages of the user's become neighbors by it.

        They would have to be joined, and neither could go by itself later. The later one goes too where it is
        `offered`; else something that the model said stays between them: its last words, or its lightest calls with
        their results.
        """
        alone = {messages[0] for messages in offered if len(messages) == 1}
        kept = [at for at in range(len(self.entries)) if at not in gone and at not in going]
        number = 1
        while number < len(kept):
            before, after = kept[number - 1 : number + 1]
            if after == before + 1 or not {before, after} <= self._users or going.isdisjoint(range(before, after)):
                number += 1
            elif after in alone:
                going = {*going, after}
                del kept[number]
            else:
                going = going - set(self._bridge(before, after, gone, going, weigh))
                number += 1
        return going

    def _bridge(
        self, before: int, after: int, gone: Collection[int], going: set[int], weigh: Callable[[int], int]
    ) -> Sequence[int]:
        """The piece of what is going that keeps two of the user's messages apart; () where there is none."""
        pieces = [[at for at in unit if at not in gone] for unit in self._all_units() if before < unit[0] < after]
        spoken = [piece for piece in pieces if any(self.entries[at].speaker is Speaker.MODEL for at in piece)]
        whole = [piece for piece in spoken if going.issuperset(piece)]
        apart = [piece for piece in whole if piece[-1] not in self._users or piece[-1] == after - 1]
        words = [piece for piece in apart if not any(self.entries[at].calls for at in piece)]
        return words[-1] if words else min(apart, key=lambda piece: sum(map(weigh, piece)), default=())

    def least_harmful(self, gone: Collection[int], keep: int, excess: float) -> tuple[int, ...]:
        """What may go but for the last `keep` messages, or enough for `excess` tokens, where no cut is safe.

        That is a part of what the model said at once, where those are words alone: no result loses its call, and no
        call its reasoning.
        """
        stay = self._stay()
        free = [at for at in range(self._first_unseen()) if at not in stay and at not in gone]
        if cuts([self.entries[at] for at in free])[1:-1] or not all(at in self._words for at in free):
            return ()
        newest = self.first_kept(gone, keep)
        may_go = [at for at in free[:-1] if at < newest]
        sums = accumulate(self.entries[at].tokens for at in may_go)
        enough = next((number for number, tokens in enumerate(sums, 1) if tokens >= excess), 0)
        return tuple(may_go[:enough] if excess > 0 else may_go)

    def first_kept(self, gone: Collection[int], keep: int) -> int:
        """The first of the last `keep` messages in the prompt, the system's aside."""
        at = len(self.entries)
        while at and keep > 0:
            at -= 1
            keep -= at not in gone and self.entries[at].speaker is not Speaker.SYSTEM
        return at

    def _stay(self) -> set[int]:
        # Something always stays: the user's request, or else the newest message.
        newest = {len(self.entries) - 1} if not self.requests and self.entries else set()
        return self._staying | self.retain.requests(self.requests, len(self.entries)) | newest

    def _first_unseen(self) -> int:
        """The first message that the model has not seen: behind its last run; with that, if it waits for results."""
        at = len(self.entries)
        while at and self.entries[at - 1].speaker is not Speaker.MODEL:
            at -= 1
        run = at
        while run and self.entries[run - 1].speaker is Speaker.MODEL:
            run -= 1
        is_open = at == len(self.entries) and any(entry.calls for entry in self.entries[run:])
        return run if is_open else at

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


def _bridge(kept: Sequence[range], staying: list[bool], entries: Sequence[Entry], *, begins_with_user: bool) -> None:
    """Let something of the other role stay between two pieces that stay, since roles alternate."""
    left = (number for number, stays in enumerate(staying) if stays)
    spoken = [number for number in left if entries[kept[number][0]].speaker is not Speaker.SYSTEM]
    if begins_with_user and spoken and entries[kept[spoken[0]][0]].speaker is Speaker.MODEL:
        _keep_one(kept, staying, entries, range(spoken[0] - 1, -1, -1), Speaker.USER)
    for before, after in pairwise(spoken):
        ends, begins = entries[kept[before][-1]].speaker, entries[kept[after][0]].speaker
        if ends is begins and begins in OTHERS and after > before + 1:
            _keep_one(kept, staying, entries, range(after - 1, before, -1), OTHERS[begins])


def _keep_one(
    kept: Sequence[range], staying: list[bool], entries: Sequence[Entry], numbers: range, speaker: Speaker
) -> None:
    """Let the first of some pieces stay that is words of a speaker's alone."""
    for number in numbers:
        if all(entries[at].speaker is speaker and not entries[at].calls for at in kept[number]):
            staying[number] = True
            return
