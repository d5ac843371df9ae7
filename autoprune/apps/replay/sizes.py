"""Estimate the provider's tokens of each message of a recording, so that a cleared result is billed at its own size.

Providers count tokens differently from our tokenizer, and logs hold neither what is sent before the messages nor the
model's thinking, although later prompts hold both. So two ratios are fitted to the growth from each recorded prompt to
the next:

    growth = text · (tokens of results and of the user's words) + output · (recorded output tokens)

`output` is close to 1: all output, thinking included, stays in later prompts. The fit is robust, because prompts also
grow by things that no log holds, such as images and reminders. In a short session it stays near the usual ratio of the
model's tokenizer.

Recorded prompts are not changed. What a request sends beside its messages is the rest of its recorded prompt, and a
strategy removes from that prompt the sizes of what it removes. If no prompt is recorded, the head is assumed to have
15,000 tokens, or none if the log holds the whole prompt.

Some agents drop old thinking by themselves. Then a prompt is smaller than the one before, and the answers before it
have only their visible size.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, TypeAlias

from autoprune.apps.sessions import Recording, Request
from autoprune.conversation.transcript import Entry, Speaker, Transcript
from autoprune.wire.parsing import Format, Parser

UNKNOWN_HEAD = 15_000  # tokens
# The provider's tokens for a token that we count: `benchmarks/sizes.py` prints the fitted ratios of models.
NEWER_CLAUDE, OLDER_CLAUDE, OTHERS = 1.6, 1.22, 1.0
NEWER_FROM = {"opus": (4, 7)}  # versions; (5,) for the other families
CLAUDE = re.compile(r"claude-(?P<family>[a-z]+)-(?P<version>\d+(?:[-.]\d{1,2}(?!\d))?)")
LEAST_TEXT, MOST_TEXT = 0.75, 1.35  # times the usual ratio: a fit beyond that has other reasons
LARGEST_TEXT = 2.5  # the highest ratio if the model is not known
LEAST_OUTPUT, MOST_OUTPUT = 0.5, 1.5
USUAL_ROWS = 0.5  # growths that the usual ratios count for in a fit
USUAL_TEXT, USUAL_OUTPUT = 1_000, 500  # tokens of such a growth
ROUNDS = 20  # of a robust fit
LEAST_GROWTH = 200  # tokens: errors of smaller growths count as errors of such a one
TOLERATED = 0.02  # relative error of a growth that counts in full
LEAST_UNRECORDED = 5  # growths without a recorded output from which its size is estimated

Row: TypeAlias = tuple[float, float, float, float]  # tokens of text, of output, of both by the provider; a weight


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a recorded prompt over the previous one, and the counted tokens of the messages between them.

    `text` are the tokens of results and of the user's words, `answer` those of the model's messages. `output` is the
    number of the recorded output tokens; None if the log holds only a part of it, as older logs of Claude Code do.
    """

    request: int
    tokens: int
    text: int
    answer: int
    output: int | None


