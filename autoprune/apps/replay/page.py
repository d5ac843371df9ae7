"""Render a replay as one self-contained HTML file: tables as markup, charts by a script from JSON. Opens no file.

Sessions hold hostile text. `element` escapes it in markup, and the script only ever sets it as text. The page's policy
allows only its own style and script, by their hashes.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from string import Template
from typing import Any

from autoprune.apps.frontend import Markup, asset, bundle, clean, collapsible, concatenate, element, escape_text, table
from autoprune.apps.replay.atoms import Group
from autoprune.apps.replay.corpus import why_skipped
from autoprune.apps.replay.detail import SessionDetail
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.evidence import PROTECTED_NAMES
from autoprune.apps.replay.policies import NO_PRUNING
from autoprune.apps.replay.rows import Interval, Row
from autoprune.apps.replay.session import Overview, SessionFigures, overview
from autoprune.apps.replay.verdict import Standing, count_noun, standings, strategy_label
from autoprune.economics import LISTS

MOST_ROWS = 200  # of a table or a list; the rest is only counted
SHARED_SCRIPTS = ("dom.js", "numbers.js", "chart.js", "columns.js")
SCRIPTS = ("frontier.js", "lives.js", "report.js")

INTRO = """Requests are numbered from 0. Upper charts: the part of each prompt that was read from the cache, newly
written, and cleared; the line is the unpruned prompt. A tall newly written column is a broken cache. Lower charts:
each result is a bar, as high as its tokens, the oldest at the bottom, from the request that first held it until it was
cleared; so the colored area is what the prompts carried. A dot is a request whose action needed the result, a cross
one that no longer found it. Point at a chart, or focus it and use the arrow keys, to read its figures."""
NO_TEXTS = """This page holds no text of a result, and of the calls only tools’ names, paths and names of programs. With
--texts, results open to their texts."""


def page(
    found: Sequence[SessionFigures],
    details: Sequence[SessionDetail],
    *,
    prices: str,
    command: str,
    advice: str,
    notes: Sequence[str] = (),
) -> str:
    """Render replayed sessions as an HTML page.

    `details` are the sessions that the page can open, `prices` the name of the prices to show first, `command` the
    command that made the page, and `notes` remarks on the figures.
    """
    figures = [each for session in found for each in session.figures]
    names = [prices, *(name for name in figures[0].bills if name != prices)] if figures else []
    bills = [(name, [Ranked(*each) for each in enumerate(standings(figures, name), 1)]) for name in names]
    shown = details if bills else ()
    whole = overview(found)
    style, script = _files()
    return Template(asset("report/report.html", "autoprune.apps.replay")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        title=escape_text(f"Replay of {count_noun(whole.sessions, 'session')}: autoprune"),
        style=style,
        summary=_summary(whole),
        advice=escape_text(advice),
        command=escape_text(command),
        bills=concatenate(_bill(number, name, ranked) for number, (name, ranked) in enumerate(bills)),
        sessions=element("section", *_sessions(found, whole, figures, notes), aria_labelledby="sessions"),
        opened=_session_list(shown),
        texts=_texts_notice(shown),
        data=_data(bills, shown),
        script=script,
    )


@dataclass(frozen=True)
class Ranked:
    """A strategy with its number on the page, which labels its point in charts and its row in the table."""

    number: int
    standing: Standing

    @property
    def row(self) -> Row:
        """Its figures over all episodes."""
        return self.standing.row

    @property
    def name(self) -> str:
        """Its name, with the style unless that is full history."""
        return strategy_label(self.row)

    @property
    def kind(self) -> str:
        """Whether it can be chosen, is a baseline, or knows later actions."""
        if self.standing.is_clairvoyant:
            return "clairvoyant"
        return "reference" if self.standing.is_reference else "choice"


def _bullets(lines: Sequence[Markup]) -> Iterator[Markup]:
    """Yield a list of the first lines, and the number of the others."""
    yield element("ul", *(element("li", line) for line in lines[:MOST_ROWS]))
    if len(lines) > MOST_ROWS:
        yield element("p", f"And {len(lines) - MOST_ROWS:,} more.")


def _small(text: str) -> Markup:
    return element("small", text)


def _files() -> tuple[str, str]:
    """The style and the script of the page."""
    own = {name: asset(f"report/{name}", "autoprune.apps.replay") for name in ("report.css", *SCRIPTS)}
    style = asset("base.css") + own.pop("report.css")
    return style, bundle({**{name: asset(name) for name in SHARED_SCRIPTS}, **own})


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _data(bills: Sequence[tuple[str, Sequence[Ranked]]], details: Iterable[SessionDetail]) -> str:
    """The data of the charts as JSON for a script element, where `<` could end the element."""
    data = {
        "bills": [_points(ranked) for _, ranked in bills],
        "sessions": [_detail(each, bills[0][1]) for each in details],
    }
    return json.dumps(_clean_all(data), separators=(",", ":")).replace("<", "\\u003c")


def _clean_all(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case Mapping():
            return {clean(name): _clean_all(each) for name, each in value.items()}
        case list() | tuple():
            return [_clean_all(each) for each in value]
    return value


def _points(ranked: Sequence[Ranked]) -> list[dict[str, Any]]:
    """The points of the frontiers, without facts if no action used any."""
    fields = ["bill", "code", "edits", *(["facts"] if any(each.row.needed[Group.FACTS] for each in ranked) else [])]
    return [
        {
            "number": each.number,
            "name": each.name,
            "kind": each.kind,
            **{field: list(asdict(getattr(each.row, field)).values()) for field in fields},
        }
        for each in ranked
    ]


def _detail(detail: SessionDetail, ranked: Sequence[Ranked]) -> dict[str, Any]:
    """The data of a session's charts, with outcomes labeled and ordered by the numbers of their strategies."""
    # A strategy that was replayed in two styles has the number of the better one: details are of full history only.
    numbers = {each.row.strategy: each for each in reversed(ranked)}
    known = [(numbers[each.strategy], each) for each in detail.outcomes if each.strategy in numbers]
    outcomes = [
        {**asdict(each), "label": f"{rank.number} {rank.name}"}
        for rank, each in sorted(known, key=lambda pair: pair[0].number)
    ]
    return {**detail.to_dict(), "name": detail.episode, "outcomes": outcomes}


