"""What resuming a recorded session behind autoprune would have cost, and what it would have kept.

    python benchmarks/resuming.py FOLDER … [--copy]

Each session is cut at its longest pause beyond the life of its cache, before a prompt of 20,000 tokens or more, as if
autoprune had been started there, after a session without it. The table has the cost of the first request and of the
first twenty, as shares of those without pruning at the session's own prices, and the shares of the names, edits and
facts used in these twenty that their prompts still showed. Intervals are over projects. `--copy` is for `autoprune
resume CLIENT`: results are cleared in a copy of the session, once, and nothing is pruned after that.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from autoprune.apps.replay.atoms import GROUPS
from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import Run, play
from autoprune.apps.replay.rows import MAIN, interval
from autoprune.apps.replay.session import ReplayArgs, episodes
from autoprune.apps.sessions.places import expand_names
from autoprune.errors import AutopruneError
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.tokens import exact

LEAST, NEXT = 20_000, 20  # tokens of the first prompt; requests


class NoEdits:
    """Plans nothing, as before autoprune was started."""

    name = "no_edits"

    def step(self, view: object) -> list[object]:
        """Plan no edits."""
        return []


class Started:
    """A pruner that leaves requests with fewer messages than `start` as they are."""

    def __init__(self, pruner: Any, start: int, *, once: bool) -> None:
        """Prune from the request with `start` messages on, or only that one."""
        self._pruner, self._start, self._once = pruner, start, once
        self._copy: list[object] = []  # the messages of the copy that was resumed

    def prune(self, messages: Sequence[object], strategy: object, **arguments: Any) -> Any:
        """Prune a request, or leave it as it is."""
        if len(messages) < self._start or self._copy:
            messages = [*self._copy, *messages[len(self._copy) :]]
            return self._pruner.prune(messages, strategy=NoEdits(), **arguments)
        known = arguments.pop("history", {})
        history = {0: known.get(0, {}), self._start: {}, **known}
        result = self._pruner.prune(messages, strategy=strategy, history=history, **arguments)
        if self._once:
            self._copy = result.conversation
        return result


@dataclass(frozen=True)
class Resumed:
    """One session, resumed: costs with and without pruning, and evidence kept and needed, by group."""

    project: str
    first: tuple[float, float]
    soon: tuple[float, float]
    kept: dict[str, tuple[int, int]]


def resume(known: Episode, at: int, *, as_copy: bool) -> Resumed:
    """Resume a session at a request, behind autoprune or as a copy."""
    strategy, new_pruner = Policy("cache_aware" if as_copy else RUN_STRATEGY).for_episode(known, known.prices)
    run = play(known, lambda: Started(new_pruner(), known.requests[at], once=as_copy), strategy, count=exact())
    soon = range(at, min(at + NEXT, len(run.prompts)))
    costs = [tuple(_costs(known, run, request)) for request in soon]
    needs = zip(known.evidence.needs, run.retained, strict=True)
    used = [(need.atom.kind, is_there) for need, is_there in needs if need.request in soon]
    groups = {str(group): [is_there for kind, is_there in used if kind in GROUPS[group]] for group in MAIN}
    return Resumed(
        project=known.project,
        first=(costs[0][0], costs[0][1]),
        soon=(sum(each[0] for each in costs), sum(each[1] for each in costs)),
        kept={name: (sum(each), len(each)) for name, each in groups.items()},
    )


def _costs(known: Episode, run: Run, at: int) -> Iterator[float]:
    """Yield the cost of a request with pruning, and without."""
    billing, before = known.billings[at], at - 1
    for tokens, held in (
        (run.prompts[at].tokens, run.prompts[at].held),
        (known.unpruned[at], min(known.unpruned[before], known.unpruned[at])),
    ):
        yield billing.prices.request(tokens, known.cached_tokens(at, tokens, held), billing.answer)


def longest_pause(known: Episode) -> int | None:
    """Return the request after the longest pause beyond the cache's life; None if there is none."""
    cold = [at for at, tokens in enumerate(known.unpruned) if at and tokens >= LEAST and known.is_cold(at)]
    pauses = {at: pause for at in cold if (pause := known.pauses.get(known.requests[at], 0.0))}
    return max(pauses, key=pauses.__getitem__, default=None)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--copy", action="store_true")
    given = parser.parse_args()
    files = [str(file) for file in expand_names(given.folders) if file.name != "index.json"]
    with ProcessPoolExecutor() as pool:
        found = [each for some in pool.map(partial(of_file, as_copy=given.copy), files) for each in some]
    print(f"{len(found)} sessions were resumed after a pause")
    if not found:
        return
    names = {"first request": lambda each: each.first, "first twenty": lambda each: each.soon}
    names |= {str(group): partial(_kept, str(group)) for group in MAIN}
    for name, pair in names.items():
        projects: dict[str, list[tuple[float, float]]] = {}
        for each in found:
            projects.setdefault(each.project, []).append(pair(each))
        shares = interval([*projects.values()])
        print(f"{name:14} {shares.value:.3f} [{shares.low:.3f}, {shares.high:.3f}]")


def _kept(group: str, each: Resumed) -> tuple[int, int]:
    return each.kept[group]


def of_file(file: str, *, as_copy: bool) -> list[Resumed]:
    """Resume the conversations in a file that can be."""
    try:
        known = [each for _, each in episodes(file, Path(file).read_bytes(), ReplayArgs())]
    except AutopruneError:
        return []
    return [resume(each, at, as_copy=as_copy) for each in known if (at := longest_pause(each)) is not None]


if __name__ == "__main__":
    main()
