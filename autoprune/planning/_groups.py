"""Find the messages that may go out of a conversation as it grows. Weighs nothing, takes nothing out.

How it works. A conversation is cut into the smallest groups of messages that can go by themselves. A group never
parts a call from its result, nor what the model said at once: calls that were made together, reasoning before a call.
With S for the system, U for the user, A for the model, A[c] for a call and R[c] for its result, the bars are the cuts:

    | S | U | A[c1] R[c1] | A[c2] A[c3] R[c2] R[c3] | A | U |
      0   1   2     3       4     5     6     7       8   9

A group stays if it holds a message that is retained (here the system's, 0), the user's current request (9), or what the
model has not seen yet; 1, 2-3, 4-7 and 8 may go. Two rules look at neighbors, since providers want the roles to
alternate: between two groups of one speaker that stay, something of the other speaker stays too; and two messages of
one speaker never become neighbors because what stood between them goes (`keep_apart`, `keep_answers_apart`).

A cut that is safe at a request is safe at every later one, so only the newest groups are cut again as messages come.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

from autoprune.conversation.summary import is_user_message
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall
from autoprune.facts.words import has_role, is_note
from autoprune.planning.retention import Retention
from autoprune.planning.view import Group

Mend: TypeAlias = Callable[[int, int, set[int]], set[int]]  # two neighbors and what goes, to what goes instead
OTHERS = {Speaker.MODEL: Speaker.USER, Speaker.USER: Speaker.MODEL}
RECUT = 3  # of the newest groups: what has come since may belong to them


def cuts(entries: Sequence[Entry]) -> list[int]:
    """Return the places where a conversation may be cut, in order; 0 and the end are always among them.

    A cut at `at` parts `entries[:at]` from `entries[at:]`. None stands between two messages of the model's, between a
    call and its result, or before a result without a call. A call without a result makes no place unsafe. A place that
    is safe when the model is called stays safe, unless a call is answered after the model has spoken again.
    """
    last = list(range(len(entries)))  # for each message, the last one that it must stay with
    for first, until in _together(entries):
        if first >= 0:
            last[first] = max(last[first], until)
    places, reach = [0], 0
    for at, until in enumerate(last):
        reach = max(reach, until)
        if reach == at:
            places.append(at + 1)
    return places


def units(entries: Sequence[Entry]) -> list[range]:
    """Return the smallest groups: the messages between neighboring cuts."""
    return [range(start, stop) for start, stop in pairwise(cuts(entries))]


def _together(entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of messages that no cut may part."""
    model = [entry.speaker is Speaker.MODEL for entry in entries]
    yield from ((at - 1, at) for at in range(1, len(entries)) if model[at - 1] and model[at])
    made: dict[tuple[Path, int | None], int] = {}
    for at, entry in enumerate(entries):
        made.update((_place(call), at) for call in entry.calls)
        for result in entry.results:
            yield made.get(_place(result.call), at - 1) if result.call else at - 1, at


def _place(call: ToolCall) -> tuple[Path, int | None]:
    # Calls are known by their place: they are made anew when a message is read again, and ids are used again.
    return call.location.path, call.location.start


