"""The conversations on a replay's page: what each cost and would save, and the data of those that can be opened.

The data of a conversation is compressed JSON in a script element of its own, which the browser never runs. The page's
script decodes it when the conversation is opened.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autoprune.apps.frontend.markup import Markup, clean, collapsible, concatenate, element
from autoprune.apps.replay.choices import NO_PRUNING
from autoprune.apps.replay.compaction_costs import Compaction
from autoprune.apps.replay.detail import SessionDetail
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.page_strategies import Ranked, legend
from autoprune.apps.replay.session import EpisodeShape, SessionFigures
from autoprune.apps.replay.spending import BillChange, changes
from autoprune.apps.replay.verdict import round_tokens
from autoprune.errors import count_noun

CHART = 100  # units of the height of a chart of compactions
MOST_LISTED = 1_000  # conversations; the cheaper ones are only counted
HEAD = (("what", "conversation"), ("size", "requests"), ("cost", "cost"), ("saving", "would save"))
INTRO = """Requests are numbered from 0. Upper charts: the part of each prompt that was read from the cache, newly
written, and cleared; the line is the unpruned prompt. A tall newly written column is a broken cache. Lower charts:
each result is a bar, as high as its tokens, the oldest at the bottom, from the request that first held it until it was
cleared; so the colored area is what the prompts carried. A dot is a request whose action needed the result, a cross
one that no longer found it. Point at a chart, or focus it and use the arrow keys, to read its figures."""


@dataclass(frozen=True)
class ListedConversation:
    """A row of the list. `change` is None if it was not replayed with the strategy that is compared."""

    session: SessionFigures
    name: str
    change: BillChange | None

    @property
    def shape(self) -> EpisodeShape:
        """Its size and its recorded cost."""
        return self.session.shapes[self.name]

    @property
    def order(self) -> Mapping[str, tuple[float, ...]]:
        """The keys for sorting the list, lowest first. Dollars come before tokens."""
        paid, change = self.shape.dollars or 0.0, self.change
        return {
            "saving": (not paid, -change.saved if change else 0.0),
            "cost": (not paid, -paid, -change.unpruned if change else 0.0),
            "date": (-self.shape.title.time,),
        }


def conversations(found: Sequence[SessionFigures], strategy: str, prices: str) -> list[ListedConversation]:
    """Return the conversations of some sessions, those that would save most first."""
    rows: list[ListedConversation] = []
    for session in found:
        known = {each.figures.episode: each for each in changes(session, strategy, prices)} if strategy else {}
        rows.extend(ListedConversation(session, name, known.get(name)) for name in session.shapes)
    rows.sort(key=lambda each: (each.order["cost"], each.name))
    return sorted(rows[:MOST_LISTED], key=lambda each: each.order["saving"])


def session_list(rows: Sequence[ListedConversation], total: int, details: Sequence[SessionDetail]) -> Iterator[Markup]:
    """Yield the list of conversations. The script can sort it, and fills those that have details when they are open."""
    numbers = {each.episode: number for number, each in enumerate(details)}
    ranks = {key: _ranks(rows, key) for key in ("saving", "cost", "date")}
    yield element("p", _about(len(rows), len(details)))
    if details:
        yield collapsible("How to read the charts of a conversation", element("p", INTRO), _key())
    yield element("div", class_="sort", id="sort")
    yield element("div", *(element("span", text, class_=name) for name, text in HEAD), class_="row head")
    items = (
        _conversation(each, numbers.get(each.name), {key: str(known[place]) for key, known in ranks.items()})
        for place, each in enumerate(rows)
    )
    yield element("div", *items, id="conversations")
    if total > len(rows):
        yield element("p", f"{total - len(rows):,} cheaper ones are left out here.")


def _ranks(rows: Sequence[ListedConversation], key: str) -> list[int]:
    """Return the place of each row if the list is sorted by `key`."""
    places = sorted(range(len(rows)), key=lambda place: rows[place].order[key])
    return sorted(range(len(rows)), key=places.__getitem__)


def _about(listed: int, detailed: int) -> str:
    which = "the conversation" if listed == 1 else "each conversation"
    words = f"Of {which}, the longest stretch between compactions was replayed: requests, cost and saving are of it."
    opened = "▪ marks the one" if detailed == 1 else f"▪ marks the {detailed} with the largest bills, those"
    return f"{words} {opened} that can be followed result by result." if 0 < detailed < listed else words


def _key() -> Markup:
    return legend(
        ("area cached", "", "read from the cache; in view"),
        ("area written", "", "newly written"),
        ("area cleared", "", "cleared"),
        ("mark needed", "", "needed: a later step used it"),
        ("mark missed", "×", "needed, but cleared before"),
        name="lives",
    )


def _conversation(row: ListedConversation, number: int | None, ranks: Mapping[str, str]) -> Markup:
    shape = row.shape
    title = str(shape.title) or row.name
    mark = element("i", "▪", title="can be followed result by result") if number is not None else ""
    cells = (title, requests_text(shape), cost_text(row), saving_text(row.change))
    spans = [element("span", cell, class_=name) for (name, _), cell in zip(HEAD[1:], cells[1:], strict=True)]
    # The path is only shown to those who look for it: a title says more.
    what = element("span", mark, element("b", title), class_="what", title=row.name)
    summary = element("span", what, *spans, class_="row")
    place = {} if number is None else {"id": f"session-{number}"}
    marks = {f"data_{key}": rank for key, rank in ranks.items()}
    facts = element("p", *_facts(row), class_="note")
    # In a file with several conversations, it is not known whose compactions they are.
    drawn = compaction_chart(row.session.compactions) if len(row.session.shapes) == 1 else Markup()
    return collapsible(summary, facts, drawn, class_="session", **place, **marks)


def requests_text(shape: EpisodeShape) -> str:
    """Return the number of replayed requests, and of all requests if the conversation has more."""
    return f"{shape.requests:,}" + (f" of {shape.all_requests:,}" if shape.all_requests > shape.requests else "")


def cost_text(row: ListedConversation) -> str:
    """Return the recorded cost in dollars or, if that is not known, the unpruned bill in input tokens."""
    if row.shape.dollars:
        return f"${row.shape.dollars:,.2f}"
    return f"{round_tokens(row.change.unpruned)} tokens" if row.change else "–"


def saving_text(change: BillChange | None) -> str:
    """Return the saving of the strategy in dollars, or else in input tokens, with its share."""
    if change is None:
        return "–"
    sign = "−" if change.saved < 0 else ""
    size = f"${abs(change.saved):,.2f}" if change.paid else f"{round_tokens(abs(change.saved))} tokens"
    share = 100 * (change.unpruned - change.pruned) / change.unpruned
    return f"{sign}{size} ({sign}{abs(share):.0f}%)" if round(share) else f"{sign}{size}"


def _facts(row: ListedConversation) -> Iterator[str]:
    """Yield the size of a conversation, its results and its cache, and the file that holds it."""
    shape, session = row.shape, row.session
    yield ", ".join(filter(None, (session.agent, *shape.models, count_noun(shape.requests, "request"))))
    share = f"{100 * shape.result_tokens / shape.tokens:.0f}%" if shape.tokens else "none"
    results = f"{share} of them in {count_noun(shape.results, 'result')}, the largest {shape.largest_result:,}"
    yield f". {shape.tokens:,} tokens of messages, {results}. "
    if shape.reads:
        yield f"{shape.reads_again:,} of {shape.reads:,} paths in calls had been named before. "
    if shape.recorded_cached and shape.recorded_prompt:
        cached = f"{100 * shape.recorded_cached / shape.recorded_prompt:.0f}% of the prompts came from the cache"
        yield f"{cached}; the unpruned replay says {100 * _simulated_share(session, row.name):.0f}%. "
    if session.compactions:
        yield f"Compacted at {', '.join(map(_compaction_text, session.compactions))}. "
    yield from (f"{note[:1].upper()}{note[1:]}. " for note in session.notes)
    yield element("code", row.name)


def _compaction_text(known: Compaction) -> str:
    """Return the size and the cost of a compaction, and what would have become of it."""
    cost = f"{round_tokens(known.tokens)} input tokens" if known.dollars is None else f"${known.dollars:,.2f}"
    fates = {None: "", True: ", not with autoprune run", False: ", with autoprune run too"}
    fate = ", asked for by the user" if known.by_user else fates[known.is_prevented]
    return f"{known.prompt:,} tokens (about {cost}{fate})"


def compaction_chart(known: Sequence[Compaction]) -> Markup:
    """Draw the prompts before each compaction, recorded and pruned; a dashed line is a compaction. "" without any."""
    if not known:
        return Markup()
    most = max(max(each.unpruned) for each in known)
    width = sum(len(each.unpruned) for each in known)
    shapes: list[Markup] = []
    start = 0
    for each in known:
        end = start + len(each.unpruned)
        areas = {"cleared": each.unpruned, "sent": each.pruned} if each.pruned else {"rest": each.unpruned}
        for kind, prompts in areas.items():
            tops = "".join(f"V{CHART * (1 - tokens / most):.1f}H{start + at}" for at, tokens in enumerate(prompts, 1))
            shapes.append(element("path", class_=kind, d=f"M{start} {CHART}{tops}V{CHART}Z"))
        place = {"x1": str(end), "x2": str(end), "y1": "0", "y2": str(CHART)}
        shapes.append(element("line", class_="zone", vector_effect="non-scaling-stroke", **place))
        start = end
    label = f"Prompts before {count_noun(len(known), 'compaction')}, up to {most:,} tokens"
    box = {"viewBox": f"0 0 {width} {CHART}", "preserveAspectRatio": "none", "role": "img", "aria_label": label}
    replayed = [("area sent", "", "with autoprune run"), ("area cleared", "", "cleared")]
    others = [("area rest", "", "not replayed")]
    is_replayed = {bool(each.pruned) for each in known}
    key = legend(*replayed * (True in is_replayed), *others * (False in is_replayed), ("", "┊", "compacted here"))
    return element("figure", element("svg", *shapes, **box), key, class_="compared compactions")


def _simulated_share(session: SessionFigures, episode: str) -> float:
    """Return the share of an episode's prompts that an unpruned replay reads from the cache."""
    known = next((each for each in session.figures if (each.episode, each.strategy) == (episode, NO_PRUNING)), None)
    return sum(known.held) / sum(known.prompts) if known and sum(known.prompts) else 0.0


