"""Recommend a strategy: compare bills at equal evidence, tell differences from noise, or advise not to prune.

A cheap bill with poor evidence is no bargain: lost evidence has costs that a replay cannot measure. So strategies
are sorted into bands by the lowest of code, edits and facts, however few, and within a band by their bill. Advice
depends only on groups of 20 atoms or more, and on the code; it names the number of atoms of a smaller group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autoprune.apps.replay.choices import NO_PRUNING, Policy
from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.rows import FEW_ATOMS, Interval, Row, bill_interval, grouped, summarize, worth_of
from autoprune.apps.replay.session import FULL, Overview, Trials
from autoprune.apps.replay.tuning import FLOOR
from autoprune.errors import count_noun
from autoprune.strategies.catalog import RUN_STRATEGY

BANDS = (0.97, 0.95, 0.90, 0.0)  # the lowest share of evidence in each
FEW = 5  # sessions: with fewer, the advice warns that they say little about others
RUN_COMMAND = "autoprune run"
DECIMALS = 3  # of shares, in all tables and sentences
MEANINGS = {  # of the columns of tables
    "bill": "the cost of all prompts and answers as a share of no pruning, including re-reads: fetching cleared "
    "results again if the agent needed them. 0.900 is 10% cheaper",
    "spare": "the extra requests of the agent, for each 100, that the saving would pay for",
    "changed": "the share of sessions in which anything was cleared",
    "code": "% still in the prompt, of the names, error messages and old texts of edits that the agent used in its "
    "next steps",
    "edits": "the same for the old texts of its edits only, which must match exactly",
    "facts": "the same for the figures, names, quotes and keys that it wrote",
}
LITTLE = 0.01  # of the bill: a strategy that is cheaper by less is not mentioned


@dataclass(frozen=True)
class Standing:
    """A strategy's row in its band.

    `is_tied` means that its bill does not differ significantly from that of the row above in the band. Figures are
    judged as they are shown, rounded to three decimals. `run` is the command that prunes in the same way, "" if the
    strategy is not that of `autoprune run`. `is_published` says that it is another tool's, which promises nothing.
    """

    row: Row
    sessions: int
    band: float
    is_clairvoyant: bool = False
    is_baseline: bool = False
    is_published: bool = False
    is_tied: bool = False
    run: str = ""

    @property
    def broken(self) -> str:
        """How often the strategy broke a guarantee, or had a prompt refused if it gives none; "" if never."""
        number = self.row.violations
        refused, broke = f"{count_noun(number, 'prompt')} refused", f"broke a guarantee {count_noun(number, 'time')}"
        return "" if not number else refused if self.is_published else broke

    @property
    def rereads(self) -> Interval:
        """The bill that is shown and that ranks strategies: with results fetched again, as a share of no pruning."""
        return self.row.with_rereads

    @property
    def is_cheaper(self) -> bool:
        """Whether the strategy is significantly cheaper than no pruning."""
        return round(self.rereads.high, DECIMALS) < 1.0

    @property
    def keeps_enough(self) -> bool:
        """Whether enough evidence of each group stays visible."""
        return self.row.least >= FLOOR

    @property
    def shortfall(self) -> float:
        """The distance from both floors: the larger of the strategy's excess cost and its missing evidence, or 0."""
        return max(self.rereads.value - 1.0, FLOOR - self.row.least, 0.0)


def run_command(safe_zone: int | None) -> str:
    """Return the command that prunes as a replay with this safe zone does; None is the command's own default."""
    return RUN_COMMAND if safe_zone is None else f"{RUN_COMMAND} --safe-zone {safe_zone}"


