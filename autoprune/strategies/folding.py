"""Fold the oldest messages into one running summary, or drop them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from autoprune.conversation.edits import Fold, Reason, Replace
from autoprune.conversation.transcript import ToolResult
from autoprune.errors import SettingsError, check_number, is_share
from autoprune.planning.protections import BY_AGE, DEFAULT_PROTECTIONS, Protections, Retention
from autoprune.planning.view import SAID_HEADING_TOKENS, BaseFoldingStrategy, FoldView, Group
from autoprune.strategies.per_result import PerResult

GROUP_SIZE = 4  # messages
LEAST_SUMMARY_TOKENS = 2_000  # of a summary's room, by default
SUMMARY_PART = 10  # a summary's room is a tenth of the folded tokens: a fixed 2,000 was too small for long sessions
ROUNDS = 3  # of folding: some messages have to wait until the summary has more room
MINIMUM_RECLAIM = 0.1  # share of the safe zone that a fold must save if the safe zone is out of reach
LARGEST_REST = 0.5  # share of the safe zone: the most that is dropped beyond the need to complete a turn


@dataclass(frozen=True)
class Folding(BaseFoldingStrategy):
    """Fold the oldest messages into one running summary, or drop them, if there are too many messages or tokens.

    When: with more than `over_messages` messages (None for no limit), or with more tokens than the share `over_share`
    of the safe zone (None for no limit).

    How many: the oldest groups of `group_size` messages (None for the setting `conversation_prune_group_size`). With
    too many messages they go until the last `keep` are left; with too many tokens, until the prompt is a `buffer` below
    that share. The last `keep` messages always stay (None for one group). With `at_turns` a fold for tokens extends to
    the end of a user's turn, if one ends there; so does a drop, if the rest of the turn has at most half as many tokens
    as the safe zone. With `minimum_foldable` nothing is folded while less than that share of the prompt's tokens may
    go, since a short summary is not worth a call. If the prompt is still too large, `then_drops` folds the last
    messages too, and drops them if folding saves nothing.

    What replaces them: a summary by `summarizer` (a summarizer or the name of one, such as "action_trace"; None for the
    pruner's) of at most `summary_tokens` tokens (None for a tenth of the folded tokens, at least 2,000), never more
    than a quarter of the safe zone or the share `summary_share` of the folded tokens. With `drops` there is no summary.
    If a summary might save less than the share `minimum_saved` of the messages' tokens, they are dropped instead.
    `title` is put above the summary, `instructions` are for summarizers that take some, and with `levels` above 0
    summaries are summed up in turn, in that many levels.

    `results` first shortens large results one by one. `retain` says which messages are never folded or dropped,
    `protect` which results are never shortened.
    """

    name: str
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
    summarizer: Callable[..., object] | str | None = None
    instructions: str | None = None
    title: str | None = None
    levels: int = 0
    at_turns: bool = False
    results: PerResult | None = None
    retain: Retention = BY_AGE
    protect: Protections = DEFAULT_PROTECTIONS

    @property
    def may_drop(self) -> bool:
        """Whether messages may be dropped without a summary."""
        return self.drops or self.then_drops or self.minimum_saved > 0

    def step(self, view: FoldView) -> Iterator[Replace | Fold]:
        """Yield the edits of a request: large results first, then whole messages."""
        if not self._is_many(view) and not self._is_large(view):
            return
        if self.results:
            yield from self.results.step(view)
        for _ in range(ROUNDS):
            tokens = view.tokens
            yield from self._fold_oldest(view, self._keep_count())
            if view.tokens == tokens or not (self._is_many(view) or self._is_large(view)):
                break
        if self.then_drops and self._is_large(view):
            yield from self._fold_oldest(view, 1)
            yield from self._drop_oldest(view, 1, at_least=MINIMUM_RECLAIM * view.limit)
        yield from self._cut_least_harmful(view)
        if opening := view.opening():
            yield _one_fold(opening, Reason.BEGINS_WITH_USER)

    def has_written(self, result: ToolResult) -> bool:
        """Return whether a result can be one that was shortened at an earlier request."""
        return self.results is not None and self.results.has_written(result)

    def _is_many(self, view: FoldView) -> bool:
        return self.over_messages is not None and view.count > self.over_messages

    def _is_large(self, view: FoldView) -> bool:
        return self.over_share is not None and view.tokens > self.over_share * view.limit

    def _messages_per_group(self) -> int:
        return max(1, GROUP_SIZE if self.group_size is None else self.group_size)

    def _keep_count(self) -> int:
        return self._messages_per_group() if self.keep is None else self.keep

    def _fold_oldest(self, view: FoldView, keep: int) -> Iterator[Fold]:
        """Fold or drop the oldest groups as one edit, without the last `keep` messages."""
        if self.drops:
            yield from self._drop_oldest(view, keep)
            return
        # A short summary is not worth a call.
        if self.minimum_foldable and _weight(view.groups(1, keep)) < self.minimum_foldable * view.tokens:
            return
        chosen = self._groups_to_fold(view, keep)
        weight, said = _weight(chosen), sum(group.said for group in chosen)
        # Above the safe zone the user's words may be shortened; below it they get the room they need.
        shares = [said, 0] if view.tokens > view.limit else [said]
        rooms = ((self._room(view, weight, whole), weight - whole) for whole in shares)
        least = ((room, max(1, self.minimum_saved * rest)) for room, rest in rooms)
        room = next((room for room, gain in least if chosen and view.gain(weight, room) >= gain), 0)
        if room:
            yield _one_fold(chosen, Reason.TOO_MANY_MESSAGES if self._is_many(view) else Reason.OVER_SAFE_ZONE, room)
        elif chosen and self.minimum_saved:
            yield from self._drop_oldest(view, keep)

    def _room(self, view: FoldView, weight: int, said: int = 0) -> int:
        """Return the tokens that the summary's text may have once `weight` more tokens are folded into it.

        `said` of these tokens are the user's words, which the summary keeps. The room grows from the summary's current
        room, which the summary's mark records. So the room is the same for a full history and for pruned output that is
        passed back.
        """
        scaled = max(LEAST_SUMMARY_TOKENS, view.room + said + max(weight - said, 0) // SUMMARY_PART)
        most = scaled if self.summary_tokens is None else self.summary_tokens
        if self.summary_share == 1:
            return most
        kept = said + SAID_HEADING_TOKENS if said and not view.room else said
        return min(most, max(1, view.room + kept + int(self.summary_share * max(weight - said, 0))))

    def _cut_least_harmful(self, view: FoldView) -> Iterator[Fold]:
        """Make the least harmful cut if no cut is safe and the prompt is still too large."""
        keep = self._keep_count()
        if not (self._is_many(view) or self._is_large(view)) or view.groups(1, keep):
            return
        excess = 0.0 if self._is_many(view) else view.tokens - view.limit
        added = 0 if self.drops or not excess else view.added(self.summary_tokens or view.limit)
        harmful = view.least_harmful(keep, excess + added)
        weight = _weight(harmful)
        if harmful and weight >= excess:
            yield _one_fold(harmful, Reason.LEAST_HARMFUL, 0 if self.drops else self._room(view, weight))

    def _groups_to_fold(self, view: FoldView, keep: int) -> list[Group]:
        """Return the groups to fold: no more than needed, or all if all are not enough."""
        by_count = view.groups(1, keep) if self._is_many(view) else []
        if not self._is_large(view):
            return by_count
        groups = view.groups(self._messages_per_group(), keep)
        excess = view.tokens - self._target(view)
        chosen, gain = _first_enough(groups, excess, partial(self._gain, view))
        if _last_message(by_count) > _last_message(chosen):
            return by_count
        if self.at_turns:
            chosen = _extend_to_turn(chosen, groups)
            gain = self._gain(view, _weight(chosen), sum(group.said for group in chosen))
        in_reach = gain >= view.tokens - view.limit
        return chosen if in_reach or gain >= MINIMUM_RECLAIM * view.limit else by_count

    def _gain(self, view: FoldView, weight: int, said: int) -> int:
        """Return the tokens saved by folding messages of `weight` tokens, `said` of which are the user's words."""
        return view.gain(weight, self._room(view, weight, said))

    def _target(self, view: FoldView) -> float:
        """Return the tokens to reduce the prompt to."""
        return (self.over_share or 1.0) * view.limit * (1 - self.buffer)

    def _drop_oldest(self, view: FoldView, keep: int, at_least: float = 0.0) -> Iterator[Fold]:
        """Drop the oldest groups. If the safe zone is out of reach, the drop must save `at_least` tokens."""
        if self._is_many(view) and (groups := view.groups(1, keep)):
            yield _one_fold(groups, Reason.TOO_MANY_MESSAGES)
        if self._is_large(view) and (groups := view.groups(self._messages_per_group(), max(keep, 1))):
            enough, gain = _first_enough(groups, view.tokens - self._target(view), lambda tokens, said: tokens)
            if self.at_turns and not self.retain.roles:  # messages retained by role leave gaps in their turns
                whole = _extend_to_turn(enough, groups)
                if _weight(whole) - _weight(enough) <= LARGEST_REST * view.limit:
                    enough, gain = whole, _weight(whole)
            if gain >= min(at_least, view.tokens - view.limit):
                yield _one_fold(enough, Reason.OVER_SAFE_ZONE)

    def check_parameters(self) -> None:
        """Raise SettingsError for an invalid parameter."""
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
        if self.results is not None:
            self.results.check_parameters()
        if self.over_share is not None and (not is_share(self.over_share) or not self.over_share):
            raise SettingsError(f"{self.name}: over_share is {self.over_share!r}: give a share above 0, or None")


def _first_enough(
    groups: Sequence[Group], excess: float, gain: Callable[[int, int], float]
) -> tuple[list[Group], float]:
    """Return the first groups that save the excess, or else all groups, and the tokens saved.

    `gain(weight, said)` returns the tokens saved by folding messages of that weight.
    """
    weight = said = 0
    for number, group in enumerate(groups, 1):
        weight, said = weight + group.tokens, said + group.said
        if gain(weight, said) >= excess:
            return list(groups[:number]), gain(weight, said)
    return list(groups), gain(weight, said) if groups else 0.0


def _weight(groups: Sequence[Group]) -> int:
    return sum(group.tokens for group in groups)


def _extend_to_turn(chosen: Sequence[Group], groups: Sequence[Group]) -> list[Group]:
    """Extend the chosen groups to the end of a turn, if a turn ends among the groups after them."""
    ends = (number for number, group in enumerate(groups, 1) if group.ends_turn and number >= len(chosen))
    return list(groups[: next(ends, len(chosen))])


def _one_fold(groups: Sequence[Group], reason: Reason, room: int = 0) -> Fold:
    """Make one edit that folds groups into a summary with the given room, or drops them."""
    messages = tuple(sorted(at for group in groups for at in group.messages))
    return Fold(messages, reason, _weight(groups), room)


def _last_message(groups: Sequence[Group]) -> int:
    """Return the index of the groups' last message; -1 without groups."""
    return max((group.messages[-1] for group in groups), default=-1)
