"""Walk a conversation from which whole messages go, with a summary standing in their place. Summarizes nothing.

How it works. The walk is that of `walk`, but the strategy is asked at every request, and each of its edits is made as
soon as it is yielded. Say the messages weigh 1,000 tokens each, and the safe zone is 4,500 (a bar is a request):

    0 U | 1 A   2 U | 3 A   4 U | 5 A

The third prompt has 5,000 tokens. The strategy is offered the groups 0, 1, 2 and 3 (4 is the user's current request).
It folds 0 and 1 with a room of 500 tokens. Messages 2 to 4 are left, and the summary, which counts as 500 tokens and
those of its mark. Nothing is written yet, so where to fold never depends on what a summary says. Later folds go into
the same summary: its room may grow and never shrinks. A conversation that is fed back holds the summary, whose mark
says its room and for how many messages it stands (`Given.running`), and so it is walked like the full history.

A strategy cannot take what was not offered. Of what it takes some may stay: messages that keep two of the user's apart,
and words of the user's while the summary has no room for them (`_waiting`). A summary must be smaller than what it
replaces, so an answer of 40 tokens that the user gave through a tool cannot be folded alone without being cut. It waits
until more is folded with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from autoprune.conversation.edits import Fold, Reason, Replace, RunningSummary, check_reason
from autoprune.conversation.placeholders import Placeholder, trim_text
from autoprune.conversation.summary import overhead
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolResult
from autoprune.facts import answers, harness
from autoprune.facts.words import texts
from autoprune.planning._groups import Groups, joined
from autoprune.planning.plan import Plan, ThinkingPolicy
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.retention import BY_AGE, Retention
from autoprune.planning.view import (
    HEADING_TOKENS,
    SAID_SHARE,
    SAID_TOKENS,
    Candidate,
    FoldingStrategy,
    Given,
    Group,
    Strategy,
    edits_of,
    option,
)
from autoprune.planning.walk import Walk
from autoprune.tokens import MESSAGE_TOKENS, Count

REQUEST_SHARE = 0.5  # of the summary's room, that the user's oldest request may take
SMALL_ROOM = 64  # tokens, in which it may take all
SUMMARY_SHARE = 4  # a summary takes at most one part in so many of the safe zone


class Room:
    """The tokens that the summary may have, and the number of messages that it stands for; both only grow."""

    def __init__(self, count: Count, limit: int, running: RunningSummary | None) -> None:
        """Start with the summary that a conversation came with, if any."""
        self.count = count
        self.largest = max(1, limit // SUMMARY_SHARE)
        self.tokens = running.room if running else 0
        self.messages = running.messages if running else 0

    @property
    def taken(self) -> int:
        """The tokens that the summary takes of the prompt at most, with its mark; 0 if there is none."""
        return self._with_mark(self.messages, self.tokens) if self.tokens else 0

    def take(self, messages: int, room: int) -> None:
        """Fold more messages into the summary, which may have so many tokens from now on."""
        self.messages += messages
        self.tokens = max(room, self.tokens)

    def allowed(self, tokens: int, messages: int, room: int) -> int:
        """Return the tokens that the text may have once more is folded into it: fewer than what it stands for."""
        around = self._with_mark(self.messages + messages, room) - room
        return min(room, self.largest, tokens + self.taken - around - 1)

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages of so many tokens into a summary of at most `room`."""
        return tokens + self.taken - self._with_mark(self.messages + 1, self.allowed(tokens, 1, room))

    def added(self, messages: int, room: int) -> int:
        """Return the tokens that the summary adds to the prompt when it takes more messages and gets at most `room`."""
        return max(0, self._with_mark(self.messages + messages, min(room, self.largest)) - self.taken)

    def is_short_of(self, said: int, room: int, most: int) -> bool:
        """Return whether a room that could become `most` does not grow by what the user's words need."""
        return room < min(most, self.largest) and room - self.tokens < said + (0 if self.tokens else HEADING_TOKENS)

    def is_too_small(self, request: int, room: int, most: int) -> bool:
        """Return whether the user's oldest request waits for a larger room than `room`, which may become `most`."""
        is_short = request > max(room * REQUEST_SHARE, min(room, SMALL_ROOM))
        return is_short and request <= min(most, self.largest) * REQUEST_SHARE

    def _with_mark(self, messages: int, room: int) -> int:
        return room + overhead(self.count, messages, room) + MESSAGE_TOKENS


CUTS = (Reason.CLAMPED, Reason.SHORTENED)
START: Path = (0,)  # all that stays is behind a summary
LONGEST_SAID = 1_000  # tokens of one request that a summary's room must grow by; a longer one holds something pasted


