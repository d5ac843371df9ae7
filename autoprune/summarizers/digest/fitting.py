"""Which parts of a ledger fit into a number of tokens: old entries go first, the first request last. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from autoprune.summarizers.digest import ledger as ledgers
from autoprune.summarizers.digest.folders import SHORTENED
from autoprune.summarizers.digest.ledger import ANSWER, Ledger, Turn
from autoprune.summarizers.digest.requests import shortened
from autoprune.summarizers.sections import cut, one_line
from autoprune.summarizers.utterances import sendable
from autoprune.tokens import Count, Memo

# What each part of a ledger gets of the room, in proportion; what one does not need goes to the others.
ANSWERS = "answers"
SHARES: Mapping[str, float] = {
    ANSWERS: 3,
    ledgers.PLAN: 3,
    ledgers.CHANGED: 6,
    ledgers.READ: 1,
    ledgers.STATE: 3,
    ledgers.COMMANDS: 2,
    ledgers.VALUES: 1.5,
    ledgers.OPEN: 4,
    ledgers.RESOLVED: 1,
    ledgers.FINDINGS: 3,
    ledgers.TOOLS: 0.3,
    ledgers.LAST: 4,
}
HEAD_WEIGHT = 3  # of the first and of the latest request, where not all requests have room; that of others is 1
EARLIER_WEIGHT = 2  # of somebody else's summary
REQUESTS_SHARE = 0.65  # of the tokens, that requests have where there is no room for all; more, where lists are short
MOST_SHARE = 0.85  # where even with the least for each they need more: then lists go before requests
TINY = 200  # tokens, below which requests may take that much in any case
HEADING_TOKENS = 22  # of a section, its blank line and what says how many are left out, at most
ENTRY_TOKENS = 8  # of what stands around a request: a dash, the number of its lines
ROUNDS = 3  # of filling: what entries take is only known for sure once they stand together
LONGEST_ANSWER = 240  # characters of an answer but the last, where not all fit
LEAST_REQUEST = 70  # tokens of a request that is cut; where there is less for each, the oldest are left out instead

Candidate = tuple[float, str, int]  # when its turn is, the part that it is of, and what it takes


def fitted(ledger: Ledger, count: Count, max_tokens: int) -> str:
    """The ledger as a text of at most `max_tokens` tokens: where nothing else fits, some of the first request."""
    known = Memo(count)
    whole = _plain(ledger)
    for attempt in _attempts(whole, known, max_tokens):
        if attempt and known(attempt) <= max_tokens:
            return attempt
    return ""


def _attempts(ledger: Ledger, count: Count, max_tokens: int) -> Iterator[str]:
    """Texts of a ledger, each with less in it than the one before."""
    yield str(ledger)
    shorter = _with_cut_requests(ledger, count, max_tokens)
    yield str(shorter)
    yield from _Room(shorter, count, max_tokens).texts()
    yield str(Ledger(shorter.goal, turns=tuple(replace(turn, answer="") for turn in shorter.turns[-1:])))
    yield str(Ledger(ledger.goal))
    yield cut(_words(ledger), max_tokens, count)


def _plain(ledger: Ledger) -> Ledger:
    """A ledger that can be written as UTF-8."""
    turns = tuple(Turn(sendable(turn.request), sendable(turn.answer), turn.times) for turn in ledger.turns)
    lists = {
        title: {sendable(key): sendable(value) for key, value in entries.items()}
        for title, entries in ledger.lists.items()
    }
    return Ledger(
        sendable(ledger.goal), sendable(ledger.earlier), sendable(ledger.folder), turns, lists, ledger.left_out
    )


def _words(ledger: Ledger) -> str:
    """What matters most, without a heading."""
    last = [*ledger.lists.get(ledgers.LAST, {})][-1:]
    return next(
        filter(None, (ledger.goal, ledger.earlier, *(turn.request for turn in ledger.turns[-1:]), *last)),
        ledgers.NOTHING,
    )


def _with_cut_requests(ledger: Ledger, count: Count, max_tokens: int) -> Ledger:
    """The ledger with requests, and somebody else's summary, cut to the room that they have beside the lists.

    The long ones are cut first. Where each would have too little, the oldest of the user's later requests are left out.
    """
    rest = count(str(replace(ledger, goal="", earlier="", turns=())))
    share = MOST_SHARE if max_tokens < TINY else min(MOST_SHARE, max(REQUESTS_SHARE, 1 - rest / max_tokens))
    *older, latest = ledger.turns or (Turn(""),)
    heads = (ledger.goal, latest.request, ledger.earlier)
    sizes = [count(text) + HEADING_TOKENS // 2 if text else 0 for text in heads]
    weights: list[float] = [HEAD_WEIGHT, HEAD_WEIGHT, EARLIER_WEIGHT]
    least = sum(min(size, LEAST_REQUEST * weight) for size, weight in zip(sizes, weights, strict=True))
    kept: list[Turn] = []
    for turn in reversed(older):
        size = count(turn.request) + ENTRY_TOKENS
        if least + min(size, LEAST_REQUEST) > max_tokens * MOST_SHARE:
            break
        least += min(size, LEAST_REQUEST)
        kept.insert(0, turn)
        sizes.append(size)
        weights.append(1)
    rooms = _rooms(sizes, weights, min(max(int(max_tokens * share), int(least)), int(max_tokens * MOST_SHARE)))
    goal, request, earlier = (
        shortened(text, max(room - HEADING_TOKENS // 2, 1), count) if text else ""
        for text, room in zip(heads, rooms, strict=False)
    )
    turns = tuple(
        replace(
            turn,
            request=shortened(turn.request, max(room - ENTRY_TOKENS, 1), count),
            answer=one_line(turn.answer, LONGEST_ANSWER),
        )
        for turn, room in zip(kept, reversed(rooms[len(heads) :]), strict=True)
    )
    missing = sum(bool(turn.request) for turn in older[: len(older) - len(kept)])
    left_out = {**ledger.left_out, ledgers.REQUESTS: ledger.left_out.get(ledgers.REQUESTS, 0) + missing}
    last = (replace(latest, request=request),) if ledger.turns else ()
    return replace(ledger, goal=goal, earlier=earlier, turns=(*turns, *last), left_out=left_out)


def _rooms(sizes: Sequence[int], shares: Sequence[float], room: int) -> list[int]:
    """The room for each: its size where that is less than its share; what it leaves goes to the others."""
    rooms, waiting = list(sizes), sum(shares)
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at] / shares[at]):
        rooms[at] = min(sizes[at], int(room * shares[at] / waiting))
        room -= rooms[at]
        waiting -= shares[at]
    return rooms


@dataclass(frozen=True)
class _Room:
    """A ledger that does not fit: how many of its newest entries of each part do."""

    ledger: Ledger
    count: Count
    max_tokens: int

    def texts(self) -> Iterator[str]:
        """The text of what should fit, and then of ever less."""
        order: list[str] = []
        kept = self.filled(order)
        yield self._text(kept)
        while order:
            kept[order.pop()] -= 1
            yield self._text(kept)

    def filled(self, order: list[str] | None = None) -> dict[str, int]:
        """How many entries of each part fit; `order` is told in which order they were taken."""
        kept = dict.fromkeys(SHARES, 0)
        taken: list[str] = []
        waiting = sorted(self._candidates())
        for _ in range(ROUNDS):
            waiting = self._fill(kept, waiting, taken)
        if order is not None:
            order += taken
        return kept

    def _fill(self, kept: dict[str, int], waiting: Sequence[Candidate], taken: list[str]) -> list[Candidate]:
        """Take what fits, by what each takes; what is left waits for a round that knows what all of it takes."""
        used = self.count(self._text(kept))
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
        """Each entry of each part, newest first: when its turn is, and what it takes."""
        for part, lines in self._lines().items():
            costs = [self.count(f"\n{line}") for line in reversed(lines)]
            for total, cost in zip(accumulate(costs), costs, strict=True):
                yield total / SHARES[part], part, cost

    def _lines(self) -> dict[str, list[str]]:
        turns = self.ledger.turns
        lists = {
            title: [ledgers.line(title, *entry) for entry in entries.items()]
            for title, entries in self.ledger.lists.items()
        }
        answers = [ANSWER + turn.answer if turn.answer else "" for turn in turns]
        return {**lists, ANSWERS: answers}

    def _text(self, kept: Mapping[str, int]) -> str:
        turns = self.ledger.turns
        answered = len(turns) - kept[ANSWERS]
        shown = tuple(replace(turn, answer=turn.answer if at >= answered else "") for at, turn in enumerate(turns))
        lists = {
            title: dict([*entries.items()][len(entries) - kept[title] :])
            for title, entries in self.ledger.lists.items()
        }
        missing = {title: len(entries) - kept[title] for title, entries in self.ledger.lists.items()}
        before = self.ledger.left_out
        left_out = {title: before.get(title, 0) + missing.get(title, 0) for title in {*before, *missing}}
        folder = self.ledger.folder if any(lists[title] for title in SHORTENED & lists.keys()) else ""
        return str(replace(self.ledger, folder=folder, turns=shown, lists=lists, left_out=left_out))
