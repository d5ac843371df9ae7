"""Draws the picture of the README: the size of each prompt of a recorded session, with and without pruning.

`python docs/pictures.py` writes docs/pictures/prompt_size.svg; `python docs/pictures.py FILE.png` writes another file.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

from autoprune import AgenticConversationPruner, PruneArgs

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "fixtures" / "sessions" / "edit_loop_xml.json"
PICTURE = ROOT / "docs" / "pictures" / "prompt_size.svg"
SAFE_ZONE = 20 * 1024  # tokens
STRATEGIES = {"tool_output_cleanup": "#0f766e", "cache_aware": "#c2410c"}
GRAY, LIGHT = "#475569", "#94a3b8"


def prompts(session: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the messages that were sent with each request: all before a message of the model's."""
    return [session[:at] for at, message in enumerate(session) if message["role"] == "assistant"]


def sizes(session: list[dict[str, Any]], strategy: str | None) -> list[int]:
    """Return the tokens of each prompt, pruned by a strategy or as it is."""
    pruner = AgenticConversationPruner(PruneArgs(SAFE_ZONE))
    if strategy is None:
        return [pruner.count_tokens(prompt) for prompt in prompts(session)]
    return [pruner.prune(prompt, strategy).report.tokens_after for prompt in prompts(session)]


def figures(session: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return the sizes of the prompts by strategy, and those without pruning."""
    return {"not pruned": sizes(session, None), **{name: sizes(session, name) for name in STRATEGIES}}


def described(known: dict[str, list[int]]) -> str:
    """Return the figures as the file of the picture holds them."""
    return "; ".join(f"{name}: {' '.join(map(str, prompts))}" for name, prompts in known.items())


def draw(session: list[dict[str, Any]], path: Path) -> None:
    """Draw the picture into a file; the same session gives the same bytes. An SVG file names its figures."""
    from matplotlib.figure import Figure

    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "svg.hashsalt": "autoprune"})
    figure = Figure(figsize=(8, 3.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    known = figures(session)
    whole = known["not pruned"]
    requests = range(1, len(whole) + 1)
    axes.plot(requests, whole, color=LIGHT, linewidth=2.5)
    label(axes, requests[-1], whole[-1], f"not pruned: {whole[-1]:,}", GRAY)
    for strategy, color in STRATEGIES.items():
        pruned = known[strategy]
        axes.plot(requests, pruned, color=color, linewidth=2)
        label(axes, requests[-1], pruned[-1], f"{strategy}: {pruned[-1]:,}", color)
    axes.axhline(SAFE_ZONE, color=GRAY, linewidth=1, linestyle=(0, (4, 3)))
    axes.text(23, SAFE_ZONE + 1_200, f"safe zone: {SAFE_ZONE:,}", color=GRAY)
    axes.set(xlabel="request", ylabel="tokens of the prompt", xlim=(1, len(whole)), ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    in_svg = {"Date": None, "Description": described(known)}
    figure.savefig(path, dpi=144, metadata=in_svg if path.suffix == ".svg" else None)


def label(axes: Any, x: float, y: float, text: str, color: str) -> None:
    """Write a line's name at its right end."""
    axes.annotate(
        text, (x, y), xytext=(8, 0), textcoords="offset points", va="center", color=color, annotation_clip=False
    )


if __name__ == "__main__":
    recorded = json.loads(SESSION.read_text(encoding="utf-8"))
    draw(recorded, Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
