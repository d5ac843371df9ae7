"""What each part of `cache_aware` contributes: recorded sessions are replayed without it.

    python benchmarks/ablations.py FOLDER [FOLDER …]            the bill and the evidence of each variant
    python benchmarks/ablations.py FOLDER --prices deepseek     at other prices
    python benchmarks/ablations.py FOLDER --by-size             short, medium and long sessions apart

Bills are shares of the unpruned one, evidence is in %. The safe zone is out of reach, so that only the strategy's own
decisions are measured; the variants of `target` have the safe zones of `autoprune replay`.

A second table is a cross-validation over agents: for each agent, the cheapest variant of `threshold` and `patience`
that kept 97 % of code and edits on the sessions of all other agents, and its figures on the agent's own sessions.

`--by-size` prints the frontier instead: for sessions of each size (the longest prompt, in the provider's tokens), the
unchanged rule, a more careful and a more aggressive one, and the rule before it waited for results to be used.
"""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

from autoprune.apps.replay.corpus import replay_files
from autoprune.apps.replay.episode_figures import OWN, Figures
from autoprune.apps.replay.rows import Row, summarize
from autoprune.apps.replay.session import ReplayArgs
from autoprune.economics import LISTS
from autoprune.strategies import cache_aware, worth

PRICES = {str(OWN): OWN, **LISTS}
FREE = " @ 10m"  # a safe zone that no session reaches


class Unnamed(cache_aware.Worth):
    """The worth of results if names do not count."""

    def worth_of(self, result: object, request: int) -> float:
        """The worth of a result without its names."""
        self._known[id(result)].fresh.clear()
        return super().worth_of(result, request)


class Idle(cache_aware.AtWork):
    """Treats no result as in use."""

    def in_use(self, request: int) -> Mapping[object, str]:
        """Find no results in use."""
        return {}


@dataclass(frozen=True)
class Variant:
    """A strategy, and replacements for names in its modules."""

    name: str
    strategy: str = f"cache_aware{FREE}"
    decisions: Mapping[str, object] = field(default_factory=dict)
    worth: Mapping[str, object] = field(default_factory=dict)
    texts: Mapping[str, object] = field(default_factory=dict)


VARIANTS = (
    Variant("unchanged"),
    Variant("without pauses", f"cache_aware(cache_life=1e9){FREE}"),
    Variant("lifetime of 5 minutes assumed", f"cache_aware(cache_life=300){FREE}"),
    Variant("no names counted", decisions={"Worth": Unnamed}),
    Variant("touched files count like others", worth={"TOUCHED_FACTOR": 0.0}),
    Variant("files at work on not kept", decisions={"AtWork": Idle}),
    Variant("no waiting until used", f"cache_aware(stay=0){FREE}"),
    Variant("no smallest prompt", f"cache_aware(start_at=0){FREE}"),
    Variant("no names in placeholders", texts={"LEAST_NAMES": 0, "MOST_NAMES": 0}),
    *(Variant(f"patience {each}", f"cache_aware(patience={each}){FREE}") for each in (3, 8)),
    *(Variant(f"threshold {each}", f"cache_aware(threshold={each}){FREE}") for each in (2.6, 6)),
    *(Variant(f"steps folded from age {each}", f"cache_aware(fold_steps={each}){FREE}") for each in (5, 10, 20, 40)),
    Variant("long arguments shortened", f"cache_aware(clear_tool_inputs={{'above': 200}}){FREE}"),
    Variant("safe zone of a run", "cache_aware"),
    Variant("safe zone 80k", "cache_aware @ 80k"),
    Variant("safe zone 80k, no later cut", "cache_aware @ 80k", {"LATER": 1.0}),
    Variant("safe zone 80k, no deeper cut", "cache_aware @ 80k", {"REGAINED": 0.0}),
)
FRONTIER = (
    Variant(
        "before: nothing waits, 5 minutes",
        "cache_aware(threshold=2.6, stay=0, start_at=0, cache_life=300)",
        worth={"TOUCHED_HALF": 20},
    ),
    *(Variant(f"threshold {each}", f"cache_aware(threshold={each})") for each in (2.6, 3.6)),
    Variant("unchanged", "cache_aware"),
    *(Variant(f"steps folded from age {each}", f"cache_aware(fold_steps={each})") for each in (5, 10, 20)),
    Variant("patience 4", "cache_aware(patience=4)"),
    Variant("threshold 6", "cache_aware(threshold=6)"),
    Variant("clairvoyant", "clairvoyant"),
)
SIZES = (("under 100k", 0, 100_000), ("100k to 300k", 100_000, 300_000), ("over 300k", 300_000, inf))
# The variants of the cross-validation over agents.
CHOICES = frozenset(("unchanged", *(each.name for each in VARIANTS if each.name.startswith(("patience", "threshold")))))
ENOUGH = 0.97  # of the evidence of code and of edits

