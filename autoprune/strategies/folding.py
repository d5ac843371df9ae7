"""Fold the oldest messages into one running summary, or drop them: when, how much, and what stays as it is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from autoprune.conversation.edits import Fold, Reason, Replace
from autoprune.errors import SettingsError, check_number, is_share
from autoprune.planning.protections import NOTHING, Protections
from autoprune.planning.retention import BY_AGE, Retention
from autoprune.planning.view import HEADING_TOKENS, FoldView, Group
from autoprune.strategies.per_result import PerResult

GROUP_SIZE = 4  # messages
LEAST_SUMMARY_TOKENS = 2_000  # of a summary's room, if nobody sets it
SUMMARY_PART = 10  # of what is folded, a summary's room is one part in so many
ROUNDS = 3  # of folding, if something had to wait for a larger summary
MINIMUM_RECLAIM = 0.1  # of the safe zone, if that is out of reach
LARGEST_REST = 0.5  # of the safe zone: what is dropped at most beyond the need, so that no half of a turn stays


@dataclass(frozen=True)
class Folding:
    """Fold the oldest messages into one running summary, or drop them, when there is too much.

    When: with more than `over_messages` messages (None: any number is fine), or with more tokens than the share
    `over_share` of the safe zone (None: any number is fine).

    How much: the oldest groups of `group_size` messages (None: the setting `conversation_prune_group_size`). With too
    many messages they go until the last `keep` are left, with too many tokens until a `buffer` below that share is
    reached. The last `keep` messages stay in any case (None: as many as a group has). With `at_turns` a fold for tokens
    goes on to the end of a turn of the user's, if one ends there; so does a drop, if the rest of the turn has at most
    half as many tokens as the safe zone. With `minimum_foldable` nothing is folded while less than that share of the
    prompt's tokens may go, since a summary of little is not worth a call. If it is still too much, `then_drops` folds
    the last messages too, and drops them if that saves nothing.

    What of it is left: a summary by `summarizer` (None: the pruner's) of at most `summary_tokens` tokens (None: a tenth
    of what is folded, at least 2,000), never more than a quarter of the safe zone nor more than the share
    `summary_share` of what is folded into it; `drops` leaves nothing. A summary that may save less than the share
    `minimum_saved` of what it stands for is not written, and the messages are dropped. `title` stands above the
    summary, `style` is how a summarizer that knows several styles is to write, and with `levels` above 0 there are
    summaries of summaries, in so many levels.

    `results` first shortens large results one by one. `retain` says what is never folded or dropped, `protect` which
    results are never shortened.
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
        """Return the edits to make at a request: large results first, then whole messages."""
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
        """Return whether there are too many messages."""
        return self.over_messages is not None and view.count > self.over_messages

    def _is_large(self, view: FoldView) -> bool:
        """Return whether there are too many tokens."""
        return self.over_share is not None and view.tokens > self.over_share * view.limit

    def _size(self) -> int:
        return max(1, GROUP_SIZE if self.group_size is None else self.group_size)

    def _kept(self) -> int:
        return self._size() if self.keep is None else self.keep

    def _oldest(self, view: FoldView, keep: int) -> Iterator[Fold]:
        """Fold or drop the oldest groups but for the last `keep` messages, as one edit."""
        if self.drops:
            yield from self._dropped(view, keep)
            return
        if not self._is_worth_it(view, keep):
            return
        chosen = self._chosen(view, keep)
        weight, said = _weight(chosen), sum(group.said for group in chosen)
        # Above the safe zone the user's words may be shortened; below it, they take what they need.
        shares = [said, 0] if view.tokens > view.limit else [said]
        rooms = ((self._room(view, weight, whole), weight - whole) for whole in shares)
        least = ((room, max(1, self.minimum_saved * rest)) for room, rest in rooms)
        room = next((room for room, gain in least if chosen and view.gain(weight, room) >= gain), 0)
        if room:
            yield _together(chosen, self._reason(view), room)
        elif chosen and self.minimum_saved:
            yield from self._dropped(view, keep)

    def _is_worth_it(self, view: FoldView, keep: int) -> bool:
        """Return whether so much of the prompt may be folded that a summary is worth a call."""
        if not self.minimum_foldable:
            return True
        return sum(group.tokens for group in view.groups(1, keep)) >= self.minimum_foldable * view.tokens

    def _room(self, view: FoldView, weight: int, said: int = 0) -> int:
        """Return the tokens that the summary's text may have once `weight` more tokens are folded into it.

        `said` of them are the user's words, which it keeps. The room grows from the one that the summary has, which its
        mark carries: so it is the same for a history that is passed in full and for pruned output that is fed back.
        """
        scaled = max(LEAST_SUMMARY_TOKENS, view.room + said + max(weight - said, 0) // SUMMARY_PART)
        most = scaled if self.summary_tokens is None else self.summary_tokens
        if self.summary_share == 1:
            return most
        kept = said + HEADING_TOKENS if said and not view.room else said
        return min(most, max(1, view.room + kept + int(self.summary_share * max(weight - said, 0))))

    def _least_harmful(self, view: FoldView) -> Iterator[Fold]:
        """Make the cut that harms least if no cut is safe and it is still too much."""
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
        """Return the groups to fold: no more than needed, or all if even that is not enough."""
        by_count = view.groups(1, keep) if self._is_many(view) else []
        if not self._is_large(view):
            return by_count
        groups = view.groups(self._size(), keep)
        excess = view.tokens - self._target(view)
        chosen, gain = _enough(groups, excess, partial(self._gain, view))
        if len(by_count) and len(by_count[-1].messages) and _end(by_count) > _end(chosen):
            return by_count
        if self.at_turns:
            chosen = _to_turn(chosen, groups)
            gain = self._gain(view, _weight(chosen), sum(group.said for group in chosen))
        in_reach = gain >= view.tokens - view.limit
        return chosen if in_reach or gain >= MINIMUM_RECLAIM * view.limit else by_count

    def _gain(self, view: FoldView, weight: int, said: int) -> int:
        """Return the tokens saved by folding messages of so many tokens, of which some are the user's words."""
        return view.gain(weight, self._room(view, weight, said))

    def _target(self, view: FoldView) -> float:
        """Return the tokens to come down to."""
        return (self.over_share or 1.0) * view.limit * (1 - self.buffer)

    def _dropped(self, view: FoldView, keep: int, at_least: float = 0.0) -> Iterator[Fold]:
        """Drop the oldest groups; if that does not reach the safe zone, only if it saves `at_least` so many tokens."""
        if self._is_many(view) and (groups := view.groups(1, keep)):
            yield _together(groups, Reason.TOO_MANY_MESSAGES)
        if self._is_large(view) and (groups := view.groups(self._size(), max(keep, 1))):
            enough, gain = _enough(groups, view.tokens - self._target(view), lambda tokens, said: tokens)
            if self.at_turns and not self.retain.roles:  # what goes by its role goes out of its turn
                enough, gain = self._whole_turns(view, enough, groups)
            if gain >= min(at_least, view.tokens - view.limit):
                yield _together(enough, Reason.OVER_SAFE_ZONE)

    def _whole_turns(self, view: FoldView, enough: list[Group], groups: Sequence[Group]) -> tuple[list[Group], float]:
        """Return the groups to drop up to the end of a turn, if its rest is not too much to lose, and their tokens."""
        whole = _to_turn(enough, groups)
        needed, tokens = (sum(group.tokens for group in each) for each in (enough, whole))
        return (whole, tokens) if tokens - needed <= LARGEST_REST * view.limit else (enough, needed)

    def _check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        for name in ("over_messages", "keep", "group_size"):
            check_number(f"{self.name}: {name}", getattr(self, name), 0, optional=True)
        check_number(f"{self.name}: summary_tokens", self.summary_tokens, 1, optional=True)
        for name in ("buffer", "minimum_saved", "minimum_foldable"):
            value = getattr(self, name)
            if not is_share(value) or value >= 1:
                raise SettingsError(f"{self.name}: {name} is {value!r}: give a share, 0 or more and less than 1")
        if not is_share(self.summary_share) or not self.summary_share:
            raise SettingsError(
                f"{self.name}: summary_share is {self.summary_share!r}: give a share above 0, at most 1"
            )
        if self.title is not None and not isinstance(self.title, str):
            raise SettingsError(f"{self.name}: title is {self.title!r}: give a text, or None")
        if self.results is not None and not isinstance(self.results, PerResult):
            raise SettingsError(f"{self.name}: results is {self.results!r}: give a PerResult, or None")
        if self.over_share is not None and (not is_share(self.over_share) or not self.over_share):
            raise SettingsError(f"{self.name}: over_share is {self.over_share!r}: give a share above 0, or None")


def _enough(groups: Sequence[Group], excess: float, gain: Callable[[int, int], float]) -> tuple[list[Group], float]:
    """Return the first groups that save the excess, or all if they do not, and the tokens that they save.

    `gain` is that of messages of so many tokens, of which so many are needed for the user's words.
    """
    weight = said = 0
    for number, group in enumerate(groups, 1):
        weight, said = weight + group.tokens, said + group.said
        if gain(weight, said) >= excess:
            return list(groups[:number]), gain(weight, said)
    return list(groups), gain(weight, said) if groups else 0.0


def _weight(groups: Sequence[Group]) -> int:
    return sum(group.tokens for group in groups)


def _to_turn(chosen: Sequence[Group], groups: Sequence[Group]) -> list[Group]:
    """Return the chosen groups and those behind them up to the end of a turn, if one ends there."""
    ends = (number for number, group in enumerate(groups, 1) if group.ends_turn and number >= len(chosen))
    return list(groups[: next(ends, len(chosen))])


def _together(groups: Sequence[Group], reason: Reason, room: int = 0) -> Fold:
    """Return one edit that folds groups into a summary with some room, or drops them."""
    messages = tuple(sorted(at for group in groups for at in group.messages))
    return Fold(messages, reason, sum(group.tokens for group in groups), room)


def _end(groups: Sequence[Group]) -> int:
    """Return the last message of some groups; -1 if there are none."""
    return max((group.messages[-1] for group in groups), default=-1)
