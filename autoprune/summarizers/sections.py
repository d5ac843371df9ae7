"""Write a summary as titled sections, and parse it exactly."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autoprune.conversation.messages import one_line
from autoprune.conversation.summary import escape_end_mark
from autoprune.conversation.transcript import Speaker
from autoprune.facts.outcomes import is_answer_text
from autoprune.facts.utterances import Utterance
from autoprune.planning.clamping import Clamp, missing_tokens
from autoprune.planning.view import SAID_SHARE
from autoprune.summarizers.brief import Brief
from autoprune.tokens import Count

GOAL = "The user's first request"
EARLIER = "Earlier summary"
SUMMARY = "Summary"
NOTHING = "nothing was said or done"  # the text if there is nothing to write
NO_ROOM = "(left out)"  # the text if there is room for no section
LEAST_TEXT = 32  # tokens of a text below the first request; a shorter one would say nothing
JOINT_TOKENS = 4  # token counts of joined texts may differ from their sum by this
# The number of lines makes any text parseable, even one that looks like headings.
HEADING = re.compile(r"## (\S.*) \(([1-9][0-9]{0,8}) lines?\)")
TITLE = re.compile(r"\A# [^\n]+\n\n")
LONGEST_TITLE = 200  # characters
HEAD_SHARE = 2  # the head takes at most half of the room


@dataclass(frozen=True)
class Section:
    """A section of a summary: a one-line title and a non-blank body."""

    title: str
    body: str


Head: TypeAlias = tuple[Section, ...]


def write_sections(sections: Iterable[Section]) -> str:
    """Write sections as one text that `parse_sections` parses; blank ones are left out."""
    filled = ((section.title, body) for section in sections if (body := section.body.strip()))
    return "\n\n".join(f"## {title} ({quantity(body.count(chr(10)) + 1, 'line')})\n{body}" for title, body in filled)


def quantity(number: int, unit: str) -> str:
    """Format a number with its unit: "1 line", "2 lines"."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


def put_title(text: str, title: str) -> str:
    """Put a title above a text, which `parse_sections` skips; a blank title leaves the text unchanged."""
    return f"# {one_line(title, LONGEST_TITLE)}\n\n{text}" if title.strip() else text


def parse_sections(text: str) -> tuple[Section, ...] | None:
    """Parse a text of `write_sections`; return () for a blank text or its stand-in, None for any other text."""
    if text.strip() == NOTHING or NO_ROOM.startswith(text.strip()):
        return ()
    parsed: list[Section] = []
    rest = TITLE.sub("", text.strip(), count=1).split("\n")
    at = 0
    while at < len(rest):
        heading = HEADING.fullmatch(rest[at])
        stop = at + 1 + int(heading[2]) if heading else 0
        if not heading or stop > len(rest) or (stop < len(rest) and rest[stop]):
            return None
        parsed.append(Section(heading[1], "\n".join(rest[at + 1 : stop])))
        at = stop + 1
    return tuple(parsed)


def body_of(sections: Iterable[Section] | None, title: str) -> str:
    """Return the text of the first section with a title; "" if there is none."""
    return next((section.body for section in sections or () if section.title == title), "")


def below_head(head: Head, text: str) -> str:
    """Write the head, and a text below it."""
    return "\n\n".join(filter(None, (write_sections(head), text)))


def resume(brief: Brief, is_mine: Callable[[Section], bool]) -> tuple[Head, Head]:
    """Split the previous summary into the head, which is never summarized, and the summarizer's own sections.

    The head contains the user's first request and the texts of others: the previous summary if another summarizer wrote
    it, and a harness's summary of an earlier conversation.
    """
    previous = parse_sections(brief.previous)
    others = tuple(one for one in previous or () if one.title != GOAL)
    earlier = [one.body for one in others if one.title == EARLIER]
    mine = tuple(one for one in others if one.title != EARLIER)
    if previous is None:
        earlier = [brief.previous.strip()]
    elif not all(map(is_mine, mine)):
        earlier, mine = [write_sections(others)], ()
    earlier += [said for one in brief.utterances if (said := one.earlier_summary)]
    head = (Section(GOAL, request_of(brief)), Section(EARLIER, "\n\n".join(earlier)))
    return tuple(section for section in head if section.body), mine


def request_of(brief: Brief) -> str:
    """Return the user's first request, from the previous summary or else from the brief.

    Return "" if it is unknown: a summary by another summarizer may contain it anywhere, and what the user says later is
    not the first request. Also return "" while the request stays in the conversation.
    """
    stated = body_of(parse_sections(brief.previous), GOAL)
    if stated or brief.first_request is not None:
        return stated or brief.first_request or ""
    return "" if may_hold_request(brief.previous) else first_request(brief.utterances)


def may_hold_request(text: str) -> bool:
    """Return whether a summary may contain the first request without marking it."""
    parsed = parse_sections(text)
    return not is_answer_text(text) if parsed is None else any(section.title == EARLIER for section in parsed)


def first_request(utterances: Iterable[Utterance]) -> str:
    """Return the user's first request. Answers through a tool do not count.

    Return "" if there is none, or if a harness's summary of an earlier conversation comes first, which may contain it.
    """
    for one in utterances:
        if one.user_request or one.earlier_summary:
            return one.user_request
    return ""


