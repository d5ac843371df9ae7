"""Choose who writes a summary, by name or from a strategy, and adapt it to its task; sum up a single text.

An installed package offers a summarizer under the entry point group `autoprune.summarizers`: a class that makes one, or
a summarizer itself. A shipped summarizer wins over a plugin of the same name.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

from loguru import logger

from autoprune.conversation.messages import sendable
from autoprune.conversation.transcript import Speaker
from autoprune.errors import SettingsError, check_number, near_or_all, type_of
from autoprune.facts.utterances import Utterance
from autoprune.planning.clamping import Clamp
from autoprune.settings.plugins import load_plugin, plugin_names
from autoprune.summarizers.brief import Answer, Brief, Failed, Steps, Summarizer, Written, offers, reads_in_parts
from autoprune.summarizers.digest import Digest
from autoprune.summarizers.driver import CONCURRENCY, MAX_CALLS, MAX_SECONDS, Budget, arun, call_safely, run, steps_of
from autoprune.summarizers.levels import Levels
from autoprune.tokens import Count, exact

GROUP = "autoprune.summarizers"  # of entry points
# To ship a summarizer, write its module in this package and add a line: its name, then "module:maker". A maker with a
# parameter `model_name` gets the model of `--model`. What users construct also goes into the tables of `__init__`.
SUMMARIZERS: Mapping[str, str] = {
    "digest": "digest:Digest",
    "openai": "openai_summarizer:from_environment",
    "action_trace": "action_trace:ActionTrace",
    "symbols": "symbols:Symbols",
}

MAX_TOKENS = 1_000
CHUNK_TOKENS = 1_000  # of a text for a summarizer that reads in parts: it cuts only between utterances
INSTRUCTIONS = """\
The record is one text. Tell what it says: key facts, figures and conclusions first; exact paths, names, line numbers, \
ids and error messages as they stand. Plain text, no title."""


def summarizer_names() -> list[str]:
    """List the names that `summarizer_named` knows: of shipped summarizers and of plugins."""
    return [*SUMMARIZERS, *(name for name in plugin_names(GROUP) if name not in SUMMARIZERS)]


def summarizer_named(text: str, model: str | None = None) -> Summarizer:
    """Create the summarizer that a text names, perhaps with parameters: `digest`, `symbols(batch=5)`, or a plugin's.

    `model` is for summarizers that ask a model of the caller's choice. Raises SettingsError for an unknown name, for
    parameters that cannot be read, and for a missing model.
    """
    name = text.partition("(")[0].strip()
    make = summarizer_maker(name)
    parameters = _parameters(text) if "(" in text else {}
    if "model_name" in inspect.signature(make).parameters:
        parameters.setdefault("model_name", model)
    try:
        return make(**parameters)  # type: ignore[no-any-return]
    except TypeError as error:
        raise SettingsError(f"the summarizer {text!r} cannot be made: {error}") from error


def _parameters(text: str) -> dict[str, Any]:
    """Parse the parameters in a text such as `symbols(batch=5)`. Raises SettingsError if they cannot be read."""
    try:
        called = ast.parse(text.strip(), mode="eval").body
        if not isinstance(called, ast.Call) or called.args:
            raise ValueError("parameters are given by name")
        return {str(each.arg): ast.literal_eval(each.value) for each in called.keywords}
    except (SyntaxError, ValueError) as error:
        raise SettingsError(f"the summarizer {text!r} cannot be read: {error}") from error


def summarizer_maker(name: str) -> Callable[..., Any]:
    """Look up the maker of a summarizer. Raises SettingsError for an unknown name."""
    if name in SUMMARIZERS:
        make: Callable[..., Any] = resolve_name(f"autoprune.summarizers.{SUMMARIZERS[name]}")
        return make
    plugin: Any = load_plugin(GROUP, name)
    if plugin is None:
        names = summarizer_names()
        raise SettingsError(f"there is no summarizer {name!r}{near_or_all(name, names)}")
    if not callable(plugin):
        raise SettingsError(f"the plugin {name!r} offers {plugin!r}: give a summarizer, or a class that makes one")
    return plugin if isinstance(plugin, type) else lambda: plugin


def summarizer_of(strategy: object, llm: object) -> tuple[Summarizer, str | None]:
    """Choose the summarizer for a strategy, with a note if it is not the configured one.

    `llm` is the pruner's model. A summarizer whose window is known reads longer histories in parts.
    """
    own = own_summarizer(strategy)
    chosen = own if own is not None else llm if llm is not None else Digest()
    note = None
    if not callable(chosen):
        kind = type_of(chosen)
        chosen, note = Digest(), f"llm is {kind} and no summarizer (see OpenAISummarizer): no model was asked"
    if llm is not None:
        adapted = _adapt(chosen, "with_model", llm)
        chosen, note = (chosen, adapted.why) if isinstance(adapted, Failed) else (adapted, note)
    if instructions := getattr(strategy, "instructions", None):
        chosen = with_instructions(chosen, instructions)
    chosen = in_parts(chosen)
    levels = getattr(strategy, "levels", 0)
    return (Levels(chosen, depth=levels) if levels else chosen), note


def own_summarizer(strategy: object) -> Any:
    """Return the strategy's own summarizer, looked up if the strategy names it; None if it has none."""
    own = getattr(strategy, "summarizer", None)
    return summarizer_named(own) if isinstance(own, str) else own


