"""A running summary as sections that can be read back exactly. Decides nothing about what they say."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from autoprune.clamping import Clamp
from autoprune.readable import Utterance
from autoprune.summarizers.brief import Answer, Brief, Written
from autoprune.tokens import Count
from autoprune.transcript import Speaker

GOAL = "The user's first request"
EARLIER = "Earlier summary"
SUMMARY = "Summary"
JOINT_TOKENS = 4  # that counts of joined texts may differ by
# The number of lines makes any text readable back, also one that looks like headings.
HEADING = re.compile(r"## (\S.*) \(([1-9][0-9]{0,8}) lines?\)")
HEAD_SHARE = 2  # the goal takes at most the room through this


@dataclass(frozen=True)
class Section:
    """A title on one line, and a text that is not blank."""

    title: str
    body: str


def written(sections: Iterable[Section]) -> str:
    """The sections as one text that `read` takes apart again; blank ones are left out."""
    filled = (replace(section, body=section.body.strip()) for section in sections)
    return "\n\n".join(f"## {one.title} ({lines(one.body)})\n{one.body}" for one in filled if one.body)


def lines(body: str) -> str:
    """How many lines a text has, in words."""
    return figure(body.count("\n") + 1, "line")


def figure(number: int, unit: str) -> str:
    """A number with its unit: "1 line", "2 lines"."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


def read(text: str) -> tuple[Section, ...] | None:
    """The sections of a text that `written` made; None for any other, () for a blank one."""
    if not text.strip():
        return ()
    found: list[Section] = []
    rest = text.strip().split("\n")
    at = 0
    while at < len(rest):
        heading = HEADING.fullmatch(rest[at])
        stop = at + 1 + int(heading[2]) if heading else 0
        if not heading or stop > len(rest) or (stop < len(rest) and rest[stop]):
            return None
        found.append(Section(heading[1], "\n".join(rest[at + 1 : stop])))
        at = stop + 1
    return tuple(found)


def resumed(brief: Brief, is_mine: Callable[[Section], bool]) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """The head that is never summarized, and the sections that a running summary has so far.

    The head holds the user's first request. What another summarizer wrote before stands in it as it is: then the first
    request is in there.
    """
    found = read(brief.previous)
    if found is None:
        return (Section(EARLIER, brief.previous.strip()),), ()
    goal = tuple(section for section in found if section.title == GOAL)
    rest = tuple(section for section in found if section.title != GOAL)
    earlier = tuple(section for section in rest if section.title == EARLIER)
    if not all(section in earlier or is_mine(section) for section in rest):
        return (*goal, Section(EARLIER, written(rest))), ()
    first = "" if goal or earlier else first_request(brief.utterances)
    started = (Section(GOAL, first),) if first else ()
    return (*started, *goal, *earlier), tuple(section for section in rest if section not in earlier)


def first_request(utterances: Iterable[Utterance]) -> str:
    """The first words of the user's own, without what a program put around them; "" where there are none."""
    own = (one.said for one in utterances if one.speaker is Speaker.USER)
    return next((words for words in own if words), "")


def with_request(text: str, brief: Brief) -> str:
    """A model's text with the user's first request above it, word for word, where it does not hold that already.

    The request is that of the summary so far, else of the messages. Within the room: the request takes half of it at
    most, and the text is cut to what is left.
    """
    known = next((one.body for one in read(brief.previous) or () if one.title == GOAL), "")
    request = known or first_request(brief.utterances)
    if not request or request in text:
        return text
    goal = Section(GOAL, cut(request, brief.max_tokens // HEAD_SHARE, brief.count))
    left = brief.max_tokens - brief.count(written((goal, Section(SUMMARY, "…")))) - JOINT_TOKENS
    body = cut(text, left, brief.count)
    whole = written((goal, Section(SUMMARY, body)))
    return whole if body and brief.count(whole) <= brief.max_tokens else text


def beyond(brief: Brief, head: tuple[Section, ...]) -> tuple[Utterance, ...]:
    """The messages that say anything, without the first request where it stands in the head in full."""
    request = next((section.body for section in head if section.title == GOAL), "")

    def says_more(one: Utterance) -> bool:
        words = one.said if one.speaker is Speaker.USER else one.words.strip()
        is_request = one.speaker is Speaker.USER and words == request
        return bool(one.calls or one.results or (words and not is_request))

    return tuple(one for one in brief.utterances if says_more(one))


def fitted(head: tuple[Section, ...], brief: Brief) -> tuple[Section, ...]:
    """The head within half of the room: whole where it fits, else with its middle left out."""
    room = brief.max_tokens // HEAD_SHARE // max(len(head), 1)
    return tuple(Section(section.title, cut(section.body, room, brief.count)) for section in head)


def cut(text: str, limit: int, count: Count) -> str:
    """A text of at most `limit` tokens: itself, or its head and tail with a mark between; "" where nothing fits."""
    if limit < 1 or count(text) <= limit:
        return text if limit > 0 else ""
    return Clamp(limit, head=0.7).shortened(text, count) or ""


def first_that_fits(texts: Iterable[str | None], head: tuple[Section, ...], brief: Brief) -> str:
    """The first text within the room that says anything; the words of the head, shortened, where none is."""
    for text in texts:
        if text and brief.count(text) <= brief.max_tokens:
            return text
    return cut(head[0].body if head else "", brief.max_tokens, brief.count)


def most_that_fits(render: Callable[[int], str], most: int, brief: Brief) -> str | None:
    """`render` of the highest number, at most `most`, whose text fits; None where not even that of 0 does."""

    def fits(left_out: int) -> bool:
        return brief.count(render(most - left_out)) <= brief.max_tokens

    start = bisect_left(range(most + 1), True, key=fits)
    # Counts need not fall with every line: what the search found is looked at once more.
    return next((render(most - left_out) for left_out in range(start, most + 1) if fits(left_out)), None)


def one_line(text: str, most: int) -> str:
    """A text on one line of at most `most` characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def with_usage(text: str, answers: Iterable[Answer]) -> Written:
    """A text, and what the answers that it is made of took together."""
    given = [answer for answer in answers if isinstance(answer, Written)]
    costs = [answer.cost for answer in given]
    return Written(
        text,
        sum(answer.input_tokens for answer in given),
        sum(answer.output_tokens for answer in given),
        None if None in costs or not costs else sum(cost for cost in costs if cost is not None),
        next((answer.model for answer in given if answer.model), None),
    )
