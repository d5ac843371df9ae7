"""Sum up one text by itself, with the summarizers that sum up conversations."""

from collections.abc import Iterator
from dataclasses import replace

from loguru import logger

from autoprune.conversation.transcript import Speaker
from autoprune.errors import SettingsError, check_number
from autoprune.facts.plain_text import sendable
from autoprune.facts.utterances import Utterance
from autoprune.planning.clamping import Clamp
from autoprune.summarizers.brief import Answer, Brief, Failed, Steps, Summarizer, Written, reads_in_parts
from autoprune.summarizers.driver import CONCURRENCY, Budget, arun, run, steps_of
from autoprune.summarizers.selection import in_parts, with_instructions
from autoprune.tokens import Count, exact

MAX_TOKENS = 1_000
MAX_CALLS = 16
MAX_SECONDS = 300.0
CHUNK_TOKENS = 1_000  # of a text for a summarizer that reads in parts: it is cut between utterances alone
INSTRUCTIONS = """\
The record is one text. Tell what it says: key facts, figures and conclusions first; exact paths, names, line numbers, \
ids and error messages as they stand. Plain text, no title."""


def summarize_text(
    text: str,
    summarizer: Summarizer | None = None,
    *,
    max_tokens: int = MAX_TOKENS,
    request: str = "",
    count: Count | None = None,
    max_calls: int = MAX_CALLS,
    max_seconds: float | None = MAX_SECONDS,
) -> str:
    """Sum up one text in at most `max_tokens` tokens; one that has no more is returned as it is, and nobody is asked.

    `summarizer` is one that a `ConversationPruner` takes, too; `request` is what the user wants to know. Without one,
    or where it fails, the text is cut to its head and tail, with a mark for what is missing; loguru gets the reason as
    a warning. `max_calls` and `max_seconds` are for all questions together. Raises SettingsError for a wrong limit.
    """
    brief = _brief(text, max_tokens, request, count)
    if brief.count(text) <= max_tokens:
        return text
    return _finish(text, brief, run(_steps(summarizer, brief), CONCURRENCY, Budget(max_calls, max_seconds)))


async def asummarize_text(
    text: str,
    summarizer: Summarizer | None = None,
    *,
    max_tokens: int = MAX_TOKENS,
    request: str = "",
    count: Count | None = None,
    max_calls: int = MAX_CALLS,
    max_seconds: float | None = MAX_SECONDS,
) -> str:
    """Sum up one text as `summarize_text` does; the summarizer is awaited."""
    brief = _brief(text, max_tokens, request, count)
    if brief.count(text) <= max_tokens:
        return text
    return _finish(text, brief, await arun(_steps(summarizer, brief), CONCURRENCY, Budget(max_calls, max_seconds)))


def _brief(text: str, max_tokens: int, request: str, count: Count | None) -> Brief:
    if not isinstance(text, str):
        raise SettingsError(f"the text to sum up is {text!r}: give a str")
    check_number("max_tokens", max_tokens, 1)
    return Brief((Utterance(Speaker.TOOL, text),), "", max_tokens, count or exact(), request)


def _steps(summarizer: Summarizer | None, brief: Brief) -> Steps:
    if summarizer is None:
        return Failed("")
    adapted = in_parts(with_instructions(summarizer, INSTRUCTIONS))
    if reads_in_parts(adapted):
        chunks = _chunks(brief.utterances[0].words, brief.count)
        brief = replace(brief, utterances=tuple(Utterance(Speaker.TOOL, chunk) for chunk in chunks))
    return (yield from steps_of(adapted, brief))


def _chunks(text: str, count: Count) -> Iterator[str]:
    """Yield the text in chunks of whole lines, of about as many tokens each; cut a line that is longer."""
    length = max(1, len(text) * CHUNK_TOKENS // max(count(text), 1))  # characters
    chunk = ""
    for line in text.splitlines(keepends=True):
        for part in (line[at : at + length] for at in range(0, len(line), length)):
            if chunk and len(chunk) + len(part) > length:
                yield chunk
                chunk = ""
            chunk += part
    yield chunk


def _finish(text: str, brief: Brief, answer: Answer) -> str:
    """Return the summary, cut to its room where it is longer; without one, return the text, cut."""
    if isinstance(answer, Written):
        for note in answer.notes:
            logger.warning(note)
        made = sendable(answer.text).strip()
        if brief.count(made) <= brief.max_tokens:
            return made
        logger.warning(f"the summary had {brief.count(made)} tokens and was cut to {brief.max_tokens}")
        text = made
    elif answer.why:
        logger.warning(f"the summarizer failed ({answer.why}): the text was cut")
    return Clamp(brief.max_tokens).shortened(text, brief.count) or ""
