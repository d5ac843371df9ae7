"""Draws the picture of the README: the size of each prompt of a recorded session, with and without pruning.

`python docs/pictures.py` writes docs/pictures/prompt_size.svg; `python docs/pictures.py FILE.svg` writes another file.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.apps.sessions import load

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "fixtures" / "demo.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "prompt_size.svg"
SAFE_ZONE = 40 * 1024  # tokens
UNPRUNED = "not pruned"
COLORS = {UNPRUNED: "#64748b", "tool_output_cleanup": "#0f766e", "cache_aware": "#c2410c"}
GRAY, LIGHT = "#475569", "#e2e8f0"
# Colors for readers who prefer a dark background.
DARK = {
    "white": "#1e2129",
    "#1e293b": "#e2e8f0",
    "#64748b": "#94a3b8",
    "#0f766e": "#2dd4bf",
    "#c2410c": "#fb923c",
    GRAY: "#a8b3c4",
    LIGHT: "#384152",
}
WIDTH, HEIGHT = 800, 360  # pixels
LEFT, RIGHT, TOP, BOTTOM = 72, 580, 14, 312  # pixels, the edges of the chart; its labels are right of it
LINE = 16  # pixels between two labels
MOST, EVERY = 70_000, 10_000  # tokens: the upper end of the axis, and its grid


def prompts(session: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the messages that were sent with each request: all before each of the model's messages."""
    return [session[:at] for at, message in enumerate(session) if message["role"] == "assistant"]


def sizes(session: list[dict[str, Any]], strategy: str) -> list[int]:
    """Return the tokens of each prompt, pruned by a strategy or unpruned."""
    pruner = AgenticConversationPruner(PruneArgs(SAFE_ZONE))
    if strategy == UNPRUNED:
        return [pruner.count_tokens(prompt) for prompt in prompts(session)]
    return [pruner.prune(prompt, strategy).report.tokens_after for prompt in prompts(session)]


def recorded() -> list[dict[str, Any]]:
    """Return the messages of the session."""
    return load(SESSION.read_text(encoding="utf-8"), SESSION.name).messages


def figures(session: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return the sizes of the prompts, unpruned and by strategy."""
    return {name: sizes(session, name) for name in COLORS}


def described(known: dict[str, list[int]]) -> str:
    """Return the figures as text, which the file of the picture contains."""
    return "; ".join(f"{name}: {' '.join(map(str, prompts))}" for name, prompts in known.items())


def draw(session: list[dict[str, Any]], path: Path) -> None:
    """Draw the picture into an SVG file. The same session gives the same bytes."""
    known = figures(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(svg(known)) + "\n", encoding="utf-8")


def svg(known: dict[str, list[int]]) -> Iterator[str]:
    """Yield the lines of the SVG file."""
    requests = len(known[UNPRUNED])
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="13" fill="#1e293b">'
    )
    yield f"<desc>{described(known)}</desc>"
    rules = (f'[fill="{one}"]{{fill:{other}}}[stroke="{one}"]{{stroke:{other}}}' for one, other in DARK.items())
    yield f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    for tokens in range(0, MOST + 1, EVERY):
        yield line(LEFT, y(tokens), RIGHT, y(tokens), LIGHT if tokens else GRAY)
        yield text(LEFT - 8, y(tokens) + 4, f"{tokens:,}", anchor="end")
    for request in range(5, requests + 1, 5):
        yield line(x(request, requests), BOTTOM, x(request, requests), BOTTOM + 5, GRAY)
        yield text(x(request, requests), BOTTOM + 20, str(request), anchor="middle")
    yield text((LEFT + RIGHT) / 2, HEIGHT - 6, "request", anchor="middle")
    yield text(LEFT + 8, TOP + 22, "tokens of the prompt", color=GRAY)
    yield line(LEFT, y(SAFE_ZONE), RIGHT, y(SAFE_ZONE), GRAY, dashes="5 4")
    yield text(x(23, requests), y(SAFE_ZONE) - 6, f"safe zone: {SAFE_ZONE:,}", color=GRAY)
    lowest = 0.0
    for name, color in COLORS.items():  # the largest last prompt first
        yield curve(known[name], color)
        lowest = max(y(known[name][-1]) + 4, lowest + LINE)  # so that labels do not overlap
        yield text(RIGHT + 8, lowest, f"{name}: {known[name][-1]:,}", color=color)
    yield "</svg>"


def x(request: int, requests: int) -> float:
    """Return where a request is, in pixels from the left."""
    return LEFT + (RIGHT - LEFT) * (request - 1) / (requests - 1)


def y(tokens: float) -> float:
    """Return where a number of tokens is, in pixels from the top."""
    return BOTTOM - (BOTTOM - TOP) * tokens / MOST


def line(left: float, top: float, right: float, bottom: float, color: str, *, dashes: str = "none") -> str:
    """Return a straight line."""
    ends = f'x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-dasharray="{dashes}"/>'


def text(left: float, baseline: float, words: str, *, anchor: str = "start", color: str = "inherit") -> str:
    """Return a text."""
    return f'<text x="{left:.1f}" y="{baseline:.1f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def curve(values: Sequence[int], color: str) -> str:
    """Return the line through the values of all requests."""
    points = " ".join(f"{x(at, len(values)):.1f},{y(value):.1f}" for at, value in enumerate(values, 1))
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5" stroke-linejoin="round"/>'


if __name__ == "__main__":
    draw(recorded(), Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
