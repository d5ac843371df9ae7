"""Everything that a strategy sees and answers. Decides nothing.

A strategy is any object with a name and a method `step`. It gets a view of the prompt that is about to be sent, and
yields edits of the candidates that the view offers. `BaseStrategy` has all optional attributes with their defaults:

    class LargestFirst(BaseStrategy):
        name = "largest_first"

        def step(self, view: View) -> Iterator[Replace]:
            excess = view.tokens - view.limit
            for candidate in sorted(view.candidates(), key=lambda each: each.saves, reverse=True):
                if excess <= 0:
                    return
                excess -= candidate.saves
                yield candidate.cleared("largest first")

`View`, `Candidate`, `Strategy` and `BaseStrategy` are for strategies that clear results; `FoldView`, `Group`,
`FoldingStrategy` and `BaseFoldingStrategy` for those that fold or drop whole messages too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from autoprune.conversation.edits import Fold, Replace, RunningSummary
from autoprune.conversation.transcript import Entry, Part, ToolResult
from autoprune.errors import SettingsError
from autoprune.facts.calls import target

if TYPE_CHECKING:
    from autoprune.economics import Prices
    from autoprune.planning.clamping import Clamp
    from autoprune.planning.protections import Protections
    from autoprune.planning.retention import Retention
    from autoprune.planning.tool_inputs import ToolInputs


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part that may be cleared at a request, the text that would replace it, and the tokens that saves.

    `result` is the part itself, or the result of the call whose argument the part is. `mark` is what the text carries
    so that the payload can be recalled; "" without an archive. A text of the strategy's own gets it at its end.
    """

    part: Part
    text: str
    saves: int
    result: ToolResult
    mark: str = ""

    @property
    def sent(self) -> int:
        """The number of the first request whose prompt held the result: `view.request - candidate.sent` is its age."""
        return self.result.sent

    @property
    def target(self) -> str:
        """What the call touched, such as a path or a command, on one line; "" if that is not known."""
        return target(self.result.call)

    def cleared(self, reason: str) -> Replace:
        """Return the edit that clears the part. The reason is a `Reason` or a short text such as "largest first"."""
        return Replace(self.part, self.text, reason, self.saves)

    def replaced(self, text: str, reason: str) -> Replace:
        """Return the edit that puts a text of the strategy's own in place of a result; a blank one is the placeholder.

        The result stays a candidate, of which less is left to save. In pruned output that is passed back it looks as
        if its tool had returned only that: recognize such a text by a mark, and leave it unchanged.
        """
        return Replace(self.part, text, reason, 0)


class View(Protocol):
    """What a strategy sees at one request: nothing that comes after it."""

    @property
    def request(self) -> int:
        """The number of the request, from 0."""

    @property
    def tokens(self) -> int:
        """The tokens of the prompt about to be sent, without all that was cleared before."""

    @property
    def limit(self) -> int:
        """The safe zone, in counted tokens."""

    @property
    def pause(self) -> float:
        """The seconds since the request before, as the caller recorded them; 0.0 if that is not known."""

    @property
    def sent(self) -> int:
        """How many of the messages were in the previous prompt: they are cached, if the cache is still alive."""

    def weight(self, message: int) -> int:
        """Return the tokens of a message, without what was cleared in it."""
        ...

    @property
    def results(self) -> Sequence[ToolResult]:
        """Every tool result so far, oldest first: those that the model has not seen yet and cleared ones as well."""

    @property
    def entries(self) -> Sequence[Entry]:
        """What each message so far was read to: who speaks, its tokens, its calls and results."""

    def saves(self, candidate: Candidate, text: str) -> int:
        """Return the tokens that a text of the strategy's own would save in place of a result."""
        ...

    def candidates(self) -> Iterator[Candidate]:
        """Yield the results that the model has seen and whose placeholders are smaller, oldest first."""


class Strategy(Protocol):
    """Decides what to clear. By default it is asked at each request whose prompt is over the safe zone.

    Its edits are made from the view's candidates (`candidate.cleared(reason)`); any other edit is ignored. A strategy
    needs nothing more. It may have any attribute of `BaseStrategy`, with or without subclassing it.
    """

    @property
    def name(self) -> str:
        """The name of the strategy."""

    def step(self, view: View) -> Iterable[Replace]:
        """Return the edits to make at a request; what is cleared stays cleared."""
        ...


