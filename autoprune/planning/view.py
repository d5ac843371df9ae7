"""What a strategy that folds or drops whole messages sees, and what it answers. Decides nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from autoprune.conversation.edits import Fold, Replace, Running
from autoprune.planning.walk import View


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that may go together: no call without its result. `tokens` is what they weigh now.

    `ends_turn`: the user's next turn begins behind them.
    """

    messages: tuple[int, ...]
    tokens: int
    rank: int = 0
    ends_turn: bool = False


class FoldView(View, Protocol):
    """What a strategy that folds sees at one request, besides what every strategy sees."""

    @property
    def count(self) -> int:
        """The messages in the prompt, without the system's and without the summary."""

    @property
    def room(self) -> int:
        """The tokens that the summary's text may have; 0 where there is none."""

    @property
    def turn(self) -> int:
        """The number of the user's turn, from 1; 0 before the first."""

    @property
    def iteration(self) -> int:
        """The number of the request within the user's turn, from 1."""

    def groups(self, size: int = 1, keep: int = 0) -> list[Group]:
        """What may go, in the order in which it goes: groups of at least `size` messages, where there are as many.

        In none are the last `keep` messages, the user's current request, what is retained (system messages are), and
        what the model has not seen yet.
        """

    def least_harmful(self, keep: int, excess: float) -> list[Group]:
        """What may go but for the last `keep` messages where no cut is safe: no result loses its call even so.

        No more goes than wins `excess` tokens, where that is above 0.
        """

    def opening(self) -> list[Group]:
        """What must go too so that the conversation begins with the user, where its provider wants that."""

    def gain(self, tokens: int, room: int) -> int:
        """Tokens that are won when messages of so many tokens are folded into a summary of at most `room`."""

    def added(self, room: int) -> int:
        """Tokens that the summary adds to the prompt when it gets at most `room`."""


class FoldingStrategy(Protocol):
    """Decides what to fold or drop. It is asked at each request; it may have the attributes `retain` and `protect`.

    Each edit is made as soon as it is yielded, so that what the view shows next holds it already.
    """

    @property
    def name(self) -> str:
        """What it is called by."""

    def step(self, view: FoldView) -> Iterable[Replace | Fold]:
        """The edits to make at a request."""


@dataclass(frozen=True)
class Given:
    """What is known of a conversation besides its messages: the summary in it, and what its provider wants.

    `begins_with_user` says of a message whether its provider wants the user's message first.
    """

    running: Running | None = None
    begins_with_user: Callable[[object], bool] = lambda message: False
