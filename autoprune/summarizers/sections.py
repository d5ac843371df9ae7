"""Write a summary as titled sections, and read it back exactly."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from autoprune.conversation.transcript import Speaker
from autoprune.planning.clamping import Clamp
from autoprune.summarizers.brief import Brief
from autoprune.summarizers.utterances import Utterance
from autoprune.tokens import Count

GOAL = "The user's first request"
EARLIER = "Earlier summary"
SUMMARY = "Summary"
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
    """Return the sections of a text that `write` made, () for a blank text, and None for any other."""
    if not text.strip():
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


def resume(brief: Brief, is_mine: Callable[[Section], bool]) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """Return the head that is never summarized, and a summarizer's own sections of the summary so far.

    The head holds the user's first request. What another summarizer wrote before stands in it as it is: then the first
    request is in there.
    """
    found = read(brief.previous)
    if found is None:
        return (Section(EARLIER, brief.previous.strip()),), ()
    request = request_of(brief)
    goal = (Section(GOAL, request),) if request else ()
    rest = tuple(section for section in found if section.title != GOAL)
    earlier = tuple(section for section in rest if section.title == EARLIER)
    if not all(section in earlier or is_mine(section) for section in rest):
        return (*goal, Section(EARLIER, write(rest))), ()
    return (*goal, *earlier), tuple(section for section in rest if section not in earlier)


def request_of(brief: Brief) -> str:
    """Return the user's first request, as the summary so far has it; where it has none, as the messages have it.

    "" where nobody can say: a summary that somebody else wrote may hold it anywhere, and what the user says later is
    not the first request.
    """
    found = read(brief.previous)
    known = next((section.body for section in found or () if section.title == GOAL), "")
    if known or may_hold_request(found):
        return known
    return first_request(brief.utterances)


def may_hold_request(found: tuple[Section, ...] | None) -> bool:
    """Return whether the first request may stand in a summary without being marked there."""
    return found is None or any(section.title == EARLIER for section in found)


def first_request(utterances: Iterable[Utterance]) -> str:
    """Return the first words of the user's own, without what a program put around them; "" where there are none."""
    own = (one.said for one in utterances if one.speaker is Speaker.USER)
    return next((words for words in own if words), "")


class Frame:
    """The frame around a summary that somebody else writes, so that the next one knows the user's first request.

    `is_kept`: who writes has a section for the request; nothing is done then unless it is missing. Else the request
    stands above the text in a section of its own, whatever the text says: one that only quotes it would be read as a
    summary without a request by the next summary, which would take the user's next words for it.
    """

    def __init__(self, brief: Brief, *, is_kept: bool) -> None:
        """Find the request and the room for the text."""
        self.brief = brief
        self.is_kept = is_kept
        request = cut(request_of(brief), brief.max_tokens // HEAD_SHARE, brief.count)
        self._goal = (Section(GOAL, request),) if request else ()
        self._title = EARLIER if not request and may_hold_request(read(brief.previous)) else SUMMARY
        self._left = brief.max_tokens - brief.count(self._around("…")) - JOINT_TOKENS

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
        if self.is_kept:
            found = read(text) or ()
            is_missing = bool(found) and not any(section.title == GOAL for section in found)
            texts = [write((*self._goal, *found))] if is_missing else []
        else:
            texts = [self._around(text), self._around(cut(text, self._left, self.brief.count)), write(self._goal)]
        return next((one for one in texts if one and self.brief.count(one) <= self.brief.max_tokens), text)

    def _around(self, text: str) -> str:
        return write((*self._goal, Section(self._title, text)))


def without_request(brief: Brief, head: tuple[Section, ...]) -> tuple[Utterance, ...]:
    """Return the messages that say anything, without the first request where the head has it in full."""
    request = next((section.body for section in head if section.title == GOAL), "")

    def says_more(one: Utterance) -> bool:
        words = one.said if one.speaker is Speaker.USER else one.words.strip()
        is_request = one.speaker is Speaker.USER and words == request
        return bool(one.calls or one.results or (words and not is_request))

    return tuple(one for one in brief.utterances if says_more(one))


def fit_head(head: tuple[Section, ...], brief: Brief) -> tuple[Section, ...]:
    """Return the head within half of the room: whole where it fits, else with its middle left out."""
    room = brief.max_tokens // HEAD_SHARE // max(len(head), 1)
    return tuple(Section(section.title, cut(section.body, room, brief.count)) for section in head)


def cut(text: str, limit: int, count: Count) -> str:
    """Return a text of at most `limit` tokens: itself, or its head and tail around a mark; "" where nothing fits."""
    if limit < 1 or count(text) <= limit:
        return text if limit > 0 else ""
    return Clamp(limit, head=0.7).shortened(text, count) or ""


def first_that_fits(texts: Iterable[str | None], head: tuple[Section, ...], brief: Brief) -> str:
    """Return the first text within the room that says anything; where none does, the words of the head, cut."""
    for text in texts:
        if text and brief.count(text) <= brief.max_tokens:
            return text
    return cut(head[0].body if head else "", brief.max_tokens, brief.count)


def most_that_fits(render: Callable[[int], str], most: int, brief: Brief) -> str | None:
    """Return `render` of the highest number, up to `most`, whose text fits; None where not even that of 0 does."""

    def fits(left_out: int) -> bool:
        return brief.count(render(most - left_out)) <= brief.max_tokens

    start = bisect_left(range(most + 1), True, key=fits)
    # Counts need not fall with every line: what the search found is looked at once more.
    return next((render(most - left_out) for left_out in range(start, most + 1) if fits(left_out)), None)


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most `most` characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"