COLUMNS = ("without re-reads", "bill", "worst", "code", "in results", "edits", "facts", "lag > 20")

Found: TypeAlias = list["Replayed"]
Replay: TypeAlias = Callable[[Iterable[Variant]], Iterable[Found]]


@dataclass(frozen=True)
class Replayed:
    """The figures of an episode under a strategy, with its agent and its longest prompt in the provider's tokens."""

    agent: str
    longest_prompt: int
    figures: Figures


def replay_variant(files: list[str], prices: str, variant: Variant) -> Found:
    """Replay the sessions with a variant, and without pruning."""
    args = ReplayArgs(strategies=("none", variant.strategy), prices=(PRICES[prices],))
    changed = ((cache_aware, variant.decisions), (worth, variant.worth), (cache_aware, variant.texts))
    with ExitStack() as patches:
        for module, names in changed:
            patches.enter_context(patch.dict(vars(module), names))
        return [
            Replayed(session.agent, session.shapes[each.episode].longest_prompt, each)
            for _, session in replay_files(files, args)
            for each in session.figures
        ]


def row(found: Iterable[Replayed], prices: str) -> Row:
    """Sum up the figures of a variant."""
    return next(row for row in summarize((each.figures for each in found), prices) if row.strategy != "none")


def choose_variant(known: Mapping[str, Found], agent: str, prices: str) -> str:
    """The cheapest variant that keeps enough evidence on the sessions of all agents except one."""
    others = {name: row((each for each in found if each.agent != agent), prices) for name, found in known.items()}
    enough = {name for name, each in others.items() if min(each.code.value, each.edits.value) >= ENOUGH}
    return min(enough or others, key=lambda name: others[name].bill.value)


def line(each: Row) -> str:
    """The figures of a row as table cells."""
    shares = (each.code.value, each.in_results, each.edits.value, each.facts.value, each.far)
    bills = f"{each.bill.value:.3f} | {each.with_rereads.value:.3f} | {each.worst:.2f}"
    return f"{bills} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"


def main() -> None:
    """Print a table, with each line as soon as its variant is replayed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--prices", default=str(OWN), choices=PRICES)
    parser.add_argument("--by-size", action="store_true", help="short, medium and long sessions apart")
    options = parser.parse_args()
    files = [str(each) for folder in options.folders for each in sorted(folder.glob("*.json*"))]
    print_table = print_sizes if options.by_size else print_variants
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        print_table(partial(processes.map, partial(replay_variant, files, options.prices)), options.prices)


def print_sizes(replay: Replay, prices: str) -> None:
    """Print the frontier: a table for the sessions of each size."""
    known = dict(zip((each.name for each in FRONTIER), replay(FRONTIER), strict=True))
    for size, least, most in SIZES:
        here = {each.figures.episode for each in known["unchanged"] if least <= each.longest_prompt < most}
        print(f"\n{size}: {len(here)} episodes" + (f"\n\n{heading('variant')}" if here else ""))
        for name, found in known.items() if here else ():
            print(f"| {name} | {line(row((each for each in found if each.figures.episode in here), prices))}")


def print_variants(replay: Replay, prices: str) -> None:
    """Print the effect of each variant, and then the choices by the sessions of other agents."""
    print(heading("variant"))
    known: dict[str, Found] = {}
    for variant, found in zip(VARIANTS, replay(VARIANTS), strict=True):
        print(f"| {variant.name} | {line(row(found, prices))}", flush=True)
        if variant.name in CHOICES:
            known[variant.name] = found
    print(f"\n{heading('held out', 'chosen')}")
    held: Found = []
    for agent in sorted({each.agent for each in known["unchanged"]}):
        name = choose_variant(known, agent, prices)
        own = [hold_out(each) for each in known[name] if each.agent == agent]
        held += own
        print(f"| {agent or 'plain messages'} | {name} | {line(row(own, prices))}")
    print(f"| all | | {line(row(held, prices))}")


def heading(*first: str) -> str:
    """The head of a table."""
    cells = (*first, *COLUMNS)
    return f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|"


def hold_out(each: Replayed) -> Replayed:
    """Give figures the same name for all variants, so that they are summed."""
    return (
        each if each.figures.strategy == "none" else replace(each, figures=replace(each.figures, strategy="held out"))
    )


if __name__ == "__main__":
    main()
