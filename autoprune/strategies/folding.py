"""Fold the oldest messages into one running summary, or drop them: when, how much, and what stays as it is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.reasons import Reason
from autoprune.errors import SettingsError
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.retention import BY_AGE, Retention
from autoprune.planning.view import FoldView, Group
from autoprune.strategies.per_result import PerResult

GROUP_SIZE = 4  # messages
LEAST_SUMMARY_TOKENS = 2_000  # of a summary's room, where nobody sets it
SUMMARY_PART = 10  # of what is folded, a summary's room is one part in so many
ROUNDS = 3  # in which more is folded, where something had to wait for a larger summary
MINIMUM_RECLAIM = 0.1  # of the safe zone, where that is out of reach
LARGEST_REST = 0.5  # of the safe zone: what is dropped at most beyond the need, so that no half of a turn stays


@dataclass(frozen=True)
class Folding:
    """Fold the oldest messages into one running summary, or drop them, when there is too much.

    There is too much with more than `over_messages` messages (None: any number will do), or with more tokens than the
    share `over_share` of the safe zone (None: any). Then the oldest groups of `group_size` messages go (None: the
    setting `conversation_prune_group_size`), by messages until the last `keep` are left, by tokens until a `buffer`
    below that share is reached. The last `keep` messages stay in any case (None: as many as a group has).

    They are summed up by `summarizer` (None: the pruner's) in at most `summary_tokens` tokens (None: a tenth of what is
    folded, 2,000 at least), never more than a quarter of the safe zone, or dropped where `drops` is true;
    `summary_share` is the most that a summary may take of what is folded into it. `then_drops`: when it is still too
    much, the last messages are folded too, and dropped where that wins nothing. `minimum_saved`: a
    summary that may save a smaller share of what it stands for is not written, and the messages are dropped.
    `minimum_foldable`: nothing is folded while less than that share of the prompt's tokens may be, since a summary of
    little is not worth a call; then it may stay above the safe zone, unless `then_drops`. With `at_turns` a fold for
    tokens goes on to the end of a turn of the user's, where there is one; a drop does too, if the rest of the turn has
    at most half as many tokens as the safe zone. `title` stands above the summary. `results` first
    shortens large results one by one. `retain` says what is never folded or dropped, `protect` which results are never
    shortened. `style` is how a summarizer that knows several styles is to write, and with `levels` above 0 there are
    summaries of summaries, in so many levels.
    """

    name: str
    does: str = field(default="", repr=False, compare=False)
    over_messages: int | None = None
    over_share: float | None = 1.0
    keep: int | None = None
    group_size: int | None = None
    buffer: float = 0.0
    drops: bool = False
    then_drops: bool = False
    minimum_saved: float = 0.0
    minimum_foldable: float = 0.0
    summary_share: float = 1.0
    summary_tokens: int | None = None
    summarizer: Callable[..., object] | None = None
    style: str | None = None
    title: str | None = None
    levels: int = 0
    at_turns: bool = False
    results: PerResult | None = None
    retain: Retention = BY_AGE
    protect: Protections = NOTHING

    @property
    def may_drop(self) -> bool:
        """Whether messages may go without a trace."""
        return self.drops or self.then_drops or self.minimum_saved > 0

    def step(self, view: FoldView) -> Iterator[Replace | Fold]:
        """Nothing, or what is too much: large results first, then whole messages."""
        self._check()
        if not self._is_many(view) and not self._is_large(view):
            return
        if self.results:
            yield from self.results.step(view)
        for _ in range(ROUNDS):
            tokens = view.tokens
            yield from self._oldest(view, self._kept())
            if view.tokens == tokens or not (self._is_many(view) or self._is_large(view)):
                break
        if self.then_drops and self._is_large(view):
            yield from self._oldest(view, 1)
            yield from self._dropped(view, 1, at_least=MINIMUM_RECLAIM * view.limit)
        yield from self._least_harmful(view)
        if opening := view.opening():
            yield _together(opening, Reason.BEGINS_WITH_USER)

    def _is_many(self, view: FoldView) -> bool:
        return self.over_messages is not None and view.count > self.over_messages

    def _is_large(self, view: FoldView) -> bool:
        return self.over_share is not None and view.tokens > self.over_share * view.limit

    def _size(self) -> int:
        return max(1, GROUP_SIZE if self.group_size is None else self.group_size)

    def _kept(self) -> int:
        return self._size() if self.keep is None else self.keep

    def _oldest(self, view: FoldView, keep: int) -> Iterator[Fold]:
        """The oldest groups but for the last `keep` messages, as one edit."""
        if self.drops:
            yield from self._dropped(view, keep)
            return
        if not self._is_worth_it(view, keep):
            return
        chosen = self._chosen(view, keep)
        weight = sum(group.tokens for group in chosen)
        room = self._room(view, weight)
        gain = view.gain(weight, room) if chosen else 0
        if chosen and gain < max(1, self.minimum_saved * weight):
            yield from self._dropped(view, keep) if self.minimum_saved else ()
        elif chosen:
            yield _together(chosen, self._reason(view), room)

    def _is_worth_it(self, view: FoldView, keep: int) -> bool:
        """Whether enough of the prompt may be folded for a summary to be written."""
        if not self.minimum_foldable:
            return True
        return sum(group.tokens for group in view.groups(1, keep)) >= self.minimum_foldable * view.tokens

    def _room(self, view: FoldView, weight: int) -> int:
        """Return the tokens that the summary's text may have once `weight` more tokens are folded into it.

        The room grows from the one that the summary has, which its mark carries: so it is the same for a history that
        is passed in full and for pruned output that is fed back.
        """
        scaled = max(LEAST_SUMMARY_TOKENS, view.room + weight // SUMMARY_PART)
        most = scaled if self.summary_tokens is None else self.summary_tokens
        if self.summary_share == 1:
            return most
        return min(most, max(1, view.room + int(self.summary_share * weight)))

    def _least_harmful(self, view: FoldView) -> Iterator[Fold]:
        """Where nothing can be cut safely and it is still too much: the cut that harms least, if it is enough."""
        keep = self._kept()
        if not (self._is_many(view) or self._is_large(view)) or view.groups(1, keep):
            return
        excess = 0.0 if self._is_many(view) else view.tokens - view.limit
        added = 0 if self.drops or not excess else view.added(self.summary_tokens or view.limit)
        harmful = view.least_harmful(keep, excess + added)
        weight = sum(group.tokens for group in harmful)
        if harmful and weight >= excess:
            yield _together(harmful, Reason.LEAST_HARMFUL, 0 if self.drops else self._room(view, weight))

    def _reason(self, view: FoldView) -> Reason:
        return Reason.TOO_MANY_MESSAGES if self._is_many(view) else Reason.OVER_SAFE_ZONE

    def _chosen(self, view: FoldView, keep: int) -> list[Group]:
        """The groups to fold: no more than needed, and all there are where even that is not enough."""
        by_count = view.groups(1, keep) if self._is_many(view) else []
        if not self._is_large(view):
            return by_count
        groups = view.groups(self._size(), keep)
        excess = view.tokens - self._target(view)
        chosen, gain = _enough(groups, excess, lambda tokens: view.gain(tokens, self._room(view, tokens)))
        if len(by_count) and len(by_count[-1].messages) and _end(by_count) > _end(chosen):
            return by_count
        if self.at_turns:
            chosen = _to_turn(chosen, groups)
            gain = view.gain(weight := sum(group.tokens for group in chosen), self._room(view, weight))
        in_reach = gain >= view.tokens - view.limit
        return chosen if in_reach or gain >= MINIMUM_RECLAIM * view.limit else by_count

    def _target(self, view: FoldView) -> float:
        return (self.over_share or 1.0) * view.limit * (1 - self.buffer)

    def _dropped(self, view: FoldView, keep: int, at_least: float = 0.0) -> Iterator[Fold]:
        """The oldest groups dropped; where that is not enough tokens, only if it wins so many at least."""
        if self._is_many(view) and (groups := view.groups(1, keep)):
            yield _together(groups, Reason.TOO_MANY_MESSAGES)
        if self._is_large(view) and (groups := view.groups(self._size(), max(keep, 1))):
            enough, gain = _enough(groups, view.tokens - self._target(view), float)
            if self.at_turns and not self.retain.roles:  # what goes by its role goes out of its turn
                enough, gain = self._whole_turns(view, enough, groups)
            if gain >= min(at_least, view.tokens - view.limit):
                yield _together(enough, Reason.OVER_SAFE_ZONE)

    def _whole_turns(self, view: FoldView, enough: list[Group], groups: Sequence[Group]) -> tuple[list[Group], float]:
        """The groups to drop up to the end of a turn, if its rest is not too much to lose; and their tokens."""
        whole = _to_turn(enough, groups)
        needed, tokens = (sum(group.tokens for group in each) for each in (enough, whole))
        return (whole, tokens) if tokens - needed <= LARGEST_REST * view.limit else (enough, needed)

    def _check(self) -> None:
        """Raises SettingsError for a parameter that is none, and says which."""
        for name in ("over_messages", "keep", "group_size"):
            value = getattr(self, name)
            if value is not None and not _is_number(value):
                raise SettingsError(f"{self.name}: {name} is {value!r}: give a number, 0 or more, or None")
        room = self.summary_tokens
        if room is not None and (not _is_number(room) or not room):
            raise SettingsError(f"{self.name}: summary_tokens is {room!r}: give a number, 1 or more, or None")
        for name in ("buffer", "minimum_saved", "minimum_foldable"):
            value = getattr(self, name)
            if not _is_share(value) or value >= 1:
                raise SettingsError(f"{self.name}: {name} is {value!r}: give a share, 0 or more and less than 1")
        if not _is_share(self.summary_share) or not self.summary_share:
            raise SettingsError(
                f"{self.name}: summary_share is {self.summary_share!r}: give a share above 0, at most 1"
            )
        if self.title is not None and not isinstance(self.title, str):
            raise SettingsError(f"{self.name}: title is {self.title!r}: give a text, or None")
        if self.results is not None and not isinstance(self.results, PerResult):
            raise SettingsError(f"{self.name}: results is {self.results!r}: give a PerResult, or None")
        if self.over_share is not None and (not _is_share(self.over_share) or not self.over_share):
            raise SettingsError(f"{self.name}: over_share is {self.over_share!r}: give a share above 0, or None")


def _enough(groups: Sequence[Group], excess: float, gain: Callable[[int], float]) -> tuple[list[Group], float]:
    """The first groups that win what is too much, all of them where none do; and what they win."""
    weight = 0
    for number, group in enumerate(groups, 1):
        weight += group.tokens
        if gain(weight) >= excess:
            return list(groups[:number]), gain(weight)
    return list(groups), gain(weight) if groups else 0.0


def _to_turn(chosen: Sequence[Group], groups: Sequence[Group]) -> list[Group]:
    """The chosen groups, and those behind them up to the end of a turn; as they are where none ends."""
    ends = (number for number, group in enumerate(groups, 1) if group.ends_turn and number >= len(chosen))
    return list(groups[: next(ends, len(chosen))])


def _together(groups: Sequence[Group], reason: Reason, room: int = 0) -> Fold:
    """Groups folded into a summary with some room, or dropped, as one edit."""
    messages = tuple(sorted(at for group in groups for at in group.messages))
    return Fold(messages, reason, sum(group.tokens for group in groups), room)


def _end(groups: Sequence[Group]) -> int:
    return max((group.messages[-1] for group in groups), default=-1)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
