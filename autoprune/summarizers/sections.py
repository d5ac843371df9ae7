"""Write a summary as titled sections, and read it back exactly."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from autoprune.conversation.transcript import Speaker
from autoprune.facts.answers import is_answer_text
from autoprune.facts.plain_text import one_line
from autoprune.facts.utterances import Utterance
from autoprune.planning.clamping import Clamp
from autoprune.summarizers.brief import Brief
from autoprune.tokens import Count

GOAL = "The user's first request"
EARLIER = "Earlier summary"
SUMMARY = "Summary"
NOTHING = "nothing was said or done"  # the text if there is nothing to write
NO_ROOM = "(left out)"  # the text if there is room for no section
LEAST_TEXT = 32  # tokens of a text below the first request; one of fewer says nothing
JOINT_TOKENS = 4  # that counts of joined texts may differ by
# The number of lines makes any text readable back, also one that looks like headings.
HEADING = re.compile(r"## (\S.*) \(([1-9][0-9]{0,8}) lines?\)")
TITLE = re.compile(r"\A# [^\n]+\n\n")
LONGEST_TITLE = 200  # characters
HEAD_SHARE = 2  # the head takes at most the room divided by this


@dataclass(frozen=True)
class Section:
    """A title on one line, and a text that is not blank."""

    title: str
    body: str


Head: TypeAlias = tuple[Section, ...]


def write(sections: Iterable[Section]) -> str:
    """Return the sections as one text that `read` takes apart again; blank ones are left out."""
    filled = (replace(section, body=section.body.strip()) for section in sections)
    return "\n\n".join(f"## {one.title} ({lines(one.body)})\n{one.body}" for one in filled if one.body)


def lines(body: str) -> str:
    """Return the number of lines of a text in words."""
    return figure(body.count("\n") + 1, "line")


def figure(number: int, unit: str) -> str:
    """Return a number with its unit: "1 line", "2 lines"."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


def titled(text: str, title: str) -> str:
    """Put a title above a text, which `read` passes over; return the text as it is where the title is blank."""
    return f"# {one_line(title, LONGEST_TITLE)}\n\n{text}" if title.strip() else text


def read(text: str) -> tuple[Section, ...] | None:
    """Return the sections of a text that `write` made, () for a blank text or one that says so, None for any other."""
    if text.strip() == NOTHING or NO_ROOM.startswith(text.strip()):
        return ()
    found: list[Section] = []
    rest = TITLE.sub("", text.strip(), count=1).split("\n")
    at = 0
    while at < len(rest):
        heading = HEADING.fullmatch(rest[at])
        stop = at + 1 + int(heading[2]) if heading else 0
        if not heading or stop > len(rest) or (stop < len(rest) and rest[stop]):
            return None
        found.append(Section(heading[1], "\n".join(rest[at + 1 : stop])))
        at = stop + 1
    return tuple(found)


def resume(brief: Brief, is_mine: Callable[[Section], bool]) -> tuple[Head, Head]:
    """Return the head that is never summarized, and a summarizer's own sections of the summary so far.

    The head holds the user's first request, and what somebody else wrote: the summary so far if another summarizer made
    it, and an assistant's summary of an earlier conversation.
    """
    found = read(brief.previous)
    others = tuple(one for one in found or () if one.title != GOAL)
    earlier = [one.body for one in others if one.title == EARLIER]
    mine = tuple(one for one in others if one.title != EARLIER)
    if found is None:
        earlier = [brief.previous.strip()]
    elif not all(map(is_mine, mine)):
        earlier, mine = [write(others)], ()
    earlier += [said for one in brief.utterances if (said := one.continues)]
    head = (Section(GOAL, request_of(brief)), Section(EARLIER, "\n\n".join(earlier)))
    return tuple(section for section in head if section.body), mine


def request_of(brief: Brief) -> str:
    """Return the user's first request, as the summary so far has it; if it has none, as the brief has it.

    "" if nobody can say: a summary that somebody else wrote may hold it anywhere, and what the user says later is not
    the first request. "" also while the request stays in the conversation.
    """
    found = read(brief.previous)
    known = next((section.body for section in found or () if section.title == GOAL), "")
    if known or brief.first_request is not None:
        return known or brief.first_request or ""
    return "" if may_hold_request(brief.previous) else first_request(brief.utterances)


def may_hold_request(text: str) -> bool:
    """Return whether the first request may stand in a summary without being marked there."""
    found = read(text)
    return not is_answer_text(text) if found is None else any(section.title == EARLIER for section in found)


def first_request(utterances: Iterable[Utterance]) -> str:
    """Return the user's first request. Answers through a tool are none.

    "" if there is none, or if an assistant's summary of an earlier conversation comes first, which may hold it.
    """
    for one in utterances:
        if one.asked or one.continues:
            return one.asked
    return ""


