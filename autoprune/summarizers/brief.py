"""The question to a summarizer, its answer, and what a summarizer may offer."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, TypeAlias

from autoprune.facts.utterances import Utterance
from autoprune.tokens import Count

CODE_CHARACTERS = 16


@dataclass(frozen=True)
class Brief:
    """A question: sum up `utterances`, oldest first, that go on from the summary `previous` ("" for none).

    The summary takes the place of both and has at most `max_tokens` tokens by `count`. `request` is what the user
    wants now, which stays in the conversation in full ("" where that is not known). `first_request` is the user's first
    request once it has left the conversation, so that the summary must hold it; "" if it has not, or is not known; None
    if it is the first request in `utterances`.
    """

    utterances: tuple[Utterance, ...] = field(repr=False)
    previous: str = ""
    max_tokens: int = 2_000
    count: Count = field(default=len, repr=False)
    request: str = ""
    first_request: str | None = None


@dataclass(frozen=True)
class Written:
    """A summary, with the tokens and dollars that it took, where the provider said so.

    `notes` say in words whatever was not done as asked; they come into the report.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    model: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """The answer of a summarizer that gave no summary, with the reason in words."""

    why: str


@dataclass(frozen=True)
class Refused(Failed):
    """The answer to a question that was not asked, as the calls that one prune may make are used up."""


Answer: TypeAlias = Written | Failed


@dataclass(frozen=True)
class Spent:
    """Calls of a model, their tokens and dollars, texts that were found in the store, and notes on what went wrong."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    found: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: "Spent") -> "Spent":
        """Return the sum; a cost that is not known counts as none."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Spent(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            self.found + other.found,
            (*self.notes, *other.notes),
        )


NOTHING = Spent()


class Summarizer(Protocol):
    """Turn a brief into a text, at once or awaited.

    Any function of a brief is a summarizer, and so is any object that can be called with one. What it raises counts
    as a failure, which the report tells. An object may offer more; each of these is optional:

    - `calls_model`: False for one that needs no model and waits for nobody. Default: True.
    - `may_wait`: True for one that may take long, so that it is called in a thread. Default: as `calls_model`.
    - `identity`: a text that differs wherever the same brief would be answered in another way; texts that were written
      before are found by it. Default: the name of the function or class.
    - `keeps_request`: True for one whose text holds the user's first request in a section of its own (see `sections`).
      Default: False, and the request is put above the text.
    - `fallback`: the summarizer that is asked where this one fails; None for nobody. Default: a `Digest`.
    - `steps(brief)`: for one that asks other summarizers; run in place of the call. A generator that yields lists of
      `Ask`, which may be answered at the same time, is sent their answers in the same order, and returns its own
      answer. So it knows nothing of threads or of asyncio.
    - `with_style(style)`: a summarizer that writes in a style of that name.
    - `with_instructions(instructions, alone)`: a summarizer that writes as the instructions say, in place of its own
      style; with `alone` also without its own instructions.
    - `with_model(llm)`: a summarizer that asks the pruner's model; `Failed` where it cannot, with the reason.
    - `in_parts()`: a summarizer that reads in parts what is too long for its window.
    - `reads_in_parts`: True for one that does, cutting between the utterances of a brief. Default: False.
    """

    def __call__(self, brief: Brief, /) -> object:
        """Return the summary as a text or as `Written`, or an awaitable of one; `Failed` says why there is none."""


# Each optional attribute of a summarizer, with the default that `Summarizer` documents.


def calls_model(summarizer: object) -> bool:
    """Return whether a summarizer calls a model."""
    return getattr(summarizer, "calls_model", True) is not False


def may_wait(summarizer: object) -> bool:
    """Return whether a summarizer may take long: one that calls a model, or a caller's function."""
    return bool(getattr(summarizer, "may_wait", calls_model(summarizer)))


def keeps_request(summarizer: object) -> bool:
    """Return whether a summarizer's text holds the user's first request in a section of its own."""
    return getattr(summarizer, "keeps_request", False) is True


def reads_in_parts(summarizer: object) -> bool:
    """Return whether a summarizer reads a long brief in parts, cut between its utterances."""
    return getattr(summarizer, "reads_in_parts", False) is True


def offers(summarizer: object, name: str) -> bool:
    """Return whether a summarizer or its class has an attribute of its own; a mock's answer to any name is none."""
    return hasattr(type(summarizer), name) or name in getattr(summarizer, "__dict__", ())


def identity_of(summarizer: object) -> str:
    """Return what a summarizer calls itself; else the full name of the function, or of the class."""
    own = getattr(summarizer, "identity", None)
    named = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return own if isinstance(own, str) else f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True)
class Ask:
    """One question to one summarizer."""

    summarizer: Summarizer
    brief: Brief


Steps: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Answer]
Parameters: TypeAlias = Mapping[str, object]


def with_usage(text: str, answers: Iterable[Answer], notes: Iterable[str] = ()) -> Written:
    """Return a text that is made of several answers, with the sum of what they took and all their notes."""
    given = [answer for answer in answers if isinstance(answer, Written)]
    costs = [answer.cost for answer in given]
    return Written(
        text,
        sum(answer.input_tokens for answer in given),
        sum(answer.output_tokens for answer in given),
        None if None in costs or not costs else sum(cost for cost in costs if cost is not None),
        next((answer.model for answer in given if answer.model), None),
        tuple(dict.fromkeys((*(note for answer in given for note in answer.notes), *notes))),
    )


def code_of(brief: Brief) -> str:
    """Return a code that nothing in the brief can hold: whoever wrote a part of it would have to know all of it."""
    digest = sha256()
    for text in _texts(brief):
        digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:CODE_CHARACTERS]


def _texts(brief: Brief) -> Iterator[str]:
    yield from (brief.previous, brief.request)
    for utterance in brief.utterances:
        yield utterance.words
        yield from (result.text for result in utterance.results)
