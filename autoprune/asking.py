"""Who writes the summaries of a strategy: whom it names, the pruner's own, or the digest. Asks nobody."""

from dataclasses import replace

from autoprune.summarizers import symbols
from autoprune.summarizers.chunked import Chunked
from autoprune.summarizers.digest import Digest
from autoprune.summarizers.levels import Levels
from autoprune.summarizers.openai import OpenAISummarizer
from autoprune.summarizers.symbols import Symbols
from autoprune.writing import Summarizer

INSTRUCTION_TOKENS = 2_000  # of a window, for what a summarizer is told


def summarizer_of(strategy: object, llm: object) -> tuple[Summarizer, str | None]:
    """Who writes the summary, and what should be said about that.

    A summarizer whose window is known gets longer histories in parts.
    """
    own = getattr(strategy, "summarizer", None)
    chosen = own if own is not None else llm if llm is not None else Digest()
    note = None
    if not callable(chosen):
        kind = type(chosen).__name__
        chosen, note = Digest(), f"llm is a {kind} and no summarizer (see OpenAISummarizer): no model was asked"
    levels = getattr(strategy, "levels", 0)
    chosen = _in_parts(_styled(_told(chosen, llm), getattr(strategy, "style", None)))
    return (Levels(chosen, depth=levels) if levels else chosen), note


def _told(chosen: Summarizer, llm: object) -> Summarizer:
    """Symbols that were given no model ask the pruner's, if it is one that can be told how."""
    if not isinstance(chosen, Symbols) or chosen.calls_model or not isinstance(llm, OpenAISummarizer):
        return chosen
    told = replace(llm, style="free", instructions=symbols.instructions(chosen.words))
    return replace(chosen, summarizer=told)


def _styled(summarizer: Summarizer, style: str | None) -> Summarizer:
    """The summarizer in a style, if it knows any."""
    if isinstance(summarizer, Chunked):
        return replace(summarizer, inner=_styled(summarizer.inner, style))
    return replace(summarizer, style=style) if style and isinstance(summarizer, OpenAISummarizer) else summarizer


def _in_parts(summarizer: Summarizer) -> Summarizer:
    if isinstance(summarizer, OpenAISummarizer) and summarizer.window and summarizer.window > 2 * INSTRUCTION_TOKENS:
        return Chunked(summarizer, summarizer.window - INSTRUCTION_TOKENS)
    return summarizer
