"""Cut one oversized tool result to its head, its tail and its error lines. Reads only that text.

The text is cut in two places, so that head and tail together fill the room. Counting chunks of 4,096 characters finds
the places cheaply; they are then moved to the ends of lines. Error lines between the places are kept. With a limit of
60 tokens, the log of a build becomes:

    $ make all
    cc -c a.c
    [… 212 lines left out, 2,950 tokens in all …]
    b.c:3: error: expected ';'
    [… 90 lines left out …]
    make: *** [b.o] Error 1

Tokens can span the joints, so the counts of head, tail and lines may not add up to that of the whole. The whole is
therefore counted too. If it is over the limit, the room shrinks by the excess, and the text is cut again.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from typing import ClassVar

from autoprune.conversation.edits import append_mark
from autoprune.errors import SettingsError, check_flag, check_number, count_noun, is_share
from autoprune.facts.outcomes import error_lines
from autoprune.tokens import Count

CHUNK = 4_096  # characters that are counted at once
ROUNDS = 12  # attempts to fit the limit, each with less room
EVIDENCE_SHARE = 0.25  # the largest share of the room for error lines
TRIES = 60  # error lines that are counted at most, since counting is what takes time

# Terminal escapes without visible text: ECMA-48 control sequences, strings (titles, links, images), other escapes.
# Possessive quantifiers, so that hostile output cannot cause backtracking.
ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\r\n]*+(?:\x07|\x1b\\)|[PX^_][^\x1b]*+\x1b\\|[ -/]++[0-~]|[0-Z\\^-~])?"
)

# The markers that give the tokens of a text before it was shortened, or those that are missing. Each has its own line;
# in a text that is part of JSON, line ends are escaped.
SHORTENED = re.compile(r'\A(?:\n?<message>|")?\[… shortened from ([\d,]{1,20}) tokens? …\]')
CUT = re.compile(
    r"(?:^|\\n)\[… [\d,]{1,20} (?:line|character)s?"
    r'(?: \(([\d,]{1,20}) tokens?\) left out| left out, ([\d,]{1,20}) tokens? in all) …\](?=$|\\n|"|</)',
    re.MULTILINE,
)

Span = tuple[int, int]


@dataclass(frozen=True)
class Clamp:
    """Cut a result above `max_result_tokens` to its head and tail, with a line between them that says what is missing.

    The cut is at the end of a line, or inside a line that takes more than half of the text on its side. Lines that
    report an error are kept between head and tail, within `evidence_tokens` and a quarter of the room. `plain` also
    removes text that a terminal would not show: escape sequences, and overwritten parts of lines.

    `head` is the head's share of the room. In recorded sessions, a tail alone held clearly fewer of the names that
    later calls use than two halves did, and a head alone held slightly more. The default keeps the tail, since commands
    print their outcome last.

    The shortened text has at most `max_result_tokens` tokens and never more than the original. It is not blank, and it
    is not cut again.
    """

    in_text: ClassVar[str] = "{'max_result_tokens': 4000}"

    max_result_tokens: int | None = None
    head: float = 0.5
    evidence_tokens: int = 200
    plain: bool = False

    def check(self) -> None:
        """Raise SettingsError for a parameter that cannot be used."""
        check_number("max_result_tokens", self.max_result_tokens, 1, optional=True)
        check_number("evidence_tokens", self.evidence_tokens, 0)
        if not is_share(self.head):
            raise SettingsError(f"head is {self.head!r}: give a share between 0 and 1")
        check_flag("plain", self.plain)

    def shortened(self, text: str, count: Count, mark: str = "") -> str | None:
        """Return the text that replaces a result; None if the result should stay unchanged or no text fits.

        `mark` is appended within the limit, if there is room for it.
        """
        self.check()
        shown = plain_text(text) if self.plain else text
        limit = self.max_result_tokens
        if not shown.strip():
            return None if limit is None else _blank_marker(text, limit, count)
        if limit is None and shown == text:
            return None
        total = count(shown)
        if limit is not None and total > limit:
            return self._cut_to(shown, limit, total, count, mark)
        return shown if shown != text and total <= count(text) else None

    def may_have_cut(self, text: str, count: Count) -> bool:
        """Return whether a text can be a result that was cut or shortened to this limit.

        A file may quote a marker, so a marker alone is not enough: the text must be within the limit, and above it with
        the tokens that the marker says are missing.
        """
        limit, missing = self.max_result_tokens, missing_tokens(text)
        return limit is not None and missing > 0 and (size := count(text)) <= limit < size + missing

    def _cut_to(self, text: str, limit: int, total: int, count: Count, mark: str) -> str | None:
        """Cut a text of `total` tokens to `limit`; None if not even one character fits."""
        count_cached = cache(count)  # the same chunks are counted for each size of the room
        room = limit - count(f"\n{_marker(len(text), 'character', total, is_first=True)}\n{mark}")
        for turn in range(ROUNDS):
            if room <= 0:
                break
            result = append_mark(_join_spans(text, self._spans(text, room, count_cached), total, count), mark, gap="\n")
            over = count(result) - limit
            if over <= 0:
                return result
            # A growing part of the room, so that the rounds suffice even if counts of chunks do not add up.
            room -= max(over, room >> (ROUNDS - turn), 1)
        return _fitting_prefix(text, limit, count_cached)

    def _spans(self, text: str, room: int, count: Count) -> list[Span]:
        """Return the spans to keep, in order: the head, error lines, the tail."""
        budget = min(self.evidence_tokens, int(room * EVIDENCE_SHARE))
        evidence, cost = _evidence(text, self._gap(text, room - budget, count), budget, count)
        head, tail = self._gap(text, room - cost, count)
        spans = [(0, head)]
        for begin, end in (*sorted(evidence), (tail, len(text))):
            # An error line that touches the span before it extends that span.
            if begin <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((begin, end))
        return spans

    def _gap(self, text: str, room: int, count: Count) -> Span:
        """Return the offsets at which the head ends and the tail begins."""
        head_room = int(room * self.head)
        head = _head_end(text, _reach(text, head_room, count, is_tail=False))
        tail = _tail_start(text, len(text) - _reach(text, room - head_room, count, is_tail=True))
        return head, tail


def missing_tokens(text: str) -> int:
    """Return the tokens that the markers in a text say are missing, or were replaced; 0 without such a marker."""
    if "[… " not in text:
        return 0
    found = (*SHORTENED.finditer(text), *CUT.finditer(text))
    return max((int(next(filter(None, match.groups())).replace(",", "")) for match in found), default=0)


def plain_text(text: str) -> str:
    """Remove escape sequences and overwritten parts of lines, which a terminal would not show.

    Unlike in a terminal, text after a carriage return replaces the whole line. Line ends are unchanged, CR LF too.
    """
    visible = ESCAPES.sub("", text) if "\x1b" in text else text
    if "\r" not in visible:
        return visible
    *lines, last = visible.split("\n")
    ended = [_last_shown(line) + ("\r" if line.endswith("\r") else "") for line in lines]
    return "\n".join((*ended, _last_shown(last)))


def _last_shown(line: str) -> str:
    """Return the part of a line that a terminal shows: the text after the last carriage return inside it."""
    return line.rstrip("\r").rpartition("\r")[2]


def _reach(text: str, room: int, count: Count, *, is_tail: bool) -> int:
    """Return the number of characters from one end that fit into `room` tokens, counted by chunks."""
    size = len(text)

    def count_between(start: int, stop: int) -> int:
        return count(text[size - stop : size - start] if is_tail else text[start:stop])

    at = 0
    while at < size and (used := count_between(at, min(at + CHUNK, size))) <= room:
        room -= used
        at += CHUNK
    # Counts grow with the length, apart from small differences, so bisection comes close enough.
    longer = range(1, min(CHUNK, size - at) + 1)  # empty if all of the text fits
    return min(at, size) + bisect_right(longer, room, key=lambda length: count_between(at, at + length))


def _head_end(text: str, at: int) -> int:
    """Return the offset at which to end a head of about `at` characters: the end of a line if one is near."""
    if at == len(text):
        return at
    line = text.rfind("\n", 0, at) + 1
    is_near = line * 2 >= at or not text[line:at].strip()
    return line if is_near else at - _splits_pair(text, at)


def _tail_start(text: str, at: int) -> int:
    """Return the offset at which to start a tail from about `at`: the start of a line if one is near."""
    if at == 0:
        return at
    line = text.find("\n", at - 1) + 1 or len(text)
    is_near = (len(text) - line) * 2 >= len(text) - at or not text[at:line].strip()
    return line if is_near else at + _splits_pair(text, at)


def _splits_pair(text: str, at: int) -> bool:
    """Return whether a cut at an offset would split a surrogate pair or CR LF."""
    before, after = text[at - 1 : at], text[at : at + 1]
    return (before == "\r" and after == "\n") or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")


def _evidence(text: str, gap: Span, budget: int, count: Count) -> tuple[list[Span], int]:
    """Find the error lines in a gap that fit into a budget, and count their tokens, including markers."""
    marker = count(f"{_marker(len(text), 'line')}\n")
    spans: list[Span] = []
    left = budget
    for begin, end in islice(error_lines(text, *gap), TRIES) if budget > marker else ():
        cost = count(text[begin:end]) + marker
        if cost <= left and not any(start <= begin < stop for start, stop in spans):
            spans.append((begin, end))
            left -= cost
    return spans, budget - left


def _join_spans(text: str, spans: Sequence[Span], total: int, count: Count) -> str:
    """Join the spans of a text, with a marker on a separate line in each gap."""
    # At least 1, since the joined spans may count as many tokens as the whole text.
    missing = max(total - count("".join(text[begin:end] for begin, end in spans)), 1)
    kept = [text[: spans[0][1]]]
    for number, ((_, stop), (begin, end)) in enumerate(pairwise(spans)):
        is_first, is_only = number == 0, len(spans) == 2
        marker = _marker(*_amount(text, stop, begin), missing if is_first else None, is_first=not is_only)
        kept.append(marker if _begins_line(text, stop) else f"\n{marker}")
        kept.append(f"\n{text[begin:end]}" if begin < end else "")
    return "".join(kept)


def _begins_line(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _amount(text: str, start: int, stop: int) -> tuple[int, str]:
    """Return the amount of text between two offsets, in lines if they are whole, else in characters."""
    if _begins_line(text, start) and (stop == len(text) or _begins_line(text, stop)):
        return text.count("\n", start, stop) + (text[stop - 1] != "\n"), "line"
    return stop - start, "character"


def _marker(amount: int, unit: str, missing: int | None = None, *, is_first: bool = False) -> str:
    """Return the marker for left-out text. The first of several markers gives the tokens that are missing in total."""
    what = count_noun(amount, unit)
    if missing is None:
        return f"[… {what} left out …]"
    tokens = count_noun(missing, "token")
    return f"[… {what} left out, {tokens} in all …]" if is_first else f"[… {what} ({tokens}) left out …]"


def _blank_marker(text: str, limit: int, count: Count) -> str | None:
    """Return the marker for a text without visible characters.

    Return None if the text is within the limit, or if the marker is not.
    """
    total = count(text)
    marker = _marker(len(text), "character", total)
    return marker if count(marker) <= limit < total else None


def _fitting_prefix(text: str, limit: int, count: Count) -> str | None:
    """Return a prefix of a text that fits a limit too small for markers; None if not even one character fits."""
    words = text.lstrip()
    size = _reach(words, limit, count, is_tail=False)
    for _ in range(ROUNDS):
        size -= _splits_pair(words, size)
        if size and count(words[:size]) <= limit:
            return words[:size]
        size = size * 3 // 4
    return None
