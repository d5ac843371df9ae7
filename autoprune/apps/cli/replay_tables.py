"""What `autoprune replay` shows: what the sessions are made of, the strategies in their bands, what was made up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autoprune.apps.replay import Interval, ReplayArgs, atoms
from autoprune.apps.replay.bill import OWN, Bill
from autoprune.apps.replay.overview import Overview
from autoprune.apps.replay.policies import AT
from autoprune.apps.replay.protected import PROTECTED_NAMES
from autoprune.apps.replay.recorded import UNKNOWN_HEAD
from autoprune.apps.replay.verdict import BANDS, NONE, Standing, advice, called
from autoprune.apps.sessions import READABLE
from autoprune.economics import DEFAULT, Prices
from autoprune.pruners.report.drawing import printable
from autoprune.settings import SHARE, UNKNOWN_ZONE

WORST = BANDS[-2]  # evidence below which all strategies stand together
MAIN = (atoms.Group.CODE, atoms.Group.EDITS, atoms.Group.FACTS)  # evidence that stands beside the bill
MOST_SHARE = 11  # characters of a share with its interval
MOST_SKIPPED = 10  # files that are named for one reason
LEGEND = """\
bill      cost as a share of the unpruned one, and what 95 of 100 draws of the
          sessions give; ≈ is not to be told apart from the row above
re-read   the same with what the agent would fetch again
code      how much of what the recorded actions rested on stays in view, in %:
          names, paths, errors and the old texts of edits
edits     the same for the old texts of edits, shell edits for those in commands
facts     the same for figures, names, quotes and keys in what the agent wrote;
          rows stand in bands by the lowest group
worst     the bill of the session that came off worst
breaks    requests at which the prompt's cache broke"""


@dataclass(frozen=True)
class Unpruned:
    """What all conversations cost without pruning, in input tokens, and in dollars those that have a known price."""

    tokens: float
    dollars: float = 0.0
    priced: int = 0
    is_partly: bool = False

    @classmethod
    def of(cls, bills: Iterable[Bill]) -> "Unpruned":
        """Return the sum of some bills."""
        known = list(bills)
        priced = [each for each in known if each.input_price]
        dollars = sum(each.total * (each.input_price or 0.0) for each in priced)
        return cls(sum(each.total for each in known), dollars, len(priced), len(priced) < len(known))


def found_here(found: Mapping[str, Sequence[Path]]) -> Text:
    """Say how many session files of which agents were found."""
    counts = (f"{agent} {_count(len(files), 'file')}" for agent, files in found.items())
    return Text(f"found: {', '.join(counts)}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def _short(tokens: int) -> str:
    """Return a number of tokens in three figures or so: 950, 134k, 2.1m."""
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1_000:.0f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}m"


def shape(whole: Overview) -> RenderableType:
    """Draw what the sessions are made of."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, said in _lines(whole):
        table.add_row(name, said)
    return Group(table, "")


def _lines(whole: Overview) -> Iterator[tuple[str, str]]:
    agents = ", ".join(f"{printable(agent)} {count:,}" for agent, count in whole.agents.items())
    yield "replayed", f"{whole.sessions:,} of {_count(whole.files, 'file')}: {agents}"
    sizes = f"the median session {_short(whole.median_tokens)}, the largest {_short(whole.largest_tokens)}"
    yield "size", f"{_count(whole.requests, 'request')}; {_short(whole.tokens)} tokens, {sizes}"
    calls = f"arguments of calls {_percent(whole.call_tokens, whole.tokens)}"
    mean = whole.result_tokens / whole.results if whole.results else 0
    each = f"{whole.results:,} of {mean:,.0f} on average, the largest {_short(whole.largest_result)}"
    yield "tool results", f"{whole.result_share:.0%} of the tokens ({calls}): {each}"
    yield (
        "files again",
        f"{_percent(whole.reads_again, whole.reads)} of {whole.reads:,} paths in calls had been named before",
    )
    yield "pauses", f"{_percent(whole.long_pauses, whole.requests)} of the requests found the cache cold"
    yield "cache lives", ", ".join(f"{name} {count:,}" for name, count in whole.lives.items())
    if whole.recorded is not None and whole.simulated is not None:
        cached = f"{whole.recorded:.1%} of the prompts as recorded, {whole.simulated:.1%} as simulated without pruning"
        yield "cached", f"{cached} ({_count(whole.recording, 'session')})"


def verdict_table(prices: Prices, placed: Sequence[Standing], unpruned: Unpruned) -> RenderableType:
    """Draw the strategies at some prices, in bands of evidence, and the sentence of advice."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("strategy", overflow="fold", max_width=44)
    for name in ("bill", "re-read", *MAIN):
        table.add_column(name, justify="right", no_wrap=True)
    heads = [_head(each) for each in placed]
    for each, head, above in zip(placed, heads, ["", *heads], strict=False):
        if head != above:
            table.add_row(Text(head, style="dim"))
        table.add_row(*_cells(each))
    broken = (Text(line, style="bold red") for each in placed for line in _broken(each))
    return Group(_at(prices, unpruned), table, *broken, "", Text(advice(placed), style="bold"), "")


