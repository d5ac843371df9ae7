"""The interface between a strategy and the walk. Decides nothing.

A strategy is any object with a name and a method `step`. `step` gets a view of the prompt that is about to be sent, and
yields edits of the candidates that the view offers; examples/largest_first.py is a short one. `BaseStrategy` has
all optional attributes with their defaults.

`View`, `Candidate`, `Strategy` and `BaseStrategy` are for strategies that clear results; `FoldView`, `Group`,
`FoldingStrategy` and `BaseFoldingStrategy` for those that fold or drop whole messages too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.summary import RunningSummary
from autoprune.conversation.transcript import Entry, Part, ToolResult
from autoprune.errors import SettingsError
from autoprune.facts.calls import target
from autoprune.planning.protections import Retention

if TYPE_CHECKING:
    from autoprune.economics import Invoice, Prices
    from autoprune.planning.clamping import Clamp
    from autoprune.planning.protections import Protections
    from autoprune.planning.steps import Step
    from autoprune.planning.tool_inputs import ToolInputs


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part that may be cleared at a request, with the text that would replace it and the tokens that this saves.

    `result` is the part itself, or the result of the call whose argument the part is. `mark` is the recall id in the
    text; "" without an archive. It is appended to a text that the strategy supplies.
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
        """The target of the call, such as a path or a command, on one line; "" if unknown."""
        return target(self.result.call)

    def cleared(self, reason: str) -> Replace:
        """Make the edit that clears the part. The reason is a `Reason` or a short text such as "largest first"."""
        return Replace(self.part, self.text, reason, self.saves)  # type: ignore[arg-type]  # the walk normalizes it

    def replaced(self, text: str, reason: str) -> Replace:
        """Make the edit that replaces the result by `text`, or by the placeholder if `text` is blank.

        The result stays a candidate, which then saves fewer tokens. In pruned output that is passed back, the text
        looks like the tool's own output, so a strategy should mark its texts and leave marked texts unchanged.
        """
        return Replace(self.part, text, reason, 0)  # type: ignore[arg-type]  # the walk normalizes it


class View(Protocol):
    """The conversation as a strategy sees it at one request, without later messages."""

    @property
    def request(self) -> int:
        """The number of the request, from 0."""

    @property
    def last_request(self) -> int:
        """The number of the request that is being pruned: this one, or a later one. It grows from prune to prune."""

    @property
    def tokens(self) -> int:
        """The tokens of the prompt about to be sent, with all earlier edits made."""

    @property
    def limit(self) -> int:
        """The safe zone, in counted tokens; less if the client would compact the conversation before."""

    @property
    def hard_limit(self) -> int:
        """The safe zone, in counted tokens, even if the client would compact before.

        Between the two limits, being compacted is better than losing results in use.
        """

    @property
    def pause(self) -> float:
        """The seconds since the previous request, as the caller recorded them; 0.0 if unknown."""

    @property
    def invoice(self) -> "Invoice | None":
        """The provider's invoice of the previous request, if the caller knows it."""

    @property
    def sent(self) -> int:
        """The number of messages in the previous prompt. They are cached if the cache has not expired."""

    def weight(self, message: int) -> int:
        """Return the tokens of a message, without the tokens that its edits save."""
        ...

    @property
    def results(self) -> Sequence[ToolResult]:
        """All tool results so far, oldest first, including cleared ones and those that the model has not seen yet."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The entry of each message so far: its speaker, tokens, calls and results."""

    @property
    def messages(self) -> Sequence[object]:
        """The caller's messages so far, which must not be changed."""

    def as_sent(self, result: ToolResult) -> ToolResult:
        """Return a result as the model first sees it: cut if it is too large, and else the result itself."""
        ...

    def saves(self, candidate: Candidate, text: str) -> int:
        """Return the tokens that `text` would save in place of a result."""
        ...

    def steps(self) -> "Sequence[Step]":
        """Return the finished steps that may be folded, oldest first; none without the strategy's `fold_steps`.

        The model has seen all their messages. To fold neighbors, yield a `Fold` of all their messages with the text
        that takes their place (`folded_steps.block`).
        """
        ...

    def candidates(self, *, whole: bool = False) -> Iterator[Candidate]:
        """Yield the parts that the model has seen and that take more tokens than their placeholders, oldest first.

        With `whole`, only those that the strategy has not replaced with a text of its own.
        """
        ...