class Groups:
    """The smallest groups of messages that may go, kept up to date as the conversation grows."""

    def __init__(self, entries: Sequence[Entry], retain: Retention) -> None:
        """Watch `entries`, which grow; `append` tells of each new one."""
        self.entries = entries
        self.retain = retain
        self._requests: list[int] = []  # the user's
        self._notes: list[int] = []  # messages of the user's that only an agent's program wrote
        self.systems = 0
        self._staying: set[int] = set()
        self._words: set[int] = set()  # messages of the model's that are nothing but words
        self._models: set[int] = set()
        self._users: set[int] = set()  # messages of the user's role, those with results too
        self._units: list[range] = []
        self._units_end = 0

    @property
    def requests(self) -> list[int]:
        """The user's requests; where there are none, what an agent's program wrote in the user's name."""
        return self._requests or self._notes

    @property
    def asked(self) -> Sequence[int]:
        """The user's requests, without what an agent's program wrote."""
        return self._requests

    def append(self, at: int, message: object) -> None:
        """Take the next message, whose entry is there already."""
        entry = self.entries[at]
        if self._is_said_by_user(at):
            (self._notes if is_note(message, entry) else self._requests).append(at)
        self.systems += entry.speaker is Speaker.SYSTEM
        if is_user_message(message):
            self._users.add(at)
        if entry.speaker is Speaker.MODEL:
            self._models.add(at)
            if not entry.calls and not entry.thinking and has_role(message):
                self._words.add(at)
        if self.retain.stays(at, message, entry):
            self._staying.add(at)

    def _is_said_by_user(self, at: int) -> bool:
        return self.entries[at].speaker is Speaker.USER and not self.entries[at].results

    def free(self, gone: Collection[int], *, begins_with_user: bool = False) -> list[range]:
        """Return the groups that may go, oldest first; `gone` are the messages that went before.

        With `begins_with_user` the first message that stays is the user's, if there is one to keep.
        """
        stay = self._stay() | set(range(self._first_unseen(), len(self.entries)))
        kept = self._units = [unit for unit in self._all_units() if not all(at in gone for at in unit)]
        staying = [not stay.isdisjoint(unit) for unit in kept]
        _alternate(kept, staying, self.entries, begins_with_user=begins_with_user)
        return [unit for unit, stays in zip(kept, staying, strict=True) if not stays]

    def keep_apart(
        self, gone: Collection[int], going: set[int], offered: Collection[tuple[int, ...]], weigh: Callable[[int], int]
    ) -> set[int]:
        """Return what goes in place of `going` so that no two messages of the user's become neighbors by it.

        Neighbors would have to be joined, and neither could go by itself later. The later one goes too if it is
        `offered`; else something that the model said stays between them: its last words, or its lightest calls with
        their results.
        """
        alone = {messages[0] for messages in offered if len(messages) == 1}

        def mended(before: int, after: int, going: set[int]) -> set[int]:
            return {*going, after} if after in alone else going - {*self._separator(before, after, gone, going, weigh)}

        return self._parted(gone, going, self._users, mended)

    def keep_answers_apart(
        self, gone: Collection[int], going: set[int], offered: Collection[tuple[int, ...]]
    ) -> set[int]:
        """Return what goes in place of `going` so that no two messages of the model's become neighbors by it.

        Some providers refuse neighbors, and in pruned output that is fed back they would be one answer. The later one
        goes too if it is `offered` and nothing but words, or else the earlier one; else the user's last words between
        them stay.
        """
        answers = {at: messages for messages in offered if self._words.issuperset(messages) for at in messages}

        def mended(before: int, after: int, going: set[int]) -> set[int]:
            said = [at for at in range(before, after) if at in going and self._is_said_by_user(at)]
            return (
                {*going, *answers.get(after, answers.get(before, ()))}
                if said and {before, after} & answers.keys()
                else going - {*said[-1:]}
            )

        return self._parted(gone, going, self._models, mended)

    def opening(self, gone: Collection[int], free: Collection[int]) -> Iterator[int]:
        """Yield the groups of the model's at the head that may go, by their first messages, which are among `free`."""
        kept = (unit for unit in self._all_units() if not all(at in gone for at in unit))
        for unit in kept:
            first = next(at for at in unit if at not in gone)
            if self.entries[first].speaker is Speaker.SYSTEM:
                continue
            if first not in self._models or first not in free:
                return
            yield first

    def _parted(self, gone: Collection[int], going: set[int], among: Collection[int], mended: Mend) -> set[int]:
        """Return what goes once `mended` has dealt with any two of some messages that become neighbors."""
        kept = [at for at in range(len(self.entries)) if at not in gone and at not in going]
        number = 1
        while number < len(kept):
            before, after = kept[number - 1 : number + 1]
            if (
                after == before + 1
                or before not in among
                or after not in among
                or going.isdisjoint(range(before, after))
            ):
                number += 1
                continue
            going, had = mended(before, after, going), going
            kept = [at for at in kept if at not in going]
            number = number + 1 if going <= had else max(1, number - (before in going))
        return going

    def _separator(
        self, before: int, after: int, gone: Collection[int], going: set[int], weigh: Callable[[int], int]
    ) -> Sequence[int]:
        """Return the group of `going` that keeps two of the user's messages apart; () if there is none."""
        groups = [[at for at in unit if at not in gone] for unit in self._all_units() if before < unit[0] < after]
        spoken = [group for group in groups if any(self.entries[at].speaker is Speaker.MODEL for at in group)]
        whole = [group for group in spoken if going.issuperset(group)]
        apart = [group for group in whole if group[-1] not in self._users or group[-1] == after - 1]
        words = [group for group in apart if not any(self.entries[at].calls for at in group)]
        return words[-1] if words else min(apart, key=lambda group: sum(map(weigh, group)), default=())

    def least_harmful(self, gone: Collection[int], keep: int, excess: float) -> tuple[int, ...]:
        """Return messages that may go where no cut is safe: enough for `excess` tokens, none of the last `keep`.

        They are part of what the model said at once, and only where that is nothing but words: no result loses its
        call, and no call its reasoning.
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
        """Return the first of the last `keep` messages in the prompt; the system's do not count."""
        at = len(self.entries)
        while at and keep > 0:
            at -= 1
            keep -= at not in gone and self.entries[at].speaker is not Speaker.SYSTEM
        return at

    def _stay(self) -> set[int]:
        """Return the messages that never go now. Something always stays: the user's request, or the newest message."""
        newest = {len(self.entries) - 1} if not self.requests and self.entries else set()
        return self._staying | self.retain.requests(self.requests, len(self.entries)) | newest

    def _first_unseen(self) -> int:
        """Return the first message that the model has not seen.

        It stands behind the model's last messages, or is the first of these while they wait for results.
        """
        at = len(self.entries)
        while at and self.entries[at - 1].speaker is not Speaker.MODEL:
            at -= 1
        first = at
        while first and self.entries[first - 1].speaker is Speaker.MODEL:
            first -= 1
        is_open = at == len(self.entries) and any(entry.calls for entry in self.entries[first:])
        return first if is_open else at

    def _all_units(self) -> list[range]:
        """Return the smallest groups without those that have gone; only the newest ones are cut again."""
        if self._units_end == len(self.entries):
            return self._units
        known = self._units[:-RECUT]
        start = self._units[-RECUT].start if len(self._units) >= RECUT else 0
        self._units_end = len(self.entries)
        return [*known, *(range(start + new.start, start + new.stop) for new in units(self.entries[start:]))]


