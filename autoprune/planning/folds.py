"""Fold messages into a summary, or drop them, as the strategy of a walk asks for it. Writes no summary.

Suppose that each message has 1,000 tokens and the safe zone is 4,500 (each bar is a request):

    0 U | 1 A   2 U | 3 A   4 U | 5 A

The prompt of the third request has 5,000 tokens. The walk offers the groups 0, 1, 2 and 3 (4 is the user's current
request). The strategy folds 0 and 1 with a room of 500 tokens. The prompt then consists of messages 2 to 4 and the
summary, which counts as 500 tokens plus those of its mark. The text is written after the walk, so a decision never
depends on what a summary says.

Later folds extend the same summary. Its room may grow and never shrinks. Pruned output that is passed back holds the
summary, and its mark records the room and the number of folded messages (`FoldContext.running`). So the walk over
pruned output decides as the walk over the full history does.

Edits of messages that were not offered are ignored. Some of the offered ones may also be held back: messages that
separate two user messages, and the user's words until the summary has room for them (`_find_waiting`). A summary must
be smaller than the messages it replaces, so an answer of 40 tokens that the user gave through a tool cannot be folded
alone without being cut. It waits until more messages are folded with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autoprune.conversation.edits import Fold, check_reason
from autoprune.conversation.summary import RunningSummary, overhead
from autoprune.conversation.transcript import Entry, Path, Speaker
from autoprune.facts.outcomes import answer_text
from autoprune.facts.utterances import user_words_beside
from autoprune.planning._groups import Groups, join_groups
from autoprune.planning.plan import Plan
from autoprune.planning.protections import BY_AGE, DEFAULT_PROTECTIONS, Protections, Retention
from autoprune.planning.view import SAID_HEADING_TOKENS, SAID_SHARE, SAID_TOKENS, FoldContext, Group, option
from autoprune.tokens import MESSAGE_TOKENS, Count

if TYPE_CHECKING:
    from autoprune.planning.walk import Walk

REQUEST_SHARE = 0.5  # the largest share of the summary's room for the user's oldest request
SMALL_ROOM = 64  # tokens; the request may take all of a room up to this size
SUMMARY_SHARE = 4  # a summary gets at most a quarter of the safe zone


class Room:
    """The maximum tokens of the summary and the number of messages that it replaces. Both only grow."""

    def __init__(self, count: Count, limit: int, running: RunningSummary | None) -> None:
        """Start with the summary in the conversation, if it has one."""
        self.count = count
        self.largest = max(1, limit // SUMMARY_SHARE)
        self.tokens = running.room if running else 0
        self.messages = running.messages if running else 0

    @property
    def total(self) -> int:
        """The maximum tokens of the summary in the prompt, including its mark; 0 if there is no summary."""
        return self._with_mark(self.messages, self.tokens) if self.tokens else 0

    def extend(self, messages: int, room: int) -> None:
        """Add folded messages to the summary, and raise its maximum to `room` tokens if that is more."""
        self.messages += messages
        self.tokens = max(room, self.tokens)

    def room_for(self, tokens: int, messages: int, room: int) -> int:
        """Return the room for the summary once `messages` messages with `tokens` tokens are folded.

        The room is at most `room`, and the summary takes fewer tokens than the messages.
        """
        around = self._with_mark(self.messages + messages, room) - room
        return min(room, self.largest, tokens + self.total - around - 1)

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages with `tokens` tokens into a summary of at most `room`."""
        return tokens + self.total - self._with_mark(self.messages + 1, self.room_for(tokens, 1, room))

    def added(self, messages: int, room: int) -> int:
        """Return the tokens that the summary adds to the prompt with `messages` more messages and at most `room`."""
        return max(0, self._with_mark(self.messages + messages, min(room, self.largest)) - self.total)

    def is_short_of(self, said: int, room: int, most: int) -> bool:
        """Return whether a room that may grow up to `most` grows too little for the user's words.

        `said` is the number of tokens that these words need.
        """
        return room < min(most, self.largest) and room - self.tokens < said + (
            0 if self.tokens else SAID_HEADING_TOKENS
        )

    def is_too_small(self, request: int, room: int, most: int) -> bool:
        """Return whether the user's oldest request does not fit into `room`, but would fit into a room of `most`."""
        is_short = request > max(room * REQUEST_SHARE, min(room, SMALL_ROOM))
        return is_short and request <= min(most, self.largest) * REQUEST_SHARE

    def _with_mark(self, messages: int, room: int) -> int:
        return room + overhead(self.count, messages, room) + MESSAGE_TOKENS


