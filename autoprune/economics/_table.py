"""A ledger as a table for a person who pays the bill. Prints nothing."""

from collections.abc import Iterator, Sequence
from textwrap import fill

from autoprune.economics._entry import Entry, amount
from autoprune.economics._prices import CACHE_LIFE, Prices, lifetime

WIDTH = 80
COLUMN = 8  # nine columns of 8, and one of 8 for the number of the request
NAMED = 3  # prunes that lost money of which each gets a sentence
COLUMNS = ("request", "removed", "placed", "anew", "lasted", "saved", "cache", "re-read", "model", "net")
LEGEND = (
    "request: at which the prune was made; removed: tokens taken out",
    "placed: tokens of placeholders, or of a summary, in their place",
    "anew: tokens behind the first change, which the cache had to be given again",
    "lasted: requests since then, the first one included",
    "Input tokens, each at its price -- saved: what need not be sent any more",
    "cache: what writing placed and anew costs more than reading it from the cache",
    "re-read: what fetching removed results again cost; model: what summaries cost",
    "net: saved - cache - re-read - model; below zero, the prune lost money",
)
COLD = "cold"
OF_COLD = "cold: the cache had died, so that the rewrite was paid for anyway"


def table(entries: Sequence[Entry], total: Entry, reconciled: str) -> str:
    """Return the lines of prunes and their sum, what the columns mean, and what came of it in words."""
    prices = total.prices
    if not entries:
        said = [f"Nothing was pruned in {_requests(total.requests)}.", reconciled]
        return "\n".join(fill(each, WIDTH) for each in said if each)
    lines = ["".join(f"{name:>{COLUMN}}" for name in COLUMNS).rstrip()]
    lines += [_line(str(each.request), each) for each in entries]
    priced = fill(f"Prices in input tokens: {_priced(prices)}.", WIDTH)
    cold = [each for each in entries if each.is_cold]
    lines += [_line("total", total), "", *LEGEND, *([OF_COLD] if cold else ()), priced, ""]
    said = [*_losses(entries, prices), reconciled, _sum(entries, total), _paid_anyway(cold, prices)]
    return "\n".join((*lines, *(fill(each, WIDTH, break_on_hyphens=False) for each in said if each)))


def _line(name: str, entry: Entry) -> str:
    placed = entry.placeholders
    tokens = (entry.removed, placed, max(0, entry.rewritten - placed))
    cache = COLD if entry.is_cold and not round(entry.rewriting) else short(entry.rewriting)
    costs = (cache, *map(short, (entry.rereading, entry.summarizing, entry.net)))
    cells = (name, *map(short, tokens), f"{entry.requests:,}", short(entry.saved), *costs)
    return "".join(f"{cell:>{COLUMN}}" for cell in cells)


def short(number: float) -> str:
    """Return a number in at most seven characters: 99,999, then 100k, 10.0M, 1.0B."""
    size = abs(round(number))
    if size < 100_000:
        return f"{round(number):,}"
    if size < 9_999_500:
        return f"{number / 1_000:,.0f}k"
    return f"{number / 10**6:,.1f}M" if size < 999_950_000 else f"{number / 10**9:,.1f}B"


def _losses(entries: Sequence[Entry], prices: Prices) -> Iterator[str]:
    """Yield a sentence for each prune that lost the most, and one for the others that lost money."""
    losers = sorted((each for each in entries if each.net < 0), key=lambda each: each.net)
    yield from (each.verdict for each in sorted(losers[:NAMED], key=lambda each: each.request))
    if others := losers[NAMED:]:
        numbers = ", ".join(map(str, sorted(each.request for each in others)))
        lost = amount(-sum(each.net for each in others), prices)
        yield f"So did {len(others):,} more, {lost} together: at request{'s' if others[1:] else ''} {numbers}."


def _sum(entries: Sequence[Entry], total: Entry) -> str:
    """Say what all prunes together came to."""
    number = _prunes(len(entries))
    did = "lost money" if total.net < 0 else "saved"
    joint = ": " if total.net < 0 else " "
    return f"In {_requests(total.requests)}, {number} {did}{joint}{amount(abs(total.net), total.prices)} in all."


def _paid_anyway(cold: Sequence[Entry], prices: Prices) -> str:
    """Say what the prunes came to that were made where the cache had died; "" without any."""
    if not cold:
        return ""
    net = sum(each.net for each in cold)
    did = "lost" if net < 0 else "saved"
    return f"Cold, the rewrite was paid for anyway: {_prunes(len(cold))} of these {did} {amount(abs(net), prices)}."


def _prunes(number: int) -> str:
    return "1 prune" if number == 1 else f"{number:,} prunes"


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number:,} requests"


def _priced(prices: Prices) -> str:
    """Return the prices in words, with what is made up."""
    known = f"{prices.write:g} for one written to the cache, {prices.read:g} for one read"
    if prices.life != CACHE_LIFE:
        known += f"; the cache is taken to live {lifetime(prices.life)}"
    return f"{known}{f' ({prices.note})' if prices.note else ''}"
