"""The bill of observation masking against the price of a cached read, and the published results beside it.

python benchmarks/prunebench/masking.py clones sessions

`clones` are local clones as for sessions.py, with Recursive-Safeguarding/the-complexity-trap too. The corpus
`mini-swe-agent` is written to `sessions` if it is not there. Masking keeps the newest M results of a conversation and
replaces all others by one line, at each request ("The Complexity Trap", arXiv 2508.21433). Each M is replayed once. A
bill is linear in the prices of a written token, a cached one and one of the answer, so three sums of tokens give it at
all prices, and the price of a cached read at which masking costs as much as no pruning.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))
from autoprune.apps.replay.atoms import AtomGroup
from autoprune.apps.replay.choices import NO_PRUNING
from autoprune.apps.replay.corpus import replay_files
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.rows import Interval, Pair, Row, interval, summarize, sums_by_project
from autoprune.apps.replay.session import ReplayArgs
from autoprune.economics import Prices

import complexity_trap
from complexity_trap import COSTS, FIFTY, PAIRS, TABLE, Attempt, changes_between, read_costs
from sessions import read_manifest, write_corpus
from task_outcomes import Task, prediction

CORPUS = "mini-swe-agent"
WINDOWS = (1, 5, 10, 20, 58)
PAPERS = "complexity_trap(keep=10)"  # the window of the paper's main result
OURS = "window(keep=10)"  # the same, but results that are shorter than the line stay
GROUPS = (AtomGroup.CODE, AtomGroup.SHELL_EDITS, AtomGroup.FACTS)
LENGTHS = (20, 40, 60)  # least requests of short, medium and long trajectories
READS = (0, 0.02, 0.05, 0.1, 0.25, 0.5, 1)
OUTPUTS: Mapping[float, float] = {1: 4, 1.25: 5}  # the answer's price by the write price, as in the lists of replay
WRITTEN, SENT, ANSWERED = Prices(1, 0, 0, "written"), Prices(1, 1, 0, "sent"), Prices(0, 0, 1, "answered")
ARGS = ReplayArgs(
    strategies=(
        NO_PRUNING,
        *(f"complexity_trap(keep={keep})" for keep in sorted({*WINDOWS, *complexity_trap.WINDOWS})),
        OURS,
    ),
    prices=(WRITTEN, SENT, ANSWERED),
)


@dataclass(frozen=True)
class Tokens:
    """What a conversation sends, in tokens: written to the cache, read from it, and answered."""

    written: float
    read: float
    answered: float

    def cost(self, write: float, read: float) -> float:
        """The bill at the price of a written token and of a cached one, in input tokens."""
        return write * self.written + read * self.read + OUTPUTS[write] * self.answered


def tokens_of(figures: Figures, *, with_rereads: bool = False) -> Tokens:
    """Find the three sums of tokens from the bills at three lists of prices."""
    known = [figures.bills[each.name] for each in ARGS.prices]
    written, sent, answered = (each.with_rereads if with_rereads else each.total for each in known)
    return Tokens(written, sent - written, answered)


@dataclass(frozen=True)
class Masked:
    """Conversations under a policy that keeps the newest `keep` results, each beside the same without pruning."""

    strategy: str
    pairs: Sequence[tuple[Figures, Figures]]
    row: Row

    @property
    def keep(self) -> int:
        """The newest results that stay."""
        return int(self.strategy.partition("=")[2].rstrip(")"))

    @property
    def label(self) -> str:
        """The number of results that stay, with a star for our own masking."""
        return f"{self.keep:3}{'*' if self.strategy == OURS else ' '}"

    def between(self, least: float, most: float) -> "Masked":
        """Choose the conversations with at least `least` requests and fewer than `most`."""
        return replace(self, pairs=[pair for pair in self.pairs if least <= pair[0].requests < most])

    def bill(self, write: float, read: float) -> float:
        """The bill as a share of the unpruned one."""
        pairs = [[tokens_of(each).cost(write, read) for each in pair] for pair in self.pairs]
        return sum(masked for masked, _ in pairs) / sum(whole for _, whole in pairs)

    def break_even(self, write: float, *, with_rereads: bool = False) -> Interval:
        """The price of a cached read at which masking costs as much as no pruning; it is dearer below this price."""
        extra = [
            _extra(write, tokens_of(masked, with_rereads=with_rereads), tokens_of(whole))
            for masked, whole in self.pairs
        ]
        return interval(sums_by_project([masked for masked, _ in self.pairs], extra), nothing=0.0)

    @property
    def touched(self) -> int:
        """The number of conversations in which something was masked."""
        return sum(masked.prompts != whole.prompts for masked, whole in self.pairs)


def _extra(write: float, masked: Tokens, whole: Tokens) -> Pair:
    """The extra cost of written tokens and answers of a masked conversation, and its fewer tokens read."""
    more = write * (masked.written - whole.written) + OUTPUTS[write] * (masked.answered - whole.answered)
    return more, whole.read - masked.read


def replayed(files: Iterable[Path]) -> list[Masked]:
    """Replay each file once under each policy."""
    found = [each for _, known in replay_files(map(str, files), ARGS) for each in (known.figures if known else ())]
    rows = {row.strategy: row for row in summarize(found, SENT.name)}
    known = {(each.strategy, each.episode): each for each in found}
    names = dict.fromkeys(each.episode for each in found)
    return [
        Masked(strategy, [(known[strategy, name], known[NO_PRUNING, name]) for name in names], rows[strategy])
        for strategy in ARGS.strategies
        if strategy != NO_PRUNING
    ]


# Tables

BILLS_HEAD = "".join(f"{read:>6g}" for read in READS) + "     same bill at with re-reads at"


def bill_table(found: Iterable[Masked], write: float) -> Iterator[str]:
    """Yield the bill by window and price of a cached read."""
    yield f"A written token costs {write:g}, one of the answer {OUTPUTS[write]:g}, and a cached one"
    yield f"  M {BILLS_HEAD}"
    yield from (f"{each.label}{_bills(each, write)}" for each in found)


def length_table(masked: Masked, write: float) -> Iterator[str]:
    """Yield the bill by the number of requests."""
    yield f"M = {masked.keep} by the number of requests, a written token at {write:g}, and a cached one at"
    yield f"    {BILLS_HEAD}"
    for least, most in pairwise((*LENGTHS, inf)):
        some = masked.between(least, most)
        name = f"{least}–{most - 1}" if most < inf else f"{least} and more"
        yield f"{name}: {len(some.pairs)} trajectories\n    {_bills(some, write)}"


def _bills(masked: Masked, write: float) -> str:
    bills = "".join(f"{masked.bill(write, read):6.2f}" for read in READS)
    prices = (masked.break_even(write), masked.break_even(write, with_rereads=True))
    same, again = (f"{each.value:.2f} ({each.low:.2f}–{each.high:.2f})" for each in prices)
    return f"{bills} {same:>16} {again:>16}"


def evidence_table(found: Iterable[Masked], runs: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Yield the evidence by window, and the published results with the same window."""
    yield "        in these trajectories                   OpenHands, published, 50 tasks"
    yield "  M   masks in    code  sh. edits   facts  bill   solved  turns  $ a task"
    for each in found:
        row = each.row
        shares = f"{row.code.value:8.1%}{row.shell_edits.value:11.1%}{row.facts.value:8.1%}"
        known = _published(runs[FIFTY[each.keep]]) if each.keep in FIFTY and each.strategy != OURS else "       –"
        yield f"{each.label}  {each.touched:8}{shares}{each.bill(1, 1):6.2f} {known}"
    yield f"all {0:10}{1:8.1%}{1:11.1%}{1:8.1%}{1:6.2f} {_published(runs[FIFTY[None]])}"


