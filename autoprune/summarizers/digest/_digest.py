"""Write a digest that fits into a number of tokens: old items are dropped first, the first request last."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

import autoprune.summarizers.digest._contents as _contents
from autoprune.conversation.messages import one_line, sendable
from autoprune.summarizers.brief import Answer, Brief, Failed, Written
from autoprune.summarizers.digest._contents import (
    ANSWER,
    REQUESTS,
    SAID,
    SHORTENED,
    Contents,
    Exchange,
    parse_contents,
    request_line,
)
from autoprune.summarizers.digest._reading import extend_contents
from autoprune.summarizers.sections import (
    LEAST_TOKENS,
    MOST_SHARE,
    NO_ROOM,
    NOTHING,
    SHARE,
    TINY,
    cut,
    left_out_note,
    parse_sections,
    request_of,
    share_room,
    shorten,
)
from autoprune.tokens import Count, Memo

# Weights of the parts in the room: what changed and what failed matters most, what was only read or counted least.
# What one part does not need goes to the others.
ANSWERS = "answers"
SHARES: Mapping[str, float] = {
    ANSWERS: 6,
    _contents.PLAN: 3,
    _contents.CHANGED: 6,
    _contents.READ: 1,
    _contents.STATE: 3,
    _contents.COMMANDS: 2,
    _contents.VALUES: 1.5,
    _contents.OPEN: 4,
    _contents.RESOLVED: 1,
    _contents.FINDINGS: 3,
    _contents.TOOLS: 0.3,
    _contents.LAST: 4,
}
HEAD_WEIGHT = 3  # of the first and the latest request if not all have room; others have 1
EARLIER_WEIGHT = 2  # of another summarizer's summary
HEADING_TOKENS = 22  # at most, of a heading with its blank line and the line on omitted items
ITEM_TOKENS = 8  # around a request: a dash, the number of its lines
ROUNDS = 3  # of filling: the tokens of items together are known only once they are counted together
ANSWERS_SHARE = 0.2  # of the tokens, the least for answers; they get more if the lists are short
LEAST_ANSWER = 24  # tokens of an answer that is cut

Candidate = tuple[float, str, int]  # when it is taken, its part, and its tokens


@dataclass(frozen=True)
class Digest:
    """Write a digest of a brief: sections with the user's requests, plan, files, commands, errors and findings.

    Deterministic: the same brief gives the same text, in any process. The text has at most `brief.max_tokens` tokens
    and is blank only if not even a character fits. The user's words are kept verbatim as far as they fit: the first
    request, the latest request and another summarizer's earlier summary are shortened last.

    A previous digest (`brief.previous`) is parsed and continued, so that it loses only its oldest items that do not
    fit; any other previous text is kept as an earlier summary.
    """

    calls_model: ClassVar[bool] = False
    keeps_request: ClassVar[bool] = True
    fallback: ClassVar[None] = None

    def __call__(self, brief: Brief) -> Answer:
        contents = extend_contents(parse_contents(sendable(brief.previous)), brief.utterances, request_of(brief))
        text = fit_contents(contents, brief.count, brief.max_tokens)
        if not text:
            return Failed("there is no room for a word")
        is_whole = parse_sections(text) is not None
        shown = [one.request for one in parse_contents(text).exchanges if one.request] if is_whole else []
        requests = contents.left_out.get(REQUESTS, 0) + sum(bool(one.request) for one in contents.exchanges)
        return Written(text, notes=tuple(left_out_note(contents.goal, text, shown, requests - len(shown))))


def fit_contents(contents: Contents, count: Count, max_tokens: int) -> str:
    """Write the contents in at most `max_tokens` tokens; at least some of the first request remains."""
    memo = Memo(count)
    attempts = _attempts(_sendable_contents(contents), memo, max_tokens)
    return next((attempt for attempt in attempts if attempt and memo(attempt) <= max_tokens), "")


def _attempts(contents: Contents, count: Count, max_tokens: int) -> Iterator[str]:
    """Yield texts of the contents, each shorter than the previous one."""
    yield str(contents)
    shorter = _with_cut_answers(_with_cut_requests(contents, count, max_tokens), count, max_tokens)
    yield str(shorter)
    yield from _Room(shorter, count, max_tokens).texts()
    *older, last = shorter.exchanges or (Exchange(""),)
    yield str(Contents(shorter.goal, exchanges=(_without_answer(last),), left_out=_more_left_out(shorter, older)))
    missing = _more_left_out(shorter, shorter.exchanges)
    for goal in (contents.goal, shorten(contents.goal, max(max_tokens - 2 * HEADING_TOKENS, LEAST_ANSWER), count)):
        yield str(Contents(goal, left_out=missing))
    yield str(Contents(contents.goal))
    last_request = contents.exchanges[-1].request if contents.exchanges else ""
    bare = contents.goal or contents.earlier or last_request or (NO_ROOM if str(contents) else NOTHING)
    yield cut(bare, max_tokens, count)


def _without_answer(exchange: Exchange) -> Exchange:
    """Drop an exchange's answer; an exchange that is over stays over."""
    return replace(exchange, answer=_contents.NONE_KEPT if exchange.is_over else "")


