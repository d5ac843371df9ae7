"""Draws the chart of a corpus in docs/benchmark.md: the bill of each policy against the evidence that it keeps."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
from pictures import GRAY, LIGHT, line, text

Share = Sequence[float]  # a value with its confidence interval
Point = tuple[str, Share, Share]  # a policy, its bill and its evidence
WIDTH = 860  # pixels
LEFT, RIGHT, TOP, BOTTOM = 62, 590, 16, 420  # pixels, the edges of the chart; the names are right of it
NAMES, LINE = 626, 15  # pixels: where the names begin, and the height of one
BILLS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
NEAR = 12  # pixels: points that are closer share a label
COLORS = {"published": "#0f766e", "autoprune": "#c2410c", "clairvoyant": "#7c3aed", "none": "#64748b"}
MEANING = {
    "published": "of another tool",
    "autoprune": "of autoprune",
    "clairvoyant": "knows what comes",
    "none": "no pruning",
}


def draw(points: Sequence[Point], kinds: Mapping[str, str], bill: str) -> str:
    """Return the SVG. The lower right is best: cheap, and nothing lost."""
    return "\n".join(_svg(points, kinds, bill)) + "\n"


def _svg(points: Sequence[Point], kinds: Mapping[str, str], bill: str) -> Iterator[str]:
    height = max(BOTTOM + 50, TOP + LINE * (len(points) + len(MEANING) + 3))
    least = min(0.9, min(evidence[0] for _, _, evidence in points)) - 0.03
    ticks = _ticks([known[0] for _, known, _ in points])

    def x(share: float) -> float:
        return LEFT + (RIGHT - LEFT) * (max(share, least) - least) / (1.02 - least)

    def y(cost: float) -> float:
        low, high = math.log(ticks[0]), math.log(ticks[-1])
        return BOTTOM - (BOTTOM - TOP) * (min(max(math.log(cost), low), high) - low) / (high - low)

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#1e293b">'
    )
    yield f"<desc>{_described(points)}</desc>"
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    for cost in ticks:
        yield line(LEFT, y(cost), RIGHT, y(cost), GRAY if cost == 1 else LIGHT, dashes="5 4" if cost == 1 else "none")
        yield text(LEFT - 8, y(cost) + 4, f"{cost:g}", anchor="end")
    for tenth in range(math.ceil(least * 10), 11):
        yield line(x(tenth / 10), TOP, x(tenth / 10), BOTTOM, LIGHT)
        yield text(x(tenth / 10), BOTTOM + 18, f"{10 * tenth}", anchor="middle")
    yield text(
        (LEFT + RIGHT) / 2,
        BOTTOM + 38,
        "evidence in view (lowest of code, edits and facts), %",
        anchor="middle",
        color=GRAY,
    )
    middle = (TOP + BOTTOM) / 2
    yield f'<g transform="rotate(-90 16 {middle})">{text(16, middle, bill, anchor="middle", color=GRAY)}</g>'
    for name, known, evidence in points:
        color = COLORS[kinds[name]]
        yield line(x(evidence[1]), y(known[0]), x(evidence[2]), y(known[0]), color, dashes="1 3")
        yield line(x(evidence[0]), y(known[1]), x(evidence[0]), y(known[2]), color, dashes="1 3")
    yield _frontier([(x(kept[0]), y(known[0])) for name, known, kept in points if kinds[name] != "clairvoyant"])
    for name, known, evidence in points:
        yield f'<circle cx="{x(evidence[0]):.1f}" cy="{y(known[0]):.1f}" r="4.5" fill="{COLORS[kinds[name]]}"/>'
    places = [(x(evidence[0]), y(known[0])) for _, known, evidence in points]
    yield from _labels(places)
    yield from _legend([name for name, _, _ in points], kinds)
    yield "</svg>"


def _frontier(places: Sequence[tuple[float, float]]) -> str:
    """Return the line through the points that no other point beats in both bill and evidence."""
    steps: list[str] = []
    lowest = 0.0
    for left, top in sorted(places, key=lambda place: (-place[0], -place[1])):
        if top > lowest:
            steps.append(f"H{left:.1f}V{top:.1f}" if steps else f"M{left:.1f} {top:.1f}")
            lowest = top
    return f'<path d="{"".join(steps)}" fill="none" stroke="{GRAY}" stroke-width="1.5"/>'


def _ticks(bills: Sequence[float]) -> list[float]:
    """Choose the bills of the grid, one below and one above all points."""
    low = max((each for each in BILLS if each < min(bills)), default=BILLS[0])
    high = min((each for each in BILLS if each > max(bills)), default=BILLS[-1])
    return [each for each in BILLS if low <= each <= high]


def _labels(places: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Yield the numbers of points; points that are close to each other share a label."""
    groups: list[list[int]] = []
    for at, place in enumerate(places):
        near = next((group for group in groups if math.dist(places[group[0]], place) < NEAR), None)
        if near is None:
            groups.append([at])
        else:
            near.append(at)
    for group in groups:
        left, top = places[group[0]]
        # Labels of the points at the right end are left of them.
        is_right = left > RIGHT - 40
        anchor, across = ("end", -8) if is_right else ("start", 8)
        yield text(left + across, top + 4, _numbers(group), anchor=anchor)


def _numbers(group: Sequence[int]) -> str:
    """The numbers of points that share a label: 3 5–8."""
    runs: list[list[int]] = []
    for number in (each + 1 for each in group):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _legend(names: Sequence[str], kinds: Mapping[str, str]) -> Iterator[str]:
    for number, name in enumerate(names, 1):
        yield text(NAMES, TOP + LINE * number, f"{number} {name}", color=COLORS[kinds[name]])
    for number, (kind, meaning) in enumerate(MEANING.items(), len(names) + 2):
        yield f'<circle cx="{NAMES + 5}" cy="{TOP + LINE * number - 4}" r="4.5" fill="{COLORS[kind]}"/>'
        yield text(NAMES + 16, TOP + LINE * number, meaning, color=GRAY)


def _described(points: Sequence[Point]) -> str:
    return "; ".join(f"{name}: bill {known[0]:.3f}, evidence {100 * kept[0]:.1f}%" for name, known, kept in points)