@dataclass(frozen=True, slots=True)
class Ratios:
    """The provider's tokens for each counted token of text, and for each recorded output token.

    `hidden` are the tokens that an answer has beyond its visible text, if its output is not recorded.
    """

    text: float
    output: float = 1.0
    hidden: float = 0.0

    def estimate(self, growth: Growth) -> float:
        """Estimate the growth of a prompt in the provider's tokens."""
        return self.text * growth.text + self.answer_size(growth.answer, growth.output)

    def answer_size(self, counted: int, output: int | None) -> float:
        """Estimate the provider's tokens of an answer in later prompts."""
        if output is not None:
            return self.output * output
        return self.text * counted + self.hidden if counted else 0.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The provider's tokens of each message, and of what each request sends beside its messages.

    `text` is the provider's tokens for each counted token. What a request sends beside its messages may be negative,
    because it also corrects the error of the fit.
    """

    text: float
    messages: tuple[float, ...]
    beside: tuple[float, ...]

    def prompts(self, requests: Iterable[int]) -> tuple[int, ...]:
        """Return the tokens of the unpruned prompt of each request, given the number of its messages."""
        before = list(accumulate(self.messages, initial=0.0))
        return tuple(max(0, round(before[start] + beside)) for start, beside in zip(requests, self.beside, strict=True))


class WithThinking:
    """A format whose answers also count the thinking that the log does not hold, as a live loop would count it.

    `hidden` are tokens by the id of an answer's first call.
    """

    def __init__(self, format: Format, hidden: Mapping[str, int]) -> None:
        self._format, self._hidden = format, hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._format, name)

    def parse(self, message: Mapping[str, object], at: int, parser: Parser) -> Entry:
        """Read a message, and count its thinking."""
        entry = self._format.parse(message, at, parser)
        extra = self._hidden.get(entry.calls[0].id or "", 0) if entry.calls else 0
        return replace(entry, tokens=entry.tokens + extra) if extra else entry


def fit_sizes(recording: Recording, transcript: Transcript, model: str | None) -> Sizes:
    """Estimate the sizes of a recording's messages; `model` is the one that it was recorded with, if known."""
    known = list(growths(recording.requests, transcript.entries))
    ratios = fit_ratios(known, model)
    messages = [ratios.text * entry.tokens for entry in transcript.entries]
    for answer, request in _answers(recording.requests, transcript.entries):
        counted = sum(transcript.entries[at].tokens for at in answer)
        size = ratios.answer_size(counted, recorded_output(request, counted))
        for at in answer:
            messages[at] = size * transcript.entries[at].tokens / counted
    for stop, lost in _shrunk(known, ratios):
        _drop_thinking(messages, transcript.entries[: recording.requests[stop].message], ratios.text, lost)
    return Sizes(ratios.text, tuple(messages), tuple(_beside(recording, messages)))


def growths(requests: Sequence[Request], entries: Sequence[Entry]) -> Iterator[Growth]:
    """Yield the growth from each recorded prompt to the next; `request` is the number of the later one."""
    for at, (before, now) in enumerate(pairwise(requests), 1):
        if not (before.usage and now.usage and before.usage.prompt and now.usage.prompt):
            continue
        between = entries[before.message : now.message]
        answer = sum(entry.tokens for entry in between if entry.speaker is Speaker.MODEL)
        text = sum(entry.tokens for entry in between) - answer
        yield Growth(at, now.usage.prompt - before.usage.prompt, text, answer, recorded_output(before, answer))


def _answers(requests: Sequence[Request], entries: Sequence[Entry]) -> Iterator[tuple[list[int], Request]]:
    """Yield the messages of the model between each request and the next, with the request."""
    stops = (*(each.message for each in requests[1:]), len(entries))
    for request, stop in zip(requests, stops, strict=True):
        answer = [at for at in range(request.message, stop) if entries[at].speaker is Speaker.MODEL]
        if any(entries[at].tokens for at in answer):
            yield answer, request


def recorded_output(request: Request, counted: int) -> int | None:
    """Return the recorded output tokens; None if they are not even half of what we count in the answer.

    Older logs of Claude Code record only the few tokens of an answer's first event.
    """
    recorded = request.usage.output if request.usage else 0
    return recorded if recorded and 2 * recorded >= counted else None


# Fitting


def usual_text_ratio(model: str | None) -> float:
    """Return the usual number of the provider's tokens for each token that we count, by the model's tokenizer."""
    found = CLAUDE.search((model or "").lower())
    if not found:
        return OTHERS
    version = tuple(map(int, re.split(r"[-.]", found["version"])))
    return NEWER_CLAUDE if version >= NEWER_FROM.get(found["family"], (5,)) else OLDER_CLAUDE