def broken_promises(figures: Sequence[Figures]) -> list[Markup]:
    """Return the guarantees that strategies broke, as lines."""
    return [
        concatenate((f"{each.strategy}, ", element("code", each.episode), f": {what}"))
        for each in figures
        for what in each.violations
    ]


# The data of those that can be opened.


def session_data(details: Sequence[SessionDetail], found: Sequence[SessionFigures], ranked: Sequence[Ranked]) -> Markup:
    """Return the script elements that hold the data of each conversation with details."""
    titles = {name: str(shape.title) for session in found for name, shape in session.shapes.items()}
    return concatenate(
        element(
            "script",
            Markup(packed(_detail(each, ranked, titles.get(each.episode) or each.episode))),
            type="application/gzip",
            id=f"session-{number}-data",
        )
        for number, each in enumerate(details)
    )


def packed(value: object) -> str:
    """JSON-like data with clean texts as gzip in base64, the same bytes at each run."""
    text = json.dumps(clean_all(value), separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def clean_all(value: Any) -> Any:
    """JSON-like data in which every text is clean."""
    match value:
        case str():
            return clean(value)
        case Mapping():
            return {clean(name): clean_all(each) for name, each in value.items()}
        case list() | tuple():
            return [clean_all(each) for each in value]
    return value


def _detail(detail: SessionDetail, ranked: Sequence[Ranked], name: str) -> dict[str, Any]:
    """Return the data of a conversation's charts, with outcomes in the order of the table of strategies."""
    # A strategy that was replayed in two styles has the number of the better one: details are of full history only.
    ranks = {each.row.strategy: each for each in reversed(ranked)}
    known = [each for each in detail.outcomes if each.strategy in ranks]
    outcomes = [
        {**asdict(each), "label": ranks[each.strategy].name, "prunes": each.strategy != NO_PRUNING}
        for each in sorted(known, key=lambda each: ranks[each.strategy].number)
    ]
    return {**asdict(detail), "name": name, "outcomes": outcomes}
