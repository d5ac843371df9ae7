"""What each part of `cache_aware` contributes: recorded sessions are replayed without it.

    python benchmarks/ablations.py FOLDER [FOLDER …]            the bill and the evidence of each variant
    python benchmarks/ablations.py FOLDER --prices deepseek     at other prices
    python benchmarks/ablations.py FOLDER --frontier            other rules, by size, agent and kind of work

Bills are shares of the unpruned one, evidence is in %. The safe zone is out of reach, so that only the strategy's own
decisions are measured; the variants of `target` have the safe zones of `autoprune replay`.

A second table is a cross-validation over agents: for each agent, the cheapest variant of `threshold` and `patience`
that kept 97 % of code and edits on the sessions of all other agents, and its figures on the agent's own sessions.

`--frontier` prints rules that clear or fold more or less than that of `autoprune run`, with its safe zone: for all
sessions, for two halves of them, without the sessions of each agent, by size (the longest prompt, in the provider's
tokens), and apart for those that edit files. The first evidence is that of `autoprune replay`; in the second only
results are sources.

Three rules brought nothing beyond 0.002 of the bill: to count finished steps in the account, to shorten old texts of
edits after three requests, and patience that falls from 8 to 2 over 100 requests.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

from autoprune.apps.replay.corpus import replay_files
from autoprune.apps.replay.episode_figures import OWN, Figures
from autoprune.apps.replay.rows import Row, summarize
from autoprune.apps.replay.session import ReplayArgs
from autoprune.conversation.edits import Fold
from autoprune.conversation.transcript import ToolInput, ToolResult
from autoprune.economics import LISTS
from autoprune.planning.tool_inputs import ToolInputs
from autoprune.planning.view import Candidate, View
from autoprune.strategies import cache_aware, catalog, worth
from autoprune.strategies.bills import Clearing, until
from autoprune.strategies.catalog import RUN_STRATEGY
from autoprune.strategies.finished_steps import line, old_inputs
from autoprune.tokens import Count

PRICES = {str(OWN): OWN, **LISTS}
LEAST_OLD_TEXT = 30  # tokens
FREE = " @ 10m"  # a safe zone that no session reaches


class Unnamed(cache_aware.Worth):
    """The worth of results if names do not count."""

    def worth_of(self, result: object, request: int) -> float:
        """The worth of a result without its names."""
        self._known[id(result)].fresh.clear()
        return super().worth_of(result, request)


class Idle(cache_aware.InUse):
    """Treats no result as in use."""

    def in_use(self, request: int) -> Mapping[object, str]:
        """Find no results in use."""
        return {}


class Driving(cache_aware.CacheAwareState):
    """Counts what carrying finished steps costs as well, so that cuts come sooner."""

    def _choose_paying(self, view: View) -> tuple[Clearing, str]:
        worthless = (each for each in self._open if self._worth_of(each) < self._strategy.threshold)
        first = min((each.part.location.message for each in worthless), default=None)
        if self._steps and first is not None and view.tokens >= self._strategy.start_at:
            may_go = self._may_fold(view, {})
            steps = self._steps.choose(view, first, self._strategy.fold_steps or 0, may_go)
            self._owed += self._prices.read * sum(step.tokens for step in steps)
        return super()._choose_paying(view)


class Falling(cache_aware.CacheAwareState):
    """Waits long at first, and less in a long session."""

    def _choose_paying(self, view: View) -> tuple[Clearing, str]:
        self._strategy = replace(self._strategy, patience=max(2.0, 8 - 6 * view.request / 100))
        return super()._choose_paying(view)


class OldTexts(ToolInputs):
    """Shortens nothing but the old text of an edit."""

    def text(self, part: ToolInput, count: Count, mark: str = "") -> str:
        """Shorten the old text."""
        values = json.loads(part.text) if part.is_json else None
        if not isinstance(values, dict) or not isinstance(old := values.get("old_string"), str):
            return part.text
        shortened = self._shorten(old, count, mark)
        return part.text if shortened is old else json.dumps({**values, "old_string": shortened})


def early_inputs(view: View, first: float, age: int, folds: Sequence[Fold]) -> Iterator[Candidate]:
    """Yield the arguments that may go, three requests old or more."""
    yield from old_inputs(view, first, 3, folds)


def least_worth_first(clearing: Clearing, worths: Mapping[Candidate, float], wanted: float) -> Clearing:
    """Choose placeholders that save `wanted` tokens, wherever they are in the prompt."""
    return dict(until(clearing, wanted))


def bare_line(result: ToolResult, tokens: int, names: Iterable[str], *, has_failed: bool) -> str:
    """Describe a call without names of its result."""
    return line(result, tokens, (), has_failed=has_failed)


def long_line(result: ToolResult, tokens: int, names: Iterable[str], *, has_failed: bool) -> str:
    """Describe a call with many names of its result."""
    bare = line(result, tokens, (), has_failed=has_failed)
    return f"{bare}: {', '.join(islice(names, 20))}" if bare.endswith("tokens") else bare


@dataclass(frozen=True)
class Variant:
    """A strategy, and replacements for names in its modules and for types of its options."""

    name: str
    strategy: str = f"cache_aware{FREE}"
    decisions: Mapping[str, object] = field(default_factory=dict)
    worth: Mapping[str, object] = field(default_factory=dict)
    texts: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


VARIANTS = (
    Variant("unchanged"),
    Variant("without pauses", f"cache_aware(cache_life=1e9){FREE}"),
    Variant("lifetime of 5 minutes assumed", f"cache_aware(cache_life=300){FREE}"),
    Variant("no names counted", decisions={"Worth": Unnamed}),
    Variant("touched files count like others", worth={"TOUCHED_FACTOR": 0.0}),
    Variant("results in use not kept", decisions={"InUse": Idle}),
    Variant("no waiting until used", f"cache_aware(stay=0){FREE}"),
    Variant("no smallest prompt", f"cache_aware(start_at=0){FREE}"),
    Variant("no names in placeholders", texts={"LEAST_NAMES": 0, "MOST_NAMES": 0}),
    *(Variant(f"patience {each}", f"cache_aware(patience={each}){FREE}") for each in (3, 8)),
    *(Variant(f"threshold {each}", f"cache_aware(threshold={each}){FREE}") for each in (2.6, 6)),
    *(Variant(f"steps folded from age {each}", f"cache_aware(fold_steps={each}){FREE}") for each in (5, 10, 20, 40)),
    Variant("long arguments shortened", f"cache_aware(clear_tool_inputs={{'above': 200}}){FREE}"),
    Variant("safe zone of a run", "cache_aware"),
    Variant("safe zone 80k", "cache_aware @ 80k"),
    Variant("safe zone 80k, no later cut", "cache_aware @ 80k", {"late_in_prompt": least_worth_first}),
    Variant("safe zone 80k, no deeper cut", "cache_aware @ 80k", {"REGAINED": 0.0}),
)
EARLY = f"clear_tool_inputs={{'above': {LEAST_OLD_TEXT}}}"
FRONTIER = (
    Variant(
        "before: nothing waits, 5 minutes",
        "cache_aware(threshold=2.6, stay=0, start_at=0, cache_life=300)",
        worth={"TOUCHED_HALF": 20},
    ),
    *(Variant(f"threshold {each}", f"cache_aware(threshold={each})") for each in (2.6, 3.6)),
    Variant("results only", "cache_aware"),
    Variant("autoprune run", RUN_STRATEGY),
    *(Variant(f"steps folded from age {each}", f"cache_aware(fold_steps={each})") for each in (5, 12, 20)),
    Variant("steps count in the account", RUN_STRATEGY, {"CacheAwareState": Driving}),
    Variant("patience falls from 8 to 2", RUN_STRATEGY, {"CacheAwareState": Falling}),
    Variant(
        "old texts of edits go after 3 requests",
        f"{RUN_STRATEGY[:-1]}, {EARLY})",
        {"old_inputs": early_inputs},
        options={"clear_tool_inputs": OldTexts},
    ),
    Variant("lines of folded steps without names", RUN_STRATEGY, {"line": bare_line}),
    Variant("lines of folded steps with 20 names", RUN_STRATEGY, {"line": long_line}),
    Variant("clairvoyant", "clairvoyant"),
)
SIZES = (("under 100k", 0, 100_000), ("100k to 300k", 100_000, 300_000), ("over 300k", 300_000, inf))
# The variants of the cross-validation over agents.
CHOICES = frozenset(("unchanged", *(each.name for each in VARIANTS if each.name.startswith(("patience", "threshold")))))
ENOUGH = 0.97  # of the evidence of code and of edits

COLUMNS = ("without re-reads", "bill", "worst", "code", "in results", "edits", "facts", "lag > 20")
FRONTIER_COLUMNS = ("bill", "worst", "code / edits / facts")

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
    with ExitStack() as patches:
        for module, names in ((cache_aware, variant.decisions), (worth, variant.worth), (cache_aware, variant.texts)):
            patches.enter_context(patch.dict(vars(module), names))
        patches.enter_context(patch.dict(catalog.OPTIONS, variant.options))
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


def variant_line(each: Row) -> str:
    """The figures of a row as table cells."""
    shares = (each.code.value, each.in_results, each.edits.value, each.facts.value, each.far)
    bills = f"{each.bill.value:.3f} | {each.with_rereads.value:.3f} | {each.worst:.2f}"
    return f"{bills} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"


def main() -> None:
    """Print a table, with each line as soon as its variant is replayed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--prices", default=str(OWN), choices=PRICES)
    parser.add_argument("--frontier", action="store_true", help="other rules, by groups of sessions")
    options = parser.parse_args()
    files = [str(each) for folder in options.folders for each in sorted(folder.glob("*.json*"))]
    print_table = print_frontier if options.frontier else print_variants
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        print_table(partial(processes.map, partial(replay_variant, files, options.prices)), options.prices)


