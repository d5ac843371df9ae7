"""What a session's log says of its bill: prices, the life of the cache, and what of each prompt was cached.

A provider counts other tokens than we do, and what it puts before the messages is not in the log. So the size of a
prompt is taken for `ratio * counted + head`, where both come from a fit through the recorded sizes.

Of each request the log may tell how much of the prompt was read from the cache. Where it was half of the prompt before
or more, the cache was warm, and a replay reads the same share of what its prompt has in common with the one before.
Where it was less, the cache was cold, and a replay reads no more than was read then. Where the log says nothing, the
cache is cold after a pause longer than its life.

Older logs of Claude Code hold of an answer's tokens what its first event said, which is a few. So a count that is less
than half of what stands in the log is not believed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from autoprune.apps.sessions import Recording, Request, Usage
from autoprune.economics import Prices, prices

UNKNOWN_HEAD = 15_000  # tokens
LEAST_RATIO, MOST_RATIO = 0.8, 3.0  # of a provider's tokens to counted ones
OUTLIER = 0.1  # of a prompt's size: what is farther from the fit is none of this conversation's
WARM = 0.5  # share of the prompt before, from which on the cache was warm


@dataclass(frozen=True, slots=True)
class Billing:
    """What one request is billed by: the prices of its model and cache, and the tokens of its answer.

    `hit` is the share of the prompt before that was read from the cache, `read` the tokens; None if nobody knows.
    """

    prices: Prices
    answer: int
    hit: float | None = None
    read: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """How many tokens the provider counts for messages: `ratio` for each counted one, and `head` before them all."""

    ratio: float
    head: float

    def of(self, counted: float) -> float:
        """Return the provider's tokens of a prompt with so many counted ones."""
        return self.ratio * counted + self.head


def size(recording: Recording, before: Sequence[int]) -> Size:
    """Return the size of prompts, from those that the log records.

    `before` are the counted tokens before each message. Where no size is recorded, 15,000 tokens are taken for what
    stands before the messages, or none where the log holds the whole prompt.
    """
    known = [
        (before[each.message], each.usage.prompt)
        for each in recording.requests
        if each.usage and each.usage.prompt and each.message < len(before)
    ]
    if not known:
        return Size(1.0, 0 if recording.holds_prompt else UNKNOWN_HEAD)
    fitted = _fit(known)
    near = [(counted, real) for counted, real in known if abs(fitted.of(counted) - real) <= OUTLIER * real]
    return _fit(near) if len(near) >= len(known) / 2 else fitted


def _fit(known: Sequence[tuple[int, int]]) -> Size:
    """Return the line through points that has the least squares, with a slope that a tokenizer may have."""
    mean = sum(counted for counted, _ in known) / len(known)
    real = sum(size for _, size in known) / len(known)
    spread = sum((counted - mean) ** 2 for counted, _ in known)
    slope = sum((counted - mean) * (size - real) for counted, size in known) / spread if spread else 1.0
    ratio = min(max(LEAST_RATIO, slope), MOST_RATIO)
    return Size(ratio, max(0.0, median(size - ratio * counted for counted, size in known)))


def billings(
    recording: Recording, answers: Sequence[int], *, model: str | None = None, life: float | None = None
) -> tuple[Billing, ...]:
    """Return what each request of a recording is billed by.

    `answers` are the counted tokens of each answer, `model` the one where the log names none. `life`, in seconds, is
    taken for that of the cache whatever is recorded.
    """
    lives = tuple(_lives(recording.requests)) if life is None else (life,) * len(recording.requests)
    known: dict[tuple[str, float | None], Prices] = {}
    found: list[Billing] = []
    last: Usage | None = None
    named = next((each.model for each in recording.requests if each.model), "") or model or ""
    for request, alive, counted in zip(recording.requests, lives, answers, strict=True):
        named = request.model or named
        billed = known.setdefault((named, alive), prices(None, named, alive))
        usage = request.usage
        answer = usage.output if usage and 2 * usage.output >= counted else counted
        found.append(Billing(billed, answer, *_hit(usage, last)))
        last = usage or last
    says_nothing = not any(each.usage and each.usage.cached for each in recording.requests)
    return tuple(Billing(each.prices, each.answer) for each in found) if says_nothing else tuple(found)


def _hit(usage: Usage | None, last: Usage | None) -> tuple[float | None, int]:
    if usage is None or not usage.prompt:
        return None, 0
    whole = min(last.prompt, usage.prompt) if last and last.prompt else usage.prompt
    return min(1.0, usage.cached / whole), usage.cached


def _lives(requests: Sequence[Request]) -> Iterator[float | None]:
    """Yield how long the cache lives that each request writes; None where the log does not say."""
    life = next((request.life for request in requests if request.life), None)
    for request in requests:
        life = request.life or life
        yield life


def sources(recording: Recording, *, model: str | None, life: float | None) -> tuple[str, str]:
    """Return where a session's model and the life of its cache come from, each in a word."""
    requests = recording.requests
    is_named = any(each.model for each in requests)
    is_written = any(each.usage and (each.usage.written_5m or each.usage.written_1h) for each in requests)
    is_asked = any(each.cache_life for each in requests)
    found = "recorded" if is_written else "requested" if is_asked else "assumed"
    return "recorded" if is_named else "given" if model else "assumed", found if life is None else "given"


def recorded_cost(requests: Sequence[Request], known: Sequence[Billing]) -> float | None:
    """Return what the recorded requests cost in dollars by their usage; None where usage or a price is not known.

    A cost that the log states itself counts over the one that its tokens come to.
    """
    total = 0.0
    for request, billing in zip(requests, known, strict=True):
        usage = request.usage
        if usage is None:
            return None
        if usage.cost is not None:
            total += usage.cost
        elif billing.prices.input_price is None:
            return None
        else:
            total += _tokens_cost(usage, billing) * billing.prices.input_price
    return total if requests else None


def _tokens_cost(usage: Usage, known: Billing) -> float:
    """Return what the recorded tokens of a prompt and the tokens of its answer cost, in input tokens."""
    at = known.prices
    fresh = max(0, usage.prompt - usage.cached - usage.written)
    return at.read * usage.cached + at.write * usage.written + fresh + at.output * known.answer