class Strategy(Protocol):
    """Decide what to clear. By default a strategy is asked at each request whose prompt is over the safe zone.

    Make the edits from the view's candidates (`candidate.cleared(reason)`); other edits are ignored. A name and `step`
    are enough. A strategy may have any attribute of `BaseStrategy`, with or without subclassing it.
    """

    @property
    def name(self) -> str:
        """The name of the strategy."""

    def step(self, view: View) -> Iterable[Replace | Fold]:
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
    """The rule that cuts oversized results before the strategy is asked."""
    clear_tool_inputs: "ToolInputs | None" = None
    """The rule that shortens long arguments of successful calls."""
    fold_steps: int | None = None
    """The age in requests from which finished steps may be folded, for strategies that do; None if it never does."""
    every_request: bool = False
    """Whether the strategy is asked at each request, and not only above the safe zone."""
    notes: tuple[str, ...] = ()
    """Texts for every report about the strategy, such as a warning."""

    # Optional methods. None means that the strategy does not have the method, so the walk does not call it.
    check_parameters: "Callable[[], None] | None" = None
    """Raise SettingsError for a parameter that cannot be used. Called before a walk begins."""
    begin: "Callable[[], Strategy] | None" = None
    """Create the object with `step` for one walk, for strategies that remember something between requests."""
    for_prices: "Callable[[Prices], Strategy] | None" = None
    """Return the strategy for the prices of the model and the cache in the settings."""
    reprice: Callable[[Any], None] | None = None
    """Switch to a strategy with new prices. Called on the object from `begin` if the cache's lifetime changes."""
    explain: "Callable[[], Rationale] | None" = None
    """Return the reasons that `--explain` shows. Called on the object from `begin` after the walk."""
    has_written: Callable[[ToolResult], bool] | None = None
    """Return whether a result is a text that the strategy wrote, in pruned output that is passed back."""

    def step(self, view: View) -> Iterable[Replace | Fold]:
        """Return the edits to make at a request; what is cleared or folded stays so."""
        raise NotImplementedError


SAID_SHARE = 0.65  # the share of a summary that the user's words may take before they are shortened
SAID_TOKENS = 8  # tokens that a summary adds around each text of the user
SAID_HEADING_TOKENS = 24  # tokens of the heading above the user's words in a summary


@dataclass(frozen=True, slots=True)
class Group:
    """Messages that may go together, with their tokens. A group never holds a call without its result.

    Groups with a lower `rank` go first. `ends_turn` is True if the user's next turn begins after the group. `said` is
    the number of tokens by which a summary's room must grow so that the user's words in the group are not shortened.
    """

    messages: tuple[int, ...]
    tokens: int
    rank: int = 0
    ends_turn: bool = False
    said: int = 0


class FoldView(View, Protocol):
    """A view for strategies that fold or drop messages, with the groups of messages that may go."""

    @property
    def count(self) -> int:
        """The number of messages in the prompt, without system messages and the summary."""

    @property
    def room(self) -> int:
        """The maximum tokens of the summary's text; 0 if there is no summary."""

    @property
    def turn(self) -> int:
        """The number of the user's turn, from 1; 0 before the first."""

    @property
    def iteration(self) -> int:
        """The number of the request within the user's turn, from 1."""

    def groups(self, size: int = 1, keep: int = 0) -> list[Group]:
        """Return the removable groups, in order of removal, each of at least `size` messages if there are enough.

        No group holds the last `keep` messages, the user's current request, retained messages (such as system
        messages), or messages that the model has not seen yet.
        """

    def least_harmful(self, keep: int, excess: float) -> list[Group]:
        """Return messages that may go although no cut is safe, without the last `keep`. No result loses its call.

        If `excess` is above 0, return only as many messages as are needed to save that number of tokens.
        """

    def opening(self) -> list[Group]:
        """Return the groups that must go so that the conversation begins with the user, if its provider requires it."""

    def gain(self, tokens: int, room: int) -> int:
        """Return the tokens saved by folding messages with `tokens` tokens into a summary of at most `room`."""

    def added(self, room: int) -> int:
        """Return the tokens that the summary adds to the prompt if it gets at most `room`."""


class FoldingStrategy(Protocol):
    """Decide what to fold or drop. A folding strategy is asked at each request.

    Each edit is applied as soon as it is yielded, so the view reflects it when `step` continues. The pruner recognizes
    a subclass of `BaseFoldingStrategy`, or an attribute `folds` or `may_drop` that is a bool, or a `retain` that is a
    `Retention`.
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
    """Whether the strategy removes messages; False for one that only shortens results."""
    drops: bool = True
    """Whether the user's words may be dropped with messages that go without a summary."""
    summarizer: Callable[..., object] | str | None = None
    """The summarizer, or its name; None for the pruner's."""
    style: str | None = None
    """The style, for summarizers that support several."""
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
    """A strategy's option that the walk applies; `in_text` is an example of how to type it."""

    in_text: ClassVar[str]

    def check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""


