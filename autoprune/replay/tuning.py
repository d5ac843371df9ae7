"""Which setting is best for somebody's own sessions, and how much of that is luck.

How it works. Each setting of a grid was replayed on each session. The best one is the cheapest whose evidence and
edits stay at or above a floor. What it will bring on sessions to come is not what it brought on those it was chosen by,
so the sessions are dealt into folds: for each fold a setting is chosen on the other folds, and judged on this one
alone. The held-out figures together are the honest estimate; their interval, and how often the same setting was chosen,
say how far it can be trusted. Figures of one session always stay in one fold.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoprune.replay.bootstrap import SEED, Interval
from autoprune.replay.figures import Figures
from autoprune.replay.policies import Policy
from autoprune.replay.summary import Row, summarize

FOLDS = 5
FLOOR = 0.95  # of the evidence, and of that of edits
ZONES = ("40k", "60k", "80k", "120k")
GRID = (
    "none",
    *(f"low_water(target={target}) @ {zone}" for zone in ZONES for target in (0.4, 0.6, 0.75, 0.9)),
    *(f"low_water(target=0.6, protect={{'last_results': {kept}}}) @ {zone}" for zone in ZONES for kept in (10, 20)),
    *(f"cache_aware(threshold={threshold}) @ {zone}" for zone in ZONES for threshold in (1.8, 2.6, 3.6)),
    *(f"tool_output_cleanup @ {zone}" for zone in ZONES),
)


@dataclass(frozen=True)
class Tuning:
    """The outcome: all settings as rows, those on the frontier, and the one that is recommended.

    `recommended` is "none" where no setting is cheaper than no pruning within the floor. `bill`, `evidence` and `edits`
    are held-out: of settings that were chosen without the sessions that they are judged on; None where there are too
    few sessions for that. `picks` counts how often each setting was chosen.
    """

    rows: tuple[Row, ...]
    frontier: tuple[Row, ...]
    recommended: str
    sessions: int
    floor: float
    bill: Interval | None = None
    evidence: Interval | None = None
    edits: Interval | None = None
    picks: tuple[tuple[str, int], ...] = ()

    @property
    def snippet(self) -> str:
        """The recommended setting as Python code to paste; one that weighs the cache is told of pauses."""
        if self.recommended == "none":
            return "# No setting is cheaper and keeps that much: send the messages as they are."
        name, _, zone = self.recommended.partition(" @ ")
        given = f'"{zone}"'
        if not name.startswith("cache_aware"):
            lines = (f"pruner = AgenticConversationPruner({given})", f'result = pruner.prune(messages, "{name}")')
            return "\n".join(("from autoprune import AgenticConversationPruner", "", *lines))
        return "\n".join(
            (
                "from autoprune import AgenticConversationPruner, PruneArgs",
                "from autoprune.economics import Pauses",
                "",
                f"pruner, pauses = AgenticConversationPruner(PruneArgs({given}, model=...)), Pauses()  # your model",
                f'result = pruner.prune(messages, "{name}", pauses=pauses.before(messages))',
            )
        )


def tune(figures: Iterable[Figures], prices: str, floor: float = FLOOR, folds: int = FOLDS) -> Tuning:
    """Return the best setting for some sessions at the prices of that name, cross-validated over sessions."""
    found = [each for each in figures if not Policy(each.strategy).is_clairvoyant]
    sessions = sorted({each.session for each in found})
    rows = tuple(summarize(found, prices))
    best = choice(found, prices, floor)
    outcome = Tuning(rows, tuple(frontier(rows)), best, len(sessions), floor)
    folds = min(folds, len(sessions))
    if folds < 2:
        return outcome
    held_out, picks = _held_out(found, sessions, prices, floor, folds)
    judged = next(row for row in summarize(held_out, prices) if row.strategy == HELD_OUT)
    return Tuning(
        *(rows, outcome.frontier, best, len(sessions), floor),
        *(judged.bill, judged.evidence, judged.edits, tuple(picks.most_common())),
    )


HELD_OUT = "chosen on other sessions"


def _held_out(
    found: Sequence[Figures], sessions: Sequence[str], prices: str, floor: float, folds: int
) -> tuple[list[Figures], Counter[str]]:
    """Return the figures of each session under the setting that the other folds choose, and how often each was."""
    dealt = list(sessions)
    random.Random(SEED).shuffle(dealt)
    chosen: list[Figures] = []
    picks: Counter[str] = Counter()
    for fold in range(folds):
        own = set(dealt[fold::folds])
        pick = choice([each for each in found if each.session not in own], prices, floor)
        picks[pick] += 1
        chosen += (each.called(HELD_OUT) for each in found if each.session in own and each.strategy == pick)
        chosen += (each for each in found if each.session in own and each.strategy == "none")
    return chosen, picks


def choice(found: Sequence[Figures], prices: str, floor: float) -> str:
    """Return the cheapest setting within the floor, what would be fetched again included; "none" where none is."""
    fine = [row for row in summarize(found, prices) if row.evidence.value >= floor and row.edits.value >= floor]
    return min(fine, key=lambda row: row.with_rereads).strategy if fine else "none"


def frontier(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other row beats in both bill and evidence, the cheapest first."""
    kept: list[Row] = []
    for row in sorted(rows, key=lambda each: (each.with_rereads, -each.evidence.value)):
        if not kept or row.evidence.value > kept[-1].evidence.value:
            kept.append(row)
    return kept
