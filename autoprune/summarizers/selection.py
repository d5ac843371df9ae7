"""Choose who writes a summary: a strategy's summarizer, the pruner's, or the digest; and adapt it to its task."""

from collections.abc import Iterator

from autoprune.summarizers.brief import Failed, Summarizer, offers
from autoprune.summarizers.digest.digest import Digest
from autoprune.summarizers.driver import tried
from autoprune.summarizers.levels import Levels


def summarizer_of(strategy: object, llm: object) -> tuple[Summarizer, str | None]:
    """Return who writes the summaries of a strategy, and a note where that is not as asked.

    `llm` is what the pruner was given. A summarizer whose window is known gets longer histories in parts.
    """
    own = getattr(strategy, "summarizer", None)
    chosen = own if own is not None else llm if llm is not None else Digest()
    note = None
    if not callable(chosen):
        kind = type(chosen).__name__
        chosen, note = Digest(), f"llm is a {kind} and no summarizer (see OpenAISummarizer): no model was asked"
    if llm is not None:
        given = _offered(chosen, "with_model", llm)
        chosen, note = (chosen, given.why) if isinstance(given, Failed) else (given, note)
    chosen = in_parts(with_style(chosen, _style_of(strategy)))
    levels = getattr(strategy, "levels", 0)
    return (Levels(chosen, depth=levels) if levels else chosen), note


def fallbacks(summarizer: Summarizer) -> Iterator[Summarizer]:
    """Yield who is asked where a summarizer fails, and where that one fails, and so on: the last is the digest."""
    asked = [summarizer]
    while True:
        last = asked[-1]
        other = getattr(last, "fallback", None) if offers(last, "fallback") else Digest()
        if not callable(other) or any(other is one for one in asked):
            return
        asked.append(other)
        yield other


def with_style(summarizer: Summarizer, style: str | None) -> Summarizer:
    """Return a summarizer that writes in a style; the same one where it knows no styles, or none is wanted."""
    made = _offered(summarizer, "with_style", style) if style else summarizer
    return summarizer if isinstance(made, Failed) else made


def with_instructions(summarizer: Summarizer, instructions: str, *, alone: bool = False) -> Summarizer:
    """Return a summarizer that writes as instructions say; the same one where it takes none.

    Instructions of its own come behind these, or with `alone` go.
    """
    made = _offered(summarizer, "with_instructions", instructions, alone)
    return summarizer if isinstance(made, Failed) else made


def in_parts(summarizer: Summarizer) -> Summarizer:
    """Return a summarizer that reads in parts what is too long for its window; the same one where none is known."""
    made = _offered(summarizer, "in_parts")
    return summarizer if isinstance(made, Failed) else made


def _offered(summarizer: Summarizer, name: str, *arguments: object) -> Summarizer | Failed:
    """Return what a summarizer's method makes of it; the summarizer itself where it has no such method."""
    method = getattr(summarizer, name) if offers(summarizer, name) else None
    made = tried(method, *arguments) if callable(method) else summarizer
    if isinstance(made, Failed) or callable(made):
        return made
    return summarizer


def _style_of(strategy: object) -> str | None:
    """Return the style that a strategy wants; where it has a title of its own, one without a title."""
    style = getattr(strategy, "style", None)
    return "prose" if style == "titled" and getattr(strategy, "title", None) else style
