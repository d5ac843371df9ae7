"""The charts of one session: the size of its prompts and the life of its results, and where its tokens are."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from autoprune.apps.replay.detail import Held, Outcome, SessionDetail
from autoprune.apps.replay.page._svg import Ink, drawing, inline
from autoprune.apps.replay.page._text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 340, 330  # pixels
MOST_COLUMNS = 150  # of the prompt's size: two pixels each
MOST_TOOLS = 8
Point = tuple[float, float]
CLASSES = ((300, "under 300"), (1_000, "300 to 1k"), (3_000, "1k to 3k"), (10_000, "3k to 10k"))
LARGEST = "10k and more"


@dataclass(frozen=True)
class Bar:
    """A row of a bar chart: its name, its tokens, and a word beside them."""

    name: str
    tokens: int
    beside: str


def life(detail: SessionDetail, outcome: Outcome, name: str, label: str) -> str:
    """Return the chart of an episode under a strategy: its prompts above, its results below."""
    saved = sum(each.saved for each in outcome.cleared)
    words = (
        f"{len(outcome.cleared)} of {len(detail.results)} results were cleared, {saved:,} tokens, and missed "
        f"{len(outcome.missed)} times. The last prompt has {outcome.prompts[-1]:,} tokens, unpruned "
        f"{detail.unpruned[-1]:,}. Of {_step(detail.requests)} requests in a row that which wrote most is drawn."
    )
    with drawing():
        figure = _figure(HEIGHT)
        top = figure.add_axes((38 / WIDTH, 180 / HEIGHT, 1 - 44 / WIDTH, 124 / HEIGHT))
        below = figure.add_axes((38 / WIDTH, 38 / HEIGHT, 1 - 44 / WIDTH, 124 / HEIGHT), sharex=top)
        _prompts(top, detail, outcome)
        _results(below, detail, outcome)
        top.set_title(plain(label), fontsize=12, loc="left", fontweight="bold")
        top.tick_params(labelbottom=False)
        below.set_xlabel("request")
        return inline(figure, name, f"{label}: the prompt at each request, and how long each result stays", words)


def _figure(height: int) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH / 72, height / 72))


def _tokens(axes: "Axes", most: float, *, across: bool = False) -> None:
    """Let an axis count tokens in thousands, from 0."""
    axis = axes.xaxis if across else axes.yaxis
    axis.set_major_formatter(lambda value, _: f"{value / 1_000:,.0f}k" if value else "0")
    (axes.set_xlim if across else axes.set_ylim)(0, max(1.0, most))
    axes.locator_params(axis="x" if across else "y", nbins=4)
    axes.grid(True, axis="x" if across else "y")
    axes.set_axisbelow(True)


def _prompts(axes: "Axes", detail: SessionDetail, outcome: Outcome) -> None:
    """Draw what of each prompt was read from the cache, what was written, and what was cleared, one on the other."""
    prompts, held = outcome.prompts, outcome.held
    at = _columns([prompt - each for prompt, each in zip(prompts, held, strict=True)])
    bounds = [0, *at[1:], len(prompts)]
    levels = [
        [0] * len(at),
        [held[each] for each in at],
        [prompts[each] for each in at],
        [max(detail.unpruned[each], prompts[each]) for each in at],
    ]
    for (low, high), ink in zip(pairwise(levels), (Ink.CACHED, Ink.WRITTEN, Ink.CLEARED), strict=True):
        _shapes(axes, [[*_stairs(bounds, high), *reversed(_stairs(bounds, low))]], ink)
    axes.plot(*zip(*_stairs(bounds, levels[-1]), strict=True), color=Ink.SOFT, linewidth=0.8)
    axes.set_xlim(0, max(1, len(prompts)))
    _tokens(axes, 1.05 * max(detail.unpruned))
    _named(axes, "prompt, tokens")


def _step(requests: int) -> int:
    """Return how many requests one column stands for."""
    return -(-requests // MOST_COLUMNS)


def _columns(written: Sequence[int]) -> list[int]:
    """Return the requests that are drawn: of several in a row the one that wrote most, so that no break is hidden."""
    step = _step(len(written))
    starts = range(0, len(written), step)
    return [max(range(at, min(at + step, len(written))), key=written.__getitem__) for at in starts]


def _results(axes: "Axes", detail: SessionDetail, outcome: Outcome) -> None:
    """Draw each result as a bar, as high as its tokens, from the request that first held it until it was cleared."""
    edges = list(accumulate((each.tokens for each in detail.results), initial=0))
    last, until = detail.requests, {each.result: each.request for each in outcome.cleared}
    bars = [
        _rectangle(each.sent, edges[number], until.get(number, last), edges[number + 1])
        for number, each in enumerate(detail.results)
        if each.sent < last
    ]
    gone = [_rectangle(request, edges[number], last, edges[number + 1]) for number, request in until.items()]
    _shapes(axes, gone, Ink.CLEARED)
    _shapes(axes, bars, Ink.CACHED)
    missed = set(outcome.missed)
    needed = {(number, at) for number, each in enumerate(detail.results) for at, _ in each.needed}
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    _marks(axes, needed - missed, middles, ".", Ink.NEEDED, size=3)
    _marks(axes, missed, middles, "x", Ink.MISSED, size=6)
    _tokens(axes, edges[-1])
    _named(axes, "results, tokens")


def _marks(
    axes: "Axes", marks: Collection[tuple[int, int]], middles: Sequence[float], marker: str, ink: Ink, *, size: float
) -> None:
    """Draw a mark at each result and request."""
    places = sorted((at + 0.5, middles[number]) for number, at in marks)
    x, y = [x for x, _ in places], [y for _, y in places]
    axes.plot(x, y, marker=marker, color=ink, markersize=size, linestyle="none", markeredgewidth=size / 4)


def _named(axes: "Axes", name: str) -> None:
    """Write what an axis counts into the corner where a growing conversation leaves room."""
    axes.text(0.02, 0.97, name, transform=axes.transAxes, va="top", fontsize=10, color=Ink.SOFT)


def _rectangle(left: float, low: float, right: float, high: float) -> list[Point]:
    return [(left, low), (right, low), (right, high), (left, high)]


def _stairs(bounds: Sequence[float], levels: Sequence[float]) -> list[Point]:
    """Return the line that stays at each level from one bound to the next."""
    steps = zip(pairwise(bounds), levels, strict=True)
    return [(at, level) for between, level in steps for at in between]


def _shapes(axes: "Axes", outlines: Sequence[Sequence[Point]], ink: Ink) -> None:
    """Draw closed shapes as one: a session has hundreds."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners = [corner for outline in outlines for corner in (*outline, outline[0])]
    codes = [
        code for outline in outlines for code in (Path.MOVETO, *[Path.LINETO] * (len(outline) - 1), Path.CLOSEPOLY)
    ]
    if corners:
        axes.add_artist(PathPatch(Path(corners, codes), facecolor=ink, edgecolor="none"))