# The section on strategies.


def _summary(whole: Overview) -> Markup:
    return escape_text(
        f"{count_noun(whole.episodes, 'recorded conversation')} with {count_noun(whole.requests, 'request')}, replayed "
        "offline: at each request, each strategy was asked as in a live loop, and the prompt that it would have sent "
        "was measured."
    )


def _bill(number: int, prices: str, ranked: Sequence[Ranked]) -> Markup:
    """The frontier and the table at one set of prices; all but the first set are collapsed."""
    words = ""
    if known := LISTS.get(prices):
        words = f" ({known.write:g} written, {known.read:g} read, {known.output:g} answered, in input tokens)"
    parts = (
        element(
            "p",
            "Prices: ",
            element("b", prices),
            f"{words}. Each point is a strategy with its 95 % interval over sessions, and has the number of its row "
            "below. The broad line is the frontier: no other strategy beats those on it in both. Diamonds "
            "know what comes later: they cannot be chosen, and show how much there is to gain.",
        ),
        element("div", class_="charts frontier", id=f"bill-{number}"),
        _legend(
            ("mark choice", "", "a strategy that you can choose"),
            ("mark reference", "", "a reference to compare with"),
            ("mark limit", "", "knows what comes later"),
        ),
        _strategies(prices, ranked),
        element(
            "p",
            "Bills are shares of the unpruned one, the four kinds of evidence shares of what later actions needed. "
            "Strategies are in bands by the lowest of them, the cheapest first in each; ≈ marks a bill that does not "
            "differ significantly from the one above.",
            class_="note",
        ),
    )
    if number:
        return collapsible(f"The same at other prices: {prices}", *parts, class_="prices")
    return element("section", element("h2", "Bill against evidence", id="frontier"), *parts, aria_labelledby="frontier")


def _legend(*items: tuple[str, str, str]) -> Markup:
    return element(
        "ul", *(element("li", element("i", mark, class_=name), text) for name, mark, text in items), class_="key"
    )


