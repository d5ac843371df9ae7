"""Strategies that know the agent's later actions: an upper bound for savings, since no live loop can use them.

`Clairvoyant` clears whole results that are never needed again, as soon as clearing pays. With passages, it also
shortens results that are needed later to the passages that are needed.

A passage is the lines that contain an atom, with surrounding lines, at least 12 in all. Passages with fewer than three
lines between them are merged. A line in place of each gap gives the number of missing lines:

    [… 200 lines left out …]
       201→def first_of(rows):
       …
    [… 88 lines left out …]
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autoprune.apps.replay.atoms import STATED, Atom, Kind
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.visible import LINE_NUMBER, Text
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Part, Path, ToolResult
from autoprune.economics import Prices
from autoprune.planning.view import Candidate, View

LEFT_OUT = re.compile(r"^\[… \d+ lines? left out …\]$", re.MULTILINE)
LEAST_LINES = 12  # lines of a passage
MOST_BROKEN = 4  # lines that a quote may span
LEAST_GAP = 3  # lines; smaller gaps are kept
Span = tuple[int, int]  # lines


def cut_to_passages(text: str, atoms: Iterable[Atom]) -> str | None:
    """Shorten a text to the passages that show the given atoms; None if no set of lines shows all of them."""
    if LEFT_OUT.search(text):
        return None  # the text consists of passages already
    lines = text.replace("\r", "").split("\n")
    texts = list(map(Text, lines))
    numbered = [LINE_NUMBER.sub("", line) for line in lines]
    spans: list[Span] = []
    for atom in atoms:
        if any(Text("\n".join(lines[start:stop])).shows(atom) for start, stop in spans):
            continue
        span = (
            _find_statement(atom, texts)
            if atom.kind in STATED
            else _find_lines(atom, lines) or _find_lines(atom, numbered)
        )
        if span is None:
            return None
        spans = merge_spans([*spans, _widen(span, len(lines))])
    return _join_spans(lines, spans)


def _find_lines(atom: Atom, lines: Sequence[str]) -> Span | None:
    """Find the span of the first lines that contain an atom; None if there are none."""
    whole = "\n".join(lines)
    at = next(_offsets(atom, whole), None)
    if at is None:
        return None
    start = whole.count("\n", 0, at[0])
    return start, start + whole.count("\n", *at) + 1


def _find_statement(atom: Atom, lines: Sequence[Text]) -> Span | None:
    """Find the first line that shows a statement, or else the first few consecutive lines that show it together."""
    first = next((at for at, line in enumerate(lines) if line.shows(atom)), None)
    if first is not None:
        return first, first + 1
    spans = ((at, at + count) for count in range(2, MOST_BROKEN + 1) for at in range(len(lines) - count + 1))
    raw = [line.raw for line in lines]
    return next((span for span in spans if Text("\n".join(raw[slice(*span)])).shows(atom)), None)


def _offsets(atom: Atom, text: str) -> Iterator[Span]:
    """Yield the spans of an atom in a text."""
    wanted = Text.search_text(atom)
    pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)" if atom.kind in (Kind.IDENTIFIER, Kind.CODE) else re.escape(wanted)
    return (match.span() for match in re.finditer(pattern, text))


def _widen(span: Span, end: int) -> Span:
    """Widen a span to the size of a passage, within a text of `end` lines."""
    more = max(0, LEAST_LINES - (span[1] - span[0]))
    start = max(0, min(span[0] - more // 2, end - max(LEAST_LINES, span[1] - span[0])))
    return start, min(end, max(span[1], start + LEAST_LINES))


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Sort spans, and merge those with small gaps between them."""
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start - merged[-1][1] < LEAST_GAP:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _join_spans(lines: Sequence[str], spans: Sequence[Span]) -> str:
    """Join the lines of some spans, with a line for each gap that says how many lines were left out."""
    written: list[str] = []
    at = 0
    for start, stop in (*spans, (len(lines), len(lines))):
        if start > at:
            written.append(f"[… {start - at} line{'s' if start - at > 1 else ''} left out …]")
        written += lines[start:stop]
        at = stop
    return "\n".join(written)


LEAST_SAVED = 300  # tokens: a result is shortened to passages only if it saves this much
Place = tuple[Path, int | None]
Needs = Sequence[tuple[int, Atom]]  # of a result, with the requests as a walk numbers them


