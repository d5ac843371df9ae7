"""Whether pruning ever makes a recorded session dearer, by strategy and price list.

    python benchmarks/never_dearer.py [FOLDER …] [--prices claude-haiku-5-5] [--strategy 'cache_aware @ 40k']
    python benchmarks/never_dearer.py --check       fails if `run` without a safe zone is dearer anywhere

It replays each session and adds up the cost of its requests with and without pruning. The table has the bill of all
sessions, the highest bill of a session at its end, the highest bill up to any request, the number of sessions that
were dearer up to some request, and how many of the cuts were forced, because the prompt was above the safe zone, such
as `@ 40k`. Bills are shares of the unpruned ones, first at each session's own prices and cache life and then at the
listed ones. Without a folder, the recorded sessions in fixtures are replayed.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from operator import sub
from pathlib import Path

from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.corpus import Processes, one_by_one, replay_files
from autoprune.apps.replay.episode_figures import OWN, Bill, Figures
from autoprune.apps.replay.session import ReplayArgs
from autoprune.apps.sessions.places import expand_names
from autoprune.economics import Prices, prices
from autoprune.settings.values import budget_tokens
from autoprune.strategies.catalog import RUN_STRATEGY

FIXTURES = Path(__file__).parent.parent / "fixtures"
RECORDED = FIXTURES / "sessions", FIXTURES / "demo.jsonl"
GUARDED = RUN_STRATEGY
STRATEGIES = (
    GUARDED,
    "cache_aware",
    "cache_aware(never_dearer=None)",
    "cache_aware @ 40k",
    "low_water @ 40k",
    "tool_output_cleanup @ 40k",
)
LISTS = ("claude-opus-5-5", "claude-fable-5-1", "claude-haiku-5-5", "gpt-6.1-sol", "deepseek")
DEARER = 1 + 1e-9  # the margin is for rounding errors
HEAD = f"{'prices':17} {'strategy':31} bill  at end  any  dearer   forced"
CUT = 1  # tokens by which a prompt must be smaller: estimates of the same prompt may differ by rounding


def main() -> int:
    """Print the table; with --check, return 1 if the guarantee does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=RECORDED)
    parser.add_argument("--prices", action="append", help="a price list or a model; may be repeated")
    parser.add_argument("--strategy", action="append", help="may be repeated")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    files = [str(file) for file in expand_names(map(str, given.folders)) if file.name != "index.json"]
    known = [OWN, *map(prices, given.prices or LISTS)]
    print(HEAD)
    found_dearer = False
    for each in known:
        for strategy, line, is_dearer in rows(files, each, given.strategy or STRATEGIES):
            print(f"{each!s:17} {strategy:31} {line}", flush=True)
            found_dearer |= is_dearer and strategy == GUARDED
    return int(given.check and found_dearer)


def rows(files: Sequence[str], at: Prices, strategies: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield each strategy with its figures, and whether some session was dearer."""
    args = ReplayArgs(strategies=("none", *strategies), prices=(at,))
    engine = Processes(2) if len(files) > 2 else one_by_one
    found = [row for _, session in replay_files(files, args, engine=engine) if session for row in session.figures]
    whole = {row.episode: row for row in found if row.strategy == "none"}
    for strategy in strategies:
        zone = Policy(strategy).zone
        own = [row for row in found if row.strategy == strategy]
        bills = [_bill(row) for row in own]
        unpruned = [_bill(whole[row.episode]).total for row in own]
        if not bills:
            sys.exit("no session has 20 requests or more")
        ends = [bill.total / whole for bill, whole in zip(bills, unpruned, strict=True)]
        dearer = sum(bill.worst > DEARER for bill in bills)
        total = sum(bill.total for bill in bills) / sum(unpruned)
        cuts = [cut for row in own for cut in _cuts(row, whole[row.episode].prompts, zone)]
        worst = max(bill.worst for bill in bills)
        line = f"{total:.3f} {max(ends):.3f} {worst:.3f} {dearer:3} of {len(bills):2} {sum(cuts):3} of {len(cuts)}"
        yield strategy, line, dearer > 0


def _cuts(row: Figures, unpruned: Sequence[int], zone: str) -> Iterator[bool]:
    """Yield for each cut whether it was forced: whether the prompt was above the safe zone before it."""
    limit = budget_tokens(zone) if zone else row.safe_zone
    for before, whole, prompt in zip((0, *map(sub, unpruned, row.prompts)), unpruned, row.prompts, strict=False):
        if whole - before - prompt > CUT:
            yield whole - before > limit


def _bill(row: Figures) -> Bill:
    (bill,) = row.bills.values()
    return bill


if __name__ == "__main__":
    sys.exit(main())
