"""The brief for a summarizer, its answer, and the protocol of summarizers."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, TypeAlias

from autoprune.facts.utterances import Utterance
from autoprune.tokens import Count

CODE_CHARACTERS = 16


@dataclass(frozen=True)
class Brief:
    """The task of a summarizer: sum up `utterances`, oldest first, and the summary `previous` before them, if any.

    The new summary replaces both and has at most `max_tokens` tokens by `count`. `request` is the user's latest
    request, which stays in the conversation ("" if it is not known). `first_request` is the user's first request once
    it has left the conversation, so that the summary must contain it. It is "" if the first request has not left, or is
    not known, and None if it is the first request in `utterances`.
    """

    utterances: tuple[Utterance, ...] = field(repr=False)
    previous: str = ""
    max_tokens: int = 2_000
    count: Count = field(default=len, repr=False)
    request: str = ""
    first_request: str | None = None


@dataclass(frozen=True)
class Written:
    """A summary with warnings for the report, and its token counts and cost in dollars if the provider reports them."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    model: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """The answer of a summarizer that gave no summary, with the reason."""

    why: str


@dataclass(frozen=True)
class Refused(Failed):
    """The answer to a question that was not asked, because the prune has used up its calls or its time."""


Answer: TypeAlias = Written | Failed


@dataclass(frozen=True)
class Spent:
    """The cost of a prune's texts: model calls, tokens, dollars and stored texts `found`; `notes` are on failures."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    found: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: "Spent") -> "Spent":
        """Add two totals; an unknown cost counts as 0."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Spent(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=sum(costs) if costs else None,
            found=self.found + other.found,
            notes=(*self.notes, *other.notes),
        )


class Summarizer(Protocol):
    """Turns a brief into a text, directly or as an awaitable.

    Any callable that takes a brief is a summarizer. An exception counts as a failure, which the report mentions. A
    summarizer may have further attributes, all of them optional:

    - `calls_model`: False if it needs no model and answers at once. Default: True.
    - `may_wait`: True if it may take long, so that it is called in a thread. Default: as `calls_model`.
    - `identity`: a text that changes whenever the same brief would be answered differently; part of the key of stored
      texts. Default: the name of the function or class.
    - `keeps_request`: True if its text has a section with the user's first request (see `sections`). Default: False,
      and the request is put above the text.
    - `fallback`: the summarizer to ask if this one fails; None for none. Default: a `Digest`.
    - `steps(brief)`: for a summarizer that asks others; called in place of `__call__`. A generator that yields lists of
      `Ask`, which may be answered concurrently, is sent the answers in the same order, and returns its own answer. So
      it is independent of threads and asyncio.
    - `with_instructions(instructions, alone)`: a summarizer that follows the instructions in place of its usual ones;
      with `alone` also in place of its own instructions.
    - `with_model(llm)`: a summarizer that asks the pruner's model; `Failed` with the reason if it cannot.
    - `in_parts()`: a summarizer that reads a history in parts if it is too long for its window.
    - `reads_in_parts`: True if it does that, cutting between utterances. Default: False.
    """

    def __call__(self, brief: Brief, /) -> object:
        """Return the summary as a text or `Written`, or an awaitable of one; `Failed` if there is none."""


# Each optional attribute of a summarizer, with the default that `Summarizer` documents.


def calls_model(summarizer: object) -> bool:
    """Return whether a summarizer calls a model."""
    return getattr(summarizer, "calls_model", True) is not False


def may_wait(summarizer: object) -> bool:
    """Return whether a summarizer may take long: one that calls a model, or a caller's function."""
    return bool(getattr(summarizer, "may_wait", calls_model(summarizer)))


def keeps_request(summarizer: object) -> bool:
    """Return whether a summarizer's text has a separate section for the user's first request."""
    return getattr(summarizer, "keeps_request", False) is True


def reads_in_parts(summarizer: object) -> bool:
    """Return whether a summarizer reads a long brief in parts, cut between its utterances."""
    return getattr(summarizer, "reads_in_parts", False) is True


def offers(summarizer: object, name: str) -> bool:
    """Return whether a summarizer or its class defines an attribute; a mock's answer to any name does not count."""
    return hasattr(type(summarizer), name) or name in getattr(summarizer, "__dict__", ())


def identity_of(summarizer: object) -> str:
    """Return the summarizer's `identity`, or else the full name of the function or class."""
    own = getattr(summarizer, "identity", None)
    definition = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return own if isinstance(own, str) else f"{definition.__module__}.{definition.__qualname__}"


@dataclass(frozen=True)
class Ask:
    """A question to a summarizer."""

    summarizer: Summarizer
    brief: Brief


Steps: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Answer]


def with_usage(text: str, answers: Iterable[Answer], notes: Iterable[str] = ()) -> Written:
    """Create an answer from several: the text, with the sum of their costs and all their notes."""
    written = [answer for answer in answers if isinstance(answer, Written)]
    costs = [answer.cost for answer in written]
    return Written(
        text,
        input_tokens=sum(answer.input_tokens for answer in written),
        output_tokens=sum(answer.output_tokens for answer in written),
        cost=None if None in costs or not costs else sum(cost for cost in costs if cost is not None),
        model=next((answer.model for answer in written if answer.model), None),
        notes=tuple(dict.fromkeys((*(note for answer in written for note in answer.notes), *notes))),
    )


def code_of(brief: Brief) -> str:
    """Compute a code that cannot occur in the brief: a hash of all its texts, which none of them can contain."""
    texts = [brief.previous, brief.request]
    for utterance in brief.utterances:
        texts += [utterance.words, *(result.text for result in utterance.results)]
    digest = sha256()
    for text in texts:
        digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:CODE_CHARACTERS]
