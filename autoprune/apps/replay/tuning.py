"""Find the best setting for a user's sessions, with cross-validation.

Each setting of a grid is replayed on each session. The best setting is the cheapest whose evidence of each group stays
at or above a floor. Its figures on the sessions used to choose it are optimistic, so sessions are split into folds: for
each fold, a setting is chosen on the other folds and judged on this fold. The held-out figures together are the honest
estimate; their interval, and how often the same setting was chosen, show how reliable the estimate is. All figures of a
session are in the same fold.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autoprune.apps.replay.choices import NO_PRUNING, NoPruning, Policy
from autoprune.apps.replay.episode_figures import OWN, Figures
from autoprune.apps.replay.rows import MAIN, SEED, Interval, Row, summarize
from autoprune.economics import DEFAULT
from autoprune.planning.view import asks_always
from autoprune.pruners.naming import pruner_for
from autoprune.pruners.pruner import AgenticConversationPruner
from autoprune.settings.values import PruneArgs, usual_zone
from autoprune.strategies.catalog import RUN_STRATEGY, config
from autoprune.strategies.files import is_in_file

FOLDS = 5  # or the number of sessions if that is smaller
FLOOR = 0.95  # the lowest acceptable share of each group of evidence
ZONES = ("40k", "60k", "80k", "120k")
GRID = (
    NO_PRUNING,
    RUN_STRATEGY,
    *(f"cache_aware(fold_steps={age})" for age in (6, 20)),
    *(f"cache_aware(threshold={threshold}, fold_steps=10)" for threshold in (3.6, 6)),
    *("cache_aware", "cache_aware(threshold=3.6)", "cache_aware(threshold=6)"),
    *(f"{strategy} @ {zone}" for zone in ZONES for strategy in (RUN_STRATEGY, "cache_aware")),
    *(f"low_water(target={target}) @ {zone}" for zone in ZONES for target in (0.6, 0.9)),
    *(f"low_water(target=0.6, protect={{'last_results': 10}}) @ {zone}" for zone in ZONES),
)


@dataclass(frozen=True)
class Tuning:
    """The outcome: all settings as rows, the rows on the frontier, and the recommended setting.

    `recommended` is "none" if no setting within the floor is cheaper than no pruning. `bill`, `code`, `edits` and
    `facts` are held-out figures, of settings chosen without the sessions that they are judged on; None if there are too
    few sessions, or nothing of that kind was used later. `picks` counts how often each setting was chosen. `snippet` is
    the recommended setting as Python code.
    """

    rows: tuple[Row, ...]
    frontier: tuple[Row, ...]
    recommended: str
    sessions: int
    floor: float
    bill: Interval | None = None
    code: Interval | None = None
    edits: Interval | None = None
    facts: Interval | None = None
    picks: tuple[tuple[str, int], ...] = ()
    snippet: str = ""


def tune(figures: Iterable[Figures], prices: str, floor: float = FLOOR, model: str | None = None) -> Tuning:
    """Find the best setting for some sessions at the prices named `prices`, cross-validated over sessions.

    `model` is the model to name in the snippet, if it is known.
    """
    usable = [each for each in figures if not Policy(each.strategy).is_clairvoyant]
    sessions = sorted({each.session for each in usable})
    rows = tuple(summarize(usable, prices))
    best = choice(usable, prices, floor)
    zones = Counter(each.safe_zone for each in usable).most_common(1)
    code = snippet(best, prices, model, zones[0][0] if zones else None)
    outcome = Tuning(rows, tuple(frontier(rows)), best, len(sessions), floor, snippet=code)
    folds = min(FOLDS, len(sessions))
    if folds < 2:
        return outcome
    held_out, picks = _held_out(usable, sessions, prices, floor, folds)
    judged = next(row for row in summarize(held_out, prices) if row.strategy == HELD_OUT)
    outcome = replace(outcome, bill=judged.with_rereads, picks=tuple(picks.most_common()))
    kept: dict[str, Any] = {str(group): judged.evidence[group] for group in MAIN if judged.needed[group]}
    return replace(outcome, **kept)


HELD_OUT = "chosen on other sessions"


def _held_out(
    found: Sequence[Figures], sessions: Sequence[str], prices: str, floor: float, folds: int
) -> tuple[list[Figures], Counter[str]]:
    """Return the figures of each session under the setting chosen on other folds, and the count of each choice."""
    dealt = list(sessions)
    random.Random(SEED).shuffle(dealt)
    chosen: list[Figures] = []
    picks: Counter[str] = Counter()
    for fold in range(folds):
        own = set(dealt[fold::folds])
        pick = choice([each for each in found if each.session not in own], prices, floor)
        picks[pick] += 1
        chosen += (replace(each, strategy=HELD_OUT) for each in found if each.session in own and each.strategy == pick)
        # Bills are shares of the unpruned ones, so the unpruned figures are needed too.
        chosen += (each for each in found if each.session in own and each.strategy == NO_PRUNING)
    return chosen, picks


def choice(found: Sequence[Figures], prices: str, floor: float) -> str:
    """Choose the cheapest setting within the floor, by the bill including re-reads; "none" if there is none."""
    fine = [row for row in summarize(found, prices) if row.lowest >= floor]
    return min(fine, key=lambda row: row.with_rereads.value).strategy if fine else NO_PRUNING


def frontier(rows: Sequence[Row]) -> list[Row]:
    """Select the rows that no other row beats in both bill and lowest share of evidence, the cheapest first."""
    unbeaten: list[Row] = []
    for row in sorted(rows, key=lambda each: (each.with_rereads.value, -each.lowest)):
        if not unbeaten or row.lowest > unbeaten[-1].lowest:
            unbeaten.append(row)
    return unbeaten


NO_SETTING = "# No setting is cheaper and keeps that much: send the messages as they are."
ANY_ZONE = "# Every session was replayed with a safe zone for its size: set the one that you want."


def snippet(setting: str, prices: str, model: str | None = None, safe_zone: int | None = None) -> str:
    """Write Python code that prunes `messages` with a setting, such as "low_water(target=0.6) @ 60k".

    The code names the prices that the setting was judged by, unless they are those of the `model`. A setting without a
    safe zone gets `safe_zone`, by default the model's usual one.
    """
    policy = Policy(setting)
    strategy = policy.strategy()
    if isinstance(strategy, NoPruning):
        return NO_SETTING
    kind = type(pruner_for(strategy, PruneArgs()))
    takes_pauses = kind is AgenticConversationPruner and asks_always(strategy)
    is_priced = getattr(strategy, "prices", "") is None
    named = _strategy_code(policy, prices if is_priced and prices not in (model, DEFAULT.name, OWN.name) else "")
    zone = _literal(policy.zone) if policy.zone else f"{safe_zone or usual_zone(model):_}"
    args = f"PruneArgs({zone}, model={_literal(model)})" if model else zone
    imports = [f"from autoprune import {kind.__name__}{', PruneArgs' if model else ''}"]
    code = [*([] if policy.zone else [ANY_ZONE]), f"pruner = {kind.__name__}({args})"]
    if takes_pauses:
        imports.append("from autoprune.economics import Pauses")
        code.append("pauses = Pauses()  # one for each conversation")
    if is_in_file(policy.name):
        imports.append("from autoprune.strategies.files import load_strategy")
    code.append(f"result = pruner.prune(messages, {named}{', pauses=pauses.before(messages)' if takes_pauses else ''})")
    return "\n".join((*imports, "", *code))


def strategy_name(policy: Policy) -> str:
    """Return the name of a policy's strategy in a live loop, which is another one for a window."""
    if not policy.is_baseline:
        return policy.name
    parameters = ", ".join(f"{field}={value!r}" for field, value in config(policy.strategy()).items())
    return f"observation_masking({parameters})"


def _strategy_code(policy: Policy, prices: str) -> str:
    """Write the code of a strategy: its name as a string, with `prices` unless they are ""."""
    name = strategy_name(policy)
    if prices:
        head, _, rest = name.partition("(")
        parameters = rest.rstrip().removesuffix(")").strip().removesuffix(",")
        name = f"{head.strip()}({parameters}{', ' if parameters else ''}prices={prices!r})"
    return f"load_strategy({_literal(name)})" if is_in_file(name) else _literal(name)


def _literal(text: str) -> str:
    """Write a text as a Python literal, in double quotes if that needs no escapes."""
    return f'"{text}"' if text.isprintable() and not {'"', "\\"} & {*text} else repr(text)
