"""A benchmark of context policies: the figures of each policy over the sessions of a corpus, at each price list.

A policy of another tool decides without prices, so its evidence and its prompts are the same at all price lists, and
only its bill differs. A strategy that decides by prices is another one at each list.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import mul
from typing import Any

from autoprune.apps.replay.choices import NO_PRUNING, Policy
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.rows import GROUPS, SAMPLES, Interval, Row, samples, shuffle
from autoprune.apps.replay.session import Overview, ReplayArgs, SessionFigures, overview
from autoprune.apps.replay.verdict import Standing, standings
from autoprune.economics import Prices
from autoprune.strategies.catalog import RUN_STRATEGY

from prunebench.policies import POLICIES, Published

OURS = (RUN_STRATEGY, "cache_aware", "low_water")
POLICY_NAMES = (NO_PRUNING, *OURS, *POLICIES, "clairvoyant")
PRICE_LISTS = ("anthropic", "anthropic-1h", "openai", "deepseek", "gemini", "no-cache")
HIGH = 0.95  # the share of prompts that are at most as long as the "long prompt" of a policy
REFUSED = re.compile(r"promise 3, (request \d+):")
# The project in the name of a file: of the corpora of benchmarks/prunebench/sessions.json, and of a task of SWE-bench.
PROJECT = re.compile(r"[\w.-]+?--(?P<corpus>[\w.-]+?)--[^/]*|(?P<task>[\w.-]+?__[\w.-]+?)-\d+\..*")
DIGITS = 4  # of figures in JSON: more would only make the file larger


@dataclass(frozen=True)
class Effect:
    """What a policy does to the prompts of a corpus, whatever they cost.

    `prices` is the list that the policy decided by, "" if it does not decide by prices. `row` holds its evidence.
    `long_prompt` is the 95th percentile of its prompts, in tokens by our count. `refused` are requests that the
    provider would refuse, of those that were checked: see `play`; and `refused_sessions` the sessions with one. In
    `idle_sessions` every prompt was as long as without the policy.
    """

    policy: str
    prices: str
    row: Row
    long_prompt: Interval
    refused: int
    refused_sessions: int
    idle_sessions: int


@dataclass(frozen=True)
class CorpusFigures:
    """The figures of all policies over a corpus: `effects`, and the rows at each price list, from the lowest bill.

    `files` are the session files that were found, and `whole` describes those that were replayed.
    """

    name: str
    files: int
    whole: Overview
    effects: Sequence[Effect]
    rankings: Mapping[str, Sequence[Standing]]


def corpus_figures(name: str, files: int, sessions: Sequence[SessionFigures], args: ReplayArgs) -> CorpusFigures:
    """Sum up the sessions of a corpus, which were replayed with these arguments."""
    figures = sorted((row for each in sessions for row in each.figures), key=lambda each: each.episode)
    rankings: dict[str, list[Standing]] = {}
    effects: dict[tuple[str, str], Effect] = {}
    unpruned = {each.episode: each.prompts for each in figures if each.strategy == NO_PRUNING}
    by_price = {name for name in args.strategies if args.by_each_price and Policy(name).uses_prices}
    for prices in map(str, args.prices):
        billed = [each for each in figures if prices in each.bills]
        by_project = [replace(each, session=project(each.session), project="") for each in billed]
        placed = standings(by_project, prices, run_first=False) if billed else []
        rankings[prices] = sorted(placed, key=lambda each: each.rereads.value)
        for each in rankings[prices]:
            at = each.row.strategy, prices if each.row.strategy in by_price else ""
            if at not in effects:
                own = [one for one in billed if one.strategy == each.row.strategy]
                effects[at] = _effect(at[1], each.row, own, unpruned)
    return CorpusFigures(name, files, overview(sessions), tuple(effects.values()), rankings)


def _effect(prices: str, row: Row, found: Sequence[Figures], unpruned: Mapping[str, Sequence[int]]) -> Effect:
    prompts: dict[str, list[int]] = {}
    for each in found:
        prompts.setdefault(each.session, []).extend(each.prompts)
    refused = {
        (each.session, each.episode, match[1])
        for each in found
        for violation in each.violations
        if (match := REFUSED.match(violation))
    }
    changed = {each.session for each in found if each.prompts != unpruned[each.episode]}
    return Effect(
        policy=row.strategy,
        prices=prices,
        row=row,
        long_prompt=percentile(prompts.values(), HIGH),
        refused=len(refused),
        refused_sessions=len({session for session, _, _ in refused}),
        idle_sessions=len(prompts) - len(changed),
    )


def project(session: str) -> str:
    """Find the project of a session by its file's name; the session itself if the name does not tell it.

    Sessions of one project are alike, so intervals are over projects.
    """
    found = PROJECT.fullmatch(session.rpartition("/")[2])
    return (found["corpus"] or found["task"]) if found else session


def published(name: str) -> Published | None:
    """Find the description of a policy of another tool, perhaps with parameters; None for any other name."""
    return POLICIES.get(name.partition("(")[0].strip())


def benchmark_json(corpora: Iterable[CorpusFigures], args: ReplayArgs, version: str) -> dict[str, Any]:
    """Convert a benchmark to JSON-compatible values. They contain no times, so the same sessions give the same."""
    return {
        "version": version,
        "policies": {name: _described(name) for name in args.strategies},
        "prices": {str(each): _listed(each) for each in args.prices},
        "corpora": [_corpus(each) for each in corpora],
    }


def _described(name: str) -> dict[str, Any]:
    known, policy = published(name), Policy(name)
    kind = "published" if policy.is_published else "clairvoyant" if policy.is_clairvoyant else "autoprune"
    if known is None:
        return {"kind": "none" if name == NO_PRUNING else kind}
    return {"kind": kind, "tool": known.tool, "checked": known.checked, "shortens_unseen": known.is_arrival}


def _listed(prices: Prices) -> dict[str, float]:
    return {"written": prices.write, "read": prices.read, "output": prices.output, "cache_life": prices.life}


def _corpus(known: CorpusFigures) -> dict[str, Any]:
    whole = asdict(known.whole)
    shown = ("sessions", "episodes", "requests", "tokens", "median_tokens", "results", "result_tokens", "agents")
    rows = next(iter(known.rankings.values()), ())
    return {
        "name": known.name,
        "files": known.files,
        **{name: whole[name] for name in shown},
        "needed": {str(group): count for group, count in rows[0].row.needed.items()} if rows else {},
        "effects": list(map(_effect_json, known.effects)),
        "bills": {name: list(map(_bill_json, ranking)) for name, ranking in known.rankings.items()},
    }


def _effect_json(each: Effect) -> dict[str, Any]:
    row = each.row
    return {
        "policy": each.policy,
        "prices": each.prices or None,
        "evidence": {str(group): _numbers(share) for group, share in row.evidence.items() if row.needed[group]},
        "protected": {kind: _numbers(share) for kind, share in row.protected.items()},
        "in_results": round(row.in_results, DIGITS),
        "cache_breaks": row.cache_breaks,
        "rereads": row.rereads,
        "long_prompt": _numbers(each.long_prompt),
        "refused": each.refused,
        "refused_sessions": each.refused_sessions,
        "idle_sessions": each.idle_sessions,
    }


def _bill_json(each: Standing) -> dict[str, Any]:
    return {
        "policy": each.row.strategy,
        "bill": _numbers(each.rereads),
        "without_rereads": _numbers(each.row.bill),
        "worst": round(each.row.worst, DIGITS),
        "dearer": round(each.row.dearer, DIGITS),
    }


def _numbers(known: Interval) -> list[float]:
    return [round(each, DIGITS) for each in (known.value, known.low, known.high)]


def percentile(sessions: Iterable[Sequence[int]], share: float) -> Interval:
    """Compute a percentile of all values of some sessions, with its interval; `share` is 0.95 for the 95th."""
    known = list(sessions)
    count = min(len(known), GROUPS)
    dealt = known if len(known) <= GROUPS else [known[place] for place in shuffle(len(known))]
    groups = [[value for each in dealt[group::GROUPS] for value in each] for group in range(count)]
    sizes = list(map(len, groups))
    largest_first = sorted(((value, at) for at, group in enumerate(groups) for value in group), reverse=True)

    def find(times: Sequence[int]) -> float:
        above = (1.0 - share) * sum(map(mul, times, sizes))
        for value, at in largest_first:
            above -= times[at]
            if above < 0:
                return value
        return 0.0

    drawn = sorted(find(_times(draw, count)) for draw in samples((1,) * count)) if count else [0.0] * SAMPLES
    low, high = drawn[round(0.025 * SAMPLES)], drawn[round(0.975 * SAMPLES) - 1]
    return Interval(find([1] * count), low, high)


def _times(draw: Sequence[int], count: int) -> list[int]:
    """Count how often each session was drawn."""
    times = [0] * count
    for at in draw:
        times[at] += 1
    return times
