"""The most that could be saved by sending a repeated block of a result as a reference to the earlier result.

    python benchmarks/repeated.py FOLDER …

A block is 8 lines or more, of 200 characters or more, that stand in an earlier result exactly so, and that the default
of `autoprune run` has not cleared when the later result arrives. The saving is what writing and then carrying the
block's tokens costs, until the later result is cleared or the session ends, as a share of the bill with the default.
The reference itself is taken to cost nothing, and never to be asked for. Intervals are over projects.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from autoprune.apps.replay.detail import detail
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.policies import RUN
from autoprune.apps.replay.rows import interval
from autoprune.apps.replay.session import ReplayArgs, episodes, replay_episode
from autoprune.apps.sessions.places import expand_names
from autoprune.errors import AutopruneError

ARGS = ReplayArgs((RUN,))
LINES, CHARACTERS = 8, 200  # of the smallest block


def repeated(lines: Sequence[str], shown: set[tuple[str, ...]]) -> int:
    """Count the characters of lines in blocks whose every run of 8 lines is shown."""
    covered = set[int]()
    for at in range(len(lines) - LINES + 1):
        if tuple(lines[at : at + LINES]) in shown:
            covered |= {*range(at, at + LINES)}
    total = sum(len(lines[at]) for at in covered)
    return total if total >= CHARACTERS else 0


def saving(known: Episode) -> tuple[float, float]:
    """Return the most that could be saved in an episode, and its bill, in input tokens."""
    (row,) = replay_episode(known, ARGS)
    (outcome,) = detail(known, ARGS, found=[row]).outcomes
    end = len(known.requests)
    gone = {each.result: each.request for each in outcome.cleared}
    prices, saved = known.prices, 0.0
    results = known.transcript.results
    arrival = [known.first_request_from(each.sent) for each in results]
    for at, result in enumerate(results):
        lines = result.text.splitlines()
        earlier = (results[each].text for each in range(at) if gone.get(each, end) > arrival[at])
        shown = {block for text in earlier for block in _blocks(text.splitlines())} if len(lines) >= LINES else set()
        share = repeated(lines, shown) / max(1, len(result.text))
        carried = max(0, gone.get(at, end) - arrival[at] - 1)
        saved += share * known.sizes.text * result.tokens * (prices.write + carried * prices.read)
    return saved, next(iter(row.bills.values())).total


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    yield from (tuple(lines[at : at + LINES]) for at in range(len(lines) - LINES + 1))


def of_file(path: str) -> list[tuple[str, float, float]]:
    """Return the project, saving and bill of each conversation of a file; none if it cannot be read."""
    try:
        found = episodes(path, Path(path).read_bytes(), ARGS)
        return [(known.project, *saving(known)) for _, known in found]
    except AutopruneError:
        return []


def main() -> None:
    """Print the share of the bill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    files = [str(file) for file in expand_names(parser.parse_args().folders) if file.name != "index.json"]
    projects: dict[str, list[tuple[float, float]]] = {}
    with ProcessPoolExecutor() as pool:
        for project, saved, bill in (each for some in pool.map(of_file, files) for each in some):
            projects.setdefault(project, []).append((saved, bill))
    share = interval(tuple(map(tuple, projects.values())))
    count = sum(map(len, projects.values()))
    print(f"{count} conversations: at most {share.value:.2%} [{share.low:.2%}, {share.high:.2%}] of the bill")


if __name__ == "__main__":
    main()