class Frame:
    """The frame around a summary that somebody else writes, so that the next one knows the user's first request.

    `is_kept`: who writes has a section for the request; nothing is done then unless it is missing. Else the request
    stands above the text in a section of its own, whatever the text says: one that only quotes it would be read as a
    summary without a request by the next summary, which would take the user's next words for it.

    A long request leaves half of the room to the text; what the text does not need of that goes to the request.
    """

    def __init__(self, brief: Brief, *, is_kept: bool) -> None:
        """Find the request and the room for the text."""
        self.brief = brief
        self.is_kept = is_kept
        self.request = request_of(brief)
        self._half = cut(self.request, brief.max_tokens // HEAD_SHARE, brief.count)
        self._title = EARLIER if not self.request and may_hold_request(brief.previous) else SUMMARY
        self._left = brief.max_tokens - brief.count(self._around("…", self._half)) - JOINT_TOKENS

    @property
    def room(self) -> int:
        """The tokens that the text may have."""
        return self.brief.max_tokens if self.is_kept or self._left < LEAST_TEXT else self._left

    def unnested(self, text: str) -> str:
        """Return a text without the earlier frame, where it repeats the whole summary before."""
        previous = self.brief.previous.strip()
        if self.is_kept or not previous or previous not in text:
            return text
        bodies = (section.body for section in read(previous) or () if section.title in (SUMMARY, EARLIER))
        return text.replace(previous, next(bodies, previous))

    def around(self, text: str) -> str:
        """Return the text with its frame, within the room: cut, or where there is no room for it, the request alone."""
        fits = (one for one in self._framed(text) if one and self.brief.count(one) <= self.brief.max_tokens)
        return next(fits, text)

    def notes(self, framed: str) -> Iterator[str]:
        """Yield a note if the frame has no room for all of the request."""
        if self.request and not self.is_kept and self.request not in framed:
            yield f"the user's first request had {self.brief.count(self.request)} tokens and was cut in the summary"

    def _framed(self, text: str) -> Iterator[str]:
        """Yield the text with its frame, with less and less of both."""
        goal = Section(GOAL, self.request)
        if self.is_kept:
            found = read(text) or ()
            if found and not any(section.title == GOAL for section in found):
                yield write((goal, *found))
                yield write((Section(GOAL, self._half), *found))
            return
        yield self._around(text, self.request)
        free = self.brief.max_tokens - self.brief.count(self._around(text, "…")) - JOINT_TOKENS
        yield self._around(text, cut(self.request, max(free, self.brief.count(self._half)), self.brief.count))
        yield self._around(cut(text, self._left, self.brief.count), self._half)
        yield write((Section(GOAL, self._half),))

    def _around(self, text: str, request: str) -> str:
        return write((Section(GOAL, request), Section(self._title, text)))


def without_request(brief: Brief, head: Head) -> tuple[Utterance, ...]:
    """Return the messages that say anything, without those that the head has in full."""
    held = {section.body for section in head}

    def says_more(one: Utterance) -> bool:
        words = one.said if one.speaker is Speaker.USER else one.words.strip()
        is_held = one.speaker is Speaker.USER and (words in held or bool(one.continues))
        return bool(one.calls or one.results or (words and not is_held))

    return tuple(one for one in brief.utterances if says_more(one))


def fit_head(head: Head, brief: Brief, rest: str = "") -> Head:
    """Return the head in half of the room, or in what the rest of the summary leaves: whole if it fits, else cut."""
    if rest and brief.count("\n\n".join((write(head), rest))) <= brief.max_tokens:
        return head
    sizes = [brief.count(section.body) for section in head]
    frame = brief.count("\n\n".join((write(head), rest))) - sum(sizes) + JOINT_TOKENS
    room = max(brief.max_tokens // HEAD_SHARE, brief.max_tokens - frame if rest else 0)
    limits = shared(sizes, [1] * len(head), room)
    return tuple(Section(one.title, cut(one.body, limit, brief.count)) for one, limit in zip(head, limits, strict=True))


def shared(sizes: Sequence[int], weights: Sequence[float], room: int) -> list[int]:
    """Return the room for each: its size if that is within its share; what it leaves goes to the others."""
    rooms, waiting = list(sizes), sum(weights)
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at] / weights[at]):
        rooms[at] = min(sizes[at], int(room * weights[at] / waiting))
        room -= rooms[at]
        waiting -= weights[at]
    return rooms


def cut(text: str, limit: int, count: Count) -> str:
    """Return a text of at most `limit` tokens: itself, or its head and tail around a mark; "" where nothing fits."""
    if limit < 1 or count(text) <= limit:
        return text if limit > 0 else ""
    return Clamp(limit, head=0.7).shortened(text, count) or ""


def first_that_fits(texts: Iterable[str | None], head: Head, brief: Brief) -> str:
    """Return the first text within the room that says anything; where none does, the words of the head, cut."""
    for text in texts:
        if text and brief.count(text) <= brief.max_tokens:
            return text
    return cut(head[0].body if head else "", brief.max_tokens, brief.count)


def most_that_fits(render: Callable[[int], str], most: int, brief: Brief) -> int | None:
    """Return the highest number, up to `most`, whose text fits; None if not even that of 0 does."""

    def fits(left_out: int) -> bool:
        return brief.count(render(most - left_out)) <= brief.max_tokens

    start = bisect_left(range(most + 1), True, key=fits)
    # Counts need not fall with every line: what the search found is looked at once more, and then all else.
    return next((most - left_out for left_out in (*range(start, most + 1), *range(start)) if fits(left_out)), None)
