"""The clairvoyant over passages: an upper bound for strategies that shorten results to what is needed of them.

A passage is the lines that contain an atom, with surrounding lines, at least 12 in all. Passages with fewer than three
lines between them are merged. A line in place of each gap gives the number of missing lines:

    [… 200 lines left out …]
       201→def first_of(rows):
       …
    [… 88 lines left out …]
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autoprune.apps.replay.atoms import STATED, Atom, Kind
from autoprune.apps.replay.clairvoyant import CarryingCost, Clairvoyant, Place, needs_of, place
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.visible import LINE_NUMBER, Text
from autoprune.conversation.edits import Replace
from autoprune.conversation.transcript import Part
from autoprune.economics import Prices
from autoprune.planning.view import Candidate

SHORTENED = "the rest is never needed again"  # the reason of an edit
LEAST_SAVED = 300  # tokens: a result is shortened to passages only if it saves this much
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


@dataclass(frozen=True)
class PassagesClairvoyant(Clairvoyant):
    """A clairvoyant that cuts a result that is needed later to its needed passages, if that saves 300 tokens."""

    name = "clairvoyant_passages"

    def begin(self) -> "_Passages":
        """Start a walk with a new account."""
        return _Passages(self)


class _Passages(CarryingCost):
    def __init__(self, strategy: Clairvoyant) -> None:
        super().__init__(strategy)
        self._known: dict[tuple[Part, tuple[Atom, ...]], tuple[str | None, int]] = {}
        self._shortened: set[Place] = set()
        self._places: dict[Part, Place] = {}  # of the results that can be shortened

    def make(self, edits: Sequence[Replace]) -> None:
        """Note the results that are shortened."""
        self._shortened.update(self._places[edit.part] for edit in edits if edit.reason == SHORTENED)

    def edit(self, candidate: Candidate, atoms: tuple[Atom, ...]) -> Replace | None:
        """Clear a result that is not needed again, or cut it to its needed passages if that saves enough."""
        if not atoms:
            return super().edit(candidate, atoms)
        # A result is shortened once. Shortening it further as needs pass would change the walk, but a prune of the
        # output, which sees only the passages, could not do it: pruning twice would differ from pruning once.
        self._places[candidate.part] = at = place(candidate.result)
        if at in self._shortened or candidate.saves < LEAST_SAVED:
            return None
        text, more = self._passages(candidate, atoms)
        saved = candidate.saves - more
        return replace(candidate.replaced(text, SHORTENED), saved=saved) if text and saved >= LEAST_SAVED else None

    def _passages(self, candidate: Candidate, atoms: tuple[Atom, ...]) -> tuple[str | None, int]:
        """Find the passages that show the atoms, and how many more tokens they take than the placeholder."""
        part = candidate.part
        if (part, atoms) not in self._known:
            text = cut_to_passages(part.text, atoms)
            more = part.count(part.with_text(text)) - part.count(part.with_text(candidate.text)) if text else 0
            self._known[part, atoms] = text, more
        return self._known[part, atoms]


class ClairvoyantPassages:
    """The policy `clairvoyant_passages`, of which a replay makes a strategy for each episode."""

    @staticmethod
    def for_episode(episode: Episode, prices: Prices) -> PassagesClairvoyant:
        """Create a strategy that knows an episode's later needs."""
        return PassagesClairvoyant(needs_of(episode), prices)
