"""The most that could be saved by sending results in another shape when they arrive.

    python benchmarks/arrival.py FOLDER …

    repeated blocks    8 lines or more, of 200 characters or more, that stand exactly so in an earlier result that the
                       default of `autoprune run` has not cleared: a reference instead, which is taken to cost nothing
    tables             JSON arrays of 3 or more objects with the same keys: the keys once, then the values of each
    pictures           what a result has beside its text: gone one request after it arrived

The saving is what writing and then carrying the tokens costs, until the result is cleared or the session ends, as a
share of the bill with the default. Intervals are over projects.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from autoprune.apps.replay.detail import detail
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.rows import interval
from autoprune.apps.replay.session import ReplayArgs, episodes, replay_episode
from autoprune.apps.sessions.places import expand_names
from autoprune.errors import AutopruneError
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.tokens import exact

ARGS = ReplayArgs((RUN_STRATEGY,))
LINES, CHARACTERS, OBJECTS = 8, 200, 3  # of the smallest block; of the smallest array
SHAPES = ("repeated blocks", "tables", "pictures")
Row = tuple[str, float, dict[str, float]]  # project, bill, the saving by shape


def savings(known: Episode) -> tuple[float, dict[str, float]]:
    """Return the bill of an episode in input tokens, and the most that each shape could save of it."""
    (row,) = replay_episode(known, ARGS)
    (outcome,) = detail(known, ARGS, found=[row]).outcomes
    end, prices, count = len(known.requests), known.prices, exact()
    gone = {each.result: each.request for each in outcome.cleared}
    results = known.transcript.results
    arrival = [known.first_request_from(each.sent) for each in results]
    saved = dict.fromkeys(SHAPES, 0.0)
    for at, result in enumerate(results):
        carried = max(0, gone.get(at, end) - arrival[at] - 1) * prices.read
        earlier = [results[each].text for each in range(at) if gone.get(each, end) > arrival[at]]
        weight = known.sizes.text * (prices.write + carried)
        share = repeated_characters(result.text, earlier) / max(1, len(result.text))
        saved["repeated blocks"] += weight * share * result.tokens
        saved["tables"] += weight * max(0, result.tokens - count(as_tables(result.text)) if "[" in result.text else 0)
        saved["pictures"] += known.sizes.text * carried * max(0, result.tokens - count(result.text))
    return next(iter(row.bills.values())).total, saved


def repeated_characters(text: str, earlier: Sequence[str]) -> int:
    """Count the characters of a text in blocks that stand in earlier texts too."""
    lines = text.splitlines()
    shown = {block for each in earlier for block in _blocks(each.splitlines())} if len(lines) >= LINES else set()
    covered = {line for at, block in enumerate(_blocks(lines)) if block in shown for line in range(at, at + LINES)}
    total = sum(len(lines[line]) for line in covered)
    return total if total >= CHARACTERS else 0


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    yield from (tuple(lines[at : at + LINES]) for at in range(len(lines) - LINES + 1))


def as_tables(text: str) -> str:
    """Write the arrays of equal objects in JSON as tables; return any other text as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(_with_tables(value), ensure_ascii=False, separators=(",", ":"))


def _with_tables(value: object) -> object:
    if isinstance(value, dict):
        return {name: _with_tables(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    first = value[0] if value else None
    is_table = len(value) >= OBJECTS and isinstance(first, dict) and all(_has_keys(each, first) for each in value)
    if is_table and isinstance(first, dict):
        return [[*first], *([_with_tables(each[name]) for name in first] for each in value)]
    return [_with_tables(each) for each in value]


def _has_keys(value: object, like: dict[str, object]) -> bool:
    return isinstance(value, dict) and value.keys() == like.keys()


def of_file(path: str) -> list[Row]:
    """Return a row for each conversation of a file; none if it cannot be read."""
    try:
        return [(known.project, *savings(known)) for _, known in episodes(path, Path(path).read_bytes(), ARGS)]
    except AutopruneError:
        return []


def main() -> None:
    """Print the share of the bill for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    files = [str(file) for file in expand_names(parser.parse_args().folders) if file.name != "index.json"]
    with ProcessPoolExecutor() as pool:
        rows = [each for some in pool.map(of_file, files) for each in some]
    print(f"of the bill of {len(rows)} conversations, at most:")
    for shape in SHAPES:
        projects: dict[str, list[tuple[float, float]]] = {}
        for project, bill, saved in rows:
            projects.setdefault(project, []).append((saved[shape], bill))
        share = interval([*projects.values()])
        print(f"{shape:16} {share.value:7.2%} [{share.low:.2%}, {share.high:.2%}]")


if __name__ == "__main__":
    main()