class BaseStrategy:
    """Base class for strategies that clear results: all optional attributes, with their defaults.

    Subclassing is optional (see `Strategy`); it lets an editor complete the attributes and a type checker check them.
    A subclass is usually a frozen dataclass, whose fields are what a user can configure.
    """

    name: str
    """The name of the strategy."""
    protect: "Protections | None" = None
    """Results that are never offered as candidates."""
    clamp: "Clamp | None" = None
    """How giant results are cut before the strategy is asked."""
    clear_tool_inputs: "ToolInputs | None" = None
    """How long arguments of finished calls are shortened."""
    every_request: bool = False
    """Whether the strategy is asked at each request, below the safe zone too."""
    notes: tuple[str, ...] = ()
    """Texts for every report about the strategy, such as a warning."""

    # Optional methods. None stands for a strategy without the method, so that the walk does not call it.
    begin: "Callable[[], Strategy] | None" = None
    """Return a fresh object with `step` for each walk, if the strategy remembers something between requests."""
    for_prices: "Callable[[Prices], Strategy] | None" = None
    """Return the strategy for the prices of the model and cache that the settings name."""
    reprice: Callable[[Any], None] | None = None
    """Take over a strategy with new prices: called on what `begin` returned if the cache's life changes."""
    explain: "Callable[[], Rationale] | None" = None
    """Return the reasons that `--explain` shows: called on what `begin` returned, after the walk."""

    def step(self, view: View) -> Iterable[Replace]:
        """Return the edits to make at a request; what is cleared stays cleared."""
        raise NotImplementedError


SAID_SHARE = 0.65  # of a summary, that the user's words may take before they are shortened
SAID_TOKENS = 8  # that a summary needs around what the user said
HEADING_TOKENS = 24  # that a summary needs above what the user said


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that may go together, with the tokens that they weigh now. No call is without its result.

    Groups of a lower `rank` go first. `ends_turn` says that the user's next turn begins after the group. `said` are
    the tokens that a summary's room must grow by so that the user's words in it are not shortened.
    """

    messages: tuple[int, ...]
    tokens: int
    rank: int = 0
    ends_turn: bool = False
    said: int = 0


class FoldView(View, Protocol):
    """What a strategy that folds sees at one request, besides what every strategy sees."""

    @property
    def count(self) -> int:
        """The number of messages in the prompt, without the system's and without the summary."""

    @property
    def room(self) -> int:
        """The tokens that the text of the summary may have; 0 if there is no summary."""

    @property
    def turn(self) -> int:
        """The number of the user's turn, from 1; 0 before the first."""

    @property
    def iteration(self) -> int:
        """The number of the request within the user's turn, from 1."""

    def groups(self, size: int = 1, keep: int = 0) -> list[Group]:
        """Return what may go, in the order in which it goes, in groups of at least `size` messages if there are enough.

        The last `keep` messages, the user's current request, what is retained (system messages are) and what the model
        has not seen yet are in no group.
        """

    def least_harmful(self, keep: int, excess: float) -> list[Group]:
        """Return what may go although no cut is safe, but for the last `keep` messages. No result loses its call.

        If `excess` is above 0, no more goes than is needed to win so many tokens.
        """

    def opening(self) -> list[Group]:
        """Return what must go too so that the conversation begins with the user, if its provider wants that."""

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages of so many tokens into a summary of at most `room`."""

    def added(self, room: int) -> int:
        """Return the tokens that the summary adds to the prompt when it gets at most `room`."""


class FoldingStrategy(Protocol):
    """Decides what to fold or drop. It is asked at each request.

    Each edit is made as soon as it is yielded, so the view shows it when the next one is decided. The pruner knows a
    folding strategy by its attribute `retain`, `folds` or `may_drop`; `BaseFoldingStrategy` has all three, and the
    other optional attributes.
    """

    @property
    def name(self) -> str:
        """The name of the strategy."""

    def step(self, view: FoldView) -> Iterable[Replace | Fold]:
        """Return the edits to make at a request; what is folded stays folded."""
        ...


class BaseFoldingStrategy:
    """Base class for strategies that fold or drop messages: all optional attributes, with their defaults.

    Subclassing is optional, as with `BaseStrategy`.
    """

    name: str
    """The name of the strategy."""
    retain: "Retention | None" = None
    """Messages that are never offered for folding; None for the default, `Retention()`."""
    protect: "Protections | None" = None
    """Results that are never shortened."""
    folds: bool = True
    """Whether the strategy takes messages out; False for one that only shortens results."""
    drops: bool = True
    """Whether messages that go without a summary may take the user's words along."""
    summarizer: Callable[..., object] | str | None = None
    """The summarizer, or its name; None for the pruner's."""
    style: str | None = None
    """The style for a summarizer that knows several."""
    title: str | None = None
    """The title above the summary."""
    levels: int = 0
    """The number of levels of summaries of summaries; 0 for one running summary."""
    notes: tuple[str, ...] = ()
    """Texts for every report about the strategy, such as a warning."""

    @property
    def may_drop(self) -> bool:
        """Whether messages may be dropped without a summary."""
        return self.drops

    def step(self, view: FoldView) -> Iterable[Replace | Fold]:
        """Return the edits to make at a request; what is folded stays folded."""
        raise NotImplementedError


