"""Who writes the summaries of a strategy: whom it names, the pruner's own, or the digest. Asks nobody."""

from dataclasses import replace

from autoprune.summarizers import symbols
from autoprune.summarizers.brief import Summarizer
from autoprune.summarizers.chunked import Chunked
from autoprune.summarizers.digest.digest import Digest
from autoprune.summarizers.driver import calls_model
from autoprune.summarizers.levels import Levels
from autoprune.summarizers.openai.summarizer import OpenAISummarizer
from autoprune.summarizers.symbols import Symbols

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
    if isinstance(chosen, Symbols) and llm is not None:
        chosen, note = _told(chosen, llm)
    chosen = in_parts(_styled(chosen, _style_of(strategy)))
    return (Levels(chosen, depth=levels) if levels else chosen), note


def _told(chosen: Symbols, llm: object) -> tuple[Summarizer, str | None]:
    """Symbols that were given no model ask the pruner's, if it is one that can be told how; and what to say if not."""
    if chosen.calls_model or calls_model(llm) is False:
        return chosen, None
    # A batch of messages is short: it needs no parts.
    model = llm.inner if isinstance(llm, Chunked) else llm
    if isinstance(model, OpenAISummarizer):
        told = replace(model, style="free", instructions=symbols.instructions(chosen.words))
        return replace(chosen, summarizer=told), None
    return chosen, (
        "no model was asked for the lines of the messages: llm cannot be told how to write them; give an "
        "OpenAISummarizer, or summarizer=Symbols(model=...) with a function from a prompt to a text"
    )


def _style_of(strategy: object) -> str | None:
    """The style that a strategy wants; where it has a title of its own, one without."""
    style = getattr(strategy, "style", None)
    return "prose" if style == "titled" and getattr(strategy, "title", None) else style


def _styled(summarizer: Summarizer, style: str | None) -> Summarizer:
    """The summarizer in a style, if it knows any."""
    if isinstance(summarizer, Chunked):
        return replace(summarizer, inner=_styled(summarizer.inner, style))
    return replace(summarizer, style=style) if style and isinstance(summarizer, OpenAISummarizer) else summarizer


def in_parts(summarizer: Summarizer) -> Summarizer:
    """The summarizer, asked in parts where it has a window of its own that a history may be too long for."""
    if isinstance(summarizer, OpenAISummarizer) and summarizer.window and summarizer.window > 2 * INSTRUCTION_TOKENS:
        return Chunked(summarizer, summarizer.window - INSTRUCTION_TOKENS)
    return summarizer