def standings(
    figures: Iterable[Figures], prices: str, run: str = RUN_COMMAND, *, run_first: bool = True
) -> list[Standing]:
    """Rank the strategies by band, and within each band by bill; that of `autoprune run` comes first if `run_first`.

    Clairvoyants are last: they cannot be used live. `run` is the command that has the safe zone of the replay.
    """
    found = sorted(figures, key=lambda each: each.episode)
    worth = worth_of(found, prices)
    unpruned = {each.episode: _cost(each, worth, prices) for each in found if each.strategy == NO_PRUNING}
    groups = grouped(found, unpruned)

    def is_tied(above: Standing, below: Standing) -> bool:
        """Return whether the difference between two bills on the same sessions is not significant."""
        if (above.band, above.is_clairvoyant) != (below.band, below.is_clairvoyant):
            return False
        first, second = (groups[each.row.strategy, each.row.style] for each in (above, below))
        costs = {each.episode: _cost(each, worth, prices) for each in first}
        # Compare only episodes that both strategies have.
        both = [each for each in second if each.episode in costs]
        more = ((_cost(each, worth, prices) - costs[each.episode], unpruned[each.episode]) for each in both)
        difference = bill_interval(both, more)
        return difference.low <= 0.0 <= difference.high

    placed = [_standing(row, groups[row.strategy, row.style], run) for row in summarize(found, prices)]
    placed.sort(key=lambda each: (not (run_first and each.run), each.is_clairvoyant, -each.band, each.rereads.value))
    pairs = zip((None, *placed), placed, strict=False)
    return [replace(each, is_tied=above is not None and is_tied(above, each)) for above, each in pairs]


def _standing(row: Row, own: Sequence[Figures], run: str) -> Standing:
    policy = Policy(row.strategy)
    return Standing(
        row=row,
        sessions=len({each.session for each in own}),
        band=next(band for band in BANDS if row.lowest >= band),
        is_clairvoyant=policy.is_clairvoyant,
        is_baseline=policy.is_baseline,
        is_published=policy.is_published,
        run=run if strategy_label(row) == RUN_STRATEGY else "",
    )


def _cost(each: Figures, worth: Mapping[str, float], prices: str) -> float:
    return worth[each.episode] * each.bills[prices].with_rereads


def recommended(placed: Sequence[Standing]) -> Standing | None:
    """Choose that of `autoprune run` if it is cheaper and keeps the needed evidence, else the cheapest such strategy.

    None means that it is better not to prune.
    """
    cheaper = [each for each in placed if each.is_cheaper and not each.is_baseline]
    fine = [each for each in cheaper if each.keeps_enough]
    best = min(fine, key=lambda each: each.rereads.value, default=None)
    return next((each for each in fine if each.run), best)


def advice(placed: Sequence[Standing]) -> str:
    """Advise in a few sentences to use the recommended strategy, or not to prune."""
    mine = [each for each in placed if not each.is_baseline]
    if not mine:
        return "No strategy that can be chosen was replayed: there is nothing to advise."
    sessions = max(each.sessions for each in mine)
    few = f" That is {count_noun(sessions, 'session')}: too few to say much about others." if sessions < FEW else ""
    usual = recommended(mine)
    if usual is None:
        closest = min(mine, key=lambda each: (each.shortfall, each.rereads.value))
        if closest.keeps_enough and closest.rereads.value < 1.0:
            start = "No strategy that can be chosen is shown to be cheaper"
            start += ": the interval of its bill reaches 1, so it may be chance"
        else:
            start = "Do not prune: no strategy that can be chosen is cheaper and keeps what is needed"
        return f"{start}. {_shortcoming_text(closest)}{_better_text(closest, placed)}{few}"
    what = strategy_label(usual.row) + (f", as `{usual.run}` does" if usual.run else "")
    more = f"{_reach_text(usual)}{_better_text(usual, placed)}{few}"
    return f"Use {what}: {_bill_sentence(usual)}, and it keeps in view {_evidence_text(usual)}.{more}"


def _better_text(usual: Standing, placed: Sequence[Standing]) -> str:
    """Describe the cheapest other row that keeps enough evidence, including baselines; "" if none is cheaper."""
    others = [each for each in placed if each.keeps_enough and not each.is_clairvoyant]
    best = min(others, key=lambda each: each.rereads.value, default=usual)
    if best.rereads.value >= min(1.0, usual.rereads.value - LITTLE):
        return ""
    baseline = " (a baseline)" if best.is_baseline else ""
    bill = best.rereads.text(".3f")
    return f" {strategy_label(best.row)}{baseline} has a bill of {bill} and keeps {_evidence_text(best)}."