START: Path = (0,)  # everything that stays comes after the summary
LONGEST_SAID = 1_000  # tokens of one request that the room grows by at most: a longer request holds pasted text


class Folds:
    """The messages that a strategy folded or dropped during a walk, and the groups that it may fold or drop.

    This is the `FoldView` that the strategy gets: it adds the groups and the summary to the walk, which is a `View`.
    """

    def __init__(
        self, strategy: object, prompt: "Walk", count: Count, given: FoldContext, reported: tuple[int, int] | None
    ) -> None:
        """Start before the first message, with the summary in the conversation, if it has one.

        `prompt` is the walk, with the prompt of the current request. `reported` is a number of messages and the tokens
        that the provider reported for them.
        """
        self.strategy = strategy
        self.prompt = prompt
        self.retain = option(strategy, "retain", Retention) or BY_AGE
        self.given = given
        self.gone: set[int] = set()
        self.folds: list[Fold] = []
        self.held: set[int] = set()  # messages that cannot go at this request
        self.summary = Room(count, prompt.limit, given.running)
        prompt.tokens += self.summary.total
        self._groups = Groups(prompt.entries, self.retain)
        self._answer_rules = option(strategy, "protect", Protections) or DEFAULT_PROTECTIONS
        self._asked: set[int] = set()  # the user's requests
        self._answers: dict[int, int] = {}  # tokens that the user's words beside results need in a summary, by message
        self._harmful: set[int] = set()
        self._keep = 0  # the number of last messages that the strategy excluded when it last asked for groups
        self._spoke_at = 0
        self._request_before = 0
        self._wants_user = False
        self._reported = reported
        self._beyond = 0  # tokens that the provider reported beyond the count
        if prompt.changes and (given.running or getattr(strategy, "may_drop", True)):
            prompt.changes.record_change(START)

    def __getattr__(self, name: str) -> Any:
        """Get everything else of the view from the walk."""
        if name.startswith("__"):  # a strategy may copy its view
            raise AttributeError(name)
        return getattr(self.prompt, name)

    def complete(self, plan: Plan, fixed_tokens: int) -> Plan:
        """Add the folds to the plan of the walk."""
        edits = tuple(edit for edit in plan.edits if edit.part.location.message not in self.gone)
        # The summary counts as if it took all of its room.
        kept = (self.prompt.weight(at) for at in range(len(self._entries)) if at not in self.gone)
        counted = fixed_tokens + sum(kept) + self.summary.total if self.folds else None
        folds, running = tuple(self.folds), self.given.running
        return replace(
            plan, edits=edits, folds=folds, running=running, counted=counted, head=self._head, beyond=self._beyond
        )

    @property
    def _entries(self) -> list[Entry]:
        return self.prompt.entries

    @property
    def _head(self) -> int | None:
        """The number of messages at the start that always stay; None if the strategy never removes messages."""
        if not getattr(self.strategy, "folds", True):
            return None
        others = (at for at, entry in enumerate(self._entries) if entry.speaker is not Speaker.SYSTEM)
        return next(others, len(self._entries)) if self.retain.system else 0

    def append(self, entry: Entry) -> None:
        """Add the newest message of the prompt."""
        at = len(self._entries) - 1
        self._wants_user = self._wants_user or self.given.begins_with_user(entry)
        # A message that is only the summary counts as `Room.total` and not as a message.
        if self.given.running and at == self.given.running.at and self.given.running.rest is None:
            self.gone.add(at)
            self.prompt.tokens -= entry.tokens
            return
        if entry.speaker is Speaker.MODEL and not (at and self._entries[at - 1].speaker is Speaker.MODEL):
            self._spoke_at = at
        self._groups.add_message(at)
        self._asked.update(self._groups.user_requests[-1:])
        if said := self._words_beside_results(entry):
            self._answers[at] = sum(SAID_TOKENS + self.summary.count(words) for words in said)
        if self._groups.requests[-1:] == [at]:
            self._request_before = self.prompt.request

    def use_reported_tokens(self) -> None:
        """Switch to the provider's count of the last prompt and its answer if that count is for these messages."""
        if self._reported and self._reported[0] == len(self._entries):
            # The report includes the model's answer, so only the messages after it are counted.
            after = self._entries[self._spoke_at + 1 :] if self.prompt.request else self._entries
            fresh = (entry.tokens for entry in after if entry.speaker is not Speaker.MODEL)
            tokens = self._reported[1] + sum(fresh)
            self._beyond, self.prompt.tokens = tokens - self.prompt.tokens, tokens

    def apply(self, edit: Fold) -> None:
        """Remove the messages of an edit if they were offered, except messages that have to stay or wait."""
        offered = self._free()
        if not self._is_offered(set(edit.messages), offered):
            return
        edit = self._keep_separators(edit, offered)
        weight = sum(map(self.prompt.weight, edit.messages))
        room = 0 if edit.is_drop else self.summary.room_for(weight, len(edit.messages), edit.room)
        if not edit.messages or (room <= 0 and not edit.is_drop):
            return
        if waiting := self._find_waiting(edit, room):
            self.held.update(waiting)
            going = tuple(at for at in edit.messages if at not in waiting)
            if (
                self.summary.tokens or self.prompt.tokens > self.prompt.limit
            ):  # else a summary of the rest would leave them no room either
                self.apply(replace(edit, messages=going))
            return
        before = self.summary.total
        if room:
            self.summary.extend(len(edit.messages), room)
        self.prompt.tokens -= weight + before - self.summary.total
        self._remove_messages(
            replace(edit, reason=check_reason(edit.reason), saved=weight, room=room, request=self.prompt.request)
        )

    def _find_waiting(self, edit: Fold, room: int) -> set[int]:
        """Find the messages of an edit that wait until the summary has room for the user's words in them.

        A fold that is too small for these words saves little anyway, since its summary is nearly as large as the
        messages. The oldest request waits until it takes at most half of the room. Later words of the user wait with
        it, so that the summary gets them in order.

        A strategy with `drops=False` cannot drop the oldest request, since the goal would be lost. Within the safe zone
        it cannot drop any words of the user.
        """
        going = set(edit.messages)
        said = {at: self._room_for_words(at) for at in sorted(going) if self._room_for_words(at)}
        # -1 is no message: no request is left.
        oldest, *later = [at for at in self._groups.user_requests if at not in self.gone] or [-1]
        if not room and getattr(self.strategy, "drops", True):
            return set()
        if not room:
            wait = {oldest} if self.prompt.tokens > self.prompt.limit else set(said)
        elif said and self.summary.is_short_of(sum(said.values()), room, edit.room):
            wait = self._messages_from(next(iter(said)), said)
        elif oldest in going and self.summary.is_too_small(self.prompt.weight(oldest), room, edit.room):
            wait = {oldest, *self._messages_from(next(iter(later), len(self._entries)), said)}
        else:
            return set()
        return {at for unit in self._groups.free(self.gone) if not wait.isdisjoint(unit) for at in unit} & going

    def _messages_from(self, first: int, said: Iterable[int]) -> set[int]:
        """Return the messages from `first` on; only those in `said` if messages go by role and not by age."""
        return {at for at in said if at >= first} if self.retain.roles else set(range(first, len(self._entries)))

    def _words_beside_results(self, entry: Entry) -> list[str]:
        """Return the user's words in a message with results: answers through tools, and texts beside the results."""
        said = [answer_text(result) for result in entry.results if self._answer_rules.is_answer(result)]
        if entry.results and entry.speaker is Speaker.USER:
            said.append(user_words_beside(entry.texts, (result.tool for result in entry.results)))
        return [words for words in said if words]

    def _room_for_words(self, at: int) -> int:
        """Return the tokens by which the summary's room must grow for the user's words in a message, or 0."""
        if at in self._asked:
            return int((min(self.prompt.weight(at), LONGEST_SAID) + SAID_TOKENS) / SAID_SHARE)
        return int(self._answers.get(at, 0) / SAID_SHARE)

    def _keep_separators(self, edit: Fold, free: Sequence[Group]) -> Fold:
        """Return the edit with fewer or more messages, so that no two messages of one speaker become neighbors."""
        by_role = bool(self.retain.roles)
        offered = [group.messages for group in self._before_newest(free, self._keep)]
        going = self._groups.keep_users_apart(
            self.gone, set(edit.messages), [] if by_role else offered, self.prompt.weight
        )
        going = self._groups.keep_answers_apart(self.gone, going, offered)
        if by_role:  # else the strategy would be offered these again, before the messages whose role is next
            self.held.update(at for at in edit.messages if at not in going)
        return replace(edit, messages=tuple(sorted(going)))

    def _remove_messages(self, edit: Fold) -> None:
        self.gone.update(edit.messages)
        self.folds.append(edit)
        self.prompt.withhold(self.gone)
        self.prompt.edits_made += 1
        if self.prompt.changes:
            self.prompt.changes.remove_messages(self.gone)
            if not edit.is_drop:
                self.prompt.changes.record_change(START)

    def _is_offered(self, messages: set[int], free: Sequence[Group]) -> bool:
        """Return whether the messages are whole groups that were offered, so that no call loses its result."""
        touched = (group.messages for group in free if not messages.isdisjoint(group.messages))
        is_whole = messages == set().union(*touched)
        return bool(messages) and (is_whole or messages == self._harmful - self.gone)

    # For the strategy, which documents them: `FoldView`

    @property
    def count(self) -> int:
        """The number of messages in the prompt, without system messages and the summary."""
        return len(self._entries) - len(self.gone) - self._groups.uncounted

    @property
    def room(self) -> int:
        """The maximum tokens of the summary's text; 0 if there is no summary."""
        return self.summary.tokens

    @property
    def turn(self) -> int:
        """The number of the user's turn, from 1; 0 before the first."""
        return len(self._groups.requests)

    @property
    def iteration(self) -> int:
        """The number of the request within the user's turn, from 1."""
        return self.prompt.request - self._request_before + 1

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages with `tokens` tokens into a summary of at most `room`."""
        return self.summary.gain(tokens, room)

    def added(self, room: int) -> int:
        """Return the tokens that the summary adds to the prompt if it gets at most `room`."""
        return self.summary.added(len(self._entries), room)

    def groups(self, size: int = 1, keep: int = 0) -> list[Group]:
        """Return the removable groups, in order of removal, without the last `keep` messages."""
        self._keep = keep
        return join_groups(self._before_newest(self._free(), keep), size)

    def _before_newest(self, groups: Sequence[Group], keep: int) -> list[Group]:
        """Return the groups that hold none of the last `keep` messages."""
        newest = self._groups.first_kept(self.gone, keep)
        return [group for group in groups if group.messages[-1] < newest]

    def _free(self) -> list[Group]:
        """Return the smallest removable groups, in order of removal."""
        if self.prompt.bound_before:
            return []
        units = self._groups.free(self.gone, begins_with_user=self._wants_user and not self.summary.tokens)
        free = [group for group in map(self._group, units) if self.held.isdisjoint(group.messages)]
        if self.retain.roles:
            # A stable sort: the oldest groups of a rank go first.
            free.sort(key=lambda group: group.rank)
        return free

    def _group(self, unit: range) -> Group:
        """Return the group of a unit's remaining messages, with their tokens and their rank."""
        messages = tuple(at for at in unit if at not in self.gone)
        has_tools = any(self._entries[at].calls or self._entries[at].results for at in unit)
        speaker = Speaker.TOOL if has_tools else self._entries[unit[0]].speaker
        ends_turn = unit.stop in self._groups.requests
        weight, said = sum(map(self.prompt.weight, messages)), sum(map(self._room_for_words, messages))
        return Group(messages, weight, self.retain.rank(speaker), ends_turn, said)

    def least_harmful(self, keep: int, excess: float) -> list[Group]:
        """Return messages that may go although no cut is safe, without the last `keep`. No result loses its call."""
        messages = () if self.prompt.bound_before else self._groups.least_harmful(self.gone, keep, excess)
        self._harmful = set(messages)
        return [Group(messages, sum(map(self.prompt.weight, messages)))] if messages else []

    def opening(self) -> list[Group]:
        """Return the groups that must go so that the conversation begins with the user, if its provider requires it."""
        if not self._wants_user or self.summary.tokens:
            return []
        held, self.held = self.held, set()  # no message comes before these, so they separate nothing
        free = {group.messages[0]: group for group in self._free()}
        self.held = held
        return [free[at] for at in self._groups.opening(self.gone, free)]