def _strategies(prices: str, ranked: Sequence[Ranked]) -> Markup:
    head = (
        *("strategy", "bill", "with re-reads", "worst session", "dearer in", "code,\xa0%", "edits,\xa0%"),
        *("shell\xa0edits,\xa0%", "facts,\xa0%", "code in\xa0results,\xa0%", "code, lag\xa0>\xa020,\xa0%"),
        *(f"{name},\xa0%" for name in PROTECTED_NAMES.values()),
        *("cache breaks", "re-reads", "slowest prune"),
    )
    return table(head, _rows_by_band(ranked, len(head)), f"Strategies at {prices} prices", class_="strategies")


def _rows_by_band(ranked: Iterable[Ranked], width: int) -> Iterator[Markup]:
    """Yield the rows of the table, with a heading before each band."""
    band = ""
    for each in ranked:
        if band != (band := _band(each.standing)):
            yield element("tr", element("th", band, scope="rowgroup", colspan=str(width)), class_="band")
        yield _strategy_row(each)


def _band(standing: Standing) -> str:
    if standing.is_clairvoyant:
        return "Knows what comes later: no choice"
    kept = f"At least {100 * standing.band:.0f} % of each kind of evidence kept"
    return kept if standing.band else "Below 90 % of some kind of evidence"


def _strategy_row(each: Ranked) -> Markup:
    row = each.row
    broken = element("small", f"promises broken: {row.violations}", class_="wrong") if row.violations else ""
    tied = element("span", "≈", class_="tied", title="not significantly different from the one above")
    cells = (
        concatenate((tied if each.standing.is_tied else "", _interval_cell(row.bill, 1, 3))),
        _interval_cell(each.standing.rereads, 1, 3),
        *(f"{row.worst:.2f}", f"{row.dearer:.0%}".replace("%", " %")),
        *(
            _interval_cell(share, 100, 1) if row.needed[group] else _small("none needed")
            for group, share in row.evidence.items()
        ),
        *(f"{100 * row.in_results:.1f}", f"{100 * row.far:.1f}"),
        *(
            f"{100 * row.protected[kind].value:.1f}" if kind in row.protected else _small("none")
            for kind in PROTECTED_NAMES
        ),
        *(f"{row.cache_breaks:,}", f"{row.rereads:,}", f"{1_000 * row.slowest:.0f} ms"),
    )
    number = element("span", str(each.number), class_=f"number {each.kind}")
    name = element("th", number, f" {each.name}", broken, scope="row")
    return element("tr", name, *(element("td", cell) for cell in cells))


def _interval_cell(value: Interval, factor: int, digits: int) -> Markup:
    figure, low, high = (f"{factor * each:.{digits}f}" for each in (value.value, value.low, value.high))
    return concatenate((element("b", figure), " ", _small(f"{low} to {high}")))


# The section on sessions.


def _sessions(
    found: Sequence[SessionFigures], whole: Overview, figures: Iterable[Figures], notes: Sequence[str]
) -> Iterator[Markup]:
    yield element("h2", "The sessions", id="sessions")
    pairs = (
        element("div", element("dt", name), element("dd", value, _small(beside)))
        for name, value, beside in _sums(whole)
    )
    yield element("dl", *pairs, class_="figures")
    yield collapsible("Each conversation: its size, its results, its cache", *_conversations(found))
    if skipped := [(each.path, why) for each in found if (why := why_skipped(each))]:
        lines = [concatenate((element("code", path), f": {why}")) for path, why in skipped]
        yield collapsible(
            f"{count_noun(len(skipped), 'file')} {'was' if len(skipped) == 1 else 'were'} skipped", *_bullets(lines)
        )
    broken = [
        concatenate((f"{each.strategy}, ", element("code", each.episode), f": {what}"))
        for each in figures
        for what in each.violations
    ]
    if broken:
        yield collapsible(f"Broken promises: {len(broken):,}", *_bullets(broken))
    if notes:
        yield element("h3", "Notes")
        yield element("ul", *(element("li", note) for note in notes))