class Option(Protocol):
    """A value that says what the walk does for a strategy; `in_text` is an example of it where it is typed."""

    in_text: ClassVar[str]

    def check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""


Kind = TypeVar("Kind", bound=Option)


def option(strategy: object, name: str, kind: type[Kind]) -> Kind | None:
    """Return an option of a strategy, checked; None if it has none. Raises SettingsError for a wrong value."""
    value = getattr(strategy, name, None)
    if value is None:
        return None
    if not isinstance(value, kind):
        such_as = f"{kind.__name__}, such as {kind.__name__}(...), or in a text {name}={kind.in_text}"
        raise SettingsError(f"the strategy's {name} is {value!r}: give a {such_as}")
    value.check()
    return value


Edit = TypeVar("Edit", bound=Replace | Fold)


def edits_of(strategy: object, step: object, kind: type[Edit] | UnionType) -> Iterator[Edit]:
    """Yield the edits that a strategy's method returned, one by one. Raises SettingsError for anything else."""
    name = getattr(strategy, "name", type(strategy).__name__)
    if not isinstance(step, Iterable):
        raise SettingsError(f"step of the strategy {name} returned {step!r}: give its edits in a list, [] for none")
    for edit in step:
        if not isinstance(edit, kind):
            raise SettingsError(f"step of the strategy {name} gave {edit!r}, which is no edit: make it from the view")
        yield edit


def asks_always(strategy: object) -> bool:
    """Return whether a strategy is asked at each request, and not only above the safe zone."""
    return getattr(strategy, "every_request", False) is True


OF_FOLDING = frozenset(("retain", "folds", "may_drop"))  # attributes that only strategies for ConversationPruner have


def folds(strategy: object) -> bool:
    """Return whether a strategy needs a `FoldView`."""
    return not OF_FOLDING.isdisjoint(dir(strategy))


def stepper(strategy: Strategy) -> Strategy:
    """Return the object to ask in one walk: what `begin` returns, else the strategy itself."""
    begin: Callable[[], Strategy] | None = getattr(strategy, "begin", None)
    return begin() if callable(begin) else strategy


def repriced(known: Strategy, strategy: Strategy) -> Strategy:
    """Return the object to ask in a walk once the strategy has new prices; what `known` remembers is kept."""
    if not callable(getattr(strategy, "begin", None)):  # it remembers nothing
        return strategy
    reprice: Callable[[Strategy], None] | None = getattr(known, "reprice", None)
    if callable(reprice):
        reprice(strategy)
    return known


def _says_nothing(result: ToolResult) -> str:
    return ""


@dataclass(frozen=True)
class Rationale:
    """A strategy's reasons: a text for each decision, and a few words on why a result stays, if it knows.

    `why_kept` is a module's function or a `partial` of one, so that reports can be pickled.
    """

    decisions: tuple[str, ...] = ()
    why_kept: Callable[[ToolResult], str] = _says_nothing


SILENT = Rationale()


def rationale_of(known: object) -> Rationale:
    """Return the rationale of the object that a walk asked; a silent one if it has no method `explain`."""
    explain: Callable[[], Rationale] | None = getattr(known, "explain", None)
    return explain() if callable(explain) else SILENT


@dataclass(frozen=True)
class Given:
    """What is known of a conversation besides its messages: the summary in it, and what its provider wants.

    `begins_with_user` tells whether the provider of a message wants the user's message first.
    """

    running: RunningSummary | None = None
    begins_with_user: Callable[[object], bool] = lambda message: False
