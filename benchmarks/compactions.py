"""Which recorded compactions pruning would have prevented, at what cost, and what stays in view.

    python benchmarks/compactions.py ~/.claude/projects ~/.codex/sessions [--share 0.9]

The stretch before each compaction is replayed with a limit at a share of its longest prompt, where the agent compacted.
A compaction would not have happened if every pruned prompt is shorter than that. The bill is that of this stretch with
results fetched again, as a share of its cost by the record. Afterwards the replay goes on with the recorded answers of
the next stretch, to its end: their cost is a share of what they and the summary cost by the record. Compactions that
the user asked for, and those after fewer than 20 requests, are left out. The sum of both has a 95% interval over
projects.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median

from autoprune.apps.replay import Figures, ReplayArgs
from autoprune.apps.replay.compaction_costs import Around, Compaction, Later, replay_stretch, with_stretches
from autoprune.apps.replay.episode import Episode, episode
from autoprune.apps.replay.episode_figures import OWN, figures
from autoprune.apps.replay.rows import MAIN, interval, sums_by_project
from autoprune.apps.replay.session import FULL, open_recordings
from autoprune.apps.sessions import Recording, places
from autoprune.errors import AutopruneError
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.tokens import exact

TOKEN = 1e-6  # dollars, for models without a known price
SHARE = 0.9  # of the size at which the agent compacts: the limit that `compact_at` sets
STRATEGIES = (RUN_STRATEGY, "cache_aware", "low_water", f"{RUN_STRATEGY} without a limit")


@dataclass(frozen=True)
class Replayed:
    """The stretch before a compaction under a strategy. `left` is the share of the last prompt that is left.

    `later` are the requests after it if it was prevented by a limit.
    """

    compaction: Compaction
    strategy: str
    is_prevented: bool
    left: float
    figures: Figures
    later: Later | None


def replay_file(path: str, share: float) -> list[Replayed]:
    """Replay the stretches before the compactions in a file."""

    def read(stretch: Recording) -> Episode:
        return episode(stretch, path, exact())

    try:
        with open(path, "rb") as file:
            conversations = open_recordings(path, file.read(), ReplayArgs())
        pairs = [pair for stretches in conversations for pair in with_stretches(stretches, read)]
    except (AutopruneError, OSError) as error:
        print(f"left out: {error}")
        return []
    return [replay_one(each, strategy, share) for each in pairs if each.compaction.can_judge for strategy in STRATEGIES]


def replay_one(around: Around, strategy: str, share: float) -> Replayed:
    """Replay one stretch under a strategy."""
    found, (name, _, without) = around.compaction, strategy.partition(" without")
    limit = None if without else round(found.prompt * share / SHARE)
    run = replay_stretch(around.before, name, limit)
    left, is_prevented = run.prompts[-1].tokens / found.prompt, found.is_prevented_by(run)
    later = (
        around.later(replay_stretch(around.joined, name, limit, around.before.prices))
        if limit and is_prevented
        else None
    )
    return Replayed(found, strategy, is_prevented, left, figures(run, name, (OWN,), style=FULL), later)


def row(strategy: str, known: Sequence[Replayed]) -> tuple[str, ...]:
    """Sum up the stretches under a strategy as cells of a table. Stretches count by their cost."""
    kept = []
    for group in MAIN:
        counts = [each.figures.evidence[group] for each in known]
        kept.append(f"{100 * sum(each.kept for each in counts) / (sum(each.needed for each in counts) or 1):.1f}")
    prevented = f"{sum(each.is_prevented for each in known)} of {len(known)}"
    left = f"{median(each.left for each in known):.0%}"
    before, later = [_costs(each) for each in known], [each.later for each in known if each.later]
    recorded, replayed = sum(each.recorded for each in later), sum(each.replayed for each in later)
    afterwards = ["–", "–"]
    if recorded:
        pairs = [_with_later(each, costs) for each, costs in zip(known, before, strict=True)]
        both = interval(sums_by_project([each.figures for each in known], pairs))
        afterwards = [f"{replayed / recorded:.3f}", both.text(".3f")]
    pruned, unpruned = map(sum, zip(*before, strict=True))
    return strategy, prevented, left, f"{pruned / unpruned:.3f}", *afterwards, " / ".join(kept)


def _costs(each: Replayed) -> tuple[float, float]:
    """Return what a stretch costs with the strategy, with re-reads, and without it, in dollars."""
    (bill,) = each.figures.bills.values()
    price = bill.input_price or TOKEN
    return price * bill.with_rereads, price * (bill.total + bill.saved)


def _with_later(each: Replayed, costs: tuple[float, float]) -> tuple[float, float]:
    """Add what the requests after a prevented compaction would have cost, and what they cost."""
    return (costs[0] + each.later.replayed, costs[1] + each.later.recorded) if each.later else costs


def main() -> None:
    """Replay the files and print a table."""
    parser = argparse.ArgumentParser(description="Which recorded compactions pruning would have prevented.")
    parser.add_argument("paths", nargs="+", metavar="DIR")
    parser.add_argument("--share", type=float, default=SHARE, help="the limit, of where the agent compacted")
    options = parser.parse_args()
    files = [str(path) for path in places.expand_names(options.paths)]
    found: dict[object, Replayed] = {}
    with ProcessPoolExecutor() as pool:
        for some in pool.map(partial(replay_file, share=options.share), files):
            for each in some:
                # A compaction in several files counts once.
                found.setdefault((each.strategy, each.compaction.identity), each)
    agents = sorted({each.compaction.agent for each in found.values()})
    for agent in [*agents, ""] if len(agents) > 1 else [""]:
        known = [each for each in found.values() if agent in ("", each.compaction.agent)]
        print(f"\n{agent or 'all'}")
        kept = f"{' / '.join(MAIN)} kept, %"
        print(f"| strategy | would not have happened | prompt left | bill | afterwards | both | {kept} |")
        print("|---|---|---|---|---|---|---|")
        for strategy in STRATEGIES:
            print(f"| {' | '.join(row(strategy, [each for each in known if each.strategy == strategy]))} |")


if __name__ == "__main__":
    main()