def by_part(detail: SessionDetail, name: str) -> str:
    """Return the chart of whose tokens an episode's are, the results' by tool."""
    whole = max(1, sum(detail.parts.values()))
    parts = [(part, tokens) for part, tokens in detail.parts.items() if part != "tool results" and tokens]
    tools = [(f"results: {tool.name}", tool.tokens) for tool in _most(by_tool(detail.results))]
    bars = [Bar(part, tokens, f"{tokens / whole:.0%}") for part, tokens in (*parts, *tools)]
    return _bars(bars, name, "Where the tokens are")


def by_tool(results: Sequence[Held]) -> list[Bar]:
    """Return the tokens and the number of results of each tool, the most tokens first."""
    return sorted(_grouped(results, lambda each: each.tool), key=lambda bar: -bar.tokens)


def _most(tools: Sequence[Bar]) -> list[Bar]:
    rest = tools[MOST_TOOLS:]
    others = [Bar(f"{len(rest)} other tools", sum(each.tokens for each in rest), "")] if rest else []
    return [*tools[:MOST_TOOLS], *others]


def by_size(detail: SessionDetail, name: str) -> str:
    """Return the chart of how large the results of an episode are."""
    found = {bar.name: bar for bar in _grouped(detail.results, _class)}
    names = (*(each for _, each in CLASSES), LARGEST)
    return _bars([found.get(each, Bar(each, 0, "0 results")) for each in names], name, "Results by their tokens")


def _class(result: Held) -> str:
    return next((name for below, name in CLASSES if result.tokens < below), LARGEST)


def _grouped(results: Sequence[Held], key: Callable[[Held], str]) -> Iterator[Bar]:
    groups: dict[str, list[int]] = {}
    for each in results:
        groups.setdefault(key(each), []).append(each.tokens)
    yield from (Bar(name, sum(sizes), _counted(len(sizes))) for name, sizes in groups.items())


def _counted(results: int) -> str:
    return f"{results:,} result{'' if results == 1 else 's'}"


def _bars(bars: Sequence[Bar], name: str, title: str) -> str:
    height = 62 + 24 * len(bars)
    words = "; ".join(f"{bar.name}: {bar.tokens:,} tokens, {bar.beside}" for bar in bars)
    with drawing():
        figure = _figure(height)
        axes = figure.add_axes((122 / WIDTH, 40 / height, 1 - 134 / WIDTH, 1 - 64 / height))
        rows = range(len(bars))
        axes.barh(rows, [bar.tokens for bar in bars], color=Ink.CACHED, height=0.7)
        most = max((bar.tokens for bar in bars), default=1)
        for row, bar in zip(rows, bars, strict=True):
            axes.text(bar.tokens + 0.02 * most, row, bar.beside, va="center", fontsize=10)
        axes.set_yticks(rows, [plain(bar.name, 18) for bar in bars])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, fontsize=12, fontweight="bold", loc="left", x=-110 / (WIDTH - 134))
        _tokens(axes, 1.45 * most, across=True)
        axes.set_xlabel("tokens")
        return inline(figure, name, title, words)