def _more_left_out(contents: Contents, exchanges: Sequence[Exchange]) -> Mapping[str, int]:
    """Count the user's requests that are left out, including those of `exchanges`."""
    missing = sum(bool(one.request) for one in exchanges)
    return {_contents.REQUESTS: contents.left_out.get(_contents.REQUESTS, 0) + missing}


def _sendable_contents(contents: Contents) -> Contents:
    """Replace lone surrogates, which cannot be encoded as UTF-8."""
    exchanges = tuple(Exchange(sendable(one.request), sendable(one.answer), one.times) for one in contents.exchanges)
    lists = {
        title: {sendable(key): sendable(value) for key, value in items.items()}
        for title, items in contents.lists.items()
    }
    goal, earlier, folder = map(sendable, (contents.goal, contents.earlier, contents.folder))
    return replace(contents, goal=goal, earlier=earlier, folder=folder, exchanges=exchanges, lists=lists)


def _with_cut_requests(contents: Contents, count: Count, max_tokens: int) -> Contents:
    """Cut the requests and the earlier summary to the room that the lists leave.

    The long texts are cut first. If each would have too little room, the oldest of the later requests are left out.
    """
    free = max_tokens - count(str(replace(contents, goal="", earlier="", exchanges=()))) - 2 * HEADING_TOKENS
    most = max(int(max_tokens * MOST_SHARE), free)
    *older, latest = contents.exchanges or (Exchange(""),)
    heads = (contents.goal, latest.request, contents.earlier)
    sizes = [count(text) + HEADING_TOKENS // 2 if text else 0 for text in heads]
    weights: list[float] = [HEAD_WEIGHT, HEAD_WEIGHT, EARLIER_WEIGHT]
    least = sum(min(size, LEAST_TOKENS * weight) for size, weight in zip(sizes, weights, strict=True))
    kept: list[Exchange] = []
    for one in reversed(older):
        size = count(f"{request_line(one)}\n") if one.request else 0
        if least + min(size, LEAST_TOKENS) > most:
            break
        least += min(size, LEAST_TOKENS)
        kept.insert(0, one)
        sizes.append(size)
        weights.append(1)
    share = max_tokens if max_tokens < TINY else max(int(max_tokens * SHARE), free, int(least))
    rooms = share_room(sizes, weights, min(share, most))
    goal, request, earlier = (
        shorten(text, max(room - HEADING_TOKENS // 2, 1), count) if text else ""
        for text, room in zip(heads, rooms, strict=False)
    )
    exchanges = tuple(
        replace(one, request=_shorten_request(one, room, count))
        for one, room in zip(kept, reversed(rooms[len(heads) :]), strict=True)
    )
    left_out = {**contents.left_out, **_more_left_out(contents, older[: len(older) - len(kept)])}
    last = (replace(latest, request=request),) if contents.exchanges else ()
    return replace(contents, goal=goal, earlier=earlier, exchanges=(*exchanges, *last), left_out=left_out)


def _shorten_request(one: Exchange, room: int, count: Count) -> str:
    """Shorten a request so that its item has at most about `room` tokens."""
    is_whole = count(f"{request_line(one)}\n") <= room
    return one.request if is_whole else shorten(one.request, max(room - ITEM_TOKENS, 1), count)


def _with_cut_answers(contents: Contents, count: Count, max_tokens: int) -> Contents:
    """Cut the answers and the assistant's last words to the room that everything else leaves."""
    last = contents.lists.get(_contents.LAST, {})
    others = {item: "" for item in last if not item.startswith(SAID)}
    bare = tuple(replace(one, answer="") for one in contents.exchanges)
    rest = count(str(replace(contents, exchanges=bare, lists={**contents.lists, _contents.LAST: others})))
    room = max(int(max_tokens * ANSWERS_SHARE), max_tokens - rest - 2 * HEADING_TOKENS)
    words = [*(one.answer for one in contents.exchanges), *(item for item in last if item.startswith(SAID))]
    sizes = [count(ANSWER + text) + 1 if text else 0 for text in words]
    limits = share_room(sizes, [*[1] * (len(sizes) - 1), HEAD_WEIGHT][-len(sizes) :], room) if sizes else []
    shorter = [
        _shorten_line(text, max(limit - ITEM_TOKENS, LEAST_ANSWER), count)
        for text, limit in zip(words, limits, strict=True)
    ]
    exchanges = tuple(replace(one, answer=each) for one, each in zip(contents.exchanges, shorter, strict=False))
    by_words = dict(zip(words, shorter, strict=True))
    lists = {**contents.lists, _contents.LAST: {by_words.get(item, item): "" for item in last}}
    return replace(contents, exchanges=exchanges, lists=lists)


def _shorten_line(line: str, limit: int, count: Count) -> str:
    """Shorten the assistant's line to its beginning and end if it exceeds about `limit` tokens."""
    return line if count(line) <= limit else one_line(shorten(line, limit, count), len(line))


@dataclass(frozen=True)
class _Room:
    """Contents that are too long, and the choice of the newest items of each part."""

    contents: Contents
    count: Count
    max_tokens: int

    def texts(self) -> Iterator[str]:
        """Yield the text of the chosen items, then texts with one item less each time."""
        kept = dict.fromkeys(SHARES, 0)
        taken: list[str] = []  # the part of each chosen item, in the order of the choice
        waiting = sorted(self._candidates())
        for _ in range(ROUNDS):
            waiting = self._choose_round(kept, waiting, taken)
        yield self._text_with(kept)
        while taken:
            kept[taken.pop()] -= 1
            yield self._text_with(kept)

    def _choose_round(self, kept: dict[str, int], waiting: Sequence[Candidate], taken: list[str]) -> list[Candidate]:
        """Choose the items that fit by their estimated cost; return the others for the next round."""
        used = self.count(self._text_with(kept))
        left: list[Candidate] = []
        full: set[str] = set()
        for candidate in waiting:
            _, part, cost = candidate
            extra = cost + (0 if kept[part] or part == ANSWERS else HEADING_TOKENS)
            if part in full or used + extra > self.max_tokens:
                full.add(part)
                left.append(candidate)
                continue
            used += extra
            kept[part] += 1
            taken.append(part)
        return left

    def _candidates(self) -> Iterator[Candidate]:
        """Yield each item of each part, the newest first: its priority, its part, and its tokens."""
        parts = {
            title: [_contents.item_line(title, *item) for item in items.items()]
            for title, items in self.contents.lists.items()
        }
        parts[ANSWERS] = [ANSWER + one.answer if one.answer else "" for one in self.contents.exchanges]
        for part, lines in parts.items():
            costs = [self.count(f"\n{line}") for line in reversed(lines)]
            for total, cost in zip(accumulate(costs), costs, strict=True):
                yield total / SHARES[part], part, cost

    def _exchanges_with(self, kept: Mapping[str, int]) -> Iterator[Exchange]:
        """Yield the exchanges with the newest answers.

        If the assistant's last words have no room in their own list, which needs a heading, they are shown as the
        answer of the exchange that is not over. Words before the last calls announce these, so they are no answer.
        """
        exchanges = self.contents.exchanges
        answered = len(exchanges) - kept[ANSWERS]
        last = max((at for at, one in enumerate(exchanges) if not one.is_through_tool), default=-1)
        *_, newest = ("", *self.contents.lists.get(_contents.LAST, {}))
        for at, one in enumerate(exchanges):
            if at < answered:
                yield _without_answer(one) if at == last else replace(one, answer="")
            elif at == last and not one.is_over and newest.startswith(SAID) and not kept[_contents.LAST]:
                yield replace(one, answer=newest.removeprefix(SAID) + _contents.SO_FAR)
            else:
                yield one

    def _text_with(self, kept: Mapping[str, int]) -> str:
        lists: dict[str, Mapping[str, str]] = {}
        left_out = dict(self.contents.left_out)
        for title, items in self.contents.lists.items():
            missing = len(items) - kept[title]
            lists[title] = dict([*items.items()][missing:])
            left_out[title] = left_out.get(title, 0) + missing
        folder = self.contents.folder if any(lists[title] for title in SHORTENED & lists.keys()) else ""
        shown = tuple(self._exchanges_with(kept))
        return str(replace(self.contents, folder=folder, exchanges=shown, lists=lists, left_out=left_out))