def print_frontier(replay: Replay, prices: str) -> None:
    """Print the frontier: a table for each group of sessions."""
    known = dict(zip((each.name for each in FRONTIER), replay(FRONTIER), strict=True))
    for group, here in groups(known["autoprune run"]):
        if not here:
            continue
        print(f"\n{group}: {len(here)} conversations\n\n{heading('variant', columns=FRONTIER_COLUMNS)}")
        for name, found in known.items():
            print(f"| {name} | {frontier_line(row((each for each in found if each.figures.episode in here), prices))}")


def groups(found: Found) -> Iterator[tuple[str, set[str]]]:
    """Yield groups of conversations with a name: all, halves, without an agent, by size, and by kind of work."""
    every = {each.figures.episode: each for each in found}
    names = sorted(every)
    yield "all", {*names}
    yield "one half", {*names[::2]}
    yield "the other half", {*names[1::2]}
    for agent in sorted({each.agent for each in found}):
        yield f"without {agent or 'plain messages'}", {name for name in names if every[name].agent != agent}
    for size, least, most in SIZES:
        yield size, {name for name in names if least <= every[name].longest_prompt < most}
    editing = {name for name in names if every[name].figures.evidence["edits"].needed}
    yield "that edit files", editing
    yield "that do not", {*names} - editing