def _published(runs: Sequence[Attempt]) -> str:
    turns, cost = (mean(getattr(run, name) for run in runs) for name in ("turns", "cost"))
    return f"{_solved(runs):8.0%}{turns:7.0f}{cost:10.2f}"


def _solved(runs: Sequence[Attempt]) -> float:
    return mean(run.is_solved for run in runs)


def model_table(runs: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Yield the published results with the newest 10 results."""
    yield "published, M = 10              solved       turns   masked / raw $ per 1m tokens"
    yield "about 500 tasks each          raw masked raw masked tokens   cost     raw masked"
    for name, (raw, masked) in PAIRS.items():
        before, after = runs[raw], runs[masked]
        turns = f"{mean(run.turns for run in before):4.0f}{mean(run.turns for run in after):7.0f}"
        ratios = f"{_per_task('tokens', after, before):7.2f}{_per_task('cost', after, before):7.2f}"
        prices = f"{_price(before):8.2f}{_price(after):7.2f}"
        yield f"{name:28}{_solved(before):5.0%}{_solved(after):7.0%}{turns}{ratios}{prices}"


def _per_task(name: str, masked: Sequence[Attempt], raw: Sequence[Attempt]) -> float:
    after, before = (mean(float(getattr(run, name)) for run in runs) for runs in (masked, raw))
    return after / before


def _price(runs: Sequence[Attempt]) -> float:
    return 1e6 * sum(run.cost for run in runs) / sum(run.tokens for run in runs)


def tasks_of(found: Masked) -> Iterator[Task]:
    """Yield what masking would do to each task in the trajectories of another agent."""
    for masked, whole in found.pairs:
        kept = [masked.evidence[group] for group in GROUPS]
        needed, lost = sum(each.needed for each in kept), sum(each.needed - each.kept for each in kept)
        bills = [tokens_of(each).cost(1.25, 0.1) for each in (masked, whole)]
        yield Task(
            Path(masked.session).name.partition(".")[0],
            {
                "share of evidence lost": lost / needed if needed else 0.0,
                "atoms lost": lost,
                "results read again": masked.rereads,
                "bill, reads at 0.1": bills[0] / bills[1],
                "requests": masked.requests,
            },
        )


BILLS = """\
1. The bill, as a share of the unpruned one, with the turns as recorded. Masking
   is dearer than no pruning if a cached read costs less than the price on the
   right, and cheaper if it costs more. Prices are in input tokens."""
STAR = "* with results left alone that are shorter than the line: `window` of autoprune"
EVIDENCE = """\
2. Evidence in view at each M, and what OpenHands solved with it. Agents, models
   and lengths differ: a solve rate does not belong to the evidence beside it."""
PREDICTION = """\
3. Do these figures at M = 10, of one agent, predict which tasks masking loses
   (solved raw, not masked) or wins in the experiments above? AUC, with 0.50 for
   chance: over all experiments with its interval, and the range of single ones."""


def _atoms(needed: Mapping[AtomGroup, int]) -> str:
    code, edits, facts = (needed[group] for group in GROUPS)
    return f"{code:,} atoms of code, {edits:,} shell edits, {facts:,} facts"


def report(found: Sequence[Masked], runs: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Yield all tables."""
    whole = [figures for _, figures in found[0].pairs]
    papers = next(each for each in found if each.strategy == PAPERS)
    chosen = [each for each in found if each.keep in WINDOWS]
    yield "Masking all but the newest M tool results at each request (The Complexity Trap)"
    yield f"{CORPUS}: {len(whole)} trajectories of 20 requests or more, with"
    yield f"{sum(each.requests for each in whole):,} requests; {_atoms(found[0].row.needed)}"
    yield f"\n{BILLS}"
    for write in OUTPUTS:
        yield from ("", *bill_table(chosen, write))
    yield from (STAR, "", *length_table(papers, 1))
    yield from ("", EVIDENCE, "", *evidence_table(found, runs), "", *model_table(runs))
    changes = [changes_between(runs[raw], runs[masked]) for raw, masked in PAIRS.values()]
    yield from ("", PREDICTION, "", *prediction(list(tasks_of(papers)), changes, size="requests"))


def main() -> int:
    """Print the tables, or what is missing for them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, help="a folder with a clone of each repository, at owner/name")
    parser.add_argument("sessions", type=Path, help="the folder of the corpora")
    given = parser.parse_args()
    folder = given.sessions / CORPUS
    sources = [source for source in read_manifest()[1] if source.corpus == CORPUS]
    faults = list(write_corpus(sources, given.clones, folder))
    table = COSTS.read(given.clones, TABLE)
    if table is None:
        faults.append(f"not found: {COSTS.path_of(TABLE)} of {COSTS.repository}; first run")
        faults.append(f"    {COSTS.command(given.clones)}")
    if faults or table is None:
        print(*faults, sep="\n", file=sys.stderr)
        return 1
    files = [folder / source.name_of(key) for source in sources for key in source.sessions]
    print(*report(replayed(files), read_costs(table.decode())), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
