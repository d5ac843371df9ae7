"""Find the groups of messages that may go from a conversation as it grows. Removes nothing.

A conversation is cut into the smallest groups of messages that can go separately. A call is in one group with its
result, and so are consecutive messages of the model: parallel calls, and reasoning before a call; and so are messages
that the provider wants together, such as a request for approval and its answer (`Entry.pairs`). With S for the system,
U for the user, A for the model, A[c] for a call and R[c] for its result, the bars are the boundaries:

    | S | U | A[c1] R[c1] | A[c2] A[c3] R[c2] R[c3] | A | U |
      0   1   2     3       4     5     6     7       8   9

A group stays if it holds a retained message (here the system message, 0), the user's current request (9), the newest
compaction by the provider, the newest message that sets options, a message that loads tools, or a message that the
model has not seen yet. So 1, 2-3, 4-7 and 8 may go.

Some providers require the roles to alternate, so two more rules look at neighbors. Between two groups of one speaker
that stay, a group of the other speaker stays too (`_alternate`). And if all messages between two of one speaker go, one
of them goes too or a message between them stays (`keep_users_apart`, `keep_answers_apart`).

A cut that is safe at one request is safe at all later ones, so new messages only change the newest groups.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

from autoprune.conversation.transcript import Entry, Path, Speaker, ToolCall
from autoprune.facts.utterances import is_note
from autoprune.planning.protections import Retention
from autoprune.planning.view import Group

# Takes two messages that would become neighbors and the messages that go; returns the messages that go instead.
Mend: TypeAlias = Callable[[int, int, set[int]], set[int]]
OTHERS = {Speaker.MODEL: Speaker.USER, Speaker.USER: Speaker.MODEL}
RECUT = 3  # newest groups to cut again, since new messages may belong to them


def boundaries(entries: Sequence[Entry]) -> list[int]:
    """Find the indexes at which a conversation may be cut, in order; 0 and the end are always among them.

    A cut at `at` separates `entries[:at]` from `entries[at:]`. It never separates two consecutive messages of the
    model, a call from its result, or a result without a call from the message before it. A call without a result allows
    cuts after it. A cut that is safe when the model is called stays safe, unless a call is answered after the model has
    spoken again.
    """
    last = list(range(len(entries)))  # for each message, the last one that it must stay with
    for first, until in _inseparable(entries):
        if first >= 0:
            last[first] = max(last[first], until)
    places, reach = [0], 0
    for at, until in enumerate(last):
        reach = max(reach, until)
        if reach == at:
            places.append(at + 1)
    return places


def units(entries: Sequence[Entry]) -> list[range]:
    """Return the smallest groups: the messages between neighboring boundaries."""
    return [range(start, stop) for start, stop in pairwise(boundaries(entries))]


def _inseparable(entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each run of messages that no cut may separate."""
    model = [entry.speaker is Speaker.MODEL for entry in entries]
    yield from ((at - 1, at) for at in range(1, len(entries)) if model[at - 1] and model[at])
    message_of: dict[tuple[Path, int | None], int] = {}
    first_of: dict[str, int] = {}
    for at, entry in enumerate(entries):
        message_of.update((_position(call), at) for call in entry.calls)
        for result in entry.results:
            yield message_of.get(_position(result.call), at - 1) if result.call else at - 1, at
        for pair in entry.pairs:
            yield first_of.setdefault(pair, at), at


def _position(call: ToolCall) -> tuple[Path, int | None]:
    # Neither objects nor ids identify a call: reading a message again creates new objects, and agents reuse ids.
    return call.location.path, call.location.start


