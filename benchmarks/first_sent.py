"""What shortening results before they are first sent would save, in cases in which it loses nothing.

    python benchmarks/first_sent.py FOLDER [FOLDER …]

Such a change breaks no cache. Bills are shares of the unpruned one at Anthropic's prices: a removed token is not
written, and not read at later requests. The table also has the share of results that change.
"""

import argparse
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path

from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.session import ReplayArgs, episodes
from autoprune.economics import CACHE_LIFE, LISTS
from autoprune.tokens import exact

CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
REDRAWN = re.compile(r"[^\n]*\r(?!\n)")  # output that a progress bar overwrote
LEAST_RUN = 3  # equal lines


def remove_controls(text: str, seen: set[str]) -> str:
    """Convert a text to a terminal's view, without colors and progress bars."""
    return CONTROL.sub("", REDRAWN.sub("", text))


def fold_repeats(text: str, seen: set[str]) -> str:
    """Replace runs of equal lines by one line with their number."""
    runs = [(line, sum(1 for _ in run)) for line, run in groupby(text.split("\n"))]
    return "\n".join(
        f"{line} [{count} times]" if line.strip() and count >= LEAST_RUN else "\n".join([line] * count)
        for line, count in runs
    )


def refer_to_earlier(text: str, seen: set[str]) -> str:
    """Replace a text that is already visible by a note."""
    return "[equal to an earlier result]" if text in seen else text


WAYS: dict[str, Callable[[str, set[str]], str]] = {
    "no control codes": remove_controls,
    "no runs of equal lines": fold_repeats,
    "nothing that is in view already": refer_to_earlier,
}


def saved_tokens(episode: Episode, way: str) -> dict[int, int]:
    """The tokens that each message loses if its results are shortened in one way."""
    count, seen = exact(), set[str]()
    lost: dict[int, int] = {}
    for result in episode.transcript.results:
        text = result.text
        short = WAYS[way](text, seen)
        seen.add(text)
        if text != short:
            at = result.location.message
            lost[at] = lost.get(at, 0) + max(0, count(text) - count(short))
    return lost


def compute_bill(episode: Episode, lost: dict[int, int]) -> float:
    """The bill of an episode without pruning, with `lost` tokens removed from its messages."""
    prices = LISTS["anthropic"]
    total, tokens, read, before = 0.0, episode.head, 0, 0
    for start, billing in zip(episode.requests, episode.billings, strict=True):
        for at, entry in enumerate(episode.transcript.entries[read:start], read):
            tokens += entry.tokens - lost.get(at, 0)
        read = start
        total += prices.request(tokens, 0 if episode.is_cold(start, CACHE_LIFE) else before, billing.answer)
        before = tokens
    return total


def measure_file(path: Path) -> list[tuple[float, list[tuple[float, int]], int]]:
    """The bill of each episode in a file, its bills and changed results for each way, and the number of its results."""
    found = []
    for _, each in episodes(str(path), path.read_bytes(), ReplayArgs()):
        ways = [saved_tokens(each, way) for way in WAYS]
        changed = [(compute_bill(each, lost), len(lost)) for lost in ways]
        found.append((compute_bill(each, {}), changed, len(each.transcript.results)))
    return found


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    files = [file for folder in parser.parse_args().folders for file in sorted(folder.glob("*.json*"))]
    with ProcessPoolExecutor() as processes:
        found = [each for of_file in processes.map(measure_file, files) for each in of_file]
    whole, results = sum(each[0] for each in found), sum(each[2] for each in found)
    print(f"{len(found)} episodes, {results:,} results\n\n| way | bill | results changed |\n|---|---|---|")
    for at, way in enumerate(WAYS):
        bills, changed = sum(each[1][at][0] for each in found), sum(each[1][at][1] for each in found)
        print(f"| {way} | {bills / whole:.3f} | {100 * changed / results:.1f} % |")


if __name__ == "__main__":
    main()
