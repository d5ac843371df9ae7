"""How many atoms of each kind recorded sessions have, and how often chance alone would retain one.

    python benchmarks/atoms.py FOLDER [FOLDER …]

The table has, for each kind of atom and of fact: how many atoms count, in total and per 100 requests, and how many per
100 requests do not, and why (docs/replay.md defines the words). The last column is chance: each atom that counts is
searched in random results of other sessions, with as many tokens as `cache_aware` leaves in the prompts of its session
on average. An atom that is found there would look retained although its source was cleared.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from autoprune.apps.replay.atoms import Atom, Kind
from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import play
from autoprune.apps.replay.session import ReplayArgs, episodes
from autoprune.apps.replay.stated_values import UNSPACED
from autoprune.apps.replay.visible import Texts
from autoprune.economics import LISTS
from autoprune.errors import AutopruneError
from autoprune.tokens import exact

SEED = 7
DRAWS = 5  # of results of other sessions, for each episode
STRATEGY = "cache_aware"
# Sorts of facts, checked in this order.
SORTS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("URL", re.compile("https?://").match),
    ("date", re.compile(r"\d{4}-\d\d-\d\d").fullmatch),
    ("number of 3 digits", re.compile(r"\d{3}|[\d.]{4}").fullmatch),
    ("number of 4 digits", re.compile(r"\d{4}|[\d.]{5}").fullmatch),
    ("longer number", re.compile(r"\d+(?:\.\d+)?").fullmatch),
    ("name", re.compile(r".* .*").fullmatch),
    ("run of characters", UNSPACED.fullmatch),
    ("code, time or address", bool),
)


@dataclass
class Counts:
    """Atoms of one kind: those that count, those that do not, and those found by chance."""

    counted: int = 0
    free: int = 0
    unsupported: int = 0
    common: int = 0
    by_chance: float = 0.0

    def row(self, name: str, requests: int) -> str:
        """The line of the table."""
        others = (self.free, self.unsupported, self.common)
        per = [f"{100 * each / requests:.1f}" for each in (self.counted, *others)]
        per[1:] = per[1:] if any(others) else ("", "", "")  # unknown for sorts of facts
        chance = f"{100 * self.by_chance / self.counted:.1f} %" if self.counted else "–"
        return f"| {name} | {self.counted:,} | {' | '.join(per)} | {chance} |"


@dataclass
class Table:
    """The counts of all kinds, and of the sorts of facts."""

    kinds: dict[str, Counts] = field(default_factory=dict)
    requests: int = 0

    def names(self, kind: Kind, text: str = "") -> Iterator[str]:
        """Yield the rows in which an atom is counted."""
        yield str(kind)
        if kind is Kind.FACT and text:
            yield f"fact: {sort(text)}"

    def add(self, known: Episode, found: Counter[Atom]) -> None:
        """Count the atoms of an episode; `found` counts the draws that show each atom."""
        self.requests += len(known.requests)
        for need in known.evidence.needs:
            for name in self.names(need.atom.kind, need.atom.text):
                self._of(name).counted += 1
                self._of(name).by_chance += found[need.atom] / DRAWS
        for why in ("free", "unsupported", "common"):
            for kind, count in getattr(known.evidence, why).items():
                each = self._of(str(kind))
                setattr(each, why, getattr(each, why) + count)

    def _of(self, name: str) -> Counts:
        return self.kinds.setdefault(name, Counts())


def sort(text: str) -> str:
    """The sort of a fact."""
    return next(name for name, fits in SORTS if fits(text))


def load(folders: Iterable[Path]) -> Iterator[Episode]:
    """Yield the episodes of the session files in some folders. Other files are skipped."""
    for path in (each for folder in folders for each in sorted(folder.glob("*.json*"))):
        try:
            yield from (known for _, known in episodes(str(path), path.read_bytes(), ReplayArgs()))
        except AutopruneError:
            continue


def average_result_tokens(known: Episode) -> int:
    """The tokens of results that `cache_aware` leaves in a prompt, on average over the requests."""
    strategy, new_pruner = Policy(STRATEGY).for_episode(known, LISTS["anthropic"])
    run = play(known, new_pruner, strategy, count=exact())
    others = [entry.tokens - sum(result.tokens for result in entry.results) for entry in known.transcript.entries]
    beside = [known.head + sum(others[:start]) for start in known.requests]
    return round(mean(prompt.tokens - each for prompt, each in zip(run.prompts, beside, strict=True)))


def draw_results(source: random.Random, pool: Sequence[tuple[str, str, int]], session: str, tokens: int) -> Texts:
    """Draw results of other sessions at random until they have `tokens` tokens."""
    found = Texts()
    while tokens > 0:
        other, text, size = source.choice(pool)
        if other != session:
            found.add_text(text)
            tokens -= max(size, 1)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    known = list(load(parser.parse_args().folders))
    pool = [(each.session, result.text, result.tokens) for each in known for result in each.transcript.results]
    source, table, sizes = random.Random(SEED), Table(), []
    for each in known:
        sizes.append(average_result_tokens(each))
        found: Counter[Atom] = Counter()
        for _ in range(DRAWS):
            texts = draw_results(source, pool, each.session, sizes[-1])
            found.update({need.atom for need in each.evidence.needs if texts.find(need.atom)})
        table.add(each, found)
    print(f"{len(known)} episodes, {table.requests:,} requests, {mean(sizes):,.0f} tokens of results in a prompt\n")
    print(f"| kind | that count | in 100 requests | free | unsupported | common | by chance |\n{'|---' * 7}|")
    order = [
        *(name for kind in Kind for name in (str(kind), *(f"fact: {sort}" for sort, _ in SORTS if kind == "fact")))
    ]
    for name in order:
        if name in table.kinds:
            print(table.kinds[name].row(name, table.requests))


if __name__ == "__main__":
    main()