def frontier_line(each: Row) -> str:
    """The bill and the evidence of a row as table cells."""
    kept = " / ".join(f"{100 * share.value:.1f}" for share in (each.code, each.edits, each.facts))
    return f"{each.with_rereads.value:.3f} | {each.worst:.3f} | {kept} |"


def print_variants(replay: Replay, prices: str) -> None:
    """Print the effect of each variant, and then the choices by the sessions of other agents."""
    print(heading("variant"))
    known: dict[str, Found] = {}
    for variant, found in zip(VARIANTS, replay(VARIANTS), strict=True):
        print(f"| {variant.name} | {variant_line(row(found, prices))}", flush=True)
        if variant.name in CHOICES:
            known[variant.name] = found
    print(f"\n{heading('held out', 'chosen')}")
    held: Found = []
    for agent in sorted({each.agent for each in known["unchanged"]}):
        name = choose_variant(known, agent, prices)
        own = [hold_out(each) for each in known[name] if each.agent == agent]
        held += own
        print(f"| {agent or 'plain messages'} | {name} | {variant_line(row(own, prices))}")
    print(f"| all | | {variant_line(row(held, prices))}")


def heading(*first: str, columns: Sequence[str] = COLUMNS) -> str:
    """The head of a table."""
    cells = (*first, *columns)
    return f"| {' | '.join(cells)} |\n{'|---' * len(cells)}|"


def hold_out(each: Replayed) -> Replayed:
    """Give figures the same name for all variants, so that they are summed."""
    return (
        each if each.figures.strategy == "none" else replace(each, figures=replace(each.figures, strategy="held out"))
    )


if __name__ == "__main__":
    main()