Kind = TypeVar("Kind", bound=Option)


def option(strategy: object, name: str, kind: type[Kind]) -> Kind | None:
    """Get and check an option of a strategy; None if it is not set. Raises SettingsError for a wrong value."""
    value = getattr(strategy, name, None)
    if value is None:
        return None
    if not isinstance(value, kind):
        such_as = f"{kind.__name__}, such as {kind.__name__}(...), or in a text {name}={kind.in_text}"
        raise SettingsError(f"the strategy's {name} is {value!r}: give a {such_as}")
    value.check()
    return value


Edit = TypeVar("Edit", bound=Replace | Fold)


MAKERS = "such as candidate.cleared(…) and candidate.replaced(…), or those that the view makes"


def edits_of(strategy: object, step: object, kind: type[Edit] | UnionType) -> Iterator[Edit]:
    """Iterate over the edits that a strategy's method returned. Raises SettingsError for anything else."""
    name = name_of(strategy)
    if not isinstance(step, Iterable):
        raise SettingsError(f"step of the strategy {name} returned {step!r}: give its edits in a list, [] for none")
    # One by one, since a folding strategy sees the effect of each edit before it makes the next.
    for edit in step:
        if not isinstance(edit, kind):
            raise SettingsError(f"step of the strategy {name} returned {edit!r}: return edits, {MAKERS}")
        yield edit


def folds_steps(strategy: object) -> bool:
    """Return whether a strategy may fold finished steps."""
    return isinstance(strategy, BaseStrategy) and strategy.fold_steps is not None


def name_of(strategy: object) -> str:
    """Return the name of a strategy: its attribute, or else its class."""
    return str(getattr(strategy, "name", type(strategy).__name__))


def asks_always(strategy: object) -> bool:
    """Return whether a strategy is asked at each request, and not only above the safe zone."""
    return getattr(strategy, "every_request", False) is True


def folds(strategy: object) -> bool:
    """Return whether a strategy needs a `FoldView`: by its base class, or else by an attribute of folding strategies.

    The value of the attribute counts too, since a clearing strategy may have a field of that name, such as a number of
    results to `retain`.
    """
    if isinstance(strategy, BaseStrategy | BaseFoldingStrategy):
        return isinstance(strategy, BaseFoldingStrategy)
    has_flag = any(isinstance(getattr(strategy, name, None), bool) for name in ("folds", "may_drop"))
    return has_flag or isinstance(getattr(strategy, "retain", None), Retention)


def stepper(strategy: Strategy) -> Strategy:
    """Check a strategy, and return the object whose `step` one walk calls: what `begin` returns, or else itself."""
    check: Callable[[], None] | None = getattr(strategy, "check_parameters", None)
    if callable(check):
        check()
    begin: Callable[[], Strategy] | None = getattr(strategy, "begin", None)
    return begin() if callable(begin) else strategy


def reprice(known: Strategy, strategy: Strategy) -> Strategy:
    """Return the object whose `step` a walk calls once prices change. It keeps what `known` remembers."""
    if not callable(getattr(strategy, "begin", None)):  # it remembers nothing
        return strategy
    reprice: Callable[[Strategy], None] | None = getattr(known, "reprice", None)
    if callable(reprice):
        reprice(strategy)
    return known


def has_written(strategy: object, result: ToolResult) -> bool:
    """Return whether a strategy says that it wrote a result's text."""
    ask: Callable[[ToolResult], bool] | None = getattr(strategy, "has_written", None)
    return bool(ask(result)) if callable(ask) else False


def _no_reason(result: ToolResult) -> str:
    return ""


@dataclass(frozen=True)
class Rationale:
    """A strategy's reasons: a text for each decision, and a short text on why a result stays ("" if unknown).

    `why_kept` is a module-level function or a `partial` of one, so that reports can be pickled.
    """

    decisions: tuple[str, ...] = ()
    why_kept: Callable[[ToolResult], str] = _no_reason


NO_RATIONALE = Rationale()


def rationale_of(known: object) -> Rationale:
    """Return the rationale of the object that a walk asked; `NO_RATIONALE` if it has no method `explain`."""
    explain: Callable[[], Rationale] | None = getattr(known, "explain", None)
    return explain() if callable(explain) else NO_RATIONALE


@dataclass(frozen=True)
class FoldContext:
    """Facts about a conversation besides its messages: the summary in it, and its provider's rule.

    `begins_with_user` says whether the provider of a message requires the conversation to begin with the user.
    """

    running: RunningSummary | None = None
    begins_with_user: Callable[[Entry], bool] = lambda entry: False