def _sums(whole: Overview) -> Iterator[tuple[str, str, str]]:
    """Yield totals over all sessions: a name, a value, and an explanation."""
    yield "sessions", f"{whole.sessions:,}", f"of {count_noun(whole.files, 'file')}"
    yield "requests", f"{whole.requests:,}", ""
    yield "tokens of messages", f"{whole.tokens:,}", f"median {whole.median_tokens:,}, largest {whole.largest_tokens:,}"
    results = f"of the tokens, in {count_noun(whole.results, 'result')}; the largest has {whole.largest_result:,}"
    yield "tool results", _percent(whole.result_share), results
    again = whole.reads_again / whole.reads if whole.reads else 0.0
    yield "paths touched again", _percent(again), f"of {whole.reads:,}"
    yield "pauses that lose the cache", f"{whole.long_pauses:,}", ""
    yield "needed from results", f"{whole.atoms:,}", "texts and names of code that later actions used"
    if whole.recorded is None or whole.simulated is None:
        yield "prompts read from the cache", "–", "not recorded"
    else:
        said = f"as recorded in {whole.recording:,}; the unpruned replay of those says {_percent(whole.simulated)}"
        yield "prompts read from the cache", _percent(whole.recorded), said


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _conversations(found: Sequence[SessionFigures]) -> Iterator[Markup]:
    """Yield a table of the episodes, the largest first."""
    head = (
        *("conversation", "agent", "requests", "tokens", "results", "largest", "of the tokens", "touched again"),
        *("cached, recorded", "cached, replayed", "notes"),
    )
    known = [(each, name) for each in found for name in each.shapes]
    known.sort(key=lambda pair: (-pair[0].shapes[pair[1]].tokens, pair[1]))
    yield table(head, (_conversation_row(each, name) for each, name in known[:MOST_ROWS]), "Conversations")
    if len(known) > MOST_ROWS:
        yield element("p", f"{len(known) - MOST_ROWS:,} smaller ones are left out here.")


def _conversation_row(session: SessionFigures, name: str) -> Markup:
    shape = session.shapes[name]
    is_recorded = shape.recorded_cached and shape.recorded_prompt
    cells = (
        *(session.agent, f"{shape.requests:,}", f"{shape.tokens:,}", f"{shape.results:,}", f"{shape.largest_result:,}"),
        _percent(shape.result_tokens / shape.tokens if shape.tokens else 0.0),
        concatenate((f"{shape.reads_again:,} ", _small(f"of {shape.reads:,}"))),
        _percent(shape.recorded_cached / shape.recorded_prompt) if is_recorded else "–",
        _percent(_simulated_share(session, name)),
    )
    words = element("td", "; ".join(session.notes), class_="words")
    return element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells), words)


def _simulated_share(session: SessionFigures, episode: str) -> float:
    """The share of an episode's prompts that an unpruned replay reads from the cache."""
    known = next((each for each in session.figures if (each.episode, each.strategy) == (episode, NO_PRUNING)), None)
    return sum(known.held) / sum(known.prompts) if known and sum(known.prompts) else 0.0


def _session_list(details: Sequence[SessionDetail]) -> Markup:
    """The elements that the script fills with the charts and results of sessions; the first one is open."""
    if not details:
        return Markup()
    which = f"The {len(details)} conversations with the largest unpruned bills. " if len(details) > 1 else ""
    intro = element("p", which, INTRO)
    key = _legend(
        ("area cached", "", "read from the cache; in view"),
        ("area written", "", "newly written"),
        ("area cleared", "", "cleared"),
        ("mark needed", "", "needed"),
        ("mark missed", "×", "needed and missed"),
    )
    sessions = (_session(number, each) for number, each in enumerate(details))
    heading = element("h2", "Session by session", id="opened")
    return element("section", heading, intro, key, *sessions, aria_labelledby="opened")


def _session(number: int, detail: SessionDetail) -> Markup:
    sizes = f" {count_noun(detail.requests, 'request')}, {count_noun(len(detail.results), 'result')}, "
    words = _small(f"{sizes}last prompt {detail.unpruned[-1]:,} tokens")
    summary = concatenate((element("b", detail.episode), " ", words))
    is_open = {} if number else {"open": ""}
    return collapsible(summary, class_="session", id=f"session-{number}", **is_open)


def _texts_notice(details: Sequence[SessionDetail]) -> Markup:
    if any(each.has_texts for each in details):
        return escape_text("This page holds texts of tool results: whoever reads it reads what the tools said.")
    return escape_text(NO_TEXTS)
