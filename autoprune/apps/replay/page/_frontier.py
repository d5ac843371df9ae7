"""The frontier: every strategy's bill against what it kept in view, with intervals, as charts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autoprune.apps.replay.atoms import Group
from autoprune.apps.replay.bootstrap import Interval
from autoprune.apps.replay.page._rows import CHOICE, CLAIRVOYANT, REFERENCE, Ranked
from autoprune.apps.replay.page._svg import Ink, drawing, inline
from autoprune.apps.replay.page._text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE, NARROW = (560, 400), (340, 320)  # pixels
LETTER, LINE = 6.4, 14  # pixels: how much room a label needs
LEFTMOST = 95.0  # percent: the axis begins there or before
NEAR = 20  # pixels: a label farther from its point than that has a line to it
Box = tuple[float, float, float, float]
Place = tuple[int, int, str]
MARKERS = {CHOICE: ("o", Ink.CHOICE), REFERENCE: ("s", Ink.REFERENCE), CLAIRVOYANT: ("D", Ink.LIMIT)}
# Where a label may stand, in pixels from its point, and which of its sides is there.
PLACES: tuple[Place, ...] = (
    *((9, 7, "left"), (9, -15, "left"), (-9, 7, "right"), (-9, -15, "right"), (9, 20, "left"), (-9, 20, "right")),
    *((9, -28, "left"), (-9, -28, "right"), (0, 33, "center"), (0, -41, "center"), (-9, 46, "right")),
    *((-9, -54, "right"), (-9, 60, "right"), (-9, -68, "right")),
)


@dataclass(frozen=True)
class Measure:
    """What is on the horizontal axis: the field of a row, its name, and what that is."""

    field: str
    name: str
    words: str


MEASURES = (
    Measure(
        "code", "evidence of code in view", "of the names, paths, errors and old texts that later actions rested on"
    ),
    Measure("edits", "edits whose old text is in view", "of what edits replaced, the strictest measure"),
    Measure("facts", "facts in view", "of the figures, names, quotes and keys in what the agent wrote"),
)


def charts(ranked: Sequence[Ranked], name: str) -> Iterator[tuple[str, str]]:
    """Yield a chart for each measure, twice: for wide screens with names, and for narrow ones with numbers.

    Facts have no chart if no action rested on any.
    """
    for measure in MEASURES if any(each.row.needed[Group.FACTS] for each in ranked) else MEASURES[:2]:
        title = f"Bill against {measure.name}"
        words = f"The lower right is best: cheap, and nothing lost. {measure.words}. " + "; ".join(
            _said(each, measure) for each in ranked
        )
        yield tuple(  # type: ignore[misc]
            _chart(ranked, measure, size, f"{name}-{measure.field}-{size[0]}", title, words) for size in (WIDE, NARROW)
        )


def _said(each: Ranked, measure: Measure) -> str:
    share: Interval = getattr(each.row, measure.field)
    return f"{each.number} {each.name}: bill {each.row.bill.value:.3f}, {share.value:.1%}"


def _chart(ranked: Sequence[Ranked], measure: Measure, size: tuple[int, int], name: str, title: str, words: str) -> str:
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(size[0] / 72, size[1] / 72))
        axes = figure.add_axes((52 / size[0], 44 / size[1], 1 - 66 / size[0], 1 - 62 / size[1]))
        _frame(axes, ranked, measure)
        for each in ranked:
            _point(axes, each, measure)
        _envelope(axes, ranked, measure)
        texts = [plain(each.label, 34) if size == WIDE else str(each.number) for each in ranked]
        _labels(axes, [_at(each, measure) for each in ranked], texts)
        return inline(figure, name, title, words)


def _at(each: Ranked, measure: Measure) -> tuple[float, float]:
    return 100 * getattr(each.row, measure.field).value, each.row.bill.value


def _frame(axes: "Axes", ranked: Sequence[Ranked], measure: Measure) -> None:
    """Set the axes: all points and their intervals, the full 100 %, and the unpruned bill."""
    shares: list[Interval] = [getattr(each.row, measure.field) for each in ranked]
    low = min(LEFTMOST, *(100 * each.low for each in shares))
    least = min(each.row.bill.low for each in ranked)
    most = max(1.0, *(each.row.bill.high for each in ranked))
    wide, high = 100 - low, max(most - least, 0.1)
    axes.set_xlim(low - 0.06 * wide, 100 + 0.05 * wide)
    axes.set_ylim(max(0.0, least - 0.12 * high), most + 0.1 * high)
    axes.set_xlabel(f"{measure.name}, %")
    axes.set_ylabel("bill, share of the unpruned one")
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.axhline(1.0, color=Ink.SOFT, linewidth=1, linestyle=(0, (4, 3)))
    limits = [each.row.bill.value for each in ranked if each.kind == CLAIRVOYANT]
    if limits:
        axes.axhspan(0, min(limits), color=Ink.LIMIT, alpha=0.12, linewidth=0)
        corner = low - 0.05 * wide, axes.get_ylim()[0] + 0.02 * high
        axes.text(*corner, "cheaper than knowing what comes later", fontsize=10, va="bottom")


def _point(axes: "Axes", each: Ranked, measure: Measure) -> None:
    share: Interval = getattr(each.row, measure.field)
    bill = each.row.bill
    marker, color = MARKERS[each.kind]
    axes.errorbar(
        [100 * share.value],
        [bill.value],
        xerr=[[max(0.0, 100 * (share.value - share.low))], [max(0.0, 100 * (share.high - share.value))]],
        yerr=[[max(0.0, bill.value - bill.low)], [max(0.0, bill.high - bill.value)]],
        **_looks(marker, color, is_filled=each.kind == CHOICE),
    )


def _looks(marker: str, color: Ink, *, is_filled: bool) -> dict[str, Any]:
    return {
        "fmt": marker,
        "color": color,
        "elinewidth": 1,
        "markersize": 8,
        "markeredgewidth": 1.6,
        "markerfacecolor": color if is_filled else Ink.SURFACE,
        "zorder": 3,
    }


def _envelope(axes: "Axes", ranked: Sequence[Ranked], measure: Measure) -> None:
    """Draw the frontier: the strategies that no other one beats in both, without those that know what comes later."""
    kept: list[tuple[float, float]] = []
    points = (_at(each, measure) for each in ranked if each.kind != CLAIRVOYANT)
    for share, bill in sorted(points, key=lambda point: (-point[0], point[1])):
        if not kept or bill < kept[-1][1]:
            kept.append((share, bill))
    if kept:
        axes.step(*zip(*kept, strict=True), where="post", color=Ink.CHOICE, linewidth=5, alpha=0.25, zorder=2)


def _labels(axes: "Axes", points: Sequence[tuple[float, float]], texts: Sequence[str]) -> None:
    """Write a label at each point, where it covers no point and no other label, if there is such a place."""
    figure = axes.get_figure()
    assert figure is not None
    pixels = 72 / figure.dpi
    spots = [tuple(pixels * each for each in axes.transData.transform(point)) for point in points]
    box = axes.get_window_extent()
    right, bottom, top = box.x1 * pixels + 12, box.y0 * pixels, box.y1 * pixels + 14
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in spots]
    for (x, y), point, text in zip(spots, points, texts, strict=True):
        boxes = [_box(x, y, place, text) for place in PLACES]
        fits = [box for box in boxes if box[0] > 40 and box[2] < right and box[1] > bottom and box[3] < top]
        free = [box for box in fits if not any(_cross(box, other) for other in taken)]
        best = next(iter((*free, *fits, *boxes)))
        place = PLACES[boxes.index(best)]
        taken.append(best)
        axes.annotate(
            text, point, place[:2], textcoords="offset points", ha=place[2], arrowprops=_leader(place), zorder=4
        )


def _leader(place: Place) -> dict[str, Any] | None:
    """Return how the line to a label looks that stands far from its point."""
    return {"arrowstyle": "-", "color": Ink.SOFT, "linewidth": 0.6} if abs(place[1]) > NEAR else None


def _box(x: float, y: float, place: Place, text: str) -> Box:
    width = LETTER * len(text)
    left = x + place[0] - {"left": 0.0, "right": width, "center": width / 2}[place[2]]
    return left, y + place[1] - 3, left + width, y + place[1] - 3 + LINE


def _cross(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