def fallbacks(summarizer: Summarizer) -> Iterator[Summarizer]:
    """Yield the summarizers to ask in turn if the previous one fails; the last is the digest."""
    asked = [summarizer]
    while True:
        last = asked[-1]
        other = getattr(last, "fallback", None) if offers(last, "fallback") else Digest()
        if not callable(other) or any(other is one for one in asked):
            return
        asked.append(other)
        yield other


def with_instructions(summarizer: Summarizer, instructions: str, *, alone: bool = False) -> Summarizer:
    """Return a summarizer that follows instructions, then its own unless `alone`; the same one if it accepts none."""
    result = _adapt(summarizer, "with_instructions", instructions, alone)
    return summarizer if isinstance(result, Failed) else result


def in_parts(summarizer: Summarizer) -> Summarizer:
    """Return a summarizer that reads long histories in parts; the same one if its window is not known."""
    result = _adapt(summarizer, "in_parts")
    return summarizer if isinstance(result, Failed) else result


def _adapt(summarizer: Summarizer, name: str, *arguments: object) -> Summarizer | Failed:
    """Call an optional method that adapts a summarizer; if it has no such method, return the summarizer itself."""
    method = getattr(summarizer, name) if offers(summarizer, name) else None
    result = call_safely(method, *arguments) if callable(method) else summarizer
    return result if isinstance(result, Failed) or callable(result) else summarizer


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
    """Sum up one text in at most `max_tokens` tokens. A text that fits is returned unchanged, without any call.

    `summarizer` is any summarizer that a `ConversationPruner` takes; `request` is what the user wants to know. Without
    a summarizer, or if it fails, the text is cut to its head and tail with a mark between them, and the reason is
    logged as a warning with loguru. `max_calls` and `max_seconds` limit all questions together. Raises SettingsError
    for an invalid limit.
    """
    brief = _text_brief(text, max_tokens, request, count)
    if brief.count(text) <= max_tokens:
        return text
    answer = run(_text_steps(summarizer, brief), CONCURRENCY, Budget(max_calls, max_seconds))
    return _finish_text(text, brief, answer)


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
    """Sum up one text as `summarize_text` does, with an awaitable summarizer."""
    brief = _text_brief(text, max_tokens, request, count)
    if brief.count(text) <= max_tokens:
        return text
    answer = await arun(_text_steps(summarizer, brief), CONCURRENCY, Budget(max_calls, max_seconds))
    return _finish_text(text, brief, answer)


def _text_brief(text: str, max_tokens: int, request: str, count: Count | None) -> Brief:
    if not isinstance(text, str):
        raise SettingsError(f"the text to sum up is {text!r}: give a str")
    check_number("max_tokens", max_tokens, 1)
    return Brief((Utterance(Speaker.TOOL, text),), "", max_tokens, count or exact(), request)


def _text_steps(summarizer: Summarizer | None, brief: Brief) -> Steps:
    if summarizer is None:
        return Failed("")
    adapted = in_parts(with_instructions(summarizer, INSTRUCTIONS))
    if reads_in_parts(adapted):
        chunks = _text_chunks(brief.utterances[0].words, brief.count)
        brief = replace(brief, utterances=tuple(Utterance(Speaker.TOOL, chunk) for chunk in chunks))
    return (yield from steps_of(adapted, brief))


def _text_chunks(text: str, count: Count) -> Iterator[str]:
    """Yield a text in chunks of whole lines, of about `CHUNK_TOKENS` each; longer lines are cut."""
    length = max(1, len(text) * CHUNK_TOKENS // max(count(text), 1))  # characters
    chunk = ""
    for line in text.splitlines(keepends=True):
        for part in (line[at : at + length] for at in range(0, len(line), length)):
            if chunk and len(chunk) + len(part) > length:
                yield chunk
                chunk = ""
            chunk += part
    yield chunk


def _finish_text(text: str, brief: Brief, answer: Answer) -> str:
    """Return the summary, cut to its room if it is too long. If there is none, return the text itself, cut."""
    if isinstance(answer, Written):
        for note in answer.notes:
            logger.warning(note)
        result = sendable(answer.text).strip()
        if brief.count(result) <= brief.max_tokens:
            return result
        logger.warning(f"the summary had {brief.count(result)} tokens and was cut to {brief.max_tokens}")
        text = result
    elif answer.why:
        logger.warning(f"the summarizer failed ({answer.why}): the text was cut")
    return Clamp(brief.max_tokens).shortened(text, brief.count) or ""