def _reach_text(each: Standing) -> str:
    """Say how many sessions were changed, how many more requests the saving would pay for, and where it comes from."""
    changed = f"{round(each.row.changed * each.sessions):,} of {count_noun(each.sessions, 'session')}"
    even = f" It changed {changed}, and breaks even if the agent needs {each.row.spare:.1f} more requests for each 100."
    cold = f" {each.row.cold:.0%} of the saving comes from requests whose prompt was not in the cache anyway."
    return f"{even}{cold}" if each.row.cold else even


def strategy_label(row: Row) -> str:
    """Return the name of a row's strategy, with its style unless that is full history."""
    return row.strategy if row.style == FULL else f"{row.strategy} ({row.style})"


def _shortcoming_text(each: Standing) -> str:
    start, kept = f"{strategy_label(each.row)} comes closest: {_bill_sentence(each)}", _evidence_text(each)
    if not each.is_cheaper:
        return f"{start}, and it keeps in view {kept}."
    return f"{start}, but it keeps in view only {kept}; {FLOOR:.0%} of each is required."


def _bill_sentence(each: Standing) -> str:
    return f"its bill, re-reads of cleared results included, is {each.rereads.text('.3f')} of the bill without pruning"


def _evidence_text(each: Standing) -> str:
    """Describe the share of each needed group of evidence that stays visible."""
    row = each.row
    shares = [
        f"{share.value:.1%} of the {group}" + (f" (n = {row.needed[group]})" if row.needed[group] < FEW_ATOMS else "")
        for group, share in row.evidence.items()
        if row.needed[group]
    ]
    if not shares:
        return "all that the agent used later"
    *before, last = shares
    listed = f"{', '.join(before)} and {last}" if before else last
    return f"{listed} that the agent used later"


def round_tokens(tokens: float) -> str:
    """Format a number of tokens in about three digits: 950, 134k, 2.1M."""
    if tokens < 10_000:
        return f"{tokens:,.0f}"
    return f"{tokens / 1_000:.0f}k" if tokens < 999_500 else f"{tokens / 1_000_000:.1f}M"


def overview_rows(whole: Overview) -> Iterator[tuple[str, str]]:
    """Yield what some sessions consist of: names and values."""
    agents = ", ".join(f"{agent} {count:,}" for agent, count in whole.agents.items())
    yield "replayed", f"{whole.sessions:,} of {count_noun(whole.files, 'session')}: {agents}"
    sizes = f"median {round_tokens(whole.median_tokens)}, largest {round_tokens(whole.largest_tokens)}"
    requests, conversations = count_noun(whole.requests, "request"), count_noun(whole.episodes, "conversation")
    yield "size", f"{requests} in {conversations}; {round_tokens(whole.tokens)} tokens, {sizes}"
    calls = f"arguments of calls {_percent(whole.call_tokens, whole.tokens)}"
    mean = whole.result_tokens / whole.results if whole.results else 0
    each = f"{whole.results:,} with {mean:,.0f} tokens on average, the largest {round_tokens(whole.largest_result)}"
    yield "tool results", f"{whole.result_share:.0%} of the tokens ({calls}): {each}"
    yield (
        "files again",
        f"{_percent(whole.reads_again, whole.reads)} of {whole.reads:,} paths in calls had been named before",
    )
    yield "pauses", f"{_percent(whole.long_pauses, whole.requests)} of the requests found the cache cold"
    yield "cache lives", ", ".join(f"{name} {count:,}" for name, count in whole.lives.items())
    if whole.recorded is not None and whole.simulated is not None:
        cached = f"{whole.recorded:.1%} of the prompts as recorded, {whole.simulated:.1%} as simulated without pruning"
        yield "cached", f"{cached} ({count_noun(whole.recording, 'conversation')})"
    if whole.passed.count or whole.failed.count:
        yield "outcomes", _outcomes(whole.passed, whole.failed)


def _outcomes(passed: Trials, failed: Trials) -> str:
    """Say how many trials passed, and what pruning leaves of the bills of both kinds."""
    said = f"{passed.count:,} of {count_noun(passed.count + failed.count, 'replayed trial')} passed"
    kinds = (("those that passed", passed.share), ("the others", failed.share))
    bills = [f"{share:.3f} in {name}" for name, share in kinds if share is not None]
    return f"{said}; bill with `autoprune run`: {', '.join(bills)}" if bills else said


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "–"