def _alternate(kept: Sequence[range], staying: list[bool], entries: Sequence[Entry], *, begins_with_user: bool) -> None:
    """Mark one more group as staying wherever two groups of one speaker would become neighbors."""
    left = (number for number, stays in enumerate(staying) if stays)
    spoken = [number for number in left if entries[kept[number][0]].speaker is not Speaker.SYSTEM]
    if begins_with_user and spoken and entries[kept[spoken[0]][0]].speaker is Speaker.MODEL:
        _keep_first(kept, staying, entries, range(spoken[0] - 1, -1, -1), Speaker.USER)
    for before, after in pairwise(spoken):
        ends, begins = entries[kept[before][-1]].speaker, entries[kept[after][0]].speaker
        if ends is begins and begins in OTHERS and after > before + 1:
            _keep_first(kept, staying, entries, range(after - 1, before, -1), OTHERS[begins])


def _keep_first(
    kept: Sequence[range], staying: list[bool], entries: Sequence[Entry], numbers: Iterable[int], speaker: Speaker
) -> None:
    """Mark the first of some groups as staying that holds nothing but words of a speaker."""
    for number in numbers:
        if all(entries[at].speaker is speaker and not entries[at].calls for at in kept[number]):
            staying[number] = True
            return


def joined(smallest: Sequence[Group], size: int) -> list[Group]:
    """Return neighbors joined until there are `size` messages in each group."""
    groups: list[Group] = []
    for group in smallest:
        if groups and len(groups[-1].messages) < size:
            last = groups[-1]
            messages, said = (*last.messages, *group.messages), last.said + group.said
            groups[-1] = Group(messages, last.tokens + group.tokens, group.rank, group.ends_turn, said)
        else:
            groups.append(group)
    return groups
