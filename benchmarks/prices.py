"""The prices of the models that people use, as `replay`, the ledger and `cache_aware` know them.

    python benchmarks/prices.py             prints the table
    python benchmarks/prices.py --check     fails if docs/economics.md shows other prices than those of its date
    python benchmarks/prices.py --write     writes the table to docs/economics.md

Prices are those of the installed genai-prices, which reads the vendors' pages; lives of caches are from the vendors'
pages too, and the comments of autoprune/economics name those. Some prices depend on the hour: the table has those at
noon, UTC.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from importlib.metadata import version
from pathlib import Path

from autoprune.economics import life_text, model_prices
from autoprune.settings.values import window_of

PAGE = Path(__file__).parent.parent / "docs" / "economics.md"
TABLE = re.compile(r"^\| model \| input \|.*\n(?:\|.*\n)+\nPrices on (\S+) .*\n", re.MULTILINE)
NOON = time(12, tzinfo=UTC)
MODELS = (
    *("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1", "claude-opus-4-6"),
    *("claude-sonnet-4-5", "claude-haiku-4-5"),
    *("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-sol", "gpt-5.6-sol", "gpt-5.5", "gpt-5.4", "gpt-5"),
    *("gemini-3-pro-preview", "grok-4.6", "deepseek-v4-pro", "glm-5.1", "kimi-k3"),
)


def row(model: str, when: datetime) -> str:
    """The row of a model: dollars, input tokens, the life of its cache, and the prices of long requests."""
    known = model_prices(model, when=when)
    tiers = "; ".join(f"above {each.above:,}: ×{each.prompt:g}, answer ×{each.answer:g}" for each in known.tiers)
    cost = "–" if known.input_price is None else f"${known.input_price * 1_000_000:.4g}"
    window = window_of(model)
    costs = (f"{each:.3g}" for each in (known.write, known.read, known.output))
    cells = f"`{model}`", cost, *costs, life_text(known.life), tiers or "–", f"{window:,}" if window else "–"
    return f"| {' | '.join(cells)} |"


def table(when: datetime) -> Iterator[str]:
    """Yield the lines of the table, and the sentence on its source."""
    yield "| model | input | written | read | answer | cache lives | long requests | prompts up to |"
    yield "|---|--:|--:|--:|--:|--:|---|--:|"
    for model in MODELS:
        yield row(model, when)
    yield ""
    yield f"Prices on {when:%Y-%m-%d} at noon (UTC), from genai-prices {version('genai-prices')}."


def main() -> None:
    """Print the table; compare it with the page's or write it there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the page shows another table")
    parser.add_argument("--write", action="store_true", help="write the table to the page")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    shown = TABLE.search(page)
    day = date.fromisoformat(shown[1]) if given.check and shown else datetime.now(UTC).date()
    text = "".join(f"{line}\n" for line in table(datetime.combine(day, NOON)))
    print(text, end="")
    if given.write and shown:
        PAGE.write_text(f"{page[: shown.start()]}{text}{page[shown.end() :]}", encoding="utf-8")
    elif given.check and not (shown and shown[0].splitlines()[:-1] == text.splitlines()[:-1]):  # by any version
        sys.exit(f"the prices in {PAGE.name} are out of date: run benchmarks/prices.py --write")


if __name__ == "__main__":
    main()
