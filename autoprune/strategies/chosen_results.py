"""Results chosen to be cleared, with their placeholders: what they save, and which are enough.

The mapping keeps the order in which the results should go, those worth least first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TypeAlias

from autoprune.conversation.edits import Fold
from autoprune.planning.view import Candidate, View
from autoprune.strategies.bills import Cut

Clearing: TypeAlias = dict[tuple[Candidate, str], int]  # candidates with their placeholders, and the tokens that saves

LATER = 2.0  # above the safe zone, results worth up to 2 times as much may go if that rewrites less of the cache


def total(clearing: Clearing) -> int:
    """Return the tokens that placeholders save."""
    return sum(clearing.values())


def results_text(clearing: Clearing) -> str:
    """Return the number of cleared results and the tokens saved, as text."""
    return f"{len(clearing):,} result{'s' if len(clearing) > 1 else ''} cleared, {total(clearing):,} tokens saved"


def cut_of(clearing: Clearing) -> Cut:
    """Return what placeholders change in the prompt."""
    return Cut(min(map(message_of, clearing), default=inf), total(clearing))


def largest_cut(chosen: Sequence[Candidate]) -> Cut:
    """Return a cut that saves more than any placeholders for these candidates."""
    return Cut(min(each.part.location.message for each in chosen), sum(each.result.tokens for each in chosen))


def message_of(item: tuple[Candidate, str]) -> int:
    """Return the index of the message that a placeholder goes into."""
    return item[0].part.location.message


def until(clearing: Clearing, wanted: float) -> Iterator[tuple[tuple[Candidate, str], int]]:
    """Yield placeholders until they save the wanted tokens."""
    for each, saves in clearing.items():
        if wanted <= 0:
            return
        yield each, saves
        wanted -= saves


def weigh(view: View, texts: Iterable[tuple[Candidate, str]]) -> Clearing:
    """Count the tokens that placeholders save. Placeholders that save nothing are dropped."""
    weighed = ((each, text, view.saves(each, text)) for each, text in texts)
    return {(each, text): saves for each, text, saves in weighed if saves > 0}


def outside(folds: Iterable[Fold], clearing: Clearing) -> Clearing:
    """Return the placeholders that do not stand in messages that are folded."""
    folded = {at for fold in folds for at in fold.messages}
    return {item: saves for item, saves in clearing.items() if message_of(item) not in folded}


def late_in_prompt(clearing: Clearing, worths: Mapping[Candidate, float], wanted: float) -> Clearing:
    """Choose placeholders that save `wanted` tokens: least worth first, as late in the prompt as worth allows."""
    most = LATER * max((worths.get(each, 0.0) for (each, _), _ in until(clearing, wanted)), default=0.0)
    allowed = {item: saves for item, saves in clearing.items() if worths.get(item[0], 0.0) <= most}
    late = {item: allowed[item] for item in sorted(allowed, key=message_of, reverse=True)}
    first = min((message_of(item) for item, _ in until(late, wanted)), default=0)
    return dict(until({item: allowed[item] for item in allowed if message_of(item) >= first}, wanted))


def cached_after(view: View, cut: Sequence[Candidate]) -> int:
    """Return the cached tokens that clearing candidates would rewrite: all tokens after the first candidate."""
    first = min(each.part.location.message for each in cut)
    cached = sum(map(view.weight, range(first + 1, view.sent)))
    return max(0, cached - sum(each.saves for each in cut if first < each.part.location.message < view.sent))
