"""Summarizers, and everything needed to write one.

A summarizer is any callable that takes a `Brief` and returns a text; `Summarizer` lists what else it may offer.
`Digest` and `ActionTrace` need no model, `OpenAISummarizer` asks one, `Symbols` works with or without one, and
`Chunked` and `Levels` ask another summarizer in parts or level by level. `sections` and `user_words` help to write one,
and `selection` finds one by name.

Lazy imports: most callers never fold, and importing the summarizers is slow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoprune.facts.actions import Action, read_actions
    from autoprune.facts.utterances import Utterance
    from autoprune.summarizers.action_trace import ActionTrace
    from autoprune.summarizers.brief import Answer, Ask, Brief, Failed, Refused, Steps, Summarizer, Written
    from autoprune.summarizers.chunked import Chunked
    from autoprune.summarizers.digest import Digest
    from autoprune.summarizers.levels import Levels
    from autoprune.summarizers.openai_summarizer import OpenAISummarizer
    from autoprune.summarizers.selection import asummarize_text, summarize_text
    from autoprune.summarizers.symbols import Symbols

__all__ = [
    "Action",
    "ActionTrace",
    "Answer",
    "Ask",
    "Brief",
    "Chunked",
    "Digest",
    "Failed",
    "Levels",
    "OpenAISummarizer",
    "Refused",
    "Steps",
    "Summarizer",
    "Symbols",
    "Utterance",
    "Written",
    "asummarize_text",
    "read_actions",
    "summarize_text",
]
LAZY = {
    **dict.fromkeys(("Action", "read_actions"), "autoprune.facts.actions"),
    "ActionTrace": "autoprune.summarizers.action_trace",
    **dict.fromkeys(
        ("Answer", "Ask", "Brief", "Failed", "Refused", "Steps", "Summarizer", "Written"), "autoprune.summarizers.brief"
    ),
    "Chunked": "autoprune.summarizers.chunked",
    "Digest": "autoprune.summarizers.digest",
    "Levels": "autoprune.summarizers.levels",
    "OpenAISummarizer": "autoprune.summarizers.openai_summarizer",
    "Symbols": "autoprune.summarizers.symbols",
    "Utterance": "autoprune.facts.utterances",
    **dict.fromkeys(("summarize_text", "asummarize_text"), "autoprune.summarizers.selection"),
}


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LAZY[name]), name)
