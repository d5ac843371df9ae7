"""The passages of a result in which some atoms stand. Cuts texts at the ends of lines, decides nothing.

A passage is the lines of an atom with lines around them, so that it has 12 at least. Passages with fewer than three
lines between them are one. Where lines are left out, a line says how many:

    [… 200 lines left out …]
       201→def first_of(rows):
       …
    [… 88 lines left out …]
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from autoprune.apps.replay.atoms import STATED, Atom, Kind
from autoprune.apps.replay.visible import LINE_NUMBER, Text

LEFT_OUT = re.compile(r"^\[… \d+ lines? left out …\]$", re.MULTILINE)
LEAST_LINES = 12  # of a passage
MOST_BROKEN = 4  # lines on which a quote may stand
LEAST_GAP = 3  # lines; fewer are not left out
Span = tuple[int, int]  # lines


def shortened(text: str, atoms: Iterable[Atom]) -> str | None:
    """Return the passages of a text that show some atoms; None if they cannot be had by leaving lines out."""
    if LEFT_OUT.search(text):
        return None  # it is made of passages already
    lines = text.replace("\r", "").split("\n")
    texts = list(map(Text, lines))
    numbered = [LINE_NUMBER.sub("", line) for line in lines]
    spans: list[Span] = []
    for atom in atoms:
        if any(Text("\n".join(lines[start:stop])).shows(atom) for start, stop in spans):
            continue
        found = _shortest(atom, texts) if atom.kind in STATED else _place(atom, lines) or _place(atom, numbered)
        if found is None:
            return None
        spans = joined([*spans, _around(found, len(lines))])
    return _written(lines, spans)


def _place(atom: Atom, lines: Sequence[str]) -> Span | None:
    """Return the lines in which an atom stands first; None where it does not."""
    whole = "\n".join(lines)
    at = next(_offsets(atom, whole), None)
    if at is None:
        return None
    start = whole.count("\n", 0, at[0])
    return start, start + whole.count("\n", *at) + 1


def _shortest(atom: Atom, lines: Sequence[Text]) -> Span | None:
    """Return the first line that shows what an agent stated, or else the first few lines that do."""
    found = next((at for at, line in enumerate(lines) if line.shows(atom)), None)
    if found is not None:
        return found, found + 1
    spans = ((at, at + count) for count in range(2, MOST_BROKEN + 1) for at in range(len(lines) - count + 1))
    return next((span for span in spans if _joined(lines[slice(*span)]).shows(atom)), None)


def _joined(lines: Sequence[Text]) -> Text:
    return Text("\n".join(line.raw for line in lines))


def _offsets(atom: Atom, text: str) -> Iterator[Span]:
    """Yield where an atom begins and ends in a text."""
    wanted = Text.wanted(atom)
    pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)" if atom.kind in (Kind.IDENTIFIER, Kind.CODE) else re.escape(wanted)
    return (match.span() for match in re.finditer(pattern, text))


def _around(span: Span, end: int) -> Span:
    """Return a span with as many lines around it as a passage has, within a text of `end` lines."""
    more = max(0, LEAST_LINES - (span[1] - span[0]))
    start = max(0, min(span[0] - more // 2, end - max(LEAST_LINES, span[1] - span[0])))
    return start, min(end, max(span[1], start + LEAST_LINES))


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order; those with a small gap between them are one."""
    found: list[Span] = []
    for start, stop in sorted(spans):
        if found and start - found[-1][1] < LEAST_GAP:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found


def _written(lines: Sequence[str], spans: Sequence[Span]) -> str:
    """Return the lines of spans, with a line for each gap that says how many were left out."""
    written: list[str] = []
    at = 0
    for start, stop in (*spans, (len(lines), len(lines))):
        if start > at:
            written.append(f"[… {start - at} line{'s' if start - at > 1 else ''} left out …]")
        written += lines[start:stop]
        at = stop
    return "\n".join(written)