class Frame:
    """A frame with the user's first request around a summary that does not keep the request.

    The frame shows the request to the next summary. `is_kept` means that the summarizer has a section for the request;
    then the frame is added only if that section is missing. Otherwise the request gets its own section above the text,
    even if the text quotes it: the next summary would not recognize a quote, and would take the user's next words for
    the first request.

    A long request leaves half of the room to the text, and gets whatever the text does not need of its half.
    """

    def __init__(self, brief: Brief, *, is_kept: bool) -> None:
        self.brief = brief
        self.is_kept = is_kept
        self.request = escape_end_mark(request_of(brief)).strip()
        self._half = cut(self.request, brief.max_tokens // HEAD_SHARE, brief.count)
        self._title = EARLIER if not self.request and may_hold_request(brief.previous) else SUMMARY
        self._left = brief.max_tokens - brief.count(self._around("…", self._half)) - JOINT_TOKENS

    @property
    def room(self) -> int:
        """The tokens that the text may have."""
        return self.brief.max_tokens if self.is_kept or self._left < LEAST_TEXT else self._left

    def remove_nested(self, text: str) -> str:
        """Remove the earlier frame from a text that repeats the whole previous summary."""
        previous = self.brief.previous.strip()
        if self.is_kept or not previous or previous not in text:
            return text
        bodies = (section.body for section in parse_sections(previous) or () if section.title in (SUMMARY, EARLIER))
        return text.replace(previous, next(bodies, previous))

    def put_around(self, text: str) -> str:
        """Put the frame around a text, cutting both to the room; without room, return only the request."""
        fits = (one for one in self._frame(text) if one and self.brief.count(one) <= self.brief.max_tokens)
        return next(fits, text)

    def notes(self, framed: str) -> Iterator[str]:
        """Yield a note if the request was cut."""
        if self.request and not self.is_kept and self.request not in framed:
            yield f"the user's first request had {self.brief.count(self.request)} tokens and was cut in the summary"

    def _frame(self, text: str) -> Iterator[str]:
        """Yield the text in its frame, with less and less of both."""
        goal = Section(GOAL, self.request)
        if self.is_kept:
            sections = parse_sections(text) or ()
            if sections and not any(section.title == GOAL for section in sections):
                yield write_sections((goal, *sections))
                yield write_sections((Section(GOAL, self._half), *sections))
            return
        yield self._around(text, self.request)
        free = self.brief.max_tokens - self.brief.count(self._around(text, "…")) - JOINT_TOKENS
        yield self._around(text, cut(self.request, max(free, self.brief.count(self._half)), self.brief.count))
        yield self._around(cut(text, self._left, self.brief.count), self._half)
        yield write_sections((Section(GOAL, self._half),))

    def _around(self, text: str, request: str) -> str:
        return write_sections((Section(GOAL, request), Section(self._title, text)))


def without_request(brief: Brief, head: Head) -> tuple[Utterance, ...]:
    """Return the messages that say anything, without those that the head contains in full."""
    bodies = {section.body for section in head}

    def says_more(one: Utterance) -> bool:
        words = one.user_words if one.speaker is Speaker.USER else one.words.strip()
        is_held = one.speaker is Speaker.USER and (words in bodies or bool(one.earlier_summary))
        return bool(one.calls or one.results or (words and not is_held))

    return tuple(one for one in brief.utterances if says_more(one))


def fit_head(head: Head, brief: Brief, rest: str = "") -> Head:
    """Fit the head into half of the room, or into what `rest` leaves; cut its sections if they do not fit."""
    size = brief.count("\n\n".join((write_sections(head), rest)))
    if rest and size <= brief.max_tokens:
        return head
    sizes = [brief.count(section.body) for section in head]
    frame = size - sum(sizes) + JOINT_TOKENS
    room = max(brief.max_tokens // HEAD_SHARE, brief.max_tokens - frame if rest else 0)
    limits = share_room(sizes, [1] * len(head), room)
    return tuple(Section(one.title, cut(one.body, limit, brief.count)) for one, limit in zip(head, limits, strict=True))


def share_room(sizes: Sequence[int], weights: Sequence[float], room: int) -> list[int]:
    """Share a room by weights; the room that a size does not need of its share goes to the others."""
    rooms, waiting = list(sizes), sum(weights)
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at] / weights[at]):
        rooms[at] = min(sizes[at], int(room * weights[at] / waiting))
        room -= rooms[at]
        waiting -= weights[at]
    return rooms


def cut(text: str, limit: int, count: Count) -> str:
    """Cut a text to its head and tail around a mark, in at most `limit` tokens; "" if nothing fits."""
    if limit < 1 or count(text) <= limit:
        return text if limit > 0 else ""
    return Clamp(limit, head=0.7).shortened(text, count) or ""


def first_that_fits(texts: Iterable[str | None], head: Head, brief: Brief) -> str:
    """Return the first text that fits and is not blank; if there is none, the first section of the head, cut."""
    for text in texts:
        if text and brief.count(text) <= brief.max_tokens:
            return text
    return cut(head[0].body if head else "", brief.max_tokens, brief.count)


def most_that_fits(render: Callable[[int], str], most: int, brief: Brief) -> int | None:
    """Find the highest number, up to `most`, whose text fits; None if not even the text of 0 fits."""

    def fits(left_out: int) -> bool:
        return brief.count(render(most - left_out)) <= brief.max_tokens

    start = bisect_left(range(most + 1), True, key=fits)
    # Token counts need not fall with every line: the binary search is only a start, and all numbers are tried.
    return next((most - left_out for left_out in (*range(start, most + 1), *range(start)) if fits(left_out)), None)


LOOKED_AT = 20_000  # characters at either end of the omitted part that are searched for a sentence that asks
LONGEST = 300  # characters of such a sentence
SHORTEST = 8
MOST = 2  # sentences that ask, from what is left out
BEGINNING_SHARE = 0.55  # of the characters, for the beginning
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
    head = _beginning(first, int(most * BEGINNING_SHARE))
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
