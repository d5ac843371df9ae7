"""Shorten a long request of the user's to its beginning, its end, and what it asks for."""

import re
from collections.abc import Iterator

from autoprune.tokens import Count

LOOKED_AT = 20_000  # characters of what is left out that are searched for a sentence that asks, at either end
LONGEST = 300  # characters of such a sentence
SHORTEST = 8
MOST = 2  # sentences that ask, from what is left out
HEAD_SHARE = 0.55  # of the characters, for the beginning
NEAR = 60  # characters within which a cut looks for the end of a line or a word
LEAST = 40  # characters, below which only the beginning stays
ROUNDS = 6  # of making it shorter: tokens are no characters
MARK = re.compile(r"\s*\[… ([0-9,]{1,11}) characters left out …\]\s*")
END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
# How a request is said, in the languages that most agents are spoken to in.
ASKS = re.compile(
    r"(?i)^(?:[-*•>\d.)\s]*)(?:please|pls|can (?:you|we)|could (?:you|we)|would you|will you|let['’]?s|make sure|never"
    r"|i(?:['’]d)? (?:want|need|like)|(?:we|you) (?:need|should|must|have to)|always|don['’]?t|do not|must|only|instead"
    r"|now|fix|add|change|update|remove|implement|write|create|use|keep|run|check|explain|find|rename|move|refactor"
    r"|commit|push|review|investigate|continue|bitte|por favor|peux-tu|pouvez-vous)\b"
    r"|[?？]['\")]*$|请|帮我|不要|必须|ください|пожалуйста"
)


def shorten(request: str, limit: int, count: Count) -> str:
    """Return a request of at most about `limit` tokens: itself, or its head, its tail and the sentences that ask.

    A mark says how many characters are left out; one that was shortened before keeps a single mark.
    """
    size = count(request)
    if size <= limit:
        return request
    first, missing, last = _parts(request)
    most = int(len(request) * limit / size)
    for _ in range(ROUNDS):
        text = _in_characters(first, missing, last, most)
        size = count(text)
        if size <= limit or most < LEAST:
            break
        most = min(most - 1, int(most * limit / size))
    return text


def _parts(request: str) -> tuple[str, int, str]:
    """Return what stands before and behind the mark of a shortened request; of any other all of it, twice."""
    marks = [*MARK.finditer(request)]
    if not marks:
        return request, 0, request
    missing = sum(int(mark[1].replace(",", "")) for mark in marks)
    return request[: marks[0].start()], missing, request[marks[-1].end() :]


def _in_characters(first: str, missing: int, last: str, most: int) -> str:
    """Return the beginning of one text and the end of another in about `most` characters, with a mark between."""
    if most < 2 * LEAST:
        return first[: max(most - 1, 1)].rstrip() + "…"
    head = _begin(first, int(most * HEAD_SHARE))
    around = max(most - len(head) - LEAST, 0)
    asking = [*_asking(first[len(head) :], last, around)]
    tail = _end(last, around - sum(map(len, asking)))
    if not missing:  # both are the same text
        tail = "" if len(head) + len(tail) >= len(first) else tail
        left_out = len(first) - len(head) - len(tail)
    else:
        left_out = missing + len(first) + len(last) - len(head) - len(tail)
    asking = [one for one in asking if one not in tail]
    left_out -= sum(map(len, asking))
    return "\n".join(filter(None, (head.rstrip(), f"[… {max(left_out, 1):,} characters left out …]", *asking, tail)))


def _begin(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    space = max(text.rfind("\n", most - NEAR, most), text.rfind(" ", most - NEAR, most)) if most > NEAR else -1
    return text[: space if space > 0 else most]


def _end(text: str, most: int) -> str:
    if most <= 0:
        return ""
    if len(text) <= most:
        return text.strip()
    start = len(text) - most
    found = re.compile(r"\n").search(text, start, start + 2 * NEAR) or re.compile(r"\s").search(
        text, start, start + NEAR
    )
    return text[found.end() if found else start :].strip()


def _asking(rest: str, last: str, room: int) -> Iterator[str]:
    """Yield the sentences that ask in what may be left out: the last one, and the first one if both have room."""
    text = rest if rest and last.endswith(rest) else f"{rest}\n{last}"
    text = text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"
    found = [one for part in END.split(text) if SHORTEST <= len(one := part.strip()) <= LONGEST and ASKS.search(one)]
    chosen: list[str] = []
    for one in dict.fromkeys((*found[-1:], *found[:1])):
        if sum(map(len, chosen)) + len(one) <= room // 2:
            chosen.append(one)
    yield from sorted(chosen[:MOST], key=found.index)
