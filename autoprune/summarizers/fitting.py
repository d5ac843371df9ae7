"""Which parts of a ledger fit into a number of tokens: old entries go first, the first request last. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from autoprune.readable import sendable
from autoprune.summarizers import ledger as ledgers
from autoprune.summarizers.folders import SHORTENED
from autoprune.summarizers.ledger import ANSWER, Ledger, Turn
from autoprune.summarizers.sections import cut, one_line
from autoprune.tokens import Count, Memo

# What each part of a ledger gets of the room, in proportion; what one does not need goes to the others.
ANSWERS = "answers"
SHARES: Mapping[str, float] = {
    ledgers.REQUESTS: 8,
    ANSWERS: 3,
    ledgers.RULES: 2,
    ledgers.PLAN: 3,
    ledgers.CHANGED: 3,
    ledgers.READ: 1,
    ledgers.COMMANDS: 2,
    ledgers.OPEN: 2.5,
    ledgers.RESOLVED: 0.5,
    ledgers.FINDINGS: 3,
    ledgers.TOOLS: 0.6,
    ledgers.LAST: 5,
}
HEADS = (3, 2, 2)  # the shares of the first request, the latest one and somebody else's summary, where all are too long
WHOLE_SHARE = 0.9  # of the tokens, up to which these three stand whole
HEADS_SHARE = 0.75  # that they have where they are cut: so that there is room for what was done
REQUESTS_BESIDE = 0.5  # that the two requests may have then beside a summary
TINY = 200  # tokens, below which they may take all
HEADING_TOKENS = 22  # of a section, its blank line and what says how many are left out, at most
ROUNDS = 3  # of filling: what entries take is only known for sure once they stand together
REQUESTS_SHARES = (0.7, 0.5, 0.3)  # of the tokens, for all other requests: the long ones are cut until they fit
ROOM_FOR_BOTH_ENDS = 80  # tokens, for head and tail of a request with a mark between them
CHARACTERS = 4  # of a token, about
LONGEST_ANSWER = 240  # characters of an answer but the last, where not all fit
LEAST_REQUEST = 25  # tokens of a request that is cut; then the oldest are left out instead

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
    yield str(_with_rules(ledger, ledger, ledger.turns))
    for share in REQUESTS_SHARES:
        heads = _cut_heads(ledger, count, max_tokens, share)
        yield str(_with_rules(heads, heads, heads.turns))
    kept = _Room(_with_rules(heads, ledger, ledger.turns), count, max_tokens).filled()
    shown = heads.turns[len(heads.turns) - kept[ledgers.REQUESTS] :]
    yield from _Room(_with_rules(heads, heads, shown), count, max_tokens).texts()
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


def _with_rules(ledger: Ledger, showing: Ledger, turns: Sequence[Turn]) -> Ledger:
    """The ledger with those rules alone that do not stand in a request that is shown."""
    shown = " ".join(" ".join((showing.goal, *(turn.request for turn in turns))).split())
    rules = {rule: "" for rule in ledger.lists.get(ledgers.RULES, {}) if rule not in shown}
    return replace(ledger, lists={**ledger.lists, ledgers.RULES: rules})


def _cut_heads(ledger: Ledger, count: Count, max_tokens: int, share: float) -> Ledger:
    """The ledger with its first request, its latest one and somebody else's summary cut to the room that they have.

    Of the other requests the long ones are cut, until all fit into a share of the tokens.
    """
    *older, latest = ledger.turns or (Turn(""),)
    goal, request, earlier = _cut_to_shares((ledger.goal, latest.request, ledger.earlier), max_tokens, count)
    limit = _level([count(turn.request) for turn in older], int(max_tokens * share))
    shorter = [
        Turn(_shortened(turn.request, limit, count), one_line(turn.answer, LONGEST_ANSWER), turn.times)
        for turn in older
    ]
    turns = (*shorter, replace(latest, request=request)) if ledger.turns else ()
    return replace(ledger, goal=goal, earlier=earlier, turns=turns)


def _cut_to_shares(texts: Sequence[str], max_tokens: int, count: Count) -> Iterator[str]:
    """The three heads whole, where all of them have room with their headings; else the long ones cut."""
    sizes = [count(text) + HEADING_TOKENS // 2 if text else 0 for text in texts]
    *requests, earlier = sizes
    if max_tokens < TINY:
        rooms = _rooms(sizes, HEADS, max_tokens)
    elif sum(sizes) <= max_tokens * WHOLE_SHARE:
        rooms = sizes
    else:
        rooms = _rooms(requests, HEADS[:2], int(max_tokens * (REQUESTS_BESIDE if earlier else HEADS_SHARE)))
        rooms.append(min(earlier, int(max_tokens * HEADS_SHARE) - sum(rooms)))
    for text, room in zip(texts, rooms, strict=True):
        yield cut(text, max(room - HEADING_TOKENS // 2, 1), count) if text else ""


def _rooms(sizes: Sequence[int], shares: Sequence[float], room: int) -> list[int]:
    """The room for each: its size where that is less than its share; what it leaves goes to the others."""
    rooms, waiting = list(sizes), sum(shares)
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at] / shares[at]):
        rooms[at] = min(sizes[at], int(room * shares[at] / waiting))
        room -= rooms[at]
        waiting -= shares[at]
    return rooms


def _shortened(request: str, limit: int, count: Count) -> str:
    """A request of about `limit` tokens: itself, its head and its tail, or its beginning where there is little room."""
    if count(request) <= limit:
        return request
    words = one_line(request, limit * CHARACTERS)
    return words if limit < ROOM_FOR_BOTH_ENDS else cut(request, limit, count) or words


def _level(sizes: Sequence[int], room: int) -> int:
    """What each may take at most, so that all fit together."""
    for at, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - at) > room:
            return max(room // (len(sizes) - at), LEAST_REQUEST)
        room -= size
    return max(sizes, default=LEAST_REQUEST)


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
        kept = self._least()
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

    def _least(self) -> dict[str, int]:
        """What is taken in any case: the latest request."""
        return {**dict.fromkeys(SHARES, 0), ledgers.REQUESTS: int(bool(self.ledger.turns))}

    def _candidates(self) -> Iterator[Candidate]:
        """Each entry of each part, newest first: when its turn is, and what it takes."""
        for part, lines in self._lines().items():
            costs = [self.count(f"\n{line}") for line in reversed(lines)]
            costs = costs[1:] if part == ledgers.REQUESTS else costs
            for total, cost in zip(accumulate(costs), costs, strict=True):
                yield total / SHARES[part], part, cost

    def _lines(self) -> dict[str, list[str]]:
        turns = self.ledger.turns
        lists = {
            title: [ledgers.line(title, *entry) for entry in entries.items()]
            for title, entries in self.ledger.lists.items()
        }
        answers = [ANSWER + turn.answer if turn.answer else "" for turn in turns]
        return {**lists, ledgers.REQUESTS: [ledgers.request_line(turn) for turn in turns], ANSWERS: answers}

    def _text(self, kept: Mapping[str, int]) -> str:
        turns = self.ledger.turns
        start, answered = len(turns) - kept[ledgers.REQUESTS], len(turns) - kept[ANSWERS]
        shown = tuple(
            replace(turn, answer=turn.answer if at >= answered else "") for at, turn in enumerate(turns) if at >= start
        )
        lists = {
            title: dict([*entries.items()][len(entries) - kept[title] :])
            for title, entries in self.ledger.lists.items()
        }
        missing = {title: len(entries) - kept[title] for title, entries in self.ledger.lists.items()}
        missing[ledgers.REQUESTS] = sum(bool(turn.request) for turn in turns[:start])
        before = self.ledger.left_out
        left_out = {title: before.get(title, 0) + missing.get(title, 0) for title in {*before, *missing}}
        folder = self.ledger.folder if any(lists[title] for title in SHORTENED & lists.keys()) else ""
        return str(replace(self.ledger, folder=folder, turns=shown, lists=lists, left_out=left_out))
