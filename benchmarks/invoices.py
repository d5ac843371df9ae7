"""How close a replay's bill is to the real one, over sessions with recorded usage.

    python benchmarks/invoices.py ~/.claude/projects logs/*.jsonl

Each session is replayed without pruning. The script compares the share of its prompts that was read from the cache, and
its cost in dollars: the cost in the log, or the cost of the recorded tokens at the model's prices.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from autoprune.apps.replay import ReplayArgs
from autoprune.apps.replay.episode import Episode, recorded_cost
from autoprune.apps.replay.episode_figures import OWN, bill
from autoprune.apps.replay.play import Run, SentPrompt
from autoprune.apps.replay.session import episodes
from autoprune.apps.sessions import Recording, Request, places
from autoprune.errors import AutopruneError

POINT, PART = 0.01, 0.05  # acceptable errors of the cached share, and of the cost
SHRUNK = 0.95  # of the previous prompt: below this, the agent has shortened the conversation
WORST = 10


@dataclass(frozen=True)
class Compared:
    """A session, simulated and recorded. `shrunk` counts the requests at which its agent shortened the conversation."""

    name: str
    agent: str
    requests: int
    simulated: float
    recorded: float
    bill: float | None
    invoice: float | None
    life: float
    shrunk: int

    @property
    def share_error(self) -> float:
        """The error of the cached share."""
        return abs(self.simulated - self.recorded)

    @property
    def cost_error(self) -> float | None:
        """The relative error of the cost; None if one of the two costs is unknown."""
        return self.bill / self.invoice - 1 if self.bill and self.invoice else None


def compare_file(path: str, life: float | None) -> list[Compared]:
    """Compare a file's sessions, if each request's usage is recorded and the log states the cached tokens."""
    try:
        data = Path(path).read_bytes()
        found = list(episodes(path, data, ReplayArgs(cache_life=life)))
    except (AutopruneError, OSError):
        return []
    return [one for recording, known in found if (one := _compare_episode(recording, known, is_told=life is None))]


def _compare_episode(recording: Recording, known: Episode, *, is_told: bool) -> Compared | None:
    usages = [each.usage for each in recording.requests]
    whole = sum(each.prompt for each in usages if each)
    cached = sum(each.cached for each in usages if each)
    if not all(each and each.prompt for each in usages) or not cached:
        return None
    before = (0, *known.unpruned[:-1])
    prompts = tuple(SentPrompt(tokens, held, 0.0) for tokens, held in zip(known.unpruned, before, strict=True))
    life = None if is_told else known.prices.life
    read = sum(known.cached_tokens(at, each.tokens, each.held, life) for at, each in enumerate(prompts))
    prices = OWN if is_told else known.prices
    costs = bill(Run(known, prompts, (), ()), prices)
    mine = costs.total * costs.input_price if costs.input_price else None
    invoice = recorded_cost(recording.requests, known.billings)
    name = Path(known.name).name
    sizes = read / sum(known.unpruned), cached / whole
    return Compared(
        name,
        recording.agent or "?",
        len(usages),
        *sizes,
        mine,
        invoice,
        known.prices.life,
        _count_shrunk(recording.requests),
    )


def _count_shrunk(requests: Sequence[Request]) -> int:
    sizes = [each.usage.prompt for each in requests if each.usage]
    return sum(now < SHRUNK * then for then, now in pairwise(sizes))


def lines(found: Sequence[Compared]) -> Iterator[str]:
    """Yield a row for each agent, and the sessions with the largest errors."""
    yield "agent                sessions  cached share off    within   cost off          within"
    yield "                               median     p90    1 point   median     p90      5 %"
    for agent in sorted({each.agent for each in found}):
        rows = [each for each in found if each.agent == agent]
        costs = sorted(abs(each.cost_error) for each in rows if each.cost_error is not None)
        shares = sorted(each.share_error for each in rows)
        cells = f"{100 * median(shares):8.2f} {100 * _at(shares, 0.9):7.2f} {_within(shares, POINT):9}"
        money = f"{100 * median(costs):8.1f} {100 * _at(costs, 0.9):7.1f} {_within(costs, PART):>9}" if costs else "–"
        yield f"{agent:20} {len(rows):8,} {cells} {money}"
    far = sorted(
        (each for each in found if (each.cost_error or 0) ** 2 > PART**2 or each.share_error > POINT), key=_far
    )[:WORST]
    if far:
        yield ""
        yield "farthest off                              requests  cached (recorded)   cost (recorded)"
    for each in far:
        cost = f"${each.bill:.2f} (${each.invoice:.2f})" if each.bill and each.invoice else "–"
        why = f"  shortened {each.shrunk} times by its agent" if each.shrunk else ""
        yield f"{each.name[:40]:40} {each.requests:9,}  {each.simulated:7.1%} ({each.recorded:.1%})  {cost:>18}{why}"


def _far(each: Compared) -> float:
    return -max(each.share_error / POINT, abs(each.cost_error or 0) / PART)


def _at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def _within(values: Sequence[float], most: float) -> str:
    return f"{sum(each <= most for each in values) / len(values):.1%}"


def main() -> None:
    """Print the differences over all given sessions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", help="session files, folders, globs")
    parser.add_argument("--cache-life", type=float, help="seconds: ignore what the logs say of their caches")
    given = parser.parse_args()
    files = [str(path) for path in places.expand_names(given.paths)]
    with ProcessPoolExecutor() as pool:
        found = [
            one for some in pool.map(partial(compare_file, life=given.cache_life), files, chunksize=4) for one in some
        ]
    print(f"{len(found):,} sessions with recorded usage in {len(files):,} files")
    print(*lines(found), sep="\n")


if __name__ == "__main__":
    main()