def details_table(placed: Sequence[Standing]) -> RenderableType:
    """Draw the worst bill, the cache breaks, and what stayed in view of shell edits and of protected content."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("in view, %", overflow="fold", max_width=30)
    for name in ("worst", "breaks", atoms.Group.SHELL_EDITS, *PROTECTED_NAMES.values()):
        table.add_column(name, justify="right", max_width=MOST_SHARE)
    for each in placed:
        strategy = Text(printable(called(each.row)), style="dim" if each.is_clairvoyant else "")
        shares = (each.row.protected.get(kind) for kind in PROTECTED_NAMES)
        cells = (_share(known, 1) if known else "–" for known in shares)
        shell_edits = _share(each.row.shell_edits, each.row.needed[atoms.Group.SHELL_EDITS])
        table.add_row(strategy, f"{each.row.worst:.2f}", f"{each.row.cache_breaks:,}", shell_edits, *cells)
    return Group(table, "")


def _at(prices: Prices, unpruned: Unpruned) -> Text:
    what = f"{prices.write:g} written, {prices.read:g} read, {prices.output:g} of the answer"
    own = ("prices: each session's own", " (by request: of its model and its cache)")
    name, meaning = own if prices == OWN else (f"prices: {printable(prices)}", f" (a token {what})")
    dollars = f", ${unpruned.dollars:,.2f}" if unpruned.dollars else ""
    unknown = f" for {_count(unpruned.priced, 'conversation')} of a known price" if unpruned.is_partly else ""
    costs = f"without pruning {_short(round(unpruned.tokens))} input tokens{dollars}{unknown if dollars else ''}"
    return Text.assemble((name, "bold"), f"{meaning}; {costs}")


def _head(each: Standing) -> str:
    if each.is_clairvoyant:
        return "knows what comes:"
    return f"evidence ≥ {each.band:.0%}:" if each.band else f"below {WORST:.0%}:"


def _cells(each: Standing) -> tuple[Text | str, ...]:
    row = each.row
    style = "dim" if each.is_clairvoyant else "red" if row.bill.value > 1 else ""
    tie = "≈" if each.is_tied else ""
    bill = f"{tie}{row.bill.value:.3f} {_range(row.bill, '.2f', 1):9}"
    return (
        Text(printable(called(row))),
        Text(bill, style=style),
        f"{each.rereads.value:.3f}",
        *(_share(row.evidence[group], row.needed[group]) for group in MAIN),
    )


def _range(known: Interval, form: str, factor: float) -> str:
    return f"{known.low * factor:{form}}–{known.high * factor:{form}}" if known.low < known.high else ""


def _share(known: Interval, needed: int) -> str:
    """Return a share in percent with its interval; a dash where nothing was needed."""
    if not needed:
        return "–"
    return f"{100 * known.value:.1f} {_range(known, '.0f', 100)}".rstrip()


def _broken(each: Standing) -> Iterator[str]:
    if each.row.violations:
        yield f"{called(each.row)} broke a promise {_count(each.row.violations, 'time')}; --json says where"


def skipped(left_out: Mapping[str, str]) -> RenderableType:
    """Draw the files that were skipped, by their reason; of many the first ones, and how many more there are."""
    reasons: dict[str, list[str]] = {}
    for path, why in left_out.items():
        reasons.setdefault(why.replace(f": give {READABLE}", ""), []).append(path)
    return Group(*(line for why, paths in reasons.items() for line in _skipped(why, paths)))


def _skipped(why: str, paths: Sequence[str]) -> Iterator[Text]:
    yield Text(f"skipped {_count(len(paths), 'file')}: {printable(why)}", style="yellow")
    for path in paths[:MOST_SKIPPED]:
        yield Text(f"  {printable(path)}")
    if len(paths) > MOST_SKIPPED:
        yield Text(f"  and {len(paths) - MOST_SKIPPED:,} more; --json names all")


def legend() -> Text:
    """Say what the columns are."""
    return Text(LEGEND, style="dim")


def notes(whole: Overview, args: ReplayArgs) -> RenderableType:
    """Draw what was made up."""
    return Group(*(Text(f"note: {printable(each)}", style="yellow") for each in noted(whole, args)))


def noted(whole: Overview, args: ReplayArgs) -> Iterator[str]:
    """Yield what was made up."""
    if whole.unnamed and OWN in args.prices:
        yield f"{_count(whole.unnamed, 'session')} without the name of a model: {DEFAULT.note}; give --model"
    if whole.unknown_heads:
        where = _count(whole.unknown_heads, "session")
        yield f"no prompt's size is recorded in {where}: {UNKNOWN_HEAD:,} tokens are taken for system prompt and tools"
    if args.safe_zone is None and any(AT not in name for name in args.strategies if name != NONE):
        taken = f"{SHARE:g} of the window of each session's model, or {UNKNOWN_ZONE:,} tokens if that is not known"
        yield f"no safe zone was given: it is that of `autoprune run`, {taken}"
    if len(args.prices) > 1:
        yield f"the clairvoyants and cache_aware decide by the prices {args.prices[0]}"
