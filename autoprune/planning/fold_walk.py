"""The walk of strategies that fold or drop whole messages. Offers what may go; summarizes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.placeholders import Placeholder
from autoprune.conversation.reasons import told
from autoprune.conversation.summary import overhead
from autoprune.conversation.transcript import Entry, Path, Speaker, ToolResult, Transcript
from autoprune.planning._groups import Groups
from autoprune.planning.options import retention
from autoprune.planning.plan import Plan
from autoprune.planning.stripping import ThinkingPolicy
from autoprune.planning.view import FoldingStrategy, Given, Group
from autoprune.planning.walk import Candidate, Strategy, Walk
from autoprune.tokens import MESSAGE_TOKENS

REQUEST_SHARE = 0.5  # of the summary's room, that the user's first request may take
SMALL_ROOM = 64  # tokens, in which it may take all
START: Path = (0,)  # all that stays is behind a summary
SUMMARY_SHARE = 4  # a summary takes at most one part in so many of the safe zone


def planned(walk: "FoldWalk", messages: Sequence[object]) -> Plan:
    """What a walk has come to; the summary stands apart from the messages."""
    transcript = Transcript(list(messages), tuple(walk.entries), walk.fixed_tokens)
    found = walk.planned_for(transcript)
    edits = tuple(edit for edit in found.edits if edit.part.location.message not in walk.gone)
    counted = walk.planned if walk.folds else None
    folds, running = tuple(walk.folds), walk.given.running
    return replace(found, edits=edits, folds=folds, running=running, counted=counted, head=walk.head)


class FoldWalk(Walk):
    """The walk over requests, with whole messages going out of the prompt and a summary standing for them."""

    def __init__(
        self,
        strategy: FoldingStrategy,
        limit: int,
        fixed_tokens: int,
        placeholder: Placeholder,
        given: Given,
        *,
        thinking: ThinkingPolicy = ThinkingPolicy.REPORT,
    ) -> None:
        """Start before the first message, with the summary that the conversation came with."""
        asked: Strategy = strategy  # type: ignore[assignment]
        super().__init__(asked, limit, fixed_tokens, placeholder, thinking=thinking)
        self.folder = strategy
        self.fixed_tokens = fixed_tokens
        self.retain = retention(strategy)
        self.given = given
        self.gone: set[int] = set()
        self.folds: list[Fold] = []
        self.room = given.running.room if given.running else 0
        self.folded = given.running.messages if given.running else 0
        self.tokens += self.summary_tokens
        self._groups = Groups(self.entries, self.retain)
        self._harmful: set[int] = set()
        self._keep = 0  # messages that the strategy wants to stay, as it said last
        self._held: set[int] = set()  # at this request, between two messages of the user's
        self._run_start = 0
        self._request_before = 0
        self._wants_user = False
        self.reported: tuple[int, int] | None = None
        if self.changes and (given.running or getattr(strategy, "may_drop", True)):
            self.changes.change(START)

    @property
    def is_at_work(self) -> bool:
        """Whether there was anything to do, or would have been."""
        return bool(self.folds) or super().is_at_work

    @property
    def summary_tokens(self) -> int:
        """Tokens that the summary takes at most, its mark included."""
        return self._reserve(self.folded, self.room) if self.room else 0

    @property
    def planned(self) -> int:
        """Tokens of the prompt, the summary at its largest, by what was counted alone."""
        kept = (at for at in range(len(self.entries)) if at not in self.gone)
        return self.fixed_tokens + sum(map(self._weight, kept)) + self.summary_tokens

    def _reserve(self, messages: int, room: int) -> int:
        return room + overhead(self.placeholder.count, messages, room) + MESSAGE_TOKENS

    @property
    def head(self) -> int | None:
        """The messages at the head that never go; None where the strategy takes no messages out."""
        if not getattr(self.folder, "folds", True):
            return None
        others = (at for at, entry in enumerate(self.entries) if entry.speaker is not Speaker.SYSTEM)
        return next(others, len(self.entries)) if self.retain.system else 0

    @property
    def count(self) -> int:
        """The messages in the prompt, without the system's and without the summary."""
        return len(self.entries) - len(self.gone) - self._groups.systems

    def append(self, message: object, entry: Entry) -> None:
        """Take the next message."""
        at = len(self.entries)
        in_run = self.in_run
        super().append(message, entry)
        self._wants_user = self._wants_user or self.given.begins_with_user(message)
        if self.given.running and at == self.given.running.at and self.given.running.rest is None:
            self.gone.add(at)
            self.tokens -= entry.tokens
            return
        if entry.speaker is Speaker.MODEL and not in_run:
            self._run_start = at
        self._groups.append(at, message)
        if self._groups.requests[-1:] == [at]:
            self._request_before = self.request

    def is_settled(self) -> bool:
        """Never: what was folded cannot be read again in its place."""
        return False

    def _believe_usage(self) -> None:
        """Behind message number `reported[0]` the provider's count is known: of the last prompt and its answer."""
        if self.reported and self.reported[0] == len(self.entries):
            after = self.entries[self._run_start + 1 :] if self.request else self.entries
            fresh = (entry.tokens for entry in after if entry.speaker is not Speaker.MODEL)
            self.tokens = self.reported[1] + sum(fresh)

    def ask(self) -> None:
        """The request that stands here: let the strategy fold what it will, once."""
        if self._asked_at == len(self.entries):
            return
        self._asked_at = len(self.entries)
        self._believe_usage()
        self._done_before = self._done
        self._held = set()
        self._strip()
        for edit in self.folder.step(self):
            if isinstance(edit, Fold):
                self._fold(edit)
            else:
                self._put(edit)
        self._forget()
        self._strip()

    def _put(self, edit: Replace) -> None:
        """Put a strategy's own text in place of a part that it was offered, if that is smaller."""
        if edit.part not in self._seen:
            return
        del self._seen[edit.part]
        before = self.edits.get(edit.part)
        saves = self.placeholder.saves(edit.part, edit.text) - (before.saved if before else 0)
        if saves > 0:
            result = edit.part if isinstance(edit.part, ToolResult) else self._result_of[edit.part]
            self._make(Candidate(edit.part, edit.text, saves, result), told(edit.reason))

    def gain(self, tokens: int, room: int) -> int:
        """Tokens that are won when messages of so many tokens are folded into a summary of at most `room`."""
        return tokens + self.summary_tokens - self._reserve(self.folded + 1, self._room(tokens, 1, room))

    def added(self, room: int) -> int:
        """Tokens that the summary adds to the prompt when it gets at most `room`."""
        largest = min(room, max(1, self.limit // SUMMARY_SHARE))
        return max(0, self._reserve(self.folded + len(self.entries), largest) - self.summary_tokens)

    def _room(self, tokens: int, messages: int, room: int) -> int:
        """What a summary's text may have: what it stands for is always larger."""
        around = self._reserve(self.folded + messages, room) - room
        return min(room, max(1, self.limit // SUMMARY_SHARE), tokens + self.summary_tokens - around - 1)

    @property
    def turn(self) -> int:
        """The number of the user's turn, from 1; 0 before the first."""
        return len(self._groups.requests)

    @property
    def iteration(self) -> int:
        """The number of the request within the user's turn, from 1."""
        return self.request - self._request_before + 1

    def _fold(self, edit: Fold) -> None:
        """Make an edit of whole messages, if they are there and may go: a strategy cannot take what is not offered."""
        if not self._is_offered(set(edit.messages)):
            return
        by_role = bool(self.retain.roles)
        offered = [] if by_role else [group.messages for group in self._free(self._keep)]
        going = self._groups.keep_apart(self.gone, set(edit.messages), offered, self._weight)
        if by_role:  # what stays between must not be chosen again in place of what may go by its role
            self._held.update(at for at in edit.messages if at not in going)
        edit = replace(edit, messages=tuple(sorted(going)))
        if not edit.messages:
            return
        weight = sum(self._weight(at) for at in edit.messages)
        room = 0 if edit.is_drop else self._room(weight, len(edit.messages), edit.room)
        if not edit.is_drop and room <= 0:
            return
        if room and (first := self._first_request(edit.messages, room, edit.room)) is not None:
            self._fold(replace(edit, messages=tuple(at for at in edit.messages if at != first)))
            return
        before = self.summary_tokens
        if room:
            self.folded += len(edit.messages)
            self.room = max(room, self.room)
        self.gone.update(edit.messages)
        self.tokens -= weight + before - self.summary_tokens
        self.folds.append(replace(edit, reason=told(edit.reason), saved=weight, room=room, request=self.request))
        self._seen = {part: known for part, known in self._seen.items() if part.location.message not in self.gone}
        self.edits_made += 1
        if self.changes:
            self.changes.leave(self.gone)
            if room:
                self.changes.change(START)

    def _is_offered(self, messages: set[int]) -> bool:
        """Whether messages are all of some groups: no half of a pair goes alone."""
        if messages and messages == self._harmful - self.gone:
            return True
        groups = [set(group.messages) for group in self._free()]
        touched = [group for group in groups if not group.isdisjoint(messages)]
        return bool(messages) and messages == set().union(*touched)

    def candidates(self) -> Iterator[Candidate]:
        """The parts that may be cleared now, whatever is cleared of them while one looks."""
        return iter([*super().candidates()])

    def _first_request(self, messages: Sequence[int], room: int, most: int) -> int | None:
        """The user's first request, where it is one of the messages and has no room in the summary, but will have."""
        first = next(iter(self._groups.requests), None)
        if first is None or first not in messages:
            return None
        weight = self._weight(first)
        largest = min(most, max(1, self.limit // SUMMARY_SHARE))
        is_short = weight > max(room * REQUEST_SHARE, min(room, SMALL_ROOM))
        return first if is_short and weight <= largest * REQUEST_SHARE else None

    def _weight(self, at: int) -> int:
        return self.entries[at].tokens - self._saved.get(at, 0)

    def groups(self, size: int = 1, keep: int = 0) -> list[Group]:
        """What may go, in the order in which it goes, but for the last `keep` messages."""
        self._keep = keep
        return _grouped(self._free(keep), size)

    def _free(self, keep: int = 0) -> list[Group]:
        """The smallest groups."""
        newest = self._groups.first_kept(self.gone, keep)
        units = self._groups.free(self.gone, begins_with_user=self._wants_user and not self.room)
        free = [] if self.bound_before else [self._group(unit) for unit in units]
        free = [group for group in free if group.messages[-1] < newest and self._held.isdisjoint(group.messages)]
        if self.retain.roles:
            free.sort(key=lambda unit: unit.rank)
        return free

    def _group(self, unit: range) -> Group:
        messages = tuple(at for at in unit if at not in self.gone)
        has_tools = any(self.entries[at].calls or self.entries[at].results for at in unit)
        speaker = Speaker.TOOL if has_tools else self.entries[unit[0]].speaker
        ends_turn = unit.stop in self._groups.requests
        return Group(messages, sum(map(self._weight, messages)), self.retain.rank(speaker), ends_turn)

    def least_harmful(self, keep: int, excess: float) -> list[Group]:
        """What may go but for the last `keep` messages where no cut is safe: no result loses its call even so."""
        messages = () if self.bound_before else self._groups.least_harmful(self.gone, keep, excess)
        self._harmful = set(messages)
        return [Group(messages, sum(map(self._weight, messages)))] if messages else []

    def opening(self) -> list[Group]:
        """What must go too so that the conversation begins with the user, where its provider wants that."""
        if not self._wants_user or self.room:
            return []
        free = {group.messages[0]: group for group in self._free()}
        found: list[Group] = []
        for at, entry in enumerate(self.entries):
            if at in self.gone or entry.speaker is Speaker.SYSTEM or (found and at in found[-1].messages):
                continue
            if entry.speaker is not Speaker.MODEL or at not in free:
                break
            found.append(free[at])
        return found


def _grouped(pieces: Sequence[Group], size: int) -> list[Group]:
    """Neighbors together until there are `size` messages."""
    groups: list[Group] = []
    for piece in pieces:
        if groups and len(groups[-1].messages) < size:
            last = groups[-1]
            messages = (*last.messages, *piece.messages)
            groups[-1] = Group(messages, last.tokens + piece.tokens, piece.rank, piece.ends_turn)
        else:
            groups.append(piece)
    return groups
