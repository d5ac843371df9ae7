"""Whether `autoprune recall --search` finds what a strategy cleared and the agent used later.

    python benchmarks/recalling.py FOLDER …
    python benchmarks/recalling.py FOLDER … --strategy 'cache_aware @ 40k'

For each name, text of an edit or fact from a result that a replayed prompt no longer showed, the search gets the first
200 characters of it, in an archive of all results that the session had until then. Counted is how often one of the
first three results that it finds shows the text. Intervals are over projects.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from autoprune.apps.replay.atoms import GROUPS
from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import play
from autoprune.apps.replay.rows import MAIN, interval
from autoprune.apps.replay.session import ReplayArgs, episodes
from autoprune.apps.sessions.places import expand_names
from autoprune.conversation.edits import content_id
from autoprune.conversation.limited_archive import LimitedDirectory, Limits, search
from autoprune.errors import ArchiveError, AutopruneError
from autoprune.facts.calls import target
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.tokens import exact

FIRST = 3  # results of a search that a model reads
LONGEST = 200  # characters
Searches = list[tuple[str, str, bool]]  # project, group, and whether a source was found


def searches(known: Episode, name: str) -> Searches:
    """Search for everything that the strategy `name` has taken out of view when it was used."""
    strategy, new_pruner = Policy(name).for_episode(known, known.prices)
    run = play(known, new_pruner, strategy, count=exact())
    needs = zip(known.evidence.needs, run.retained, strict=True)
    lost = [need for need, is_there in needs if need.sources and not is_there]
    waiting = list(known.transcript.results)
    found: Searches = []
    with TemporaryDirectory() as folder:
        archive = LimitedDirectory(str(Path(folder, "project")), Limits(days=10_000))
        for need in sorted(lost, key=lambda each: each.request):
            while waiting and known.first_request_from(waiting[0].sent) <= need.request:
                result = waiting.pop(0)
                archive[content_id(result.text)] = result.text
                archive.describe(content_id(result.text), f"{result.tool} {target(result.call) if result.call else ''}")
            holders = {content_id(known.transcript.results[at].text) for at in need.sources}
            is_found = not holders.isdisjoint(first_found(archive, need.atom.text[:LONGEST]))
            found += [(known.project, str(group), is_found) for group in MAIN if need.atom.kind in GROUPS[group]]
    return found


def first_found(archive: LimitedDirectory, words: str) -> list[str]:
    """Return the ids of the first results that a search finds."""
    try:
        return [each.id for each in search(archive, words)[:FIRST]]
    except ArchiveError:  # no word to search for
        return []


def of_file(path: str, name: str) -> Searches:
    """Search in all replayable conversations of a file; none if it cannot be read."""
    try:
        return [each for _, known in _episodes(path) for each in searches(known, name)]
    except AutopruneError:
        return []


def _episodes(path: str) -> Iterator[tuple[object, Episode]]:
    return episodes(path, Path(path).read_bytes(), ReplayArgs((RUN_STRATEGY,)))


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--strategy", default=RUN_STRATEGY)
    given = parser.parse_args()
    files = [str(file) for file in expand_names(given.folders) if file.name != "index.json"]
    with ProcessPoolExecutor() as pool:
        found = [each for some in pool.map(partial(of_file, name=given.strategy), files) for each in some]
    print(f"found among the first {FIRST} results, {given.strategy}:")
    for group in map(str, MAIN):
        projects: dict[str, list[tuple[float, float]]] = {}
        for project, kind, is_found in found:
            if kind == group:
                projects.setdefault(project, []).append((is_found, 1))
        if projects:
            share = interval([*projects.values()])
            count = sum(map(len, projects.values()))
            print(f"{group:8} {share.value:.3f} [{share.low:.3f}, {share.high:.3f}], n = {count}")


if __name__ == "__main__":
    main()
