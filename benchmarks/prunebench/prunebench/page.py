"""Render a benchmark as one self-contained HTML file. Opens no file."""

from collections.abc import Sequence
from dataclasses import replace

from autoprune.apps.frontend.markup import Markup, concatenate, element
from autoprune.apps.replay.page import fill
from autoprune.apps.replay.page_strategies import Ranked, at_other_prices, bill_parts
from autoprune.apps.replay.verdict import Standing
from autoprune.errors import count_noun

from prunebench.figures import CorpusFigures


def benchmark_page(corpora: Sequence[CorpusFigures], *, command: str) -> str:
    """Render a benchmark as an HTML page: for each corpus, its policies at each price list."""
    sections: list[Markup] = []
    numbered: list[Sequence[Ranked]] = []
    for at, corpus in enumerate(corpora):
        parts: list[Markup] = []
        for prices, ranking in corpus.rankings.items():
            # The row of `autoprune run` stands among the others.
            ranked = [Ranked(place, replace(each, run="")) for place, each in enumerate(_by_band(ranking), 1)]
            number = len(numbered)
            parts += [at_other_prices(number, prices, ranked)] if parts else bill_parts(number, prices, ranked)
            numbered.append(ranked)
        heading = element("h2", corpus.name, id=f"corpus-{at}")
        whole = corpus.whole
        sizes = f"{count_noun(whole.sessions, 'session')}, {count_noun(whole.requests, 'request')}"
        about = element("p", sizes, class_="note")
        sections.append(element("section", heading, about, *parts, aria_labelledby=f"corpus-{at}"))
    return fill(
        title="Benchmark of context policies",
        summary="At each request each policy decided offline, and the prompt that it would have sent was measured.",
        answer="",
        command=command,
        bills=concatenate(sections),
        sessions="",
        texts="This page holds figures, and no text of a session.",
        ranked=numbered,
        details="",
    )


def _by_band(rows: Sequence[Standing]) -> list[Standing]:
    """The order of the page of a replay, whose tables this page has: the clairvoyant last, the others by evidence."""
    return sorted(rows, key=lambda each: (each.is_clairvoyant, -each.band, each.rereads.value))
