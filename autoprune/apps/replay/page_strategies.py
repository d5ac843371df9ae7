"""The strategies on a replay's page: their tables, the data of their charts, and what the columns mean."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Any

from autoprune.apps.frontend.markup import Markup, collapsible, concatenate, element, escape_text, table
from autoprune.apps.replay.atoms import AtomGroup
from autoprune.apps.replay.evidence import PROTECTED_NAMES
from autoprune.apps.replay.rows import FEW_ATOMS, MAIN, Interval, Row, rounded
from autoprune.apps.replay.verdict import MEANINGS, Standing, strategy_label
from autoprune.economics import LISTS

FEWEST_POINTS = 3  # a chart of fewer strategies says less than their table
OTHERS = "With a path and without `--strategy`, `autoprune replay` compares all strategies."
MAIN_TERMS = {
    **MEANINGS,
    "small figures": "the 95% confidence interval over projects and their sessions; none for a single session",
    "cold cache": "the provider had dropped the prompt from its cache, as after a long pause: then clearing costs "
    "nothing extra",
}
MORE_TERMS = {
    "bill without re-reads": "the cost if nothing is fetched again",
    "worst": "the highest cost of a conversation up to any of its requests, as a share, without re-reads",
    "dearer in": "the share of conversations that became more expensive",
    "shell edits": "as edits, made with commands such as sed -i",
    "in results": "code in view in whole messages: texts that replaced a result or a step do not count",
    "old code": "code in view that the agent last read more than 20 requests before",
    "paths": "paths in later calls that were in view; no strategy is judged by them",
    "user’s words, last failure, files being edited": "what should stay in view whatever comes next, over all requests",
    "read for a text": "what the agent had read for a long text, when it wrote the text",
    "cache breaks": "requests that changed what the cache held",
    "re-reads": "results that the agent would have fetched again",
    "slowest": "the longest time that one prune took",
}


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
        return "reference" if self.standing.is_baseline else "choice"


def points(ranked: Sequence[Ranked]) -> list[dict[str, Any]]:
    """Return the points of the frontiers, without facts if no action used any. Empty if there are too few."""
    if len(ranked) < FEWEST_POINTS:
        return []
    fields = ["code", "edits", *(["facts"] if any(each.row.needed[AtomGroup.FACTS] for each in ranked) else [])]
    return [
        {
            "number": each.number,
            "name": each.name,
            "kind": each.kind,
            "bill": list(asdict(each.standing.rereads).values()),
            **{field: list(asdict(getattr(each.row, field)).values()) for field in fields},
        }
        for each in ranked
    ]


def legend(*items: tuple[str, str, str], name: str = "") -> Markup:
    """Return the key of a chart: the class of a mark, its text, and what it means."""
    entries = (element("li", element("i", mark, class_=kind), text) for kind, mark, text in items)
    return element("ul", *entries, class_=f"key {name}".strip())


def terms(known: Mapping[str, str]) -> Markup:
    """Return the glossary of a table."""
    pairs = (element("div", element("dt", word), element("dd", meaning)) for word, meaning in known.items())
    return element("dl", *pairs, class_="terms")


def with_code(text: str) -> Markup:
    """Return a text with its parts in backticks as code."""
    return concatenate(element("code", each) if place % 2 else each for place, each in enumerate(text.split("`")))


def bill_section(number: int, prices: str, ranked: Sequence[Ranked], advice: str) -> Markup:
    """Return the strategies at one set of prices: tables and frontiers. All but the first set are collapsed."""
    if number:
        return at_other_prices(number, prices, ranked)
    head = element("h2", with_code(_heading(ranked)), id="strategies"), element("p", with_code(advice), class_="advice")
    hint = element("p", with_code(OTHERS), class_="note") if len(ranked) < FEWEST_POINTS else ""
    return element("section", *head, *bill_parts(number, prices, ranked), hint, aria_labelledby="strategies")


def at_other_prices(number: int, prices: str, ranked: Sequence[Ranked]) -> Markup:
    """Return the same strategies at another set of prices, collapsed."""
    heading = f"The same at other prices: {prices}"
    return collapsible(heading, *bill_parts(number, prices, ranked), class_="prices")


def bill_parts(number: int, prices: str, ranked: Sequence[Ranked]) -> Iterator[Markup]:
    """Yield the tables and frontiers of a set of prices, which has this number in the data of the charts."""
    yield _prices_line(prices)
    yield _main_table(prices, ranked)
    yield terms(MAIN_TERMS)
    yield collapsible("More columns", _more_table(prices, ranked), terms(MORE_TERMS), class_="more")
    if len(ranked) >= FEWEST_POINTS:
        yield from _frontier(number, ranked)


def _heading(ranked: Sequence[Ranked]) -> str:
    """Name what the table compares: all strategies, or one of them with no pruning."""
    if len(ranked) >= FEWEST_POINTS:
        return "The strategies"
    chosen = next((each for each in ranked if each.kind == "choice"), None)
    if chosen is None:
        return "No pruning"
    run = chosen.standing.run
    return f"No pruning, and {f'what `{run}` does' if run else chosen.name}"


def _prices_line(prices: str) -> Markup:
    if known := LISTS.get(prices):
        words = f": a token costs {known.write:g} written, {known.read:g} read, {known.output:g} answered, as against 1"
        return element("p", "Prices: ", element("b", prices), f"{words} of plain input.", class_="note")
    own = {"own": "Prices: those of each request’s own model and cache."}
    return element("p", own.get(prices, f"Prices: {prices}"), class_="note")


def _frontier(number: int, ranked: Sequence[Ranked]) -> Iterator[Markup]:
    over = ", with its 95% confidence interval over projects" if ranked[0].standing.sessions > 1 else ""
    yield element("h3", "Cheap against complete")
    yield element(
        "p",
        f"Each point is a strategy{over}, under the number of its row above. Lower is cheaper, and farther right keeps "
        "more in view. No strategy beats those on the broad line in both.",
    )
    yield element("div", class_="charts frontier", id=f"bill-{number}")
    yield legend(
        ("mark choice", "", "a strategy that you can choose"),
        ("mark reference", "", "a baseline, or a policy of another tool"),
        ("mark limit", "", "knows what comes later: shows how much there is to gain"),
    )


def _main_table(prices: str, ranked: Sequence[Ranked]) -> Markup:
    head = ("strategy", "bill", *MAIN)
    rows = _rows_by_band(ranked, len(head))
    tied = element("p", "≈ The bill does not differ significantly from the one above.", class_="note")
    parts = table(head, rows, f"Strategies at {prices} prices", class_="strategies")
    return concatenate((parts, tied if any(each.standing.is_tied for each in ranked) else ""))


def _rows_by_band(ranked: Iterable[Ranked], width: int) -> Iterator[Markup]:
    for band, rows in groupby(ranked, lambda each: _band(each.standing)):
        heading = element("th", element("span", band), scope="rowgroup", colspan=str(width))
        yield element("tr", heading, class_="band")
        yield from map(_main_row, rows)


def _band(standing: Standing) -> str:
    if standing.run:
        return f"What {standing.run} does"
    if standing.is_clairvoyant:
        return "Knows the future: shows how much there is to gain"
    kept = f"At least {100 * standing.band:.0f}% of what was needed later stays in view"
    return kept if standing.band else "Less than 90% of what was needed later stays in view"


def _row(each: Ranked, cells: Iterable[str]) -> Markup:
    """Create the row of a strategy: its number and name, and the cells of its figures."""
    broken = element("small", each.standing.broken, class_="wrong") if each.standing.broken else ""
    number = element("span", str(each.number), class_=f"number {each.kind}")
    name = Markup(escape_text(each.name).replace("_", "_<wbr>"))  # narrow columns break there
    return element(
        "tr", element("th", number, " ", name, broken, scope="row"), *(element("td", cell) for cell in cells)
    )


def _main_row(each: Ranked) -> Markup:
    tied = element("span", "≈", class_="tied", title="not significantly different from the one above")
    bill = concatenate((tied if each.standing.is_tied else "", _interval_cell(each.standing.rereads, 1, 3)))
    known = (element("small", f"{each.row.spare:+.1f} spare"), element("small", f"{each.row.changed:.0%} changed"))
    return _row(each, (concatenate((bill, *known)), *(_share_cell(each.row, group) for group in MAIN)))


def _share_cell(row: Row, group: AtomGroup) -> Markup:
    needed = row.needed[group]
    if needed < FEW_ATOMS:
        figure = element("b", f"{100 * row.evidence[group].value:.1f}") if needed else ""
        return concatenate((figure, element("small", f"n = {needed}" if needed else "none needed")))
    return _interval_cell(row.evidence[group], 100, 1)


def _protected_cell(kind: str, row: Row) -> str:
    return f"{100 * row.protected[kind].value:.1f}" if kind in row.protected else element("small", "none")


MORE_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "bill without re-reads": lambda row: _interval_cell(row.bill, 1, 3),
    "worst": lambda row: f"{row.worst:.2f}",
    "dearer in": lambda row: f"{100 * row.dearer:.0f}%",
    "shell edits": lambda row: _share_cell(row, AtomGroup.SHELL_EDITS),
    "in results": lambda row: f"{100 * row.in_results:.1f}",
    "old code": lambda row: f"{100 * row.far:.1f}",
    "paths": lambda row: f"{100 * row.paths:.1f}",
    **{name: partial(_protected_cell, kind) for kind, name in PROTECTED_NAMES.items()},
    "cache breaks": lambda row: f"{row.cache_breaks:,}",
    "re-reads": lambda row: f"{row.rereads:,}",
    "thinking lost": lambda row: f"{row.thinking:,}",
    "slowest": lambda row: f"{1_000 * row.slowest:.0f} ms",
}


def _more_table(prices: str, ranked: Iterable[Ranked]) -> Markup:
    rows = (_row(each, (cell(each.row) for cell in MORE_COLUMNS.values())) for each in ranked)
    return table(("strategy", *MORE_COLUMNS), rows, f"More columns at {prices} prices", class_="strategies")


def _interval_cell(value: Interval, factor: int, digits: int) -> Markup:
    """Return a figure with its confidence interval, unless that is the figure itself, as for a single session."""
    figure, bounds = rounded(value, f".{digits}f", factor)
    return concatenate((element("b", figure), element("small", bounds) if bounds else ""))