def fold_plan(walk: "FoldWalk", messages: Sequence[object]) -> Plan:
    """Return what a walk has come to as a plan; the summary stands apart from the messages."""
    found = walk.make_plan(list(messages), walk.fixed_tokens)
    edits = tuple(edit for edit in found.edits if edit.part.location.message not in walk.gone)
    counted = walk.planned if walk.folds else None
    folds, running = tuple(walk.folds), walk.given.running
    return replace(
        found, edits=edits, folds=folds, running=running, counted=counted, head=walk.head, beyond=walk.beyond
    )


class FoldWalk(Walk):
    """Takes a conversation message by message, and lets the strategy fold or drop at each request."""

    def __init__(
        self,
        strategy: FoldingStrategy,
        limit: int,
        fixed_tokens: int,
        placeholder: Placeholder,
        given: Given,
        *,
        thinking: ThinkingPolicy = ThinkingPolicy.REPORT,
        reported: tuple[int, int] | None = None,
    ) -> None:
        """Start before the first message, with the summary that the conversation came with.

        `reported` is a number of messages, and the tokens that the provider counted for these.
        """
        asked: Strategy = strategy  # type: ignore[assignment]
        super().__init__(asked, limit, fixed_tokens, placeholder, thinking=thinking)
        self.folder = strategy
        self.fixed_tokens = fixed_tokens
        self.retain = option(strategy, "retain", Retention) or BY_AGE
        self.given = given
        self.gone: set[int] = set()
        self.folds: list[Fold] = []
        self._room = Room(placeholder.count, limit, given.running)
        self.tokens += self._room.taken
        self._groups = Groups(self.entries, self.retain)
        self._answer_rules = option(strategy, "protect", Protections) or NOTHING
        self._asked: set[int] = set()  # the user's requests
        self._answers: dict[int, int] = {}  # messages with results in which the user speaks, and the tokens that needs
        self._harmful: set[int] = set()
        self._keep = 0  # messages that the strategy wants to stay, as it said last
        self._held: set[int] = set()  # while the strategy is asked, between two messages of one speaker
        self._spoke_at = 0
        self._request_before = 0
        self._wants_user = False
        self.reported = reported
        self.beyond = 0  # tokens that it counted beyond those that are counted here
        if self.changes and (given.running or getattr(strategy, "may_drop", True)):
            self.changes.change(START)

    @property
    def is_at_work(self) -> bool:
        """Whether there was anything to do, or would have been."""
        return bool(self.folds) or super().is_at_work

    @property
    def room(self) -> int:
        """The tokens that the text of the summary may have; 0 if there is no summary."""
        return self._room.tokens

    @property
    def planned(self) -> int:
        """The tokens of the prompt with the summary at its largest, as they are counted here."""
        kept = (at for at in range(len(self.entries)) if at not in self.gone)
        return self.fixed_tokens + sum(map(self._weight, kept)) + self._room.taken

    @property
    def head(self) -> int | None:
        """The number of messages at the head that never go; None if the strategy takes no messages out."""
        if not getattr(self.folder, "folds", True):
            return None
        others = (at for at, entry in enumerate(self.entries) if entry.speaker is not Speaker.SYSTEM)
        return next(others, len(self.entries)) if self.retain.system else 0

    @property
    def count(self) -> int:
        """The number of messages in the prompt, without the system's and without the summary."""
        return len(self.entries) - len(self.gone) - self._groups.systems

    def append(self, message: object, entry: Entry) -> None:
        """Take the next message."""
        at = len(self.entries)
        follows_model = self.ends_with_model
        super().append(message, entry)
        self._wants_user = self._wants_user or self.given.begins_with_user(message)
        if self.given.running and at == self.given.running.at and self.given.running.rest is None:
            self.gone.add(at)
            self.tokens -= entry.tokens
            return
        if entry.speaker is Speaker.MODEL and not follows_model:
            self._spoke_at = at
        self._groups.append(at, message)
        self._asked.update(self._groups.asked[-1:])
        if said := self._said_beside(message, entry):
            self._answers[at] = sum(SAID_TOKENS + self._room.count(words) for words in said)
        if self._groups.requests[-1:] == [at]:
            self._request_before = self.request

    def _believe_usage(self) -> None:
        """Take the provider's count of the last prompt and its answer, if it is known at this message."""
        if self.reported and self.reported[0] == len(self.entries):
            after = self.entries[self._spoke_at + 1 :] if self.request else self.entries
            fresh = (entry.tokens for entry in after if entry.speaker is not Speaker.MODEL)
            tokens = self.reported[1] + sum(fresh)
            self.beyond, self.tokens = tokens - self.tokens, tokens

    def ask(self) -> None:
        """Let the strategy fold what it will at the request that stands here, once."""
        if self._asked_at == len(self.entries):
            return
        self._asked_at = len(self.entries)
        self._believe_usage()
        self._made_before = self.edits_made
        if self.changes:
            self._strip(self.changes)
        is_done = False
        while not is_done:
            edits_made, self._held = self.edits_made, set()
            self._step()
            # What was held for what was there then may go now: a walk over the output would find that too.
            is_done = not self._held or edits_made == self.edits_made
        if self.changes:
            self._strip(self.changes)

    def _step(self) -> None:
        """Make the edits of the strategy."""
        for edit in edits_of(self.folder, self.folder.step(self), Replace | Fold):
            if isinstance(edit, Fold):
                self._fold(edit)
            else:
                self._put(edit)
        self._parts.forget()

    def _put(self, edit: Replace) -> None:
        """Put a strategy's own text in place of a part that it was offered, if that is smaller, and offer it no more.

        A cut is made of the payload itself and stays as it is, within its limit. Any other text is made harmless, and a
        blank one, which providers refuse, is the placeholder.
        """
        if edit.part not in self._parts.seen:
            return
        offered = self._parts.seen[edit.part] or self._weigh(edit.part)
        del self._parts.seen[edit.part]
        text = edit.text if edit.text.strip() else offered.text
        if isinstance(edit.part, ToolResult) and text != offered.text:
            text = trim_text(edit.part, text) if edit.reason in CUTS else self._own(offered, text)
        candidate = self._candidate(edit.part, text, offered.mark)
        if candidate.saves > 0:
            self._make(candidate, check_reason(edit.reason), may_change=text != offered.text)

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages of so many tokens into a summary of at most `room`."""
        return self._room.gain(tokens, room)

    def added(self, room: int) -> int:
        """Return the tokens that the summary adds to the prompt when it gets at most `room`."""
        return self._room.added(len(self.entries), room)

    @property
    def turn(self) -> int:
        """The number of the user's turn, from 1; 0 before the first."""
        return len(self._groups.requests)

    @property
    def iteration(self) -> int:
        """The number of the request within the user's turn, from 1."""
        return self.request - self._request_before + 1

    def _fold(self, edit: Fold) -> None:
        """Make an edit of whole messages if they were offered, but for those that must stay."""
        if not self._is_offered(set(edit.messages)):
            return
        edit = self._without_bridges(edit)
        weight = sum(map(self._weight, edit.messages))
        room = 0 if edit.is_drop else self._room.allowed(weight, len(edit.messages), edit.room)
        if not edit.messages or (room <= 0 and not edit.is_drop):
            return
        if waiting := self._waiting(edit, room):
            self._held.update(waiting)
            going = tuple(at for at in edit.messages if at not in waiting)
            if self.room or self.tokens > self.limit:  # else a summary of the rest would leave them no room either
                self._fold(replace(edit, messages=going))
            return
        before = self._room.taken
        if room:
            self._room.take(len(edit.messages), room)
        self.tokens -= weight + before - self._room.taken
        self._leave(replace(edit, reason=check_reason(edit.reason), saved=weight, room=room, request=self.request))

    def _waiting(self, edit: Fold, room: int) -> set[int]:
        """Return the messages of an edit that wait until a summary has room for the user's words in them.

        A fold that is too small for them saves next to nothing anyway: its summary may be as large as what it replaces.
        The oldest request waits until it takes at most half of the room. What was said later waits too, so that a
        summary reads it in its order.

        No strategy that writes summaries drops the oldest request: nothing would be left of the goal. Within the safe
        zone it drops no words of the user's at all.
        """
        going = set(edit.messages)
        said = {at: self._said(at) for at in sorted(going) if self._said(at)}
        oldest, *later = [at for at in self._groups.asked if at not in self.gone] or [-1]
        if not room and getattr(self.folder, "drops", True):
            return set()
        if not room:
            wait = {oldest} if self.tokens > self.limit else set(said)
        elif said and self._room.is_short_of(sum(said.values()), room, edit.room):
            wait = self._from(next(iter(said)), said)
        elif oldest in going and self._room.is_too_small(self._weight(oldest), room, edit.room):
            wait = {oldest, *self._from(next(iter(later), len(self.entries)), said)}
        else:
            return set()
        return {at for unit in self._groups.free(self.gone) if not wait.isdisjoint(unit) for at in unit} & going

    def _from(self, first: int, said: Iterable[int]) -> set[int]:
        """Return the messages from one on; if messages go by their role and not by their age, those with words."""
        return {at for at in said if at >= first} if self.retain.roles else set(range(first, len(self.entries)))

    def _said_beside(self, message: object, entry: Entry) -> list[str]:
        """Return what the user said through tools, and beside results."""
        said = [answers.answer_text(result) for result in entry.results if self._answer_rules.is_answer(result)]
        if entry.results and entry.speaker is Speaker.USER:
            said.append(harness.user_words_beside(texts(message, entry), (result.tool for result in entry.results)))
        return [words for words in said if words]

    def _said(self, at: int) -> int:
        """Return the tokens that a summary's room must grow by for the user's words in a message."""
        if at in self._asked:
            return int((min(self._weight(at), LONGEST_SAID) + SAID_TOKENS) / SAID_SHARE)
        return int(self._answers.get(at, 0) / SAID_SHARE)

    def _without_bridges(self, edit: Fold) -> Fold:
        """Return an edit without the messages that must keep two of one speaker apart."""
        by_role = bool(self.retain.roles)
        offered = [group.messages for group in self._free(self._keep)]
        going = self._groups.keep_apart(self.gone, set(edit.messages), [] if by_role else offered, self._weight)
        going = self._groups.keep_answers_apart(self.gone, going, offered)
        if by_role:  # what stays between must not be chosen again in place of what may go by its role
            self._held.update(at for at in edit.messages if at not in going)
        return replace(edit, messages=tuple(sorted(going)))

    def _leave(self, edit: Fold) -> None:
        """Take the messages of an edit out of the prompt."""
        self.gone.update(edit.messages)
        self.folds.append(edit)
        self._parts.leave(self.gone)
        self.edits_made += 1
        if self.changes:
            self.changes.leave(self.gone)
            if not edit.is_drop:
                self.changes.change(START)

    def _is_offered(self, messages: set[int]) -> bool:
        """Return whether messages are all of some groups: no half of a pair goes alone."""
        touched = (group.messages for group in self._free() if not messages.isdisjoint(group.messages))
        is_whole = messages == set().union(*touched)
        return bool(messages) and (is_whole or messages == self._harmful - self.gone)

    def candidates(self) -> Iterator[Candidate]:
        """Return the parts that may be cleared now, whatever is cleared of them meanwhile."""
        return iter([*super().candidates()])

    def _weight(self, at: int) -> int:
        """Return what a message weighs now."""
        return self.entries[at].tokens - self._saved.get(at, 0)

    def groups(self, size: int = 1, keep: int = 0) -> list[Group]:
        """Return what may go, in the order in which it goes, but for the last `keep` messages."""
        self._keep = keep
        return joined(self._free(keep), size)

    def _free(self, keep: int = 0) -> list[Group]:
        """Return the smallest groups that may go."""
        newest = self._groups.first_kept(self.gone, keep)
        units = self._groups.free(self.gone, begins_with_user=self._wants_user and not self.room)
        free = [] if self.bound_before else [self._group(unit) for unit in units]
        free = [group for group in free if group.messages[-1] < newest and self._held.isdisjoint(group.messages)]
        if self.retain.roles:
            free.sort(key=lambda group: group.rank)
        return free

    def _group(self, unit: range) -> Group:
        """Return what is left of a group's messages, with what they weigh and when they go."""
        messages = tuple(at for at in unit if at not in self.gone)
        has_tools = any(self.entries[at].calls or self.entries[at].results for at in unit)
        speaker = Speaker.TOOL if has_tools else self.entries[unit[0]].speaker
        ends_turn = unit.stop in self._groups.requests
        weight, said = sum(map(self._weight, messages)), sum(map(self._said, messages))
        return Group(messages, weight, self.retain.rank(speaker), ends_turn, said)

    def least_harmful(self, keep: int, excess: float) -> list[Group]:
        """Return what may go although no cut is safe, but for the last `keep` messages. No result loses its call."""
        messages = () if self.bound_before else self._groups.least_harmful(self.gone, keep, excess)
        self._harmful = set(messages)
        return [Group(messages, sum(map(self._weight, messages)))] if messages else []

    def opening(self) -> list[Group]:
        """Return what must go too so that the conversation begins with the user, if its provider wants that."""
        if not self._wants_user or self.room:
            return []
        held, self._held = self._held, set()  # at the head nothing is between two messages
        free = {group.messages[0]: group for group in self._free()}
        self._held = held
        return [free[at] for at in self._groups.opening(self.gone, free)]