def fit_ratios(known: Iterable[Growth], model: str | None) -> Ratios:
    """Fit the ratios to recorded growths. Shrinking prompts do not count."""
    grown = [each for each in known if each.tokens > 0]
    unrecorded = [each for each in grown if each.output is None and each.answer]
    rows = [(each.text, each.output or 0, each.tokens) for each in grown if each.output is not None or not each.answer]
    is_recorded = any(output for _, output, _ in rows)
    if not is_recorded and len(unrecorded) >= LEAST_UNRECORDED:  # then all answers count as equally large
        rows += ((each.text, USUAL_OUTPUT, each.tokens) for each in unrecorded)
    usual = usual_text_ratio(model)
    text, output = _fit(rows, usual)
    text = min(max(LEAST_TEXT * usual, text), MOST_TEXT * usual if model else LARGEST_TEXT)
    output = output if is_recorded else 1.0
    hidden = 0.0
    if len(unrecorded) >= LEAST_UNRECORDED:
        hidden = max(0.0, median(each.tokens - text * (each.text + each.answer) for each in unrecorded))
    return Ratios(text, output, hidden)


def _fit(known: Sequence[tuple[int, int, int]], usual: float) -> tuple[float, float]:
    """Fit the ratios of text and output by least squares, with less weight for growths far from the fit."""
    rows = [(text, output, total, max(LEAST_GROWTH, total) ** -2.0) for text, output, total in known]
    prior: list[Row] = [
        (USUAL_TEXT, 0, usual * USUAL_TEXT, USUAL_ROWS / USUAL_TEXT**2),
        (0, USUAL_OUTPUT, USUAL_OUTPUT, USUAL_ROWS / USUAL_OUTPUT**2),
    ]
    text, output = usual, 1.0
    for _ in range(ROUNDS if rows else 0):
        errors = [weight**0.5 * abs(total - text * x - output * y) for x, y, total, weight in (*rows, *prior)]
        limit = max(TOLERATED, 1.5 * median(errors[: len(rows)]))
        trusted = (min(1.0, limit / error) if error else 1.0 for error in errors)
        weighed = zip((*rows, *prior), trusted, strict=True)
        text, output = _solve([(x, y, total, weight * trust) for (x, y, total, weight), trust in weighed])
    return text, min(max(LEAST_OUTPUT, output), MOST_OUTPUT)


def _solve(rows: Sequence[Row]) -> tuple[float, float]:
    """Solve weighted least squares for the factors of the first two columns, whose sum is the third."""

    def product(one: int, other: int) -> float:
        return sum(row[one] * row[other] * row[3] for row in rows)

    xx, xy, yy, xt, yt = product(0, 0), product(0, 1), product(1, 1), product(0, 2), product(1, 2)
    determinant = xx * yy - xy * xy
    return (xt * yy - yt * xy) / determinant, (yt * xx - xt * xy) / determinant


# Prompts


def _shrunk(known: Sequence[Growth], ratios: Ratios) -> Iterator[tuple[int, float]]:
    """Yield the requests whose prompts are smaller than the previous ones, and by how much less than estimated.

    A prompt that is as large as before at the next request belonged to another conversation.
    """
    for at, each in enumerate(known):
        lost = ratios.estimate(each) - each.tokens
        after = known[at + 1] if at + 1 < len(known) else None
        if each.tokens < 0 and not (after and after.tokens - ratios.estimate(after) > lost / 2):
            yield each.request, lost


def _drop_thinking(messages: list[float], entries: Sequence[Entry], text: float, lost: float) -> None:
    """Reduce the sizes of answers towards what is visible of them, by up to `lost` tokens."""
    answers = ((at, entry) for at, entry in enumerate(entries) if entry.speaker is Speaker.MODEL)
    hidden = {at: extra for at, entry in answers if (extra := messages[at] - text * entry.tokens) > 0}
    total = sum(hidden.values())
    share = min(1.0, lost / total) if total else 0.0
    for at, tokens in hidden.items():
        messages[at] -= share * tokens


def _beside(recording: Recording, messages: Sequence[float]) -> Iterator[float]:
    """Yield what each request sends beside its messages: the rest of its recorded prompt, or that of the one before."""
    before = list(accumulate(messages, initial=0.0))
    rests = [
        each.usage.prompt - before[each.message] if each.usage and each.usage.prompt else None
        for each in recording.requests
    ]
    unknown = 0.0 if recording.holds_prompt else UNKNOWN_HEAD
    newest = next((each for each in rests if each is not None), unknown)
    for rest in rests:
        newest = newest if rest is None else rest
        yield newest