@dataclass(frozen=True)
class Clairvoyant:
    """Clear results that no later action needs, as soon as carrying them costs as much as clearing them.

    `needed` holds the atoms that later actions need of each result, by its place; all other results are never needed.
    With `passages`, a result that is needed later is cut to its needed passages if that saves at least 300 tokens.
    """

    needed: Mapping[Place, Needs] = field(repr=False)
    prices: Prices
    threshold: float = 1.0
    passages: bool = False
    every_request = True

    @property
    def name(self) -> str:
        """The name, which tells whether passages are kept."""
        return "clairvoyant_passages" if self.passages else "clairvoyant"

    def begin(self) -> "_Account":
        """Start a walk with a new account."""
        return _Account(self)

    def step(self, view: View) -> Iterator[Replace]:
        """Clear what a walk without history would clear."""
        return self.begin().step(view)


@dataclass(frozen=True)
class _Cut:
    """A candidate, its replacement text (None for the placeholder), and the tokens that the replacement saves."""

    candidate: Candidate
    text: str | None
    saves: int

    @property
    def edit(self) -> Replace:
        if self.text is None:
            return self.candidate.cleared("never needed again")
        return self.candidate.replaced(self.text, "the rest is never needed again")


class _Account:
    def __init__(self, strategy: Clairvoyant) -> None:
        self.name = strategy.name
        self._strategy = strategy
        self._owed = 0.0
        self._known: dict[tuple[Part, tuple[Atom, ...]], tuple[str | None, int]] = {}
        self._shortened: set[Place] = set()

    def step(self, view: View) -> Iterator[Replace]:
        strategy = self._strategy
        cuts = [cut for each in view.candidates() if (cut := self._find_cut(each, view.request))]
        if not cuts:
            return
        self._owed += strategy.prices.read * sum(cut.saves for cut in cuts)
        lost = (strategy.prices.write - strategy.prices.read) * tokens_behind(view, cuts)
        if view.pause > strategy.prices.life or self._owed >= strategy.threshold * lost:
            self._owed = 0.0
            self._shortened.update(place(cut.candidate.result) for cut in cuts if cut.text is not None)
            yield from (cut.edit for cut in cuts)

    def _find_cut(self, candidate: Candidate, request: int) -> _Cut | None:
        """Find the possible cut of a candidate; None if (nearly) all of it is needed from this request on."""
        needs = self._strategy.needed.get(place(candidate.result), ())
        atoms = tuple(dict.fromkeys(atom for at, atom in needs if at >= request))
        if not atoms:
            return _Cut(candidate, None, candidate.saves)
        # A result is shortened once. Shortening it further as needs pass would change the walk, but a prune of the
        # output, which sees only the passages, could not do it: pruning twice would differ from pruning once.
        is_shortened = place(candidate.result) in self._shortened
        if not self._strategy.passages or is_shortened or candidate.saves < LEAST_SAVED:
            return None
        text, more = self._passages(candidate, atoms)
        return _Cut(candidate, text, candidate.saves - more) if text and candidate.saves - more >= LEAST_SAVED else None

    def _passages(self, candidate: Candidate, atoms: tuple[Atom, ...]) -> tuple[str | None, int]:
        """Find the passages that show the atoms, and how many more tokens they take than the placeholder."""
        part = candidate.part
        cut = self._known.get((part, atoms))
        if cut is None:
            text = cut_to_passages(part.text, atoms)
            more = part.count(part.with_text(text)) - part.count(part.with_text(candidate.text)) if text else 0
            cut = self._known[part, atoms] = text, more
        return cut


def tokens_behind(view: View, cuts: Sequence[_Cut]) -> int:
    """Count the cached tokens after the first cut, which have to be written again."""
    places = [(cut.candidate.part.location.message, cut.saves) for cut in cuts]
    first = min(at for at, _ in places)
    cached = sum(view.weight(at) for at in range(first + 1, view.sent))
    return max(0, cached - sum(saves for at, saves in places if first < at < view.sent))


def clairvoyant(episode: Episode, prices: Prices, threshold: float = 1.0, *, passages: bool = False) -> Clairvoyant:
    """Create a strategy that knows an episode's later needs and keeps the newest source of each atom."""
    needed: dict[Place, list[tuple[int, Atom]]] = {}
    results = episode.transcript.results
    for need in (each for each in episode.evidence.needs if not each.written):
        needed.setdefault(place(results[need.sources[-1]]), []).append((episode.walk_numbers[need.request], need.atom))
    return Clairvoyant(needed, prices, threshold, passages=passages)


def place(result: ToolResult) -> Place:
    """Return the place of a result, which is the same each time the message is read."""
    return result.location.path, result.location.start
