"""Fit the user's words into a room: shorten long texts to their beginning, their end, and what they ask for."""

import re
from collections.abc import Iterable, Iterator, Sequence

from autoprune.planning.clamping import missing_tokens
from autoprune.planning.view import SAID_SHARE
from autoprune.summarizers.sections import GOAL, body_of, parse_sections, quantity, share_room
from autoprune.tokens import Count

LOOKED_AT = 20_000  # characters at either end of the omitted part that are searched for a sentence that asks
LONGEST = 300  # characters of such a sentence
SHORTEST = 8
MOST = 2  # sentences that ask, from what is left out
HEAD_SHARE = 0.55  # of the characters, for the beginning
NEAR = 60  # characters in which a cut searches for the end of a line or a word
LEAST = 40  # characters of either end; with less room only the beginning stays
SHARE = SAID_SHARE  # of the room, the least for the user's words if there is no room for all
MOST_SHARE = 0.85  # if even the shortened words need more
TINY = 200  # tokens; of a smaller room the user's words may take everything
LEAST_TOKENS = 70  # of shortened words; with less for each, the oldest are left out instead
LEAVES_OUT = "the summary leaves out some of the user's words"  # how a note begins
CUT = "… [left out]"  # behind the beginning
ROUNDS = 6  # of shortening: a character limit is only an estimate of the token limit
MARK = re.compile(r"\s*^\[… ([0-9,]{1,11}) characters left out …\]$\s*", re.MULTILINE)
END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
# How requests are phrased, in the languages that are most common in sessions with agents.
ASKS = re.compile(
    r"(?i)^(?:[-*•>\d.)\s]*)(?:please|pls|can (?:you|we)|could (?:you|we)|would you|will you|let['’]?s|make sure|never"
    r"|i(?:['’]d)? (?:want|need|like)|(?:we|you) (?:need|should|must|have to)|always|don['’]?t|do not|must|only|instead"
    r"|now|fix|add|change|update|remove|implement|write|create|use|keep|run|check|explain|find|rename|move|refactor"
    r"|commit|push|review|investigate|continue|bitte|por favor|peux-tu|pouvez-vous)\b"
    r"|[?？]['\")]*$|请|帮我|不要|必须|ください|пожалуйста"
)


def fit_texts(said: Sequence[str], frame: int, left: int, free: int, count: Count) -> list[str]:
    """Choose the newest of the user's texts that fit, and shorten the long ones.

    Each text needs `frame` more tokens around it. The texts get the `free` tokens, which nothing else needs, or a share
    of the `left` tokens: a larger share if otherwise the oldest texts would be left out.
    """
    kept: list[str] = []
    for share in (SHARE, MOST_SHARE, 1):
        room = max(int(left * share), free)
        kept = _newest_that_fit(said, frame, room, count) if share < 1 or left < TINY else kept
        if len(kept) == len(said):
            break
    return kept


def _newest_that_fit(said: Sequence[str], frame: int, room: int, count: Count) -> list[str]:
    sizes: list[int] = []
    least = 0
    for one in reversed(said):
        size = count(one) + frame
        least += min(size, LEAST_TOKENS)
        if least > room:
            break
        sizes.insert(0, size)
    rooms = share_room(sizes, [1] * len(sizes), room)
    kept = said[len(said) - len(sizes) :]
    return [shorten(one, max(limit - frame, 1), count) for one, limit in zip(kept, rooms, strict=True)]


def left_out_note(goal: str, summary: str, said: Iterable[str] = (), missing: int = 0) -> Iterator[str]:
    """Yield a note for the report if a summary leaves out some of the user's words.

    `goal` is the first request; `said` are the summary's texts of later messages, and `missing` counts the messages
    that the summary leaves out. A summary without sections is the first request, cut.
    """
    sections = parse_sections(summary)
    shown = body_of(sections, GOAL) if sections else summary
    shortened = sum(map(_is_shortened, said))
    parts = (
        "part of the first request" if goal and shown and (shown != goal or _is_shortened(shown)) else "",
        "the first request" if goal and not shown else "",
        f"part of {quantity(shortened, 'later message')}" if shortened else "",
        quantity(missing, "later message") if missing else "",
    )
    if any(parts):
        yield f"{LEAVES_OUT}: {', '.join(filter(None, parts))}"


def _is_shortened(said: str) -> bool:
    return missing_tokens(said) > 0 or MARK.search(said) is not None or said.endswith(CUT)


def shorten(request: str, limit: int, count: Count) -> str:
    """Shorten a request to about `limit` tokens: to its head, its tail and the sentences that ask for something.

    A mark says how many characters are left out; a request that was shortened before keeps a single mark.
    """
    size = count(request)
    if size <= limit:
        return request
    first, missing, last = _around_mark(request)
    most = int(len(request) * limit / size)
    for _ in range(ROUNDS):
        text = _in_characters(first, missing, last, most)
        size = count(text)
        if size <= limit or most < LEAST:
            break
        most = min(most - 1, int(most * limit / size))
    return text


def _around_mark(request: str) -> tuple[str, int, str]:
    """Split a shortened request into the text before its mark, the characters left out, and the text after it."""
    marks = [*MARK.finditer(request)]
    if not marks:
        return request, 0, request
    # A shortened request has one mark; the user may quote others, and the text between them is the user's.
    mark = marks[-1]
    return request[: mark.start()], int(mark[1].replace(",", "")), request[mark.end() :]


def _in_characters(first: str, missing: int, last: str, most: int) -> str:
    """Join the beginning of one text and the end of another in about `most` characters, with a mark between them."""
    if most < 2 * LEAST:
        return first[: max(most - len(CUT), 1)].rstrip() + CUT
    head = _beginning(first, int(most * HEAD_SHARE))
    around = max(most - len(head) - LEAST, 0)
    asking = [*_asking_sentences(first[len(head) :], last, around)]
    tail = _ending(last, around - sum(map(len, asking)))
    if not missing:  # both are the same text
        tail = "" if len(head) + len(tail) >= len(first) else tail
        left_out = len(first) - len(head) - len(tail)
    else:
        left_out = missing + len(first) + len(last) - len(head) - len(tail)
    asking = [one for one in asking if one not in tail]
    left_out -= sum(map(len, asking))
    return "\n".join(filter(None, (head.rstrip(), f"[… {max(left_out, 1):,} characters left out …]", *asking, tail)))


def _beginning(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    space = max(text.rfind("\n", most - NEAR, most), text.rfind(" ", most - NEAR, most)) if most > NEAR else -1
    return text[: space if space > 0 else most]


def _ending(text: str, most: int) -> str:
    if most <= 0:
        return ""
    if len(text) <= most:
        return text.strip()
    start = len(text) - most
    space = re.compile(r"\n").search(text, start, start + 2 * NEAR) or re.compile(r"\s").search(
        text, start, start + NEAR
    )
    return text[space.end() if space else start :].strip()


def _asking_sentences(rest: str, last: str, room: int) -> Iterator[str]:
    """Yield the asking sentences of a middle part: the last, and also the first if both have room."""
    text = rest if rest and last.endswith(rest) else f"{rest}\n{last}"
    text = text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"
    asking = [one for part in END.split(text) if SHORTEST <= len(one := part.strip()) <= LONGEST and ASKS.search(one)]
    chosen: list[str] = []
    for one in dict.fromkeys((*asking[-1:], *asking[:1])):
        if sum(map(len, chosen)) + len(one) <= room // 2:
            chosen.append(one)
    yield from sorted(chosen[:MOST], key=asking.index)