class Groups:
    """The smallest groups of messages that may go, kept up to date as the conversation grows."""

    def __init__(self, entries: Sequence[Entry], retain: Retention) -> None:
        """Start with no messages. `entries` is the walk's growing list; call `add_message` after each new entry."""
        self.entries = entries
        self.retain = retain
        self.user_requests: list[int] = []  # without messages that the agent's program wrote
        self._notes: list[int] = []  # user messages that the agent's program wrote
        self.uncounted = 0  # the number of system messages, and of messages that the provider ignores
        self._compaction: set[int] = set()  # the newest one
        self._directive: set[int] = set()  # the newest one
        self._first_of: dict[str, int] = {}  # the first message of each pair
        self._waiting: dict[str, int] = {}  # a message whose partner may still come, by their pair
        self._recut_from = 0
        self._staying: set[int] = set()  # retained messages
        self._words: set[int] = set()  # messages of the model with only text
        self._models: set[int] = set()  # messages of the model
        self._users: set[int] = set()  # messages with the user's role, including those with results
        self._units: list[range] = []
        self._units_end = 0

    @property
    def requests(self) -> list[int]:
        """The user's requests; if there are none, the user messages that the agent's program wrote."""
        return self.user_requests or self._notes

    def add_message(self, at: int) -> None:
        """Add the next message, whose entry is already in `entries`."""
        entry = self.entries[at]
        if entry.is_replaced:
            self.uncounted += 1
            self._staying.add(at)
            return
        if entry.is_users:
            (self._notes if is_note(entry) else self.user_requests).append(at)
        self.uncounted += entry.speaker is Speaker.SYSTEM and not entry.is_directive
        if entry.compaction is not None:
            self._compaction = {at}
        if entry.is_directive:
            self._directive = {at}
        for pair in entry.pairs:
            self._add_to_pair(pair, at)
        if entry.role == "user":
            self._users.add(at)
        if entry.speaker is Speaker.MODEL:
            self._models.add(at)
            if not entry.calls and not entry.thinking and entry.role is not None:
                self._words.add(at)
        if entry.loads_tools or self.retain.stays(at, entry):
            self._staying.add(at)

    def _add_to_pair(self, pair: str, at: int) -> None:
        first = self._first_of.setdefault(pair, at)
        self._recut_from = min(self._recut_from, first)
        if first < at:
            self._waiting.pop(pair, None)
        elif not self.entries[at].results:
            self._waiting[pair] = at

    def free(self, gone: Collection[int], *, begins_with_user: bool = False) -> list[range]:
        """Return the groups that may go, oldest first. `gone` holds the messages that are already removed.

        With `begins_with_user`, the first message that stays is the user's, if the conversation has such a message.
        """
        stay = self._stay() | set(range(self._first_unseen(), len(self.entries)))
        kept = self._units = [unit for unit in self._all_units() if not all(at in gone for at in unit)]
        staying = [not stay.isdisjoint(unit) for unit in kept]
        _alternate(kept, staying, self.entries, begins_with_user=begins_with_user)
        return [unit for unit, stays in zip(kept, staying, strict=True) if not stays]

    def keep_users_apart(
        self, gone: Collection[int], going: set[int], offered: Collection[tuple[int, ...]], weigh: Callable[[int], int]
    ) -> set[int]:
        """Return `going`, changed so that no two user messages become neighbors.

        Neighbors would have to be joined, and then neither could go separately later. The later of the two goes too if
        it is `offered`. If not, messages of the model stay between the two: its last text, or else its calls with the
        fewest tokens and their results.
        """
        alone = {messages[0] for messages in offered if len(messages) == 1}

        def mend(before: int, after: int, going: set[int]) -> set[int]:
            return {*going, after} if after in alone else going - {*self._separator(before, after, gone, going, weigh)}

        return self._mend_neighbors(gone, going, self._users, mend)

    def keep_answers_apart(
        self, gone: Collection[int], going: set[int], offered: Collection[tuple[int, ...]]
    ) -> set[int]:
        """Return `going`, changed so that no two messages of the model become neighbors.

        Some providers reject neighbors, and in pruned output that is passed back they would be read as one answer. The
        later of the two goes too if it is `offered` and only text, or else the earlier one. If neither can go, the
        user's last words between the two stay.
        """
        answers = {at: messages for messages in offered if self._words.issuperset(messages) for at in messages}

        def mend(before: int, after: int, going: set[int]) -> set[int]:
            said = [at for at in range(before, after) if at in going and self.entries[at].is_users]
            return (
                {*going, *answers.get(after, answers.get(before, ()))}
                if said and {before, after} & answers.keys()
                else going - {*said[-1:]}
            )

        return self._mend_neighbors(gone, going, self._models, mend)

    def opening(self, gone: Collection[int], free: Collection[int]) -> Iterator[int]:
        """Yield the first message of each of the model's groups at the head of the prompt, while `free` holds it."""
        kept = (unit for unit in self._all_units() if not all(at in gone for at in unit))
        for unit in kept:
            first = next(at for at in unit if at not in gone)
            if self.entries[first].speaker is Speaker.SYSTEM:
                continue
            if first not in self._models or first not in free:
                return
            yield first

    def _mend_neighbors(self, gone: Collection[int], going: set[int], among: Collection[int], mend: Mend) -> set[int]:
        """Apply `mend` to each pair of messages of `among` that become neighbors. Return the messages that go."""
        others = [at for at, entry in enumerate(self.entries) if entry.speaker is not Speaker.SYSTEM]
        kept = [at for at in others if at not in gone and at not in going]
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
            going, previous = mend(before, after, going), going
            kept = [at for at in kept if at not in going]
            # If more messages go, there are new neighbors, so the pair is checked again.
            number = number + 1 if going <= previous else max(1, number - (before in going))
        return going

    def _separator(
        self, before: int, after: int, gone: Collection[int], going: set[int], weigh: Callable[[int], int]
    ) -> Sequence[int]:
        """Choose a group in `going` that has to stay between two user messages; () if no group can."""
        groups = [[at for at in unit if at not in gone] for unit in self._all_units() if before < unit[0] < after]
        spoken = [group for group in groups if any(self.entries[at].speaker is Speaker.MODEL for at in group)]
        whole = [group for group in spoken if going.issuperset(group)]
        apart = [group for group in whole if group[-1] not in self._users or group[-1] == after - 1]
        words = [group for group in apart if not any(self.entries[at].calls for at in group)]
        return words[-1] if words else min(apart, key=lambda group: sum(map(weigh, group)), default=())

    def least_harmful(self, gone: Collection[int], keep: int, excess: float) -> tuple[int, ...]:
        """Find messages that may go although no cut is safe: enough for `excess` tokens, without the last `keep`.

        These messages are part of one run of the model's messages. If the run holds more than text, no message may go.
        So no result loses its call, and no call its reasoning.
        """
        stay = self._stay()
        free = [at for at in range(self._first_unseen()) if at not in stay and at not in gone]
        if boundaries([self.entries[at] for at in free])[1:-1] or not all(at in self._words for at in free):
            return ()
        newest = self.first_kept(gone, keep)
        may_go = [at for at in free[:-1] if at < newest]
        sums = accumulate(self.entries[at].tokens for at in may_go)
        enough = next((number for number, tokens in enumerate(sums, 1) if tokens >= excess), 0)
        return tuple(may_go[:enough] if excess > 0 else may_go)

    def first_kept(self, gone: Collection[int], keep: int) -> int:
        """Return the index of the first of the last `keep` messages in the prompt, not counting system messages."""
        at = len(self.entries)
        while at and keep > 0:
            at -= 1
            keep -= at not in gone and self.entries[at].speaker is not Speaker.SYSTEM
        return at

    def _stay(self) -> set[int]:
        """Return the messages that must not be removed.

        They include the user's requests to keep, or the newest message if there is no request.
        """
        requests = self.retain.requests(self.requests, len(self.entries))
        newest = {len(self.entries) - 1} if not self.requests and self.entries else set()
        return self._staying.union(self._compaction, self._directive, self._waiting.values(), requests, newest)

    def _first_unseen(self) -> int:
        """Return the index of the first message that the model has not seen.

        The first unseen message follows the model's last messages. Calls that wait for results are unseen too.
        """
        at = len(self.entries)
        while at and self.entries[at - 1].speaker is not Speaker.MODEL:
            at -= 1
        first = at
        while first and self.entries[first - 1].speaker is Speaker.MODEL:
            first -= 1
        # While calls wait for their results, no prompt has held these messages yet.
        is_open = at == len(self.entries) and any(entry.calls for entry in self.entries[first:])
        return first if is_open else at

    def _all_units(self) -> list[range]:
        """Return the smallest groups without removed groups. Only the newest groups are cut again."""
        if self._units_end != len(self.entries):
            settled = [unit for unit in self._units[:-RECUT] if unit.stop <= self._recut_from]
            start = self._units[len(settled)].start if len(self._units) >= RECUT else 0
            fresh = (range(start + new.start, start + new.stop) for new in units(self.entries[start:]))
            self._units = [*settled, *fresh]
            self._units_end = self._recut_from = len(self.entries)
        return self._units


def _alternate(kept: Sequence[range], staying: list[bool], entries: Sequence[Entry], *, begins_with_user: bool) -> None:
    """Mark one more group as staying between each pair of groups of one speaker that would become neighbors."""
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
    """Mark the first group in `numbers` that holds only the speaker's text as staying."""
    for number in numbers:
        if all(entries[at].speaker is speaker and not entries[at].calls for at in kept[number]):
            staying[number] = True
            return


def join_groups(smallest: Sequence[Group], size: int) -> list[Group]:
    """Join neighboring groups until each has at least `size` messages; the last may have fewer."""
    groups: list[Group] = []
    for group in smallest:
        if groups and len(groups[-1].messages) < size:
            last = groups[-1]
            messages, said = (*last.messages, *group.messages), last.said + group.said
            groups[-1] = Group(messages, last.tokens + group.tokens, group.rank, group.ends_turn, said)
        else:
            groups.append(group)
    return groups
